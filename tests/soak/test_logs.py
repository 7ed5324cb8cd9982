"""Logs are searched line by line; what a kill cut short costs no other line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.core.resize.decision import Outcome
from tests.soak.logs import clock_off, errors, moments, sent, traces

LINES = """plain words
{"message": "resize", "level": "info", "pod": "soak/web-1", "outcome": "accepted"}
{"message": "resize", "level": "info", "pod": "soak/web-1", "outcome": "accepted"}
{"ts": "2026-01-01T00:00:01.500Z", "message": "holds are damaged", "level": "error"}
{"message": "resize", "level": "inf
{"message": "a turn failed", "level": "error", "exception": "Traceback (most recent call last):\\n  File"}
"""


def test_lines_are_counted_and_tracebacks_told_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "agent-1.log"
    file.write_text(LINES)
    assert sent([file]) == {("soak/web-1", Outcome.ACCEPTED): 2}
    assert errors([file]) == {"holds are damaged": 1, "a turn failed": 1}
    assert moments([file]) == [1767225601.5]
    (trace,) = traces(file)
    assert trace.startswith("agent-1.log:6: ")


def test_a_clock_is_off_by_what_was_written_before_the_start_or_after_the_last_write(tmp_path: Path) -> None:
    file = tmp_path / "agent-1.log"
    file.write_text(LINES)
    written_unix = 1767225601.5
    os.utime(file, (0.0, written_unix - 3590.0))
    assert clock_off(file, written_unix - 4000.0) == pytest.approx((3590.0, 4000.0))
    os.utime(file, (0.0, written_unix + 3700.0))
    assert clock_off(file, written_unix + 3600.0) == pytest.approx((-3700.0, -3600.0))
    file.write_text("plain words\n")
    assert clock_off(file, written_unix) is None
