"""Seven days on disk, and what the policies have learnt of them.

May import files and sampling.
Never rewrites a day that is complete.
"""
