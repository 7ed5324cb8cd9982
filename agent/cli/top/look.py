"""What a terminal can show: everything in a page of ``top`` that depends on it. Face, pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent.cli.text.spans import Glyphs
from agent.cli.top.view import DEFAULT_THRESHOLDS, Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalLook:
    """What a terminal can show."""

    width: int
    glyphs: Glyphs
    has_colour: bool
    """Without colour, "!" stands before what would be red."""
    thresholds: Thresholds = DEFAULT_THRESHOLDS
