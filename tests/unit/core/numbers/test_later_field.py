from __future__ import annotations

from dataclasses import dataclass, field, fields

from agent.core.numbers.later_field import LATER, is_later


@dataclass(frozen=True, slots=True)
class Written:
    first: int
    second: int | None = field(default=None, metadata=LATER)


def test_only_marked_fields_may_be_absent() -> None:
    assert [is_later(dataclass_field) for dataclass_field in fields(Written)] == [False, True]
