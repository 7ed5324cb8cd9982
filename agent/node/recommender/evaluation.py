"""What the node tells of itself: metrics, gauges at the moment of a scrape, notes on what is degraded.

Node. Driven by the control thread, asked by the serving thread; what the sampling thread tells comes by ``hearing``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.plan.demands import Measured
from agent.core.recommender.recommendation import Recommendation, Recommendations, Withheld
from agent.core.window.ring_rows import Has, Status
from agent.core.window.snapshot import Gap, UnitAdvice, UnitStatus
from agent.metrics.agent_series import Feature, Metrics, PodSource, PressureKind, PressureResource
from agent.metrics.container_series import Labels, Totals, to_container_series
from agent.metrics.exposition import MetricsPage
from agent.node.history.learner import Learner, is_sized
from agent.node.recommender.decider import Decider, in_short
from agent.node.sampling.listener import Tally
from agent.node.sampling.loop import SamplingLoop
from agent.node.sampling.observer import Observer
from agent.node.sampling.row_source import Rows
from agent.node.sampling.unit_table import UnitTable
from agent.sensing.discovery import Discovery, UnitScope
from agent.sensing.machine import Machine
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler_contract import Sampler
from agent.settings import Settings

log = logging.getLogger(__name__)

_MACHINE_NOTES: Final = {
    False: "nothing runs in a pod here: these are the machine's own services, sessions and containers",
    True: "no cgroups with processes here: the machine is watched as one",
}
"""By whether the root is all there is to watch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What the newest evaluation gave: the data of a plan."""

    taken_monotonic_seconds: float
    recommendations: Recommendations
    measured: Measured
    waiting_ratios: tuple[float | None, ...]
    """Of every container over the newest seconds, PSI some, throttling taken out; None = not known."""


class Teller:
    """Tells; see the module's docstring."""

    def __init__(
        self,
        *,
        settings: Settings,
        metrics: Metrics,
        rings: RingFile,
        units: UnitTable,
        observer: Observer,
        loop: SamplingLoop,
        discovery: Discovery,
        sampler: Sampler,
        machine: Machine,
        pod_source: PodSource | None,
        pods_age_seconds: Callable[[], float | None],
        tally: Tally,
        open_files_limit: int,
        learner: Learner,
        decider: Decider,
        more_notes: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._more_notes = more_notes
        self._settings, self._metrics, self._rings, self._units = settings, metrics, rings, units
        self._observer, self._loop, self._discovery, self._sampler = observer, loop, discovery, sampler
        self._machine, self._pod_source, self._pods_age_seconds = machine, pod_source, pods_age_seconds
        self._tally = tally
        self._open_files_limit = open_files_limit
        self._learner, self._decider = learner, decider
        self._advice: Mapping[str, UnitAdvice] = {}
        self.evaluated: Evaluated | None = None
        """None = nothing has been evaluated yet."""
        self._gauges_lock = threading.Lock()
        self._was_root_gone = False

    def evaluate(self, is_stopping: Callable[[], bool]) -> None:
        """Take all windows once: recommendations, the per-container series and the slack.

        Args:
            is_stopping: Asked between two containers: a full node takes longer than the end may.
        """
        is_gone = self._discovery.is_root_gone
        if is_gone and not self._was_root_gone:
            log.warning("the cgroup root is gone: nothing is watched until it is back")
        self._was_root_gone = is_gone
        units = [unit for unit in self._units.all() if is_sized(unit.identity)]
        found = self._observer.observe(units, is_stopping)
        if is_stopping():
            return
        statuses = [status for _, status in found]
        self._metrics.set_slack(cpu_millicores=_cpu_slack(statuses), memory_bytes=_memory_slack(statuses))
        decided = self._decider.decide(statuses)
        items = decided.items
        self.evaluated = Evaluated(
            taken_monotonic_seconds=time.monotonic(),
            recommendations=decided,
            measured=to_measured(statuses),
            waiting_ratios=tuple(one.cpu.last_waiting_ratio for one in statuses),
        )
        cpu, memory = advised(items)
        self._metrics.set_advised(
            cpu_requested_millicores=cpu[0],
            cpu_recommended_millicores=cpu[1],
            memory_requested_bytes=memory[0],
            memory_recommended_bytes=memory[1],
        )
        self._advice = {item.identity.cgroup_path: in_short(item, decided.min_span_seconds) for item in items}
        self._metrics.set_withheld(withheld_counts(items))
        if self._settings.metrics.per_container:
            series = [
                to_container_series(status, waiting_usec_total=None, throttled_usec_total=None, recommendation=item)
                for status, item in zip(statuses, items, strict=True)
            ]
            labels = {unit.slot: (unit.inode, row.labels) for (unit, _), row in zip(found, series, strict=True)}
            self._metrics.publish_containers(series, lambda: self._totals(labels))

    def waiting_ratios(self) -> tuple[float | None, ...]:
        """Give how much every container waited for CPU, as of the newest evaluation."""
        return () if self.evaluated is None else self.evaluated.waiting_ratios

    def advice_of(self, path: str) -> UnitAdvice | None:
        """Give what the unit at this path should request, as of the newest evaluation."""
        return self._advice.get(path)

    def roll_minutes(self, now_ns: int, is_stopping: Callable[[], bool]) -> None:
        """Sum up the minute that ended, learn it, and count the readings in it that gave no figure."""
        written: list[tuple[UnitIdentity, Rows]] = []
        try:
            gaps = self._observer.roll_minutes(
                now_ns=now_ns, is_stopping=is_stopping, on_row=lambda unit, row: written.append((unit.identity, row))
            ).gaps
        finally:
            self._learner.learn(written)  # what the rings have is not written again: it is learnt now or never
        for reason, count in gaps.items():
            self._metrics.count_dropped_samples(reason, count)
        if gaps.get(Gap.COUNTER_RESET):
            self._metrics.count_counter_reset("cpu.stat", gaps[Gap.COUNTER_RESET])

    def _totals(self, labels: Mapping[int, tuple[int, Labels]]) -> Totals:
        """Read the counters of all units at once, for a scrape.

        Args:
            labels: Slot -> the inode of the unit whose slot it was when it was evaluated, and its labels. A slot that
                went to another cgroup since has no counter of that unit.
        """
        rows = self._rings.newest_rows(list(labels))
        is_same = [self._rings.inode(slot) == inode for slot, (inode, _) in labels.items()]  # after the reading
        is_good = (rows["status"] == Status.OK) & np.array(is_same, dtype=np.bool_)
        waiting, throttled = (
            [value if known else None for value, known in zip(rows[name].tolist(), known.tolist(), strict=True)]
            for name, known in (
                ("cpu_some_usec", is_good & (rows["has"] & Has.PRESSURE > 0)),
                ("throttled_usec", is_good & (rows["has"] & Has.THROTTLED > 0)),
            )
        )
        names = (its_labels for _, its_labels in labels.values())
        return dict(zip(names, zip(waiting, throttled, strict=True), strict=True))

    def page(self, accept: str, accept_encoding: str) -> MetricsPage:
        """Give the page of a scrape; the agent's own gauges are those of this moment."""
        with self._gauges_lock:
            self._set_gauges()
        return self._metrics.page(accept, accept_encoding)

    def _set_gauges(self) -> None:
        stats = self._sampler.stats()
        metrics = self._metrics
        metrics.take_read_errors(stats.errors)
        metrics.set_open_files(held=stats.open_files, limit=self._open_files_limit)
        metrics.take_inotify_overflows(self._discovery.overflows)
        metrics.take_relists(dict(self._discovery.relists))
        identities = [unit.identity for unit in self._units.all()]
        unmatched = sum(1 for one in identities if one.kind is UnitKind.CONTAINER and one.pod is None)
        metrics.set_containers(tracked=len(identities), unmatched=unmatched, excluded=self._excluded())
        metrics.set_rings(
            touched_bytes=self._rings.touched_bytes,
            span_seconds=self._rings.span_seconds([unit.slot for unit in self._units.all()]),
        )
        if self._pod_source is not None:
            metrics.set_pod_source_age(self._pod_source, self._pods_age_seconds())
        node = self._machine.status()
        metrics.set_node_pressure(PressureResource.CPU, PressureKind.SOME, node.cpu_waiting_ratio)
        metrics.set_node_pressure(PressureResource.MEMORY, PressureKind.SOME, node.memory_waiting_ratio)
        metrics.set_node(
            cpus=node.cpus,
            cpu_usage_millicores=node.cpu_usage_millicores,
            memory_total_bytes=node.memory_total_bytes,
            memory_available_bytes=node.memory_available_bytes,
        )
        has = self._signals()
        metrics.set_feature(Feature.MEMORY, enabled=bool(has & Has.MEMORY))
        metrics.set_feature(Feature.PRESSURE, enabled=bool(has & Has.PRESSURE))
        metrics.set_feature(Feature.MEMORY_PEAK, enabled=bool(has & Has.MEMORY_PEAK))
        metrics.set_feature(Feature.INOTIFY, enabled=self._discovery.fileno() is not None)
        metrics.set_feature(Feature.NATIVE_SAMPLER, enabled=self._sampler.name == "native")

    def _excluded(self) -> int:
        """Count the cgroups that are there and not watched: over the limit, or no room for them."""
        return self._discovery.dropped + self._loop.refused

    def _signals(self) -> Has:
        """Give the signals that any watched cgroup has."""
        slots = [unit.slot for unit in self._units.all()]
        has = 0
        for rows in (self._rings.newest_rows(slots), self._rings.newest_memory_rows(slots)):
            has |= int(np.bitwise_or.reduce(rows["has"][rows["status"] == Status.OK], initial=0))
        return Has(has)

    def notes(self) -> list[str]:
        """Say what is degraded, one sentence each; ``plimsoll doctor`` tells how to mend it."""
        notes = []
        has = self._signals() if self._loop.heartbeat.sweeps else None
        if has is not None and len(self._units):
            if not has & Has.PRESSURE:
                notes.append("no PSI here: waiting is not known")
            if not has & Has.MEMORY:
                notes.append("no memory controller on cgroup v2 here: no memory figures")
            if not has & Has.THROTTLED:
                notes.append("no cpu controller on cgroup v2 here: no throttling figures")
        if self._discovery.is_root_gone:
            notes.append("the cgroup root is gone: nothing is watched until it is back")
        elif self._discovery.scope_in_force is UnitScope.MACHINE:
            notes.append(_MACHINE_NOTES[len(self._units) == 1 and self._units.get("/") is not None])
        if self._discovery.no_watches_reason is not None:
            notes.append(f"new containers are seen late: {self._discovery.no_watches_reason}")
        if self._discovery.dropped:
            notes.append(f"{self._discovery.dropped} cgroups over sampling.maxContainers are not watched")
        if self._loop.refused:
            notes.append(f"{self._loop.refused} cgroups cannot be watched for now: {self._tally.newest_refusal}")
        if self._tally.loop_failures:
            notes.append(f"{self._tally.loop_failures} turns failed and were left out: {self._tally.newest_failure}")
        if self._sampler.name != "native":
            notes.append("the plain-Python sampler is in use: more CPU, same figures")
        if self._loop.heartbeat.interval_seconds > self._settings.sampling.interval_seconds:
            notes.append(f"sweeps overrun: one each {self._loop.heartbeat.interval_seconds:g} s for now")
        history, ahead = self._learner.history, self._learner.clock.ahead_minutes
        if not self._learner.is_restored:
            notes.append("the history is not read, or not yet: recommendations do not know it and lower nothing")
        if ahead:
            direction = "ahead of" if ahead > 0 else "behind"
            notes.append(f"the clock was set: the history's hours of the day are {abs(ahead)} min {direction} it")
        if history.damage is not None:
            notes.append(history.damage)
        if history.trouble is not None:
            notes.append(history.trouble)
        if history.set_aside_reason is not None:
            notes.append(f"the history was set aside ({history.set_aside_reason}): {history.set_aside}")
        if self._rings.set_aside_reason is not None:
            notes.append(f"the state file was set aside ({self._rings.set_aside_reason}): {self._rings.set_aside}")
        notes.extend(self._more_notes())
        return notes


def to_measured(statuses: Iterable[UnitStatus]) -> Measured:
    """Give the newest memory figures by pod uid and container, of containers of which both are known."""
    current: dict[tuple[str, str], int] = {}
    working_sets: dict[tuple[str, str], int] = {}
    for status in statuses:
        identity, memory = status.identity, status.memory
        if identity.pod_uid is None or identity.container is None:
            continue
        if memory.current_bytes is not None:
            current[identity.pod_uid, identity.container] = memory.current_bytes
        if memory.working_set_bytes is not None:
            working_sets[identity.pod_uid, identity.container] = memory.working_set_bytes
    return Measured(memory_current_bytes=current, working_set_bytes=working_sets)


def withheld_counts(items: Iterable[Recommendation]) -> Counter[tuple[str, Withheld]]:
    """Count what is not recommended, by resource and reason."""
    counts: Counter[tuple[str, Withheld]] = Counter()
    for item in items:
        for resource, advice in (("cpu", item.cpu_millicores), ("memory", item.memory_bytes)):
            if advice.withheld is not None:
                counts[resource, advice.withheld] += 1
    return counts


Sums = tuple[int | None, int | None]
"""Requested, recommended."""


def advised(items: Sequence[Recommendation]) -> tuple[Sums, Sums]:
    """Sum up what is requested and what is recommended, over containers of which both are known.

    Returns:
        Of CPU in millicores, and of memory in bytes; both None where no container counts.
    """
    cpu = [(item.resources.cpu_request_millicores, item.cpu_millicores.request) for item in items]
    memory = [(item.resources.memory_request_bytes, item.memory_bytes.request) for item in items]
    return _sums(cpu), _sums(memory)


def _sums(pairs: Iterable[Sums]) -> Sums:
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    if not known:
        return None, None
    return sum(one for one, _ in known), sum(other for _, other in known)


def _cpu_slack(statuses: list[UnitStatus]) -> float | None:
    known = [
        s.resources.cpu_request_millicores - s.cpu.usage_p75_millicores
        for s in statuses
        if s.resources.cpu_request_millicores is not None and s.cpu.usage_p75_millicores is not None
    ]
    return sum(known) if known else None


def _memory_slack(statuses: list[UnitStatus]) -> int | None:
    known = [
        s.resources.memory_request_bytes - s.memory.working_set_bytes
        for s in statuses
        if s.resources.memory_request_bytes is not None and s.memory.working_set_bytes is not None
    ]
    return sum(known) if known else None
