"""Evictions within the budgets of the whole cluster, and the cap on overload taints.

May import buffers, store, cluster.
Never evicts in doubt.
"""
