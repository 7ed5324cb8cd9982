import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.workloads.node_peaks import Leaders
from agent.core.history.workloads.peak_rings import (
    CHUNK_ROWS,
    CPU,
    LEADER_PLANES,
    MEMORY,
    NODE_NUMBERS,
    PEAK_PLANES,
    RING_HOURS,
    CodeRings,
    NodeNumbers,
    Slots,
    add_leader,
    peaks_without,
)
from agent.core.orders.policy_options import CruiseOptions

HOUR = 500_000
NOW = HOUR * 3600.0 + 600.0


def slots_of(*hours: int) -> Slots:
    slots = Slots()
    for hour in hours:
        slots.open(hour)
    return slots


def chosen(slots: Slots, mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[int]:
    return sorted(slots.hours[mask].tolist())


def test_a_slot_holds_the_newest_of_its_hours() -> None:
    slots = slots_of(HOUR)
    assert slots.is_open(HOUR)
    assert not slots.is_open(HOUR - RING_HOURS)
    assert slots.is_too_old(HOUR - RING_HOURS)
    assert not slots.is_too_old(HOUR + RING_HOURS)
    assert not slots.is_too_old(HOUR + 1)


def test_a_slot_is_fresh_until_it_holds_its_first_hour() -> None:
    slots = slots_of(HOUR)
    assert slots.is_fresh(HOUR + 1)
    assert not slots.is_fresh(HOUR)
    assert not slots.is_fresh(HOUR + RING_HOURS)


def test_seven_days_count_with_the_hour_of_seven_days_ago() -> None:
    slots = slots_of(HOUR - 169, HOUR - 168, HOUR)
    assert chosen(slots, slots.week(NOW)) == [HOUR - 168, HOUR]


def test_the_prediction_goes_by_this_hour_of_the_day_and_its_neighbours() -> None:
    slots = slots_of(*range(HOUR - 191, HOUR + 1))
    expected = {HOUR - 24 * day + near for day in range(8) for near in (-1, 0, 1)} - {HOUR + 1}
    assert set(chosen(slots, slots.predicting(CruiseOptions(), NOW))) == expected


def test_without_neighbours_the_hours_that_the_last_seconds_reach_into_count() -> None:
    slots = slots_of(*range(HOUR - 5, HOUR + 1))
    options = CruiseOptions(neighbour_hours=0, last_seconds=3600.0)
    assert chosen(slots, slots.predicting(options, NOW)) == [HOUR - 1, HOUR]
    # 150 s after the full hour a row of the hour before the last may still reach into the last 3600 s, then no longer.
    start = HOUR * 3600.0
    assert chosen(slots, slots.predicting(options, start + 149.0)) == [HOUR - 2, HOUR - 1, HOUR]
    assert chosen(slots, slots.predicting(options, start + 150.0)) == [HOUR - 1, HOUR]


def test_rows_are_given_up_to_the_limit_and_again_once_taken_back() -> None:
    rings = CodeRings(PEAK_PLANES, CHUNK_ROWS + 1)
    given = [rings.give() for _ in range(CHUNK_ROWS + 2)]
    assert given == [*range(CHUNK_ROWS + 1), None]
    assert rings.nbytes == 2 * CHUNK_ROWS * PEAK_PLANES * RING_HOURS * 2
    rings.of(5)[:] = 7
    rings.take_back(5)
    assert (rings.rows, rings.capacity) == (CHUNK_ROWS, CHUNK_ROWS + 1)
    assert rings.give() == 5
    assert not rings.of(5).any()


def test_put_and_clear_reach_every_chunk() -> None:
    rings = CodeRings(PEAK_PLANES, 2 * CHUNK_ROWS)
    for _ in range(CHUNK_ROWS + 1):
        rings.give()
    rows = np.array([0, CHUNK_ROWS, 0])
    slots = np.array([HOUR % RING_HOURS, HOUR % RING_HOURS, (HOUR + 1) % RING_HOURS])
    rings.put(rows, slots, np.array([[1, 2], [3, 4], [5, 6]], dtype=np.uint16))
    assert rings.of(CHUNK_ROWS)[:, HOUR % RING_HOURS].tolist() == [3, 4]
    rings.clear(HOUR)
    assert not rings.of(CHUNK_ROWS).any()
    assert rings.of(0)[:, (HOUR + 1) % RING_HOURS].tolist() == [5, 6]
    assert rings.of(0).sum() == 11


values = st.lists(st.tuples(st.integers(min_value=1, max_value=6), st.integers(min_value=1, max_value=4)), max_size=12)


@given(values, values)
def test_leaders_in_rings_answer_as_leaders_do(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    rings = CodeRings(LEADER_PLANES, 2)
    rows = (rings.give(), rings.give())
    assert rows == (0, 1)
    leaders = Leaders()
    for row, pairs in ((0, one), (1, other)):
        for value, node in pairs:
            add_leader(rings.of(row), MEMORY, 3, value, node)
            leaders = leaders.with_value(value, node)
    assert rings.peaks((0, 1))[:, 3].tolist() == [0, leaders.top]
    for node in range(1, 6):
        expected = max((value for value, of in one + other if of != node), default=0)
        assert peaks_without(rings.copies((0, 1)), node).max(axis=0)[:, 3].tolist() == [0, expected]
    assert not rings.of(0)[CPU::PEAK_PLANES].any()


def test_nodes_keep_their_numbers() -> None:
    numbers = NodeNumbers()
    assert numbers.find(77) is None
    first = numbers.give(77, HOUR)
    assert first == numbers.give(77, HOUR + 1) == numbers.find(77) != 0
    assert numbers.give(77, HOUR) == first
    assert numbers.give(78, HOUR) != first


def test_numbers_of_nodes_long_gone_are_given_anew_and_else_there_are_none_left() -> None:
    numbers = NodeNumbers()
    for node in range(1, NODE_NUMBERS):
        numbers.give(node, HOUR)
    assert numbers.give(NODE_NUMBERS, HOUR) == 0
    numbers.give(5, HOUR + RING_HOURS)  # this one is still there
    again = numbers.give(NODE_NUMBERS, HOUR + RING_HOURS)
    assert again != 0
    assert numbers.find(5) not in (None, again)
    assert numbers.find(6) is None
    assert numbers.give(NODE_NUMBERS + 1, HOUR + RING_HOURS) not in (0, again)


def test_which_slots_count_is_worked_out_once_an_hour() -> None:
    slots = slots_of(HOUR, HOUR - 1)
    options = CruiseOptions()
    for mask, again in (
        (slots.week(NOW), slots.week(NOW + 60.0)),
        (slots.predicting(options, NOW), slots.predicting(options, NOW)),
    ):
        assert again is mask
    later = slots.week(NOW + 3600.0)
    assert later is not slots.week(NOW)
    assert chosen(slots, later) == [HOUR - 1, HOUR]


def test_the_peaks_of_several_rows_are_the_largest_of_each_and_one_node_can_be_left_out() -> None:
    rings = CodeRings(LEADER_PLANES, 4)
    rows = rings.give(), rings.give()
    assert rows == (0, 1)
    slot = HOUR % RING_HOURS
    for row, value, node in ((0, 500, 7), (0, 300, 8), (1, 400, 7)):
        add_leader(rings.of(row), CPU, slot, value, node)
    assert rings.peaks((0,))[CPU, slot] == 500
    assert rings.peaks((0, 1))[CPU, slot] == 500
    # Without node 7 only the 300 of node 8 are left, in row 0.
    assert peaks_without(rings.copies((0, 1)), 7).max(axis=0)[CPU, slot] == 300
    assert peaks_without(rings.copies((0, 1)), 9).max(axis=0)[CPU, slot] == 500
    assert rings.peaks((0, 1))[MEMORY, slot] == 0
