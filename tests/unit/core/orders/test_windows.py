"""Windows in which pods may be disturbed: their grammar, and until when a disruption waits."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from agent.calendar import MOST_KEPT, ReadWindows, SystemCalendar
from agent.core.orders.schedule import LONGEST_TEXT, CronBeginnings
from agent.core.orders.windows import (
    Disruption,
    Wait,
    Windows,
    WindowsError,
    parse_windows,
    wait_of,
    waits_of,
    waits_words,
)
from tests.window_moments import differences

NIGHTS = "shrink: Europe/Berlin 0 22 * * * for 6h"


def read(text: str) -> Windows:
    return parse_windows(text, SystemCalendar())


def at(text: str, zone: str = "Europe/Berlin") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def waits(text: str, moment: str, lasting: float = 600.0, kind: Disruption = Disruption.SHRINK) -> Wait | None:
    return wait_of(read(text), kind, at(moment), lasting)


def test_a_kind_has_its_windows_and_one_without_a_kind_is_of_the_one_before() -> None:
    windows = read("shrink: Europe/Berlin 0 22 * * * for 6h; 0 12 * * sat for 1h; evict,restart: 0 3 * * sat for 4h;")
    assert {kind: len(schedule.windows) for kind, schedule in windows.allowed.items()} == {
        Disruption.SHRINK: 2,
        Disruption.EVICT: 1,
        Disruption.RESTART: 1,
    }
    assert windows.denied is None
    # Whoever names no zone has that of the window before, of whatever kind.
    assert {window.zone_name for each in windows.allowed.values() for window in each.windows} == {"Europe/Berlin"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an empty text is not allowed"),
        (" ; ", "'' says not what it is for"),
        ("Europe/Berlin 0 22 * * * for 6h", "says not what it is for (shrink, evict, restart, deny and a colon"),
        ("grow: UTC 0 22 * * * for 6h", "'grow' is no kind of window (shrink, evict, restart, deny)"),
        ("shrink, : UTC 0 22 * * * for 6h", "'' is no kind of window"),
        ("shrink: 0 22 * * * for 6h", "names no time zone"),
        ("shrink: Mars/Base 0 22 * * * for 6h", "'Mars/Base' is no time zone"),
        ("shrink: UTC 0 22 * * for 6h", "names no time zone"),
        ("shrink: UTC 99 22 * * * for 6h", "not understood"),
        ("shrink: UTC 0 22 * * * for 6w", "for '6w'"),
        ("deny:", "'' is not allowed"),
        (f"deny: UTC 0 22 * * * for {'1' * LONGEST_TEXT}h", "characters are not allowed"),
        ("; ".join(["deny: UTC 0 22 * * * for 6h"] * 17), "17 windows are not allowed"),
    ],
)
def test_what_is_not_understood_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(WindowsError) as refusal:
        read(text)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_disruption_waits_for_its_window_and_says_until_when() -> None:
    assert waits(NIGHTS, "2026-11-23T23:00") is None
    wait = waits(NIGHTS, "2026-11-23T12:00")
    assert wait == Wait(
        until_unix_seconds=at("2026-11-23T22:00"), words="waits until 2026-11-23 22:00 CET, Europe/Berlin"
    )
    assert waits(NIGHTS, "2026-11-23T12:00", kind=Disruption.EVICT) is None  # it has no windows


def test_it_begins_only_where_it_can_end_inside() -> None:
    assert waits(NIGHTS, "2026-11-24T03:50", 600.0) is None  # to the second
    late = waits(NIGHTS, "2026-11-24T03:51", 600.0)
    assert late is not None
    assert late.until_unix_seconds == at("2026-11-24T22:00")
    # Windows that follow each other are one.
    assert waits(f"{NIGHTS}; 0 4 * * * for 1h", "2026-11-24T03:51", 600.0) is None


def test_deny_takes_its_time_off_all_and_what_would_reach_into_it_waits_for_its_end() -> None:
    text = f"{NIGHTS}; deny: 0 23 * * * for 2h"
    for moment, until in (("2026-11-23T22:30", None), ("2026-11-23T22:55", "2026-11-24T01:00")):
        wait = waits(text, moment)
        assert (None if wait is None else wait.until_unix_seconds) == (None if until is None else at(until))
    alone = waits("deny: Europe/Berlin 0 0 24 12 * for 3d", "2026-12-25T12:00", kind=Disruption.EVICT)
    assert alone is not None
    assert alone.words == "waits until 2026-12-27 00:00 CET, Europe/Berlin"


@pytest.mark.parametrize(
    "text",
    [
        "shrink: UTC 0 22 * * * for 5m",  # shorter than what is to happen in it
        "shrink: UTC 0 22 * * * for 6h; deny: 0 0 * * * for 1d",  # never outside what is denied
    ],
)
def test_where_no_time_is_long_enough_it_waits_without_an_end_in_sight(text: str) -> None:
    wait = waits(text, "2026-11-23T12:00")
    assert wait == Wait(until_unix_seconds=None, words="waits: no time is in sight that is long enough for it")


def test_a_window_that_does_not_come_again_is_waited_for_without_an_end() -> None:
    class Once(SystemCalendar):
        """Begins once, in the year of the check."""

        def beginnings(self, expression: str) -> CronBeginnings:
            return OneBeginning()

    class OneBeginning:
        def before(self, wall: datetime) -> datetime | None:
            return self.after(datetime(2024, 1, 1)) if wall.year > 2024 else None  # noqa: DTZ001

        def after(self, wall: datetime) -> datetime | None:
            once = datetime(2024, 2, 1)  # noqa: DTZ001
            return once if once > wall else None

    windows = parse_windows("shrink: UTC 0 0 1 2 * for 1h", Once())
    wait = wait_of(windows, Disruption.SHRINK, at("2026-11-23T12:00"), 1.0)
    assert wait is not None
    assert wait.until_unix_seconds is None


class Questions(SystemCalendar):
    """Counts what is asked of it."""

    count = 0

    def beginnings(self, expression: str) -> CronBeginnings:
        outer, answers = self, super().beginnings(expression)

        class Counted:
            def before(self, wall: datetime) -> datetime | None:
                outer.count += 1
                return answers.before(wall)

            def after(self, wall: datetime) -> datetime | None:
                outer.count += 1
                return answers.after(wall)

        return Counted()


def test_many_windows_that_are_all_too_short_cost_little_more_than_few() -> None:
    def questions(count: int) -> int:
        calendar = Questions()
        parts = [f"{minute} 0 * * * for 1m" for minute in range(0, 3 * count, 3)]
        windows = parse_windows(f"shrink, evict, restart: UTC {'; '.join(parts)}", calendar)
        calendar.count = 0
        assert set(waits_of(windows, at("2026-11-23T12:00"), 300.0)) == set(Disruption)
        return calendar.count

    # 40 looks at one and 15 at each of 16, with two questions at most; three kinds have one answer.
    assert max(questions(count) for count in (1, 6, 7, 16)) <= 480


def test_what_waits_is_told_by_kind() -> None:
    by_disruption = waits_of(read(f"{NIGHTS}; evict: UTC 0 12 * * * for 1h"), at("2026-11-23T13:30"), 600.0)
    assert set(by_disruption) == {Disruption.SHRINK}
    assert waits_words(by_disruption) == (
        "shrink waits until 2026-11-23 22:00 CET, Europe/Berlin; evict may be now; restart may be now"
    )


def test_a_text_is_read_once_and_the_oldest_are_forgotten() -> None:
    reader = ReadWindows()
    first = reader(NIGHTS)
    assert reader(NIGHTS) is first
    for _ in range(2):
        with pytest.raises(WindowsError, match="says not"):
            reader("nonsense")
    for number in range(MOST_KEPT):
        with pytest.raises(WindowsError):
            reader(f"nonsense {number}")
    assert reader(NIGHTS) is not first


def test_around_changes_of_clocks_it_is_as_intervals_say() -> None:
    assert differences(400, seed=7) == []
