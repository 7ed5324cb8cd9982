"""One module a verb: parse, ask, show; loaded by main when it is asked for. Rooms: ``node``, ``offline``, ``cluster``.

May import every other room of cli; ``offline`` imports ``node``, ``cluster`` neither of them.
Never holds what two verbs need.
"""
