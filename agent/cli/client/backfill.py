"""The walk over a Prometheus' past: namespace by namespace and day by day, folded to hours of workloads. Face.

Days are asked for in slices of six hours, and pods in groups, so that no question weighs much on who answers; the
newest day comes first. A day is handed over when all of it was read: who breaks off leaves whole hours behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from agent.cli.client.prometheus import PrometheusError, PrometheusReader
from agent.cli.text.figures import counted
from agent.core.cluster.workload import POD_KIND, REPLICA_SET_KIND, Workload
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.history.workloads.imported import ImportedHour
from agent.core.history.workloads.scraped_hours import PodContainer, ScrapedNamespace, ScrapedSeries, Signal, hours_of

STEP_SECONDS: Final = 60
SLICE_SECONDS: Final = 6 * HOUR_SECONDS
DAY_SECONDS: Final = 24 * HOUR_SECONDS
GROUP_PODS: Final = 200
"""Of one question; a pod has a few containers, so that some thousand series come at most."""
_CPU: Final = "container_cpu_usage_seconds_total"
_MEMORY: Final = "container_memory_working_set_bytes"
_WAITING: Final = "container_pressure_cpu_waiting_seconds_total"
_THROTTLED: Final = "container_cpu_cfs_throttled_seconds_total"
_KILLED: Final = "kube_pod_container_status_last_terminated_reason"
_LIMIT: Final = "kube_pod_container_resource_limits"
METRICS: Final = (
    _CPU,
    _MEMORY,
    _WAITING,
    _THROTTLED,
    _KILLED,
    _LIMIT,
    "kube_pod_owner",
    "kube_replicaset_owner",
    "kube_job_owner",
)
_DAY_QUERIES: Final = 3
"""For whose the pods are and what was killed."""
NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POD: Final = re.compile(r"[a-z0-9][-a-z0-9.]{0,252}")
_NOBODY: Final = ("", "<none>")
_JOB_KIND: Final = "Job"
_NODE_KIND: Final = "Node"


class Day(NamedTuple):
    """One namespace and whole hours of one UTC day."""

    namespace: str
    start_seconds: int
    end_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelNames:
    """How the labels that tell containers apart are called there."""

    namespace: str = "namespace"
    pod: str = "pod"
    container: str = "container"


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkOptions:
    """What is asked for."""

    days: int
    namespaces: tuple[str, ...] = ()
    """Empty = all that have containers now."""
    matchers: Mapping[str, str] = field(default_factory=dict)
    """Labels that every series must have, such as ``cluster``."""
    names: LabelNames = field(default_factory=LabelNames)
    metric_prefix: str = ""
    """What stands before all names of metrics there."""
    metric_names: Mapping[str, str] = field(default_factory=dict)
    """Metrics that are called otherwise there, by their usual names."""
    rate_window_seconds: int = 120


class HistoryWalk:
    """Reads days; of one Prometheus, by one thread."""

    def __init__(self, reader: PrometheusReader, options: WalkOptions, *, now_unix_seconds: float) -> None:
        self._reader, self._options = reader, options
        self._end_seconds = int(now_unix_seconds // HOUR_SECONDS) * HOUR_SECONDS
        self._has_waiting: bool | None = None
        self.pods_without_owner: set[tuple[str, str]] = set()
        """Namespace and name of those of which nothing says what they belong to."""
        self.bare_pods: set[tuple[str, str]] = set()
        """Of those that belong to nobody, so that nobody sizes them."""
        self.odd_namespaces = 0
        """Names that no namespace has."""

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that are asked for, in order; empty = there are no containers."""
        if self._options.namespaces:
            return tuple(sorted(set(self._options.namespaces)))
        name = self._options.names.namespace
        query = f"count by ({name}) ({self._containers(_MEMORY)})"
        counts = self._reader.now(query, (name,), unix_seconds=self._end_seconds)
        sound = sorted(namespace for (namespace,) in counts if NAMESPACE.fullmatch(namespace))
        self.odd_namespaces = sum(1 for (namespace,) in counts if namespace) - len(sound)
        return tuple(sound)

    def least_queries(self, days: int) -> int:
        """Return how many questions so many days take at least."""
        slices = DAY_SECONDS // SLICE_SECONDS
        return days * (_DAY_QUERIES + slices * (4 if self._knows_waiting() else 2))

    def days(self, namespaces: Sequence[str]) -> list[Day]:
        """Return what is to be read, the newest day first: UTC days, the first and the last perhaps in part."""
        start = self._end_seconds - self._options.days * DAY_SECONDS
        days: list[Day] = []
        end = self._end_seconds
        while end > start:
            begin = max(start, (end - 1) // DAY_SECONDS * DAY_SECONDS)
            days += [Day(namespace, begin, end) for namespace in namespaces]
            end = begin
        return days

    def hours(self, day: Day) -> list[ImportedHour]:
        """Read a day.

        Raises:
            PrometheusError: Something was not answered, or what came cannot be believed.
        """
        owners = self._owners(day)
        if not owners:
            return []
        kills = self._kills(day)
        limits = self._limits(day) if kills else {}
        hours: list[ImportedHour] = []
        for start in range(day.start_seconds, day.end_seconds, SLICE_SECONDS):
            end = min(start + SLICE_SECONDS, day.end_seconds)
            part = Day(day.namespace, start, end)
            cpu, memory = self._rates(_CPU, part, owners), self._signal("{}", _MEMORY, part, owners)
            waiting: Signal = {}
            throttled: Signal = {}
            if self._knows_waiting():
                waiting, throttled = self._rates(_WAITING, part, owners), self._rates(_THROTTLED, part, owners)
            scraped = ScrapedNamespace(
                step_seconds=STEP_SECONDS,
                cpu_cores=cpu,
                waiting_ratio=waiting,
                throttled_ratio=throttled,
                memory_bytes=memory,
                kill_seconds={
                    where: tuple(second for second in seconds if start < second <= end)
                    for where, seconds in kills.items()
                },
                limit_bytes=limits,
            )
            hours += hours_of(scraped, owners)
        return hours

    # -- who owns what ---------------------------------------------------------------------------------------------

    def _owners(self, day: Day) -> dict[str, Workload]:
        pod = self._options.names.pod
        owners: dict[str, Workload] = {}
        pod_owners = self._label_rows("kube_pod_owner", (pod, "owner_kind", "owner_name"), day)
        kinds = {kind for _, kind, _ in pod_owners}
        above: dict[tuple[str, str], tuple[str, str]] = {}
        for kind, metric, label in (
            (REPLICA_SET_KIND, "kube_replicaset_owner", "replicaset"),
            (_JOB_KIND, "kube_job_owner", "job_name"),
        ):
            if kind in kinds:
                for name, owner_kind, owner_name in self._label_rows(metric, (label, "owner_kind", "owner_name"), day):
                    above[kind, name] = owner_kind, owner_name
        for name, kind, owner in pod_owners:
            workload = _top_owner(day.namespace, name, kind, owner, above)
            if workload is None or not _POD.fullmatch(name):
                self.pods_without_owner.add((day.namespace, name))
            elif workload.kind == POD_KIND:  # nobody sizes them, and each is a workload of its own
                self.bare_pods.add((day.namespace, name))
            else:
                owners.setdefault(name, workload)
        return owners

    def _label_rows(self, metric: str, labels: tuple[str, ...], day: Day) -> list[tuple[str, ...]]:
        selector = f"{self._named(metric, day.namespace)}[{day.end_seconds - day.start_seconds}s]"
        query = f"max by ({','.join(labels)}) (max_over_time({selector}))"
        by_labels = self._reader.now(query, labels, unix_seconds=day.end_seconds)
        return sorted(row for row in by_labels if row[0])  # a label of another name is an empty one

    # -- signals ---------------------------------------------------------------------------------------------------

    def _knows_waiting(self) -> bool:
        """Return whether pressure is scraped; asked once, of now."""
        if self._has_waiting is None:
            query = f"count({self._containers(_WAITING)})"
            self._has_waiting = bool(self._reader.now(query, (), unix_seconds=self._end_seconds))
        return self._has_waiting

    def _rates(self, metric: str, day: Day, owners: Mapping[str, Workload]) -> Signal:
        return self._signal(f"rate({{}}[{self._options.rate_window_seconds}s])", metric, day, owners)

    def _signal(self, shape: str, metric: str, day: Day, owners: Mapping[str, Workload]) -> Signal:
        names = self._options.names
        signal: dict[PodContainer, ScrapedSeries] = {}
        for pods in _groups(sorted(owners)):
            selected = shape.format(self._containers(metric, day.namespace, pods))
            for (pod, container), series in self._over(
                f"max by ({names.pod},{names.container}) ({selected})", (names.pod, names.container), day
            ).items():
                signal[PodContainer(pod, container)] = series
        return signal

    def _over(self, query: str, labels: tuple[str, ...], day: Day) -> Mapping[tuple[str, ...], ScrapedSeries]:
        return self._reader.over(
            query,
            labels,
            start_seconds=day.start_seconds + STEP_SECONDS,
            end_seconds=day.end_seconds,
            step_seconds=STEP_SECONDS,
        )

    def _kills(self, day: Day) -> dict[PodContainer, tuple[int, ...]]:
        """Return when kills were first seen: the reason stays until the next end, so its beginning is what counts.

        What stood there before the day began is of another day, or older than anybody knows.
        """
        names = self._options.names
        query = (
            f"max by ({names.pod},{names.container}) "
            f"({self._selector(_KILLED, {names.namespace: day.namespace, 'reason': 'OOMKilled'})})"
        )
        series_of = self._reader.over(
            query,
            (names.pod, names.container),
            start_seconds=day.start_seconds,
            end_seconds=day.end_seconds,
            step_seconds=STEP_SECONDS,
        )
        kills: dict[PodContainer, tuple[int, ...]] = {}
        for (pod, container), series in series_of.items():
            reason_seconds = series.unix_seconds[series.values > 0].tolist()
            new = tuple(
                second
                for before, second in zip([None, *reason_seconds], reason_seconds, strict=False)
                if second > day.start_seconds and (before is None or second - before > STEP_SECONDS)
            )
            if new:
                kills[PodContainer(pod, container)] = new
        return kills

    def _limits(self, day: Day) -> dict[PodContainer, int]:
        names = self._options.names
        labels = (names.pod, names.container)
        selector = self._selector(_LIMIT, {names.namespace: day.namespace, "resource": "memory"})
        span = f"{selector}[{day.end_seconds - day.start_seconds}s]"
        query = f"max by ({','.join(labels)}) (max_over_time({span}))"
        sizes = self._reader.now(query, labels, unix_seconds=day.end_seconds)
        return {PodContainer(pod, container): int(size) for (pod, container), size in sizes.items() if size >= 1}

    # -- selectors -------------------------------------------------------------------------------------------------

    def _containers(self, metric: str, namespace: str | None = None, pods: Sequence[str] = ()) -> str:
        names = self._options.names
        more = [f'{names.pod}!=""', f'{names.container}!=""', f'{names.container}!="POD"']
        if pods:
            more.append(f'{names.pod}=~"{"|".join(pod.replace(".", "[.]") for pod in pods)}"')
        equal = {} if namespace is None else {names.namespace: namespace}
        return self._selector(metric, equal, more)

    def _named(self, metric: str, namespace: str) -> str:
        return self._selector(metric, {self._options.names.namespace: namespace})

    def _selector(self, metric: str, equal: Mapping[str, str], more: Sequence[str] = ()) -> str:
        every = {**equal, **self._options.matchers}
        named = self._options.metric_prefix + self._options.metric_names.get(metric, metric)
        return f"{named}{{{','.join([*(f'{name}={_quoted(value)}' for name, value in every.items()), *more])}}}"


def _top_owner(
    namespace: str, pod: str, kind: str, name: str, above: Mapping[tuple[str, str], tuple[str, str]]
) -> Workload | None:
    """Return the workload of a pod, from its controller; None = it is not known, and never guessed by a name."""
    if kind in _NOBODY or kind == _NODE_KIND:
        return Workload(namespace=namespace, kind=POD_KIND, name=pod)
    if kind in (REPLICA_SET_KIND, _JOB_KIND):
        owner = above.get((kind, name))
        if owner is None:
            return None
        if owner[0] not in _NOBODY:
            kind, name = owner
    return Workload(namespace=namespace, kind=kind, name=name)


def _groups(pods: Sequence[str]) -> Iterator[Sequence[str]]:
    """Return the pods in groups; a single group is asked for as the whole namespace."""
    if len(pods) <= GROUP_PODS:
        yield ()
        return
    for first in range(0, len(pods), GROUP_PODS):
        yield pods[first : first + GROUP_PODS]


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def none_found(walk: HistoryWalk, days: int) -> PrometheusError:
    """Return what to say when nothing was found at all."""
    without = len(walk.pods_without_owner)
    if without:
        return PrometheusError(
            f"{counted(without, 'pod')} found in {counted(days, 'day')} and none whose owner is known; allowed: a "
            "Prometheus with kube_pod_owner and kube_replicaset_owner of kube-state-metrics"
        )
    return PrometheusError(
        f"no container was found in {counted(days, 'day')}; allowed: a Prometheus with {_CPU}, {_MEMORY} of the "
        "kubelets and kube_pod_owner of kube-state-metrics; --label, --label-name, --metric-prefix and --metric-name "
        "for what is called otherwise there"
    )
