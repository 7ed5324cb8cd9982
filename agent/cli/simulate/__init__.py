"""The face of `simulate`, and the readers of trace files.

May import words, text and options.
Never looks ahead of the replayed moment.
"""
