"""The central webhook: roll-ups in, directives out, and sizes for new pods.

May import core, kube, metrics and settings.
Never reads a cgroup, and the agent never loads it.
"""
