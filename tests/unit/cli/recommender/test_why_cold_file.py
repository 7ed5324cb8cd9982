"""What ``why`` says of file cache that nobody came back for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.cli.recommender.why_figures import memory_lines
from agent.cli.text.paragraphs import Page
from agent.cli.text.spans import ASCII
from agent.core.cluster.unit import UnitResources
from agent.core.window.snapshot import ColdFile, Missing
from tests.explanations import explanation
from tests.subjects import MI, memory_window, subject

COLD = ColdFile(
    total_bytes=350 * MI, active_bytes=300 * MI, refaulted_bytes=0, window_seconds=1800.0, is_left_out=False
)


def said(cold: ColdFile | None, limit_mib: int | None = None) -> str:
    """The sentence of the memory section, in one line."""
    memory = memory_window(900 * MI, cold_file=cold, missing={} if cold else {"cold_file": Missing.TOO_FEW_SAMPLES})
    limit_bytes = None if limit_mib is None else limit_mib * MI
    resources = UnitResources(memory_request_bytes=1000 * MI, memory_limit_bytes=limit_bytes)
    item = explanation(subject(memory=memory, resources=resources))
    text = "\n".join("".join(span.text for span in line) for line in memory_lines(item, Page(width=400, glyphs=ASCII)))
    (line,) = [line for line in text.split("\n") if line.startswith("cold file cache")]
    return line.removeprefix("cold file cache").strip()


@pytest.mark.parametrize(
    ("is_left_out", "limit_mib", "asked"),
    [
        (False, None, "kept in the request, memory.coldFile is report"),
        (False, 1000, "kept in the request, which is the limit"),
        (True, 2000, "left out of the request, memory.coldFile is exclude; the limit is not lowered"),
    ],
)
def test_cold_cache_is_told_with_whether_it_is_asked_for(is_left_out: bool, limit_mib: int | None, asked: str) -> None:
    assert said(replace(COLD, is_left_out=is_left_out), limit_mib) == (
        "of 900MiB working set 300MiB are file cache that nobody is known to have read again for 30m00s, "
        f"50.0MiB of inactive file pages beside it; {asked}; "
        "an upper estimate: reading a page that stays in memory leaves no trace"
    )


def test_nothing_cold_says_what_was_missed_and_unknown_says_why() -> None:
    missed = replace(COLD, total_bytes=0, active_bytes=0, refaulted_bytes=64 * MI)
    assert said(missed) == "none over 30m00s; 64.0MiB were reclaimed and read again meanwhile"
    assert said(None) == "-  too few readings yet"
