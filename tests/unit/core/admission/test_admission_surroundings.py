"""LimitRanges, ResourceQuotas, a pod's own resources, and limits asked for the pod as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.admission.answer import Admission, AdmissionFacts, AdmissionOutcome, LeftReason
from agent.core.admission.fit import class_fault, fault_of
from agent.core.admission.limit_ranges import ANYTHING, allowed_for, narrowest, range_fault
from agent.core.admission.options import AdmissionOptions, AdmissionSettings
from agent.core.cluster.facts import LimitRangeItem, Quota
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod import QosClass, Requirements
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.numbers.quantity import parse_quantity
from agent.core.numbers.units import NANOS_PER_UNIT
from agent.core.orders import annotations as names
from agent.core.orders.policy_options import PolicyName
from tests.admissions import EXACT, MB, SHOP, admitted, after, estimate, mirror, new_pod, patched, pod_of, resources
from tests.pods import container, sidecar

CPU, MEMORY = "cpu", "memory"
BURSTABLE = container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "1", MEMORY: "600M"})
UNLIMITED = container("app", {CPU: "500m", MEMORY: "300M"})


def nanos(amounts: Mapping[str, str]) -> dict[str, int]:
    return {name: parse_quantity(text) for name, text in amounts.items()}


def limit_range(type_name: str = "Container", **stated: Mapping[str, str]) -> LimitRangeItem:
    return LimitRangeItem(name="range", type=type_name, **{key: nanos(value) for key, value in stated.items()})


def quota(hard: Mapping[str, str], used: Mapping[str, str] | None = None, **fields: Any) -> Quota:
    return Quota(name="quota", hard=nanos(hard), used=nanos(used or {}), **fields)


def within(*items: LimitRangeItem, quotas: tuple[Quota, ...] = (), knows: bool | None = None) -> AdmissionFacts:
    return AdmissionFacts(namespace=SHOP.namespace, limit_ranges=items, quotas=quotas, knows_pod_level_resources=knows)


def requirements(stated: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, int]]:
    return {key: nanos(amounts) for key, amounts in stated.items()}


def lefts(admission: Admission) -> set[LeftReason]:
    return {note.left for unit in admission.containers for note in unit.notes}


def test_where_a_range_is_not_understood_no_pod_is_changed() -> None:
    document = new_pod(BURSTABLE)
    assert admitted(document, facts=within()).outcome is AdmissionOutcome.PATCHED
    doubtful = replace(within(), bounds_fault="LimitRange range is not understood: spec: 7 is not an object")
    admission = admitted(document, facts=doubtful)
    assert (admission.outcome, patched(document, admission)) == (AdmissionOutcome.ERROR, document)
    assert admission.why == "left as it came: LimitRange range is not understood: spec: 7 is not an object"


# LimitRanges for containers


def test_requests_are_held_between_least_and_most() -> None:
    low = limit_range(min={CPU: "400m", MEMORY: "250M"})
    assert after(new_pod(BURSTABLE), facts=within(low))["requests"] == {CPU: "400m", MEMORY: f"{250 * MB}"}
    high = limit_range(max={MEMORY: "350M"})
    document = new_pod(container("app", {CPU: "1", MEMORY: "300M"}, {CPU: "2", MEMORY: "340M"}))
    admission = admitted(document, estimate(memory_mb=900), facts=within(high))
    assert resources(patched(document, admission))["requests"][MEMORY] == f"{350 * MB}"
    assert resources(patched(document, admission))["limits"] == {MEMORY: f"{350 * MB}"}
    assert "memory: held by a LimitRange (LimitRange range)" in map(str, admission.containers[0].notes)


def test_several_ranges_combine_to_the_narrowest() -> None:
    items = (
        limit_range(min={CPU: "100m"}, max={CPU: "3"}, max_limit_request_ratio={CPU: "4"}),
        limit_range(min={CPU: "200m"}, max={CPU: "2"}, max_limit_request_ratio={CPU: "5"}),
        limit_range("PersistentVolumeClaim", min={"storage": "1"}),
    )
    allowed = allowed_for(Resource.CPU, items, ())
    assert (allowed.least, allowed.most, allowed.ratio_nanos) == (200, 2000, 4_000_000_000)
    assert (allowed.limit_kept_for, allowed.by) == ("LimitRange range", "LimitRange range")
    assert allowed_for(Resource.MEMORY, items, ()) is ANYTHING


def test_a_limit_is_held_by_most_and_ratio_alike() -> None:
    allowed = allowed_for(Resource.CPU, [limit_range(max={CPU: "400m"}, max_limit_request_ratio={CPU: "2"})], ())
    assert [allowed.most_limit(request) for request in (100, 200, 300)] == [200, 400, 400]
    assert ANYTHING.most_limit(100) is None


@pytest.mark.parametrize("rule", ["max", "default", "max_limit_request_ratio"])
@pytest.mark.parametrize("type_name", ["Container", "Pod"])
def test_a_cpu_limit_stays_where_a_range_wants_or_gives_one(rule: str, type_name: str) -> None:
    facts = within(limit_range(type_name, **{rule: {CPU: "8"}}))
    admission = admitted(new_pod(BURSTABLE), facts=facts)
    assert resources(patched(new_pod(BURSTABLE), admission))["limits"][CPU] == "1"
    assert LeftReason.LIMIT_RANGE in lefts(admission)


def test_a_least_alone_does_not_keep_the_cpu_limit() -> None:
    assert CPU not in after(new_pod(BURSTABLE), facts=within(limit_range(min={CPU: "100m"})))["limits"]


def test_limits_keep_their_ratio_to_requests() -> None:
    twice = limit_range(max_limit_request_ratio={CPU: "2", MEMORY: "2"})
    # CPU: the limit of 1000m stays, so at least 500m are requested. Memory: 2 x 200 MB, not the floor of 512 MB.
    assert after(new_pod(BURSTABLE), facts=within(twice)) == {
        "requests": {CPU: "500m", MEMORY: f"{200 * MB}"},
        "limits": {CPU: "1", MEMORY: f"{400 * MB}"},
    }
    assert LeftReason.LIMIT_RANGE in lefts(admitted(new_pod(BURSTABLE), facts=within(twice)))


def test_a_range_that_refuses_the_outcome_leaves_that_resource_alone() -> None:
    whole = limit_range("Pod", max={MEMORY: "400M"})
    document = new_pod(container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "1", MEMORY: "390M"}), overhead={CPU: "1"})
    admission = admitted(document, facts=within(whole))
    assert resources(patched(document, admission)) == {
        "requests": {CPU: "300m", MEMORY: "300M"},
        "limits": {MEMORY: "390M"},
    }
    assert "memory limit: held by a LimitRange (LimitRange range)" in map(str, admission.containers[0].notes)


def test_a_pod_that_is_refused_anyway_is_left_as_it_came() -> None:
    never = limit_range("Pod", min={CPU: "9", MEMORY: "9G"})
    volumes = limit_range("PersistentVolumeClaim", min={CPU: "9"})
    admission = admitted(new_pod(BURSTABLE), facts=within(volumes, never))
    assert (admission.outcome, admission.moves) == (AdmissionOutcome.NOOP, ())


@pytest.mark.parametrize(
    ("rule", "requests", "limits", "refused"),
    [
        ({"min": {CPU: "1"}}, {CPU: "1"}, {}, False),
        ({"min": {CPU: "1"}}, {}, {}, True),
        ({"min": {CPU: "1"}}, {CPU: "900m"}, {}, True),
        ({"min": {CPU: "1"}}, {CPU: "1"}, {CPU: "900m"}, True),
        ({"max": {CPU: "1"}}, {CPU: "1"}, {CPU: "1"}, False),
        ({"max": {CPU: "1"}}, {}, {}, True),
        ({"max": {CPU: "1"}}, {}, {CPU: "2"}, True),
        ({"max": {CPU: "1"}}, {CPU: "2"}, {CPU: "1"}, True),
        ({"max_limit_request_ratio": {CPU: "2"}}, {CPU: "1"}, {CPU: "2"}, False),
        ({"max_limit_request_ratio": {CPU: "2"}}, {CPU: "1"}, {CPU: "2001m"}, True),
        ({"max_limit_request_ratio": {CPU: "2"}}, {CPU: "0"}, {CPU: "2"}, True),
        ({"max_limit_request_ratio": {CPU: "2"}}, {CPU: "1"}, {}, True),
        ({"min": {"ephemeral-storage": "1"}}, {}, {}, False),
    ],
)
@pytest.mark.parametrize("type_name", ["Container", "Pod"])
def test_ranges_refuse_as_the_api_server_does(
    rule: dict[str, Any], requests: dict[str, str], limits: dict[str, str], refused: bool, type_name: str
) -> None:
    pod = pod_of(new_pod(container("app", requests, limits)))
    fault = range_fault(pod, [limit_range(type_name, **rule)], Resource.CPU)
    assert (fault is not None) is refused


AMOUNTS = st.integers(0, 3).map(lambda amount: amount * NANOS_PER_UNIT)
STATED = st.dictionaries(st.sampled_from([CPU, MEMORY, "storage"]), AMOUNTS)
RANGES = st.builds(
    LimitRangeItem,
    name=st.sampled_from("ab"),
    type=st.sampled_from(["Container", "Pod"]),
    min=STATED,
    max=STATED,
    default=STATED,
    max_limit_request_ratio=STATED,
)


@given(items=st.lists(RANGES, max_size=6), requests=STATED, limits=STATED)
def test_the_narrowest_ranges_decide_as_all_of_them_do(
    items: list[LimitRangeItem], requests: dict[str, int], limits: dict[str, int]
) -> None:
    pod = pod_of(new_pod(container("app")))
    app = replace(pod.containers[0], resources=Requirements(requests=requests, limits=limits))
    pod = replace(pod, containers=(app,))
    deciding = narrowest(items)

    for resource in Resource:
        both = [allowed_for(resource, ranges, ()) for ranges in (items, deciding)]
        fields = [(allowed.least, allowed.most, allowed.ratio_nanos) for allowed in both]
        assert fields[0] == fields[1]
        assert (both[0].limit_kept_for is None) is (both[1].limit_kept_for is None)
        faults = [range_fault(pod, ranges, resource) for ranges in (items, deciding)]
        assert (faults[0] is None) is (faults[1] is None)


def test_of_thousands_of_ranges_few_decide_in_their_order() -> None:
    items = [
        replace(limit_range(type_name, min={CPU: f"{number % 7}m"}, max={MEMORY: f"{number + 1}G"}), name=f"{number}")
        for number, type_name in enumerate(["Container", "Pod", "PersistentVolumeClaim"] * 1000)
    ]
    assert [(item.name, item.type) for item in narrowest(items)] == [
        ("0", "Container"),
        ("1", "Pod"),
        ("6", "Container"),
        ("13", "Pod"),
    ]


# Quotas


def test_requests_do_not_grow_beyond_what_a_quota_has_left() -> None:
    full = quota({"requests.cpu": "10", MEMORY: "1G"}, {"requests.cpu": "9.5", MEMORY: "800M"})
    document = new_pod(UNLIMITED, container("other", {CPU: "200m", MEMORY: "100M"}))
    known = {"app": estimate(700, 500), "other": estimate(100, 50)}
    admission = admitted(document, known, facts=within(quotas=(full,)))
    done = patched(document, admission)
    # 800m of CPU and 550 MB were to be requested; 500m and 200 MB are left. What shrinks shrinks all the same.
    assert resources(done)["requests"] == {CPU: "500m", MEMORY: "300M"}
    assert resources(done, "other")["requests"] == {CPU: "100m", MEMORY: f"{50 * MB}"}
    assert "cpu: held by a ResourceQuota (ResourceQuota quota)" in map(str, admission.containers[0].notes)


def test_growth_that_a_quota_has_room_for_is_made() -> None:
    roomy = quota({"requests.cpu": "10", "pods": "5"}, {"requests.cpu": "4.3"})
    assert after(new_pod(BURSTABLE), estimate(700), facts=within(quotas=(roomy,)))["requests"][CPU] == "700m"


def test_a_full_quota_does_not_mind_what_moves_within_a_pod() -> None:
    full = quota({"requests.cpu": "1"}, {"requests.cpu": "1"})
    document = new_pod(UNLIMITED, container("other", {CPU: "300m"}))
    known = {"app": estimate(700, None), "other": estimate(100, None)}
    done = patched(document, admitted(document, known, facts=within(quotas=(full,))))
    assert (resources(done)["requests"][CPU], resources(done, "other")["requests"][CPU]) == ("700m", "100m")


def test_a_quota_that_counts_cpu_limits_keeps_them() -> None:
    admission = admitted(new_pod(BURSTABLE), facts=within(quotas=(quota({"limits.cpu": "100"}),)))
    assert resources(patched(new_pod(BURSTABLE), admission))["limits"][CPU] == "1"
    high = admitted(new_pod(BURSTABLE), estimate(1500), facts=within(quotas=(quota({"limits.cpu": "1"}),)))
    # The limit was to rise with the request; as it may not, the request stays below it.
    assert resources(patched(new_pod(BURSTABLE), high))["requests"][CPU] == "1000m"
    assert resources(patched(new_pod(BURSTABLE), high))["limits"][CPU] == "1"


def test_memory_limits_do_not_grow_beyond_a_quota() -> None:
    tight = quota({"limits.memory": "1G"}, {"limits.memory": "400M"})
    admission = admitted(new_pod(BURSTABLE), estimate(300, 400), facts=within(quotas=(tight,)))
    assert resources(patched(new_pod(BURSTABLE), admission)) == {
        "requests": {CPU: "300m", MEMORY: f"{400 * MB}"},
        "limits": {MEMORY: "600M"},
    }
    assert LeftReason.QUOTA in lefts(admission)
    first = admitted(new_pod(UNLIMITED), estimate(300, 400), facts=within(quotas=(tight,)))
    assert resources(patched(new_pod(UNLIMITED), first))["limits"] == {}


def test_quotas_for_best_effort_pods_do_not_count() -> None:
    others = quota({"requests.cpu": "0"}, scopes=("BestEffort",))
    assert after(new_pod(BURSTABLE), estimate(700), facts=within(quotas=(others,)))["requests"][CPU] == "700m"


def test_a_guaranteed_pod_that_may_not_grow_stays_a_pair() -> None:
    pair = container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "500m", MEMORY: "300M"})
    document = new_pod(pair, orders={names.GUARANTEED: "true"})
    full = quota({"requests.cpu": "1"}, {"requests.cpu": "1"})
    done = patched(document, admitted(document, estimate(900, 100), facts=within(quotas=(full,))))
    assert resources(done)["requests"][CPU] == resources(done)["limits"][CPU] == "500m"
    assert resources(done)["requests"][MEMORY] == resources(done)["limits"][MEMORY]
    limits = quota({"limits.cpu": "1"}, {"limits.cpu": "1"})
    assert after(document, estimate(900, 300), facts=within(quotas=(limits,)))["requests"][CPU] == "500m"


# The pod's own resources


def test_containers_stay_within_the_pods_own_requests() -> None:
    budget = {"requests": {CPU: "600m", MEMORY: "1G"}, "limits": {MEMORY: "2G"}}
    document = new_pod(BURSTABLE, container("other", {CPU: "100m"}), resources=budget)
    admission = admitted(document, {"app": estimate(900, 700), "other": estimate(50, None)})
    done = patched(document, admission)
    assert done["spec"]["resources"] == budget
    # 950m of CPU would pass 600m; 700 MB fit into 1 GB.
    assert resources(done)["requests"] == {CPU: "500m", MEMORY: f"{700 * MB}"}
    assert resources(done)["limits"] == {MEMORY: f"{1400 * MB}"}
    assert resources(done, "other")["requests"] == {CPU: "50m"}
    assert "cpu: held by the pod's own resources (spec.resources)" in map(str, admission.containers[0].notes)


def test_no_containers_limit_passes_the_pods_and_none_is_added_below_it() -> None:
    budget = {"limits": {MEMORY: "700M"}}
    document = new_pod(BURSTABLE, container("other", {MEMORY: "100M"}), resources=budget)
    admission = admitted(document, {"app": estimate(300, 500), "other": estimate(None, 50)})
    done = patched(document, admission)
    assert resources(done)["limits"] == {MEMORY: f"{700 * MB}"}
    assert lefts(admission) == {LeftReason.POD_BUDGET}
    equal = admitted(document, {"app": estimate(300, 350)})  # 2 x 350 MB are the pod's limit
    assert lefts(equal) == set()
    assert resources(done, "other")["limits"] == {}


def test_a_pod_that_is_guaranteed_by_its_own_resources_is_left() -> None:
    same = {CPU: "2", MEMORY: "2G"}
    document = new_pod(BURSTABLE, orders={names.GUARANTEED: "true"}, resources={"requests": same, "limits": same})
    # Whole cores count by container: 500m is none.
    admission = admitted(document)
    assert (admission.outcome, lefts(admission)) == (AdmissionOutcome.NOOP, {LeftReason.POD_BUDGET})


def test_what_must_hold_of_a_patched_pod_is_said_in_words() -> None:
    def told(before: dict[str, Any], now: dict[str, Any], *items: LimitRangeItem) -> str | None:
        return fault_of(pod_of(before), pod_of(now), within(*items))

    base = new_pod(BURSTABLE)
    assert told(base, base) is None
    assert told(base, new_pod(container("app"))) == "the QoS class would change from Burstable to BestEffort"
    less = new_pod(container("app", {CPU: "100m", MEMORY: "300M"}, {CPU: "1", MEMORY: "600M"}))
    least = limit_range(min={CPU: "400m"})
    assert told(base, less, least) == "LimitRange range would refuse its cpu"
    assert told(less, less, least) is None  # as it came it is refused, too
    for budget, fault in (
        ({"limits": {CPU: "400m"}}, "spec.resources would hold less cpu than its containers request"),
        ({"requests": {MEMORY: "1M"}}, "spec.resources would hold less memory than its containers request"),
        ({"limits": {MEMORY: "500M"}}, "spec.resources would hold less memory than a container's limit"),
        ({"requests": {CPU: "1"}, "limits": {CPU: "1", MEMORY: "600M"}}, None),
    ):
        document = new_pod(BURSTABLE, resources=budget)
        assert told(document, document) == fault


@pytest.mark.parametrize(
    ("before", "now", "fault"),
    [
        # Filled in: memory 1G = 1G beside cpu 1 = 1.
        (({CPU: "1"}, {CPU: "1"}), ({MEMORY: "1G"}, {MEMORY: "1G"}), True),
        (({CPU: "1"}, {CPU: "1"}), ({MEMORY: "1G"}, {MEMORY: "2G"}), False),
        (({CPU: "1"}, {CPU: "1"}), ({MEMORY: "1G"}, {}), False),
        (({CPU: "1"}, {CPU: "1"}), ({CPU: "1"}, {}), False),
        (({}, {CPU: "1"}), ({CPU: "1", MEMORY: "1G"}, {MEMORY: "1G"}), True),
        (({}, {CPU: "1"}), ({CPU: "900m", MEMORY: "1G"}, {MEMORY: "1G"}), False),
        (({}, {CPU: "1"}), ({MEMORY: "1G"}, {MEMORY: "1G"}), True),  # no container requests CPU: the limit is requested
    ],
)
def test_the_class_holds_whatever_a_newer_api_server_fills_in(
    before: tuple[dict[str, str], dict[str, str]], now: tuple[dict[str, str], dict[str, str]], fault: bool
) -> None:
    budget = {"requests": before[0], "limits": before[1]}
    was = new_pod(container("app", {CPU: "100m", MEMORY: "500M"}, {MEMORY: "900M"}), resources=budget)
    is_now = new_pod(container("app", *now), resources=budget)
    assert (class_fault(pod_of(was), pod_of(is_now)) is not None) is fault


# Limits asked for the pod as a whole


def asks(limits: Mapping[str, str], requests: Mapping[str, str] | None = None) -> dict[str, str]:
    asked = {"limits": limits} if requests is None else {"limits": limits, "requests": requests}
    return {names.POD_LIMITS: json.dumps(asked)}


def test_pod_limits_become_resources_where_the_cluster_knows_them() -> None:
    document = new_pod(BURSTABLE, container("other", {CPU: "100m"}), orders=asks({CPU: "2", MEMORY: "1Gi"}))
    admission = admitted(document, {"app": estimate()}, facts=within(knows=True))
    done = patched(document, admission)
    assert done["spec"]["resources"] == {
        "requests": {CPU: "400m", MEMORY: "200M"},
        "limits": {CPU: "2", MEMORY: "1Gi"},
    }
    assert admission.pod_limits == "set as spec.resources"
    assert admission.why.endswith("; limits of the whole pod set")
    assert computed_qos_class(pod_of(done)) is computed_qos_class(pod_of(document))


@pytest.mark.parametrize("mode", ["recommend", "enforce"])
@pytest.mark.parametrize(
    ("limits", "requests", "expected", "qos"),
    [
        ({CPU: "2"}, None, {CPU: "2"}, QosClass.BURSTABLE),
        ({CPU: "2", MEMORY: "1Gi"}, None, {CPU: "2", MEMORY: "1Gi"}, QosClass.GUARANTEED),
        ({CPU: "2", MEMORY: "1Gi"}, {CPU: "500m"}, {CPU: "500m", MEMORY: "1Gi"}, QosClass.BURSTABLE),
        ({CPU: "2"}, {MEMORY: "256Mi"}, {CPU: "2", MEMORY: "256Mi"}, QosClass.BURSTABLE),
        ({CPU: "2", "hugepages-2Mi": "4Mi"}, None, {CPU: "2", "hugepages-2Mi": "4Mi"}, QosClass.BURSTABLE),
    ],
)
def test_a_pod_that_states_nothing_gets_its_budget_and_the_class_that_it_makes(
    mode: str, limits: dict[str, str], requests: dict[str, str] | None, expected: dict[str, str], qos: QosClass
) -> None:
    document = new_pod(container("ide"), container("tools"), mode=mode, orders=asks(limits, requests))
    admission = admitted(document, {}, facts=within(knows=True))
    done = patched(document, admission)
    given = requirements(done["spec"]["resources"])
    assert given == requirements({"requests": expected, "limits": limits})
    assert computed_qos_class(pod_of(done)) is qos
    assert admission.pod_limits == f"set as spec.resources; QoS class {qos} instead of BestEffort"
    assert f"plimsoll.dev/pod-limits: QoS class {qos} instead of BestEffort" in admission.warnings
    assert [resources(done, name) for name in ("ide", "tools")] == [{"requests": {}, "limits": {}}] * 2


def test_the_class_rises_where_the_annotation_states_requests_and_never_sinks() -> None:
    both = {CPU: "1", MEMORY: "1G"}
    document = new_pod(container("app", both), orders=asks(both, both))
    admission = admitted(document, NO_FIGURES, facts=within(knows=True))
    assert computed_qos_class(pod_of(patched(document, admission))) is QosClass.GUARANTEED
    assert admission.pod_limits == "set as spec.resources; QoS class Guaranteed instead of Burstable"
    sinking = new_pod(GUARANTEED, orders=asks({CPU: "2", MEMORY: "1G"}, {CPU: "1", MEMORY: "400M"}))
    refused = admitted(sinking, NO_FIGURES, facts=within(knows=True))
    assert refused.pod_limits == "not set as spec.resources: the QoS class would change from Guaranteed to Burstable"


def test_a_request_of_the_pod_holds_what_its_containers_grow_to() -> None:
    document = new_pod(BURSTABLE, orders=asks({CPU: "2", MEMORY: "2G"}, {CPU: "600m", MEMORY: "350M"}))
    done = patched(document, admitted(document, estimate(900, 340), facts=within(knows=True)))
    assert resources(done)["requests"] == {CPU: "500m", MEMORY: f"{340 * MB}"}
    assert done["spec"]["resources"]["requests"] == {CPU: "600m", MEMORY: "350M"}


def test_a_mode_of_recommend_sizes_no_container_beside_the_budget() -> None:
    document = new_pod(BURSTABLE, mode="recommend", orders=asks({CPU: "2"}))
    admission = admitted(document, {"app": estimate(900, 350)}, facts=within(knows=True))
    assert (admission.outcome, admission.moves) == (AdmissionOutcome.PATCHED, ())
    assert patched(document, admission)["spec"]["resources"] == {"requests": {CPU: "500m"}, "limits": {CPU: "2"}}


def test_pod_limits_do_not_depend_on_history() -> None:
    document = new_pod(BURSTABLE, kind="Pod", orders=asks({MEMORY: "800M"}))
    admission = admitted(document, facts=within(knows=True))
    done = patched(document, admission)
    assert admission.outcome is AdmissionOutcome.PATCHED
    assert done["spec"]["resources"] == {"requests": {MEMORY: "300M"}, "limits": {MEMORY: "800M"}}
    assert resources(done) == resources(document)
    annotation = json.loads(done["metadata"]["annotations"][names.ADMISSION])
    assert annotation["podLimits"] is True
    assert "policy" not in annotation


def test_limits_of_containers_are_lowered_to_the_pods() -> None:
    document = new_pod(
        BURSTABLE,
        container("big", {CPU: "100m"}, {CPU: "4"}),
        initContainers=[container("init", None, {CPU: "4"}), sidecar("side", {CPU: "1m"}, {CPU: "3"})],
        orders=asks({CPU: "2"}),
    )
    done = patched(document, admitted(document, {}, facts=within(knows=True)))
    assert done["spec"]["resources"] == {"requests": {CPU: "601m"}, "limits": {CPU: "2"}}
    assert resources(done, "big")["limits"] == {CPU: "2000m"}
    assert resources(done, "side")["limits"] == {CPU: "2000m"}
    assert resources(done, "init")["limits"] == {CPU: "4"}
    assert resources(done)["limits"][CPU] == "1"


def test_a_pod_limit_holds_growth_and_takes_the_place_of_first_limits() -> None:
    document = new_pod(UNLIMITED, orders=asks({CPU: "600m", MEMORY: "400M"}))
    done = patched(document, admitted(document, estimate(900, 350), facts=within(knows=True)))
    assert resources(done) == {"requests": {CPU: "500m", MEMORY: f"{350 * MB}"}, "limits": {}}
    assert done["spec"]["resources"]["requests"] == {CPU: "500m", MEMORY: "350M"}


@pytest.mark.parametrize(
    ("more", "budget"),
    [
        ({"resources": {"limits": {CPU: "1"}}}, {"limits": {CPU: "1"}}),
        ({"orders": asks({CPU: "1"})}, {"requests": {CPU: "300m"}, "limits": {CPU: "1"}}),
    ],
)
def test_in_mode_protect_a_limit_that_follows_its_request_stays_within_the_pods(
    more: dict[str, Any], budget: dict[str, Any]
) -> None:
    app = container("app", {CPU: "300m", MEMORY: "256M"}, {CPU: "500m"})
    document = new_pod(app, mode="protect", **more)
    admission = admitted(document, estimate(1200, 500), facts=within(knows=True))
    done = patched(document, admission)
    assert resources(done) == {"requests": {CPU: "300m", MEMORY: f"{500 * MB}"}, "limits": {CPU: "1000m"}}
    assert requirements(done["spec"]["resources"]) == requirements(budget)
    assert LeftReason.POD_BUDGET in lefts(admission)
    assert admitted(done, estimate(1200, 500), facts=within(knows=True)).outcome is AdmissionOutcome.NOOP


def test_a_request_grows_up_to_a_pod_limit() -> None:
    document = new_pod(BURSTABLE, orders=asks({MEMORY: "450M"}))
    done = patched(document, admitted(document, estimate(300, 900), facts=within(knows=True)))
    assert resources(done) == {
        "requests": {CPU: "300m", MEMORY: f"{450 * MB}"},
        "limits": {MEMORY: f"{450 * MB}"},
    }


def test_a_pod_limit_without_any_request_is_the_request_as_well() -> None:
    document = new_pod(container("app", {MEMORY: "300M"}), orders=asks({CPU: "2"}))
    done = patched(document, admitted(document, {}, facts=within(knows=True)))
    assert done["spec"]["resources"] == {"requests": {CPU: "2"}, "limits": {CPU: "2"}}


def test_pod_limits_below_the_requests_are_denied_with_the_numbers() -> None:
    document = new_pod(BURSTABLE, container("other", {MEMORY: "200M"}), orders=asks({MEMORY: "400M"}))
    for knows in (True, False):
        admission = admitted(document, facts=within(knows=knows))
        assert admission.outcome is AdmissionOutcome.DENIED
        assert admission.denial == (
            "plimsoll.dev/pod-limits: memory: the limit 381.5MiB is below the 476.8MiB that its containers request; "
            "allowed: 476.8MiB or more"
        )
        assert admission.moves == ()
    for harmless in (
        new_pod(BURSTABLE, mode="off", orders=asks({MEMORY: "100M"})),
        mirror(BURSTABLE, orders=asks({MEMORY: "100M"})),
        new_pod(BURSTABLE, orders=asks({MEMORY: "100M"}), os={"name": "windows"}),
    ):
        assert admitted(harmless, facts=within(knows=True)).denial is None
    off = AdmissionSettings(bounds=EXACT.bounds, admission=AdmissionOptions(pod_limits=False))
    assert admitted(document, facts=within(knows=True), settings=off).outcome is AdmissionOutcome.PATCHED
    paused = AdmissionFacts(namespace=Namespace(name="shop"), pause_reason="now", knows_pod_level_resources=True)
    assert admitted(document, facts=paused).outcome is AdmissionOutcome.EXCLUDED


GUARANTEED = container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "500m", MEMORY: "300M"})


@pytest.mark.parametrize(
    ("document", "facts", "told"),
    [
        (
            new_pod(GUARANTEED, orders=asks({CPU: "2"})),
            within(knows=True),
            "not set as spec.resources: the QoS class would change from Guaranteed to Burstable",
        ),
        (
            new_pod(container("app", {CPU: "1", MEMORY: "1G"}), orders=asks({CPU: "1", MEMORY: "1G"})),
            within(knows=True),
            "not set as spec.resources: the QoS class would change from Burstable to Guaranteed",
        ),
        (
            # A newer API server fills in memory, of which request and limit are equal in all containers.
            new_pod(container("app", {MEMORY: "1G"}, {MEMORY: "1G"}), orders=asks({CPU: "1"})),
            within(knows=True),
            "not set as spec.resources: the QoS class would change from Burstable to Guaranteed",
        ),
        (
            new_pod(BURSTABLE, initContainers=[container("init", {CPU: "4"})], orders=asks({CPU: "2"})),
            within(knows=True),
            "not set as spec.resources: an init container requests more cpu than the limit",
        ),
        (
            new_pod(BURSTABLE, initContainers=[container("init", {CPU: "1"})], orders=asks({CPU: "2"}, {CPU: "600m"})),
            within(knows=True),
            "not set as spec.resources: an init container requests more cpu than the request",
        ),
        (
            # A newer API server fills in a limit of memory, and the pod is Guaranteed there alone.
            new_pod(container("app", {MEMORY: "1G"}, {MEMORY: "1G"}), orders=asks({CPU: "1"}, {CPU: "1"})),
            within(knows=True),
            "not set as spec.resources: the QoS class would change from Burstable to Guaranteed",
        ),
        (
            new_pod(BURSTABLE, orders=asks({CPU: "2"})),
            within(limit_range("Pod", max={CPU: "1"}), knows=True),
            "not set as spec.resources: LimitRange range would refuse its cpu",
        ),
        (
            new_pod(BURSTABLE, orders=asks({CPU: "2"})),
            within(quotas=(quota({"limits.cpu": "1"}),), knows=True),
            "not set as spec.resources: its cpu has no room in ResourceQuota quota",
        ),
        (
            new_pod(BURSTABLE, orders=asks({CPU: "2"})),
            within(knows=False),
            "left to the agent of its node: API server and kubelets do not all know pod-level resources; "
            "on a node where both do, nothing limits it",
        ),
        (
            new_pod(BURSTABLE, initContainers=[container("init")], orders=asks({CPU: "2"})),
            within(knows=False),
            "left to the agent of its node: API server and kubelets do not all know pod-level resources; "
            "on a node where both do, nothing limits it",
        ),
        (
            new_pod(BURSTABLE, orders=asks({CPU: "2"})),
            within(knows=None),
            "the version of the API server or of the kubelet is not known",
        ),
        (
            new_pod(BURSTABLE, orders=asks({CPU: "2"}), resources={"limits": {CPU: "3"}}),
            within(knows=True),
            "the pod has resources of its own (spec.resources)",
        ),
    ],
)
def test_pod_limits_that_are_not_set_are_explained(document: dict[str, Any], facts: AdmissionFacts, told: str) -> None:
    admission = admitted(document, NO_FIGURES, facts=facts)
    assert (admission.pod_limits, admission.pod_resources) == (told, None)
    assert admission.moves == ()


NO_FIGURES: dict[str, Any] = {}


def test_what_containers_get_does_not_depend_on_limits_that_are_not_set() -> None:
    # Guaranteed by containers: with the pod's limit its class would change. It is sized as without the annotation.
    orders = {names.GUARANTEED: "true"}
    plain = new_pod(GUARANTEED, orders=orders)
    limited = new_pod(GUARANTEED, orders=orders | asks({MEMORY: "310M"}))
    assert after(limited, estimate(300, 500), facts=within(knows=True)) == after(plain, estimate(300, 500))


@pytest.mark.parametrize("knows", [False, None])
def test_containers_do_not_grow_past_limits_that_an_agent_is_to_write(knows: bool | None) -> None:
    """It writes none below what containers request, and takes off what it wrote."""
    document = new_pod(BURSTABLE, orders=asks({CPU: "1", MEMORY: "1G"}))
    admission = admitted(document, estimate(1500, 700), facts=within(knows=knows))
    assert resources(patched(document, admission))["requests"] == {CPU: "500m", MEMORY: str(700 * MB)}
    (note,) = [note for note in admission.containers[0].notes if note.left is LeftReason.POD_BUDGET]
    assert note.by == names.POD_LIMITS


def test_a_start_is_not_boosted_past_limits_that_an_agent_is_to_write() -> None:
    document = new_pod(BURSTABLE, orders=asks({CPU: "1"}) | {names.STARTUP_BOOST: "factor 3"})
    admission = admitted(document, estimate(500, 300), facts=within(knows=False))
    assert resources(patched(document, admission))["requests"][CPU] == "500m"
    assert admission.startup_boost == f"start not boosted: held by the pod's own resources ({names.POD_LIMITS})"


def test_a_pod_limit_below_its_containers_limits_is_a_warning() -> None:
    document = new_pod(BURSTABLE, orders=asks({MEMORY: "500M"}))
    (warning,) = admitted(document, facts=within(knows=True)).warnings
    assert warning.startswith("memory: the pod's limit")


def test_crane_below_a_pods_limit_stays_below_its_own() -> None:
    crane = AdmissionSettings(bounds=EXACT.bounds, policy=PolicyName.VPA)
    document = new_pod(BURSTABLE, orders=asks({CPU: "1200m"}))
    # vpa would move the limit to 2 x 700m; the pod's is 1200m.
    done = patched(document, admitted(document, estimate(700, 300), facts=within(knows=True), settings=crane))
    assert resources(done) == {"requests": {CPU: "700m", MEMORY: "300M"}, "limits": {CPU: "1200m", MEMORY: "600M"}}
