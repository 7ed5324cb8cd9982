"""What is looked after beside requests: overload taint, pod limits, reserved memory.

May import recommender, cluster and below.
Never touches a pod that is excluded.
"""
