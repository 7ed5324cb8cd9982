"""The agent's own series and the page of /metrics; names and units are decided here and nowhere else.

The sampler's thread counts through methods that touch one kept child each; the page is built by whoever asks for it.
A closed label set stands at 0 from the start; a measured gauge is not there until it has been measured.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.registry import Collector

from agent.core.recommender.recommendation import Withheld
from agent.core.window.ring_rows import CAUSES, FILES
from agent.core.window.snapshot import Gap
from agent.core.window.sweep_pace import Skipped
from agent.metrics.acting_series import ActingSeries
from agent.metrics.container_series import ContainerPage, ContainerSeries, Totals
from agent.metrics.exposition import MetricsPage, wants_openmetrics, write_page
from agent.metrics.fed_series import About, GrowingTotals, MeasuredGauges
from agent.metrics.loop_series import LoopSeries

SWEEP_BUCKETS_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
COUNTER_FILES: Final = ("cpu.stat", "cpu.pressure", "memory.pressure", "io.pressure", "memory.events")
"""The files whose numbers may only grow."""
RELIST_TRIGGERS: Final = ("start", "periodic", "overflow", "no_watches")


class Feature(StrEnum):
    """What may be on or off on a node."""

    MEMORY = "memory"
    PRESSURE = "pressure"
    MEMORY_PEAK = "memory_peak"
    INOTIFY = "inotify"
    NATIVE_SAMPLER = "native_sampler"


class PodSource(StrEnum):
    """Where names, requests and limits of pods come from."""

    FILE = "file"
    WATCH = "watch"
    KUBELET = "kubelet"


class PressureResource(StrEnum):
    """What is waited for."""

    CPU = "cpu"
    MEMORY = "memory"
    IO = "io"


class PressureKind(StrEnum):
    """Whether some tasks wait or all of them."""

    SOME = "some"
    FULL = "full"


_MEASURED: Final[Mapping[str, About]] = {
    "plimsoll_ring_span_seconds": ("Time that the longest raw ring reaches back.", "seconds", ()),
    "plimsoll_pod_source_age_seconds": ("Time since the list of pods was last read.", "seconds", ("source",)),
    "plimsoll_node_pressure_ratio": ("Share of time lost to waiting (PSI).", "ratio", ("resource", "kind")),
    "plimsoll_cpu_slack_cores": ("Sum of CPU requests less use at P75, where both are known.", "cores", ()),
    "plimsoll_memory_slack_bytes": ("Sum of memory requests less working set, where both are known.", "bytes", ()),
    "plimsoll_requested_cpu_cores": ("Sum of CPU requests of containers with a recommendation.", "cores", ()),
    "plimsoll_recommended_cpu_cores": ("Sum of CPU requests recommended for those containers.", "cores", ()),
    "plimsoll_requested_memory_bytes": ("Sum of memory requests of containers with a recommendation.", "bytes", ()),
    "plimsoll_recommended_memory_bytes": ("Sum of memory requests recommended for those containers.", "bytes", ()),
    "plimsoll_node_cpus": ("CPUs of the machine.", "", ()),
    "plimsoll_node_cpu_usage_cores": ("CPU use of the machine since the page before.", "cores", ()),
    "plimsoll_node_memory_total_bytes": ("Memory of the machine.", "bytes", ()),
    "plimsoll_node_memory_available_bytes": ("Memory to be had without swapping.", "bytes", ()),
}
"""Gauges that are there once they have been measured: help, unit, labels."""


class Metrics:
    """All series of this process. Counting methods may be called from any thread; ``page`` from any other."""

    def __init__(
        self, *, version: str, commit: str, sampler: str, max_series: int = 20_000, per_container: bool = False
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a process-wide switch of the library; each counter would bring a series more
        registry = self._registry = CollectorRegistry()
        self._measured = MeasuredGauges(_MEASURED)
        self._containers = ContainerPage(max_series=max_series)
        self._per_container = per_container
        self._rows: Sequence[ContainerSeries] = ()
        self._totals: Callable[[], Totals] | None = None
        self._render_lock = threading.Lock()

        Gauge(
            "plimsoll_build_info",
            "Always 1; what is running.",
            ("version", "commit", "python", "sampler"),
            registry=registry,
        ).labels(version, commit, platform.python_version(), sampler).set(1)
        self._sweep_duration = Histogram(
            "plimsoll_sweep_duration_seconds",
            "Time that one sweep over all containers took.",
            unit="seconds",
            buckets=SWEEP_BUCKETS_SECONDS,
            registry=registry,
        )
        self._sweep_lateness = Histogram(
            "plimsoll_sweep_lateness_seconds",
            "Time between a sweep's deadline and its start.",
            unit="seconds",
            buckets=SWEEP_BUCKETS_SECONDS,
            registry=registry,
        )
        self._samples = Counter("plimsoll_samples_total", "Good samples of containers.", registry=registry)
        self._sweeps = Counter("plimsoll_sweeps_total", "Sweeps over all containers.", registry=registry)
        skipped = Counter(
            "plimsoll_sweeps_skipped_total",
            "Sweeps that were due and did not take place.",
            ("reason",),
            registry=registry,
        )
        self._skipped = {reason: skipped.labels(reason.value) for reason in Skipped}
        dropped = Counter(
            "plimsoll_samples_dropped_total",
            "Readings, or pairs of readings, that gave no figure.",
            ("reason",),
            registry=registry,
        )
        self._dropped = {gap: dropped.labels(gap.value) for gap in Gap}
        self._read_errors = GrowingTotals(
            Counter(
                "plimsoll_read_errors_total",
                "Reads of cgroup files that failed; gone is normal where containers come and go.",
                ("file", "cause"),
                registry=registry,
            ),
            [(file, cause) for file in FILES for cause in CAUSES],
        )
        resets = Counter(
            "plimsoll_counter_resets_total",
            "Kernel counters that fell within one cgroup's life.",
            ("file",),
            registry=registry,
        )
        self._resets = {file: resets.labels(file) for file in COUNTER_FILES}
        containers = Gauge(
            "plimsoll_containers",
            "Containers by what is done with them.",
            ("state",),
            registry=registry,
        )
        self._tracked = containers.labels("tracked")
        self._unmatched = containers.labels("unmatched")
        self._excluded = containers.labels("excluded")
        features = Gauge(
            "plimsoll_feature_enabled",
            "1 = works on this node, 0 = not there or off.",
            ("feature",),
            registry=registry,
        )
        self._features = {feature: features.labels(feature.value) for feature in Feature}
        self._ring_bytes = Gauge(
            "plimsoll_ring_bytes",
            "Memory pages of the rings that have been written.",
            unit="bytes",
            registry=registry,
        )
        self._open_files = Gauge("plimsoll_open_files", "File descriptors held by the sampler.", registry=registry)
        self._open_files_limit = Gauge(
            "plimsoll_open_files_limit",
            "RLIMIT_NOFILE in force.",
            registry=registry,
        )
        self._overflows = GrowingTotals(
            Counter("plimsoll_inotify_overflows_total", "Event queues that ran over.", registry=registry), [()]
        )
        self._relists = GrowingTotals(
            Counter(
                "plimsoll_relists_total",
                "Full listings of the cgroup tree.",
                ("trigger",),
                registry=registry,
            ),
            [(trigger,) for trigger in RELIST_TRIGGERS],
        )
        oom_kills = Counter(
            "plimsoll_oom_kills_total",
            "Out-of-memory kills in containers; with resized_recently=true a resize may be to blame.",
            ("resized_recently",),
            registry=registry,
        )
        self._oom_kills = {recently: oom_kills.labels(str(recently).lower()) for recently in (False, True)}
        self._scrapes_rejected = Counter(
            "plimsoll_scrapes_rejected_total",
            "Scrapes answered with 503 because others were under way.",
            registry=registry,
        )
        self._series_dropped = Gauge(
            "plimsoll_series_dropped",
            "Container series left out of the page before: over the cap, or labels given twice.",
            registry=registry,
        )
        withheld = Gauge(
            "plimsoll_withheld",
            "Recommendations that are not made, by resource and reason.",
            ("resource", "reason"),
            registry=registry,
        )
        self._withheld = {
            (resource, reason): withheld.labels(resource, reason.value)
            for resource in ("cpu", "memory")
            for reason in Withheld
        }
        self._settings = Gauge(
            "plimsoll_settings_info",
            "Always 1; what holds on this node unless a pod or namespace says otherwise.",
            ("mode", "policy"),
            registry=registry,
        )
        registry.register(self._measured)
        self.loops: Final = LoopSeries()
        """The loops of this process."""
        registry.register(self.loops)
        self.acting: Final = ActingSeries(registry)
        """What planning and acting count."""

    def register(self, series: Collector) -> None:
        """Put further series on the page; each name once."""
        self._registry.register(series)

    def set_in_force(self, *, mode: str, policy: str) -> None:
        """Say what the settings are; once."""
        self._settings.labels(mode, policy).set(1)

    def add_process(self) -> None:
        """Put the process's own memory, CPU, start and descriptors on the page, as ``process_*``; once."""
        ProcessCollector(registry=self._registry)

    # What the sampler's thread tells.

    def observe_sweep(self, *, duration_seconds: float, lateness_seconds: float | None, samples: int) -> None:
        """Count one sweep and the good samples in it; None = it had no deadline to be late for."""
        self._sweep_duration.observe(duration_seconds)
        if lateness_seconds is not None:
            self._sweep_lateness.observe(max(0.0, lateness_seconds))
        self._sweeps.inc()
        if samples:
            self._samples.inc(samples)

    def count_skipped_sweeps(self, reason: Skipped, count: int = 1) -> None:
        """Count sweeps that did not take place."""
        self._skipped[reason].inc(count)

    def count_dropped_samples(self, reason: Gap, count: int = 1) -> None:
        """Count readings that gave no figure."""
        self._dropped[reason].inc(count)

    def take_read_errors(self, totals: Mapping[tuple[str, str], int]) -> None:
        """Take over ``SamplerStats.errors``: totals by (file, cause) since the sampler was opened.

        Raises:
            KeyError: A file or cause that is in neither ``FILES`` nor ``CAUSES``: a fault of the code.
        """
        for labels, total in totals.items():
            self._read_errors.take(labels, total)

    def count_counter_reset(self, file: str, count: int = 1) -> None:
        """Count a kernel counter that fell; ``file`` is one of ``COUNTER_FILES``."""
        self._resets[file].inc(count)

    def set_containers(self, *, tracked: int, unmatched: int = 0, excluded: int = 0) -> None:
        """Say how many are sampled, are sampled but in no pod list, are left out on purpose or over the cap."""
        self._tracked.set(tracked)
        self._unmatched.set(unmatched)
        self._excluded.set(excluded)

    def set_feature(self, feature: Feature, *, enabled: bool) -> None:
        """Say whether something works here."""
        self._features[feature].set(enabled)

    def set_rings(self, *, touched_bytes: int, span_seconds: float | None) -> None:
        """Say what the rings take and how far they reach back; None = nothing sampled yet."""
        self._ring_bytes.set(touched_bytes)
        self._measured.set("plimsoll_ring_span_seconds", (), span_seconds)

    def set_open_files(self, *, held: int, limit: int) -> None:
        """Say how many descriptors the sampler holds, and how many the process may."""
        self._open_files.set(held)
        self._open_files_limit.set(limit)

    def take_inotify_overflows(self, total: int) -> None:
        """Take over discovery's own total."""
        self._overflows.take((), total)

    def take_relists(self, totals: Mapping[str, int]) -> None:
        """Take over discovery's own totals by trigger, each one of ``RELIST_TRIGGERS``."""
        for trigger, total in totals.items():
            self._relists.take((trigger,), total)

    def set_pod_source_age(self, source: PodSource, age_seconds: float | None) -> None:
        """Say how old the list of pods is; None = this source is not in use."""
        self._measured.set("plimsoll_pod_source_age_seconds", (source.value,), age_seconds)

    def count_oom_kills(self, count: int = 1, *, resized_recently: bool = False) -> None:
        """Count out-of-memory kills."""
        self._oom_kills[resized_recently].inc(count)

    def set_node_pressure(self, resource: PressureResource, kind: PressureKind, ratio: float | None) -> None:
        """Say how large a share of time was lost, 0..1; None = no PSI."""
        self._measured.set("plimsoll_node_pressure_ratio", (resource.value, kind.value), ratio)

    def set_slack(self, *, cpu_millicores: float | None, memory_bytes: int | None) -> None:
        """Say what is requested and not used, in sum; None = no container has both a request and a figure."""
        cores = None if cpu_millicores is None else cpu_millicores / 1000
        self._measured.set("plimsoll_cpu_slack_cores", (), cores)
        self._measured.set("plimsoll_memory_slack_bytes", (), memory_bytes)

    def set_advised(
        self,
        *,
        cpu_requested_millicores: int | None,
        cpu_recommended_millicores: int | None,
        memory_requested_bytes: int | None,
        memory_recommended_bytes: int | None,
    ) -> None:
        """Say what is requested and what should be, over the same containers; None = there are none such."""
        for name, millicores in (
            ("plimsoll_requested_cpu_cores", cpu_requested_millicores),
            ("plimsoll_recommended_cpu_cores", cpu_recommended_millicores),
        ):
            self._measured.set(name, (), None if millicores is None else millicores / 1000)
        self._measured.set("plimsoll_requested_memory_bytes", (), memory_requested_bytes)
        self._measured.set("plimsoll_recommended_memory_bytes", (), memory_recommended_bytes)

    def set_node(
        self,
        *,
        cpus: int,
        cpu_usage_millicores: float | None,
        memory_total_bytes: int,
        memory_available_bytes: int,
    ) -> None:
        """Say what the machine has and what is in use; None = not known yet."""
        cores = None if cpu_usage_millicores is None else cpu_usage_millicores / 1000
        self._measured.set("plimsoll_node_cpus", (), cpus)
        self._measured.set("plimsoll_node_cpu_usage_cores", (), cores)
        self._measured.set("plimsoll_node_memory_total_bytes", (), memory_total_bytes)
        self._measured.set("plimsoll_node_memory_available_bytes", (), memory_available_bytes)

    def set_withheld(self, counts: Mapping[tuple[str, Withheld], int]) -> None:
        """Say how many recommendations are withheld; (``cpu`` or ``memory``, reason) that is not there counts 0."""
        for key, gauge in self._withheld.items():
            gauge.set(counts.get(key, 0))

    def publish_containers(self, rows: Sequence[ContainerSeries], totals: Callable[[], Totals] | None = None) -> None:
        """Hand over the newest figures of all containers, to be written when asked for; the rows are not copied.

        Args:
            rows: One for each container.
            totals: Reads the counters at each scrape: a rate over scrapes needs the counter of that moment, while
                quantiles may be as old as the last evaluation.
        """
        self._rows, self._totals = rows, totals

    # What the serving thread asks for.

    def count_rejected_scrape(self) -> None:
        """Count a scrape that got 503."""
        self._scrapes_rejected.inc()

    def page(self, accept: str = "", accept_encoding: str = "") -> MetricsPage:
        """Build the page.

        Args:
            accept: The Accept header; OpenMetrics 1.0 if it is asked for, else the text format 0.0.4.
            accept_encoding: The Accept-Encoding header; gzip at level 1 if it is taken.
        """
        openmetrics = wants_openmetrics(accept)
        text = ""
        if self._per_container:
            with self._render_lock:  # two scrapes share the label cache
                totals = self._totals
                text, dropped = self._containers.render(
                    self._rows, totals=None if totals is None else totals(), openmetrics=openmetrics
                )
            self._series_dropped.set(dropped)
        return write_page(self._registry, openmetrics=openmetrics, accept_encoding=accept_encoding, more=text)
