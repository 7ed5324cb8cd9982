"""What is kept of windows, in rooms: ``minute`` of a node, ``reports`` to the webhook, ``workloads`` over all nodes.

May import window and below; ``workloads`` imports the other two, which do not know each other.
Never recommends; never forgets what was not asked to be forgotten.
"""
