"""TLS, routes, bodies, connections, who may call.

May import store (its exceptions) and admission (the author of its answers).
Never reads a body beyond its bound.
"""
