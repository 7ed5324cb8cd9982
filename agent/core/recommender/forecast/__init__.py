"""The policy that looks ahead by the day and the week.

May import what recommender may, and recommender's own contract.
Never another policy's alcove but cruise's memory rule.
"""
