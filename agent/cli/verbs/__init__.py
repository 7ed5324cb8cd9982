"""One module a verb: parse, ask, show; loaded by main when it is asked for.

May import every other room of cli.
Never holds what two verbs need.
"""
