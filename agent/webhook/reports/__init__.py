"""What agents post and what they are answered.

May import http, workloads, store.
Never believes a node of more than itself.
"""
