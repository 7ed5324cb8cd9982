"""What nodes and pods cost, and which nodes could go. Core, pure; all money in decimal arithmetic.

May import ``cluster`` and ``numbers``. Never asks anybody for a price: prices come from settings and sheets alone.
"""
