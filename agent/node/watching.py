"""What watches the node: builds the parts, starts them in order, stops them in the reverse one.

Node. Three threads: ``sampling`` (sweeps), ``control`` (windows, minute rows, gauges) and ``serving`` (HTTP, socket).
None waits for another. This module owns the clock and the stop event; it holds no rule.
"""

from __future__ import annotations

import logging
import os
import resource
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Literal, Self

import numpy as np

from agent.core.model import Gap, UnitKind, UnitStatus
from agent.core.pacing import Skipped
from agent.core.rows import Has, Status
from agent.core.window import WindowPolicy
from agent.metrics.agent_series import Feature, Metrics, Page, PodSource, PressureKind, PressureResource
from agent.metrics.containers import Labels, Totals, to_container_series
from agent.node.observer import MINUTE_NS, Observer
from agent.node.pods import NoPods, PodsFile
from agent.node.sampling import SamplingLoop, SamplingPolicy
from agent.node.units import UnitTable
from agent.sensing.contract import SweepResult
from agent.sensing.discovery import Changes, Discovery, Scope
from agent.sensing.events import OomKill
from agent.sensing.machine import Machine, find_cgroup_mount, node_name
from agent.sensing.rings import RingFile, RingGeometry
from agent.sensing.sampler import open_sampler, raise_open_files_limit
from agent.sensing.statefile import read_boot_id
from agent.settings import SamplerChoice, Settings
from agent.version import installed_version

log = logging.getLogger(__name__)

RING_FILE_NAME: Final = "rings"
FILES_PER_UNIT: Final = 11
MAX_LANES: Final = 512
STOP_SECONDS: Final = 1.0
"""SIGTERM ends cleanly within a second (terminationGracePeriod is ten)."""
LEAST_RAW_SECONDS: Final = 120.0
"""A minute row needs its minute and the rate window before it, however short the windows are set."""
MINUTE_DELAY_NS: Final = 5_000_000_000
"""How long after its end a minute is summed up: the reading after the end, which its last pair needs, is there by then
unless sweeps come more than a gap apart."""
RAW_MARGIN_ROWS: Final = 44
"""Rows beyond the window: early sweeps on contention, and time for a reader before its rows are overwritten."""


_FORCED_SAMPLER: Final[dict[SamplerChoice, Literal["native", "reference"] | None]] = {
    SamplerChoice.AUTO: None,
    SamplerChoice.NATIVE: "native",
    SamplerChoice.REFERENCE: "reference",
}


@dataclass(slots=True)
class Tally:
    """What the sampling thread has seen, for notes and gauges."""

    oom_kills: int = 0
    early_sweeps: int = 0
    loop_failures: int = 0
    newest_failure: str | None = None
    newest_refusal: str | None = None
    """Why the cgroup that was refused last cannot be watched."""


class _Listener:
    """Turns what the sampling thread tells into metrics and log lines; quick, and never raises."""

    def __init__(self, metrics: Metrics, tally: Tally) -> None:
        self._metrics, self._tally = metrics, tally
        self._refusal_kind: str | None = None

    def swept(self, result: SweepResult, *, lateness_seconds: float) -> None:
        self._metrics.observe_sweep(
            duration_seconds=(result.finished_ns - result.started_ns) / 1e9,
            lateness_seconds=lateness_seconds,
            samples=result.sampled,
        )
        if result.failed:
            self._metrics.count_dropped_samples(Gap.READ_FAILED, result.failed)

    def skipped(self, reason: Skipped, count: int) -> None:
        self._metrics.count_skipped_sweeps(reason, count)

    def changed(self, changes: Changes) -> None:
        if changes.scope_changed:
            log.info("kubepods found: watching pods from now on")
        log.debug(
            "cgroups changed",
            extra={"appeared": len(changes.appeared), "vanished": len(changes.vanished), "trigger": changes.trigger},
        )

    def killed(self, kill: OomKill) -> None:
        self._tally.oom_kills += kill.kills
        self._metrics.count_oom_kills(kill.kills)
        log.warning("out-of-memory kill", extra={"cgroup": kill.path, "kills": kill.kills})

    def contention(self, lanes: tuple[str, ...]) -> None:
        self._tally.early_sweeps += 1
        log.info("contention: swept early", extra={"lanes": ", ".join(lanes)})

    def refused(self, path: str, error: Exception) -> None:
        kind = type(error).__name__
        if kind != self._refusal_kind:  # each names its cgroup: hundreds of them are one news, and a note with a number
            log.warning("a cgroup cannot be watched for now", extra={"cgroup": path, "cause": str(error)})
        self._refusal_kind = kind
        self._tally.newest_refusal = str(error)

    def failed(self, error: Exception) -> None:
        self._tally.loop_failures += 1
        text = f"{type(error).__name__}: {error}"
        if text != self._tally.newest_failure:  # once per change of state, not once a turn
            log.error("sampling failed", extra={"cause": text}, exc_info=error)
        self._tally.newest_failure = text


class Watch:
    """The watching part of the agent: sampler, rings, discovery and the threads ``sampling`` and ``control``.

    ``plimsoll agent`` and ``run`` serve it (``node.daemon``); ``plimsoll top`` without an agent uses it alone.
    """

    def __init__(self, settings: Settings, *, source: str) -> None:
        """Build all parts; nothing runs yet.

        Raises:
            MachineError: No cgroup v2 to read.
            DiscoveryError: The cgroup root does not exist.
            RingError: The state file is in use by another agent, or cannot be made.
            PodsFileError: The pods file is not understood.
        """
        self.settings = settings
        self._stop = threading.Event()
        self._stack = ExitStack()
        try:
            self._build(settings, source)
        except BaseException:
            self._stack.close()
            raise
        self._threads: list[threading.Thread] = []

    def _build(self, settings: Settings, source: str) -> None:
        sampling, windows = settings.sampling, settings.windows
        self.mount = find_cgroup_mount(settings.cgroup.mount)
        self._pods: PodsFile | NoPods = PodsFile(settings.pods_file) if settings.pods_file else NoPods()
        _, self._open_files_limit = raise_open_files_limit()
        if settings.state.directory is not None:
            settings.state.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.rings = RingFile.open(
            settings.state.directory / RING_FILE_NAME if settings.state.directory else None,
            _geometry(settings),
            boot_id=read_boot_id(),
        )
        self._stack.callback(self.rings.close)
        if self.rings.set_aside_reason is not None:
            log.warning(
                "state file set aside, beginning anew",
                extra={"reason": self.rings.set_aside_reason, "kept_as": str(self.rings.set_aside)},
            )
        self.discovery = Discovery(
            self.mount,
            cgroup_root=settings.cgroup.root,
            scope=Scope(settings.cgroup.scope),
            max_units=sampling.max_containers,
        )
        self._stack.callback(self.discovery.close)
        self.sampler = open_sampler(
            self.mount,
            self.rings,
            fd_budget=max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - sampling.open_files_reserve),
            max_lanes=MAX_LANES,
            force=_FORCED_SAMPLER[sampling.sampler],
        )
        self._stack.callback(self.sampler.close)
        self.machine = Machine(settings.node_name or node_name())
        self.units = UnitTable()
        self.tally = Tally()
        self._span_seconds: float | None = None
        self._gauges_lock = threading.Lock()
        self.metrics = Metrics(
            version=installed_version(),
            commit=os.environ.get("PLIMSOLL_COMMIT", "unknown"),
            sampler=self.sampler.name,
            max_series=settings.metrics.max_series,
            per_container=settings.metrics.per_container,
        )
        self.loop = SamplingLoop(
            mount=self.mount,
            sampler=self.sampler,
            rings=self.rings,
            discovery=self.discovery,
            units=self.units,
            names=self._pods,
            policy=SamplingPolicy(
                interval_seconds=sampling.interval_seconds,
                slow_interval_seconds=sampling.slow_interval_seconds,
                fast_lane_hz=sampling.fast_lane_hz,
                relist_seconds=sampling.relist_seconds,
                retry_absent_seconds=sampling.retry_absent_seconds,
                sweep_budget_seconds=sampling.sweep_budget_seconds,
            ),
            listener=_Listener(self.metrics, self.tally),
        )
        self._stack.callback(self.loop.close)
        self.observer = Observer(
            rings=self.rings,
            units=self.units,
            machine=self.machine,
            heartbeat=self.loop.heartbeat,
            windows=WindowPolicy(
                capacity_millicores=self.machine.capacity_millicores,
                cpu_window_seconds=windows.cpu_window_seconds,
                memory_window_seconds=windows.memory_window_seconds,
                rate_window_seconds=windows.rate_window_seconds,
                tolerance_ratio=windows.tolerance_ratio,
                max_step_seconds=windows.max_step_seconds,
                memory_max_step_seconds=5 * sampling.slow_interval_seconds,
                percentile=windows.percentile,
                max_gap_ratio=windows.max_gap_ratio,
            ),
            sampler_name=self.sampler.name,
            source=source,
            slow_interval_seconds=sampling.slow_interval_seconds,
            notes=self.notes,
        )

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Find what is there and start the threads ``sampling`` and ``control``."""
        self.loop.start()
        for name, target in (("sampling", self.loop.run), ("control", self._control)):
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        log.info(
            "watching",
            extra={
                "mount": str(self.mount),
                "scope": str(self.discovery.scope_in_force),
                "units": len(self.units),
                "sampler": self.sampler.name,
            },
        )

    def stop(self) -> None:
        """End the threads and give everything back; a second call is fine."""
        self._stop.set()
        self.loop.stop()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.05, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            # Closing under a running thread would hand its descriptors to others; the process is ending anyway.
            log.error(
                "a thread did not end in time", extra={"threads": [t.name for t in self._threads if t.is_alive()]}
            )
            return
        self._threads.clear()
        self.rings.flush()
        self._stack.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- the control thread ----------------------------------------------------------------------------------------

    def _control(self) -> None:
        evaluate_ns = int(self.settings.evaluate_interval_seconds * 1e9)
        evaluate_due_ns = time.monotonic_ns()
        minute_due_ns = _next_minute_ns(time.monotonic_ns())
        while not self._stop.wait(max(0.0, (min(evaluate_due_ns, minute_due_ns) - time.monotonic_ns()) / 1e9)):
            try:
                if time.monotonic_ns() >= evaluate_due_ns:
                    evaluate_due_ns += evaluate_ns * max(1, (time.monotonic_ns() - evaluate_due_ns) // evaluate_ns + 1)
                    self.evaluate()
                if time.monotonic_ns() >= minute_due_ns:
                    minute_due_ns = _next_minute_ns(time.monotonic_ns())
                    self.observer.roll_minutes(now_ns=time.monotonic_ns())
            except Exception:  # top of a thread's loop: say it, go on
                self.tally.loop_failures += 1
                log.exception("an evaluation failed")

    def evaluate(self) -> None:
        """Take all windows once: the per-container series, slack, and the gauges of the agent itself."""
        now_ns = time.monotonic_ns()
        units = self.units.all()
        statuses = [self.observer.status_of(unit, now_ns=now_ns, end_ns=now_ns) for unit in units]
        self.metrics.set_slack(cpu_millicores=_cpu_slack(statuses), memory_bytes=_memory_slack(statuses))
        self._span_seconds = max((status.cpu.span_seconds for status in statuses), default=None)
        if self.settings.metrics.per_container:
            series = [
                to_container_series(status, waiting_usec_total=None, throttled_usec_total=None) for status in statuses
            ]
            labels = {unit.slot: row.labels for unit, row in zip(units, series, strict=True)}
            self.metrics.publish_containers(series, lambda: self._totals(labels))

    def _totals(self, labels: Mapping[int, Labels]) -> Totals:
        """Read the counters of all units at once, for a scrape."""
        rows = self.rings.newest_rows(list(labels))
        is_good = rows["status"] == Status.OK
        waiting, throttled = (
            [value if known else None for value, known in zip(rows[name].tolist(), known.tolist(), strict=True)]
            for name, known in (
                ("cpu_some_usec", is_good & (rows["has"] & Has.PRESSURE > 0)),
                ("throttled_usec", is_good & (rows["has"] & Has.THROTTLED > 0)),
            )
        )
        return dict(zip(labels.values(), zip(waiting, throttled, strict=True), strict=True))

    def page(self, accept: str, accept_encoding: str) -> Page:
        """Give the page of a scrape; the agent's own gauges are those of this moment."""
        with self._gauges_lock:
            self._set_gauges()
        return self.metrics.page(accept, accept_encoding)

    def _set_gauges(self) -> None:
        stats = self.sampler.stats()
        metrics = self.metrics
        metrics.take_read_errors(stats.errors)
        metrics.set_open_files(held=stats.open_files, limit=self._open_files_limit)
        metrics.take_inotify_overflows(self.discovery.overflows)
        metrics.take_relists(dict(self.discovery.relists))
        identities = [unit.identity for unit in self.units.all()]
        unmatched = sum(1 for one in identities if one.kind is UnitKind.CONTAINER and one.pod is None)
        metrics.set_containers(tracked=len(identities), unmatched=unmatched, excluded=self._excluded())
        metrics.set_rings(touched_bytes=self.rings.touched_bytes, span_seconds=self._span_seconds)
        if isinstance(self._pods, PodsFile):
            metrics.set_pod_source_age(PodSource.FILE, self._pods.age_seconds)
        node = self.machine.status()
        metrics.set_node_pressure(PressureResource.CPU, PressureKind.SOME, node.cpu_waiting_ratio)
        metrics.set_node_pressure(PressureResource.MEMORY, PressureKind.SOME, node.memory_waiting_ratio)
        has = self._signals()
        metrics.set_feature(Feature.MEMORY, enabled=bool(has & Has.MEMORY))
        metrics.set_feature(Feature.PRESSURE, enabled=bool(has & Has.PRESSURE))
        metrics.set_feature(Feature.MEMORY_PEAK, enabled=bool(has & Has.MEMORY_PEAK))
        metrics.set_feature(Feature.INOTIFY, enabled=self.discovery.fileno() is not None)
        metrics.set_feature(Feature.NATIVE_SAMPLER, enabled=self.sampler.name == "native")

    def _excluded(self) -> int:
        """Count the cgroups that are there and not watched: over the limit, or no room for them."""
        return self.discovery.dropped + self.loop.refused

    def _signals(self) -> Has:
        """Give the signals that any watched cgroup has."""
        slots = [unit.slot for unit in self.units.all()]
        has = 0
        for rows in (self.rings.newest_rows(slots), self.rings.newest_memory_rows(slots)):
            has |= int(np.bitwise_or.reduce(rows["has"][rows["status"] == Status.OK], initial=0))
        return Has(has)

    def notes(self) -> list[str]:
        """Say what is degraded, one sentence each; ``plimsoll doctor`` tells how to mend it."""
        notes = []
        has = self._signals() if self.loop.heartbeat.sweeps else None
        if has is not None and len(self.units):
            if not has & Has.PRESSURE:
                notes.append("no PSI here: waiting is not known")
            if not has & Has.MEMORY:
                notes.append("no memory controller on cgroup v2 here: no memory figures")
            if not has & Has.THROTTLED:
                notes.append("no cpu controller on cgroup v2 here: no throttling figures")
        if self.discovery.scope_in_force is Scope.MACHINE:
            notes.append("nothing runs in a pod here: these are the machine's own services, sessions and containers")
        if self.discovery.no_watches_reason is not None:
            notes.append(f"new containers are seen late: {self.discovery.no_watches_reason}")
        if self.discovery.dropped:
            notes.append(f"{self.discovery.dropped} cgroups over sampling.maxContainers are not watched")
        if self.loop.refused:
            notes.append(f"{self.loop.refused} cgroups cannot be watched for now: {self.tally.newest_refusal}")
        if self.sampler.name != "native":
            notes.append("the plain-Python sampler is in use: more CPU, same figures")
        if self.loop.heartbeat.interval_seconds > self.settings.sampling.interval_seconds:
            notes.append(f"sweeps overrun: one each {self.loop.heartbeat.interval_seconds:g} s for now")
        if self.rings.set_aside_reason is not None:
            notes.append(f"the state file was set aside ({self.rings.set_aside_reason}): {self.rings.set_aside}")
        return notes


def _geometry(settings: Settings) -> RingGeometry:
    """Size the rings for the windows that are configured."""
    sampling, windows = settings.sampling, settings.windows
    defaults = RingGeometry()
    raw_seconds = max(windows.cpu_window_seconds + windows.rate_window_seconds, LEAST_RAW_SECONDS)
    return RingGeometry(
        max_slots=sampling.max_containers,
        raw_length=int(raw_seconds / sampling.interval_seconds) + RAW_MARGIN_ROWS,
        memory_length=int(windows.memory_window_seconds / sampling.slow_interval_seconds)
        + (defaults.memory_length - 180),
        minute_length=defaults.minute_length,
    )


def _next_minute_ns(now_ns: int) -> int:
    return (now_ns // MINUTE_NS + 1) * MINUTE_NS + MINUTE_DELAY_NS


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
