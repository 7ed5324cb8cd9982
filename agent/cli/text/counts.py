"""So many of something, in words. Face, pure."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Give ``1 pod``, ``2 pods``, ``0 pods``; for nouns that take an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
