"""The database: tables, log, marks, sketches, migrations, and the bytes that lie in it.

Imports no other room of webhook.
Never holds a transaction over a network call.
"""
