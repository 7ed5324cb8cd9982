"""From raw counters to figures over a time: CPU, memory, pressure, urgency, overload, pace.

May import orders, cluster and numbers.
Never keeps history, never recommends.
"""
