"""The Kubernetes API: requests, watches and writes, and its JSON as values of core.

May import core and the ground floor. ``pod_json``, ``buffer_json`` and ``cluster_json`` are pure.
Never decides: no policy, no retries but the ones that a watch or an election is made of.
"""
