"""From Kubernetes objects to values: the API server and files come through here.

May import core and the ground floor. ``pod_json``, ``buffer_json`` and ``cluster_json`` are pure.
Never decides anything.
"""
