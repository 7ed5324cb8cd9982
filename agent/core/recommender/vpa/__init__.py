"""The Vertical Pod Autoscaler's recommender as a policy, number for number.

May import what recommender may, and recommender's own contract.
Never another policy's alcove.
"""
