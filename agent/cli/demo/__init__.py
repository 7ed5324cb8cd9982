"""A tree of real cgroups and its loads, to look at.

Imports no other room of cli.
Never leaves a cgroup behind.
"""
