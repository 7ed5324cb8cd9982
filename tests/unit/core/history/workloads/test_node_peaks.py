import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.history.minute.minute_codec import LARGEST, decode, encode
from agent.core.history.workloads.node_peaks import Leaders, amount_of, code_of, node_number

values = st.lists(st.tuples(st.integers(min_value=0, max_value=6), st.integers(min_value=1, max_value=4)), max_size=12)


def leaders_of(pairs: list[tuple[int, int]]) -> Leaders:
    leaders = Leaders()
    for value, node in pairs:
        leaders = leaders.with_value(value, node)
    return leaders


def without(leaders: Leaders, node: int) -> int:
    return leaders.second if leaders.node == node else leaders.top


@given(values, st.integers(min_value=1, max_value=5))
def test_the_largest_without_one_node_is_exact(pairs: list[tuple[int, int]], node: int) -> None:
    expected = max((value for value, of in pairs if of != node), default=0)
    assert without(leaders_of(pairs), node) == expected


@given(values, st.randoms(use_true_random=False))
def test_order_does_not_matter(pairs: list[tuple[int, int]], random: object) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert leaders_of(shuffled) == leaders_of(pairs)


@given(values, values, values)
def test_merging_is_as_if_all_had_come_to_one(
    first: list[tuple[int, int]], second: list[tuple[int, int]], third: list[tuple[int, int]]
) -> None:
    one, two, three = leaders_of(first), leaders_of(second), leaders_of(third)
    every = leaders_of(first + second + third)
    assert one.merged(two).merged(three) == every
    assert one.merged(two.merged(three)) == every
    assert three.merged(one).merged(two) == every


def test_codes_are_those_of_the_minute_codec() -> None:
    random = np.random.default_rng(0)
    amounts = np.unique(np.concatenate([np.arange(9000), 2 ** np.arange(43), random.integers(0, 2**45, 2000)]))
    codes = encode(amounts.astype(np.float64), np.ones(amounts.size, dtype=np.bool_))
    assert [code_of(amount) for amount in amounts.tolist()] == codes.tolist()
    assert [amount_of(code) for code in codes.tolist()] == decode(codes)[0].astype(np.int64).tolist()
    assert amount_of(0) is None


@given(st.integers(min_value=0, max_value=int(LARGEST)))
def test_a_code_never_understates_and_overstates_by_less_than_a_thousandth(amount: int) -> None:
    coded = amount_of(code_of(amount))
    assert coded is not None
    assert amount <= coded <= amount * 1.0005


def test_what_is_beyond_the_format_stays_at_its_end() -> None:
    assert amount_of(code_of(1 << 60)) == amount_of(code_of(int(LARGEST))) == LARGEST


def test_node_numbers_are_stable_and_never_nobodys() -> None:
    assert node_number("node-a") == node_number("node-a") != node_number("node-b")
    assert all(0 < node_number(f"node-{index}") < 1 << 32 for index in range(200))


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(0, 1)], Leaders()),  # a missing value leads nobody
        ([(5, 1), (7, 1), (6, 1)], Leaders(top=7, node=1, second=0)),  # the same node again
        ([(5, 1), (7, 2)], Leaders(top=7, node=2, second=5)),  # another node passes it
        ([(7, 2), (5, 1), (6, 3)], Leaders(top=7, node=2, second=6)),  # others stay below it
        ([(7, 2), (7, 3)], Leaders(top=7, node=3, second=7)),  # of two with the same one, the larger hash
    ],
)
def test_the_leader_and_the_largest_of_any_other_node(pairs: list[tuple[int, int]], expected: Leaders) -> None:
    assert leaders_of(pairs) == expected


def test_leaders_merged_are_those_of_all_values() -> None:
    ours, same = Leaders(top=7, node=2, second=3), Leaders(top=9, node=2, second=1)
    assert ours.merged(same) == Leaders(top=9, node=2, second=3)
    # Node 5 led with 8 and had 4 beside it: 7 of node 2 is now the largest of another node than 5.
    assert ours.merged(Leaders(top=8, node=5, second=4)) == Leaders(top=8, node=5, second=7)
    assert Leaders(top=8, node=5, second=4).merged(ours) == Leaders(top=8, node=5, second=7)
