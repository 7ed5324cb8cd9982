"""Serving certificates: made, rotated, served, registered.

May import cluster.
Never serves a certificate that the registration does not trust yet.
"""
