"""VerticalPodAutoscaler objects of the recommender ``plimsoll``, and HPAs' targets that move with requests.

May import admission, orders, cluster and numbers; not eviction, which is told what it needs.
Never reads or writes an object, and never sizes anybody.
"""
