"""VerticalPodAutoscaler objects of the recommender ``plimsoll``: what they order, and what their status says.

May import admission, orders, cluster and numbers; not eviction, which is told what it needs.
Never reads or writes an object, and never sizes anybody.
"""
