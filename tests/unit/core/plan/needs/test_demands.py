from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.calendar import ReadWindows
from agent.core.cluster.node import Namespace, Node, NodeState
from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.cluster.resource import LARGEST
from agent.core.cluster.workload import Workload
from agent.core.orders.order import Mode, OrderSource, Ranking
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.orders.windows import NO_WAITS, Disruption
from agent.core.plan.needs.demand import ContainerDemand, Demand, PodDemand, ReservedReason, Urgent
from agent.core.plan.needs.demands import DemandSettings, Measurements, demands
from agent.core.plan.needs.directives import NodeDirectives
from agent.core.recommender.calm_falls import calm_falls_of
from agent.core.recommender.recommendation import Bound, Recommendation, Withheld
from tests.directives import directed, directive
from tests.pods import CONFIG_HASH, container, make_pod, mirror_metadata, sidecar
from tests.recommendations import MI, recommendation

NOW = 1_800_000_000.0
WEB = Workload(namespace="shop", kind="StatefulSet", name="web")
KINDS = ("StatefulSet", "ReplicaSet", "Deployment")


def pod(*containers: dict[str, Any], name: str = "web", mode: str = "enforce", **fields: Any) -> Pod:
    metadata = {
        "name": name,
        "uid": f"uid-shop-{name}",
        "annotations": {"plimsoll.dev/mode": mode},
        "ownerReferences": [{"kind": "StatefulSet", "name": "web", "uid": "o", "controller": True}],
        **fields.pop("metadata", {}),
    }
    started = datetime.fromtimestamp(NOW - 7200, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"phase": "Running", "startTime": started, **fields.pop("status", {})}
    app = container("app", {"cpu": "500m", "memory": "256Mi"}, {"memory": "512Mi"})
    return make_pod(*(containers or (app,)), metadata=metadata, status=status, **fields)


def asked(*pods: Pod, items: list[Recommendation] | None = None, **fields: Any) -> tuple[PodDemand, ...]:
    known: dict[str, Any] = {
        "settings": DemandSettings(
            act=ActOptions(), plan=PlanOptions(), bounds=BoundsOptions(), policy=PolicyName.CRUISE
        ),
        "pinned": frozenset(),
        "barred": lambda _: False,
        "now_unix_seconds": NOW,
    }
    state = NodeState(node=fields.pop("node", None), pods=pods or (pod(),), namespaces=fields.pop("namespaces", {}))
    state = replace(state, unknown_namespaces=fields.pop("unknown_namespaces", {}))
    return demands(state, [recommendation("web")] if items is None else items, **{**known, **fields})


def told(**fields: Any) -> NodeDirectives:
    return directed(*(directive(Workload(namespace="shop", kind=kind, name="web"), **fields) for kind in KINDS))


def only(pod_demands: tuple[PodDemand, ...]) -> ContainerDemand:
    (demand,) = pod_demands
    (app,) = demand.containers
    return app


def test_base_and_peak_come_from_the_policy_before_bounds_and_are_rounded_up() -> None:
    item = recommendation(
        "web",
        cpu=250,
        cpu_fields={"base": 100.2, "peak": 180.00000000001},
        memory=128 * MI,
        memory_fields={"base": 1000.0, "peak": 2000.5, "limit": 256 * MI, "is_upward_only": True},
    )
    app = only(asked(items=[item], measured=Measurements(memory_current_bytes={("uid-shop-web", "app"): 4242})))
    assert app.cpu == Demand(base=101, peak=180)  # the last is float noise
    assert app.memory == Demand(base=1000, peak=2001, limit=256 * MI, in_use=4242, is_upward_only=True)
    assert (app.cpu_withheld, app.memory_withheld) == (None, None)


@pytest.mark.parametrize(
    ("fields", "base", "peak"),
    [
        ({"base": None, "peak": None, "proposed": 300.0}, 300, 300),  # a policy that knows one figure
        ({"base": None, "peak": None, "proposed": None}, 250, 250),
        ({"base": float("nan"), "peak": float("inf")}, 250, 250),
        ({"base": 200.0, "peak": 100.0}, 200, 200),  # a spike is never below 0
        ({"base": -5.0, "peak": 1e300}, 0, int(LARGEST)),
    ],
)
def test_demands_are_whole_and_ordered_whatever_the_policy_says(fields: dict[str, Any], base: int, peak: int) -> None:
    app = only(asked(items=[recommendation("web", cpu=250, cpu_fields=fields)]))
    assert app.cpu == Demand(base=base, peak=peak)


def test_a_demand_with_credit_falls_by_the_rule_of_the_settings() -> None:
    item = recommendation("web", cpu=250, cpu_fields={"has_credit": True})
    app = only(asked(items=[item]))
    assert app.cpu is not None
    assert app.cpu.calm_falls == calm_falls_of(ActOptions())
    assert only(asked()).cpu != app.cpu


def test_what_is_withheld_has_no_demand_and_keeps_its_reason() -> None:
    (demand,) = asked(items=[recommendation("web", cpu=Withheld.GAPS)])
    (app,) = demand.containers
    assert (app.cpu, app.cpu_withheld) == (None, Withheld.GAPS)
    assert app.memory is not None
    assert demand.reserved is None  # one missing signal never blanks the others


def test_a_pod_whose_namespace_is_not_known_is_reserved_for_whatever_is_configured() -> None:
    metadata: dict[str, Any] = {"annotations": {}}
    act = ActOptions(mode=Mode.ENFORCE)
    enforced = DemandSettings(act=act, plan=PlanOptions(), bounds=BoundsOptions(), policy=PolicyName.CRUISE)
    (known,) = asked(pod(metadata=metadata), settings=enforced, unknown_namespaces={"other": "not told"})
    assert known.reserved is None
    (unknown,) = asked(pod(metadata=metadata), settings=enforced, unknown_namespaces={"shop": "not told"})
    assert unknown.reserved is ReservedReason.NAMESPACE_UNKNOWN
    (still,) = asked(pod(), unknown_namespaces={"shop": "not told"}, as_enforced=True)
    assert still.reserved is ReservedReason.NAMESPACE_UNKNOWN


def test_a_pod_of_which_nothing_is_known_is_reserved_for() -> None:
    (demand,) = asked(items=[])
    assert demand.reserved is ReservedReason.NO_DATA
    assert only((demand,)).cpu_withheld is Withheld.NO_DATA
    (young,) = asked(items=[recommendation("web", cpu=Withheld.TOO_YOUNG, memory=Withheld.TOO_YOUNG)])
    assert young.reserved is ReservedReason.NO_DATA
    assert only((young,)).memory_withheld is Withheld.TOO_YOUNG


def test_sidecars_come_first_and_init_containers_that_end_not_at_all() -> None:
    web_pod = pod(container("app", {"cpu": "1"}), initContainers=[container("init"), sidecar("proxy", {"cpu": "10m"})])
    (demand,) = asked(web_pod, items=[recommendation("web"), recommendation("web", "proxy", cpu=7)])
    assert [(part.name, part.kind) for part in demand.containers] == [
        ("proxy", ContainerKind.SIDECAR),
        ("app", ContainerKind.REGULAR),
    ]
    assert demand.containers[0].cpu == Demand(base=4, peak=7)  # half of 7, rounded up


def test_of_two_runs_of_a_container_the_present_one_counts_else_the_newest_reading() -> None:
    def run(container_id: str, cpu: int, age_seconds: float | None) -> Recommendation:
        item = recommendation("web", cpu=cpu, cpu_fields={"base": 0.0}, basis={"sample_age_seconds": age_seconds})
        return replace(item, identity=replace(item.identity, container_id=container_id))

    now, before = run("now", 10, 30.0), run("before", 20, 1.0)
    unread = run("unread", 30, None)
    status = {"containerStatuses": [{"name": "app", "containerID": "containerd://now"}]}
    for items in ([now, before, unread], [unread, before, now]):
        assert only(asked(pod(status=status), items=items)).cpu == Demand(base=0, peak=10)
        assert only(asked(items=items)).cpu == Demand(base=0, peak=20)


def test_what_is_no_container_of_a_pod_is_passed_over() -> None:
    item = recommendation("web")
    strangers = [
        replace(item, identity=replace(item.identity, pod_uid=None)),
        replace(item, identity=replace(item.identity, container=None)),
    ]
    assert only(asked(items=strangers)).cpu is None


def test_a_static_pod_is_joined_by_its_configurations_hash() -> None:
    web_pod = pod(metadata=mirror_metadata("n"), nodeName="n")
    item = recommendation("web")
    item = replace(item, identity=replace(item.identity, pod_uid=CONFIG_HASH))
    (demand,) = asked(web_pod, items=[item])
    assert demand.reserved is ReservedReason.STATIC
    assert demand.containers[0].cpu is not None  # shown, and reserved for


def test_urgent_need_raises_base_and_peak() -> None:
    urgent = {("uid-shop-web", "app"): Urgent(cpu_millicores=900, memory_bytes=400 * MI, memory_limit_bytes=600 * MI)}
    app = only(asked(urgent=urgent))
    calm: dict[str, Any] = {"sustained": 64 * MI, "sustained_peak": 128 * MI, "sustained_limit": 0}
    assert app.cpu == Demand(base=900, peak=900, is_urgent=True, sustained=125, sustained_peak=250)
    assert app.memory == Demand(base=400 * MI, peak=400 * MI, limit=600 * MI, is_urgent=True, **calm)
    # What is in use is there, pressed or not.
    in_use = only(asked(urgent=urgent, measured=Measurements(working_set_bytes={("uid-shop-web", "app"): 200 * MI})))
    assert in_use.memory is not None
    assert in_use.memory.sustained == in_use.memory.sustained_peak == 200 * MI


def test_urgent_need_of_a_while_ago_is_a_peak_and_presses_nobody() -> None:
    urgent = {("uid-shop-web", "app"): Urgent(cpu_millicores=900, memory_bytes=400 * MI, is_past=True)}
    app = only(asked(urgent=urgent))
    assert app.cpu == Demand(base=125, peak=900, sustained=125, sustained_peak=250)
    assert app.memory == Demand(base=64 * MI, peak=400 * MI, sustained=64 * MI, sustained_peak=128 * MI)
    low = {("uid-shop-web", "app"): Urgent(cpu_millicores=200, is_past=True)}
    assert only(asked(urgent=low)).cpu == Demand(base=125, peak=250)


def test_urgent_need_below_the_prediction_changes_no_amount() -> None:
    urgent = {("uid-shop-web", "app"): Urgent(cpu_millicores=1)}
    app = only(asked(urgent=urgent))
    assert app.cpu == Demand(base=125, peak=250, is_urgent=True)
    assert app.memory == Demand(base=64 * MI, peak=128 * MI)  # not urgent itself


@pytest.mark.parametrize(
    ("advised", "limits", "expected"),
    [
        (300 * MI, {"memory": "512Mi"}, 512 * MI),  # a limit that presses is never lowered
        (None, {"memory": "512Mi"}, 512 * MI),
        (900 * MI, {"memory": "512Mi"}, 900 * MI),
        (None, {"memory": "300Mi"}, 400 * MI),
        (None, None, None),  # nor is a first one set
    ],
)
def test_an_urgent_limit_only_raises(advised: int | None, limits: dict[str, str] | None, expected: int | None) -> None:
    web_pod = pod(container("app", {"cpu": "500m", "memory": "256Mi"}, limits))
    urgent = {("uid-shop-web", "app"): Urgent(memory_bytes=1, memory_limit_bytes=400 * MI)}
    app = only(asked(web_pod, items=[recommendation("web", memory_fields={"limit": advised})], urgent=urgent))
    assert app.memory is not None
    assert app.memory.limit == expected


def test_need_that_was_seen_and_not_predicted_may_only_raise() -> None:
    urgent = {("uid-shop-web", "app"): Urgent(cpu_millicores=900, memory_bytes=MI)}
    app = only(asked(items=[recommendation("web", memory=Withheld.NOT_CONTROLLED, cpu=Withheld.GAPS)], urgent=urgent))
    assert app.cpu == Demand(base=900, peak=900, is_upward_only=True, is_urgent=True, sustained=500, sustained_peak=500)
    assert app.cpu_withheld is None
    assert (app.memory, app.memory_withheld) == (None, Withheld.NOT_CONTROLLED)  # on purpose
    unmeasured = only(asked(items=[], urgent=urgent))
    assert unmeasured.memory == Demand(base=256 * MI, peak=256 * MI, is_upward_only=True, is_urgent=True)
    bare = only(asked(pod(container("app")), items=[], urgent=urgent))
    assert bare.cpu == Demand(base=900, peak=900, is_upward_only=True, is_urgent=True, sustained=0, sustained_peak=0)


def test_the_working_set_is_needed_whatever_the_prediction_says() -> None:
    settings = DemandSettings(
        act=ActOptions(),
        plan=PlanOptions(),
        bounds=BoundsOptions(memory_in_use_ratio=1.5),
        policy=PolicyName.CRUISE,
    )
    measured = Measurements(working_set_bytes={("uid-shop-web", "app"): 100 * MI})
    app = only(asked(settings=settings, measured=measured))
    assert app.memory == Demand(base=150 * MI, peak=150 * MI, held=150 * MI)


def test_orders_come_from_the_namespace_and_replicas_from_who_knows() -> None:
    web_pod = pod(metadata={"annotations": {}})
    namespaces = {"shop": Namespace(name="shop", annotations={"plimsoll.dev/mode": "enforce"})}
    (demand,) = asked(
        web_pod, namespaces=namespaces, barred=lambda workload: workload == WEB, pinned=frozenset({"other"})
    )
    assert (demand.orders.mode, demand.reserved, demand.is_shrink_barred) == (Mode.ENFORCE, None, True)
    deployed = pod(
        metadata={"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "o", "controller": True}]}
    )
    assert [asked(deployed, directed=told(replicas=n))[0].orders.ranking for n in (1, 2)] == [
        Ranking.MEDIUM,
        Ranking.LOW,
    ]
    (pinned,) = asked(pinned=frozenset({"uid-shop-web"}))
    assert pinned.reserved is ReservedReason.PINNED


def test_what_the_webhook_told_leaves_pods_alone_freezes_axes_and_bars_shrinking() -> None:
    def found(**fields: Any) -> tuple[ReservedReason | None, bool, bool, bool]:
        (demand,) = asked(directed=told(**fields))
        return demand.reserved, demand.is_cpu_frozen, demand.is_memory_frozen, demand.is_shrink_barred

    hpa = "HorizontalPodAutoscaler shop/web"
    assert found() == (None, False, False, False)
    assert found(left_alone_for="VerticalPodAutoscaler shop/web")[0] is ReservedReason.VPA
    assert found(cpu_frozen_for=hpa) == (None, True, False, False)
    assert found(memory_frozen_for=hpa) == (None, False, True, False)
    assert found(cpu_frozen_for=hpa, memory_frozen_for=hpa) == (ReservedReason.HPA, True, True, False)
    assert found(stop_shrinking_seconds=60.0) == (None, False, False, True)
    # What an operator ordered is told first; an order that lifts with a word comes after what lasts.
    (off,) = asked(pod(mode="off"), directed=told(left_alone_for="VPA"))
    assert off.reserved is ReservedReason.OFF
    (recommended,) = asked(pod(mode="recommend"), directed=told(left_alone_for="VPA"))
    assert recommended.reserved is ReservedReason.VPA


def test_a_job_that_may_grow_is_planned_upwards_alone_and_never_goes() -> None:
    job = {"ownerReferences": [{"kind": "Job", "name": "reindex", "uid": "o", "controller": True}]}
    keep_pod, grows = (
        pod(metadata={**job, "annotations": {"plimsoll.dev/mode": "enforce", "plimsoll.dev/jobs": word}})
        for word in ("keep", "grow")
    )
    (demand,) = asked(keep_pod)
    assert (demand.reserved, demand.is_shrink_barred) == (ReservedReason.JOB, True)
    (demand,) = asked(grows)
    assert (demand.reserved, demand.is_shrink_barred) == (None, True)
    assert (demand.orders.ranking, demand.orders.ranking_source) == (Ranking.NO_EVICTION, OrderSource.RULE)


def test_the_cluster_s_rules_come_after_annotations() -> None:
    (plain,) = asked(pod(metadata={"annotations": {}}), directed=told(mode="enforce", policy="vpa"))
    assert (plain.orders.mode, plain.orders.mode_source) == (Mode.ENFORCE, OrderSource.CLUSTER)
    assert (plain.orders.policy, plain.orders.policy_source) == (PolicyName.VPA, OrderSource.CLUSTER)
    (annotated,) = asked(pod(mode="recommend"), directed=told(mode="enforce"))
    assert (annotated.orders.mode, annotated.orders.mode_source) == (Mode.RECOMMEND, OrderSource.POD)
    (strange,) = asked(pod(mode="enforce"), directed=told(policy="magic"))
    assert strange.reserved is ReservedReason.FAULTY_ANNOTATION
    assert str(strange.orders.faults[0]).startswith("cluster rule plimsoll.dev/policy: 'magic' is not allowed")


def test_recommend_can_be_looked_at_as_if_enforced_and_off_cannot() -> None:
    recommended, off = pod(mode="recommend"), pod(name="off", mode="off")
    items = [recommendation("web"), recommendation("off")]
    assert [demand.reserved for demand in asked(recommended, off, items=items)] == [
        ReservedReason.RECOMMEND,
        ReservedReason.OFF,
    ]
    what_if = asked(recommended, off, items=items, as_enforced=True)
    assert [(demand.reserved, demand.orders.mode) for demand in what_if] == [
        (None, Mode.ENFORCE),
        (ReservedReason.OFF, Mode.OFF),
    ]


figures = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))


@given(figures, figures, figures, st.one_of(st.none(), st.integers(0, 10**7)), st.integers(0, 10**6))
def test_any_figures_give_a_base_between_0_and_the_peak(
    base: float | None, peak: float | None, proposed: float | None, urgent: int | None, working_set: int
) -> None:
    fields = {"base": base, "peak": peak, "proposed": proposed}
    key = ("uid-shop-web", "app")
    app = only(
        asked(
            items=[recommendation("web", cpu_fields=fields, memory_fields=fields)],
            urgent={key: Urgent(cpu_millicores=urgent, memory_bytes=urgent)},
            measured=Measurements(working_set_bytes={key: working_set}),
        )
    )
    for demand in (app.cpu, app.memory):
        assert demand is not None
        assert max(0, urgent or 0) <= demand.base <= demand.peak
    assert app.memory is not None
    assert app.memory.base >= working_set


def test_a_memory_limit_rises_no_further_than_was_ordered_or_the_node_has() -> None:
    node = Node(name="n", allocatable={"memory": 8192 * MI * 10**9})
    leaking = {("uid-shop-web", "app"): Urgent(memory_bytes=500 * MI, memory_limit_bytes=1 << 50)}

    def limit(**fields: Any) -> int | None:
        app = only(asked(urgent=leaking, node=node, **fields))
        assert app.memory is not None
        return app.memory.limit

    assert limit() == 8192 * MI
    assert limit(limit_held=lambda workload, name: (workload, name) == (WEB, "app")) == 512 * MI
    modest = pod(metadata={"annotations": {"plimsoll.dev/mode": "enforce", "plimsoll.dev/max-memory": "600Mi"}})
    assert only(asked(modest, urgent=leaking, node=node)).memory == Demand(
        base=500 * MI,
        peak=500 * MI,
        limit=600 * MI,
        is_urgent=True,
        sustained=64 * MI,
        sustained_peak=128 * MI,
        sustained_limit=0,
    )


def test_a_memory_limit_falls_only_where_a_day_is_known() -> None:
    item = recommendation("web", memory=128 * MI, memory_fields={"limit": 256 * MI})  # stated: 512 MiB

    def limit(seconds: float, **plan: Any) -> int | None:
        known = replace(item, basis=replace(item.basis, history_span_seconds=seconds, memory_span_seconds=60.0))
        settings = DemandSettings(
            act=ActOptions(), plan=PlanOptions(**plan), bounds=BoundsOptions(), policy=PolicyName.CRUISE
        )
        app = only(asked(items=[known], settings=settings))
        assert app.memory is not None
        return app.memory.limit

    assert limit(86_399.0) is None
    assert limit(86_400.0) == 256 * MI
    assert limit(60.0, memory_limit_history_seconds=0.0) == 256 * MI


@pytest.mark.parametrize(("request_mib", "limit"), [(512, 512 * MI), (511, None), (256, None)])
def test_a_pair_that_is_as_it_is_advised_is_wished_as_it_is(request_mib: int, limit: int | None) -> None:
    """No change is advised of it; without a wish it would fall to its peak, and rise again by the next advice."""
    both = {"memory": f"{request_mib}Mi"}
    paired = pod(container("app", {"cpu": "1", **both}, {"cpu": "1", "memory": "512Mi"}))
    item = recommendation("web", memory=512 * MI, memory_fields={"peak": 256.0 * MI, "limit": None})
    app = only(asked(paired, items=[item]))
    assert app.memory is not None
    assert app.memory.limit == limit


@pytest.mark.parametrize(("policy", "is_proportional"), [("vpa", True), ("cruise", False), ("plimsoll", False)])
def test_limits_are_in_proportion_under_vpa_but_for_memory_that_presses(policy: str, is_proportional: bool) -> None:
    item = replace(recommendation("web"), policy=policy)
    app = only(asked(items=[item]))
    assert app.cpu is not None
    assert app.memory is not None
    assert (app.cpu.is_limit_proportional, app.memory.is_limit_proportional) == (is_proportional, is_proportional)
    leaking = {("uid-shop-web", "app"): Urgent(memory_bytes=500 * MI, memory_limit_bytes=600 * MI)}
    pressing = only(asked(items=[item], urgent=leaking))
    assert pressing.memory is not None
    assert not pressing.memory.is_limit_proportional


OWN = {"memory_own_base": 100.0 * MI, "memory_own_peak": 120.0 * MI, "memory_own_limit": 300.0 * MI}
TERABYTES = 10**13


def test_what_others_saw_is_foreseen_and_cut_at_the_node_s_own_size_and_the_demand_is_its_own() -> None:
    figures = {"base": float(TERABYTES), "peak": 2.0 * TERABYTES, "limit": 4 * TERABYTES, "extra": OWN}
    item = recommendation("web", memory=256 * MI, memory_fields=figures)
    app = only(asked(items=[item], node=Node(name="n1", allocatable={"memory": 2**33 * 10**9})))
    assert app.memory is not None
    assert (app.memory.base, app.memory.peak, app.memory.limit) == (100 * MI, 120 * MI, 300 * MI)
    assert (app.memory.foreseen_base, app.memory.foreseen_peak) == (2**33, 2**33)
    assert app.memory.foreseen_limit == 2**33
    unknown = only(asked(items=[item]))
    assert unknown.memory is not None
    assert unknown.memory.foreseen_peak == 2 * TERABYTES


def test_what_presses_beside_what_others_saw_is_this_node_s_own() -> None:
    figures = {"base": float(2**30), "peak": float(2**31), "extra": {**OWN, "memory_own_limit": 0.0}}
    item = recommendation("web", memory=256 * MI, memory_fields=figures)
    pressing = {("uid-shop-web", "app"): Urgent(memory_bytes=200 * MI)}
    app = only(asked(items=[item], urgent=pressing))
    assert app.memory is not None
    assert (app.memory.base, app.memory.sustained, app.memory.sustained_peak) == (200 * MI, 100 * MI, 120 * MI)
    assert (app.memory.foreseen_base, app.memory.foreseen_peak, app.memory.limit) == (2**30, 2**31, None)


def test_without_a_prediction_of_its_own_a_container_is_not_raised_by_what_others_saw() -> None:
    figures = {"base": 300.0, "peak": 500.0, "is_upward_only": True}
    extra = {"cpu_own_base": 100.0, "cpu_own_peak": 150.0, "cpu_own_limit": 0.0}
    app = only(asked(items=[recommendation("web", cpu=250, cpu_fields={**figures, "extra": extra})]))
    assert app.cpu is not None
    assert (app.cpu.base, app.cpu.peak, app.cpu.foreseen_peak, app.cpu.is_upward_only) == (100, 150, 100, True)


@pytest.mark.parametrize(("seconds", "is_young"), [(86_399.0, True), (86_400.0, False)])
def test_a_container_is_young_for_its_limit_until_it_was_measured_for_long_enough(
    seconds: float, is_young: bool
) -> None:
    item = recommendation("web")
    basis = replace(item.basis, history_span_seconds=seconds, memory_span_seconds=0.0)
    app = only(asked(items=[replace(item, basis=basis)]))
    assert app.memory is not None
    assert app.memory.is_limit_young is is_young


@pytest.mark.parametrize(
    ("request_now", "peak", "expected"),
    [
        ("256Mi", 100, Demand(base=125 * MI, peak=125 * MI, held=125 * MI)),
        ("256Mi", 200, Demand(base=200 * MI, peak=200 * MI, held=200 * MI)),  # a half of it is beside the heap
        # It is raised, and nothing of it is held yet: the most allowed wins.
        ("64Mi", 100, Demand(base=125 * MI, peak=125 * MI, held=64 * MI)),
    ],
)
def test_a_fixed_heap_is_needed_with_what_is_beside_it(request_now: str, peak: int, expected: Demand) -> None:
    java = container("app", {"memory": request_now}, command=["java", "-Xmx100m", "Main"])
    item = recommendation("web", memory_fields={"base": 20.0 * MI, "peak": float(peak * MI)})

    assert only(asked(pod(java), items=[item])).memory == expected


def test_a_limit_that_its_runtime_read_at_start_is_known_to_the_plan() -> None:
    held = recommendation("web", memory_fields={"bounds": (Bound.READ_AT_START,)})
    for item, is_read in ((held, True), (recommendation("web"), False)):
        memory = only(asked(items=[item])).memory
        assert memory is not None
        assert memory.is_limit_read is is_read


def test_what_would_raise_a_limit_that_is_of_no_use_ends_at_the_limit_but_for_what_presses_now() -> None:
    app = container("app", {"memory": "128Mi"}, {"memory": "256Mi"}, command=["java", "Main"])
    figures = {"bounds": (Bound.LIMIT_UNFILLED,), "base": 200.0 * MI, "peak": 300.0 * MI}

    def demand(more: dict[str, Any] | None = None, urgent: Urgent | None = None) -> Demand:
        item = recommendation("web", memory_fields={**figures, **(more or {})})
        pressing = {} if urgent is None else {("uid-shop-web", "app"): urgent}
        memory = only(asked(pod(app), items=[item], urgent=pressing)).memory
        assert memory is not None
        return memory

    held = demand()
    assert (held.base, held.peak, held.limit) == (200 * MI, 256 * MI, None)
    # By what other nodes saw as well, or until a moment ago, no more than that either.
    peer = demand({"extra": {**OWN, "memory_own_peak": 900.0 * MI}})
    assert (peer.peak, peer.limit, peer.foreseen_base, peer.foreseen_peak) == (256 * MI, 256 * MI, 200 * MI, 256 * MI)
    past = demand(urgent=Urgent(memory_bytes=400 * MI, is_past=True))
    assert (past.peak, past.sustained, past.sustained_peak) == (256 * MI, 200 * MI, 256 * MI)
    now = demand(urgent=Urgent(memory_bytes=400 * MI))
    assert (now.base, now.peak) == (400 * MI, 400 * MI)


def test_windows_say_until_when_what_waits_by_the_moment_of_the_plan() -> None:
    """It is 08:00 UTC, and a resize has ten minutes."""
    text = "shrink: UTC 0 22 * * * for 6h; evict: UTC 0 8 * * * for 10m; restart: UTC 0 8 * * * for 9m"
    annotations = {"plimsoll.dev/mode": "enforce", "plimsoll.dev/windows": text}
    pods = [pod(name=name, metadata={"annotations": annotations}) for name in ("a", "b")]
    items = [recommendation(name) for name in ("a", "b")]
    first, second = asked(*pods, items=items, read_windows=ReadWindows())
    assert set(first.waits) == {Disruption.SHRINK, Disruption.RESTART}
    assert first.waits[Disruption.SHRINK].until_unix_seconds == NOW + 14 * 3600
    assert second.waits is first.waits  # worked out once
    assert first.orders.windows == text
    (unread,) = asked(pods[0])
    assert unread.reserved is ReservedReason.FAULTY_ANNOTATION


@pytest.mark.parametrize(
    ("mode", "phase", "items"),
    [("recommend", "Running", None), ("enforce", "Pending", None), ("enforce", "Running", [])],
)
def test_windows_of_a_pod_that_is_not_changed_are_not_worked_out(
    mode: str, phase: str, items: list[Recommendation] | None
) -> None:
    annotations = {"plimsoll.dev/mode": mode, "plimsoll.dev/windows": "shrink: UTC 0 22 * * * for 6h"}
    held = pod(metadata={"annotations": annotations}, status={"phase": phase})
    (demand,) = asked(held, items=items, read_windows=ReadWindows())
    assert demand.reserved is not None
    assert demand.waits is NO_WAITS
    assert demand.orders.windows is not None
