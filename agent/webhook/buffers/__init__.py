"""The CapacityBuffer controller and its placeholder pods.

May import cluster.
Never writes a PodTemplate that it does not own.
"""
