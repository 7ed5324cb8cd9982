"""The agent's own gauges: set at the moment of a scrape, on the serving thread. Node."""

from __future__ import annotations

import threading
from collections.abc import Callable

from agent.core.cluster.unit import UnitKind
from agent.core.window.ring_rows import Has
from agent.metrics.agent_series import Feature, Metrics, PodSource, PressureKind, PressureResource
from agent.metrics.exposition import MetricsPage
from agent.node.recommender.notes import signals
from agent.node.sampling.parts import SamplingParts


class Gauges:
    """Sets the gauges and renders the page."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        sampling: SamplingParts,
        pod_source: PodSource | None,
        pods_age_seconds: Callable[[], float | None],
    ) -> None:
        self._metrics, self._sampling = metrics, sampling
        self._pod_source, self._pods_age_seconds = pod_source, pods_age_seconds
        self._lock = threading.Lock()

    def page(self, accept: str, accept_encoding: str) -> MetricsPage:
        """Return the page of a scrape."""
        with self._lock:
            self._set()
        return self._metrics.page(accept, accept_encoding)

    def _set(self) -> None:
        metrics, sampling = self._metrics, self._sampling
        discovery, rings = sampling.discovery, sampling.rings
        stats = sampling.sampler.stats()
        metrics.take_read_errors(stats.errors)
        metrics.set_open_files(held=stats.open_files, limit=sampling.open_files_limit)
        metrics.take_inotify_overflows(discovery.overflows)
        metrics.take_relists(dict(discovery.relists))
        for level in (UnitKind.POD, UnitKind.TIER):
            pods = sampling.pods
            metrics.take_cgroups(level.value, created=pods.created[level], removed=pods.removed[level])
        identities = [unit.identity for unit in sampling.units.all()]
        unmatched = sum(1 for unit in identities if unit.kind is UnitKind.CONTAINER and unit.pod is None)
        # There and not watched: over the limit, or no room for them.
        excluded = discovery.dropped + sampling.loop.refused
        metrics.set_containers(tracked=len(identities), unmatched=unmatched, excluded=excluded)
        metrics.set_rings(
            touched_bytes=rings.touched_bytes,
            span_seconds=rings.span_seconds([unit.slot for unit in sampling.units.all()]),
        )
        if self._pod_source is not None:
            metrics.set_pod_source_age(self._pod_source, self._pods_age_seconds())
        node = sampling.machine.status()
        # The full line of cpu is 0 for a whole machine, whatever happens: no figure.
        for resource, kind, ratio in (
            (PressureResource.CPU, PressureKind.SOME, node.cpu_waiting_ratio),
            (PressureResource.MEMORY, PressureKind.SOME, node.memory_waiting_ratio),
            (PressureResource.MEMORY, PressureKind.FULL, node.memory_stalled_ratio),
            (PressureResource.IO, PressureKind.SOME, node.io_waiting_ratio),
            (PressureResource.IO, PressureKind.FULL, node.io_stalled_ratio),
        ):
            metrics.set_node_pressure(resource, kind, ratio)
        metrics.set_node(
            cpus=node.cpus,
            cpu_usage_millicores=node.cpu_usage_millicores,
            memory_total_bytes=node.memory_total_bytes,
            memory_available_bytes=node.memory_available_bytes,
        )
        has = signals(sampling)
        metrics.set_feature(Feature.MEMORY, enabled=bool(has & Has.MEMORY))
        metrics.set_feature(Feature.PRESSURE, enabled=bool(has & Has.PRESSURE))
        metrics.set_feature(Feature.MEMORY_PEAK, enabled=bool(has & Has.MEMORY_PEAK))
        metrics.set_feature(Feature.INOTIFY, enabled=discovery.fileno() is not None)
        metrics.set_feature(Feature.NATIVE_SAMPLER, enabled=sampling.sampler.name == "native")
