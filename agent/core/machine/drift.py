"""Drift that an agent may tell of by itself: an audit's findings that no option of the kubelet can explain. Core, pure.

A person tells ``plimsoll audit`` how the kubelet is set up. The agent is told nothing of that, so what such an option
may be behind is no drift to it; and what is only being written has to be seen twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from agent.core.machine.audit_report import CGROUP, PARENT, QOS_CLASS, Finding
from agent.core.machine.cgroup_files import (
    CPU_MAX,
    CPU_WEIGHT,
    HUGETLB_PREFIX,
    MEMORY_HIGH,
    MEMORY_LOW,
    MEMORY_MAX,
    MEMORY_MIN,
    MEMORY_OOM_GROUP,
    PIDS_MAX,
    Amount,
    LiveCgroup,
)
from agent.core.machine.comparison import State
from agent.core.machine.cpu_knobs import CpuMax
from agent.core.machine.oom_score import OOM_SCORE_ADJ

HUGETLB: Final = "hugetlb"
DRIFT_KINDS: Final = (
    CPU_WEIGHT,
    CPU_MAX,
    MEMORY_MAX,
    MEMORY_MIN,
    MEMORY_LOW,
    MEMORY_HIGH,
    MEMORY_OOM_GROUP,
    PIDS_MAX,
    HUGETLB,
    QOS_CLASS,
    PARENT,
    CGROUP,
)
"""What may differ: a kernel's file, all page sizes as one, or one of three that are no file. Also a metric label."""
_BY_OPTION: Final = frozenset({MEMORY_MIN, MEMORY_LOW, MEMORY_HIGH, MEMORY_OOM_GROUP})
"""memoryReservationPolicy, memoryThrottlingFactor and singleProcessOOMKill, which the agent is not told."""
_LEAST_LIMITED: Final = 3
"""So many quotas that are all missing tell of a kubelet that writes none (cpuCFSQuota is off), not of somebody."""

Key = tuple[str | None, str | None, str | None, str]
"""What tells one finding from another, in two audits: path, pod's uid, container's id, file."""


def key_of(finding: Finding) -> Key:
    """Return by what a finding is found again in the next audit."""
    subject = finding.subject
    return subject.path, subject.pod_uid, subject.container_id, finding.file


def kind_of(finding: Finding) -> str:
    """Return the one of ``DRIFT_KINDS`` that a finding is about."""
    return HUGETLB if finding.file.startswith(HUGETLB_PREFIX) else finding.file


def sure_drifts(findings: Collection[Finding]) -> tuple[Finding, ...]:
    """Return what has drifted or is missing whatever the kubelet's options are, in the order of the findings."""
    writes_no_quotas = _writes_no_quotas(findings)
    return tuple(
        finding
        for finding in findings
        if finding.state in (State.DRIFTED, State.NOT_THERE)
        and finding.file not in _BY_OPTION
        and not (writes_no_quotas and finding.file == CPU_MAX)
    )


def _writes_no_quotas(findings: Iterable[Finding]) -> bool:
    quotas = [finding for finding in findings if finding.file == CPU_MAX and _limits(finding.expected)]
    return len(quotas) >= _LEAST_LIMITED and not any(_limits(finding.found) for finding in quotas)


def _limits(target: object) -> bool:
    return isinstance(target, CpuMax) and target.quota_usec is not None


def drift_counts(findings: Iterable[Finding]) -> Counter[str]:
    """Count findings by kind."""
    return Counter(kind_of(finding) for finding in findings)


Values = Mapping[str, Mapping[str, Amount]]
"""Path -> file -> what it says, as far as it was read."""


def values_of(cgroups: Iterable[LiveCgroup]) -> dict[str, dict[str, Amount]]:
    """Return what the files of cgroups say."""
    return {
        cgroup.path: {
            file: reading.amount
            for file, reading in cgroup.readings.items()
            if reading.amount is not None and file != OOM_SCORE_ADJ  # of a process, and processes come and go
        }
        for cgroup in cgroups
    }


def changed_files(before: Values, now: Values) -> list[tuple[str, str, Amount]]:
    """Return path, file and new value of what says something else than before; of cgroups that are in both."""
    return [
        (path, file, amount)
        for path, files in now.items()
        if path in before
        for file, amount in files.items()
        if file in before[path] and before[path][file] != amount
    ]
