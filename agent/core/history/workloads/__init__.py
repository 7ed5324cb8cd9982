"""A workload over all nodes: its hours, sketches, runs and starts, who claims how much, how its pods fared.

May import minute and reports, window and below.
Never trusts one node alone; never keeps a store: that is the webhook's.
"""
