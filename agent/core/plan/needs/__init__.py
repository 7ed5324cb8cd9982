"""What every pod of a node needs, who may be sized and who not: demands, directives, boosts, tickets, reasons.

May import recommender and below, and of plan ``pod_change`` only.
Never asks whether the node has room for it.
"""
