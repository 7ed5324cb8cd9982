from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agent.core.recommender.plimsoll.demand import TOGETHER_ROWS, DemandMemory, HourBeginning, Price
from tests.generated_traces import START_UNIX_MINUTE

HOUR = 60
ROWS = TOGETHER_ROWS + 6
PRICES = 60.0, 10.0
BEGIN = START_UNIX_MINUTE - START_UNIX_MINUTE % HOUR
LAST = ROWS - 1
"""Of the rows that are worked out after the first ones."""


def usage_of(hours: int) -> NDArray[np.float32]:
    """Return what each row used, shape ``(minutes, ROWS)``."""
    return np.random.default_rng(3).lognormal(5.0, 0.5, (hours * HOUR, ROWS)).astype(np.float32)


def fold(memory: DemandMemory, begin: int, usage: NDArray[np.float32]) -> int:
    """Learn it; return the minute after."""
    for minute, values in enumerate(usage, begin):
        memory.fold(minute, values, np.ones(values.size, dtype=np.bool_))
    return begin + len(usage)


def figures(beginning: HourBeginning) -> list[object]:
    parts = (getattr(beginning, name) for name in HourBeginning.__slots__)
    return [part.tolist() if isinstance(part, np.ndarray) else part for part in parts]


def test_a_row_is_answered_for_as_if_it_were_the_only_one() -> None:
    many, alone, usage = DemandMemory(PRICES, ROWS), DemandMemory(PRICES, 1), usage_of(50)
    now = 60.0 * fold(many, BEGIN, usage)
    fold(alone, BEGIN, usage[:, [LAST]])
    with_others, by_itself = many.at(np.array([LAST]), now), alone.at(np.array([0]), now)
    assert with_others.answer_millicores.tolist() == by_itself.answer_millicores.tolist()
    assert with_others.base_millicores.tolist() == by_itself.base_millicores.tolist()
    assert with_others.known_minutes.tolist() == by_itself.known_minutes.tolist() == [50.0 * HOUR]


def test_how_an_hour_began_is_told_the_same_until_it_ends() -> None:
    memory = DemandMemory(PRICES, ROWS)
    minute = fold(memory, BEGIN, usage_of(50))
    for price in Price:
        told = memory.beginning(LAST, price, 60.0 * minute)
        assert told.cheapest_millicores in told.levels
    before = [figures(memory.beginning(LAST, price, 60.0 * minute)) for price in Price]
    end = fold(memory, minute, np.full((HOUR - 1, ROWS), 1e5, dtype=np.float32))
    assert [figures(memory.beginning(LAST, price, 60.0 * end)) for price in Price] == before
    fold(memory, end, np.full((1, ROWS), 1e5, dtype=np.float32))
    assert [figures(memory.beginning(LAST, price, 60.0 * (end + 1))) for price in Price] != before
