"""The face of `top`: table, details, live screen.

May import words, text and options.
Never asks: it is handed what to show.
"""
