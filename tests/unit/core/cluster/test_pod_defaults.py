from __future__ import annotations

from typing import Any

import pytest

from agent.core.admission.answer import AdmissionFacts, AdmissionOutcome, LeftReason
from agent.core.admission.options import AdmissionOptions
from agent.core.cluster.pod import QosClass
from agent.core.cluster.pod_defaults import (
    KNOWN_POD_LEVEL,
    Defaulting,
    class_at_creation,
    classes_at_creation,
    defaulted,
)
from tests.admissions import EXACT, SHOP, admitted, estimate, new_pod, patched, pod_of
from tests.pods import container, sidecar

CPU, MEMORY, HUGE = "cpu", "memory", "hugepages-2Mi"
KNOWING = AdmissionFacts(namespace=SHOP.namespace, knows_pod_level_resources=True)
LIMITED = container("app", {CPU: "1", MEMORY: "1G"}, {CPU: "1"})
"""Of a CPU limit, and no memory limit."""


def filled(defaulting: Defaulting, *containers: Any, init: Any = (), **budget: dict[str, str]) -> Any:
    """Return the pod's own requests and limits after defaulting, as text."""
    stored = defaulted(pod_of(new_pod(*containers, initContainers=list(init), resources=budget)), defaulting)
    if stored.resources is None:
        return None
    return tuple(
        {name: nanos // 10**6 if name == CPU else nanos // 10**9 for name, nanos in amounts.items()}
        for amounts in (stored.resources.requests, stored.resources.limits)
    )


@pytest.mark.parametrize("defaulting", KNOWN_POD_LEVEL)
def test_requests_beside_limits_are_those_of_the_containers_else_the_limit(defaulting: Defaulting) -> None:
    asks = container("app", {CPU: "200m"})
    assert filled(defaulting, asks, limits={CPU: "2"}) == ({CPU: 200}, {CPU: 2000})
    assert filled(defaulting, container("app"), limits={CPU: "2"}) == ({CPU: 2000}, {CPU: 2000})
    assert filled(defaulting, asks, limits={MEMORY: "1"}) == ({CPU: 200, MEMORY: 1}, {MEMORY: 1})
    assert filled(defaulting, asks, requests={CPU: "1"}, limits={CPU: "2"}) == ({CPU: 1000}, {CPU: 2000})
    assert filled(defaulting, asks) == ({}, {})  # an empty section stays empty
    assert filled(defaulting, asks, limits={"other": "1"}) == ({CPU: 200}, {"other": 1})


def test_beside_requests_alone_only_newer_servers_fill_in() -> None:
    budget = {CPU: "3"}
    asks = container("app", {MEMORY: "5"})
    assert filled(Defaulting.REQUESTS, asks, requests=budget) == ({CPU: 3000}, {})
    assert filled(Defaulting.LIMITS, asks, requests=budget) == ({CPU: 3000, MEMORY: 5}, {})


def test_limits_are_filled_in_where_every_container_has_one_and_hold_the_requests() -> None:
    one, other = container("one", {CPU: "1"}, {CPU: "1"}), container("two", {CPU: "1"}, {CPU: "2"})
    side = sidecar("side", {CPU: "0"}, {CPU: "0"})
    budget = {CPU: "2"}
    assert filled(Defaulting.LIMITS, one, other, requests=budget) == ({CPU: 2000}, {CPU: 3000})
    assert filled(Defaulting.LIMITS, one, other, init=[side], requests=budget) == ({CPU: 2000}, {CPU: 3000})
    assert filled(Defaulting.LIMITS, one, other, init=[sidecar("side")], requests=budget) == ({CPU: 2000}, {})
    assert filled(Defaulting.LIMITS, one, requests={CPU: "4"}) == ({CPU: 4000}, {CPU: 4000})
    assert filled(Defaulting.LIMITS, one, requests={CPU: "4", "other": "1"})[1] == {CPU: 4000}
    assert filled(Defaulting.REQUESTS, one, other, requests=budget) == ({CPU: 2000}, {})


@pytest.mark.parametrize("defaulting", KNOWN_POD_LEVEL)
def test_huge_pages_have_the_limit_of_the_containers(defaulting: Defaulting) -> None:
    huge = container("app", {HUGE: "4"}, {HUGE: "4"})
    assert filled(defaulting, huge, requests={CPU: "1"}) == ({CPU: 1000, HUGE: 4}, {HUGE: 4})
    assert filled(defaulting, huge, requests={CPU: "1"}, limits={HUGE: "8"})[1] == {HUGE: 8}
    only_asked = filled(defaulting, huge, requests={CPU: "1", HUGE: "8"})
    assert only_asked == ({CPU: 1000, HUGE: 8}, {} if defaulting is Defaulting.REQUESTS else {HUGE: 8})


def test_the_class_is_that_of_what_is_stored() -> None:
    paired = container("app", {CPU: "1", MEMORY: "1G"}, {CPU: "1", MEMORY: "1G"})
    every = tuple(Defaulting)
    guaranteed, burstable, none = QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT

    def classes(*containers: Any, **spec: Any) -> tuple[QosClass, ...]:
        return classes_at_creation(pod_of(new_pod(*containers, **spec)), every)

    assert classes(paired) == (guaranteed,) * 3
    assert classes(paired, resources={"requests": {CPU: "2", MEMORY: "2G"}}) == (guaranteed, burstable, guaranteed)
    assert classes(LIMITED, resources={}) == (burstable, none, burstable)
    assert class_at_creation(pod_of(new_pod(LIMITED)), Defaulting.REQUESTS) is burstable


def test_a_first_memory_limit_that_would_make_the_pod_guaranteed_is_not_set() -> None:
    # The API server would give the pod the limits cpu 1 = 1 and memory max(1G, 512M) = 1G.
    document = new_pod(LIMITED, resources={"requests": {CPU: "1", MEMORY: "1G"}})
    with_limits = EXACT.__class__(bounds=EXACT.bounds, admission=AdmissionOptions(cpu_limits_removed=False))
    admission = admitted(document, estimate(cpu=1000, memory_mb=200), facts=KNOWING, settings=with_limits)
    after = pod_of(patched(document, admission))
    assert class_at_creation(after, Defaulting.LIMITS) is QosClass.BURSTABLE
    (app,) = after.containers
    assert app.resources.memory_limit_bytes is None
    assert app.resources.memory_request_bytes == 200_000_000  # the rest is sized all the same
    (note,) = [note for note in admission.containers[0].notes if note.left is LeftReason.QOS]
    assert str(note) == "memory limit: QoS class kept (spec.resources as the API server fills it in)"


def test_a_pod_that_the_server_makes_guaranteed_is_left_as_one() -> None:
    paired = container("app", {CPU: "1", MEMORY: "1G"}, {CPU: "1", MEMORY: "1G"})
    document = new_pod(paired, resources={"requests": {CPU: "2", MEMORY: "2G"}})
    admission = admitted(document, facts=KNOWING)
    assert (admission.outcome, admission.why) == (
        AdmissionOutcome.EXCLUDED,
        "of class Guaranteed, and not asked for (plimsoll.dev/guaranteed)",
    )


def test_where_the_server_may_drop_the_pods_own_resources_the_class_without_them_stays_too() -> None:
    paired = container("app", {CPU: "1", MEMORY: "1G"}, {CPU: "1", MEMORY: "1G"})
    document = new_pod(paired, resources={"requests": {CPU: "2", MEMORY: "2G"}, "limits": {CPU: "4", MEMORY: "4G"}})
    assert admitted(document, facts=KNOWING).outcome is AdmissionOutcome.PATCHED
    assert admitted(document, facts=SHOP).outcome is AdmissionOutcome.EXCLUDED
