"""Recommendations and a node to ordered steps, with invariants that hold after each of them.

May import recommender and below. ``planner`` and ``steps`` stand on ``sizing``, that on the values here and ``needs``.
Never sends anything, never remembers the last plan.
"""
