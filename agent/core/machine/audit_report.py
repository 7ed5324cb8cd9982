"""What an audit says: one finding per value, and the report of them all. Core, pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from agent.core.cluster.pod import Partition, QosClass
from agent.core.machine.cgroup_files import MEMORY_LOW, MEMORY_MIN, CgroupLevel, LiveCgroup
from agent.core.machine.comparison import ComparisonOutcome, Formula, State, Target, WantedValue
from agent.core.machine.oom_score import OomScore

QOS_CLASS = "qosClass"
"""Not a file: the recorded class against the computed one."""
PARENT = "parent"
"""Not a file: the tier that a pod's cgroup lies in."""
CGROUP = "cgroup"
"""Not a file: whether there is a cgroup at all."""


class NextWriter(StrEnum):
    """Who writes a value next, and so ends a drift."""

    KUBELET_START = "kubelet, at its next start"
    KUBELET_MINUTE = "kubelet, within a minute"
    KUBELET_RESIZE = "kubelet, at the pod's next resize"
    RUNTIME = "runtime, at the container's next resize or restart"
    KUBELET_CLEANUP = "kubelet, when it cleans up"
    NOBODY = "nobody: the kubelet leaves it at the kernel's default"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingSubject:
    """What a finding is about."""

    level: CgroupLevel
    path: str | None = None
    """Of the cgroup; None = it is not there."""
    partition: Partition | None = None
    qos: QosClass | None = None
    pod_uid: str | None = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    container_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One value that should be there against the one that is."""

    subject: FindingSubject
    file: str
    """The kernel's file, or one of QOS_CLASS, PARENT, CGROUP."""
    state: State
    expected: Target | str | None = None
    """None = it cannot be told, or (CGROUP) there should be none."""
    found: Target | str | None = None
    """None = it is not there."""
    formula: Formula | None = None
    """Which formula a cpu.weight that is equal follows."""
    difference: float | None = None
    """Found minus expected: bytes, weight, count; of cpu.max millicores. None = none, or one side has no limit."""
    note: str | None = None
    writer: NextWriter | None = None
    """Who ends the drift; None = there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """A container's cgroup that no status names: the pod's sandbox, or one started since the file was written."""

    subject: FindingSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleOomScore:
    """A container whose processes have another oom_score_adj than its request of now gives; as it must be, no drift."""

    subject: FindingSubject
    score: OomScore


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What the audit found, in tree order: kubepods, tiers, then pod by pod."""

    findings: tuple[Finding, ...]
    sandboxes: tuple[Sandbox, ...]
    strangers: tuple[LiveCgroup, ...]
    """Pods' cgroups whose pod is not among those given."""
    oom_scores: tuple[StaleOomScore, ...] = ()
    """Of containers that were resized since they started."""

    def count(self, state: State) -> int:
        """Count the findings of a state."""
        return sum(finding.state is state for finding in self.findings)

    @property
    def is_clean(self) -> bool:
        """Return whether nothing is drifted or missing."""
        return not any(finding.state in (State.DRIFTED, State.NOT_THERE) for finding in self.findings)


def formulas(report: AuditReport) -> Counter[Formula]:
    """Count which formula the containers' weights follow: it tells of the runtime's version."""
    return Counter(
        finding.formula
        for finding in report.findings
        if finding.formula is not None and finding.subject.level is CgroupLevel.CONTAINER
    )


def value_finding(subject: FindingSubject, wanted: WantedValue, outcome: ComparisonOutcome) -> Finding:
    """Return the finding for a file that was compared."""
    return Finding(
        subject=subject,
        file=wanted.file,
        state=outcome.state,
        expected=outcome.target,
        found=outcome.found,
        formula=outcome.formula,
        difference=outcome.difference,
        note=outcome.note,
        writer=_writer(subject.level, wanted) if outcome.state is State.DRIFTED else None,
    )


def _writer(level: CgroupLevel, wanted: WantedValue) -> NextWriter:
    if level is CgroupLevel.CONTAINER:
        return NextWriter.RUNTIME
    if not wanted.is_written:
        return NextWriter.NOBODY
    if level is CgroupLevel.POD:
        return NextWriter.KUBELET_RESIZE
    is_by_qos_pass = level is CgroupLevel.TIER or wanted.file in (MEMORY_MIN, MEMORY_LOW)
    return NextWriter.KUBELET_MINUTE if is_by_qos_pass else NextWriter.KUBELET_START


def absent_finding(subject: FindingSubject, reason: str) -> Finding:
    """Return the finding for a cgroup that should be there and is not."""
    return Finding(subject=subject, file=CGROUP, state=State.NOT_THERE, expected="a cgroup", note=reason)
