"""From Kubernetes objects to values. ``pod_json``, ``buffer_json`` and ``cluster_json`` are pure; the API server and files come through here."""
