"""The control thread: evaluation, decisions, planner.

May import history, orders, sampling and below.
Never sends a change.
"""
