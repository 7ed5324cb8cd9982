"""The opt-in series of each container as exposition text, joined from cached label strings.

A scrape of 1,000 containers through prometheus_client's collectors holds the GIL for 72 ms, joined text for a tenth of
that (facts: node-agent-practice.md, section 7). Here millicores become cores and microseconds seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agent.core.recommender.recommendation import Recommendation
from agent.core.window.snapshot import UnitStatus

UNIT_NAMESPACE: Final = ""
"""The namespace and pod of a unit outside Kubernetes. An empty label is no label to Prometheus; ``container`` is then
the unit's name. The kubelet's pod slices have ``container=""`` and so never collide with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSeries:
    """What a page says of one container. None = not known, and then there is no series: never 0, never NaN."""

    labels: tuple[str, str, str]
    """Namespace, pod, container; the first two empty for a unit that is no pod's."""
    usage_p75_millicores: float | None = None
    usage_peak_millicores: float | None = None
    working_set_p75_bytes: int | None = None
    working_set_peak_bytes: int | None = None
    cold_file_bytes: int | None = None
    waiting_usec_total: int | None = None
    """PSI ``some`` of cpu.pressure as the kernel counts it, since the cgroup was made."""
    throttled_usec_total: int | None = None
    """``throttled_usec`` of cpu.stat, since the cgroup was made."""
    stalled_usec_total: int | None = None
    """PSI ``full`` of cpu.pressure."""
    memory_waiting_usec_total: int | None = None
    """PSI ``some`` of memory.pressure."""
    memory_stalled_usec_total: int | None = None
    """PSI ``full`` of memory.pressure."""
    memory_high_events_total: int | None = None
    """``high`` of memory.events."""
    io_waiting_usec_total: int | None = None
    """PSI ``some`` of io.pressure."""
    cpu_request_millicores: int | None = None
    cpu_limit_millicores: int | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None
    recommended_cpu_request_millicores: int | None = None
    recommended_memory_request_bytes: int | None = None
    confidence_ratio: float | None = None
    """Of the policy ``vpa``, which alone knows one."""


class ContainerTotals(NamedTuple):
    """Counters of one container as the kernel has them, by the names that they have in ``ContainerSeries``."""

    waiting_usec_total: int | None = None
    throttled_usec_total: int | None = None
    stalled_usec_total: int | None = None
    memory_waiting_usec_total: int | None = None
    memory_stalled_usec_total: int | None = None
    memory_high_events_total: int | None = None
    io_waiting_usec_total: int | None = None


def to_container_series(
    status: UnitStatus,
    *,
    waiting_usec_total: int | None = None,
    throttled_usec_total: int | None = None,
    recommendation: Recommendation | None = None,
) -> ContainerSeries:
    """Return the series of a unit's status and its recommendation; further totals come with ``ContainerTotals``.

    A container without names from a pod source goes by the last part of its cgroup's path, as a service does.
    """
    identity = status.identity
    named = identity.pod is not None and identity.container is not None
    cpu, memory = (
        (None, None) if recommendation is None else (recommendation.cpu_millicores, recommendation.memory_bytes)
    )
    return ContainerSeries(
        labels=(
            (identity.namespace or UNIT_NAMESPACE, identity.pod or "", identity.container or "")
            if named
            else (UNIT_NAMESPACE, "", identity.container or identity.cgroup_path.rsplit("/", 1)[-1] or "/")
        ),
        usage_p75_millicores=status.cpu.usage_p75_millicores,
        usage_peak_millicores=status.cpu.usage_peak_millicores,
        working_set_p75_bytes=status.memory.working_set_p75_bytes,
        working_set_peak_bytes=status.memory.working_set_peak_bytes,
        cold_file_bytes=None if status.memory.cold_file is None else status.memory.cold_file.total_bytes,
        waiting_usec_total=waiting_usec_total,
        throttled_usec_total=throttled_usec_total,
        cpu_request_millicores=status.resources.cpu_request_millicores,
        cpu_limit_millicores=status.resources.cpu_limit_millicores,
        memory_request_bytes=status.resources.memory_request_bytes,
        memory_limit_bytes=status.resources.memory_limit_bytes,
        recommended_cpu_request_millicores=None if cpu is None else cpu.request,
        recommended_memory_request_bytes=None if memory is None else memory.request,
        confidence_ratio=None if cpu is None else cpu.extra.get("cpu_confidence_ratio"),
    )


def _cores(millicores: float) -> str:
    # Six decimals are a millionth of a core: finer than any counter here, and a third of the time that repr takes.
    return f"{millicores / 1000:.6f}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.4f}"


def _seconds(usec: int) -> str:
    return f"{usec // 1_000_000}.{usec % 1_000_000:06d}"  # exact: a float would lose microseconds after 285 years


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    """Without ``_total``; it ends in the unit, or in what is counted."""
    text: str
    fields: tuple[tuple[str, str], ...]
    """(quantile label or empty, field of ``ContainerSeries``)."""
    write: Callable[[int], str] | Callable[[float], str]
    kind: str = "gauge"

    @property
    def unit(self) -> str:
        last = self.name.rpartition("_")[2]
        return "" if last == "events" else last


_QUANTILES: Final = "0.75 is the sustained use, 1 the peak; never add quantiles up"
FAMILIES: Final = (
    _Family(
        "plimsoll_container_cpu_usage_cores",
        f"CPU use over the CPU window; {_QUANTILES}.",
        ((',quantile="0.75"', "usage_p75_millicores"), (',quantile="1"', "usage_peak_millicores")),
        _cores,
    ),
    _Family(
        "plimsoll_container_memory_working_set_bytes",
        f"memory.current less inactive_file over the memory window; {_QUANTILES}.",
        ((',quantile="0.75"', "working_set_p75_bytes"), (',quantile="1"', "working_set_peak_bytes")),
        str,
    ),
    _Family(
        "plimsoll_container_memory_cold_file_bytes",
        "File cache that nobody is known to have come back for over memory.coldFileWindowSeconds; an upper estimate.",
        (("", "cold_file_bytes"),),
        str,
    ),
    _Family(
        "plimsoll_container_cpu_waiting_seconds",
        "Time in which some task waited for a CPU (PSI some), its own cpu.max included.",
        (("", "waiting_usec_total"),),
        _seconds,
        "counter",
    ),
    _Family(
        "plimsoll_container_cpu_throttled_seconds",
        "Time in which cpu.max held tasks back, over all CPUs.",
        (("", "throttled_usec_total"),),
        _seconds,
        "counter",
    ),
    _Family(
        "plimsoll_container_cpu_stalled_seconds",
        "Time in which all its tasks that could run waited for a CPU at once (PSI full), its own cpu.max included.",
        (("", "stalled_usec_total"),),
        _seconds,
        "counter",
    ),
    _Family(
        "plimsoll_container_memory_waiting_seconds",
        "Time in which some task stalled on memory (PSI some); read every slow interval.",
        (("", "memory_waiting_usec_total"),),
        _seconds,
        "counter",
    ),
    _Family(
        "plimsoll_container_memory_stalled_seconds",
        "Time in which all its tasks stalled on memory at once (PSI full); read every slow interval.",
        (("", "memory_stalled_usec_total"),),
        _seconds,
        "counter",
    ),
    _Family(
        "plimsoll_container_memory_high_events",
        "How often its tasks were held back to reclaim, as it was above memory.high; read every slow interval.",
        (("", "memory_high_events_total"),),
        str,
        "counter",
    ),
    _Family(
        "plimsoll_container_io_waiting_seconds",
        "Time in which some task waited for a disk (PSI some); read every slow interval.",
        (("", "io_waiting_usec_total"),),
        _seconds,
        "counter",
    ),
    _Family(
        "plimsoll_current_cpu_request_cores",
        "CPU request as the pod states it.",
        (("", "cpu_request_millicores"),),
        _cores,
    ),
    _Family(
        "plimsoll_current_cpu_limit_cores",
        "CPU limit as the pod states it.",
        (("", "cpu_limit_millicores"),),
        _cores,
    ),
    _Family(
        "plimsoll_current_memory_request_bytes",
        "Memory request as the pod states it.",
        (("", "memory_request_bytes"),),
        str,
    ),
    _Family(
        "plimsoll_current_memory_limit_bytes",
        "Memory limit as the pod states it.",
        (("", "memory_limit_bytes"),),
        str,
    ),
    _Family(
        "plimsoll_recommended_cpu_request_cores",
        "CPU request that the policy in force recommends, bounds applied; absent while it is withheld.",
        (("", "recommended_cpu_request_millicores"),),
        _cores,
    ),
    _Family(
        "plimsoll_recommended_memory_request_bytes",
        "Memory request that the policy in force recommends, bounds applied; absent while it is withheld.",
        (("", "recommended_memory_request_bytes"),),
        str,
    ),
    _Family(
        "plimsoll_recommendation_confidence_ratio",
        "How far the samples cover the confidence interval; of the policy vpa only.",
        (("", "confidence_ratio"),),
        _ratio,
    ),
)
Labels = tuple[str, str, str]
Totals = Mapping[Labels, ContainerTotals]
"""Of the moment of a scrape."""
_TOTALS: Final = {name: column for column, name in enumerate(ContainerTotals._fields)}
SERIES_PER_CONTAINER: Final = sum(len(family.fields) for family in FAMILIES)


class ContainerPage:
    """Writes the container part of pages; keeps label strings between them. One thread at a time."""

    def __init__(self, *, max_series: int) -> None:
        self._max_series = max_series
        self._labels: dict[Labels, str] = {}

    def render(
        self, rows: Sequence[ContainerSeries], *, totals: Totals | None = None, openmetrics: bool = False
    ) -> tuple[str, int]:
        """Write all families over all rows.

        Args:
            rows: One for each container. Of rows with the same labels (a container and the one that took its place)
                the last counts, since Prometheus refuses a page that holds a series twice.
            totals: Counters read at this moment; they stand in for those of the rows, which are as old as the rows.
            openmetrics: Write counters' families without ``_total`` and units as OpenMetrics wants them.

        Returns:
            The text, empty without rows; and how many series were left out because of the cap or equal labels.
            The cap leaves out whole containers, the last in order of namespace, pod, container: always the same ones.
        """
        by_labels = {row.labels: row for row in rows}
        dropped = sum(_series_of(row, totals) for row in rows if by_labels[row.labels] is not row)
        shown = list(by_labels.values())
        # SERIES_PER_CONTAINER is the most that one can have, so the usual page need not be counted.
        if len(shown) * SERIES_PER_CONTAINER > self._max_series:
            shown, left_out = self._capped(shown, totals)
            dropped += left_out
        cache = self._labels
        self._labels = labels = {row.labels: cache.get(row.labels) or _label_text(row.labels) for row in shown}
        texts = list(labels.values())
        parts: list[str] = []
        for family in FAMILIES:
            sample = f"{family.name}_total" if family.kind == "counter" else family.name
            lines: list[str] = []
            write: Callable[[float], str] = family.write  # type: ignore[assignment]  # a field and its writer agree
            for quantile, field_name in family.fields:
                head, tail = f"{sample}{{", f"{quantile}}} "
                if totals is not None and field_name in _TOTALS:
                    column = _TOTALS[field_name]
                    values = [totals[row.labels][column] if row.labels in totals else None for row in shown]
                else:
                    values = [getattr(row, field_name) for row in shown]
                lines += [
                    f"{head}{text}{tail}{write(value)}\n"
                    for text, value in zip(texts, values, strict=True)
                    if value is not None
                ]
            if lines:
                name = family.name if openmetrics else sample
                unit = f"# UNIT {name} {family.unit}\n" if openmetrics and family.unit else ""
                parts.append(f"# HELP {name} {family.text}\n# TYPE {name} {family.kind}\n{unit}")
                parts += lines
        return "".join(parts), dropped

    def _capped(self, rows: list[ContainerSeries], totals: Totals | None) -> tuple[list[ContainerSeries], int]:
        shown: list[ContainerSeries] = []
        room = self._max_series
        dropped = 0
        for row in sorted(rows, key=lambda row: row.labels):
            size = _series_of(row, totals)
            if dropped or size > room:
                dropped += size
            else:
                shown.append(row)
                room -= size
        return shown, dropped


def _series_of(row: ContainerSeries, totals: Totals | None) -> int:
    counters = row if totals is None else totals.get(row.labels, ContainerTotals())
    names = (name for family in FAMILIES for _, name in family.fields)
    return sum(getattr(counters if name in _TOTALS else row, name) is not None for name in names)


def escaped(value: str) -> str:
    r"""Return a label's value as the exposition format has it, which is UTF-8.

    A cgroup's name may hold any bytes. Those that are no text are spelled out, ``\\udcff``: names that differ stay so.
    """
    text = value if value.isascii() else value.encode(errors="backslashreplace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _label_text(labels: Labels) -> str:
    namespace, pod, container = map(escaped, labels)
    return f'namespace="{namespace}",pod="{pod}",container="{container}"'
