"""What is sent for a pod, what came of it, and what may be done next: ledger, gate, patch, originals.

May import plan and below.
Never decides how much: that is the plan's.
"""
