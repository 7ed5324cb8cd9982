from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.orders.order import Ranking
from agent.core.orders.plan_options import FitRule
from agent.core.plan.sizing.spike_sharing import eviction_order, finals, handed_out, needed


def test_the_shared_rule_needs_the_bases_and_the_largest_spike_once() -> None:
    # One pod of base 500 and peak 1000: it is given 1000, so 1000 must be there.
    assert needed(total=500, literal_total=1000, spike=500, rule=FitRule.SHARED) == 1000


def test_the_literal_rule_counts_the_spike_twice() -> None:
    assert needed(total=500, literal_total=1000, spike=500, rule=FitRule.LITERAL) == 1500


def test_low_goes_before_medium_before_high_and_no_eviction_never() -> None:
    keys = [eviction_order(ranking, 1, ("a",)) for ranking in (Ranking.LOW, Ranking.MEDIUM, Ranking.HIGH)]
    assert keys == sorted(key for key in keys if key is not None)
    assert eviction_order(Ranking.NO_EVICTION, 1, ("a",)) is None


def test_within_a_ranking_the_larger_spike_goes_first_then_the_name() -> None:
    keys = {name: eviction_order(Ranking.LOW, spike, (name,)) for name, spike in (("b", 1), ("a", 1), ("c", 2))}
    assert sorted(keys, key=lambda name: keys[name] or ()) == ["c", "a", "b"]


def test_spikes_2_1_1_share_the_largest_as_2_1_1() -> None:
    # The document's example: shares 1, 0.5 and 0.5 of a spike of 2.
    nearest, floors = finals([1000, 500, 500], [3000, 1500, 1500], [2000, 1000, 1000], headroom=2000, unit=1)
    assert nearest == floors == [2000, 1000, 1000]


def test_without_spikes_the_final_is_the_base() -> None:
    assert finals([7, 9], [7, 9], [0, 0], headroom=0, unit=1) == ([7, 9], [7, 9])


def test_a_final_is_the_nearest_multiple_and_its_floor_the_one_below() -> None:
    # 100 + 25 x 25 / 50 is 112.5: nearer to 110 than to 120; 100 + 20 x 30 / 30 is 120.
    assert finals([100, 100], [125, 125], [25, 25], headroom=25, unit=10) == ([110, 110], [110, 110])
    assert finals([100, 100], [130, 130], [30, 30], headroom=30, unit=10) == ([120, 120], [110, 110])


def test_who_has_no_spike_gets_no_share() -> None:
    assert finals([10, 10], [10, 30], [0, 20], headroom=20, unit=1)[0] == [10, 30]


def test_rounding_never_leaves_base_and_peak() -> None:
    assert finals([103], [104], [1], headroom=1, unit=10)[0] == [103]  # 104 is nearest to 100
    assert finals([101], [106], [5], headroom=5, unit=10)[0] == [106]  # 106 is nearest to 110


def test_a_node_that_does_not_fit_shows_what_is_left_as_headroom() -> None:
    assert handed_out(spike=100, joint=0, spikes=150, claimed=0, room=30) == 30
    assert handed_out(spike=100, joint=0, spikes=150, claimed=0, room=-5) == 0
    assert handed_out(spike=100, joint=0, spikes=150, claimed=0, room=300) == 100


@pytest.mark.parametrize(
    ("joint", "spikes", "claimed", "room", "expected"),
    [
        (50, 400, 0, 300, 100),  # less than the largest spike
        (250, 400, 0, 300, 250),
        (250, 180, 0, 300, 180),  # nobody is given more than its own spike
        (250, 400, 0, 220, 220),  # as far as there is room
        (250, 400, 80, 300, 220),  # what presses now goes before it
        (250, 400, 280, 300, 100),  # but not before the largest spike
    ],
)
def test_the_headroom_is_what_was_seen_together_where_that_is_more(
    joint: int, spikes: int, claimed: int, room: int, expected: int
) -> None:
    assert handed_out(spike=100, joint=joint, spikes=spikes, claimed=claimed, room=room) == expected


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1 << 50), st.integers(0, 1 << 50)), max_size=30), st.integers(1, 1 << 20))
def test_finals_lie_between_base_and_peak_and_rounded_down_they_sum_up_to_no_more_than_there_is(
    amounts: list[tuple[int, int]], unit: int
) -> None:
    bases, spikes = [base for base, _ in amounts], [spike for _, spike in amounts]
    peaks = [base + spike for base, spike in amounts]
    headroom = max(spikes, default=0)
    nearest, floors = finals(bases, peaks, spikes, headroom=headroom, unit=unit)
    for base, final, floor, peak in zip(bases, nearest, floors, peaks, strict=True):
        assert base <= floor <= peak
        assert floor <= final <= peak
    assert sum(floors) <= sum(bases) + headroom
