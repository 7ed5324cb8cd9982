"""Schedules of buffers, against a calendar that looks at every minute."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.orders.schedule import (
    LONGEST_TEXT,
    Activity,
    CronBeginnings,
    ScheduleError,
    activity_at,
    read_schedule,
)
from tests.cron import MINUTE, MinuteCron, minute_cron
from tests.examples import examples

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns")
BUSY = "Europe/Berlin 0 7 * * mon-fri for 12h"


class MinuteCalendar:
    """Zones of the system, and a cron that looks at every minute."""

    def zone(self, name: str) -> tzinfo | None:
        return ZoneInfo(name) if name in ZONES else None

    def beginnings(self, expression: str) -> CronBeginnings:
        return minute_cron(expression)


def unix(text: str, zone: str = "UTC", *, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def activity(text: str, now: float) -> Activity:
    return activity_at(read_schedule(text, MinuteCalendar()), now)


def change(text: str, now: float) -> tuple[bool, str]:
    """Whether it is active, and when that changes, UTC."""
    status = activity(text, now)
    assert status.next_look_unix_seconds is not None
    return status.is_active, f"{datetime.fromtimestamp(status.next_look_unix_seconds, UTC):%m-%d %H:%M}"


# -- windows -------------------------------------------------------------------------------------------------------


def test_a_window_lasts_from_its_beginning_to_before_its_end() -> None:
    # 2026-11-23 is a Monday, and Berlin one hour before UTC.
    assert change(BUSY, unix("2026-11-23T05:59:59")) == (False, "11-23 06:00")
    assert change(BUSY, unix("2026-11-23T06:00:00")) == (True, "11-23 18:00")
    assert change(BUSY, unix("2026-11-23T17:59:59.9")) == (True, "11-23 18:00")
    assert change(BUSY, unix("2026-11-23T18:00:00")) == (False, "11-24 06:00")


def test_words_are_of_the_zone_that_the_window_names() -> None:
    assert activity(BUSY, unix("2026-11-21T12:00")).words == "inactive until 2026-11-23 07:00 CET, Europe/Berlin"
    assert activity(BUSY, unix("2026-07-06T12:00")).words == "active until 2026-07-06 19:00 CEST, Europe/Berlin"
    assert activity("UTC 0 7 * * * for 1h", unix("2026-07-06T12:00")).words == "inactive until 2026-07-07 07:00 UTC"


def test_a_window_without_a_zone_has_the_one_before() -> None:
    text = "Europe/Berlin 0 7 * * mon for 1h; 0 9 * * mon for 1h; UTC 0 12 * * mon for 1h ;"
    assert change(text, unix("2026-11-23T07:30")) == (False, "11-23 08:00")
    assert change(text, unix("2026-11-23T09:30")) == (False, "11-23 12:00")


def test_windows_that_touch_or_overlap_are_one() -> None:
    text = "UTC 0 7 * * * for 2h; 0 9 * * * for 1h; 30 9 * * * for 2h"
    assert change(text, unix("2026-11-23T07:00")) == (True, "11-23 11:30")


def test_a_long_window_within_which_a_short_one_ends_goes_on() -> None:
    text = "UTC 0 7 * * * for 8h; 0 8 * * * for 1h"
    assert change(text, unix("2026-11-23T08:30")) == (True, "11-23 15:00")


def test_one_that_has_no_end_in_sight_is_looked_at_again() -> None:
    status = activity("UTC 0 * * * * for 90m", unix("2026-11-23T07:10"))
    assert status.is_active
    assert status.words == "active, and no end of it is near"
    # 200 windows of an hour and a half that follow each other, an hour apart.
    assert status.next_look_unix_seconds == unix("2026-12-01T16:30")


def test_before_its_first_window_a_schedule_is_inactive_and_after_its_last_for_good() -> None:
    class Once:
        def before(self, wall: datetime) -> datetime | None:
            return self._at(lambda begin: begin < wall)

        def after(self, wall: datetime) -> datetime | None:
            return self._at(lambda begin: begin > wall)

        def _at(self, is_it: Callable[[datetime], bool]) -> datetime | None:
            begin = datetime(2026, 11, 23, 7)  # noqa: DTZ001
            return begin if is_it(begin) else None

    class OnceCalendar(MinuteCalendar):
        def beginnings(self, expression: str) -> CronBeginnings:
            assert expression == "0 7 23 11 *"
            return Once()

    schedule = read_schedule("UTC 0 7 23 11 * for 1h", OnceCalendar())
    before = activity_at(schedule, unix("2026-01-01"))
    assert (before.is_active, before.next_look_unix_seconds) == (False, unix("2026-11-23T07:00"))
    assert activity_at(schedule, unix("2026-11-23T07:59")).is_active
    after = activity_at(schedule, unix("2026-11-23T08:00"))
    assert (after.is_active, after.next_look_unix_seconds) == (False, None)
    assert after.words == "inactive: no window of it comes again"


# -- changes of clocks ---------------------------------------------------------------------------------------------


def test_what_begins_in_the_hour_left_out_begins_when_clocks_are_put_forward() -> None:
    # Berlin, 2027-03-28: from 02:00 CET to 03:00 CEST, at 01:00 UTC.
    text = "Europe/Berlin 30 2 * * * for 1h"
    assert change(text, unix("2027-03-28T00:59:59")) == (False, "03-28 01:00")
    assert change(text, unix("2027-03-28T01:00")) == (True, "03-28 02:00")
    assert change(text, unix("2027-03-28T02:00")) == (False, "03-29 00:30")


def test_what_begins_in_the_hour_that_comes_twice_begins_once() -> None:
    # Berlin, 2026-10-25: from 03:00 CEST to 02:00 CET, at 01:00 UTC.
    text = "Europe/Berlin 30 2 * * * for 1h"
    assert change(text, unix("2026-10-25T00:29:59")) == (False, "10-25 00:30")
    assert change(text, unix("2026-10-25T01:10")) == (True, "10-25 01:30")
    assert change(text, unix("2026-10-25T01:30")) == (False, "10-26 01:30")


def test_a_window_that_spans_a_change_lasts_as_long_as_ever() -> None:
    text = "Europe/Berlin 0 20 * * sat for 12h"
    # Saturday 20:00 CEST is 18:00 UTC; twelve hours on it is 07:00 by the wall.
    assert change(text, unix("2026-10-24T18:00")) == (True, "10-25 06:00")


def test_windows_of_every_quarter_are_whole_through_both_changes() -> None:
    text = "Europe/Berlin */15 * * * * for 1m"
    # 02:15 to 02:45 in the hour left out all begin at its end; in the hour that comes twice only the first ones do.
    assert change(text, unix("2027-03-28T00:50")) == (False, "03-28 01:00")
    assert change(text, unix("2027-03-28T01:02")) == (False, "03-28 01:15")
    assert change(text, unix("2026-10-25T00:50")) == (False, "10-25 02:00")
    assert change(text, unix("2026-10-25T01:10")) == (False, "10-25 02:00")


def oracle_begins(expression: str, zone: str, first: datetime, minutes: int) -> list[datetime]:
    """All moments at which an expression strikes, by walking the minutes of the world and those of the wall."""
    cron = MinuteCron(expression)
    seen: dict[datetime, datetime] = {}
    world: list[tuple[datetime, datetime]] = []
    for number in range(minutes):
        moment = first + number * MINUTE
        wall = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)
        seen.setdefault(wall, moment)
        world.append((moment, wall))
    begins = []
    wall, last = world[0][1], world[-1][1]
    while wall <= last:
        if cron.strikes(wall):
            at = seen.get(wall)
            begins.append(at if at is not None else next(moment for moment, other in world if other > wall))
        wall += MINUTE
    return begins


EXPRESSIONS = (
    "30 2 * * *",
    "0 3 * * *",
    "*/7 1-3 * * *",
    "1 0 * * *",
    "59 23 * * *",
    "0 0 30 12 *",
    "*/30 * * * sun",
    "15 2,3 * * sat,sun",
)
NIGHTS = {
    "UTC": "2026-03-29T00:00",
    "Europe/Berlin": "2026-10-25T01:00",
    "America/New_York": "2027-03-14T07:00",
    "Australia/Lord_Howe": "2026-10-03T15:30",  # half an hour
    "Pacific/Apia": "2011-12-30T10:00",  # a whole day left out
    "America/St_Johns": "2010-11-07T02:31",  # one minute past midnight
}
MORE_NIGHTS = {**NIGHTS, "Europe/Berlin": "2027-03-28T01:00", "America/New_York": "2026-11-01T06:00"}


@examples(40)
@given(
    zone=st.sampled_from(ZONES),
    is_other=st.booleans(),
    windows=st.lists(
        st.tuples(st.sampled_from(EXPRESSIONS), st.sampled_from((1, 20, 60, 61, 600, 1500))), min_size=1, max_size=2
    ),
    ats=st.lists(st.integers(-1500 * 60, 1500 * 60), min_size=5, max_size=5),
)
@pytest.mark.slow
def test_activity_is_that_of_a_walk_through_the_minutes(
    zone: str, is_other: bool, windows: list[tuple[str, int]], ats: list[int]
) -> None:
    night = datetime.fromisoformat((MORE_NIGHTS if is_other else NIGHTS)[zone]).replace(tzinfo=UTC)
    first = night - timedelta(days=5)
    spans = [
        (begin, begin + minutes * MINUTE)
        for expression, minutes in windows
        for begin in oracle_begins(expression, zone, first, 9 * 1440)
    ]
    text = "; ".join(f"{zone} {expression} for {minutes}m" for expression, minutes in windows)
    schedule = read_schedule(text, MinuteCalendar())
    for seconds in ats:
        now = night + timedelta(seconds=seconds)
        is_active = any(begin <= now < end for begin, end in spans)
        edges = sorted({edge for span in spans for edge in span if edge > now})
        turn = next((edge for edge in edges if any(begin <= edge < end for begin, end in spans) is not is_active), None)
        status = activity_at(schedule, now.timestamp())
        assert status.is_active is is_active
        if turn is not None and turn < night + timedelta(days=2) and "no end" not in status.words:
            assert status.next_look_unix_seconds == turn.timestamp()


# -- what is not understood ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "an empty schedule is not allowed"),
        (" ", "an empty schedule is not allowed"),
        (";".join(["UTC 0 7 * * * for 1h"] * 17), "17 windows are not allowed (1 to 16 of"),
        ("x" * (LONGEST_TEXT + 1), "1025 characters are not allowed (at most 1024)"),
        ("often", "'often' is not allowed (ZONE MINUTE HOUR"),
        ("y" * 100, f"'{'y' * 60}...' is not allowed"),
        ("Europe/Berlin 0 7 * * mon-fri", "is not allowed (ZONE MINUTE HOUR"),
        ("0 7 * * mon for 12h", "names no time zone"),
        ("0 7 * * * for 12h", "names no time zone (the first window must"),
        ("UTC 0 7 * * * * for 12h", "is not allowed (ZONE"),
        ("Mars/Base 0 7 * * * for 12h", "'Mars/Base' is no time zone (a name such as Europe/Berlin or UTC)"),
        ("../UTC 0 7 * * * for 12h", "'../UTC' is no time zone"),
        ("UTC 0 25 * * * for 12h", "'UTC 0 25 * * * for 12h': not understood: hour"),
        ("UTC 0 7 * * * for 12", "for '12' (12h, 90m, 1d or 1d12h30m; from 1m to 31d)"),
        ("UTC 0 7 * * * for 0h", "for '0h'"),
        ("UTC 0 7 * * * for 32d", "for '32d'"),
        ("UTC 0 7 * * * for h", "for 'h'"),
        ("UTC 0 7 30 2 * for 1h", "never begins: there is no such day"),
        ("UTC 0 7 * * * for 1h;;", "'' is not allowed"),
        ("UTC 0 7 * * * for 1h; 0 9 * * * for 2x", "'0 9 * * * for 2x' is not allowed"),
    ],
)
def test_what_is_not_understood_is_told_in_one_line(text: str, told: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        read_schedule(text, MinuteCalendar())
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"), [("1m", 60), ("90m", 5400), ("12h", 43_200), ("1d12h30m", 131_400), ("31d", 2_678_400)]
)
def test_durations(text: str, seconds: int) -> None:
    (window,) = read_schedule(f"UTC 0 7 * * * for {text}", MinuteCalendar()).windows
    assert window.duration_seconds == seconds


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        read_schedule(text, MinuteCalendar())
    except ScheduleError as error:
        assert "\n" not in str(error)  # noqa: PT017
