"""What bounds a new pod from outside: what a node can allocate, and the largest memory allowed."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.admission.answer import NOT_KNOWN, Admission, AdmissionFacts, AdmissionOutcome, LeftReason
from agent.core.admission.fit import fault_of
from agent.core.admission.options import AdmissionSettings
from agent.core.cluster.facts import NodeAmounts
from agent.core.orders import annotations as names
from agent.core.orders.policy_options import BoundsOptions
from agent.core.plan.sizing.container_sizing import limit_within
from tests.admissions import MB, SHOP, admitted, estimate, new_pod, patched, pod_of, resources
from tests.pods import container, sidecar

CPU, MEMORY = "cpu", "memory"
GB = 1000 * MB
APP = container("app", {CPU: "500m", MEMORY: "300M"}, {MEMORY: "600M"})
NODE = NodeAmounts(cpu_millicores=2000, memory_bytes=GB)


def on(room: NodeAmounts | None, **fields: Any) -> AdmissionFacts:
    return AdmissionFacts(namespace=SHOP.namespace, room=room, **fields)


def sized(document: dict[str, Any], known: Any, room: NodeAmounts | None = NODE, **fields: Any) -> dict[str, Any]:
    done = patched(document, admitted(document, known, facts=on(room, **fields)))
    again = admitted(done, known, facts=on(room, **fields))
    assert (again.moves, again.pod_resources) == ((), None)
    return done


def notes(admission: Admission) -> list[str]:
    return [str(note) for unit in admission.containers for note in unit.notes]


# A node


def test_growth_that_no_node_could_run_is_left_out_and_the_rest_is_sized() -> None:
    document = new_pod(APP)
    known = estimate(cpu=2001, memory_mb=1000)
    assert resources(sized(document, known)) == {
        "requests": {CPU: "500m", MEMORY: f"{GB}"},
        "limits": {MEMORY: f"{GB}"},  # not 2 GB, which no node has
    }
    assert notes(admitted(document, known, facts=on(NODE))) == [
        "cpu: no node can allocate so much",
        "memory limit: no node can allocate so much",
    ]


def test_a_figure_beyond_any_node_leaves_request_and_limit() -> None:
    liar = estimate(cpu=300, memory_mb=10_000_000)
    assert resources(sized(new_pod(APP), liar)) == {
        "requests": {CPU: "300m", MEMORY: "300M"},
        "limits": {MEMORY: f"{GB}"},
    }
    bare = container("app", {CPU: "500m", MEMORY: "3G"})  # by its author more than any node has
    assert resources(sized(new_pod(bare), liar)) == {"requests": {CPU: "300m", MEMORY: "3G"}, "limits": {}}


def test_what_counts_is_what_the_scheduler_counts() -> None:
    init = container("init", {CPU: "1500m"})
    side = sidecar("side", {CPU: "100m"})
    known = {"app": estimate(cpu=1000), "side": estimate(cpu=600)}
    grown = sized(new_pod(APP, initContainers=[init, side]), known)
    assert (resources(grown)["requests"][CPU], resources(grown, "side")["requests"][CPU]) == ("1000m", "600m")
    before_it = sized(new_pod(APP, initContainers=[side, init]), known)  # 600m + 1500m while it starts
    assert (resources(before_it)["requests"][CPU], resources(before_it, "side")["requests"][CPU]) == ("500m", "100m")
    heavy = sized(new_pod(APP, initContainers=[init, side], overhead={CPU: "500m"}), known)
    assert resources(heavy)["requests"][CPU] == "500m"


def test_a_pair_of_a_guaranteed_pod_stays_one() -> None:
    pair = container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "500m", MEMORY: "300M"})
    document = new_pod(pair, orders={names.GUARANTEED: "true"})
    done = resources(sized(document, estimate(cpu=3000, memory_mb=400)))
    assert done == {
        "requests": {CPU: "500m", MEMORY: f"{400 * MB}"},
        "limits": {CPU: "500m", MEMORY: f"{400 * MB}"},
    }


def test_a_limit_in_proportion_to_a_request_that_does_not_grow_stays() -> None:
    document = new_pod(APP, orders={names.POLICY: "vpa"})
    known = estimate(cpu=300, memory_mb=2000)
    assert resources(sized(document, known))["limits"] == {MEMORY: "600M"}
    budget = {"requests": {MEMORY: "400M"}, "limits": {CPU: "4"}}
    held = new_pod(APP, orders={names.POLICY: "vpa"}, resources=budget)
    assert resources(sized(held, known, None))["limits"] == {MEMORY: "600M"}


def test_while_no_node_says_what_it_has_nothing_grows() -> None:
    done = sized(new_pod(container("app", {CPU: "500m", MEMORY: "300M"})), estimate(cpu=300, memory_mb=900), NOT_KNOWN)
    assert resources(done) == {"requests": {CPU: "300m", MEMORY: "300M"}, "limits": {}}
    free = sized(new_pod(APP), estimate(cpu=99_000, memory_mb=900), None)
    assert resources(free)["requests"] == {CPU: "99000m", MEMORY: f"{900 * MB}"}


def test_limits_for_the_whole_pod_that_no_node_could_reserve_are_not_set() -> None:
    orders = {names.POD_LIMITS: '{"limits": {"cpu": "64"}}'}
    document = new_pod(container("app", {MEMORY: "300M"}), orders=orders)
    admission = admitted(document, facts=on(NODE, knows_pod_level_resources=True))
    assert admission.pod_resources is None
    assert admission.pod_limits == "not set as spec.resources: no node can allocate the cpu that it would request"


def test_what_must_hold_of_a_patched_pod_is_looked_at_once_more() -> None:
    before, now = pod_of(new_pod(APP)), pod_of(new_pod(container("app", {CPU: "3", MEMORY: "300M"}, {MEMORY: "600M"})))
    assert fault_of(before, now, on(NODE)) == "no node can allocate the cpu that it would request"
    assert fault_of(now, now, on(NODE)) is None
    assert fault_of(before, now, on(None)) is None


# What one node alone told


@pytest.mark.parametrize(
    ("policy", "alone_mb", "limit_mb"), [("cruise", 2000, 4000), ("cruise", 9000, 5000), ("vpa", 2000, 2000)]
)
def test_a_limit_does_not_fall_below_what_one_node_alone_told(policy: str, alone_mb: int, limit_mb: int) -> None:
    document = new_pod(container("app", {MEMORY: "1G"}, {MEMORY: "5G"}), orders={names.POLICY: policy})
    counted = estimate(memory_mb=300, memory_max_bytes=300 * MB, memory_alone_bytes=alone_mb * MB)
    assert resources(sized(document, counted, None)) == {
        "requests": {MEMORY: f"{300 * MB}"},
        "limits": {MEMORY: "5G" if limit_mb == 5000 else f"{limit_mb * MB}"},
    }


@pytest.mark.parametrize(
    ("policy", "alone_mb", "amount"),
    [("cruise", 400, f"{800 * MB}"), ("cruise", 900, "1G"), ("vpa", 900, f"{900 * MB}")],
)
def test_a_pair_does_not_fall_below_what_one_node_alone_told(policy: str, alone_mb: int, amount: str) -> None:
    pair = container("app", {CPU: "500m", MEMORY: "1G"}, {CPU: "500m", MEMORY: "1G"})
    document = new_pod(pair, orders={names.GUARANTEED: "true", names.POLICY: policy})
    counted = estimate(cpu=500, memory_mb=100, memory_max_bytes=100 * MB, memory_alone_bytes=alone_mb * MB)
    done = resources(sized(document, counted, None))
    assert done["requests"][MEMORY] == done["limits"][MEMORY] == amount


def test_what_one_node_alone_told_raises_nothing_and_adds_no_limit() -> None:
    liar = estimate(cpu=300, memory_mb=200, memory_max_bytes=200 * MB, memory_alone_bytes=10**13)
    honest = estimate(cpu=300, memory_mb=200, memory_max_bytes=200 * MB)
    for limits in (None, {MEMORY: "310M"}):
        document = new_pod(container("app", {CPU: "500m", MEMORY: "300M"}, limits or {}))
        assert resources(sized(document, liar, None)) == resources(sized(document, honest, None))


# The largest memory allowed


@pytest.mark.parametrize(
    ("wish", "written", "most", "limit"),
    [(100, None, 100, 100), (200, None, 100, 200), (201, None, 100, 200), (201, 150, 100, 200), (201, 900, 100, 900)],
)
def test_a_limit_stays_within_the_ratio_of_the_largest_request(
    wish: int, written: int | None, most: int, limit: int
) -> None:
    assert limit_within(wish, written, most, 2.0) == limit


def test_a_memory_limit_minds_the_largest_memory_allowed() -> None:
    orders = {names.MAX_MEMORY: "400M"}
    liar = estimate(cpu=300, memory_mb=10_000_000, memory_max_bytes=10_000_000 * MB)
    document = new_pod(container("app", {CPU: "500m", MEMORY: "300M"}), orders=orders)
    assert resources(sized(document, liar, None)) == {
        "requests": {CPU: "300m", MEMORY: f"{400 * MB}"},
        "limits": {MEMORY: f"{800 * MB}"},
    }
    assert "memory limit: held by the largest memory allowed" in notes(admitted(document, liar))
    written = new_pod(container("app", {CPU: "500m", MEMORY: "300M"}, {MEMORY: "5G"}), orders=orders)
    assert resources(sized(written, liar, None))["limits"] == {MEMORY: "5G"}  # its author allowed that much
    assert resources(sized(written, estimate(memory_mb=200), None))["limits"] == {MEMORY: f"{512 * MB}"}


def test_the_limit_of_a_daemon_whose_request_stays_minds_the_largest_memory_allowed_too() -> None:
    written = container("app", {CPU: "500m", MEMORY: "700M"}, {MEMORY: "700M"})
    document = new_pod(written, kind="DaemonSet", orders={names.MAX_MEMORY: "400M"})
    done = resources(sized(document, estimate(cpu=300, memory_mb=3000, memory_max_bytes=3000 * MB), None))
    assert (done["requests"][MEMORY], done["limits"]) == ("700M", {MEMORY: f"{800 * MB}"})


def test_a_request_that_stays_above_the_largest_memory_allowed_by_little_is_within_its_limit() -> None:
    settings = AdmissionSettings(bounds=BoundsOptions(max_memory_bytes=4 * MB, min_memory_bytes=0))
    for limits in ({}, {MEMORY: "11M"}):
        document = new_pod(container("app", {MEMORY: "10M"}, limits))
        admission = admitted(document, estimate(memory_mb=3), settings=settings)
        assert resources(patched(document, admission)) == {"requests": {MEMORY: "10M"}, "limits": limits}


def test_amounts_beyond_what_a_float_holds_exactly_are_minded_as_well() -> None:
    huge = (1 << 53) * 4 + 1
    admission = admitted(new_pod(container("app", {CPU: "500m", MEMORY: str(huge)}, {MEMORY: str(huge + 1)})))
    assert admission.outcome is AdmissionOutcome.PATCHED
    odd = estimate(cpu=1 << 60, memory_mb=None, memory_max_bytes=(1 << 60) + 1, oom_memory_bytes=1 << 61)
    done = resources(sized(new_pod(APP), odd))
    assert done["requests"] == {CPU: "500m", MEMORY: "300M"}
    assert LeftReason.NODE in {
        note.left for unit in admitted(new_pod(APP), odd, facts=on(NODE)).containers for note in unit.notes
    }
