from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers.token_bucket import WINDOW_SECONDS, TokenBucket, filling_bucket


def test_a_full_bucket_gives_all_its_tokens_and_then_none_for_a_minute() -> None:
    bucket = TokenBucket(2, now_seconds=100.0)
    assert [bucket.take(100.0), bucket.take(110.0), bucket.take(120.0)] == [True, True, False]
    # The first came out at 100: it is back at 160.
    assert bucket.wait_seconds(120.0) == 40.0
    assert not bucket.take(159.9)
    assert bucket.wait_seconds(160.0) == 0.0
    assert bucket.take(160.0)
    assert not bucket.take(160.0)


def test_missing_tokens_come_back_evenly_over_the_first_minute() -> None:
    bucket = TokenBucket(4, now_seconds=0.0, fill_ratio=0.5)
    assert bucket.available(0.0) == 2
    # Two are missing: one is back after 30 s, the other after 60 s.
    assert [bucket.available(moment) for moment in (29.0, 30.0, 59.0, 60.0)] == [2, 3, 3, 4]
    assert TokenBucket(4, now_seconds=0.0, fill_ratio=0.0).available(0.0) == 0


@pytest.mark.parametrize(
    ("tokens", "fill_ratio", "phase_ratio"),
    [(0, 1.0, 1.0), (1, 1.1, 1.0), (1, -0.1, 1.0), (1, 1.0, 1.1), (1, 1.0, -0.1)],
)
def test_a_bucket_needs_a_token_and_a_share(tokens: int, fill_ratio: float, phase_ratio: float) -> None:
    with pytest.raises(ValueError, match="at least 1 is needed"):
        TokenBucket(tokens, now_seconds=0.0, fill_ratio=fill_ratio, phase_ratio=phase_ratio)


def test_missing_tokens_come_back_in_a_phase_and_until_then_the_bucket_is_filling() -> None:
    bucket = TokenBucket(4, now_seconds=100.0, fill_ratio=0.5, phase_ratio=0.5)
    # Two are missing, 30 s apart: half of that, 15 s, is when the first comes.
    assert [bucket.available(moment) for moment in (114.0, 115.0, 144.0, 145.0)] == [2, 3, 3, 4]
    assert [bucket.is_filling(moment) for moment in (100.0, 144.0, 145.0)] == [True, True, False]
    full = TokenBucket(4, now_seconds=100.0)
    assert full.take(100.0)
    assert not full.is_filling(100.0)


@given(st.integers(1, 10_000), st.floats(0, 0.999), st.floats(0, 1))
def test_an_agent_that_starts_has_its_reserve_and_one_more(tokens: int, reserved_ratio: float, chance: float) -> None:
    reserve = int(reserved_ratio * tokens)
    bucket = filling_bucket(tokens, reserve=reserve, now_seconds=0.0, chance=chance)
    missing = tokens - reserve - 1
    # Of the missing ones the first comes at once where chance is 0, or so little that it is no time.
    at_once = 1 if missing and WINDOW_SECONDS * chance / missing == 0.0 else 0
    assert bucket.available(0.0) == reserve + 1 + at_once
    assert bucket.available(WINDOW_SECONDS) == tokens
    assert bucket.available(WINDOW_SECONDS / 2) >= reserve + 1 + missing // 2 - 1


@given(
    st.integers(1, 5),
    st.floats(0, 1),
    st.lists(st.floats(0, 40), max_size=60),
)
def test_no_minute_sees_more_than_there_are_tokens(tokens: int, fill_ratio: float, pauses: list[float]) -> None:
    bucket = TokenBucket(tokens, now_seconds=0.0, fill_ratio=fill_ratio)
    now, taken = 0.0, []
    for pause in pauses:
        now += pause
        if bucket.take(now):
            taken.append(now)
        else:
            assert bucket.wait_seconds(now) > 0
    for first in taken:
        assert sum(first <= moment < first + WINDOW_SECONDS for moment in taken) <= tokens


@pytest.mark.parametrize(("tokens", "reserve", "there"), [(60, 15, 16), (1, 0, 1), (4, 3, 4)])
def test_the_bucket_at_the_start_holds_the_reserve_and_one_and_fills_within_a_minute(
    tokens: int, reserve: int, there: int
) -> None:
    bucket = filling_bucket(tokens, reserve=reserve, now_seconds=0.0, chance=0.5)
    assert bucket.available(0.0) == there
    assert bucket.available(WINDOW_SECONDS) == tokens
