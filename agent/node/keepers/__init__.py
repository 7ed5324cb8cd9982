"""What is looked after beside requests: overload taint, pod limits, protected and reserved memory.

May import recommender, cluster and below.
Never touches a pod that is excluded.
"""
