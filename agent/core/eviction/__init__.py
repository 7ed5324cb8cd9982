"""Who may go, within whose budget; how many nodes may carry the overload taint.

May import everything else of core.
Never evicts beyond a PodDisruptionBudget.
"""
