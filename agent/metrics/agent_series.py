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

from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics
from prometheus_client.registry import Collector

from agent.core.machine.drift import DRIFT_KINDS
from agent.core.numbers.arrays import Floats
from agent.core.recommender.recommendation import Withheld
from agent.core.window.ring_rows import CAUSES, FILES
from agent.core.window.snapshot import Gap, PodStatus
from agent.core.window.sweep_pace import SkipReason
from agent.metrics.acting_series import ActingSeries
from agent.metrics.container_series import ContainerPage, ContainerSeries, Totals
from agent.metrics.exposition import MetricsPage, PageWriter, wants_openmetrics
from agent.metrics.families import MeasuredFamily, MeasuredGauges, SeriesTable, counter, gauge, histogram
from agent.metrics.loop_series import LoopSeries
from agent.metrics.pod_series import TierSeries, pods_text
from agent.metrics.process_series import ProcessSeries
from agent.metrics.quality_series import QualityByWorkload, QualityPage

SWEEP_BUCKETS_SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
COUNTER_FILES: Final = ("cpu.stat", "cpu.pressure", "memory.pressure", "io.pressure", "memory.events")
"""The files whose numbers may only grow."""
RELIST_TRIGGERS: Final = ("start", "periodic", "overflow", "no_watches")


CGROUP_LEVELS: Final = ("container", "pod", "tier")


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


_FAMILIES: Final = (
    histogram(
        "plimsoll_sweep_duration_seconds",
        "Time that one sweep over all containers took.",
        SWEEP_BUCKETS_SECONDS,
        unit="seconds",
    ),
    histogram(
        "plimsoll_sweep_lateness_seconds",
        "Time between a sweep's deadline and its start.",
        SWEEP_BUCKETS_SECONDS,
        unit="seconds",
    ),
    counter("plimsoll_samples_total", "Good samples of containers."),
    counter("plimsoll_sweeps_total", "Sweeps over all containers."),
    counter("plimsoll_sweeps_skipped_total", "Sweeps that were due and did not take place.", reason=SkipReason),
    counter("plimsoll_samples_dropped_total", "Readings, or pairs of readings, that gave no figure.", reason=Gap),
    counter(
        "plimsoll_read_errors_total",
        "Reads of cgroup files that failed; gone is normal where containers come and go.",
        file=FILES,
        cause=CAUSES,
    ),
    counter("plimsoll_counter_resets_total", "Kernel counters that fell within one cgroup's life.", file=COUNTER_FILES),
    gauge(
        "plimsoll_containers",
        "Containers by what is done with them.",
        state=("tracked", "unmatched", "excluded"),
    ),
    gauge("plimsoll_feature_enabled", "1 = works on this node, 0 = not there or off.", feature=Feature),
    gauge("plimsoll_ring_bytes", "Memory pages of the rings that have been written.", unit="bytes"),
    gauge("plimsoll_open_files", "File descriptors held by the sampler."),
    gauge("plimsoll_open_files_limit", "RLIMIT_NOFILE in force."),
    counter("plimsoll_inotify_overflows_total", "Event queues that ran over."),
    counter("plimsoll_relists_total", "Full listings of the cgroup tree.", trigger=RELIST_TRIGGERS),
    counter(
        "plimsoll_oom_kills_total",
        "Out-of-memory kills in containers; with resized_recently=true a resize may be to blame.",
        resized_recently=("false", "true"),
    ),
    counter(
        "plimsoll_cgroups_created_total",
        "Cgroups of the kubelet that came since the agent's start, by level.",
        level=CGROUP_LEVELS,
    ),
    counter(
        "plimsoll_cgroups_removed_total",
        "Cgroups of the kubelet that went since the agent's start, by level.",
        level=CGROUP_LEVELS,
    ),
    counter(
        "plimsoll_cgroups_changed_total",
        "Values of the kubelet's cgroups that differed from audit to audit, by who wrote them: the agent itself, or "
        "others (kubelet, runtime, a person; the kubelet also where the agent asked for a resize).",
        writer=("plimsoll", "others"),
    ),
    counter("plimsoll_cgroup_audits_total", "Audits of the kubelet's cgroups that came to an end."),
    counter("plimsoll_scrapes_rejected_total", "Scrapes answered with 503 because others were under way."),
    gauge(
        "plimsoll_series_dropped",
        "Series of containers and workloads left out of the page before: over the cap, or labels given twice.",
    ),
    gauge(
        "plimsoll_withheld",
        "Recommendations that are not made, by resource and reason.",
        resource=("cpu", "memory"),
        reason=Withheld,
    ),
)
_MEASURED: Final = (
    MeasuredFamily("plimsoll_ring_span_seconds", "Time that the longest raw ring reaches back."),
    MeasuredFamily("plimsoll_pod_source_age_seconds", "Time since the list of pods was last read.", ("source",)),
    MeasuredFamily("plimsoll_node_pressure_ratio", "Share of time lost to waiting (PSI).", ("resource", "kind")),
    MeasuredFamily("plimsoll_cpu_slack_cores", "Sum of CPU requests less use at P75, where both are known."),
    MeasuredFamily("plimsoll_memory_slack_bytes", "Sum of memory requests less working set, where both are known."),
    MeasuredFamily(
        "plimsoll_memory_cold_file_bytes", "Sum of file cache that nobody came back for, where it is known."
    ),
    MeasuredFamily("plimsoll_requested_cpu_cores", "Sum of CPU requests of containers with a recommendation."),
    MeasuredFamily("plimsoll_recommended_cpu_cores", "Sum of CPU requests recommended for those containers."),
    MeasuredFamily("plimsoll_requested_memory_bytes", "Sum of memory requests of containers with a recommendation."),
    MeasuredFamily("plimsoll_recommended_memory_bytes", "Sum of memory requests recommended for those containers."),
    MeasuredFamily(
        "plimsoll_cgroup_drift",
        "Values of the kubelet's cgroups that differ from what it should have written, by file, as of the newest "
        "audit; what an option of the kubelet may explain does not count.",
        ("kind",),
    ),
    MeasuredFamily("plimsoll_node_cpus", "CPUs of the machine."),
    MeasuredFamily("plimsoll_node_cpu_usage_cores", "CPU use of the machine since the page before."),
    MeasuredFamily("plimsoll_node_memory_total_bytes", "Memory of the machine."),
    MeasuredFamily("plimsoll_node_memory_available_bytes", "Memory to be had without swapping."),
)


class Metrics:
    """All series of this process. Counting methods may be called from any thread; ``page`` from any other."""

    def __init__(
        self, *, version: str, commit: str, sampler: str, max_series: int = 20_000, per_container: bool = False
    ) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a process-wide switch of the library; each counter would bring a series more
        registry = self._registry = CollectorRegistry()
        self._writer = PageWriter(registry)
        self._measured = MeasuredGauges(_MEASURED)
        self._containers = ContainerPage(max_series=max_series)
        self._per_container = per_container
        self._rows: Sequence[ContainerSeries] = ()
        self._totals: Callable[[], Totals] | None = None
        self._quality: QualityPage | None = None
        self._pods: Sequence[PodStatus] = ()
        self._max_series = max_series
        self._render_lock = threading.Lock()

        Gauge(
            "plimsoll_build_info",
            "Always 1; what is running.",
            ("version", "commit", "python", "sampler"),
            registry=registry,
        ).labels(version, commit, platform.python_version(), sampler).set(1)
        self._series = SeriesTable(_FAMILIES, registry)
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
        self.tiers: Final = TierSeries()
        """Of the QoS tiers."""
        registry.register(self.tiers)
        self.acting: Final = ActingSeries(registry)
        """What planning and acting count."""

    def register(self, series: Collector) -> None:
        """Add further series to the page; each name once."""
        self._registry.register(series)

    def set_in_force(self, *, mode: str, policy: str) -> None:
        """Set what the settings are; once."""
        self._settings.labels(mode, policy).set(1)

    def add_process(self) -> None:
        """Add the process's own memory, CPU, start and descriptors to the page, as ``process_*``; once."""
        self._registry.register(ProcessSeries())

    # What the sampler's thread tells.

    def observe_sweep(self, *, duration_seconds: float, lateness_seconds: float | None, samples: int) -> None:
        """Count one sweep and the good samples in it; None = it had no deadline to be late for."""
        self._series.observe("plimsoll_sweep_duration_seconds", duration_seconds)
        if lateness_seconds is not None:
            self._series.observe("plimsoll_sweep_lateness_seconds", max(0.0, lateness_seconds))
        self._series.count("plimsoll_sweeps_total")
        self._series.count("plimsoll_samples_total", by=samples)

    def count_skipped_sweeps(self, reason: SkipReason, count: int = 1) -> None:
        """Count sweeps that did not take place."""
        self._series.count("plimsoll_sweeps_skipped_total", reason, by=count)

    def count_dropped_samples(self, reason: Gap, count: int = 1) -> None:
        """Count readings that gave no figure."""
        self._series.count("plimsoll_samples_dropped_total", reason, by=count)

    def take_read_errors(self, totals: Mapping[tuple[str, str], int]) -> None:
        """Count up to ``SamplerStats.errors``: totals by (file, cause) since the sampler was opened."""
        for labels, total in totals.items():
            self._series.count_up_to("plimsoll_read_errors_total", *labels, total=total)

    def count_counter_reset(self, file: str, count: int = 1) -> None:
        """Count a kernel counter that fell; ``file`` is one of ``COUNTER_FILES``."""
        self._series.count("plimsoll_counter_resets_total", file, by=count)

    def set_containers(self, *, tracked: int, unmatched: int = 0, excluded: int = 0) -> None:
        """Set how many are sampled, are sampled but in no pod list, are left out on purpose or over the cap."""
        for state, count in (("tracked", tracked), ("unmatched", unmatched), ("excluded", excluded)):
            self._series.set("plimsoll_containers", state, value=count)

    def set_feature(self, feature: Feature, *, enabled: bool) -> None:
        """Set whether something works here."""
        self._series.set("plimsoll_feature_enabled", feature, value=enabled)

    def set_rings(self, *, touched_bytes: int, span_seconds: float | None) -> None:
        """Set what the rings take and how far they reach back; None = nothing sampled yet."""
        self._series.set("plimsoll_ring_bytes", value=touched_bytes)
        self._measured.set("plimsoll_ring_span_seconds", value=span_seconds)

    def set_open_files(self, *, held: int, limit: int) -> None:
        """Set how many descriptors the sampler holds, and how many the process may."""
        self._series.set("plimsoll_open_files", value=held)
        self._series.set("plimsoll_open_files_limit", value=limit)

    def take_inotify_overflows(self, total: int) -> None:
        """Take over discovery's own total."""
        self._series.count_up_to("plimsoll_inotify_overflows_total", total=total)

    def take_relists(self, totals: Mapping[str, int]) -> None:
        """Take over discovery's own totals by trigger, each one of ``RELIST_TRIGGERS``."""
        for trigger, total in totals.items():
            self._series.count_up_to("plimsoll_relists_total", trigger, total=total)

    def set_pod_source_age(self, source: PodSource, age_seconds: float | None) -> None:
        """Set how old the list of pods is; None = this source is not in use."""
        self._measured.set("plimsoll_pod_source_age_seconds", source, value=age_seconds)

    def count_cgroups(self, level: str, *, created: int = 0, removed: int = 0) -> None:
        """Count cgroups that came and went; ``level`` is one of ``CGROUP_LEVELS``."""
        self._series.count("plimsoll_cgroups_created_total", level, by=created)
        self._series.count("plimsoll_cgroups_removed_total", level, by=removed)

    def take_cgroups(self, level: str, *, created: int, removed: int) -> None:
        """Count up to totals since the agent's start; ``level`` is one of ``CGROUP_LEVELS``."""
        self._series.count_up_to("plimsoll_cgroups_created_total", level, total=created)
        self._series.count_up_to("plimsoll_cgroups_removed_total", level, total=removed)

    def count_changed_cgroup(self, *, is_ours: bool) -> None:
        """Count a value of a cgroup that differs from the audit before."""
        self._series.count("plimsoll_cgroups_changed_total", "plimsoll" if is_ours else "others")

    def set_drift(self, counts: Mapping[str, int]) -> None:
        """Set how much an audit found to differ, by kind, and count the audit; a kind that is not there counts 0."""
        for kind in DRIFT_KINDS:
            self._measured.set("plimsoll_cgroup_drift", kind, value=counts.get(kind, 0))
        self._series.count("plimsoll_cgroup_audits_total")

    def count_oom_kills(self, count: int = 1, *, resized_recently: bool = False) -> None:
        """Count out-of-memory kills."""
        self._series.count("plimsoll_oom_kills_total", str(resized_recently).lower(), by=count)

    def set_node_pressure(self, resource: PressureResource, kind: PressureKind, ratio: float | None) -> None:
        """Set how large a share of time was lost, 0..1; None = no PSI."""
        self._measured.set("plimsoll_node_pressure_ratio", resource, kind, value=ratio)

    def set_slack(self, *, cpu_millicores: float | None, memory_bytes: int | None) -> None:
        """Set what is requested and not used, in sum; None = no container has both a request and a figure."""
        cores = None if cpu_millicores is None else cpu_millicores / 1000
        self._measured.set("plimsoll_cpu_slack_cores", value=cores)
        self._measured.set("plimsoll_memory_slack_bytes", value=memory_bytes)

    def set_cold_file(self, memory_bytes: int | None) -> None:
        """Set the sum of file cache that nobody came back for; None = it is known of no container."""
        self._measured.set("plimsoll_memory_cold_file_bytes", value=memory_bytes)

    def set_advised(
        self,
        *,
        cpu_requested_millicores: int | None,
        cpu_recommended_millicores: int | None,
        memory_requested_bytes: int | None,
        memory_recommended_bytes: int | None,
    ) -> None:
        """Set what is requested and what should be, over the same containers; None = there are none such."""
        for name, millicores in (
            ("plimsoll_requested_cpu_cores", cpu_requested_millicores),
            ("plimsoll_recommended_cpu_cores", cpu_recommended_millicores),
        ):
            self._measured.set(name, value=None if millicores is None else millicores / 1000)
        self._measured.set("plimsoll_requested_memory_bytes", value=memory_requested_bytes)
        self._measured.set("plimsoll_recommended_memory_bytes", value=memory_recommended_bytes)

    def set_node(
        self,
        *,
        cpus: int,
        cpu_usage_millicores: float | None,
        memory_total_bytes: int,
        memory_available_bytes: int,
    ) -> None:
        """Set what the machine has and what is in use; None = not known yet."""
        cores = None if cpu_usage_millicores is None else cpu_usage_millicores / 1000
        self._measured.set("plimsoll_node_cpus", value=cpus)
        self._measured.set("plimsoll_node_cpu_usage_cores", value=cores)
        self._measured.set("plimsoll_node_memory_total_bytes", value=memory_total_bytes)
        self._measured.set("plimsoll_node_memory_available_bytes", value=memory_available_bytes)

    def set_withheld(self, counts: Mapping[tuple[str, Withheld], int]) -> None:
        """Set how many recommendations are withheld; (``cpu`` or ``memory``, reason) that is not there counts 0."""
        for resource in ("cpu", "memory"):
            for reason in Withheld:
                self._series.set("plimsoll_withheld", resource, reason, value=counts.get((resource, reason), 0))

    def publish_containers(self, rows: Sequence[ContainerSeries], totals: Callable[[], Totals] | None = None) -> None:
        """Add the newest figures of all containers to the page, to be written when asked for; the rows are not copied.

        ``totals`` reads the counters at each scrape: a rate over scrapes needs the counter of that moment, while
        quantiles may be as old as the last evaluation.
        """
        self._rows, self._totals = rows, totals

    def take_quality(
        self, of_node: Callable[[], Floats | None], by_workload: Callable[[], QualityByWorkload] | None
    ) -> None:
        """Add to the page how good sizing was, read at each scrape; once. None = not by workload."""
        self._quality = QualityPage(of_node, by_workload, max_series=self._max_series)

    def publish_pods(self, pods: Sequence[PodStatus]) -> None:
        """Add the newest figures of whole pods to the page, to be written when asked for."""
        self._pods = pods

    # What the serving thread asks for.

    def count_rejected_scrape(self) -> None:
        """Count a scrape that got 503."""
        self._series.count("plimsoll_scrapes_rejected_total")

    def page(self, accept: str = "", accept_encoding: str = "") -> MetricsPage:
        """Return the page as the headers ask for it: OpenMetrics 1.0 or the text format 0.0.4, gzip or plain."""
        openmetrics = wants_openmetrics(accept)
        text, dropped = ("", 0) if self._quality is None else self._quality.render(openmetrics=openmetrics)
        if self._per_container:
            with self._render_lock:  # two scrapes share the label cache
                totals = self._totals
                containers, left_out = self._containers.render(
                    self._rows, totals=None if totals is None else totals(), openmetrics=openmetrics
                )
            of_pods, pods_left_out = pods_text(self._pods, max_series=self._max_series, openmetrics=openmetrics)
            text, dropped = containers + of_pods + text, dropped + left_out + pods_left_out
        self._series.set("plimsoll_series_dropped", value=dropped)
        return self._writer.page(openmetrics=openmetrics, accept_encoding=accept_encoding, more=text)
