"""The face of `audit`.

May import words, text and options.
Never changes a cgroup.
"""
