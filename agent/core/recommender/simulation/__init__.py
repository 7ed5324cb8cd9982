"""Replays a policy over a trace: what it would have asked for, and what that would have cost.

May import what recommender may.
Never looks ahead of the replayed moment.
"""
