"""What is asked for where starvation is answered within seconds: the lower price, row by row and hour by hour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.orders.policy_options import SizingOptions
from agent.core.recommender.credit import CPU_FULL_PRICE, CPU_IN_PLACE
from agent.core.recommender.plimsoll.policy import PlimsollPolicy
from agent.core.recommender.policy import Proposals
from tests.examples import examples
from tests.generated_traces import START_UNIX_MINUTE as MIDNIGHT
from tests.policy_rows import all_rows, make_minutes, make_present

HOUR = 60
STRIDE = 5


def bursting(days: int, rows: int = 1, *, options: SizingOptions | None = None) -> tuple[PlimsollPolicy, int]:
    """Return a policy that has seen 100m all day and 900m for ten minutes every fifth hour, and the minute after."""
    policy = PlimsollPolicy(SizingOptions() if options is None else options, rows)
    minute = MIDNIGHT
    for _ in range(days * 24 * HOUR // STRIDE):
        is_burst = minute // HOUR % 5 == 0 and 20 <= minute % HOUR < 30
        policy.fold(make_minutes(minute, [900.0 if is_burst else 100.0] * rows))
        minute += STRIDE
    return policy, minute


def asked(policy: PlimsollPolicy, minute: int, credit: Sequence[bool] | None) -> Proposals:
    rows = 1 if credit is None else len(credit)
    present = make_present([1.0] * rows, credit=credit)
    return policy.recommend(all_rows(rows), present, now_unix_seconds=minute * 60.0)


def requests(policy: PlimsollPolicy, minute: int, credit: Sequence[bool] | None) -> list[float]:
    amounts: list[float] = asked(policy, minute, credit).cpu_request_millicores.tolist()
    return amounts


@pytest.mark.parametrize(
    ("options", "prices"),
    [
        (SizingOptions(), (60.0, 10.0)),
        (SizingOptions(price=10.0), (10.0, 5.0)),  # lean
        (SizingOptions(price=200.0), (200.0, 200.0 / 6)),  # safe
        (SizingOptions(price=3.0), (3.0, 3.0)),
        (SizingOptions(price_in_place=20.0), (60.0, 20.0)),
        (SizingOptions(price_in_place=100.0), (60.0, 60.0)),  # never above the full price
    ],
)
def test_the_price_in_place_follows_the_price_and_never_passes_it(
    options: SizingOptions, prices: tuple[float, float]
) -> None:
    assert options.prices == prices


def test_rows_with_credit_are_asked_for_at_the_lower_price_and_others_are_not() -> None:
    policy, minute = bursting(6, rows=2)
    with_credit, without = requests(policy, minute, [True, False])
    assert with_credit < without
    assert with_credit == pytest.approx(100.0, rel=0.06)
    assert without == pytest.approx(900.0, rel=0.06)
    assert requests(policy, minute, None) == [without]
    proposals = asked(policy, minute, [True, False])
    assert proposals.has_credit is not None
    assert proposals.has_credit.tolist() == [True, False]
    assert proposals.extra[CPU_FULL_PRICE].tolist() == [without] * 2
    assert proposals.extra[CPU_IN_PLACE].tolist() == [with_credit] * 2


def test_credit_lost_within_a_day_is_asked_for_at_the_full_price_at_once_and_back() -> None:
    policy, minute = bursting(6)
    always, never = bursting(6)[0], bursting(6)[0]
    for place in range(8):
        has_credit = place % 3 != 1
        other = always if has_credit else never
        assert requests(policy, minute, [has_credit]) == requests(other, minute, [has_credit])
        for learner in (policy, always, never):
            learner.fold(make_minutes(minute, [100.0 + 10.0 * place]))
        minute += 25


def test_answers_follow_from_the_minutes_alone_whatever_was_asked_before() -> None:
    asked_often, minute = bursting(2)
    for later in range(0, 3 * HOUR, 7):
        requests(asked_often, minute + later, [later % 2 == 0])
    fresh, _ = bursting(2)
    for credit in (True, False):
        assert requests(asked_often, minute + 3 * HOUR, [credit]) == requests(fresh, minute + 3 * HOUR, [credit])


def test_prices_that_are_equal_give_the_same() -> None:
    policy, minute = bursting(3, options=SizingOptions(price_in_place=60.0))
    assert requests(policy, minute, [True]) == requests(policy, minute, [False])


Usage = st.lists(st.floats(0.0, 4000.0, width=32), min_size=1, max_size=60)


@examples(40)
@given(before=Usage, newest=Usage, credit=st.booleans())
def test_credit_never_asks_for_less_than_the_last_quarter_of_an_hour_nor_for_more_than_without(
    before: list[float], newest: list[float], credit: bool
) -> None:
    policy = PlimsollPolicy(SizingOptions(), 1)
    minute = MIDNIGHT
    for used in (*before, *newest):
        policy.fold(make_minutes(minute, [used]))
        minute += STRIDE
    # The last three of every fifth minute are within the last 15.
    least = max([*before, *newest][-3:])
    proposals = asked(policy, minute, [credit])
    assert proposals.cpu_request_millicores[0] >= np.float32(least)
    if not credit:
        assert proposals.cpu_request_millicores[0] == proposals.extra[CPU_FULL_PRICE][0]
