"""Crane's recommender as a policy.

May import what recommender may, and recommender's own contract.
Never another policy's alcove.
"""
