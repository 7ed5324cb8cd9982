"""The whole cluster in memory, from watches.

Imports no other room of webhook.
Never writes to the API server.
"""
