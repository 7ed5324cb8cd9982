from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.machine.cgroup_files import Amount, FileReading, Unlimited, UnreadFile
from agent.core.machine.comparison import (
    AcceptedValue,
    ComparisonOutcome,
    Formula,
    State,
    WantedValue,
    Weights,
    compare,
)
from agent.core.machine.cpu_knobs import CpuMax, systemd_quota
from agent.core.numbers.units import MIB

MAX = Unlimited.MAX


def outcome(wanted: WantedValue, amount: Amount, *, is_systemd: bool = False) -> ComparisonOutcome:
    result = compare(wanted, FileReading(amount=amount), is_systemd=is_systemd)
    assert result is not None
    return result


def cpu_max(quota_usec: int | None, period_usec: int = 100_000) -> CpuMax:
    return CpuMax(quota_usec=quota_usec, period_usec=period_usec)


@pytest.mark.parametrize(
    ("shares", "takes_quadratic", "found", "formula"),
    [
        (1024, True, 39, Formula.LINEAR),
        (1024, True, 100, Formula.QUADRATIC),
        (2, True, 1, Formula.EITHER),
        (262144, True, 10000, Formula.EITHER),
        (1024, False, 39, Formula.LINEAR),
        # A pod's weight is the kubelet's own, always linear.
        (1024, False, 100, None),
        (1024, True, 40, None),
        # 51 and 28 shares have one weight: 1 + 49 * 9999 // 262142 = 2, and 1 + 26 * 9999 // 262142 = 1 is another
        (51, False, 2, Formula.LINEAR),
        (28, False, 2, None),
    ],
)
def test_weight_tells_which_formula_it_follows(
    shares: int, takes_quadratic: bool, found: int, formula: Formula | None
) -> None:
    wanted = WantedValue(file="cpu.weight", target=Weights(shares=shares, takes_quadratic=takes_quadratic))

    result = outcome(wanted, found)

    assert result.formula is formula
    assert result.state is (State.EQUAL if formula else State.DRIFTED)


def test_weight_difference_is_to_the_nearest_formula() -> None:
    wanted = WantedValue(file="cpu.weight", target=Weights(shares=1024, takes_quadratic=True))

    assert outcome(wanted, 105).difference == 5  # 100 is nearer than 39
    assert outcome(wanted, 30).difference == -9
    assert outcome(wanted, MAX).difference is None
    # weight 30 is 760 shares by the linear formula: 29 x 262142 / 9999 + 2 = 762
    assert outcome(wanted, 30).note == "the weight of a CPU request of 745m"
    assert outcome(wanted, MAX).note is None


@pytest.mark.parametrize(
    ("target", "found", "is_systemd", "state", "difference"),
    [
        (cpu_max(20_000), cpu_max(20_000), False, State.EQUAL, None),
        (cpu_max(None), cpu_max(None, 50_000), False, State.EQUAL, None),
        # 33300 of 100000 is kept as 34 % by systemd, and as nothing else
        (cpu_max(33_300), cpu_max(34_000), True, State.EQUAL, None),
        (cpu_max(33_300), cpu_max(34_000), False, State.DRIFTED, 7.0),
        (cpu_max(33_300), cpu_max(33_000), True, State.DRIFTED, -3.0),
        (cpu_max(20_000), cpu_max(21_000), True, State.DRIFTED, 10.0),
        (cpu_max(20_000), cpu_max(None), True, State.DRIFTED, None),
        (cpu_max(None), cpu_max(20_000), True, State.DRIFTED, None),
        # the same 200m, but handed out in other portions
        (cpu_max(20_000), cpu_max(10_000, 50_000), True, State.DRIFTED, 0.0),
        (cpu_max(20_000), 20_000, True, State.DRIFTED, None),
    ],
)
def test_quota(target: CpuMax, found: Amount, is_systemd: bool, state: State, difference: float | None) -> None:
    result = outcome(WantedValue(file="cpu.max", target=target), found, is_systemd=is_systemd)

    assert result.state is state
    assert result.difference == (None if difference is None else pytest.approx(difference))


def test_quota_that_systemd_rounded_says_so() -> None:
    result = outcome(WantedValue(file="cpu.max", target=cpu_max(33_300)), cpu_max(34_000), is_systemd=True)

    assert "rounding" in (result.note or "")


@given(quota_usec=st.integers(1000, 10_000_000), period_usec=st.integers(1000, 1_000_000))
def test_whatever_systemd_rounds_is_equal(quota_usec: int, period_usec: int) -> None:
    rounded = systemd_quota(quota_usec, period_usec).cpu_max_quota_usec
    wanted = WantedValue(file="cpu.max", target=cpu_max(quota_usec, period_usec))

    assert outcome(wanted, cpu_max(rounded, period_usec), is_systemd=True).state is State.EQUAL


@pytest.mark.parametrize(
    ("target", "found", "state", "difference"),
    [
        (200 * MIB, 200 * MIB, State.EQUAL, None),
        # 100 MB are 24414 pages and a bit
        (100_000_000, 24414 * 4096, State.EQUAL, None),
        (100_000_000, 24413 * 4096, State.DRIFTED, 24413 * 4096 - 100_000_000),
        (MAX, MAX, State.EQUAL, None),
        (MAX, 4096, State.DRIFTED, None),
        (200 * MIB, MAX, State.DRIFTED, None),
        (2**63 - 1, MAX, State.EQUAL, None),
        (200 * MIB, cpu_max(None), State.DRIFTED, None),
    ],
)
def test_memory_limit(target: Amount, found: Amount, state: State, difference: float | None) -> None:
    result = outcome(WantedValue(file="memory.max", target=target, granule_bytes=4096), found)

    assert result.state is state
    assert result.difference == difference


@pytest.mark.parametrize(("found", "state"), [(1 << 62, State.EQUAL), (MAX, State.EQUAL), (0, State.DRIFTED)])
def test_at_least(found: Amount, state: State) -> None:
    assert outcome(WantedValue(file="hugetlb.2MB.max", target=1 << 62, at_least=True), found).state is state


def test_another_accepted_value_is_equal_and_says_why() -> None:
    wanted = WantedValue(file="memory.max", target=1, accepted=(AcceptedValue(target=2, note="asked for"),))

    result = outcome(wanted, 2)

    assert (result.state, result.target, result.note) == (State.EQUAL, 2, "asked for")
    assert outcome(wanted, 3).target == 1


def test_doubt_turns_a_drift_into_unknown_but_leaves_what_is_equal() -> None:
    wanted = WantedValue(file="memory.max", target=1, doubt="who knows")

    assert outcome(wanted, 1).state is State.EQUAL
    assert (outcome(wanted, 2).state, outcome(wanted, 2).note) == (State.UNKNOWN, "who knows")


def test_value_that_cannot_be_told_is_unknown_and_shown() -> None:
    result = outcome(WantedValue(file="memory.max", target=None, doubt="capacity"), 7)

    assert (result.state, result.target, result.found, result.note) == (State.UNKNOWN, None, 7, "capacity")


@pytest.mark.parametrize(
    ("unread", "state"),
    [
        (UnreadFile.NO_CONTROLLER, State.NOT_THERE),
        (UnreadFile.NO_FILE, State.NOT_THERE),
        (UnreadFile.GONE, State.NOT_THERE),
        (UnreadFile.UNREADABLE, State.UNKNOWN),
        (UnreadFile.NOT_UNDERSTOOD, State.UNKNOWN),
    ],
)
def test_file_without_a_value_gives_its_reason(unread: UnreadFile, state: State) -> None:
    result = compare(WantedValue(file="memory.max", target=1), FileReading(unread=unread), is_systemd=False)

    assert result == ComparisonOutcome(state=state, target=1, found=None, note=unread)


def test_missing_file_in_which_nothing_should_be_is_no_finding() -> None:
    wanted = WantedValue(file="memory.max", target=MAX, is_written=False)

    assert compare(wanted, FileReading(unread=UnreadFile.NO_CONTROLLER), is_systemd=False) is None
