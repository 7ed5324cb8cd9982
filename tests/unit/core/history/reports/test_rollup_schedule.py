from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.reports.rollup_schedule import (
    DRAIN_SECONDS,
    LONGEST_RETRY_AFTER_SECONDS,
    LONGEST_RETRY_SECONDS,
    NS,
    drain_seconds,
    interval_start_ns,
    next_end_ns,
    node_share,
    retry_seconds,
)

FIVE = 300 * NS


def test_nodes_have_places_of_their_own_and_spread_over_the_interval() -> None:
    shares = [node_share(f"ip-10-0-{index // 250}-{index % 250}.ec2.internal") for index in range(5000)]
    assert shares[7] == node_share("ip-10-0-0-7.ec2.internal")
    # 5,000 nodes into 100 slots of 3 s: 50 each, give or take
    counts = [sum(slot <= share * 100 < slot + 1 for share in shares) for slot in range(100)]
    assert sum(counts) == 5000
    assert max(counts) < 100


def test_ends_lie_on_the_grid_of_the_wall_clock_moved_by_the_share() -> None:
    # CLOCK_MONOTONIC 1000 s is 12:00:10: a quarter of five minutes after 12:00 is 12:01:15, 65 s later
    noon = 1_800_000_000
    offset_ns = (noon + 10 - 1000) * NS
    end = next_end_ns(1000 * NS, interval_ns=FIVE, wall_offset_ns=offset_ns, share=0.25)
    assert end == 1065 * NS
    assert next_end_ns(end, interval_ns=FIVE, wall_offset_ns=offset_ns, share=0.25) == end + FIVE
    assert next_end_ns(end - 1, interval_ns=FIVE, wall_offset_ns=offset_ns, share=0.25) == end


@given(st.integers(0, 10**16), st.integers(0, 2 * 10**18), st.floats(0, 1))
def test_the_next_end_is_after_and_within_an_interval(after_ns: int, offset_ns: int, share: float) -> None:
    end = next_end_ns(after_ns, interval_ns=FIVE, wall_offset_ns=offset_ns, share=share)
    assert after_ns < end <= after_ns + FIVE


@pytest.mark.parametrize(
    ("last_seconds", "start_seconds"),
    [(None, 700), (700, 700), (690, 690), (850, 850), (551, 551), (549, 700), (0, 700), (851, None), (1000, None)],
)
def test_an_interval_begins_where_the_last_one_ended(last_seconds: int | None, start_seconds: int | None) -> None:
    last_ns = None if last_seconds is None else last_seconds * NS
    start = interval_start_ns(1000 * NS, interval_ns=FIVE, last_end_ns=last_ns)
    assert start == (None if start_seconds is None else start_seconds * NS)


def test_retries_come_later_and_later_and_no_two_nodes_alike() -> None:
    # 5, 10, 20 s at most, half of it at least, and five minutes in the end
    spans = [
        tuple(retry_seconds(failures, retry_after_seconds=None, chance=chance) for chance in (0.0, 1.0))
        for failures in (1, 2, 3, 20, 5000)
    ]
    assert spans == [(2.5, 5.0), (5.0, 10.0), (10.0, 20.0), (150.0, 300.0), (150.0, 300.0)]


@given(st.integers(1, 10_000), st.none() | st.floats(-10, 1e9), st.floats(0, 1))
def test_the_webhook_is_not_asked_sooner_than_it_wants(failures: int, asked: float | None, chance: float) -> None:
    seconds = retry_seconds(failures, retry_after_seconds=asked, chance=chance)
    assert 2.5 <= seconds <= LONGEST_RETRY_AFTER_SECONDS + LONGEST_RETRY_SECONDS
    assert seconds >= min(asked or 0.0, LONGEST_RETRY_AFTER_SECONDS)


def test_a_queue_is_sent_within_the_webhooks_bound_of_30_a_minute() -> None:
    assert (drain_seconds(0.0) + drain_seconds(1.0)) / 2 == DRAIN_SECONDS
    assert 60 / DRAIN_SECONDS < 30


def test_what_the_webhook_asks_for_is_waited_for_at_least_and_not_by_all_alike() -> None:
    # Its own wait after one failure is half of the first retry where chance is 0; ten minutes asked for are longer.
    assert retry_seconds(1, retry_after_seconds=600.0, chance=0.0) == 600.0
    assert retry_seconds(1, retry_after_seconds=600.0, chance=1.0) == 600.0 + min(300.0, LONGEST_RETRY_SECONDS)
    assert retry_seconds(1, retry_after_seconds=1e9, chance=0.0) == LONGEST_RETRY_AFTER_SECONDS
    assert retry_seconds(1, retry_after_seconds=-1.0, chance=0.0) == retry_seconds(
        1, retry_after_seconds=None, chance=0.0
    )
