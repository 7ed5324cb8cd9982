from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.words.moments import TimeWordError, parse_age_seconds, parse_span_seconds

NOW = 1_795_255_200.0  # 2026-11-21T10:00:00Z


@pytest.mark.parametrize(
    ("text", "age_seconds"),
    [
        ("now", 0.0),
        (" NOW ", 0.0),
        ("0s ago", 0.0),
        ("90s ago", 90.0),
        ("10m ago", 600.0),
        ("10m", 600.0),
        ("2h ago", 7200.0),
        ("1.5h ago", 5400.0),
        ("1h30m ago", 5400.0),
        ("1h 30m ago", 5400.0),
        ("2d ago", 172800.0),
        ("2026-11-21T09:59:00Z", 60.0),
        ("2026-11-21T10:59:00+01:00", 60.0),
        ("2026-11-21 09:00:00Z", 3600.0),
    ],
)
def test_words_give_an_age(text: str, age_seconds: float) -> None:
    assert parse_age_seconds(text, now_unix_seconds=NOW) == age_seconds


@pytest.mark.parametrize(("zone", "age_seconds"), [("UTC", 3600.0), ("CET-1", 7200.0)])
def test_a_time_without_zone_is_local(monkeypatch: pytest.MonkeyPatch, zone: str, age_seconds: float) -> None:
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert parse_age_seconds("2026-11-21T09:00:00", now_unix_seconds=NOW) == age_seconds
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ago",
        "10",
        "10 ago",
        "m",
        "-5m ago",
        "10x ago",
        "10m later",
        "yesterday",
        "1e3s",
        "٣s",
        "2026-13-01",
        "9" * 400 + "d ago",
    ],
)
def test_other_words_are_refused_on_one_line_with_what_is_allowed(text: str) -> None:
    with pytest.raises(TimeWordError) as caught:
        parse_age_seconds(text, now_unix_seconds=NOW)
    assert "allowed: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_moment_to_come_is_refused() -> None:
    with pytest.raises(TimeWordError, match="in the future"):
        parse_age_seconds("2026-11-21T10:00:01Z", now_unix_seconds=NOW)


@given(st.text(max_size=30))
def test_any_text_is_an_age_or_one_error(text: str) -> None:
    try:
        assert parse_age_seconds(text, now_unix_seconds=NOW) >= 0
    except TimeWordError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is right


@given(st.integers(0, 10**6))
def test_long_digits_do_not_hang(seconds: int) -> None:
    assert parse_age_seconds(f"{seconds}s ago", now_unix_seconds=NOW) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), (" 2D ", 172_800), ("1.5h", 5400)]
)
def test_spans(text: str, seconds: float) -> None:
    assert parse_span_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "now", "10", "10m ago", "0s", "-5m", "5 years", "2026-11-21T10:00:00Z", "9" * 400 + "d"]
)
def test_what_is_no_span_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(TimeWordError, match="is not a duration; allowed: 90s, 10m, 1h30m, 2d"):
        parse_span_seconds(text)
