"""Verbs over files: recordings written and played again, traces replayed through policies.

May import every other room of cli, and the verbs of node.
Never writes to a cluster.
"""
