"""The acting thread: it takes a plan's steps, sends them and hears what became of them.

May import everything below it.
Never changes a pod of another node.
"""
