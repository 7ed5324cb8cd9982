"""Room in a ResourceQuota is kept for the pods of a workload that are still to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.admission.answer import Admission, AdmissionFacts, AdmissionOutcome, LeftReason
from agent.core.admission.limit_ranges import RESERVED_PODS, counted_growth, with_growth
from agent.core.cluster.effective_resources import pod_limits, pod_requests
from agent.core.cluster.facts import Quota
from agent.core.numbers.quantity import parse_quantity
from agent.core.orders import annotations as names
from tests.admissions import MB, SHOP, admitted, estimate, new_pod, patched, pod_of, resources
from tests.examples import examples
from tests.pods import container

CPU, MEMORY = "cpu", "memory"
GI = 1 << 30
UNLIMITED = container("app", {CPU: "500m", MEMORY: "1Gi"})
BURSTABLE = container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "1", MEMORY: "600M"})
MEMORY_QUOTA = "requests.memory"


def nanos(amounts: Mapping[str, str]) -> dict[str, int]:
    return {name: parse_quantity(text) for name, text in amounts.items()}


def quota(hard: Mapping[str, str], used: Mapping[str, str] | None = None) -> Quota:
    return Quota(name="quota", hard=nanos(hard), used=nanos(used or {}))


def under(*quotas: Quota, replicas: int | None = None) -> AdmissionFacts:
    return AdmissionFacts(namespace=SHOP.namespace, quotas=quotas, replicas=replicas, knows_pod_level_resources=True)


def memory_request(document: Mapping[str, Any], admission: Admission) -> str:
    return resources(patched(document, admission))["requests"][MEMORY]


GROWN = estimate(500, 1.5 * GI / MB)
"""One and a half GiB of memory."""


def test_a_pod_grows_only_where_ten_more_still_fit_as_they_are_written() -> None:
    document = new_pod(UNLIMITED)
    for used, expected in (("8.5Gi", str(3 * GI // 2)), ("8704.001Mi", "1Gi")):
        # 1.5 GiB of the pod, 10 x 1 GiB of those to come: 8.5 GiB may be used.
        admission = admitted(document, GROWN, facts=under(quota({MEMORY_QUOTA: "20Gi"}, {MEMORY_QUOTA: used})))
        assert memory_request(document, admission) == expected
    assert "memory: held by a ResourceQuota (ResourceQuota quota, where room for 10 more pods is kept)" in map(
        str, admission.containers[0].notes
    )
    full = admitted(document, GROWN, facts=under(quota({MEMORY_QUOTA: "20Gi"}, {MEMORY_QUOTA: "19Gi"})))
    assert "memory: held by a ResourceQuota (ResourceQuota quota)" in map(str, full.containers[0].notes)


@pytest.mark.parametrize(
    ("replicas", "told", "reserve"),
    [(None, 2, 10), (0, 2, 10), (11, 2, 11), (30, 2, 30), (3, 30, 30), (31, 30, 31)],
)
def test_room_is_kept_for_as_many_pods_as_the_workload_has(replicas: int | None, told: int, reserve: int) -> None:
    document, known = new_pod(UNLIMITED), replace(GROWN, pods=told)
    enough = quota({MEMORY_QUOTA: f"{reserve * 1024 + 1536}Mi"})
    admission = admitted(document, known, facts=under(enough, replicas=replicas))
    assert memory_request(document, admission) == str(3 * GI // 2)
    short = quota({MEMORY_QUOTA: f"{reserve * 1024 + 1535}Mi"})
    admission = admitted(document, known, facts=under(short, replicas=replicas))
    assert memory_request(document, admission) == "1Gi"


def test_ten_replicas_that_fill_a_quota_are_all_created() -> None:
    # Of the ten six were made at 1.5 GiB and one at 1 GiB once, and the last three were refused.
    document, used_bytes = new_pod(UNLIMITED), 0
    for _ in range(10):
        facts = under(quota({MEMORY_QUOTA: "10Gi"}, {MEMORY_QUOTA: str(used_bytes)}))
        used_bytes += parse_quantity(memory_request(document, admitted(document, GROWN, facts=facts))) // 10**9
        assert used_bytes <= 10 * GI
    assert used_bytes == 10 * GI


def test_what_shrinks_and_other_resources_are_not_held_back() -> None:
    full = {MEMORY_QUOTA: "10Gi", "requests.cpu": "5"}
    document = new_pod(container("app", {CPU: "500m", MEMORY: "1Gi"}), container("other", {MEMORY: "1Gi"}))
    known = {"app": estimate(300, 1.5 * GI / MB), "other": estimate(None, 100)}
    # Together the containers need less memory than before, so the one may grow.
    assert resources(patched(document, admitted(document, known, facts=under(quota(full, full)))))["requests"] == {
        CPU: "300m",
        MEMORY: str(3 * GI // 2),
    }
    known["other"] = estimate(None, 900)
    admission = admitted(document, known, facts=under(quota(full, full)))
    done = patched(document, admission)
    assert resources(done)["requests"] == {CPU: "300m", MEMORY: "1Gi"}
    assert resources(done, "other")["requests"] == {MEMORY: f"{900 * MB}"}
    assert admission.outcome is AdmissionOutcome.PATCHED
    assert LeftReason.QUOTA in {note.left for unit in admission.containers for note in unit.notes}


def test_room_is_kept_of_limits_as_well() -> None:
    # The limit is to be 2 x 400 MB; it is 600 MB, and so it is for ten more.
    document = new_pod(BURSTABLE)
    for hard, limit in (("6800M", f"{800 * MB}"), ("6799M", "600M")):
        admission = admitted(document, estimate(300, 400), facts=under(quota({"limits.memory": hard})))
        assert resources(patched(document, admission))["limits"] == {MEMORY: limit}


def test_a_limit_of_the_whole_pod_keeps_the_room_too() -> None:
    document = new_pod(BURSTABLE, orders={names.POD_LIMITS: '{"limits":{"cpu":"2"}}'})
    enough = admitted(document, {}, facts=under(quota({"limits.cpu": "12"})))
    assert enough.pod_resources is not None
    short = admitted(document, {}, facts=under(quota({"limits.cpu": "11"})))
    assert (short.pod_resources, short.pod_limits) == (
        None,
        "not set as spec.resources: its cpu has no room in ResourceQuota quota, where room for 10 more pods is kept",
    )


def test_a_pod_that_is_asked_about_again_is_measured_as_it_was_written() -> None:
    document = new_pod(UNLIMITED, container("other", {MEMORY: "1Gi"}))
    known = {"app": estimate(500, 2000), "other": estimate(None, 200)}
    # 2200 MB are wanted, and 10 x 2 GiB kept: one byte is missing. Once "other" has shrunk, 10 x 1.2 GiB were enough.
    hard = 2200 * MB + 10 * 2 * GI - 1
    facts = under(quota({MEMORY_QUOTA: str(hard)}))
    first = patched(document, admitted(document, known, facts=facts))
    assert (resources(first)["requests"][MEMORY], resources(first, "other")["requests"][MEMORY]) == (
        "1Gi",
        f"{200 * MB}",
    )
    assert admitted(first, known, facts=facts).moves == ()
    # One that has an annotation that is not understood is measured as it is, and so is one that names others.
    for text in ("{", '{"containers": {"stranger": {"requests": {"memory": "9Gi"}}}}'):
        first["metadata"]["annotations"][names.ORIGINAL_RESOURCES] = text
        assert admitted(first, known, facts=facts).moves
    # What it once had as a whole counts, as it counts of a pod that has it.
    first["metadata"]["annotations"][names.ORIGINAL_RESOURCES] = '{"pod": {"requests": {"memory": "2Gi"}}}'
    assert admitted(first, known, facts=facts).moves == ()


def test_growth_is_told_by_the_names_of_quotas() -> None:
    before, grown = new_pod(BURSTABLE), container("app", {CPU: "400m", MEMORY: "310M"}, {MEMORY: "700M"})
    more = counted_growth(pod_of(before), pod_of(new_pod(grown)))
    assert more == {
        "memory": 10 * MB * 10**9,
        "requests.memory": 10 * MB * 10**9,
        "limits.memory": 100 * MB * 10**9,
    }
    (known,) = with_growth([quota({"memory": "1G"}, {"memory": "100M", "pods": "3"})], more)
    assert (known.used["memory"], known.used["pods"]) == (110 * MB * 10**9, 3 * 10**9)


def test_an_admission_says_what_quotas_will_count_more() -> None:
    document, roomy = new_pod(UNLIMITED), quota({MEMORY_QUOTA: "90Gi"})
    half = GI // 2 * 10**9
    grown = admitted(document, GROWN, facts=under(roomy)).grown
    assert (grown["requests.memory"], grown["memory"]) == (half, half)
    assert not admitted(document, GROWN, facts=under()).grown
    shrunk = new_pod(container("app", {CPU: "500m", MEMORY: "1Gi"}, {MEMORY: "4Gi"}))
    assert not admitted(shrunk, estimate(100, 500), facts=under(roomy)).grown


# Whatever comes in whatever order

COUNTED = ("requests.cpu", "memory", "limits.memory")


def counted(document: Mapping[str, Any]) -> dict[str, int]:
    pod = pod_of(document)
    requests, limits = pod_requests(pod), pod_limits(pod)
    return {"requests.cpu": requests[CPU], "memory": requests[MEMORY], "limits.memory": limits[MEMORY]}


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    containers = []
    for name in ("app", "other")[: draw(st.integers(1, 2))]:
        cpu, memory = draw(st.sampled_from([100, 500, 1000])), draw(st.sampled_from([100, 300, 1000]))
        limit = memory + draw(st.sampled_from([0, 200, 1000]))
        containers.append(container(name, {CPU: f"{cpu}m", MEMORY: f"{memory}M"}, {MEMORY: f"{limit}M"}))
    return new_pod(*containers)


@pytest.mark.slow
@examples(200)
@given(st.data(), pods())
def test_replicas_that_fit_as_they_are_written_fit_as_they_are_patched(
    data: st.DataObject, document: dict[str, Any]
) -> None:
    own = counted(document)
    running = data.draw(st.sampled_from([None, 0, 3, 25]), label="running")
    most = max(running or 0, RESERVED_PODS)
    count = data.draw(st.integers(1, most), label="pods")
    spare = data.draw(st.lists(st.integers(0, 3 * most), min_size=3, max_size=3), label="spare, in tenths of a pod")
    foreign = {name: data.draw(st.sampled_from([0, own[name]])) for name in COUNTED}
    hard = {
        name: foreign[name] + count * own[name] + tenths * own[name] // 10
        for name, tenths in zip(COUNTED, spare, strict=True)
    }
    replicas: list[tuple[dict[str, int], Mapping[str, int]]] = []
    seen = 0
    for _ in range(count):
        # The watch shows what was made with a delay; of the rest the growth is remembered.
        seen = data.draw(st.integers(seen, len(replicas)), label="seen")
        used: Counter[str] = Counter(foreign)
        for sums, _ in replicas[:seen]:
            used.update(sums)
        unseen: Counter[str] = Counter()
        for _, grown in replicas[seen:]:
            unseen.update(grown)
        known = {
            name: estimate(data.draw(st.sampled_from([None, 0, 200, 800, 3000])), data.draw(st.integers(0, 3000)))
            for name in ("app", "other")
        }
        shown = Quota(name="quota", hard=hard, used=dict(used))
        admission = admitted(document, known, facts=under(*with_growth([shown], unseen), replicas=running))
        assert admission.outcome in (AdmissionOutcome.PATCHED, AdmissionOutcome.NOOP)
        replicas.append((counted(patched(document, admission)), admission.grown))
        for name in COUNTED:
            assert foreign[name] + sum(sums[name] for sums, _ in replicas) <= hard[name], name
