"""Marks: highest and gaps, bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.webhook.store.entries.marks import RANGES_MAX, Mark, first_mark, moved, parse_ranges, ranges_text
from tests.webhook.reports import new_report


def after(*sequences: int) -> Mark:
    mark = first_mark(new_report(sequences[0]))
    for sequence in sequences[1:]:
        mark = moved(mark, new_report(sequence)) or mark
    return mark


def test_gaps_split_and_close() -> None:
    assert after(1, 10).missing == ((2, 9),)
    assert after(1, 10, 5).missing == ((2, 4), (6, 9))
    assert after(1, 10, 2, 9).missing == ((3, 8),)
    assert after(1, 3, 2).missing == ()


def test_more_gaps_than_are_remembered_give_up_the_oldest() -> None:
    mark = after(*range(1, 2 * (RANGES_MAX + 2), 2))  # odd ones: RANGES_MAX + 1 gaps of one
    assert len(mark.missing) == RANGES_MAX
    assert mark.missing_reports == RANGES_MAX + 1, "what was given up stays missing"
    assert moved(mark, new_report(2)) is None, "and is never taken: it could be a repeat"
    assert moved(mark, new_report(4)) is not None


def test_late_report_that_splits_a_gap_keeps_the_bound() -> None:
    mark = after(1, *range(10, 10 + 2 * RANGES_MAX, 2))  # the first gap is wide, the others of one
    assert mark.missing[0] == (2, 9)
    split = moved(mark, new_report(5))
    assert split is not None
    assert len(split.missing) == RANGES_MAX
    assert split.missing[0] == (6, 9)


@given(st.lists(st.integers(min_value=1, max_value=60), min_size=1, max_size=120))
def test_any_order_takes_each_sequence_once(sequences: list[int]) -> None:
    mark = first_mark(new_report(sequences[0]))
    taken = {sequences[0]}
    for sequence in sequences[1:]:
        next_mark = moved(mark, new_report(sequence))
        assert (next_mark is None) == (sequence in taken)
        mark = next_mark or mark
        taken.add(sequence)
        assert parse_ranges(ranges_text(mark.missing)) == mark.missing
    assert mark.reports == len(taken)
    missing = {number for first, last in mark.missing for number in range(first, last + 1)}
    assert missing == set(range(1, max(taken))) - taken
    assert mark.missing_reports == len([number for number in missing if number > min(taken)])
