"""The last runs of Jobs, CronJobs and groups, in memory: what the next one is sized by. Webhook; any thread.

So are the last starts of other workloads, whose pods are boosted by them: a workload has either.

One lock, held for microseconds. Every replica follows the store's table, with what was posted to itself in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from agent.core.admission.estimate import Estimate, NoEstimate
from agent.core.admission.run_estimate import bounded_runs, last_runs, run_estimate
from agent.core.cluster.facts import WrittenContainer
from agent.core.cluster.workload import JOB_KIND, RUN_KINDS, Workload
from agent.core.history.workloads.job_run import JobRun
from agent.core.history.workloads.start_figures import LearntStart, last_starts, learnt_start
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.run_options import RunOptions
from agent.webhook.store.records.job_runs import MOST_ROWS, kept_runs, kept_seconds

Runs = dict[str, JobRun]
"""Of one container, by the run."""


class RunSource(Protocol):
    """Where runs are kept for good."""

    def runs_after(self, post: int, limit: int = ...) -> tuple[list[JobRun], int]:
        """Return the runs that later posts changed, and the last post."""


class RunIndex:
    """The newest runs and starts of each workload, and the estimate of the next run from them."""

    def __init__(self, options: RunOptions) -> None:
        self.options: Final = options
        self._lock = threading.Lock()
        self._runs: dict[Workload, dict[str, Runs]] = {}
        self._post = 0
        """The last that was read."""
        self._count = 0

    def __len__(self) -> int:
        """Return how many runs are known."""
        return self._count

    def follow(self, source: RunSource) -> bool:
        """Read what was posted since the last time; True = there may be more."""
        runs, post = source.runs_after(self._post)
        with self._lock:
            for run in runs:
                self._take(run)
        more, self._post = post != self._post, post
        return more

    def _take(self, run: JobRun) -> None:
        container = self._runs.setdefault(run.workload, {}).setdefault(run.container, {})
        self._count -= len(container)
        container[run.run] = run
        while len(container) > kept_runs(run.workload.kind):
            del container[min(container, key=lambda name: (container[name].ended_unix_seconds, name))]
        self._count += len(container)

    def expire(self, now_unix_seconds: float) -> None:
        """Forget what ended too long ago, and the oldest beyond the most, as the store does: first those of Jobs."""
        with self._lock:
            runs = list(self._all())
        old = [run for run in runs if run.ended_unix_seconds < now_unix_seconds - kept_seconds(run.workload)]
        self._drop_all(old)
        beyond = len(runs) - len(old) - MOST_ROWS
        if beyond > 0:
            gone = set(map(id, old))
            left = [run for run in runs if id(run) not in gone]
            left.sort(key=lambda run: (run.workload.kind != JOB_KIND, run.ended_unix_seconds))
            self._drop_all(left[:beyond])

    def _drop_all(self, runs: Sequence[JobRun]) -> None:
        for run in runs:
            with self._lock:
                if self._runs.get(run.workload, {}).get(run.container, {}).get(run.run) is run:
                    self._drop(run)

    def _all(self) -> Iterator[JobRun]:
        for containers in self._runs.values():
            for runs in containers.values():
                yield from runs.values()

    def _drop(self, run: JobRun) -> None:
        containers = self._runs[run.workload]
        del containers[run.container][run.run]
        self._count -= 1
        if not containers[run.container]:
            del containers[run.container]
        if not containers:
            del self._runs[run.workload]

    def forget(self, workload: Workload) -> None:
        """Forget a workload, which may be unknown; what the store has of it since is read again.

        As ``follow`` it is called by the one thread that follows.
        """
        with self._lock:
            containers = self._runs.pop(workload, {})
            self._count -= sum(len(runs) for runs in containers.values())
        self._post = 0

    def workloads(self) -> tuple[Workload, ...]:
        """Return the workloads of which runs are known, in order."""
        with self._lock:
            return tuple(sorted(self._runs))

    def last_of(self, workload: Workload, *, now_unix_seconds: float) -> dict[str, tuple[JobRun, ...]]:
        """Return the runs that count, newest first, by container."""
        return {
            name: last_runs(runs, self.options, now_unix_seconds=now_unix_seconds)
            for name, runs in self._known(workload).items()
        }

    def starts_of(self, workload: Workload, *, now_unix_seconds: float) -> dict[str, tuple[JobRun, ...]]:
        """Return the starts that count, newest first, by container; of workloads whose pods go on running."""
        return {
            name: last_starts(runs, now_unix_seconds=now_unix_seconds) for name, runs in self._known(workload).items()
        }

    def start(
        self,
        workload: Workload,
        container: str,
        *,
        now_unix_seconds: float,
        written: Callable[[], WrittenContainer | None] = lambda: None,
    ) -> LearntStart | None:
        """Return what the starts of a container say of its next; ``written`` as for ``bounded_runs``.

        None = too few are known, or it has runs.
        """
        if workload.kind in RUN_KINDS:
            return None
        known = last_starts(self._known(workload).get(container, ()), now_unix_seconds=now_unix_seconds)
        return learnt_start(bounded_runs(known, written), now_unix_seconds=now_unix_seconds)

    def _known(self, workload: Workload) -> dict[str, list[JobRun]]:
        with self._lock:
            return {name: list(runs.values()) for name, runs in sorted(self._runs.get(workload, {}).items())}

    def estimate(
        self,
        workload: Workload,
        container: str,
        *,
        policy: PolicyName,
        now_unix_seconds: float,
        written: Callable[[], WrittenContainer | None] = lambda: None,
    ) -> Estimate | NoEstimate:
        """Return what the next run of a container needs; ``written`` as for ``bounded_runs``."""
        with self._lock:
            containers = self._runs.get(workload)
            known: Iterable[JobRun] = () if containers is None else list(containers.get(container, {}).values())
        if containers is None:
            return NoEstimate.UNKNOWN_WORKLOAD
        return run_estimate(known, self.options, policy=policy, now_unix_seconds=now_unix_seconds, written=written)
