"""The API server as this node sees it: its pods, its own rights, the cluster's pause.

Imports no other room of node.
Never writes; never reads another node's pods.
"""
