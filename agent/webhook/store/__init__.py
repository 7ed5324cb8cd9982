"""The webhook's memory that outlasts it, in rooms: ``database``, ``entries`` (bytes that lie in it), ``records``.

Imports no other room of webhook; an import contract holds the order of the rooms.
Never holds a transaction over a network call.
"""
