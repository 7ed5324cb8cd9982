"""The faces of `recommend` and `why`.

May import words, text and options.
Never asks: it is handed what to show.
"""
