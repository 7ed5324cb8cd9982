"""What reasons, bounds, outcomes and units are called for people.

May import text.
Never computes a figure.
"""
