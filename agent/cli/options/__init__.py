"""Arguments that verbs share, output files, start and shutdown.

May import verb_table.
Never prints a result.
"""
