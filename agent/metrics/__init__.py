"""Prometheus names, units and text: the only place where millicores become cores.

May import core and the ground floor.
Never measures anything: it is handed figures, or asks for them when it is scraped.
"""
