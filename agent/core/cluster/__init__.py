"""Pods, nodes, workloads, QoS classes, HPAs and versions, as the Kubernetes API states them.

May import numbers.
Never decides anything: what is stated is only read.
"""
