"""The sampling thread, the units that it watches, and the readers of its rings.

Imports no other room of node.
Never waits for a lock, a file or the network in a turn.
"""
