from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.orders import annotations as names
from agent.core.orders.annotations import ValueNotAllowed
from agent.core.orders.order import Mode, Ranking
from agent.core.orders.policy_options import PolicyName

MI = 1 << 20
READERS: list[Callable[[str], object]] = [
    names.mode_from,
    names.policy_from,
    names.ranking_from,
    names.flag_from,
    names.least_cpu_from,
    names.most_cpu_from,
    names.least_memory_from,
    names.most_memory_from,
]


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (names.mode_from, "enforce", Mode.ENFORCE),
        (names.mode_from, " off\n", Mode.OFF),  # as a YAML block writes it
        (names.policy_from, "vpa", PolicyName.VPA),
        (names.ranking_from, "no-eviction", Ranking.NO_EVICTION),
        (names.flag_from, "true", True),
        (names.flag_from, "false", False),
        (names.least_cpu_from, "250m", 250),
        (names.least_cpu_from, "0", 0),
        (names.least_cpu_from, "1u", 1),  # rounded up: nobody asks for something and gets nothing
        (names.most_cpu_from, "1.5", 1500),
        (names.least_memory_from, "0", 0),
        (names.least_memory_from, "1Mi", MI),
        (names.most_memory_from, "1Gi", 1024 * MI),
        (names.most_memory_from, "2e6", 2_000_000),
        (names.most_memory_from, "9007199254740993", 2**53 + 1),  # no float
        (names.least_memory_from, "9223372036854775807", 2**63 - 1),
    ],
)
def test_a_value_is_read(read: Callable[[str], object], value: str, expected: object) -> None:
    assert read(value) == expected


@pytest.mark.parametrize(
    ("read", "value", "allowed"),
    [
        (names.mode_from, "Enforce", "off, recommend, protect, enforce"),
        (names.mode_from, "", "off, recommend, protect, enforce"),
        (names.policy_from, "best", "cruise, vpa, crane, plimsoll"),
        (names.ranking_from, "1", "low, medium, high, no-eviction"),
        (names.flag_from, "yes", "true, false"),
        (names.least_cpu_from, "-1m", "CPU such as 250m or 1.5"),
        (names.least_cpu_from, "half", "CPU such as 250m or 1.5"),
        (names.most_cpu_from, "0", "CPU such as 250m or 1.5, more than 0"),
        (names.least_memory_from, "512m", "0, or memory of at least 1Mi such as 256Mi"),  # half a byte
        (names.least_memory_from, "512", "0, or memory of at least 1Mi such as 256Mi"),
        (names.most_memory_from, "0", "memory of at least 1Mi such as 256Mi"),
        # Python itself refuses to read more than 4300 digits, with an error of another kind.
        (names.most_memory_from, "9" * 5000, "memory of at least 1Mi such as 256Mi"),
    ],
)
def test_a_value_that_is_not_understood_is_refused_with_what_is_allowed(
    read: Callable[[str], object], value: str, allowed: str
) -> None:
    with pytest.raises(ValueNotAllowed) as refusal:
        read(value)
    assert str(refusal.value) == allowed


@given(st.sampled_from(READERS), st.text())
def test_any_text_is_read_or_refused(read: Callable[[str], object], value: str) -> None:
    with contextlib.suppress(ValueNotAllowed):
        assert read(value) is not None


def test_unknown_keys_under_the_prefix_are_named_and_no_others() -> None:
    keys = ["plimsoll.dev/mod", names.MODE, "plimsoll.dev/Policy", "example.com/mode", names.ORIGINAL_RESOURCES]
    assert names.unknown_keys(keys) == ("plimsoll.dev/Policy", "plimsoll.dev/mod")


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (names.least_memory_from, "9223372036854775808"),
        (names.most_memory_from, "1e999"),
        (names.least_cpu_from, "9223372036854775808m"),
        (names.most_cpu_from, "1e999"),
    ],
)
def test_more_than_kubernetes_holds_is_not_cut_in_silence(read: Callable[[str], object], value: str) -> None:
    with pytest.raises(ValueNotAllowed):
        read(value)
