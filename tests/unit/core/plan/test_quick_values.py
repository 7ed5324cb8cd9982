from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass

import pytest

from agent.core.plan.quick_values import slot_setters


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    one: int
    two: str = "two"


def test_a_value_made_by_its_slots_is_the_value_that_its_constructor_makes() -> None:
    made = object.__new__(Pair)
    for setter, value in zip(slot_setters(Pair), (1, "2"), strict=True):
        setter(made, value)
    assert made == Pair(one=1, two="2")
    with pytest.raises(FrozenInstanceError):
        made.one = 3  # type: ignore[misc]


def test_a_class_without_slots_is_refused() -> None:
    @dataclass(frozen=True)
    class Plain:
        one: int

    with pytest.raises(KeyError):
        slot_setters(Plain)
