"""How many examples a property test looks at: what it asks for, and fewer in the fast tier."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings

USUAL: Final = 100
"""Of a test that asks for no number, but in the profile ``quick``."""
LEAST: Final = 5


def examples(count: int, **others: Any) -> settings:
    """Return settings for so many examples; with ``make unit`` for as much smaller a share as its profile has."""
    loaded = settings.get_profile(settings.get_current_profile_name())
    share = min(1.0, loaded.max_examples / USUAL)
    return settings(max_examples=max(LEAST, round(count * share)), **others)
