"""What is kept of windows: minutes, roll-ups, the hours of a workload over all nodes, directives.

May import window and below.
Never recommends; never forgets what was not asked to be forgotten.
"""
