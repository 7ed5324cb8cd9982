from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.recommender.cruise.oom_memory import KEPT, OomFigure, OomMemory, oom_figure_bytes
from tests.policy_rows import all_rows

DAY = 86_400.0
WEEK = 7 * DAY
NOW = 1_769_000_000.0


def memory_after(*kills: tuple[float, int]) -> OomMemory:
    """Of one row, after kills at these seconds before NOW with this usage."""
    memory = OomMemory(1, retention_seconds=WEEK)
    for ago, usage_bytes in kills:
        memory.record(0, OutOfMemory(unix_seconds=NOW - ago, usage_bytes=usage_bytes))
    return memory


def largest(memory: OomMemory, ago: float = 0.0) -> float | None:
    figures, has = memory.largest(all_rows(1), NOW - ago)
    assert has[0] or figures[0] == 0.0
    return float(figures[0]) if has[0] else None


@pytest.mark.parametrize(
    ("usage", "limit", "figure"),
    [
        (412, 500, 412),
        (None, 500, 500),
        (300, None, 300),
        (600, 500, 600),
        (None, None, None),
        # nobody is killed at 0 bytes: that is not known
        (0, 500, 500),
        (0, None, None),
    ],
)
def test_oom_figure_is_usage_else_limit_else_none(usage: int | None, limit: int | None, figure: int | None) -> None:
    kill = OutOfMemory(unix_seconds=NOW, usage_bytes=usage, limit_bytes=limit, request_bytes=7)
    assert oom_figure_bytes(kill) == figure
    memory = OomMemory(1, retention_seconds=WEEK)
    memory.record(0, kill)
    assert largest(memory) == figure


def test_a_later_kill_at_a_lower_figure_does_not_lower_it() -> None:
    assert largest(memory_after((100, 500), (50, 300))) == 500
    assert largest(memory_after((100, 300), (50, 500))) == 500


def test_a_kill_is_remembered_for_exactly_the_retention() -> None:
    assert largest(memory_after((WEEK, 500))) == 500
    assert largest(memory_after((WEEK + 1, 500))) is None


def test_a_lower_kill_counts_once_the_higher_one_is_forgotten() -> None:
    memory = memory_after((WEEK - 10, 900), (5 * DAY, 250))
    assert largest(memory) == 900
    assert largest(memory, ago=-11) == 250
    assert memory.counting(0, NOW) == (
        OomFigure(unix_seconds=NOW - 5 * DAY, memory_bytes=250),
        OomFigure(unix_seconds=NOW - WEEK + 10, memory_bytes=900),
    )
    assert len(memory.counting(0, NOW + 11)) == 1


def test_a_kill_stamped_ahead_by_a_clock_since_set_back_counts() -> None:
    assert largest(memory_after((-3600, 500))) == 500


def test_kills_of_one_row_say_nothing_of_another() -> None:
    memory = OomMemory(2, retention_seconds=WEEK)
    memory.record(1, OutOfMemory(unix_seconds=NOW, usage_bytes=5))
    figures, has = memory.largest(np.array([1, 0]), NOW)
    assert (figures.tolist(), has.tolist()) == ([5.0, 0.0], [True, False])


def test_rows_that_stand_for_another_container_know_of_no_kill() -> None:
    memory = memory_after((10, 500))
    memory.grow(3)
    memory.grow(2)  # is large enough already
    memory.record(2, OutOfMemory(unix_seconds=NOW, usage_bytes=5))
    memory.forget(np.array([0]))
    assert memory.largest(all_rows(3), NOW)[1].tolist() == [False, False, True]


def test_more_falling_kills_than_are_kept_keep_the_largest_longer_never_shorter() -> None:
    # One a minute, each smaller: 1000, 999, ...
    kills = [((KEPT + 4 - index) * 60.0, 1000 - index) for index in range(KEPT + 4)]
    memory = memory_after(*kills)
    assert len(memory.figures(0)) == KEPT
    assert largest(memory) == 1000
    # The first is a week old now, so 1000 might be forgotten; it stays as long as the fifth, which it was merged into.
    assert largest(memory, ago=-(WEEK - (KEPT + 4) * 60 + 1)) == 1000
    assert largest(memory, ago=-(WEEK - KEPT * 60 + 1)) == 1000 - 5


def test_more_falling_kills_than_are_kept_let_go_of_a_forgotten_one_first() -> None:
    kills = [((KEPT - index) * 60.0, 500 - index) for index in range(KEPT)]
    memory = memory_after((WEEK + 1000, 9000), *kills)
    assert [figure.memory_bytes for figure in memory.figures(0)][-1] == 500


kills = st.lists(st.tuples(st.integers(0, 14).map(lambda days: days * DAY), st.integers(1, 1000)), max_size=KEPT)


@given(kills)
def test_largest_is_that_of_all_kills_in_any_order_and_twice_is_once(kills: list[tuple[float, int]]) -> None:
    expected = max((usage for ago, usage in kills if ago <= WEEK), default=None)
    assert largest(memory_after(*kills)) == expected
    assert largest(memory_after(*kills[::-1], *kills)) == expected


@given(st.lists(st.tuples(st.integers(0, 604_800), st.integers(1, 1000)), min_size=1, max_size=40))
def test_largest_of_any_number_of_kills_within_the_retention_is_never_lost(kills: list[tuple[float, int]]) -> None:
    assert largest(memory_after(*kills)) == max(usage for _, usage in kills)
