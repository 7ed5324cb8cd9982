from __future__ import annotations

from dataclasses import fields, replace

from agent.core.cluster.node import Node
from agent.core.cluster.pod import MEMORY
from agent.core.cluster.unit import UnitIdentity
from agent.core.machine.oom_score import OomScore
from agent.core.numbers.units import GIB, NANOS_PER_UNIT
from agent.core.orders.order import Mode, Orders, OrderSource, Ranking
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.explanation import Explanation, Explanations
from agent.core.resize.originals import original_of
from agent.core.resize.why import Acted, Why, stale_oom_score, whys_of
from tests.explanations import explanation
from tests.pods import container, make_pod

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


NODE = Node(name="n", capacity={MEMORY: 8 * GIB * NANOS_PER_UNIT})
BEGAN = 1_767_225_600.0  # 2026-01-01


def test_the_kernels_score_is_of_the_request_before_the_first_resize() -> None:
    status = {"name": "app", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    before, now = (
        make_pod(container("app", {"memory": memory}), status={"qosClass": "Burstable", "containerStatuses": [status]})
        for memory in ("4Gi", "1Gi")
    )
    original = original_of(before, kept_unix_seconds=BEGAN + 60.0)
    # 4 GiB of 8 GiB: 1000 - 500; 1 GiB: 1000 - 125
    assert stale_oom_score(now, "app", original, NODE) == OomScore(found=500, after_restart=875)
    assert stale_oom_score(before, "app", original, NODE) is None
    # Begun since: by which request is not known.
    assert stale_oom_score(now, "app", original_of(before, kept_unix_seconds=BEGAN), NODE) is None
    assert stale_oom_score(now, "app", replace(original, kept_unix_seconds=None), NODE) is None
    assert stale_oom_score(now, "log", original, NODE) is None
    assert stale_oom_score(now, "app", original, Node(name="n")) is None
