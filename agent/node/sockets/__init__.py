"""The sockets that the agent serves: HTTP for metrics and health, the control socket for verbs.

Imports no other room of node.
Never computes in the thread that reads and writes.
"""
