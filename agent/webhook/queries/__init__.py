"""What people ask: workloads, buffers, nodes, what applies; and what they have forgotten.

May import reports, http, workloads, buffers.
Never answers without the right that RBAC gives.
"""
