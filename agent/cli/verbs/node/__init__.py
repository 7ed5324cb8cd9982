"""Verbs about one node: the agent itself, and what it measures, recommends, plans, does and may be told.

May import every other room of cli, and no other room of verbs.
Never asks the webhook for what the node knows.
"""
