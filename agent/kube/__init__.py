"""The Kubernetes API: requests, watches and writes, and its JSON as values of core.

May import core and the ground floor. ``objects`` is pure; ``client`` knows no object; ``watch`` and ``calls`` use both.
Never decides: no policy, no retries but the ones that a watch or an election is made of.
"""
