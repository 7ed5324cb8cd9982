"""cronsim and zoneinfo behind the schedule of a buffer; cron against one that looks at every minute."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.calendar import SystemCalendar
from agent.core.buffers.buffer import Buffer
from agent.core.orders.schedule import CronBeginnings, ScheduleError, read_schedule
from agent.webhook.buffers import schedules as schedules_module
from agent.webhook.buffers.schedules import Schedules
from agent.webhook.buffers.seams import ScheduleState
from tests.cron import MinuteCron
from tests.examples import examples

MONDAY = datetime(2026, 11, 23, 6, 0, tzinfo=UTC).timestamp()  # 07:00 in Berlin


def buffer(schedule: str | None) -> Buffer:
    annotations = {} if schedule is None else {"plimsoll.dev/schedule": schedule}
    return Buffer(
        namespace="shop", name="spare", uid="u", generation=1, created_unix_seconds=0.0, annotations=annotations
    )


def test_a_buffer_without_a_schedule_is_always_active() -> None:
    assert Schedules()(buffer(None), MONDAY) == ScheduleState()


def test_a_schedule_says_why_it_is_inactive_and_when_that_changes() -> None:
    say = Schedules()
    text = "Europe/Berlin 0 7 * * mon-fri for 12h"
    assert say(buffer(text), MONDAY - 5.0) == ScheduleState(
        inactive="inactive until 2026-11-23 07:00 CET, Europe/Berlin", changes_in_seconds=5.0
    )
    assert say(buffer(text), MONDAY + 1.0) == ScheduleState(changes_in_seconds=12 * 3600 - 1.0)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "an empty schedule is not allowed"),
        ("Europe/Nowhere 0 7 * * * for 1h", "'Europe/Nowhere' is no time zone"),
        ("Europe 0 7 * * * for 1h", "'Europe' is no time zone"),
        ("UTC 0 25 * * * for 1h", "not understood: hour"),
        ("UTC 0 7 * * fri-mon for 1h", "not understood: day-of-week"),
        ("UTC 0 0 30 2 * for 1h", "not understood: day-of-month"),
        ("UTC * * */20 * 1L for 1h", "never begins"),
    ],
)
def test_a_schedule_that_is_not_understood_is_a_fault_with_the_annotations_name(text: str, fault: str) -> None:
    state = Schedules()(buffer(text), MONDAY)
    assert state.fault is not None
    assert state.fault.startswith("annotation plimsoll.dev/schedule: ")
    assert fault in state.fault
    assert (state.inactive, state.changes_in_seconds) == (None, None)


def test_schedules_are_read_once_and_the_longest_unused_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules_module, "MOST_KEPT", 2)
    asked: list[str] = []

    class Counting(SystemCalendar):
        def beginnings(self, expression: str) -> CronBeginnings:
            asked.append(expression)
            return super().beginnings(expression)

    say = Schedules(Counting())
    for minute in (1, 2, 1, 3, 1, 2):
        say(buffer(f"UTC {minute} 7 * * * for 1h"), MONDAY)
    assert [expression[0] for expression in asked] == ["1", "2", "3", "2"]


def test_the_package_of_zones_serves_where_the_system_has_none() -> None:
    code = (
        "import zoneinfo; zoneinfo.reset_tzpath([]); from agent.calendar import SystemCalendar;"
        "zone = SystemCalendar().zone; assert zone('Europe/Berlin') is not None; assert zone('Europe') is None;"
        "assert zone('Mars/Base') is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_neither_cron_nor_zones_are_loaded_before_the_first_schedule() -> None:
    code = (
        "import sys; from agent.webhook.buffers.schedules import Schedules; Schedules();"
        "assert not {'cronsim', 'zoneinfo'} & set(sys.modules), set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- cron ----------------------------------------------------------------------------------------------------------


def field(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    # Of two different ends: cronsim takes 3-3/2 for 3/2, which nobody writes.
    span = st.lists(number, min_size=2, max_size=2, unique=True).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.tuples(st.one_of(st.just("*"), span, number.map(str)), st.integers(1, high)).map(
        lambda pair: f"{pair[0]}/{pair[1]}"
    )
    word = st.sampled_from(names) if names else number.map(str)
    several = st.lists(st.one_of(number.map(str), span, word), min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), several, step)


EXPRESSIONS = st.tuples(
    field(0, 59),
    field(0, 23),
    field(1, 28),
    field(1, 12, ("jan", "Feb", "MAR")),
    field(0, 7, ("sun", "Mon", "FRI")),
).map(" ".join)
WALLS = st.datetimes(datetime(2024, 1, 1), datetime(2028, 12, 31))  # noqa: DTZ001


@examples(150)
@given(expression=EXPRESSIONS, wall=WALLS)
def test_beginnings_are_those_of_a_cron_that_looks_at_every_minute(expression: str, wall: datetime) -> None:
    beginnings, plain = SystemCalendar().beginnings(expression), MinuteCron(expression)
    assert beginnings.after(wall) == plain.after(wall)
    assert beginnings.before(wall) == plain.before(wall)


def test_the_asked_time_itself_is_neither_before_nor_after() -> None:
    beginnings = SystemCalendar().beginnings("0 7 * * *")
    seven = datetime(2026, 11, 23, 7)  # noqa: DTZ001
    assert beginnings.after(seven) == seven + timedelta(days=1)
    assert beginnings.before(seven) == seven - timedelta(days=1)


@given(st.text(alphabet="0123456789*/,-#LWlwmonfri ?xyz", min_size=1, max_size=40))
def test_any_cron_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        read_schedule(f"UTC {text} for 1h", SystemCalendar())
    except ScheduleError as error:
        assert "\n" not in str(error)  # noqa: PT017
