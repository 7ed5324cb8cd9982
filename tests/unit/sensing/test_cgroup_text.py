"""The parsers of pressure and memory.events files; what the sampler takes of them is in tests/native."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sensing.cgroup_text import (
    MemoryEventCounts,
    Pressure,
    PressureLine,
    parse_memory_event_counts,
    parse_memory_events,
    parse_pressure,
    parse_pressure_lines,
    parse_some_usec,
)

SOME = b"some avg10=1.71 avg60=2.36 avg300=2.57 total=230548833\n"
FULL = b"full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
EVENTS = b"low 0\nhigh 12\nmax 345\noom 6\noom_kill 7\noom_group_kill 1\n"


def test_pressure_has_both_lines() -> None:
    some = PressureLine(total_usec=230_548_833, averages_percent=(1.71, 2.36, 2.57))
    assert parse_pressure_lines(SOME + FULL) == {
        "some": some,
        "full": PressureLine(total_usec=7, averages_percent=(0.0, 0.0, 0.0)),
    }
    assert parse_pressure_lines(SOME) == {"some": some}


def test_pressure_of_interrupts_has_full_only_and_is_no_signal_of_some() -> None:
    lines = parse_pressure_lines(FULL)
    assert lines is not None
    assert set(lines) == {"full"}
    assert parse_pressure(FULL) is None


@pytest.mark.parametrize("text", [b"\n", b"other avg10=1\n"])
def test_pressure_without_a_line_is_no_signal(text: bytes) -> None:
    assert parse_pressure_lines(text) == {}
    assert parse_pressure(text) is None


def test_fields_and_lines_of_other_names_are_skipped() -> None:
    (line,) = (parse_pressure_lines(SOME.replace(b" total", b" avg900=x total") + b"irq avg10=x\n") or {}).values()
    assert line.averages_percent == (1.71, 2.36, 2.57)


@pytest.mark.parametrize("average", [b"x", b"", b"-1", b"1e3", b"nan", b".5"])
def test_an_average_that_is_no_number_is_not_understood_and_the_total_is(average: bytes) -> None:
    text = SOME.replace(b"2.36", average)
    (line,) = (parse_pressure_lines(text) or {}).values()
    assert line == PressureLine(total_usec=230_548_833, averages_percent=None)
    assert parse_some_usec(text) is None
    assert parse_some_usec(SOME) == 230_548_833


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"some avg10\n",
        SOME.replace(b"total=2", b"total=-2"),
        SOME.replace(b"total=2", b"total=x"),
        SOME + b"full avg10=0.00 avg60=0.00 avg300=0.00\n",
    ],
)
def test_pressure_that_does_not_tell_its_totals_is_refused(text: bytes) -> None:
    assert parse_pressure_lines(text) is None
    assert parse_pressure(text) is None
    assert parse_some_usec(text) is None


@given(cut=st.integers(0, len(SOME + FULL) - 1))
def test_cut_pressure_is_never_a_smaller_total(cut: int) -> None:
    assert parse_pressure((SOME + FULL)[:cut]) in (None, Pressure(some_usec=230_548_833, full_usec=None))


def test_memory_events_of_any_kernel() -> None:
    assert parse_memory_event_counts(EVENTS) == MemoryEventCounts(oom_kill=7, high=12, oom=6)
    assert parse_memory_event_counts(b"high 1\noom_kill 4\n") == MemoryEventCounts(oom_kill=4, high=1, oom=None)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"high 1\nmax 2\noom 3\n",
        b"max 2\noom 3\noom_kill 4\n",
        b"high 1\nmax 2\noom 3\noom_kill 4",
        b"high 1\nmax 2\noom 3\noom_kill -4\n",
        b"high 1\nmax 2\noom 3\noom_kill  4\n",
        b"high 1\nmax 2\noom 3\noom_kill max\n",
        b"high 1\nmax 2\noom x\noom_kill 4\n",
        b"high 1\nmax 2\noom 3\noom_kill " + b"9" * 5000 + b"\n",
    ],
)
def test_memory_events_that_are_not_whole_are_refused(text: bytes) -> None:
    assert parse_memory_event_counts(text) is None
    assert parse_memory_events(text) is None


@given(cut=st.integers(0, len(EVENTS) - 1))
def test_cut_memory_events_are_never_a_smaller_number(cut: int) -> None:
    counts = parse_memory_event_counts(EVENTS[:cut])
    assert counts is None or counts.oom_kill == 7


@given(st.binary(max_size=200) | st.text(alphabet="somefull avg10=.\n3x", max_size=80).map(str.encode))
def test_any_bytes_give_a_value_or_nothing(text: bytes) -> None:
    parse_pressure_lines(text)
    parse_memory_event_counts(text)
