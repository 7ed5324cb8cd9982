"""Spans, tables, paragraphs, charts and figures: how text is set.

May import options.
Never knows a message's meaning.
"""
