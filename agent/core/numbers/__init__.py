"""Quantities, percentiles, histograms, codecs and array types: arithmetic that knows no Kubernetes.

Imports nothing of agent.
Never names a pod, a node or a policy.
"""
