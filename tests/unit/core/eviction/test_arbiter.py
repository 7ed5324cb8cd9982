"""Whether one pod may be evicted, by all that is known of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.calendar import ReadWindows
from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import Pod
from agent.core.cluster.resource import Resource
from agent.core.cluster.vpa import EvictionChangeRequirement, EvictionRequirement
from agent.core.eviction.arbiter import (
    ArbiterRules,
    Owner,
    first_look,
    gain_ruling,
    requirements_ruling,
    second_look,
    window_ruling,
)
from agent.core.eviction.options import ArbiterOptions
from agent.core.eviction.proposal import PodAmounts, Reason, Ruling, Verdict, Want
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, ControlledResources, PolicyName
from agent.core.orders.resolution import orders_of
from tests.evictions import MIB, NODE, NOW, OLD, OWNER, WEB, make_pod, place, proposal, rules
from tests.pods import container

NOBODY = Owner(frozen=FrozenAxes(), left_alone_for=None)
SHOP = Namespace(name="shop")


def looked(want: Want = Want.CPU, owner: Owner = NOBODY, configured: Any = None, **where: Any) -> Ruling | None:
    """First look at ``shop/web``, with its place changed."""
    return first_look(proposal(want), NODE, place(**where), owner, configured or rules())


def looked_closely(
    want: Want = Want.CPU, namespace: Namespace | None = SHOP, configured: Any = None, **fields: Any
) -> Ruling | None:
    """Second look at ``shop/web``, with the pod changed."""
    known, pod = configured or rules(), make_pod(**fields)
    orders = orders_of(pod, namespace, act=known.act, recommend_policy=PolicyName.CRUISE, plan=known.plan)
    return second_look(proposal(want), NODE, pod, orders, namespace, known, now_unix_seconds=NOW)


def reason_of(ruling: Ruling | None) -> Reason | None:
    return None if ruling is None else ruling.reason


def test_pod_that_nothing_speaks_against_passes_both_looks() -> None:
    assert looked() is None
    assert looked_closely() is None


def test_pod_that_is_not_known_is_refused() -> None:
    ruling = first_look(proposal(), NODE, None, None, rules())
    assert ruling == Ruling(reason=Reason.UNKNOWN_POD, detail="no pod with uid uid-web is known")
    assert ruling.verdict is Verdict.REFUSED


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"node": "node-b"}, Reason.OTHER_NODE),
        ({"node": None}, Reason.OTHER_NODE),
        ({"name": "web-2"}, Reason.UNKNOWN_POD),
        ({"namespace": "bank"}, Reason.UNKNOWN_POD),
        ({"is_terminating": True}, Reason.TERMINATING),
        ({"is_running": False}, Reason.NOT_RUNNING),
        ({"workload": replace(WEB, kind="DaemonSet")}, Reason.DAEMON_SET),
    ],
)
def test_first_look_goes_by_where_the_pod_is_and_whose_it_is(where: dict[str, Any], expected: Reason) -> None:
    assert reason_of(looked(**where)) is expected


def test_namespaces_that_are_excluded_or_protected_lose_nobody() -> None:
    excluded = rules(act=ActOptions(excluded_namespaces="other, shop"))
    protected = rules(ArbiterOptions(protected_namespaces="shop,other"))
    assert looked(configured=excluded) == Ruling(
        reason=Reason.PROTECTED, detail="namespace shop is in act.excludedNamespaces"
    )
    assert reason_of(looked(configured=protected)) is Reason.PROTECTED


@pytest.mark.parametrize(
    ("want", "resource"),
    [(Want.CPU, Resource.CPU), (Want.MEMORY, Resource.MEMORY), (Want.OUT_OF_MEMORY, Resource.MEMORY)],
)
def test_memory_that_is_not_applied_evicts_nobody_not_even_after_a_kill(want: Want, resource: Resource) -> None:
    off = rules(plan=PlanOptions(memory_applied=False))
    assert want.resource is resource
    expected = Reason.NOT_APPLIED if resource is Resource.MEMORY else None
    assert reason_of(looked(want, configured=off)) is expected


def test_resource_that_bounds_leave_out_evicts_nobody() -> None:
    only = {resources: rules(bounds=BoundsOptions(controlled_resources=resources)) for resources in ControlledResources}
    assert looked(Want.CPU, configured=only[ControlledResources.CPU]) is None
    assert looked(Want.MEMORY, configured=only[ControlledResources.MEMORY]) is None
    assert reason_of(looked(Want.MEMORY, configured=only[ControlledResources.CPU])) is Reason.NOT_APPLIED
    assert reason_of(looked(Want.CPU, configured=only[ControlledResources.MEMORY])) is Reason.NOT_APPLIED


def test_what_an_autoscaler_holds_evicts_nobody() -> None:
    vpa = Owner(frozen=FrozenAxes(), left_alone_for="VerticalPodAutoscaler shop/web")
    hpa = Owner(frozen=FrozenAxes(cpu_for="HorizontalPodAutoscaler shop/web"), left_alone_for=None)
    assert reason_of(looked(owner=vpa)) is Reason.VPA
    assert looked(owner=hpa) == Ruling(
        reason=Reason.HPA, detail="HorizontalPodAutoscaler shop/web scales on cpu: requests stay as they are"
    )
    # The other axis is free.
    assert looked(Want.MEMORY, owner=hpa) is None
    memory = Owner(frozen=FrozenAxes(memory_for="HorizontalPodAutoscaler shop/web"), left_alone_for=None)
    assert reason_of(looked(Want.OUT_OF_MEMORY, owner=memory)) is Reason.HPA


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"uid": "uid-of-another"}, Reason.GONE),
        ({"node": "node-b"}, Reason.OTHER_NODE),
        ({"node": None}, Reason.OTHER_NODE),
        ({"owner": {**OWNER, "kind": "DaemonSet"}}, Reason.DAEMON_SET),
        # No word lets a DaemonSet's pod go.
        (
            {
                "owner": {**OWNER, "kind": "DaemonSet"},
                "annotations": {"plimsoll.dev/mode": "enforce", "plimsoll.dev/eviction-ranking": "low"},
            },
            Reason.DAEMON_SET,
        ),
        ({"priority": 2_000_000_000}, Reason.PROTECTED),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, Reason.HELD),
        ({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}, Reason.HELD),
        ({"annotations": {}}, Reason.MODE),
        ({"annotations": {"plimsoll.dev/mode": "off"}}, Reason.MODE),
        ({"annotations": {"plimsoll.dev/mode": "recommend"}}, Reason.MODE),
        ({"annotations": {"plimsoll.dev/mode": "enforce", "plimsoll.dev/enforce-share": "0%"}}, Reason.MODE),
        ({"annotations": {"plimsoll.dev/mode": "protect"}}, Reason.MODE),
        ({"annotations": {"plimsoll.dev/mode": "yes"}}, Reason.FAULTY_ANNOTATION),
        (
            {"annotations": {"plimsoll.dev/mode": "enforce", "plimsoll.dev/eviction-ranking": "no-eviction"}},
            Reason.NO_EVICTION,
        ),
        ({"owner": None}, Reason.NOT_MANAGED),
        ({"owner": {**OWNER, "kind": "Job"}}, Reason.NOT_MANAGED),
        ({"owner": {**OWNER, "kind": "Unheard"}}, Reason.NOT_MANAGED),
        ({"owner": {**OWNER, "kind": "Node"}}, Reason.NOT_MANAGED),
        ({"status": {"qosClass": "BestEffort"}}, Reason.NOT_MANAGED),
        ({"status": {"qosClass": "Guaranteed"}}, Reason.GUARANTEED),
        # Asked to be sized, a Guaranteed pod is sized, and still not evicted.
        (
            {
                "status": {"qosClass": "Guaranteed"},
                "annotations": {"plimsoll.dev/mode": "enforce", "plimsoll.dev/guaranteed": "true"},
            },
            Reason.GUARANTEED,
        ),
        ({"status": {"phase": "Pending"}}, Reason.NOT_RUNNING),
        ({"metadata": {"deletionTimestamp": OLD}}, Reason.TERMINATING),
        ({"status": {"startTime": "2027-01-15T07:59:00Z"}}, Reason.TOO_YOUNG),
    ],
)
def test_second_look_goes_by_the_pod_itself(fields: dict[str, Any], expected: Reason) -> None:
    assert reason_of(looked_closely(**fields)) is expected


def test_annotation_of_another_tool_that_allows_it_holds_nobody() -> None:
    annotations = {
        "plimsoll.dev/mode": "enforce",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
        "karpenter.sh/do-not-disrupt": "false",
    }
    assert looked_closely(annotations=annotations) is None


def test_mode_may_come_from_the_namespace_or_the_configuration() -> None:
    assert looked_closely(annotations={}, namespace=replace(SHOP, annotations={"plimsoll.dev/mode": "enforce"})) is None


def test_namespace_that_is_not_known_orders_nobody_knows_what() -> None:
    ruling = looked_closely(namespace=None)
    assert reason_of(ruling) is Reason.FACTS_UNKNOWN
    assert ruling is not None
    assert ruling.verdict is Verdict.LATER


def test_namespace_excluded_meanwhile_is_seen_at_the_second_look_too() -> None:
    assert reason_of(looked_closely(configured=rules(act=ActOptions(excluded_namespaces="shop")))) is Reason.PROTECTED


def test_sentences_name_the_order_that_stands_in_the_way() -> None:
    rulings = [
        looked_closely(annotations={}),
        looked_closely(annotations={"plimsoll.dev/mode": "yes"}),
        looked_closely(namespace=None),
        looked_closely(status={"startTime": "2027-01-15T07:59:00Z"}),
        looked_closely(owner={**OWNER, "kind": "Job"}),
    ]
    assert [None if ruling is None else ruling.detail for ruling in rulings] == [
        "mode recommend, by configuration",
        "pod annotation plimsoll.dev/mode: 'yes' is not allowed (off, recommend, protect, enforce)",
        "namespace shop is not known yet",
        "younger than plan.minAgeSeconds, 3600 s",
        "job; Job web-7d9c5b8f4",
    ]


@pytest.mark.parametrize(("cpu", "comes_back"), [("199m", True), ("200m", True), ("201m", False)])
def test_replacement_must_be_admitted_with_more_than_the_pod_has(cpu: str, *, comes_back: bool) -> None:
    replacement = make_pod("web", container("app", {"cpu": cpu, "memory": "1Gi"}))
    ruling = gain_ruling(proposal(), make_pod(), replacement)
    assert (reason_of(ruling) is Reason.NOT_MORE) is comes_back


def test_gain_counts_the_resource_that_is_wanted_alone() -> None:
    more_memory = make_pod("web", container("app", {"cpu": "200m", "memory": "300Mi"}))
    assert gain_ruling(proposal(Want.MEMORY), make_pod(), more_memory) is None
    assert gain_ruling(proposal(Want.OUT_OF_MEMORY), make_pod(), more_memory) is None
    assert gain_ruling(proposal(Want.CPU), make_pod(), more_memory) == Ruling(
        reason=Reason.NOT_MORE,
        detail="it has 200m of cpu, its replacement would be admitted with 200m: it would come back",
    )
    less = make_pod("web", container("app", {"cpu": "200m"}))
    ruling = gain_ruling(proposal(Want.MEMORY), make_pod(), less)
    assert ruling is not None
    assert "has 256MiB of memory, its replacement would be admitted with 0B" in ruling.detail


def test_pod_has_what_is_allocated_to_it_even_where_its_spec_asks_for_less() -> None:
    # A shrink to 200m that the kubelet has not done yet: it still holds 500m, and 400m would be less.
    status = {
        "containerStatuses": [
            {
                "name": "app",
                "allocatedResources": {"cpu": "500m", "memory": "256Mi"},
                "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
                "ready": True,
                "restartCount": 0,
                "image": "",
                "imageID": "",
            }
        ]
    }
    replacement = make_pod("web", container("app", {"cpu": "400m"}))
    assert reason_of(gain_ruling(proposal(), make_pod(status=status), replacement)) is Reason.NOT_MORE


@pytest.mark.parametrize(("cpu", "memory"), [("501m", "257Mi"), ("500m", "256Mi")])
def test_overhead_that_a_kubelet_reports_in_the_pods_own_amounts_counts_once(cpu: str, memory: str) -> None:
    # From 1.37 on status.allocatedResources and status.resources of any pod hold the overhead of its RuntimeClass.
    overhead = {"cpu": "250m", "memory": "120Mi"}
    amounts = {"cpu": "500m", "memory": "256Mi"}
    in_all = {"cpu": "750m", "memory": "376Mi"}
    status = {
        "allocatedResources": in_all,
        "resources": {"requests": in_all},
        "containerStatuses": [
            {"name": "app", "allocatedResources": amounts, "resources": {"requests": amounts}, "restartCount": 0}
        ],
    }
    pod = make_pod("web", container("app", amounts), overhead=overhead, status=status)
    # As ``replacement_of`` makes it: the pod itself with other requests, its status among it.
    replacement = make_pod("web", container("app", {"cpu": cpu, "memory": memory}), overhead=overhead, status=status)
    comes_back = cpu == "500m"
    for want in (Want.CPU, Want.MEMORY):
        assert (reason_of(gain_ruling(proposal(want), pod, replacement)) is Reason.NOT_MORE) is comes_back
    higher = EvictionRequirement(resources=(Resource.CPU,), direction=EvictionChangeRequirement.HIGHER)
    ruling = requirements_ruling(replace(VPA, requirements=(higher,)), pod, {Resource.CPU: replacement})
    assert (ruling is None) is not comes_back


def test_a_replacement_is_counted_though_a_resize_of_its_pod_was_refused() -> None:
    status = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "containerStatuses": [{"name": "app", "allocatedResources": {"cpu": "200m", "memory": "256Mi"}}],
    }
    pod = make_pod("web", container("app", {"cpu": "64", "memory": "256Mi"}), status=status)
    replacement = make_pod("web", container("app", {"cpu": "400m", "memory": "256Mi"}), status=status)
    assert gain_ruling(proposal(), pod, replacement) is None


def test_amounts_by_resource() -> None:
    amounts = PodAmounts(cpu_millicores=5, memory_bytes=MIB)
    assert [amounts.of(resource) for resource in (Resource.CPU, Resource.MEMORY)] == [5, MIB]


def test_every_reason_has_one_verdict() -> None:
    assert Reason.EVICTED.verdict is Verdict.GRANTED
    assert Reason.WOULD_EVICT.verdict is Verdict.RECOMMENDED
    assert [reason for reason in Reason if reason.verdict is Verdict.GRANTED] == [Reason.EVICTED]
    assert Reason.CLUSTER_BUDGET.verdict is Verdict.LATER
    assert Reason.ALREADY_EVICTED.verdict is Verdict.REFUSED


def test_ruling_reads_as_word_and_sentence() -> None:
    assert str(Ruling(reason=Reason.PAUSED, detail="maintenance")) == "paused: maintenance"
    assert str(Ruling(reason=Reason.EVICTED, detail="")) == "evicted"


VPA = Owner(frozen=FrozenAxes(), left_alone_for=None, autoscaler="VPA shop/web", running=2, min_replicas=3)


def test_with_fewer_pods_than_an_object_wants_nobody_goes() -> None:
    ruling = looked(owner=VPA)
    assert ruling is not None
    assert (ruling.reason, ruling.detail) == (
        Reason.NO_EVICTION,
        "VPA shop/web wants 3 pods that run (minReplicas); 2 do",
    )
    assert reason_of(looked(owner=replace(VPA, running=None))) is Reason.NO_EVICTION
    assert looked(owner=replace(VPA, running=3)) is None
    assert looked(owner=replace(VPA, min_replicas=None)) is None


def test_an_objects_requirements_all_hold_in_one_resource_each() -> None:
    pod = make_pod()
    more = make_pod("web", container("app", {"cpu": "400m", "memory": "512Mi"}))
    unknown = Ruling(reason=Reason.NO_ESTIMATE, detail="")
    targets: dict[Resource, Pod | Ruling] = {Resource.CPU: more, Resource.MEMORY: unknown}
    higher = EvictionRequirement(resources=(Resource.MEMORY, Resource.CPU), direction=EvictionChangeRequirement.HIGHER)
    lower = EvictionRequirement(resources=(Resource.CPU,), direction=EvictionChangeRequirement.LOWER)
    assert requirements_ruling(VPA, pod, targets) is None
    assert requirements_ruling(replace(VPA, requirements=(higher,)), pod, targets) is None
    ruling = requirements_ruling(replace(VPA, requirements=(higher, lower)), pod, targets)
    assert ruling is not None
    assert ruling.detail == "VPA shop/web wants TargetLowerThanRequests of cpu, which does not hold"
    assert (
        reason_of(requirements_ruling(replace(VPA, requirements=(replace(lower, resources=()),)), pod, {})) is not None
    )
    less = {Resource.CPU: make_pod("web", container("app", {"cpu": "10m"}))}
    assert requirements_ruling(replace(VPA, requirements=(lower,)), pod, less) is None


def test_an_eviction_waits_for_its_window_and_for_the_end_of_what_is_denied() -> None:
    """A replacement has ten minutes to warm up: it is to be inside as well. It is 08:00 UTC."""
    rules = ArbiterRules(arbiter=ArbiterOptions(), act=ActOptions(), plan=PlanOptions(), bounds=BoundsOptions())
    for text, hint in (
        ("evict: UTC 0 22 * * * for 4h", "outside its windows, waits until 2027-01-15 22:00 UTC"),
        ("deny: UTC 0 7 * * * for 4h", "outside its windows, waits until 2027-01-15 11:00 UTC"),
        ("evict: UTC 0 8 * * * for 5m", "outside its windows, waits: no time is in sight"),
        ("evict: UTC 0 8 * * * for 10m; shrink: UTC 0 22 * * * for 4h", None),
    ):
        ruling = window_ruling(ReadWindows()(text), now_unix_seconds=NOW, rules=rules)
        assert (hint is None) == (ruling is None)
        if ruling is not None and hint is not None:
            assert ruling.detail.startswith(hint)
            assert (ruling.reason, ruling.verdict) == (Reason.WINDOW, Verdict.LATER)
