"""What people order on the node: pause, pins, restores; and the decision log.

May import files and sockets.
Never outlives what was ordered.
"""
