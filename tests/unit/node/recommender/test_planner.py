"""Where plans come from: state, recommendations, orders; the rules are core's, and tested there."""

from __future__ import annotations

from agent.calendar import ReadWindows
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import QosClass
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.orders.order import Mode, OrderSource
from agent.core.orders.plan_options import ActOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.plan.needs.demand import ReservedReason, Urgent
from agent.core.plan.needs.demands import NOTHING_MEASURED
from agent.node.recommender.planner import Holding, Planner
from agent.node.recommender.pod_orders import PodOrders
from tests.pods import mirror_metadata
from tests.turns import NOW, Turns, uid_of


def holding(*pinned: str, is_barred: bool = False) -> Holding:
    return Holding(
        pinned=frozenset(pinned),
        constraints={},
        is_barred=lambda _: is_barred,
        is_limit_held=lambda *_: False,
    )


def identity(uid: str | None) -> UnitIdentity:
    return UnitIdentity(cgroup_path="/x", kind=UnitKind.CONTAINER, qos=QosClass.BURSTABLE, pod_uid=uid, container="app")


def two(act: ActOptions | None = None) -> Turns:
    turns = Turns(act=act)
    for name in ("a", "b"):
        turns.server.add(name, cpu=500)
        turns.need(name, cpu=200)
    return turns


def moved(turns: Turns, held: Holding | None = None, *, as_enforced: bool = False) -> list[str]:
    planned = turns.planner.plan(held or holding(), as_enforced=as_enforced)
    return [step.ref.name for step in planned.plan.steps]


def test_plan_is_of_the_newest_state_and_carries_what_it_was_made_of() -> None:
    turns = two()
    planned = turns.planner.plan(holding())
    assert [step.ref.name for step in planned.plan.steps] == ["a", "b"]
    assert planned.plan.taken_unix_seconds == NOW
    assert set(planned.demands) == {uid_of("a"), uid_of("b")}
    assert planned.state == turns.state()
    assert planned.gates.resize
    del turns.server.pods["a"]
    assert moved(turns) == ["b"]


def test_nothing_recommended_yet_moves_nobody() -> None:
    turns = two()
    planner = Planner(
        settings=turns.settings,
        state=turns.state,
        evaluated=lambda: None,
        wall_now=lambda: NOW,
        directed=turns.directions.now,
        read_windows=ReadWindows(),
    )
    planned = planner.plan(holding())
    assert planned.plan.steps == ()
    assert planned.measured is NOTHING_MEASURED
    assert {demand.reserved for demand in planned.demands.values()} == {ReservedReason.NO_DATA}
    urgent = {(uid_of("a"), "app"): Urgent(cpu_millicores=900)}
    assert [step.ref.name for step in planner.plan(holding(), urgent=urgent).plan.steps] == ["a"]


def test_what_is_held_stays() -> None:
    turns = two()
    assert moved(turns, holding(uid_of("a"))) == ["b"]
    assert moved(turns, holding(is_barred=True)) == []


def test_recommend_mode_is_planned_for_only_to_see_what_would_be_done() -> None:
    turns = two(act=ActOptions(mode=Mode.RECOMMEND))
    turns.server.order("b", mode="off")
    assert moved(turns) == []
    assert moved(turns, as_enforced=True) == ["a"]


def test_orders_are_read_once_until_there_is_news() -> None:
    turns = two()
    first = turns.orders.of_unit(identity(uid_of("a")))
    assert first is not None
    assert (first.mode, first.mode_source) == (Mode.ENFORCE, OrderSource.CONFIGURATION)
    turns.server.order("a", mode="off", policy="vpa")
    assert turns.orders.of_unit(identity(uid_of("a"))) is first
    turns.orders.news()
    second = turns.orders.of_unit(identity(uid_of("a")))
    assert second is not None
    assert (second.mode, second.mode_source) == (Mode.OFF, OrderSource.POD)
    assert turns.orders.policies() == {PolicyName.PLIMSOLL, PolicyName.VPA}
    turns.state_fields["namespaces"] = {
        "shop": Namespace(name="shop", annotations={"plimsoll.dev/mode": "recommend"}),
    }
    turns.orders.news()
    other = turns.orders.of_unit(identity(uid_of("b")))
    assert other is not None
    assert (other.mode, other.mode_source) == (Mode.RECOMMEND, OrderSource.NAMESPACE)


def test_unit_of_no_pod_has_no_orders() -> None:
    turns = two()
    assert turns.orders.of_unit(identity(None)) is None
    assert turns.orders.of_unit(identity("uid-of-nobody")) is None


def test_static_pod_is_found_by_the_uid_of_its_cgroup() -> None:
    turns = two()
    document = turns.server.pods["a"]
    document["spec"]["nodeName"] = "node-1"
    document["metadata"] |= mirror_metadata("node-1")
    [pod] = [pod for pod in turns.state().pods if pod.name == "a"]
    assert pod.cgroup_uid != pod.uid
    assert turns.orders.of_unit(identity(pod.cgroup_uid)) is not None
    assert turns.orders.of_unit(identity(pod.uid)) is not None


def test_a_forged_mirror_does_not_take_the_orders_of_the_static_pod_whose_hash_it_states() -> None:
    turns = two()
    for name in ("a", "b"):
        turns.server.pods[name]["spec"]["nodeName"] = "node-1"
        turns.server.pods[name]["metadata"] |= mirror_metadata("node-1")
    turns.server.pods["b"]["metadata"]["annotations"]["plimsoll.dev/mode"] = "off"
    statuses = turns.server.pods["a"]["status"].setdefault("containerStatuses", [{"name": "app"}])
    statuses[0]["containerID"] = f"containerd://{'a' * 64}"
    turns.server.pods["b"]["status"].pop("containerStatuses", None)
    genuine, forged = turns.state().pods
    assert (genuine.name, genuine.cgroup_uid) == ("a", forged.cgroup_uid)
    by_hash = turns.orders.of_unit(identity(genuine.cgroup_uid))
    assert by_hash is not None
    assert (by_hash.mode, by_hash.mode_source) == (Mode.ENFORCE, OrderSource.CONFIGURATION)
    own = turns.orders.of_unit(identity(forged.uid))
    assert own is not None
    assert own.mode is Mode.OFF


def test_news_that_come_while_orders_are_read_have_them_read_again() -> None:
    turns = two()
    states = 0

    def state_with_news() -> object:
        nonlocal states
        states += 1
        if states == 1:
            orders.news()
        return turns.state()

    orders = PodOrders(
        settings=turns.settings,
        state=state_with_news,  # type: ignore[arg-type]
        directed=turns.directions.now,
        read_windows=ReadWindows(),
    )
    for _ in range(3):
        orders.of_unit(identity(uid_of("a")))
    assert states == 2
