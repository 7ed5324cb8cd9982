"""Random pods, histories and surroundings: what must hold of every admission."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.admission.answer import AdmissionFacts, AdmissionOutcome
from agent.core.admission.estimate import EstimateSource, NoEstimate
from agent.core.admission.limit_ranges import quota_fault, range_fault
from agent.core.admission.options import AdmissionOptions, AdmissionSettings
from agent.core.cluster.effective_resources import pod_requests
from agent.core.cluster.facts import FrozenAxes, LimitRangeItem, NodeAmounts, Quota
from agent.core.cluster.pod import Pod, QosClass, Requirements
from agent.core.cluster.pod_defaults import KNOWN_POD_LEVEL, classes_at_creation
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders import annotations as names
from agent.core.orders.plan_options import DaemonSetGrowth, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, PolicyName
from agent.core.plan.pod_change import Setting
from tests.admissions import MB, SHOP, admitted, estimate, new_pod, patched, pod_of
from tests.examples import examples
from tests.pods import container

CPU = st.sampled_from([0, 1, 100, 250, 500, 1000, 1500, 4000])
MEMORY_MB = st.sampled_from([0, 1, 16, 100, 128, 300, 512, 600, 2000])
_ENOUGH = examples(300)


@st.composite
def amounts(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, str]]:
    """Requests and limits that the API server would take: no request above its limit."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for name, values, unit in (("cpu", CPU, "m"), ("memory", MEMORY_MB, "M")):
        request, limit = draw(st.none() | values), draw(st.none() | values)
        if request is not None and limit is not None and request > limit:
            request, limit = limit, request
        if request is not None:
            requests[name] = f"{request}{unit}"
        if limit is not None:
            limits[name] = f"{limit}{unit}"
            requests.setdefault(name, limits[name])  # as the API fills in
    return requests, limits


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    def containers(prefix: str, most: int) -> list[dict[str, Any]]:
        documents = []
        for index in range(draw(st.integers(0 if prefix else 1, most))):
            requests, limits = draw(amounts())
            fields = {"restartPolicy": "Always"} if prefix and draw(st.booleans()) else {}
            documents.append(container(f"{prefix}{index}", requests or None, limits or None, **fields))
        return documents

    orders = draw(
        st.fixed_dictionaries(
            {},
            optional={
                names.POLICY: st.sampled_from(list(PolicyName)),
                names.GUARANTEED: st.just("true"),
                names.MIN_CPU: st.just("200m"),
                names.MAX_MEMORY: st.just("400M"),
                names.POD_LIMITS: st.sampled_from(
                    [
                        '{"limits":{"cpu":"3"}}',
                        '{"limits":{"memory":"1500M","cpu":"6"}}',
                        '{"limits":{"memory":"3G","cpu":"6"},"requests":{"memory":"3G","cpu":"6"}}',
                        '{"limits":{"memory":"3G"},"requests":{"cpu":"5"}}',
                        "nonsense",
                    ]
                ),
            },
        )
    )
    kind = draw(st.sampled_from(["Deployment", "DaemonSet", "StatefulSet", "Job", "Pod"]))
    spec: dict[str, Any] = {"initContainers": init} if (init := containers("init", 2)) else {}
    budget = {
        key: stated
        for key in ("requests", "limits")
        if (stated := draw(st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["13", "14"]))))
    }
    if budget:  # large enough for whatever the containers ask for
        units = {"cpu": "", "memory": "G"}
        spec["resources"] = {
            key: {name: ("14" if key == "limits" else text) + units[name] for name, text in stated.items()}
            for key, stated in budget.items()
        }
    return new_pod(*containers("", 3), kind=kind, orders=orders, **spec)


optional = st.none() | st.integers(0, 3000)
optional_bytes = st.none() | st.integers(0, 3000).map(lambda mb: mb * MB)
estimates = st.builds(
    lambda **fields: estimate(**fields),
    cpu=optional,
    memory_mb=st.none() | st.integers(0, 3000),
    source=st.sampled_from(EstimateSource),
    cpu_max_millicores=optional,
    cpu_base_millicores=optional,
    memory_max_bytes=optional_bytes,
    memory_base_bytes=optional_bytes,
    oom_memory_bytes=optional_bytes,
    history_seconds=st.sampled_from([10.0, 4000.0, 1e6]),
)
NAMES = ("0", "1", "2", "init0", "init1")
knowledge = st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, estimates)).map(
    lambda known: {name: known.get(name, NoEstimate.UNKNOWN_CONTAINER) for name in NAMES}
)


def nanos(cpu: st.SearchStrategy[int], memory: st.SearchStrategy[int]) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": cpu.map(lambda millicores: millicores * NANOS_PER_MILLI),
            "memory": memory.map(lambda megabytes: megabytes * MB * NANOS_PER_UNIT),
        },
    )


ranges = st.lists(
    st.builds(
        LimitRangeItem,
        name=st.just("range"),
        type=st.sampled_from(["Container", "Pod"]),
        min=nanos(st.sampled_from([50, 300]), st.sampled_from([50, 250])),
        max=nanos(st.sampled_from([800, 5000]), st.sampled_from([400, 3000])),
        default=nanos(st.just(1000), st.just(500)),
        max_limit_request_ratio=st.fixed_dictionaries(
            {}, optional={"cpu": st.just(3 * NANOS_PER_UNIT), "memory": st.just(2 * NANOS_PER_UNIT)}
        ),
    ),
    max_size=2,
).map(tuple)
quotas = st.lists(
    st.builds(
        Quota,
        name=st.just("quota"),
        hard=st.fixed_dictionaries(
            {},
            optional={
                "requests.cpu": st.sampled_from([2, 9, 30]).map(lambda cpus: cpus * NANOS_PER_UNIT),
                "memory": st.sampled_from([900, 9000]).map(lambda mb: mb * MB * NANOS_PER_UNIT),
                "limits.cpu": st.sampled_from([3, 30]).map(lambda cpus: cpus * NANOS_PER_UNIT),
                "limits.memory": st.sampled_from([1200, 15_000]).map(lambda mb: mb * MB * NANOS_PER_UNIT),
            },
        ),
        used=st.fixed_dictionaries({}, optional={"requests.cpu": st.just(NANOS_PER_UNIT)}),
    ),
    max_size=1,
).map(tuple)
some = st.none() | st.just(("0", "init0"))
axes = st.builds(
    FrozenAxes,
    cpu_for=st.none() | st.just("hpa"),
    memory_for=st.none() | st.just("hpa"),
    cpu_containers=some,
    memory_containers=some,
)
facts = st.builds(
    AdmissionFacts,
    namespace=st.just(SHOP.namespace),
    frozen=axes,
    limit_ranges=ranges,
    quotas=quotas,
    replicas=st.none() | st.integers(0, 30),
    room=st.none()
    | st.builds(
        NodeAmounts,
        cpu_millicores=st.sampled_from([0, 400, 2000, 8000]),
        memory_bytes=st.sampled_from([0, 200, 1000, 4000]).map(lambda mb: mb * MB),
    ),
    knows_pod_level_resources=st.sampled_from([True, True, False, None]),
)
all_settings = st.builds(
    AdmissionSettings,
    plan=st.builds(
        PlanOptions,
        daemon_set_growth=st.sampled_from(DaemonSetGrowth),
        memory_applied=st.booleans(),
        guaranteed=st.booleans(),
    ),
    bounds=st.builds(BoundsOptions, round_memory_bytes=st.sampled_from([1, 1 << 20])),
    admission=st.builds(AdmissionOptions, cpu_limits_removed=st.booleans(), memory_limits_added=st.booleans()),
)


def _classes(pod: Pod) -> tuple[QosClass, ...]:
    """Return what the pod looks like, and the class by each API server that may store it."""
    return computed_qos_class(pod), *classes_at_creation(pod, KNOWN_POD_LEVEL)


def _is_class_of_budget(before: Pod, now: Pod, given: Requirements | None) -> bool:
    """Whether a budget that the pod was given makes its class: it rises, and each API server sees the same."""
    was, is_now = set(_classes(before)), set(_classes(now))
    if given is None or len(is_now) != 1:
        return False
    if was == {QosClass.BEST_EFFORT}:
        return True
    return (
        was == {QosClass.BURSTABLE}
        and is_now == {QosClass.GUARANTEED}
        and "requests" in before.annotations[names.POD_LIMITS]
    )


def _policy(pod: Pod) -> PolicyName:
    return PolicyName(pod.annotations.get(names.POLICY, PolicyName.CRUISE))


def _assert_limits_within_max_memory(before: Pod, now: Pod) -> None:
    """Whatever memory limit is set or changed is within the ratio of the largest request.

    That ratio is two; of policy vpa, which keeps the author's, it is his where that is more, and his limit falls no
    further than what was in use. A limit that he wrote larger falls to that of the whole pod, no lower than that.
    """
    budget = None if now.resources is None else now.resources.memory_limit_bytes
    for was, unit in zip(before.sized_containers(), now.sized_containers(), strict=True):
        limit, written = unit.resources.memory_limit_bytes, was.resources.memory_limit_bytes
        if limit is None or limit == written or limit <= 2 * 400 * MB:
            continue
        if written is not None and _policy(before) is PolicyName.VPA:
            assert limit <= max(written, 400 * MB * written // (was.resources.memory_request_bytes or written))
        else:
            assert written is not None
            assert limit < written
            assert limit == budget


@pytest.mark.slow
@_ENOUGH
@given(pods(), knowledge, facts, all_settings)
def test_every_admission_keeps_what_must_hold_and_asking_again_changes_nothing_more(
    document: dict[str, Any], known: Any, surroundings: AdmissionFacts, chosen: AdmissionSettings
) -> None:
    admission = admitted(document, known, facts=surroundings, settings=chosen)
    done = patched(document, admission)
    before, now = pod_of(document), pod_of(done)
    assert (done != document) == (admission.outcome is AdmissionOutcome.PATCHED)
    assert admission.outcome is not AdmissionOutcome.ERROR
    assert (admission.denial is not None) == (admission.outcome is AdmissionOutcome.DENIED)
    assert _classes(now) == _classes(before) or _is_class_of_budget(before, now, admission.pod_resources)
    for was, unit in zip(before.sized_containers(), now.sized_containers(), strict=True):
        assert set(unit.resources.requests) == set(was.resources.requests)
        for name, request in unit.resources.requests.items():
            assert request <= unit.resources.limits.get(name, request)
        assert set(unit.resources.limits) - set(was.resources.limits) <= {"memory"}
        assert set(was.resources.limits) - set(unit.resources.limits) <= {"cpu"}
        if was.name.startswith("init") and was.kind.value == "init":
            assert unit == was
        for resource in Resource:
            # A limit for the pod as a whole is asked for by its owner; only it reaches into what an HPA holds.
            if surroundings.frozen.holds(resource, unit.name) and admission.pod_resources is None:
                assert unit.resources.requests.get(resource.value) == was.resources.requests.get(resource.value)
                assert unit.resources.limits.get(resource.value) == was.resources.limits.get(resource.value)
    if surroundings.room is not None:
        room = {"cpu": surroundings.room.cpu_millicores * NANOS_PER_MILLI}
        room["memory"] = surroundings.room.memory_bytes * NANOS_PER_UNIT
        was_asked, asked = pod_requests(before), pod_requests(now)
        for name, most in room.items():
            assert asked.get(name, 0) <= max(most, was_asked.get(name, 0))
    if names.MAX_MEMORY in before.annotations:
        _assert_limits_within_max_memory(before, now)
    for resource in Resource:
        if range_fault(before, surroundings.limit_ranges, resource) is None:
            assert range_fault(now, surroundings.limit_ranges, resource) is None
        for setting in Setting:
            pods = surroundings.replicas or 0
            assert quota_fault(before, now, surroundings.quotas, resource, setting, pods=pods) is None
    again = admitted(done, known, facts=surroundings, settings=chosen)
    assert again.moves == ()
    assert again.pod_resources is None


@_ENOUGH
@given(pods(), knowledge, facts, all_settings)
def test_in_mode_protect_nothing_becomes_less(
    document: dict[str, Any], known: Any, surroundings: AdmissionFacts, chosen: AdmissionSettings
) -> None:
    document["metadata"]["annotations"] |= {names.MODE: "protect"}
    document["metadata"]["annotations"].pop(names.POD_LIMITS, None)  # limits of the whole pod are its own order
    admission = admitted(document, known, facts=surroundings, settings=chosen)
    assert admission.outcome is not AdmissionOutcome.ERROR
    before, now = pod_of(document), pod_of(patched(document, admission))
    for was, unit in zip(before.sized_containers(), now.sized_containers(), strict=True):
        assert set(unit.resources.limits) == set(was.resources.limits)
        for amounts, came in (
            (unit.resources.requests, was.resources.requests),
            (unit.resources.limits, was.resources.limits),
        ):
            assert all(amounts[name] >= amount for name, amount in came.items())
