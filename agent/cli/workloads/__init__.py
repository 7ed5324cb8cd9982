"""The faces of `workloads`, `buffers` and `admission`.

May import words, text and options.
Never asks: it is handed what to show.
"""
