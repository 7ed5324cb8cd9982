from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import Partition, Pod, QosClass
from agent.core.cluster.qos import pod_qos_class
from agent.core.machine.audit import ASKED_FOR, INCOMPLETE, audit, audit_findings
from agent.core.machine.audit_report import CGROUP, PARENT, QOS_CLASS, AuditReport, Finding, NextWriter, formulas
from agent.core.machine.audit_targets import (
    AFTER_POD_RESIZE,
    NO_ALLOCATABLE,
    NO_FACTOR_HINT,
    NO_POLICY_HINT,
    NO_QOS_RESERVED,
    AuditRules,
    container_targets,
    pod_targets,
)
from agent.core.machine.cgroup_files import (
    Amount,
    CgroupLevel,
    FileReading,
    LiveCgroup,
    LiveTree,
    Unlimited,
    UnreadFile,
)
from agent.core.machine.cgroup_values import KubeletRules, ReservationPolicy
from agent.core.machine.comparison import Formula, State, Target, WantedValue, Weights
from agent.core.machine.cpu_knobs import CpuMax
from agent.core.machine.oom_score import OomScore
from agent.core.machine.qos_cgroups import ReservedAmounts
from agent.core.numbers.units import GIB, MIB
from tests.pods import container, make_pod, mirror_metadata, sidecar

MAX = Unlimited.MAX
NO_LIMIT = CpuMax(quota_usec=None, period_usec=100_000)
APP, DEBUG = "a" * 64, "d" * 64
DEFAULTS: Mapping[str, Amount] = {
    "cpu.weight": 1,
    "cpu.max": NO_LIMIT,
    "memory.max": MAX,
    "memory.min": 0,
    "memory.low": 0,
    "memory.high": MAX,
    "memory.oom.group": 1,
    "pids.max": MAX,
}
"""What stands in the cgroups of a node without requests and limits."""

Values = Mapping[str, Amount]


def quota(quota_usec: int) -> CpuMax:
    return CpuMax(quota_usec=quota_usec, period_usec=100_000)


def live(level: CgroupLevel, values: Values | None = None, **place: Any) -> LiveCgroup:
    readings = {file: FileReading(amount=amount) for file, amount in {**DEFAULTS, **(values or {})}.items()}
    place.setdefault("path", "/".join(str(part) for part in ("", level, *place.values())))
    return LiveCgroup(level=level, readings=readings, **{"partition": Partition.DEFAULT, **place})


def pod_cgroup(pod: Pod, values: Values | None = None, **place: Any) -> LiveCgroup:
    return live(CgroupLevel.POD, values, **{"qos": pod_qos_class(pod), "pod_uid": pod.cgroup_uid, **place})


def container_cgroup(pod: Pod, container_id: str = APP, values: Values | None = None, **place: Any) -> LiveCgroup:
    uid = pod.cgroup_uid
    return live(CgroupLevel.CONTAINER, values, **{"pod_uid": uid, "container_id": container_id, **place})


def levels(
    root: Values | None = None, burstable: Values | None = None, best_effort: Values | None = None
) -> tuple[LiveCgroup, ...]:
    return (
        live(CgroupLevel.KUBEPODS, root),
        live(CgroupLevel.TIER, burstable, qos=QosClass.BURSTABLE),
        live(CgroupLevel.TIER, best_effort, qos=QosClass.BEST_EFFORT),
    )


def running(
    qos: QosClass | None = None, *, name: str = "app", container_id: str = APP, **fields: Any
) -> dict[str, Any]:
    """Return the status of a pod whose only container runs."""
    status = {"name": name, "containerID": f"containerd://{container_id}", "state": {"running": {}}}
    return {"phase": "Running", "qosClass": qos, "containerStatuses": [status], **fields}


def run(pods: list[Pod], *cgroups: LiveCgroup, rules: AuditRules | None = None, above: bool = True) -> AuditReport:
    return audit(pods, LiveTree(cgroups=((*levels(), *cgroups) if above else cgroups)), rules or AuditRules())


def of(report: AuditReport, file: str, level: CgroupLevel, **subject: Any) -> Finding:
    """Return the one finding for a value."""
    findings = [
        finding
        for finding in report.findings
        if (finding.file, finding.subject.level) == (file, level)
        and all(getattr(finding.subject, key) == value for key, value in subject.items())
    ]
    assert len(findings) == 1, findings
    return findings[0]


def not_equal(report: AuditReport) -> dict[tuple[CgroupLevel, str], State]:
    return {
        (finding.subject.level, finding.file): finding.state
        for finding in report.findings
        if finding.state is not State.EQUAL
    }


CAPACITY = AuditRules(capacity_millicores=8000, capacity_memory_bytes=32 * GIB)


# Pods and containers


def test_best_effort_pod_with_default_values_is_equal() -> None:
    pod = make_pod(container("app"), status=running(QosClass.BEST_EFFORT))

    report = run([pod], pod_cgroup(pod), container_cgroup(pod))

    # Only what the audit was not told of the node is open.
    assert not_equal(report) == {
        (CgroupLevel.KUBEPODS, "cpu.weight"): State.UNKNOWN,
        (CgroupLevel.KUBEPODS, "memory.max"): State.UNKNOWN,
    }
    assert report.is_clean


def test_burstable_pod_is_compared_value_by_value() -> None:
    pod = make_pod(
        container("app", {"cpu": "100m", "memory": "100Mi"}, {"cpu": "200m", "memory": "200Mi"}),
        status=running(QosClass.BURSTABLE),
    )
    # 100m are 102 shares: 1 + 100 * 9999 // 262142 = 4 linear, 17 quadratic
    values: Values = {"cpu.weight": 4, "cpu.max": quota(20_000), "memory.max": 200 * MIB}

    report = run([pod], pod_cgroup(pod, values), container_cgroup(pod, values={**values, "cpu.weight": 17}))

    assert of(report, "cpu.weight", CgroupLevel.POD).formula is Formula.LINEAR
    assert of(report, "cpu.weight", CgroupLevel.CONTAINER).formula is Formula.QUADRATIC
    assert of(report, "cpu.max", CgroupLevel.CONTAINER).expected == quota(20_000)
    assert of(report, "memory.max", CgroupLevel.POD).state is State.EQUAL
    assert formulas(report) == {Formula.QUADRATIC: 1}
    # the tier has 102 shares too, and its cgroup still says 1
    assert of(report, "cpu.weight", CgroupLevel.TIER, qos=QosClass.BURSTABLE).state is State.DRIFTED


@pytest.mark.parametrize(
    ("level", "file", "amount", "writer"),
    [
        (CgroupLevel.CONTAINER, "cpu.max", NO_LIMIT, NextWriter.RUNTIME),
        (CgroupLevel.CONTAINER, "memory.oom.group", 0, NextWriter.RUNTIME),
        (CgroupLevel.POD, "memory.max", MAX, NextWriter.KUBELET_RESIZE),
        (CgroupLevel.POD, "memory.min", 4096, NextWriter.NOBODY),
        (CgroupLevel.TIER, "cpu.weight", 77, NextWriter.KUBELET_MINUTE),
        (CgroupLevel.KUBEPODS, "cpu.weight", 77, NextWriter.KUBELET_START),
        (CgroupLevel.KUBEPODS, "memory.max", MAX, NextWriter.KUBELET_START),
    ],
)
def test_drift_names_who_writes_there_next(level: CgroupLevel, file: str, amount: Amount, writer: NextWriter) -> None:
    pod = make_pod(
        container("app", {"cpu": "100m"}, {"cpu": "200m", "memory": "200Mi"}), status=running(QosClass.BURSTABLE)
    )
    values: Values = {"cpu.weight": 4, "cpu.max": quota(20_000), "memory.max": 200 * MIB}
    # 8000m are 8192 shares: 1 + 8190 * 9999 // 262142 = 313
    right: dict[CgroupLevel, Values] = {
        CgroupLevel.KUBEPODS: {"cpu.weight": 313, "memory.max": 32 * GIB},
        CgroupLevel.TIER: {"cpu.weight": 4},
        CgroupLevel.POD: values,
        CgroupLevel.CONTAINER: values,
    }
    wrong = {**right, level: {**right[level], file: amount}}
    tree = (
        *levels(wrong[CgroupLevel.KUBEPODS], wrong[CgroupLevel.TIER]),
        pod_cgroup(pod, wrong[CgroupLevel.POD]),
        container_cgroup(pod, values=wrong[CgroupLevel.CONTAINER]),
    )

    report = run([pod], *tree, rules=CAPACITY, above=False)

    assert not_equal(report) == {(level, file): State.DRIFTED}
    drifted = next(finding for finding in report.findings if finding.state is State.DRIFTED)
    assert (drifted.found, drifted.writer) == (amount, writer)
    assert not report.is_clean


def test_container_without_own_limit_has_the_pods() -> None:
    pod = make_pod(
        container("app"),
        resources={"requests": {"cpu": "100m"}, "limits": {"cpu": "200m", "memory": "200Mi"}},
        status=running(QosClass.BURSTABLE),
    )
    values: Values = {"cpu.weight": 4, "cpu.max": quota(20_000), "memory.max": 200 * MIB}
    # Shares by the limit that stands in for a request: 200m, 204 shares, 1 + 202 * 9999 // 262142 = 8.
    own = {**values, "cpu.weight": 8}

    report = run([pod], pod_cgroup(pod, values), container_cgroup(pod, values=own))
    resized = run([pod], pod_cgroup(pod, values), container_cgroup(pod, values={**own, "cpu.weight": 1}))

    assert of(report, "memory.max", CgroupLevel.CONTAINER).state is State.EQUAL
    assert of(report, "cpu.weight", CgroupLevel.CONTAINER).state is State.EQUAL
    after = of(resized, "cpu.weight", CgroupLevel.CONTAINER)
    assert (after.state, after.note) == (State.EQUAL, AFTER_POD_RESIZE)


@pytest.mark.parametrize(("amount", "state"), [(0, State.EQUAL), (1, State.DRIFTED)])
def test_single_process_oom_kill_wants_no_oom_group(amount: int, state: State) -> None:
    pod = make_pod(container("app"), status=running(QosClass.BEST_EFFORT))
    rules = AuditRules(kubelet=KubeletRules(single_process_oom_kill=True))

    report = run([pod], pod_cgroup(pod), container_cgroup(pod, values={"memory.oom.group": amount}), rules=rules)

    assert of(report, "memory.oom.group", CgroupLevel.CONTAINER).state is state


def test_quota_enforcement_off_wants_no_quota() -> None:
    pod = make_pod(container("app", {"cpu": "1"}, {"cpu": "1"}), status=running(QosClass.BURSTABLE))
    rules = AuditRules(kubelet=KubeletRules(enforce_cpu_limits=False))

    report = run([pod], pod_cgroup(pod), container_cgroup(pod), rules=rules)

    assert of(report, "cpu.max", CgroupLevel.POD).state is State.EQUAL
    assert of(report, "cpu.max", CgroupLevel.CONTAINER).state is State.EQUAL


@pytest.mark.parametrize("limit", [None, 1000])
def test_pids_limit_is_unknown_until_it_is_told(limit: int | None) -> None:
    pod = make_pod(container("app"), status=running(QosClass.BEST_EFFORT))

    report = run([pod], pod_cgroup(pod, {"pids.max": 1000}), rules=AuditRules(pod_pids_limit=limit))

    assert of(report, "pids.max", CgroupLevel.POD).state is (State.UNKNOWN if limit is None else State.EQUAL)


def test_huge_pages_requested_and_not_requested() -> None:
    amounts = {"hugepages-2Mi": "4Mi"}
    pod = make_pod(container("app", amounts, amounts), status=running(QosClass.BEST_EFFORT))
    values: Values = {"hugetlb.2MB.max": 4 * MIB, "hugetlb.1GB.max": GIB}

    report = run([pod], pod_cgroup(pod, values))
    without = run([pod], pod_cgroup(pod))

    assert of(report, "hugetlb.2MB.max", CgroupLevel.POD).state is State.EQUAL
    assert of(report, "hugetlb.1GB.max", CgroupLevel.POD).state is State.DRIFTED  # not requested: 0
    assert of(without, "hugetlb.2MB.max", CgroupLevel.POD).state is State.NOT_THERE


# MemoryQoS


def test_tiered_reservation_from_container_to_root() -> None:
    guaranteed = make_pod(
        container("app", {"cpu": "1", "memory": "128Mi"}, {"cpu": "1", "memory": "128Mi"}),
        metadata={"uid": "g", "name": "g"},
        status=running(QosClass.GUARANTEED),
    )
    burstable = make_pod(
        container("app", {"memory": "256Mi"}),
        metadata={"uid": "b", "name": "b"},
        status=running(QosClass.BURSTABLE, container_id="b" * 64),
    )
    rules = replace(CAPACITY, kubelet=KubeletRules(reservation=ReservationPolicy.TIERED))
    full: Values = {"cpu.weight": 39, "cpu.max": quota(100_000), "memory.max": 128 * MIB, "memory.min": 128 * MIB}
    low: Values = {"memory.low": 256 * MIB}

    report = run(
        [guaranteed, burstable],
        # min = 128Mi + 256Mi, low = 256Mi
        *levels({"cpu.weight": 313, "memory.max": 32 * GIB, "memory.min": 384 * MIB, **low}, low),
        pod_cgroup(guaranteed, full),
        container_cgroup(guaranteed, values=full),
        pod_cgroup(burstable, low),
        container_cgroup(burstable, "b" * 64, low),
        rules=rules,
        above=False,
    )

    assert not_equal(report) == {}
    assert of(report, "memory.min", CgroupLevel.KUBEPODS).expected == 384 * MIB


def test_reservation_that_nobody_told_of_is_a_drift_with_a_hint() -> None:
    pod = make_pod(container("app", {"memory": "1Mi"}), status=running(QosClass.BURSTABLE))

    report = run([pod], pod_cgroup(pod, {"memory.low": MIB}))

    assert of(report, "memory.low", CgroupLevel.POD).note == NO_POLICY_HINT


def test_memory_high_follows_the_throttling_factor() -> None:
    pod = make_pod(
        container("app", {"memory": "128Mi"}, {"memory": "256Mi"}),
        container("bare"),
        status=running(QosClass.BURSTABLE),
    )
    # 128Mi + 0.9 * 128Mi = 243.2Mi, in whole pages 62259 * 4096
    values: Values = {"memory.max": 256 * MIB, "memory.high": 255_012_864}

    report = run([pod], pod_cgroup(pod), container_cgroup(pod, values=values), rules=AuditRules(throttling_factor=0.9))
    untold = run([pod], pod_cgroup(pod), container_cgroup(pod, values=values))

    assert of(report, "memory.high", CgroupLevel.CONTAINER).state is State.EQUAL
    assert of(untold, "memory.high", CgroupLevel.CONTAINER).note == NO_FACTOR_HINT


def test_memory_high_without_limit_needs_the_nodes_allocatable() -> None:
    pod = make_pod(container("app", {"memory": "0"}), status=running(QosClass.BEST_EFFORT))
    # 0.5 * 1Gi
    cgroups = (pod_cgroup(pod), container_cgroup(pod, values={"memory.high": 512 * MIB}))

    report = run([pod], *cgroups, rules=AuditRules(throttling_factor=0.5, allocatable_memory_bytes=GIB))
    untold = run([pod], *cgroups, rules=AuditRules(throttling_factor=0.5))

    assert of(report, "memory.high", CgroupLevel.CONTAINER).state is State.EQUAL
    assert of(untold, "memory.high", CgroupLevel.CONTAINER).note == NO_ALLOCATABLE


def test_memory_high_of_a_pod_needs_a_pod_level_memory_limit() -> None:
    pod = make_pod(
        container("app"),
        resources={"requests": {"memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        status=running(QosClass.BURSTABLE),
    )
    values: Values = {"memory.max": 256 * MIB, "memory.high": 255_012_864}

    report = run(
        [pod],
        pod_cgroup(pod, values),
        container_cgroup(pod, values={"memory.max": 256 * MIB}),
        rules=AuditRules(throttling_factor=0.9),
    )

    assert of(report, "memory.high", CgroupLevel.POD).state is State.EQUAL
    assert of(report, "memory.high", CgroupLevel.CONTAINER).state is State.EQUAL  # none: the pod's cgroup throttles


# Classes and places


def test_recorded_class_that_the_spec_does_not_give_is_a_drift() -> None:
    pod = make_pod(container("app", {"cpu": "100m"}), status=running(QosClass.BEST_EFFORT))

    finding = of(run([pod], pod_cgroup(pod)), QOS_CLASS, CgroupLevel.POD)

    assert (finding.state, finding.expected, finding.found) == (State.DRIFTED, QosClass.BURSTABLE, QosClass.BEST_EFFORT)


def test_class_that_nobody_recorded_is_unknown() -> None:
    pod = make_pod(container("app"))

    assert of(run([pod], pod_cgroup(pod)), QOS_CLASS, CgroupLevel.POD).state is State.UNKNOWN


@pytest.mark.parametrize(
    ("place", "state", "found"),
    [
        ({"qos": QosClass.BURSTABLE}, State.EQUAL, "kubepods/burstable"),
        ({"qos": QosClass.GUARANTEED}, State.DRIFTED, "kubepods"),
        ({"qos": QosClass.BURSTABLE, "partition": Partition.SYSTEM}, State.DRIFTED, "kubepods/system/burstable"),
        ({"qos": None}, State.UNKNOWN, None),
    ],
)
def test_parent_of_a_pod(place: dict[str, Any], state: State, found: str | None) -> None:
    pod = make_pod(container("app", {"cpu": "100m"}), status=running(QosClass.BURSTABLE))
    rules = AuditRules(system_namespaces={"kube-system"})

    finding = of(run([pod], pod_cgroup(pod, **place), rules=rules), PARENT, CgroupLevel.POD)

    assert (finding.state, finding.expected, finding.found) == (state, "kubepods/burstable", found)


def test_second_cgroup_of_a_pod_is_left_over() -> None:
    pod = make_pod(container("app"), status=running(QosClass.BEST_EFFORT))
    old = pod_cgroup(pod, path="/old", qos=QosClass.BURSTABLE)

    report = run([pod], old, pod_cgroup(pod, path="/new"))

    assert of(report, CGROUP, CgroupLevel.POD).found == "/old"
    assert of(report, PARENT, CgroupLevel.POD).subject.path == "/new"


def test_static_pod_is_found_by_its_configurations_hash() -> None:
    digest = "0123456789abcdef" * 2
    pod = make_pod(
        container("app"), metadata=mirror_metadata("n", digest), status=running(QosClass.BEST_EFFORT), nodeName="n"
    )

    report = run([pod], pod_cgroup(pod), container_cgroup(pod))

    assert report.is_clean
    assert report.strangers == ()
    assert of(report, PARENT, CgroupLevel.POD).subject.pod_uid == digest


def test_a_pod_that_states_a_static_pods_hash_is_not_looked_for_in_its_cgroup() -> None:
    digest = "0123456789abcdef" * 2
    genuine = make_pod(
        container("app"), metadata=mirror_metadata("n", digest), status=running(QosClass.BEST_EFFORT), nodeName="n"
    )
    forged = make_pod(
        container("app"),
        metadata={"name": "evil", "uid": "uid-evil", **mirror_metadata("n", digest)},
        status={"phase": "Pending"},
        nodeName="n",
    )

    report = run([forged, genuine], pod_cgroup(genuine), container_cgroup(genuine))

    assert {finding.subject.pod for finding in report.findings if finding.subject.pod_uid == digest} == {"web"}
    assert {finding.subject.pod for finding in report.findings if finding.subject.pod_uid == "uid-evil"} == {"evil"}


# What should not be there, and what is not there


@pytest.mark.parametrize(
    ("status", "metadata", "state"),
    [
        ({"phase": "Running"}, {}, State.NOT_THERE),
        ({}, {}, State.NOT_THERE),
        ({"phase": "Pending"}, {}, State.EQUAL),
        ({"phase": "Succeeded"}, {}, State.EQUAL),
        ({"phase": "Running"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, State.EQUAL),
    ],
)
def test_pod_without_cgroup(status: dict[str, Any], metadata: dict[str, Any], state: State) -> None:
    pod = make_pod(container("app"), status=status, metadata=metadata)

    finding = of(run([pod]), CGROUP, CgroupLevel.POD)

    assert finding.state is state
    assert finding.note


def test_cgroup_of_a_pod_that_ended_is_left_over() -> None:
    pod = make_pod(container("app"), status={"phase": "Failed", "qosClass": "BestEffort"})

    finding = of(run([pod], pod_cgroup(pod)), CGROUP, CgroupLevel.POD)

    assert (finding.state, finding.expected, finding.writer) == (State.DRIFTED, None, NextWriter.KUBELET_CLEANUP)


@pytest.mark.parametrize(
    ("state", "is_there", "expected"),
    [
        ({"running": {}}, False, State.NOT_THERE),
        ({"terminated": {}}, False, State.EQUAL),
        ({"terminated": {}}, True, State.DRIFTED),
        ({"waiting": {}}, False, State.EQUAL),
    ],
)
def test_presence_of_a_container(state: dict[str, Any], is_there: bool, expected: State) -> None:
    status = {"name": "app", "containerID": f"containerd://{APP}", "state": state}
    pod = make_pod(container("app"), status={"phase": "Running", "containerStatuses": [status]})

    report = run([pod], pod_cgroup(pod), *([container_cgroup(pod)] if is_there else []))

    assert of(report, CGROUP, CgroupLevel.CONTAINER).state is expected
    assert report.sandboxes == ()


def test_missing_container_of_a_pod_that_is_deleted_is_as_should_be() -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    pod = make_pod(container("app"), metadata=deleted, status=running(QosClass.BEST_EFFORT))

    assert of(run([pod], pod_cgroup(pod)), CGROUP, CgroupLevel.CONTAINER).state is State.EQUAL


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], State.UNKNOWN),
        ([{"name": "app", "state": {"running": {}}}], State.UNKNOWN),
        ([{"name": "app", "state": {"waiting": {}}}], State.EQUAL),
        ([{"name": "app"}], State.EQUAL),
    ],
)
def test_container_without_an_id(statuses: list[dict[str, Any]], expected: State) -> None:
    pod = make_pod(container("app"), status={"phase": "Running", "containerStatuses": statuses})

    assert of(run([pod], pod_cgroup(pod)), CGROUP, CgroupLevel.CONTAINER).state is expected


def test_ids_that_no_status_names_are_sandboxes_and_not_compared() -> None:
    pod = make_pod(container("app"), status=running(QosClass.BEST_EFFORT))
    pause = container_cgroup(pod, "f" * 64, {"memory.max": 4096})

    report = run([pod], pod_cgroup(pod), container_cgroup(pod), pause)

    assert report.is_clean
    assert [sandbox.subject.container_id for sandbox in report.sandboxes] == ["f" * 64]


def test_init_sidecar_and_debug_containers_are_compared_too() -> None:
    ids = {name: letter * 64 for name, letter in (("app", "1"), ("mesh", "2"), ("debug", "3"))}
    statuses = {
        name: [{"name": name, "containerID": f"containerd://{container_id}", "state": {"running": {}}}]
        for name, container_id in ids.items()
    }
    pod = make_pod(
        container("app"),
        initContainers=[sidecar("mesh", {"cpu": "1"})],
        ephemeralContainers=[{"name": "debug"}],
        status={
            "phase": "Running",
            "containerStatuses": statuses["app"],
            "initContainerStatuses": statuses["mesh"],
            "ephemeralContainerStatuses": statuses["debug"],
        },
    )

    report = run(
        [pod],
        pod_cgroup(pod, {"cpu.weight": 39}),
        container_cgroup(pod, ids["app"]),
        container_cgroup(pod, ids["mesh"], {"cpu.weight": 100}),
        container_cgroup(pod, ids["debug"]),
    )

    assert {
        finding.subject.container: finding.state
        for finding in report.findings
        if finding.subject.level is CgroupLevel.CONTAINER and finding.file == "cpu.weight"
    } == {"mesh": State.EQUAL, "app": State.EQUAL, "debug": State.EQUAL}


def test_containers_elsewhere_are_compared_though_the_pods_cgroup_is_not_there() -> None:
    # The runtime on cgroupfs beside a kubelet on systemd: containers in /system.slice/containerd.service/...
    pod = make_pod(container("app"), status=running(QosClass.BEST_EFFORT))

    report = run([pod], container_cgroup(pod))

    assert of(report, CGROUP, CgroupLevel.POD).state is State.NOT_THERE
    assert of(report, "cpu.weight", CgroupLevel.CONTAINER).state is State.EQUAL


def test_controller_that_is_off_is_not_there_only_where_something_is_written() -> None:
    pod = make_pod(container("app", None, {"memory": "64Mi"}), status=running(QosClass.BURSTABLE))
    off = {file: FileReading(unread=UnreadFile.NO_CONTROLLER) for file in DEFAULTS if file.startswith("memory")}
    cgroup = container_cgroup(pod)
    cgroup = replace(cgroup, readings={**cgroup.readings, **off})

    report = run([pod], pod_cgroup(pod, {"memory.max": 64 * MIB}), cgroup)

    missing = {f.file: f.note for f in report.findings if f.state is State.NOT_THERE}
    assert missing == {
        "memory.max": UnreadFile.NO_CONTROLLER,
        "memory.oom.group": UnreadFile.NO_CONTROLLER,
    }


# Resizes under way


def resizing(**more: Any) -> Pod:
    """Return a pod that was 100m - 200m and shall be 200m - 400m."""
    status = running(QosClass.BURSTABLE, **more)
    status["containerStatuses"][0] |= {
        "allocatedResources": {"cpu": "100m"},
        "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}},
    }
    return make_pod(container("app", {"cpu": "200m"}, {"cpu": "400m"}), status=status)


OLD: Values = {"cpu.weight": 4, "cpu.max": quota(20_000)}
NEW: Values = {"cpu.weight": 8, "cpu.max": quota(40_000)}


@pytest.mark.parametrize(("values", "note"), [(OLD, None), (NEW, ASKED_FOR)])
def test_resize_under_way_both_sizes_are_right(values: Values, note: str | None) -> None:
    pod = resizing()

    report = run([pod], *levels(burstable={"cpu.weight": values["cpu.weight"]}), pod_cgroup(pod, values),
                 container_cgroup(pod, values=values), rules=CAPACITY, above=False)  # fmt: skip

    for level in (CgroupLevel.POD, CgroupLevel.CONTAINER):
        assert of(report, "cpu.max", level).state is State.EQUAL
        assert of(report, "cpu.max", level).note == note
    assert of(report, "cpu.weight", CgroupLevel.TIER, qos=QosClass.BURSTABLE).note == note


def test_resize_that_is_refused_does_not_count() -> None:
    refused = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    pod = resizing(conditions=refused)

    report = run([pod], pod_cgroup(pod, NEW), container_cgroup(pod, values=OLD))

    assert of(report, "cpu.max", CgroupLevel.POD).state is State.DRIFTED
    assert of(report, "cpu.max", CgroupLevel.CONTAINER).state is State.EQUAL


# Tiers and kubepods


def test_kubepods_is_capacity_less_reserved() -> None:
    reserved = ReservedAmounts(cpu_millicores=500, memory_bytes=GIB)
    rules = replace(CAPACITY, kube_reserved=reserved, system_reserved=reserved)
    # 7 CPUs are 7168 shares: 1 + 7166 * 9999 // 262142 = 274
    tree = levels({"cpu.weight": 274, "memory.max": 30 * GIB})

    assert not_equal(run([], *tree, rules=rules, above=False)) == {}


def test_tree_without_kubepods_is_not_there() -> None:
    report = run([], above=False)

    assert [(f.subject.level, f.state) for f in report.findings] == [(CgroupLevel.KUBEPODS, State.NOT_THERE)]
    assert (report.count(State.NOT_THERE), report.count(State.EQUAL)) == (1, 0)


def test_tier_that_is_missing_is_not_there() -> None:
    report = run([], *levels()[:2], above=False)

    assert of(report, CGROUP, CgroupLevel.TIER).subject.qos is QosClass.BEST_EFFORT


def test_qos_reserved_memory() -> None:
    g = {"cpu": "1", "memory": "5Gi"}
    pods = [
        make_pod(container("app", g, g), metadata={"uid": "g", "name": "g"}, status={"phase": "Pending"}, nodeName="n"),
        make_pod(container("app", {"memory": "3Gi"}), metadata={"uid": "b", "name": "b"}, status={"phase": "Unknown"}),
        # Neither counts: one has ended, one has no node yet.
        make_pod(container("app", g, g), metadata={"uid": "s", "name": "s"}, status={"phase": "Succeeded"}),
        make_pod(container("app", g, g), metadata={"uid": "p", "name": "p"}, status={"phase": "Pending"}),
    ]
    rules = AuditRules(allocatable_memory_bytes=16 * GIB, reserved_memory_percent=50)
    # 16 - 2.5 = 13.5Gi, less 1.5 = 12Gi
    tree = levels(None, {"memory.max": 27 * GIB // 2}, {"memory.max": 12 * GIB})

    report = run(pods, *tree, rules=rules, above=False)
    raised = run(pods, *levels(None, {"memory.max": 14 * GIB}), rules=rules, above=False)
    untold = run(pods, *tree, above=False)

    for qos in (QosClass.BURSTABLE, QosClass.BEST_EFFORT):
        assert of(report, "memory.max", CgroupLevel.TIER, qos=qos).state is State.EQUAL
        assert of(raised, "memory.max", CgroupLevel.TIER, qos=qos).state is State.DRIFTED
        assert of(untold, "memory.max", CgroupLevel.TIER, qos=qos).state is State.UNKNOWN
        assert of(untold, "memory.max", CgroupLevel.TIER, qos=qos).note == NO_QOS_RESERVED


def test_pods_that_the_file_does_not_know_put_the_sums_in_doubt() -> None:
    stranger = live(CgroupLevel.POD, qos=QosClass.BURSTABLE, pod_uid="other")
    harmless = live(CgroupLevel.POD, qos=QosClass.BEST_EFFORT, pod_uid="idle")
    tree = levels(burstable={"cpu.weight": 50})

    doubted = run([], *tree, stranger, above=False)
    sure = run([], *tree, harmless, above=False)

    assert doubted.strangers == (stranger,)
    finding = of(doubted, "cpu.weight", CgroupLevel.TIER, qos=QosClass.BURSTABLE)
    assert (finding.state, finding.note) == (State.UNKNOWN, INCOMPLETE)
    assert of(sure, "cpu.weight", CgroupLevel.TIER, qos=QosClass.BURSTABLE).state is State.DRIFTED


def test_huge_pages_of_tiers_are_without_bound() -> None:
    report = run([], *levels(burstable={"hugetlb.2MB.max": 1 << 62}, best_effort={"hugetlb.2MB.max": 0}), above=False)

    assert of(report, "hugetlb.2MB.max", CgroupLevel.TIER, qos=QosClass.BURSTABLE).state is State.EQUAL
    assert of(report, "hugetlb.2MB.max", CgroupLevel.TIER, qos=QosClass.BEST_EFFORT).state is State.DRIFTED


@pytest.mark.parametrize("named", [{"kube-system"}, frozenset[str]()])
def test_system_partition_has_tiers_of_its_own(named: frozenset[str]) -> None:
    dns = make_pod(
        container("app", {"cpu": "1"}),
        metadata={"uid": "dns", "namespace": "kube-system"},
        status=running(QosClass.BURSTABLE),
    )
    system: dict[str, Any] = {"partition": Partition.SYSTEM}
    tree = (
        *levels(),
        live(CgroupLevel.PARTITION, {"memory.max": GIB}, **system),
        # 1 CPU is 1024 shares: 39; the default partition's tier has no pods: 1
        live(CgroupLevel.TIER, {"cpu.weight": 39}, qos=QosClass.BURSTABLE, **system),
        live(CgroupLevel.TIER, qos=QosClass.BEST_EFFORT, **system),
        pod_cgroup(dns, {"cpu.weight": 39}, **system),
        container_cgroup(dns, values={"cpu.weight": 39}, **system),
    )
    rules = replace(CAPACITY, system_namespaces=named, system_memory_bytes=GIB)

    report = run([dns], *tree, rules=rules, above=False)
    untold = run([dns], *tree, rules=replace(rules, system_memory_bytes=None), above=False)

    assert {key: state for key, state in not_equal(report).items() if key[0] is not CgroupLevel.KUBEPODS} == {}
    assert of(report, PARENT, CgroupLevel.POD).found == "kubepods/system/burstable"
    assert of(untold, "memory.max", CgroupLevel.PARTITION).state is State.UNKNOWN


def test_system_partition_that_is_missing_is_not_there() -> None:
    report = run([], rules=AuditRules(system_namespaces={"kube-system"}))

    missing = [finding.subject.level for finding in report.findings if finding.state is State.NOT_THERE]
    assert missing == [CgroupLevel.PARTITION, CgroupLevel.TIER, CgroupLevel.TIER]


def test_pods_come_by_partition_class_and_name() -> None:
    full = {"cpu": "1", "memory": "1Mi"}
    pods = [
        make_pod(container("app"), metadata={"uid": "1", "name": "z"}),
        make_pod(container("app"), metadata={"uid": "2", "name": "a"}),
        make_pod(container("app", full, full), metadata={"uid": "3", "name": "x"}),
        make_pod(container("app", full, full), metadata={"uid": "4", "name": "s", "namespace": "kube-system"}),
    ]

    report = run(pods, rules=AuditRules(system_namespaces={"kube-system"}))

    assert [f.subject.pod for f in report.findings if f.file == QOS_CLASS] == ["x", "a", "z", "s"]


# Whatever the pod, the values computed for it are equal to themselves

amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "5m", "100m", "250m", "333m", "1", "2500m"]),
        "memory": st.sampled_from(["0", "64Mi", "100M", "1Gi"]),
    },
)
containers = st.builds(container, st.just("app"), amounts, amounts)
rule_sets = st.builds(
    AuditRules,
    kubelet=st.builds(
        KubeletRules,
        enforce_cpu_limits=st.booleans(),
        period_usec=st.sampled_from([100_000, 5_000]),
        reservation=st.sampled_from(ReservationPolicy),
        single_process_oom_kill=st.booleans(),
    ),
    is_systemd=st.booleans(),
    throttling_factor=st.none() | st.sampled_from([0.5, 0.9]),
    allocatable_memory_bytes=st.none() | st.just(16 * GIB),
    reserved_memory_percent=st.none() | st.integers(0, 100),
    pod_pids_limit=st.none() | st.just(100),
)


def as_live(wanted: WantedValue) -> Amount:
    """Return what the kernel would show after the value was written."""
    target: Target | None = wanted.target
    if isinstance(target, Weights):
        return target.quadratic or target.linear
    if isinstance(target, int):
        return target // wanted.granule_bytes * wanted.granule_bytes
    return MAX if target is None else target


@given(app=containers, pod_level=st.none() | amounts, rules=rule_sets)
def test_values_computed_for_a_pod_are_equal_to_themselves(
    app: dict[str, Any], pod_level: dict[str, str] | None, rules: AuditRules
) -> None:
    resources = {} if pod_level is None else {"resources": {"requests": pod_level, "limits": pod_level}}
    pod = make_pod(app, status=running(None), **resources)
    pod_values = {w.file: as_live(w) for w in pod_targets(pod, pod_cgroup(pod), rules)}
    own_values = {w.file: as_live(w) for w in container_targets(pod, pod.containers[0], rules)}

    report = run([pod], pod_cgroup(pod, pod_values), container_cgroup(pod, values=own_values), rules=rules)

    compared = [
        f
        for f in report.findings
        if f.subject.level in (CgroupLevel.POD, CgroupLevel.CONTAINER) and f.file != QOS_CLASS
    ]
    assert len(compared) == 15
    assert {f.state for f in compared if f.expected is not None} == {State.EQUAL}


def test_limits_that_the_agent_set_for_an_annotation_are_no_drift() -> None:
    def drifted(annotations: dict[str, str]) -> set[str]:
        pod = make_pod(
            container("app", {"cpu": "100m", "memory": "64Mi"}),
            metadata={"annotations": annotations},
            status=running(QosClass.BURSTABLE),
        )
        values: Values = {"cpu.weight": 4, "cpu.max": quota(100_000), "memory.max": 384 * MIB}
        drifts = not_equal(run([pod], pod_cgroup(pod, values), container_cgroup(pod)))
        return {file for level, file in drifts if level is CgroupLevel.POD}

    assert drifted({}) == {"cpu.max", "memory.max"}
    assert drifted({"plimsoll.dev/pod-limits": '{"limits": {"cpu": "1", "memory": "384Mi"}}'}) == set()


def test_memory_that_the_agent_protects_is_no_drift_on_any_level() -> None:
    def drifted(annotations: dict[str, str], request: str = "64Mi") -> set[CgroupLevel]:
        pod = make_pod(
            container("app", {"cpu": "100m", "memory": request}),
            metadata={"annotations": annotations},
            status=running(QosClass.BURSTABLE),
        )
        tier, low = "/kubepods/burstable", {"memory.low": 64 * MIB}
        tree = (
            live(CgroupLevel.KUBEPODS, low, path="/kubepods"),
            live(CgroupLevel.TIER, low, path=tier, qos=QosClass.BURSTABLE),
            live(CgroupLevel.TIER, path="/kubepods/besteffort", qos=QosClass.BEST_EFFORT),
            pod_cgroup(pod, low, path=f"{tier}/pod"),
            container_cgroup(pod, values=low, path=f"{tier}/pod/app"),
        )
        report = run([pod], *tree, above=False)
        return {level for level, file in not_equal(report) if file == "memory.low"}

    asks = {"plimsoll.dev/pod-limits": '{"limits": {"cpu": "1"}}'}
    everywhere = {CgroupLevel.KUBEPODS, CgroupLevel.TIER, CgroupLevel.POD, CgroupLevel.CONTAINER}
    assert drifted(asks) == set()
    assert drifted({}) == everywhere
    assert drifted(asks, request="65Mi") == everywhere


def test_a_score_of_before_a_resize_is_told_and_is_no_drift() -> None:
    def told(score: int | None, machine_bytes: int | None = 8 * GIB) -> AuditReport:
        pod = make_pod(container("app", {"memory": "1Gi"}), status=running(QosClass.BURSTABLE))
        values: Values = {} if score is None else {"oom_score_adj": score}
        return run(
            [pod],
            pod_cgroup(pod),
            container_cgroup(pod, values=values),
            rules=AuditRules(machine_memory_bytes=machine_bytes),
        )

    report = told(500)
    (stale,) = report.oom_scores
    assert (stale.score, stale.subject.container) == (OomScore(found=500, after_restart=875), "app")
    assert report.count(State.DRIFTED) == told(875).count(State.DRIFTED)
    assert told(875).oom_scores == told(None).oom_scores == told(500, None).oom_scores == ()


def test_a_score_goes_by_what_is_allocated_and_debug_containers_have_none() -> None:
    rules = AuditRules(machine_memory_bytes=8 * GIB)
    status = {"name": "app", "containerID": f"containerd://{APP}", "allocatedResources": {"memory": "1Gi"}}
    debug = {"name": "debug", "containerID": f"containerd://{DEBUG}", "state": {"running": {}}}
    pod = make_pod(
        container("app", {"memory": "4Gi"}),
        ephemeralContainers=[{"name": "debug"}],
        status={
            "phase": "Running",
            "qosClass": "Burstable",
            "containerStatuses": [{**status, "state": {"running": {}}}],
            "ephemeralContainerStatuses": [debug],
        },
    )
    beside = container_cgroup(pod, container_id=DEBUG, values={"oom_score_adj": 3})
    report = run([pod], pod_cgroup(pod), container_cgroup(pod, values={"oom_score_adj": 875}), beside, rules=rules)
    assert report.oom_scores == ()


def test_an_audit_in_parts_is_the_same_audit_the_levels_first_and_then_pod_by_pod() -> None:
    pods = [make_pod(container("app"), metadata={"name": name, "uid": name}, status=running()) for name in ("a", "b")]
    tree = LiveTree(cgroups=(*levels(), *(pod_cgroup(pod) for pod in pods)))
    parts = list(audit_findings(pods, tree, AuditRules()))
    assert [{finding.subject.pod_uid for finding in part} for part in parts] == [{None}, {"a"}, {"b"}]
    assert tuple(finding for part in parts for finding in part) == audit(pods, tree, AuditRules()).findings
