"""AdmissionReview bytes in, bytes out.

Imports no other room of webhook: what it needs it is handed as Protocols.
Never answers late: in doubt the pod is admitted unchanged.
"""
