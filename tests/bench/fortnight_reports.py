"""Reports of simulated nodes as text, made fast: the figures in them are the agent's own, of loads as containers have.

A profile is one container's load (``bench.reporting`` says which there are), cut into five-minute intervals; each
interval went through ``rollup_figures``, as on a node. Each container of a workload has one profile on all its nodes,
and a row shows one of its intervals, another one each time. So rows differ and merge into histograms as wide as real
ones, and a report costs a tenth of a millisecond to make, so that millions can be.
"""

from __future__ import annotations

import gzip
import json
from typing import Final

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import ROLLUP_SECONDS, NodeClass, Report, RollupRow
from agent.core.history.reports.rollup_figures import rollup_figures
from agent.core.history.reports.rollup_json import kept_text
from agent.core.window.policy import WindowPolicy
from tests.bench.reporting import NS, START_NS, rings_of
from tests.bench.webhook import Node, name_of
from tests.cluster.webhook_process import NAMESPACE

PROFILES: Final = 200
INTERVALS: Final = 24
"""Of one profile: two hours."""
CONTAINERS: Final = 60
CPUS: Final = 8
_LEAD_SECONDS: Final = 100
_SHARED: Final = frozenset({"namespace", "kind", "workload", "container", "pod", "podUid"})
"""What of a row is put in for each report."""


class Rows:
    """What rows say, for every profile and interval."""

    def __init__(self, *, profiles: int = PROFILES, intervals: int = INTERVALS) -> None:
        self._intervals = intervals
        self._said: list[list[str]] = [_profile(number, intervals) for number in range(profiles)]

    def said(self, workload: int, container: int, node: int, turn: int) -> str:
        """Return the figures of a row as JSON without its braces."""
        profile = self._said[(workload * CONTAINERS + container) * 7919 % len(self._said)]
        return profile[((node * 2_654_435_761 + turn * 40_503 + container * 97) >> 8) % self._intervals]


def _profile(number: int, intervals: int) -> list[str]:
    length = _LEAD_SECONDS + intervals * int(ROLLUP_SECONDS) + 10
    raw, memory = rings_of(number, length)
    policy = WindowPolicy(capacity_millicores=CPUS * 1000)
    texts: list[str] = []
    for interval in range(intervals):
        start_ns = START_NS + (_LEAD_SECONDS + interval * int(ROLLUP_SECONDS)) * NS
        figures = rollup_figures(
            (raw,), (memory,), policy, start_ns=start_ns, end_ns=start_ns + int(ROLLUP_SECONDS) * NS
        )
        assert figures is not None
        row = RollupRow(
            workload=Workload(namespace="", kind="", name=""),
            container="",
            pod="",
            pod_uid="",
            pod_age_seconds=86_400.0,
            covered_seconds=figures.covered_seconds,
            cpu=figures.cpu,
            cpu_adjusted=figures.cpu_adjusted,
            memory=figures.memory,
            throttled_seconds=figures.throttled_seconds,
            waiting_seconds=figures.waiting_seconds,
        )
        document = json.loads(kept_text(_report("", "", 1, (row,)), agent="bench"))["rows"][0]
        figures_only = {name: value for name, value in document.items() if name not in _SHARED}
        texts.append(json.dumps(figures_only, separators=(",", ":"))[1:-1])
    return texts


def _report(node: str, incarnation: str, sequence: int, rows: tuple[RollupRow, ...]) -> Report:
    return Report(
        node=node,
        node_class=NodeClass(instance_type="m5.2xlarge", cpus=CPUS),
        incarnation=incarnation,
        sequence=sequence,
        lost_reports=0,
        end_age_seconds=0.0,
        interval_seconds=ROLLUP_SECONDS,
        rows=rows,
    )


class NodeReports:
    """The reports of one node, one after the other; names are those of ``bench.webhook``."""

    def __init__(self, number: int, rows: Rows, *, uid: str | None = None, containers: int = CONTAINERS) -> None:
        self.number = number
        self.sequence = 0
        self._rows = rows
        workload, pod = name_of(number)
        self._workload = int(workload.rpartition("-")[2])
        uid = uid or f"9d1c6c1e-0000-4000-8000-{number:012}"
        empty = kept_text(_report(f"n-{number}", f"5a0c6c1e-0000-4000-8000-{number:012}", 0, ()), agent="bench")
        head, _, self._tail = empty.partition('"rows":[')
        self._head, _, self._middle = head.partition('"sequence":0')
        self._row_heads = [
            f'{{"namespace":"{NAMESPACE}","kind":"Deployment","workload":"{workload}","container":"c{container}",'
            f'"pod":"{pod}","podUid":"{uid}",'
            for container in range(containers)
        ]

    def text(self, *, end_age_seconds: float = 5.0) -> bytes:
        """Make the next one, as JSON."""
        self.sequence += 1
        rows = ",".join(
            f"{head}{self._rows.said(self._workload, container, self.number, self.sequence)}}}"
            for container, head in enumerate(self._row_heads)
        )
        now = f'{{"endAgeSeconds":{end_age_seconds:g},"lostReports":0,'
        return (f'{now}{self._head[1:]}"sequence":{self.sequence}{self._middle}"rows":[{rows}{self._tail}').encode()

    def body(self, *, end_age_seconds: float = 5.0) -> bytes:
        """Make the next one, as it is sent."""
        return gzip.compress(self.text(end_age_seconds=end_age_seconds), 6)


class Reporter(Node):
    """A node of ``bench.webhook`` that says what those of this module say."""

    def __init__(self, node: Node, rows: Rows) -> None:
        """Take the place of one that was made."""
        super().__init__(node.number, node.uid, node.token)
        self._reports = NodeReports(node.number, rows, uid=node.uid)

    def body(self, seconds_ago: float) -> bytes:
        """Make its next report."""
        return self._reports.body(end_age_seconds=seconds_ago)
