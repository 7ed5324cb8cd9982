from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import PodRef
from agent.core.resize.event_rate import (
    COUNT_UP_SECONDS,
    NOTE_BYTES,
    REMEMBERED,
    SERIES_SECONDS,
    EventPace,
    EventPacing,
    EventReason,
    EventVerdict,
    PodEvent,
    shortened_note,
)

EVENT = PodEvent(
    ref=PodRef(namespace="shop", name="web", uid="u"), reason=EventReason.RESIZED, note="CPU from 100m to 200m"
)
NEWS = EventVerdict(paced=EventPace.WRITE)


def pacing(per_minute: int = 10) -> EventPacing:
    return EventPacing(per_minute=per_minute, now_seconds=0.0)


def test_the_same_is_counted_and_its_count_written_once_a_minute() -> None:
    paces = pacing()
    assert paces.next(EVENT, 0.0) == NEWS
    paces.written(EVENT, "web.1", 0.0)
    assert paces.next(EVENT, 1.0).paced is EventPace.COUNTED
    assert paces.next(EVENT, COUNT_UP_SECONDS - 0.1).paced is EventPace.COUNTED
    # The first, two that were only counted, and this one.
    assert paces.next(EVENT, COUNT_UP_SECONDS) == EventVerdict(paced=EventPace.COUNT_UP, name="web.1", count=4)
    assert paces.next(EVENT, COUNT_UP_SECONDS + 1.0).paced is EventPace.COUNTED
    assert paces.next(EVENT, 2 * COUNT_UP_SECONDS) == EventVerdict(paced=EventPace.COUNT_UP, name="web.1", count=6)


def test_the_same_after_ten_quiet_minutes_is_news() -> None:
    paces = pacing()
    paces.written(EVENT, "web.1", 0.0)
    assert paces.next(EVENT, SERIES_SECONDS).paced is EventPace.COUNT_UP
    assert paces.next(EVENT, 2 * SERIES_SECONDS + 0.1) == NEWS


@pytest.mark.parametrize(
    "other",
    [
        replace(EVENT, note="CPU from 200m to 100m"),
        replace(EVENT, reason=EventReason.RESIZE_DEFERRED),
        replace(EVENT, ref=PodRef(namespace="shop", name="web", uid="v")),
    ],
)
def test_another_note_reason_or_pod_is_news(other: PodEvent) -> None:
    paces = pacing()
    paces.written(EVENT, "web.1", 0.0)
    assert paces.next(other, 1.0) == NEWS


def test_what_could_not_be_written_or_is_gone_is_news_again() -> None:
    paces = pacing()
    assert paces.next(EVENT, 0.0) == NEWS
    assert paces.next(EVENT, 1.0) == NEWS
    paces.written(EVENT, "web.1", 1.0)
    paces.forget(EVENT)
    assert paces.next(EVENT, 2.0) == NEWS
    paces.forget(EVENT)


def test_a_minute_sees_no_more_writes_than_its_budget() -> None:
    paces = pacing(2)
    events = [replace(EVENT, note=str(index)) for index in range(3)]
    assert [paces.next(event, 0.0).paced for event in events] == [EventPace.WRITE, EventPace.WRITE, EventPace.NO_BUDGET]
    assert paces.next(events[2], 60.0).paced is EventPace.WRITE


def test_count_that_found_no_budget_is_written_later_in_full() -> None:
    paces = pacing(1)
    assert paces.next(EVENT, 0.0) == NEWS
    paces.written(EVENT, "web.1", 0.0)
    assert paces.next(replace(EVENT, note="other"), 60.0) == NEWS
    assert paces.next(EVENT, 61.0).paced is EventPace.NO_BUDGET
    assert paces.next(EVENT, 120.0) == EventVerdict(paced=EventPace.COUNT_UP, name="web.1", count=3)


def test_what_is_remembered_is_bounded_and_the_longest_unseen_goes_first() -> None:
    paces = pacing(10 * REMEMBERED)
    events = [replace(EVENT, note=str(index)) for index in range(REMEMBERED)]
    for event in events:
        paces.written(event, "e", 0.0)
    assert paces.next(events[0], 1.0).paced is EventPace.COUNTED
    paces.written(EVENT, "e", 1.0)
    assert paces.next(events[0], 2.0).paced is EventPace.COUNTED
    assert paces.next(events[1], 2.0) == NEWS


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 3), st.floats(0, 90)), max_size=60))
def test_no_sequence_writes_more_than_the_budget_in_a_minute(per_minute: int, said: list[tuple[int, float]]) -> None:
    paces, now, writes = pacing(per_minute), 0.0, []
    for which, pause in said:
        now += pause
        event = replace(EVENT, note=str(which))
        verdict = paces.next(event, now)
        if verdict.paced in (EventPace.WRITE, EventPace.COUNT_UP):
            writes.append(now)
        if verdict.paced is EventPace.WRITE:
            paces.written(event, "e", now)
    for first in writes:
        assert sum(first <= write < first + 59.99 for write in writes) <= per_minute


def test_reasons_say_whether_a_person_should_look_and_what_was_tried() -> None:
    calm = {reason for reason in EventReason if not reason.is_warning}
    assert calm == {
        EventReason.RESIZED,
        EventReason.RESIZE_DEFERRED,
        EventReason.EVICTION_PROPOSED,
        EventReason.EVICTION_GRANTED,
        EventReason.EVICTION_REFUSED,
    }
    assert EventReason.RESIZE_REJECTED.action == "Resize"
    assert EventReason.EVICTION_PROPOSED.action == "ProposeEviction"


def test_note_is_one_line_and_cut_at_a_whole_character() -> None:
    assert shortened_note(" two\nlines ") == "two lines"
    assert shortened_note("x" * NOTE_BYTES) == "x" * NOTE_BYTES
    # 1021 bytes hold 510 of two bytes each and one that does not fit.
    assert shortened_note("\u00fc" * NOTE_BYTES) == "\u00fc" * 510 + "..."
    assert shortened_note("half a character: \ud800") == "half a character: ?"


@given(st.text())
def test_note_never_has_more_bytes_than_the_server_takes(text: str) -> None:
    text = text.encode(errors="ignore").decode()
    assert len(shortened_note(text * 40).encode()) <= NOTE_BYTES
