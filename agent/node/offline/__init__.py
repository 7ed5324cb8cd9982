"""A node as files have it: recordings, state directories, replay.

May import everything below it and the assembly's parts.
Never writes to what it reads.
"""
