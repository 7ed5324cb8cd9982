"""The key ``pause`` of the ConfigMap ``plimsoll``, read. Core, pure."""

from __future__ import annotations

from typing import Final

LONGEST_PAUSE: Final = 1024
"""Characters of a reason; the rest of a longer one is cut off."""
UNSTATED_PAUSE: Final = "the ConfigMap says so"
_ON: Final = "true"
_OFF: Final = frozenset({"", "false"})


def pause_reason_of(text: str) -> str | None:
    """Give why the cluster is paused, on one line; None = it is not.

    Args:
        text: ``true`` or the reason in words; empty or ``false`` is no pause.
    """
    words = " ".join(text.split())
    if words.lower() in _OFF:
        return None
    return UNSTATED_PAUSE if words.lower() == _ON else words[:LONGEST_PAUSE]
