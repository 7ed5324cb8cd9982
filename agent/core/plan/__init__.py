"""Recommendations and a node to ordered steps, with invariants that hold after each of them.

May import recommender and below.
Never sends anything, never remembers the last plan.
"""
