"""The kubelet's cgroups held against what should be in them, every five minutes, a little at a time.

Node; a thread of its own, ``auditing``. The rules are those of ``plimsoll audit`` (``core.machine``). It reads and
tells, and repairs nothing. A full node has some three thousand cgroups of ten files each: they are read in small parts
with pauses between them, and what seems to have drifted is looked at again before it is told.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.machine.audit import audit_findings
from agent.core.machine.audit_report import Finding
from agent.core.machine.audit_targets import AuditRules
from agent.core.machine.cgroup_files import Amount, LiveCgroup, LiveTree
from agent.core.machine.comparison import Target, Weights
from agent.core.machine.drift import Key, changed_files, drift_counts, key_of, sure_drifts, values_of
from agent.core.machine.pod_limits import amount_line
from agent.metrics.agent_series import Metrics
from agent.sensing.cgroup_path import Driver
from agent.sensing.kubelet_tree import KubeletCgroups, LiveTreeError
from agent.turns import Turns

log = logging.getLogger(__name__)

AUDIT_SECONDS: Final = 300.0
"""From one audit to the next."""
FIRST_SECONDS: Final = 60.0
"""After the start: by then the pods are known."""
SETTLE_SECONDS: Final = 70.0
"""Until drift is looked at again: the kubelet brings the tiers up to date each minute."""
IDLE_SECONDS: Final = 10.0
"""Between two turns with nothing to do: a loop that does not come round counts as hanging."""
PART_SECONDS: Final = 0.25
CGROUPS_AT_ONCE: Final = 24
PODS_AT_ONCE: Final = 24


@dataclass(slots=True)
class _Look:
    """One audit under way."""

    state: NodeState
    reading: Iterator[LiveCgroup]
    rules: AuditRules
    suspected: frozenset[Key] | None = None
    """What had seemed to have drifted; None = this is the first look."""
    cgroups: list[LiveCgroup] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    judging: Iterator[tuple[Finding, ...]] | None = None
    """None = not all cgroups have been read yet."""


class CgroupAuditor:
    """Audits all cgroups of the node once a period, in small parts, and keeps the differences that last."""

    def __init__(
        self,
        *,
        mount: Path,
        cgroup_root: str,
        state: Callable[[], NodeState],
        written_by_us: Callable[[str, str, Amount], bool],  # Path, file and value: the agent wrote it itself
        metrics: Metrics,
        clock_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mount, self._cgroup_root, self._state = mount, cgroup_root, state
        self._written_by_us, self._metrics = written_by_us, metrics
        self._clock_seconds = clock_seconds
        self._look: _Look | None = None
        self._due_seconds = clock_seconds() + FIRST_SECONDS
        self._suspected: frozenset[Key] | None = None
        """What is to be looked at again; None = the next look is the first one of an audit."""
        self._values: dict[str, dict[str, Amount]] = {}
        self._told: frozenset[Key] = frozenset()
        self._trouble: str | None = None
        self.turns: Final = Turns("auditing", self.turn, failed=self._failed, counts=metrics.loops.begin("auditing"))

    def turn(self) -> float:
        """Do the next part of an audit; return the seconds until the next turn."""
        look = self._look
        if look is None:
            return self._begin_if_due()
        if look.judging is None:
            part = list(islice(look.reading, CGROUPS_AT_ONCE))
            look.cgroups += part
            if not part:
                look.judging = audit_findings(look.state.pods, LiveTree(cgroups=tuple(look.cgroups)), look.rules)
            return PART_SECONDS
        judged = list(islice(look.judging, PODS_AT_ONCE))
        look.findings += (finding for findings in judged for finding in findings)
        if not judged:
            self._look = None
            self._end(look)
        return PART_SECONDS

    def _begin_if_due(self) -> float:
        now = self._clock_seconds()
        if now < self._due_seconds:
            return min(IDLE_SECONDS, self._due_seconds - now)
        self._due_seconds = now + AUDIT_SECONDS
        suspected, self._suspected = self._suspected, None
        self._look = self._begun(suspected)
        return PART_SECONDS

    def _begun(self, suspected: frozenset[Key] | None) -> _Look | None:
        """Begin to look; None = not now: not everything about the pods is known, or the tree is not one node's."""
        state = self._state()
        if not state.is_complete or state.node is None or state.unreadable_pods:
            return None
        try:
            cgroups = KubeletCgroups.find(self._mount, cgroup_root=self._cgroup_root)
        except LiveTreeError as error:
            if str(error) != self._trouble:
                log.warning("the kubelet's cgroups cannot be audited", extra={"cause": str(error)})
            self._trouble = str(error)
            return None
        self._trouble = None
        if cgroups.kubepods_path is None:
            return None
        rules = AuditRules(
            is_systemd=cgroups.driver is Driver.SYSTEMD,
            page_size_bytes=os.sysconf("SC_PAGE_SIZE"),
            allocatable_memory_bytes=state.node.allocatable_memory_bytes,
        )
        return _Look(state=state, reading=cgroups.read(), rules=rules, suspected=suspected)

    def _end(self, look: _Look) -> None:
        """Report what was found; where something seems to have drifted, only once it has been looked at again."""
        drifts = sure_drifts(look.findings)
        if look.suspected is None:
            self._count_changes(look.cgroups)
            if drifts:
                self._suspected = frozenset(key_of(finding) for finding in drifts)
                self._due_seconds = self._clock_seconds() + SETTLE_SECONDS
                return
            self._tell(())
        else:
            self._tell(tuple(finding for finding in drifts if key_of(finding) in look.suspected))

    def _count_changes(self, cgroups: list[LiveCgroup]) -> None:
        values = values_of(cgroups)
        for path, file, amount in changed_files(self._values, values):
            self._metrics.count_changed_cgroup(is_ours=self._written_by_us(path, file, amount))
        self._values = values

    def _tell(self, drifts: tuple[Finding, ...]) -> None:
        self._metrics.set_drift(drift_counts(drifts))
        keys = frozenset(key_of(finding) for finding in drifts)
        for finding in drifts:
            if key_of(finding) not in self._told:
                _log(finding)
        self._told = keys

    def _failed(self, error: Exception) -> float:
        self._look = None
        log.error("an audit of the kubelet's cgroups failed", extra={"cause": str(error)}, exc_info=error)
        return IDLE_SECONDS


def _log(finding: Finding) -> None:
    subject = finding.subject
    names = (subject.namespace, subject.pod, subject.container)
    log.warning(
        "a cgroup differs from what the kubelet should have written",
        extra={
            "cgroup": subject.path,
            "pod": "/".join(name for name in names if name is not None) or None,
            "file": finding.file,
            "expected": _text(finding.expected),
            "found": _text(finding.found),
            "next_writer": finding.writer,
        },
    )


def _text(target: Target | str | None) -> str | None:
    if isinstance(target, Weights):
        return f"{target.linear}" if target.quadratic is None else f"{target.linear} or {target.quadratic}"
    if isinstance(target, str) or target is None:
        return target
    return amount_line(target)
