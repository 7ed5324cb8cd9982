"""The faces of `plan` and `events`.

May import words, text and options.
Never asks: it is handed what to show.
"""
