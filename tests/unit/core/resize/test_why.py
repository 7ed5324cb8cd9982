from __future__ import annotations

from dataclasses import fields

from agent.core.cluster.unit import UnitIdentity
from agent.core.orders.order import Mode, Orders, OrderSource, Ranking
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.explanation import Explanation, Explanations
from agent.core.resize.why import Acted, Why, whys_of
from tests.explanations import explanation

DEFAULT = OrderSource.CONFIGURATION
ORDERS = Orders(
    mode=Mode.ENFORCE,
    mode_source=DEFAULT,
    policy=PolicyName.VPA,
    policy_source=DEFAULT,
    ranking=Ranking.MEDIUM,
    ranking_source=DEFAULT,
)
ACTED = Acted(orders=ORDERS, reserved=None, planned=None, is_evicted=False, decisions=())


def told() -> Explanation:
    why = explanation()
    return Explanation(**{field.name: getattr(why, field.name) for field in fields(Explanation)})


def test_what_was_done_stands_beside_what_was_explained() -> None:
    explained, asked = told(), []

    def acted(identity: UnitIdentity) -> Acted | None:
        asked.append(identity)
        return ACTED

    (why,) = whys_of(Explanations(items=(explained,)), acted).items
    assert why.acted is ACTED
    assert asked == [explained.recommendation.identity]
    assert {field.name: getattr(why, field.name) for field in fields(Explanation)} == {
        field.name: getattr(explained, field.name) for field in fields(Explanation)
    }


def test_without_a_plan_nothing_is_said_of_it() -> None:
    (why,) = whys_of(Explanations(items=(told(),))).items
    assert isinstance(why, Why)
    assert why.acted is None
