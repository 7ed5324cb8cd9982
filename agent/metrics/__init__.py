"""Prometheus names, units and text: the only place where millicores become cores."""
