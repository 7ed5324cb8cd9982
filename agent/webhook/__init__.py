"""The central webhook: roll-ups in, directives out, and sizes for new pods.

May import core, kube, metrics, settings and the ground floor.
Never reads a cgroup, and the agent never loads it.
"""
