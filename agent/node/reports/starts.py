"""The starts of pods that are learnt: what their containers used until they were over. Node; no rule is here.

Whose they are stands in the pods themselves. What was over long before an agent looks is not told: the readings of that
time may be gone, or those of another container.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.pod import Pod, has_ended
from agent.core.history.workloads.job_run import RunFigures
from agent.core.history.workloads.start_figures import start_figures
from agent.core.plan.needs.given_boost import READY, end_unix_seconds, given_boost
from agent.core.window.policy import WindowPolicy
from agent.core.window.steps import NS
from agent.node.sampling.row_source import RowSource
from agent.node.sampling.unit_table import UnitTable

SETTLED_SECONDS: Final = 3.0
"""After its end a start is summed up: then the last readings of it are in the rings."""
FRESH_SECONDS: Final = 120.0


def wall_unix_seconds(at_ns: int) -> float:
    """Return the UTC of a moment of CLOCK_MONOTONIC by this machine's clock, as its kubelet writes the times of pods.

    The history's clock is whole minutes off that: up to half a minute, longer than many a start.
    """
    return time.time() + (at_ns - time.monotonic_ns()) / NS


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedStart:
    """The start of one container."""

    pod: Pod
    container: str
    figures: RunFigures
    ended_ns: int
    """CLOCK_MONOTONIC."""


class Starts:
    """CPU of starts that are over. ``ended`` is called by one thread, ``used`` by any."""

    def __init__(
        self,
        *,
        rings: RowSource,
        units: UnitTable,
        pods: Callable[[], Iterable[Pod]],  # All pods of the node as the API has them
        policy: Callable[[], WindowPolicy],  # The windows in force
        unix_seconds: Callable[[int], float] = wall_unix_seconds,
    ) -> None:
        self._rings, self._units = rings, units
        self._pods, self._policy, self._unix_seconds = pods, policy, unix_seconds
        self._told: set[str] = set()
        self._used: Mapping[tuple[str, str], RunFigures] = {}

    def used(self, uid: str, container: str) -> RunFigures | None:
        """Return what a container of a pod here used while it started; None = not known, or not learnt (yet)."""
        return self._used.get((uid, container))

    def ended(self, now_ns: int) -> list[EndedStart]:
        """Return the starts that are over since the last time, each once; a pod that never got ready had none."""
        now, present = self._unix_seconds(now_ns), set[str]()
        starts: list[EndedStart] = []
        for pod in self._pods():
            boost = given_boost(pod)
            if boost is None or not boost.is_learnt:
                continue
            present.add(pod.uid)
            if pod.uid in self._told or has_ended(pod) or pod.condition(READY) is None:
                continue
            over_seconds = now - end_unix_seconds(pod, boost)
            if over_seconds < SETTLED_SECONDS:
                continue
            self._told.add(pod.uid)
            if over_seconds <= FRESH_SECONDS:
                starts += self._of_pod(pod, now_ns, now_ns - int(over_seconds * NS))
        self._told &= present
        if starts or len({uid for uid, _ in self._used}) > len(present):
            known = {key: figures for key, figures in self._used.items() if key[0] in present}
            self._used = known | {(start.pod.uid, start.container): start.figures for start in starts}
        return starts

    def _of_pod(self, pod: Pod, now_ns: int, ended_ns: int) -> Iterable[EndedStart]:
        now = self._unix_seconds(now_ns)
        for unit in self._units.all():
            name = unit.identity.container
            if name is None or unit.identity.pod_uid != pod.cgroup_uid or pod.container(name) is None:
                continue
            status = pod.status_of(name)
            began = None if status is None else status.started_unix_seconds
            if began is None:
                continue
            started_ns = now_ns - int((now - began) * NS)
            rows = self._rings.raw(unit.slot).joined()
            if started_ns >= ended_ns or self._rings.inode(unit.slot) != unit.inode:
                continue  # started anew since, or its slot is another's by now
            figures = start_figures((rows,), self._policy(), started_ns=started_ns, ended_ns=ended_ns)
            if figures is not None:
                yield EndedStart(pod=pod, container=name, figures=figures, ended_ns=ended_ns)
