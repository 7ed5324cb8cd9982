"""What people ask: workloads, buffers, nodes, what applies; what they have forgotten, and what they import.

May import reports, http, workloads, buffers.
Never answers without the right that RBAC gives.
"""
