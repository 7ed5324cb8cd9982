"""What settings, annotations and cluster rules order for one pod.

May import cluster and numbers.
Never looks at what was measured.
"""
