"""One HTML page that needs nothing from elsewhere: its head, its style, its body. Face, pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def html_page(title: str, style: str, body: Sequence[str]) -> str:
    """Return the page; the title is escaped here, the parts of the body are HTML."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{style}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )
