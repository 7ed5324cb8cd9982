"""Which of an audit's findings an agent tells of by itself, and what changed between two of them."""

from __future__ import annotations

from agent.core.machine.audit_report import Finding, FindingSubject
from agent.core.machine.cgroup_files import CgroupLevel, FileReading, LiveCgroup, UnreadFile
from agent.core.machine.comparison import State
from agent.core.machine.cpu_knobs import CpuMax
from agent.core.machine.drift import DRIFT_KINDS, changed_files, drift_counts, key_of, sure_drifts, values_of

LIMITED, UNLIMITED = (CpuMax(quota_usec=quota, period_usec=100_000) for quota in (20_000, None))


def finding(file: str, state: State = State.DRIFTED, path: str = "/kubepods/pod1", **fields: object) -> Finding:
    subject = FindingSubject(level=CgroupLevel.POD, path=path, pod_uid="1")
    return Finding(subject=subject, file=file, state=state, **fields)  # type: ignore[arg-type]


def test_what_differs_or_is_missing_counts_by_kind() -> None:
    findings = [
        finding("memory.max"),
        finding("cpu.weight", State.NOT_THERE),
        finding("hugetlb.2MB.max"),
        finding("hugetlb.1GB.max"),
        finding("pids.max", State.UNKNOWN),
        finding("cpu.max", State.EQUAL),
    ]
    counts = drift_counts(sure_drifts(findings))
    assert counts == {"memory.max": 1, "cpu.weight": 1, "hugetlb": 2}
    assert set(counts) < set(DRIFT_KINDS)


def test_what_an_option_of_the_kubelet_may_explain_is_no_drift() -> None:
    files = ("memory.min", "memory.low", "memory.high", "memory.oom.group")
    assert sure_drifts([finding(file) for file in files]) == ()


def test_quotas_that_are_all_missing_tell_of_a_kubelet_that_writes_none() -> None:
    missing = [finding("cpu.max", path=f"/{pod}", expected=LIMITED, found=UNLIMITED) for pod in "abc"]
    written_quota = finding("cpu.max", State.EQUAL, path="/d", expected=LIMITED, found=LIMITED)
    beside = finding("cpu.max", State.EQUAL, path="/e", expected=UNLIMITED, found=UNLIMITED)

    assert sure_drifts([*missing, beside]) == ()
    assert sure_drifts([*missing, written_quota]) == tuple(missing)
    assert sure_drifts(missing[:2]) == tuple(missing[:2]), "two say too little"


def test_a_finding_is_known_again_by_its_place_and_file() -> None:
    first, again, other = finding("cpu.max", found=LIMITED), finding("cpu.max"), finding("memory.max")
    assert key_of(first) == key_of(again) != key_of(other)


def live(path: str, **amounts: int) -> LiveCgroup:
    readings = {file.replace("_", "."): FileReading(amount=amount) for file, amount in amounts.items()}
    readings["memory.high"] = FileReading(unread=UnreadFile.NO_FILE)
    return LiveCgroup(path=path, level=CgroupLevel.POD, readings=readings)


def test_only_values_of_cgroups_that_stayed_have_changed() -> None:
    before = values_of([live("/a", memory_max=1, cpu_weight=2), live("/gone", memory_max=1)])
    now = values_of([live("/a", memory_max=1, cpu_weight=3, pids_max=4), live("/new", memory_max=9)])
    assert changed_files(before, now) == [("/a", "cpu.weight", 3)]
    assert changed_files({}, now) == []
