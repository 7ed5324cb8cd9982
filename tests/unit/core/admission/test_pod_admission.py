from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.core.admission.answer import AdmissionFacts, AdmissionOutcome, LeftReason
from agent.core.admission.estimate import EstimateSource, NoEstimate, standing_in
from agent.core.admission.options import AdmissionOptions, AdmissionSettings
from agent.core.admission.sizes import sides_of
from agent.core.cluster.facts import FrozenAxes
from agent.core.cluster.node import Namespace
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.orders import annotations as names
from agent.core.orders.order import Mode
from agent.core.orders.plan_options import ActOptions, DaemonSetGrowth, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, ControlledResources, ControlledValues, PolicyName
from agent.core.resize.originals import annotated_original
from tests.admissions import (
    DAY_SECONDS,
    EXACT,
    MB,
    NOW_UNIX_SECONDS,
    SHOP,
    admitted,
    after,
    estimate,
    mirror,
    new_pod,
    patched,
    pod_of,
    resources,
)
from tests.pods import container, sidecar

CPU, MEMORY = "cpu", "memory"
BURSTABLE = container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "1", MEMORY: "600M"})
GUARANTEED = container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "500m", MEMORY: "300M"})
AS_IT_CAME = {"requests": {CPU: "500m", MEMORY: "300M"}, "limits": {CPU: "1", MEMORY: "600M"}}
EXACT_BOUNDS = EXACT.bounds


def settings(**fields: Any) -> AdmissionSettings:
    return AdmissionSettings(**({"bounds": EXACT_BOUNDS} | fields))


def lefts(admission: Any, name: str = "app") -> set[LeftReason]:
    return {note.left for unit in admission.containers if unit.name == name for note in unit.notes}


# The rule


def test_requests_are_the_predicted_peaks_and_the_cpu_limit_goes() -> None:
    # Memory limit: 2 x 200 = 400 MB, so the floor of 512 MB holds.
    assert after(new_pod(BURSTABLE)) == {
        "requests": {CPU: "300m", MEMORY: f"{200 * MB}"},
        "limits": {MEMORY: f"{512 * MB}"},
    }


@pytest.mark.parametrize(
    ("known", "request_mb", "limit_mb"),
    [
        (estimate(memory_mb=400), 400, 800),  # 2 x request
        (estimate(memory_mb=200, memory_max_bytes=450 * MB), 200, 900),  # 2 x 7 days
        (estimate(memory_mb=200, oom_memory_bytes=420 * MB), 420, 840),  # the kill raises both
        (estimate(memory_mb=None, memory_max_bytes=410 * MB), 410, 820),  # no peak: the largest seen
        (estimate(memory_mb=None, oom_memory_bytes=330 * MB), 330, 660),
        (estimate(memory_mb=200, memory_base_bytes=350 * MB), 350, 700),  # never below the base
        (estimate(memory_mb=5), 16, 512),  # the least
    ],
)
def test_memory_holds_peak_kill_and_base(known: Any, request_mb: int, limit_mb: int) -> None:
    done = after(new_pod(BURSTABLE), known)
    assert done["requests"][MEMORY] == f"{request_mb * MB}"
    assert done["limits"][MEMORY] == f"{limit_mb * MB}"


@pytest.mark.parametrize(
    ("known", "millicores"),
    [
        (estimate(cpu=None, cpu_max_millicores=250), 250),
        (estimate(cpu=200, cpu_base_millicores=260), 260),
        (estimate(cpu=0), 1),
    ],
)
def test_cpu_is_the_peak_else_the_largest_seen_never_below_the_base(known: Any, millicores: int) -> None:
    assert after(new_pod(BURSTABLE), known)["requests"][CPU] == f"{millicores}m"


def test_memory_changes_of_16_mb_and_less_are_not_made() -> None:
    small = admitted(new_pod(BURSTABLE), estimate(cpu=500, memory_mb=316, memory_max_bytes=450 * MB))
    # The limit would be 2 x 450 = 900 MB; it moves together with the request, or not at all.
    assert [str(move) for move in small.moves] == ["cpu limit 1000m -> none"]
    assert lefts(small) == {LeftReason.SMALL_CHANGE, LeftReason.REQUEST_STAYS}
    equal = admitted(new_pod(BURSTABLE), estimate(memory_mb=300))  # 2 x 300 = 600 MB, as it is
    assert lefts(equal) == set()
    stays = admitted(new_pod(BURSTABLE), estimate(memory_mb=300, memory_max_bytes=450 * MB))
    assert lefts(stays) == {LeftReason.REQUEST_STAYS}


@pytest.mark.parametrize(("memory_mb", "limit_mb"), [(317, 634), (283, 566)])
def test_a_limit_moves_with_its_request_by_however_little(memory_mb: int, limit_mb: int) -> None:
    known = estimate(memory_mb=memory_mb)
    done = after(new_pod(container("app", {MEMORY: "300M"}, {MEMORY: f"{limit_mb - 1}M"})), known)
    assert done == {"requests": {MEMORY: f"{memory_mb * MB}"}, "limits": {MEMORY: f"{limit_mb * MB}"}}


def test_no_first_limit_is_added_to_a_request_that_stays() -> None:
    document = new_pod(container("app", {MEMORY: "300M"}))
    assert after(document, estimate(memory_mb=310))["limits"] == {}
    assert after(document, estimate(memory_mb=317))["limits"] == {MEMORY: f"{634 * MB}"}


def test_a_request_that_an_order_moves_by_little_takes_its_limit_along_only_where_it_must() -> None:
    order = {names.MIN_MEMORY: "310M"}
    roomy = after(new_pod(BURSTABLE, orders=order), estimate(memory_mb=300, memory_max_bytes=450 * MB))
    assert (roomy["requests"][MEMORY], roomy["limits"][MEMORY]) == (f"{310 * MB}", "600M")
    tight = new_pod(container("app", {CPU: "500m", MEMORY: "300M"}, {MEMORY: "305M"}), orders=order)
    assert after(tight, estimate(memory_mb=300))["limits"][MEMORY] == f"{620 * MB}"


@pytest.mark.parametrize(
    ("known", "limit_mb"),
    [
        (estimate(memory_mb=100, memory_max_bytes=120 * MB), 240),  # no floor, and not 2 x the request
        (estimate(memory_mb=100, memory_max_bytes=120 * MB, oom_memory_bytes=150 * MB), 300),
        (estimate(memory_mb=400, memory_max_bytes=150 * MB), 400),  # never below the request
        (estimate(memory_mb=100), 600),  # nothing was seen to set one by: as it came
    ],
)
def test_the_documents_limit_is_twice_what_was_seen_and_nothing_else(known: Any, limit_mb: int) -> None:
    options = AdmissionOptions(memory_limit_of_request=False, memory_limit_floor_bytes=0)
    done = after(new_pod(BURSTABLE), known, settings=settings(admission=options))
    assert done["limits"][MEMORY] in (f"{limit_mb * MB}", f"{limit_mb}M")


def test_a_little_below_what_is_ordered_is_changed_all_the_same() -> None:
    for order, value, wanted in ((names.MIN_MEMORY, "310M", 310), (names.MAX_MEMORY, "290M", 290)):
        document = new_pod(BURSTABLE, orders={order: value})
        assert after(document, estimate(memory_mb=300))["requests"][MEMORY] == f"{wanted * MB}"
    inside = new_pod(BURSTABLE, orders={names.MIN_MEMORY: "290M", names.MAX_MEMORY: "320M"})
    assert after(inside, estimate(memory_mb=310))["requests"][MEMORY] == "300M"


def test_annotations_bound_the_requests() -> None:
    document = new_pod(BURSTABLE, orders={names.MIN_CPU: "400m", names.MAX_MEMORY: "150M"})
    done = after(document)
    assert done["requests"] == {CPU: "400m", MEMORY: f"{150 * MB}"}


def test_only_what_is_stated_is_changed() -> None:
    bare = container("bare")
    no_cpu = container("app", {MEMORY: "300M"}, {MEMORY: "600M"})
    done = patched(new_pod(no_cpu, bare), admitted(new_pod(no_cpu, bare)))
    assert resources(done) == {"requests": {MEMORY: f"{200 * MB}"}, "limits": {MEMORY: f"{512 * MB}"}}
    assert resources(done, "bare") == {"requests": {}, "limits": {}}
    no_request = new_pod(container("app", None, {CPU: "1", MEMORY: "600M"}))
    # Such a pod comes from a file only, as the API fills requests in; its limits go by the rule all the same.
    assert after(no_request) == {"requests": {}, "limits": {MEMORY: f"{512 * MB}"}}
    nothing = new_pod(container("app", {CPU: "500m"}, {CPU: "1"}))
    assert after(nothing) == {"requests": {CPU: "300m"}, "limits": {}}
    assert lefts(admitted(no_request)) == {LeftReason.NOT_STATED}
    near = new_pod(container("app", None, {MEMORY: "500M"}))
    assert lefts(admitted(near)) == {LeftReason.NOT_STATED, LeftReason.SMALL_CHANGE}


def test_a_first_memory_limit_is_added_beside_a_request() -> None:
    document = new_pod(container("app", {CPU: "500m", MEMORY: "300M"}))
    assert after(document)["limits"] == {MEMORY: f"{512 * MB}"}
    only_cpu_limit = new_pod(container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "1"}))
    assert after(only_cpu_limit)["limits"] == {MEMORY: f"{512 * MB}"}
    never = settings(admission=AdmissionOptions(memory_limits_added=False))
    assert after(document, settings=never)["limits"] == {}


def test_zero_counts_as_not_stated() -> None:
    document = new_pod(container("app", {CPU: "0", MEMORY: "300M"}, {CPU: "0"}))
    assert after(document) == {
        "requests": {CPU: "0", MEMORY: f"{200 * MB}"},
        "limits": {CPU: "0", MEMORY: f"{512 * MB}"},
    }
    assert after(new_pod(container("app", {MEMORY: "300M"}, {MEMORY: "0"})))["limits"] == {MEMORY: f"{512 * MB}"}


def test_without_statistics_nothing_changes_and_the_cpu_limit_stays() -> None:
    for why in NoEstimate:
        admission = admitted(new_pod(BURSTABLE), why)
        assert admission.outcome is AdmissionOutcome.NO_HISTORY
        assert patched(new_pod(BURSTABLE), admission) == new_pod(BURSTABLE)
    memory_only = admitted(new_pod(BURSTABLE), estimate(cpu=None))
    assert str(memory_only.moves[0]).startswith("memory ")
    assert LeftReason.NO_FIGURE in lefts(memory_only)
    cpu_only = admitted(new_pod(BURSTABLE), estimate(memory_mb=None))
    assert [str(move) for move in cpu_only.moves] == ["cpu 500m -> 300m", "cpu limit 1000m -> none"]


def test_a_young_workload_is_left() -> None:
    young = admitted(new_pod(BURSTABLE), estimate(history_seconds=3599.0))
    assert (young.outcome, young.why) == (AdmissionOutcome.NO_HISTORY, "its history is shorter than plan.minAgeSeconds")
    assert admitted(new_pod(BURSTABLE), estimate(history_seconds=3600.0)).outcome is AdmissionOutcome.PATCHED


def test_one_container_without_history_does_not_hold_up_the_others() -> None:
    document = new_pod(BURSTABLE, container("new", {CPU: "1"}))
    done = patched(document, admitted(document, {"app": estimate()}))
    assert resources(done)["requests"][CPU] == "300m"
    assert resources(done, "new")["requests"] == {CPU: "1"}


def test_sidecars_are_sized_and_plain_init_containers_left() -> None:
    document = new_pod(
        BURSTABLE, initContainers=[container("init", {CPU: "2"}), sidecar("side", {CPU: "100m"}, {CPU: "1"})]
    )
    asked = []
    admission = admitted(document)
    asked = [(unit.name, unit.estimate is not None) for unit in admission.containers]
    assert asked == [("init", False), ("side", True), ("app", True)]
    done = patched(document, admission)
    assert resources(done, "init")["requests"] == {CPU: "2"}
    assert resources(done, "side") == {"requests": {CPU: "300m"}, "limits": {}}


def test_asking_again_changes_nothing_more() -> None:
    document = patched(new_pod(BURSTABLE), admitted(new_pod(BURSTABLE)))
    again = admitted(document)
    assert (again.outcome, again.moves) == (AdmissionOutcome.NOOP, ())
    assert again.why.startswith("nothing to change; by cruise from its history of 3.0 days, 2 pods")


def test_annotations_keep_the_originals_and_say_from_what() -> None:
    done = patched(new_pod(BURSTABLE), admitted(new_pod(BURSTABLE)))
    original = annotated_original(pod_of(done))
    assert original is not None
    (amounts,) = original.amounts
    assert (amounts.cpu_request_millicores, amounts.cpu_limit_millicores) == (500, 1000)
    assert (amounts.memory_request_bytes, amounts.memory_limit_bytes) == (300 * MB, 600 * MB)
    assert json.loads(done["metadata"]["annotations"][names.ADMISSION]) == {
        "unixSeconds": int(NOW_UNIX_SECONDS),
        "policy": "plimsoll",
        "containers": {
            "app": {"source": "workload", "historySeconds": 259_200, "pods": 2, "newestAgeSeconds": 30},
        },
        "given": {
            "app": {
                "cpuRequestMillicores": 300,
                "cpuLimitMillicores": None,
                "memoryRequestBytes": 200 * MB,
                "memoryLimitBytes": 512 * MB,
            }
        },
    }
    assert names.unknown_keys(done["metadata"]["annotations"]) == ()


def test_rounding_is_upwards_to_the_bounds_multiple() -> None:
    rough = AdmissionSettings(bounds=BoundsOptions(round_cpu_millicores=50))
    done = after(new_pod(BURSTABLE), estimate(cpu=310, memory_mb=200), settings=rough)
    # 200 MB are 190.7 MiB, 512 MB are 488.3 MiB.
    assert done == {"requests": {CPU: "350m", MEMORY: f"{191 << 20}"}, "limits": {MEMORY: f"{489 << 20}"}}


# Who is left alone


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (new_pod(BURSTABLE, mode="off"), "mode off by the pod annotation"),
        (new_pod(BURSTABLE, mode="recommend"), "mode recommend by the pod annotation"),
        (new_pod(BURSTABLE, mode=None), "mode recommend by the configuration"),
        (new_pod(BURSTABLE, mode="enforced"), "plimsoll.dev/mode: 'enforced' is not allowed"),
        (new_pod(GUARANTEED), "of class Guaranteed"),
        (new_pod(container("app")), "of class BestEffort"),
        (new_pod(BURSTABLE, kind="Pod"), "nothing controls it"),
        (new_pod(BURSTABLE, kind="SparkApplication"), "its owner is of a kind"),
        (mirror(BURSTABLE), "a static pod"),
        (new_pod(BURSTABLE, os={"name": "windows"}), "a Windows pod"),
        (new_pod(BURSTABLE, resourceClaims=[{"name": "gpu"}]), "it holds devices"),
    ],
)
def test_a_pod_that_is_not_to_be_sized_stays_as_it_came(document: dict[str, Any], why: str) -> None:
    admission = admitted(document)
    assert admission.outcome is AdmissionOutcome.EXCLUDED
    assert why in admission.why
    assert patched(document, admission) == document
    assert all(unit.estimate is None for unit in admission.containers)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (AdmissionFacts(namespace=None), "what its namespace orders is not known"),
        (AdmissionFacts(namespace=Namespace(name="shop", annotations={names.MODE: "off"})), "mode enforce"),
        (
            AdmissionFacts(namespace=SHOP.namespace, left_alone_for="VerticalPodAutoscaler shop/web"),
            "sets its requests",
        ),
        (AdmissionFacts(namespace=SHOP.namespace, pause_reason="upgrade"), "the cluster is paused: upgrade"),
        (
            AdmissionFacts(namespace=SHOP.namespace, frozen=FrozenAxes(cpu_for="hpa a", memory_for="hpa b")),
            "hpa a and hpa b scales on its requests",
        ),
    ],
)
def test_the_surroundings_may_leave_a_pod_alone(facts: AdmissionFacts, why: str) -> None:
    document = new_pod(BURSTABLE)
    admission = admitted(document, facts=facts)
    if facts.namespace is not None and facts.namespace.annotations:
        assert admission.outcome is AdmissionOutcome.PATCHED  # the pod's own order wins
        admission = admitted(new_pod(BURSTABLE, mode=None), facts=facts)
        why = "mode off by the namespace annotation"
    assert admission.outcome is AdmissionOutcome.EXCLUDED
    assert why in admission.why


def test_an_excluded_namespace_is_never_touched() -> None:
    excluded = settings(act=ActOptions(mode=Mode.ENFORCE, excluded_namespaces="shop"))
    admission = admitted(new_pod(BURSTABLE), settings=excluded)
    assert (admission.outcome, admission.moves) == (AdmissionOutcome.EXCLUDED, ())
    assert "excludedNamespaces" in admission.why


def test_the_clusters_rules_stand_between_annotations_and_configuration() -> None:
    rule = AdmissionFacts(namespace=SHOP.namespace, rule={names.MODE: "enforce", names.POLICY: "vpa"})
    admission = admitted(new_pod(BURSTABLE, mode=None), facts=rule)
    assert admission.orders is not None
    assert (admission.outcome, admission.orders.policy) == (AdmissionOutcome.PATCHED, PolicyName.VPA)
    assert admitted(new_pod(BURSTABLE, mode="off"), facts=rule).outcome is AdmissionOutcome.EXCLUDED


def test_a_fault_in_an_annotation_is_told_to_who_creates_the_pod() -> None:
    (warning,) = admitted(new_pod(BURSTABLE, orders={names.MIN_CPU: "much"})).warnings
    assert warning.startswith("pod annotation plimsoll.dev/min-cpu: 'much' is not allowed")


# Axes


def test_a_resource_that_an_hpa_scales_on_is_left_with_its_limit() -> None:
    cpu = AdmissionFacts(namespace=SHOP.namespace, frozen=FrozenAxes(cpu_for="HorizontalPodAutoscaler shop/web"))
    admission = admitted(new_pod(BURSTABLE), facts=cpu)
    assert after(new_pod(BURSTABLE), facts=cpu) == {
        "requests": {CPU: "500m", MEMORY: f"{200 * MB}"},
        "limits": {CPU: "1", MEMORY: f"{512 * MB}"},
    }
    assert str(admission.containers[0].notes[0]) == "cpu: an HPA scales on it (HorizontalPodAutoscaler shop/web)"
    memory = AdmissionFacts(namespace=SHOP.namespace, frozen=FrozenAxes(memory_for="hpa"))
    assert after(new_pod(BURSTABLE), facts=memory)["requests"] == {CPU: "300m", MEMORY: "300M"}
    axes = FrozenAxes(cpu_for="hpa", cpu_containers=("app",), memory_for="hpa", memory_containers=("proxy",))
    of_one = AdmissionFacts(namespace=SHOP.namespace, frozen=axes)
    assert after(new_pod(BURSTABLE), facts=of_one)["requests"] == {CPU: "500m", MEMORY: f"{200 * MB}"}
    other = AdmissionFacts(namespace=SHOP.namespace, frozen=replace(axes, cpu_containers=("proxy",)))
    assert after(new_pod(BURSTABLE), facts=other)["requests"] == {CPU: "300m", MEMORY: f"{200 * MB}"}
    whole = settings(admission=AdmissionOptions(hpa_freezes_axes=False))
    left = admitted(new_pod(BURSTABLE), facts=cpu, settings=whole)
    assert (left.outcome, left.why) == (
        AdmissionOutcome.EXCLUDED,
        "HorizontalPodAutoscaler shop/web scales on its requests",
    )


@pytest.mark.parametrize(
    ("chosen", "changed"),
    [
        (settings(plan=PlanOptions(memory_applied=False)), {CPU}),
        (settings(bounds=BoundsOptions(controlled_resources=ControlledResources.CPU, round_memory_bytes=1)), {CPU}),
        (
            settings(bounds=BoundsOptions(controlled_resources=ControlledResources.MEMORY, round_memory_bytes=1)),
            {MEMORY},
        ),
    ],
)
def test_the_configuration_may_leave_a_resource_out(chosen: AdmissionSettings, changed: set[str]) -> None:
    admission = admitted(new_pod(BURSTABLE), settings=chosen)
    assert {move.resource.value for move in admission.moves} == changed
    assert lefts(admission) == {LeftReason.NOT_APPLIED}


# DaemonSets


@pytest.mark.parametrize("source", list(EstimateSource))
def test_a_daemon_sets_pod_is_sized_by_its_node_or_nodes_alike_only(source: EstimateSource) -> None:
    document = new_pod(BURSTABLE, kind="DaemonSet")
    known = estimate(700, 400, source=source)
    done = after(document, known)
    if source is EstimateSource.WORKLOAD:
        assert done == {"requests": AS_IT_CAME["requests"], "limits": {MEMORY: f"{800 * MB}"}}
        assert LeftReason.DAEMON_SET in lefts(admitted(document, known))
    else:
        assert done == {"requests": {CPU: "700m", MEMORY: f"{400 * MB}"}, "limits": {MEMORY: f"{800 * MB}"}}


def test_where_daemon_sets_may_not_grow_requests_stay_and_the_memory_limit_may_only_rise() -> None:
    never = settings(plan=PlanOptions(daemon_set_growth=DaemonSetGrowth.NEVER))
    document = new_pod(BURSTABLE, kind="DaemonSet")
    own = {"source": EstimateSource.NODE}
    assert after(document, estimate(700, 400, **own), settings=never) == {
        "requests": AS_IT_CAME["requests"],
        "limits": {MEMORY: f"{800 * MB}"},
    }
    assert after(document, estimate(100, 100, **own), settings=never)["limits"] == {MEMORY: "600M"}
    assert after(document, estimate(100, 306, **own), settings=never)["limits"] == {MEMORY: "600M"}
    assert after(document, estimate(100, 309, **own), settings=never)["limits"] == {MEMORY: f"{618 * MB}"}
    without = new_pod(container("app", {CPU: "500m", MEMORY: "300M"}), kind="DaemonSet")
    assert admitted(without, estimate(700, 400, **own), settings=never).moves == ()


# QoS class


def test_a_guaranteed_pod_that_asks_for_it_stays_guaranteed() -> None:
    document = new_pod(GUARANTEED, orders={names.GUARANTEED: "true"})
    done = patched(document, admitted(document, estimate(300, 100, memory_max_bytes=120 * MB)))
    # The amount is the limit as well: 2 x the largest of seven days.
    assert resources(done) == {
        "requests": {CPU: "300m", MEMORY: f"{240 * MB}"},
        "limits": {CPU: "300m", MEMORY: f"{240 * MB}"},
    }
    assert computed_qos_class(pod_of(done)) is computed_qos_class(pod_of(document))
    assert after(document, estimate(300, 310))["requests"][MEMORY] == "300M"
    everywhere = settings(plan=PlanOptions(guaranteed=True), policy=PolicyName.CRANE)
    assert after(new_pod(GUARANTEED), estimate(300, 100), settings=everywhere)["limits"] == {
        CPU: "300m",
        MEMORY: f"{100 * MB}",
    }


def test_a_guaranteed_daemon_sets_pod_of_another_nodes_history_is_left() -> None:
    document = new_pod(GUARANTEED, kind="DaemonSet", orders={names.GUARANTEED: "true"})
    assert admitted(document).outcome is AdmissionOutcome.NOOP


def test_the_last_difference_that_makes_a_pod_burstable_is_kept() -> None:
    # crane leaves limits: the request would be lowered to both of them.
    app = container("app", {CPU: "400m", MEMORY: "300M"}, {CPU: "500m", MEMORY: "300M"})
    crane = settings(policy=PolicyName.CRANE)
    admission = admitted(new_pod(app), estimate(900, 900), settings=crane)
    assert (admission.outcome, admission.moves) == (AdmissionOutcome.NOOP, ())
    assert LeftReason.QOS in lefts(admission)
    both = container("app", {CPU: "400m", MEMORY: "200M"}, {CPU: "500m", MEMORY: "300M"})
    admission = admitted(new_pod(both), estimate(900, 900), settings=crane)
    assert [str(move) for move in admission.moves] == ["memory 190.7MiB -> 286.1MiB"]


def test_all_is_left_where_leaving_cpu_does_not_keep_the_class() -> None:
    # Only memory differs, so CPU cannot keep the class.
    app = container("app", {CPU: "500m", MEMORY: "200M"}, {CPU: "500m", MEMORY: "300M"})
    admission = admitted(new_pod(app), estimate(500, 900), settings=settings(policy=PolicyName.CRANE))
    assert (admission.outcome, admission.moves) == (AdmissionOutcome.NOOP, ())


# Policies


def test_crane_leaves_limits_and_stays_below_them() -> None:
    crane = settings(policy=PolicyName.CRANE)
    assert after(new_pod(BURSTABLE), settings=crane) == {
        "requests": {CPU: "300m", MEMORY: f"{200 * MB}"},
        "limits": {CPU: "1", MEMORY: "600M"},
    }
    high = admitted(new_pod(BURSTABLE), estimate(1500, 500), settings=crane)
    assert str(high.moves[0]) == "cpu 500m -> 1000m"
    assert LeftReason.LIMIT in lefts(high)
    unlimited = new_pod(container("app", {CPU: "500m", MEMORY: "300M"}))
    assert after(unlimited, settings=crane)["limits"] == {}


def test_vpa_lowers_no_memory_limit_below_what_was_in_use() -> None:
    vpa = settings(policy=PolicyName.VPA)
    for seen_mb, limit_mb in ((250, 300), (450, 450), (900, 600)):
        done = after(new_pod(BURSTABLE), estimate(250, 150, memory_max_bytes=seen_mb * MB), settings=vpa)
        assert done["requests"][MEMORY] == f"{150 * MB}"
        assert done["limits"][MEMORY] in (f"{limit_mb * MB}", f"{limit_mb}M")
    same = {CPU: "500m", MEMORY: "600M"}
    pair = new_pod(container("app", same, same), orders={names.GUARANTEED: "true"})
    done = after(pair, estimate(250, 150, memory_max_bytes=450 * MB), settings=vpa)
    assert done["requests"] == done["limits"] == {CPU: "250m", MEMORY: f"{450 * MB}"}
    done = after(pair, estimate(250, 150, oom_memory_bytes=900 * MB), settings=vpa)
    assert done["limits"][MEMORY] == f"{900 * MB}"


def test_vpa_moves_limits_in_proportion_unless_told_otherwise() -> None:
    vpa = settings(policy=PolicyName.VPA)
    assert after(new_pod(BURSTABLE), estimate(250, 150), settings=vpa) == {
        "requests": {CPU: "250m", MEMORY: f"{150 * MB}"},
        "limits": {CPU: "500m", MEMORY: f"{300 * MB}"},
    }
    alone = settings(policy=PolicyName.VPA, vpa_controlled_values=ControlledValues.REQUESTS_ONLY)
    assert after(new_pod(BURSTABLE), estimate(250, 150), settings=alone)["limits"] == AS_IT_CAME["limits"]
    without = new_pod(container("app", {MEMORY: "300M"}, {CPU: "1"}))
    assert after(without, settings=vpa)["limits"] == {CPU: "1"}


def test_cpu_limits_may_be_kept_and_are_raised_to_the_request() -> None:
    with_limits = settings(admission=AdmissionOptions(cpu_limits_removed=False))
    assert after(new_pod(BURSTABLE), settings=with_limits)["limits"][CPU] == "1"
    high = admitted(new_pod(BURSTABLE), estimate(1500), settings=with_limits)
    assert after(new_pod(BURSTABLE), estimate(1500), settings=with_limits)["limits"][CPU] == "1500m"
    assert LeftReason.NOT_APPLIED in lefts(high)
    no_request = new_pod(container("app", {MEMORY: "300M"}, {CPU: "1"}))
    assert after(no_request, settings=with_limits)["limits"][CPU] == "1"


# Faults


def test_a_pod_that_would_break_a_rule_is_left_as_it_came() -> None:
    odd = container("odd", {CPU: "2"}, {CPU: "1"})  # the API would refuse it
    admission = admitted(new_pod(BURSTABLE, odd), {"app": estimate()})
    assert (admission.outcome, admission.moves, dict(admission.annotations)) == (AdmissionOutcome.ERROR, (), {})
    assert admission.why == "left as it came: container odd: the cpu request would be above its limit"


def test_histories_of_hours_are_told_in_hours() -> None:
    admission = admitted(new_pod(BURSTABLE), estimate(history_seconds=0.5 * DAY_SECONDS, pods=1))
    assert admission.why == "by cruise from its history of 12.0 hours, 1 pod"


def test_whose_figures_stand_in_for_the_policys_own_is_told_and_kept() -> None:
    known = standing_in(estimate(), PolicyName.PLIMSOLL)
    admission = admitted(new_pod(BURSTABLE), known)
    assert admission.why == "by cruise, until plimsoll is worked out, from its history of 3.0 days, 2 pods"
    annotation = json.loads(admission.annotations[names.ADMISSION])
    assert (annotation["policy"], annotation["containers"]["app"]["by"]) == ("plimsoll", "cruise")
    of_node = admitted(new_pod(BURSTABLE), replace(known, source=EstimateSource.NODE))
    assert of_node.why.startswith("by cruise, as plimsoll is not worked out for single nodes, from its history on this")
    assert standing_in(estimate(policy=PolicyName.PLIMSOLL), PolicyName.PLIMSOLL).stands_in_for is None


def test_a_pod_without_containers_is_nobodys_business() -> None:
    admission = admitted(new_pod(container("app", {CPU: "1"}), mode="enforce") | {}, {})
    assert admission.outcome is AdmissionOutcome.NO_HISTORY


# Runtimes


def java(*flags: str, limit: str | None = "4000M", memory: str = "2000M") -> dict[str, Any]:
    limits = {} if limit is None else {MEMORY: limit}
    return container("app", {MEMORY: memory}, limits, command=["java", *flags, "Main"])


@pytest.mark.parametrize(
    ("flags", "known", "request_mb", "limit_mb"),
    [
        # A heap of 1 GiB = 1,073.741824 MB, and a quarter of it beside: 1,342.17728 MB.
        (["-Xmx1g"], estimate(memory_mb=200), 1342.17728, 2684.35456),
        (["-Xmx1g"], estimate(memory_mb=1500), 1500, 3000),
        # A quarter of the limit is heap: what was seen must fit into that.
        ([], estimate(memory_mb=200, memory_max_bytes=300 * MB), 200, 1200),
        ([], estimate(memory_mb=200, memory_max_bytes=1500 * MB), 200, 4000),
        (["-XX:MaxRAMPercentage=50"], estimate(memory_mb=200, memory_max_bytes=300 * MB), 200, 600),
    ],
)
def test_a_java_pod_gets_what_its_heap_needs(flags: list[str], known: Any, request_mb: float, limit_mb: float) -> None:
    done = after(new_pod(java(*flags)), known)

    assert done["requests"][MEMORY] == f"{round(request_mb * MB)}"
    assert done["limits"][MEMORY] in (f"{round(limit_mb * MB)}", f"{limit_mb:.0f}M")


def test_what_a_runtime_holds_up_is_told_by_its_flag() -> None:
    admission = admitted(new_pod(java("-Xmx1g")), estimate(memory_mb=200))

    assert [str(note) for unit in admission.containers for note in unit.notes] == [
        "memory: held up by its runtime's heap (-Xmx in the command line)"
    ]


@pytest.mark.parametrize("flags", [["@flags"], ["-Xmx1g", "$(MORE)"]])
def test_a_limit_of_a_heap_that_nobody_can_read_is_not_lowered(flags: list[str]) -> None:
    admission = admitted(new_pod(java(*flags)), estimate(memory_mb=200, memory_max_bytes=300 * MB))

    (unit,) = admission.containers
    assert "memory limit: held up by its runtime's heap (the command line)" in [str(note) for note in unit.notes]
    assert after(new_pod(java(*flags)), estimate(memory_mb=200))["limits"][MEMORY] in ("4000M", f"{4000 * MB}")


@pytest.mark.parametrize(
    ("flags", "seen_mb", "oom_mb", "limit_mb"),
    [
        # A heap of 75 % and what is beside it fill 85 % of any limit: twice that would grow with each start.
        (["-XX:MaxRAMPercentage=75"], 1700, None, 2000),
        (["-Xmx1g"], 1700, None, 2000),
        (["-XX:MaxRAMPercentage=75"], 1901, None, 3802),  # more than 95 %: it is short
        (["-XX:MaxRAMPercentage=75"], 1700, 2000, 4000),  # killed at its limit
        (["-Xmx1600m"], 1700, None, 4194.304),  # 1,600 MiB and a quarter beside it do not fit: twice 2,097.152 MB
    ],
)
def test_a_limit_is_not_raised_where_a_heap_would_only_fill_it(
    flags: list[str], seen_mb: int, oom_mb: int | None, limit_mb: float
) -> None:
    killed = None if oom_mb is None else oom_mb * MB
    known = estimate(memory_mb=1700, memory_max_bytes=seen_mb * MB, oom_memory_bytes=killed)
    admission = admitted(new_pod(java(*flags, limit="2000M", memory="1000M")), known)
    done = after(new_pod(java(*flags, limit="2000M", memory="1000M")), known)

    assert done["limits"][MEMORY] in (f"{limit_mb:.0f}M", f"{round(limit_mb * MB)}")
    reason = "memory limit: its runtime would fill more of any limit, and never nearly reached this one"
    is_told = reason in [str(note) for unit in admission.containers for note in unit.notes]
    assert is_told == (limit_mb == 2000)


def test_a_guaranteed_java_pod_is_not_raised_where_its_heap_would_only_fill_it() -> None:
    whole = container("app", {CPU: "500m", MEMORY: "2000M"}, {CPU: "500m", MEMORY: "2000M"}, command=["java", "Main"])
    known = estimate(memory_mb=1700, memory_max_bytes=1700 * MB)
    done = after(new_pod(whole, orders={names.GUARANTEED: "true"}), known)

    assert done["requests"][MEMORY] == done["limits"][MEMORY] == "2000M"


def test_a_limit_in_proportion_is_not_raised_where_a_heap_would_only_fill_it() -> None:
    vpa = settings(policy=PolicyName.VPA, vpa_controlled_values=ControlledValues.REQUESTS_AND_LIMITS)
    known = estimate(memory_mb=1700, memory_max_bytes=1500 * MB, policy=PolicyName.VPA)
    done = after(new_pod(java(limit="2000M", memory="1000M")), known, settings=vpa)

    assert (done["requests"][MEMORY], done["limits"][MEMORY]) == (f"{1700 * MB}", "2000M")


def test_a_first_limit_holds_what_a_java_without_one_used() -> None:
    # A quarter of the node was its heap until now; twice what was seen would make it an eighth of that.
    done = after(new_pod(java(limit=None)), estimate(memory_mb=200, memory_max_bytes=300 * MB))

    assert done["limits"][MEMORY] == f"{1200 * MB}"


def test_a_guaranteed_java_pod_holds_its_heap() -> None:
    whole = container(
        "app", {CPU: "500m", MEMORY: "4000M"}, {CPU: "500m", MEMORY: "4000M"}, command=["java", "-Xmx1g", "Main"]
    )
    done = after(new_pod(whole, orders={names.GUARANTEED: "true"}), estimate(memory_mb=200))

    assert done["requests"][MEMORY] == done["limits"][MEMORY] == "1342177280"


def test_a_limit_that_keeps_its_ratio_holds_the_heap() -> None:
    vpa = settings(policy=PolicyName.VPA, vpa_controlled_values=ControlledValues.REQUESTS_AND_LIMITS)
    done = after(
        new_pod(java()), estimate(memory_mb=200, memory_max_bytes=600 * MB, policy=PolicyName.VPA), settings=vpa
    )

    # In proportion it would be 400 MB; a quarter of 2,400 MB holds the 600 MB that were seen.
    assert done["limits"][MEMORY] == f"{2400 * MB}"


def test_the_most_allowed_wins_over_a_heap_and_does_not_take_what_it_has() -> None:
    order = {names.MAX_MEMORY: "1000M"}

    assert after(new_pod(java("-Xmx1g", memory="300M"), orders=order))["requests"][MEMORY] == f"{1000 * MB}"
    assert after(new_pod(java("-Xmx1g", memory="1200M"), orders=order))["requests"][MEMORY] == "1200M"


def test_a_heap_that_is_not_understood_leaves_the_pod_as_it_came() -> None:
    admission = admitted(new_pod(java("-Xmx1gb")))

    assert admission.outcome is AdmissionOutcome.EXCLUDED
    assert admission.why.startswith("pod spec container app: -Xmx in the command line is not understood (")
    assert admission.warnings == (admission.why,)


# Mode protect


PROTECTED = {names.MODE: "protect"}


def test_in_mode_protect_nothing_becomes_less_than_it_came_with() -> None:
    admission = admitted(new_pod(BURSTABLE, orders=PROTECTED), estimate())
    assert admission.outcome is AdmissionOutcome.NOOP
    assert lefts(admission) == {LeftReason.PROTECT}
    assert after(new_pod(BURSTABLE, orders=PROTECTED), estimate()) == AS_IT_CAME


def test_in_mode_protect_what_is_needed_is_given_and_limits_follow() -> None:
    larger = estimate(cpu=1200, memory_mb=400, memory_max_bytes=500 * MB)
    assert after(new_pod(BURSTABLE, orders=PROTECTED), larger) == {
        "requests": {CPU: "1200m", MEMORY: f"{400 * MB}"},
        "limits": {CPU: "1200m", MEMORY: f"{1000 * MB}"},
    }
    pair = estimate(cpu=100, memory_mb=400, memory_max_bytes=350 * MB)
    sized = after(new_pod(GUARANTEED, orders={**PROTECTED, names.GUARANTEED: "true"}), pair)
    assert sized == {
        "requests": {CPU: "500m", MEMORY: f"{700 * MB}"},
        "limits": {CPU: "500m", MEMORY: f"{700 * MB}"},
    }


def test_in_mode_protect_no_first_limit_is_set_and_no_start_is_boosted() -> None:
    plain = container("app", {CPU: "500m", MEMORY: "300M"})
    orders = {**PROTECTED, names.STARTUP_BOOST: "factor 3"}
    admission = admitted(new_pod(plain, orders=orders), estimate(cpu=600, memory_mb=400))
    assert admission.boost is None
    assert after(new_pod(plain, orders=orders), estimate(cpu=600, memory_mb=400)) == {
        "requests": {CPU: "600m", MEMORY: f"{400 * MB}"},
        "limits": {},
    }


def test_in_mode_protect_a_limit_without_a_request_stays() -> None:
    bounded = container("app", {MEMORY: "300M"}, {CPU: "1"})
    assert after(new_pod(bounded, orders=PROTECTED), estimate(cpu=100, memory_mb=400)) == {
        "requests": {MEMORY: f"{400 * MB}"},
        "limits": {CPU: "1"},
    }


@pytest.mark.parametrize("policy", ["crane", "plimsoll"])
def test_a_limit_of_a_fraction_of_a_byte_is_not_passed_by_the_request_that_is_raised_to_it(policy: str) -> None:
    kept = {names.CONTAINER_POLICIES: '[{"containerName": "*", "controlledValues": "RequestsOnly"}]'}
    fraction = container("app", {CPU: "500m", MEMORY: "500Mi"}, {MEMORY: "1181116006400m"})  # as 1.1Gi is shown
    document = new_pod(fraction, orders={names.POLICY: policy} | kept)
    done = patched(document, admitted(document, estimate(300, 2000)))
    assert resources(done) == {
        "requests": {CPU: "300m", MEMORY: "1181116006"},
        "limits": {MEMORY: "1181116006400m"},
    }
    assert patched(done, admitted(done, estimate(300, 2000))) == done


def test_a_request_and_a_limit_within_the_same_byte_stay_in_order() -> None:
    sides = sides_of(pod_of(new_pod(container("app", {MEMORY: "1000200m"}, {MEMORY: "1000600m"}))).containers[0])
    assert (sides[Resource.MEMORY].request_before, sides[Resource.MEMORY].limit_before) == (1001, 1001)
