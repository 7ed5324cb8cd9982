"""Whether an asker holds an answer already, by its entity tag (RFC 9110, 13.1.2). Webhook; below every room."""

from __future__ import annotations

from typing import Final

_WEAK: Final = "W/"


def is_held(if_none_match: str | None, etag: str) -> bool:
    """Return whether If-None-Match names a tag, or all by ``*``; whether either is called weak does not count."""
    names = {name.strip().removeprefix(_WEAK) for name in (if_none_match or "").split(",")}
    return not names.isdisjoint((etag.removeprefix(_WEAK), "*"))
