"""Kubernetes JSON to values of core and back: pods, buffers, autoscalers, what the whole cluster holds.

May import core and the ground floor, and no other room of kube. Pure but for ``pods_file``, which reads one.
Never calls the API server.
"""
