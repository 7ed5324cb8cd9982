"""The webhook's own code over simulated time: decode, log, follow, fold, with the clock as an argument; no HTTP.

What TLS, HTTP, TokenReviews and pod look-ups cost beside is measured by ``bench.webhook`` on the real process.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final

from agent.core.history.reports.rollup import ROLLUP_SECONDS
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.settings import Settings
from agent.webhook.reports.decoder import decode_report
from agent.webhook.store.entries.report_payload import encode_report
from agent.webhook.store.shapes import NewReport
from agent.webhook.workloads.folder import Folder, FoldOptions
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.shapes import IndexOptions
from agent.webhook.workloads.tailer import Tailer
from tests.bench.fortnight_reports import CONTAINERS, NodeReports, Rows
from tests.webhook.open_store import open_store

FOLLOWED_REPORTS: Final = 20
"""Between two looks at the log: a second's worth of 5,000 nodes, rounded up."""
INTERVALS_PER_HOUR: Final = int(HOUR_SECONDS / ROLLUP_SECONDS)


class Run:
    """Nodes that report to one store, and a replica that leads."""

    def __init__(
        self, url: str, rows: Rows, *, nodes: int, began_unix_seconds: float, containers: int = CONTAINERS
    ) -> None:
        self._now = began_unix_seconds
        self._nodes = [NodeReports(number, rows, containers=containers) for number in range(nodes)]
        Random(nodes).shuffle(self._nodes)  # else all pods of a workload would report together, and merge at once
        self.store = open_store(url)
        self.index = WorkloadIndex(IndexOptions(), Settings())
        self._tailer = Tailer(self.store, self.index)
        self._folder = Folder(self.store, FoldOptions())
        self.cpu_seconds: dict[str, float] = defaultdict(float)
        """By stage; of this thread, so that SQLite's is in it and a server's is not."""
        self.reports = 0
        self.text_bytes = 0

    @property
    def now_unix_seconds(self) -> float:
        """The simulated moment."""
        return self._now

    def intervals(self, count: int) -> None:
        """Let so many times five minutes pass: each node reports once in each, one after the other."""
        for _ in range(count):
            begun = self._now
            for number, node in enumerate(self._nodes):
                self._now = begun + ROLLUP_SECONDS * (number + 1) / len(self._nodes)
                self._take(node.text())
                if number % FOLLOWED_REPORTS == FOLLOWED_REPORTS - 1:
                    self._follow()
            self._follow()
            with self._stage("fold"):
                self._folder.fold_once(is_leader=True, now_unix_seconds=self._now)

    def fold_rest(self) -> None:
        """Fold what the log still holds back for replicas that follow."""
        self._now += ROLLUP_SECONDS
        with self._stage("fold"):
            self._folder.fold_once(is_leader=True, now_unix_seconds=self._now)

    def _take(self, text: bytes) -> None:
        with self._stage("decode"):
            report = decode_report(text, most_rows=2000).report
            payload = encode_report(report)
        with self._stage("append"):
            appended = self.store.append(
                NewReport(
                    node=report.node,
                    incarnation=report.incarnation,
                    sequence=report.sequence,
                    lost_reports=report.lost_reports,
                    received_unix_seconds=self._now,
                    rows=len(report.rows),
                    payload=payload,
                )
            )
        assert appended.id is not None
        self.reports += 1
        self.text_bytes += len(text)

    def _follow(self) -> None:
        with self._stage("follow"):
            while self._tailer.advance(self._now):
                pass

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        before = time.thread_time()
        yield
        self.cpu_seconds[name] += time.thread_time() - before

    def percent_of_core(self) -> dict[str, float]:
        """Return what each stage took of one core over the simulated time in which these reports came."""
        seconds = self.reports / len(self._nodes) * ROLLUP_SECONDS
        return {stage: 100.0 * spent / seconds for stage, spent in self.cpu_seconds.items()}
