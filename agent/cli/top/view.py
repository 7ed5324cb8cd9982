"""What ``top`` shows, without a terminal: a Snapshot and a view state give rows.

Face. Pure: no clock, no curses. ``kubepods`` and the QoS tiers come first, in any order of rows. A pod's figures over a
window are those of its own cgroup. Where that is not known they are made of its containers' figures, as those of the
newest second always are (whole pods are read at slow ticks), and each says how exact that is:

- now: the sum; exact, as all parts belong to the same moment. With a part missing it is a lower bound.
- P75: the sum of the containers' P75, marked as an estimate: percentiles do not add up, in either direction.
- peak: the sum of the containers' peaks, marked as an upper bound: they need not have peaked together.
- waiting, throttled: the largest of any container; a mean would hide the one that suffers.
- limit: the sum if every container has one, else none: a pod with one unlimited container is unlimited.
- request: the sum of those stated, as the scheduler counts it.
- should: the sum of what is recommended; with a part withheld it is a lower bound, with all of it there is a word why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final

from agent.cli.options.unit_filter import parse_filter
from agent.cli.text.spans import harmless
from agent.cli.top.advice import withheld_now
from agent.cli.words.units import pod_key, unit_name
from agent.core.cluster.unit import UnitKind
from agent.core.recommender.recommendation import RequestSeverity, Withheld
from agent.core.recommender.severity import cpu_severity, memory_severity
from agent.core.window.snapshot import PodStatus, Snapshot, UnitStatus


class Zoom(StrEnum):
    """How near one looks."""

    NODE = "node"
    POD = "pod"
    UNIT = "unit"


class SortKey(StrEnum):
    """What rows are ordered by; figures from the largest down, names from A on."""

    CPU = "cpu"
    P75 = "p75"
    PEAK = "peak"
    WAITING = "waiting"
    THROTTLED = "throttled"
    MEMORY = "memory"
    NAME = "name"
    AGE = "age"


class Exactness(StrEnum):
    """How a figure stands to the true one."""

    EXACT = "exact"
    ESTIMATE = "estimate"
    AT_MOST = "at_most"
    AT_LEAST = "at_least"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with how exact it is; None = not there, never 0."""

    value: float | None
    bound: Exactness = Exactness.EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """From where on a figure is red: only what needs action."""

    waiting_ratio: float = 0.20
    """A fifth of the time some task waits for a CPU: the request is too low or the node is too full."""
    throttled_ratio: float = 0.20
    """A fifth of the time held back by its own cpu.max: the limit is too low."""
    working_set_of_limit_ratio: float = 0.90
    """The rest is less than the usual growth between two looks; then the kernel kills."""
    sample_age_seconds: float = 5.0
    """A longer pause is a gap (core's max_step_seconds): the picture is stale."""


DEFAULT_THRESHOLDS = Thresholds()

ITSELF: Final = "itself"
"""The kind of the row of what is in a pod and in none of its containers."""


class Alarm(StrEnum):
    """Which figure of a row is red."""

    WAITING = "waiting"
    THROTTLED = "throttled"
    MEMORY = "memory"
    AGE = "age"
    OOM = "oom"
    CPU_REQUEST = "cpu_request"
    """Much smaller than recommended."""
    MEMORY_REQUEST = "memory_request"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRow:
    """One line of the table: a pod, or one cgroup."""

    key: str
    name: str
    """For people; harmless for a terminal."""
    namespace: str | None
    kind: str
    """``pod`` or the unit's kind."""
    qos: str | None
    depth: int = 0
    """1 = a container beneath its pod in the expanded view."""
    unit_path: str | None = None
    """The cgroup, if the row is one cgroup."""
    containers: int = 1
    cpu_now: Figure
    cpu_p75: Figure
    cpu_peak: Figure
    cpu_request: Figure
    waiting: Figure
    waiting_mean: Figure
    throttled: Figure
    throttled_mean: Figure
    working_set: Figure
    memory_peak: Figure
    memory_limit: Figure
    memory_request: Figure
    cpu_should: Figure
    """The recommended request."""
    cpu_withheld: Withheld | None
    """Why there is none; of a pod only if all of it is withheld."""
    memory_should: Figure
    memory_withheld: Withheld | None
    oom_kills: Figure
    age: Figure
    alarms: frozenset[Alarm] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    """Where the person is; every key gives a new one."""

    zoom: Zoom = Zoom.NODE
    pod: str | None = None
    """Key of the pod looked into."""
    unit_path: str | None = None
    sort: SortKey = SortKey.CPU
    is_reversed: bool = False
    is_expanded: bool = False
    """In the node view: containers beneath their pods."""
    filter_text: str = ""
    selected: str | None = None
    """Key of the selected row: the selection stays with the row when the order changes."""
    first_visible: int = 0
    moment_seconds: float | None = None
    """Paused at this moment of the caller's clock; None = live."""

    @property
    def is_paused(self) -> bool:
        """True while the picture stands still."""
        return self.moment_seconds is not None

    def at_age_seconds(self, now_seconds: float) -> float:
        """Return how far back the picture lies, seconds; 0 = live."""
        return 0.0 if self.moment_seconds is None else max(0.0, now_seconds - self.moment_seconds)


# Rows


def select_units(snapshot: Snapshot, filter_text: str) -> tuple[UnitStatus, ...]:
    """Return the units for which the filter (or FilterError) holds, in the snapshot's order."""
    holds = parse_filter(filter_text)
    return tuple(unit for unit in snapshot.units if holds(unit.identity))


def unit_row(unit: UnitStatus, thresholds: Thresholds = DEFAULT_THRESHOLDS, *, depth: int = 0) -> TopRow:
    """Return the row of one cgroup."""
    cpu, memory, advice = unit.cpu, unit.memory, unit.advice
    return TopRow(
        key=f"unit:{unit.identity.cgroup_path}",
        name=unit_name(unit.identity),
        namespace=None if unit.identity.namespace is None else harmless(unit.identity.namespace),
        kind=unit.identity.kind.value,
        qos=None if unit.identity.qos is None else unit.identity.qos.value,
        depth=depth,
        unit_path=unit.identity.cgroup_path,
        cpu_now=Figure(cpu.last_usage_millicores),
        cpu_p75=Figure(cpu.usage_p75_millicores),
        cpu_peak=Figure(cpu.usage_peak_millicores),
        cpu_request=Figure(unit.resources.cpu_request_millicores),
        waiting=Figure(cpu.last_waiting_ratio),
        waiting_mean=Figure(cpu.waiting_ratio),
        throttled=Figure(cpu.last_throttled_ratio),
        throttled_mean=Figure(cpu.throttled_ratio),
        working_set=Figure(memory.working_set_bytes),
        memory_peak=Figure(memory.working_set_peak_bytes),
        memory_limit=Figure(memory_limit_bytes(unit)),
        memory_request=Figure(unit.resources.memory_request_bytes),
        cpu_should=Figure(None if advice is None else advice.cpu_request_millicores),
        cpu_withheld=None if advice is None else withheld_now(unit, advice, advice.cpu_withheld),
        memory_should=Figure(None if advice is None else advice.memory_request_bytes),
        memory_withheld=None if advice is None else withheld_now(unit, advice, advice.memory_withheld),
        oom_kills=Figure(memory.oom_kills),
        age=Figure(unit.sample_age_seconds),
        alarms=alarms(unit, thresholds),
    )


_READ_SLOWLY: Final = frozenset({UnitKind.POD, UnitKind.TIER})
"""Read at slow ticks only: they are stale when their containers are."""


def memory_limit_bytes(unit: UnitStatus) -> int | None:
    """Return the limit in force: the kernel's word before the pod's."""
    return unit.memory_max_bytes if unit.memory_max_bytes is not None else unit.resources.memory_limit_bytes


def alarms(unit: UnitStatus, thresholds: Thresholds) -> frozenset[Alarm]:
    """Return which of a unit's figures need action; a figure that is not there raises none."""
    working_set, limit = unit.memory.working_set_bytes, memory_limit_bytes(unit)
    raised = {
        Alarm.WAITING: _reaches(unit.cpu.last_waiting_ratio, thresholds.waiting_ratio),
        Alarm.THROTTLED: _reaches(unit.cpu.last_throttled_ratio, thresholds.throttled_ratio),
        Alarm.MEMORY: limit is not None and _reaches(working_set, limit * thresholds.working_set_of_limit_ratio),
        Alarm.AGE: unit.identity.kind not in _READ_SLOWLY
        and _reaches(unit.sample_age_seconds, thresholds.sample_age_seconds),
        Alarm.OOM: _reaches(unit.memory.oom_kills, 1),
    }
    if unit.advice is not None:
        stated, advice = unit.resources, unit.advice
        cpu = cpu_severity(stated.cpu_request_millicores, advice.cpu_request_millicores)
        memory = memory_severity(stated.memory_request_bytes, advice.memory_request_bytes)
        raised[Alarm.CPU_REQUEST] = cpu is RequestSeverity.VERY_SHORT
        raised[Alarm.MEMORY_REQUEST] = memory is RequestSeverity.VERY_SHORT
    return frozenset(alarm for alarm, is_raised in raised.items() if is_raised)


def _reaches(value: float | None, threshold: float) -> bool:
    return value is not None and value >= threshold


def pod_row(
    units: Sequence[UnitStatus], thresholds: Thresholds = DEFAULT_THRESHOLDS, *, pod: PodStatus | None = None
) -> TopRow:
    """Return the row of a pod from all its containers, at least one; the module docstring says how figures add up.

    Args:
        pod: What was measured of the pod as a whole; None = nothing.
    """
    identity = units[0].identity
    parts = [unit_row(unit, thresholds) for unit in units]
    # the pause container has no requests and no limits, and nobody asks for them
    stated = [part for part in parts if part.kind != UnitKind.SANDBOX.value] or parts
    limits = [part.memory_limit.value for part in stated]
    row = TopRow(
        key=pod_key(identity) or f"unit:{identity.cgroup_path}",
        name=harmless(identity.pod or identity.pod_uid or identity.cgroup_path),
        namespace=parts[0].namespace,
        kind="pod",
        qos=parts[0].qos,
        containers=len(stated),
        cpu_now=_sum((part.cpu_now for part in parts), Exactness.EXACT),
        cpu_p75=_sum((part.cpu_p75 for part in parts), Exactness.ESTIMATE),
        cpu_peak=_sum((part.cpu_peak for part in parts), Exactness.AT_MOST),
        cpu_request=_total(part.cpu_request for part in stated),
        waiting=_largest(part.waiting for part in parts),
        waiting_mean=_largest(part.waiting_mean for part in parts),
        throttled=_largest(part.throttled for part in parts),
        throttled_mean=_largest(part.throttled_mean for part in parts),
        working_set=_sum((part.working_set for part in parts), Exactness.EXACT),
        memory_peak=_sum((part.memory_peak for part in parts), Exactness.AT_MOST),
        memory_limit=Figure(None) if None in limits else _total(part.memory_limit for part in stated),
        memory_request=_total(part.memory_request for part in stated),
        cpu_should=_sum((part.cpu_should for part in stated), Exactness.EXACT),
        cpu_withheld=_common(part.cpu_withheld for part in stated),
        memory_should=_sum((part.memory_should for part in stated), Exactness.EXACT),
        memory_withheld=_common(part.memory_withheld for part in stated),
        oom_kills=_total(part.oom_kills for part in parts),
        age=_largest(part.age for part in parts),
        alarms=frozenset(alarm for part in parts for alarm in part.alarms),
    )
    return row if pod is None else _measured(row, unit_row(pod.whole, thresholds))


def _measured(row: TopRow, own: TopRow) -> TopRow:
    """Return a pod's row with the figures of its own cgroup for those that were added up, where they are known."""
    return replace(
        row,
        cpu_p75=_known(own.cpu_p75, row.cpu_p75),
        cpu_peak=_known(own.cpu_peak, row.cpu_peak),
        waiting_mean=_known(own.waiting_mean, row.waiting_mean),
        throttled_mean=_largest((own.throttled_mean, row.throttled_mean)),
        working_set=_known(own.working_set, row.working_set),
        memory_peak=_known(own.memory_peak, row.memory_peak),
        memory_limit=_known(own.memory_limit, row.memory_limit),
        oom_kills=_largest((own.oom_kills, row.oom_kills)),
        alarms=row.alarms | (own.alarms & {Alarm.MEMORY, Alarm.OOM}),
    )


def _known(own: Figure, added_up: Figure) -> Figure:
    return added_up if own.value is None else own


def itself_row(pod: PodStatus, *, depth: int = 0) -> TopRow | None:
    """Return the row of what is in a pod and in none of its containers; None = it is not known."""
    if pod.itself_cpu_millicores is None and pod.itself_working_set_bytes is None:
        return None
    row = unit_row(pod.whole, depth=depth)
    figures = {field.name: Figure(None) for field in fields(row) if isinstance(getattr(row, field.name), Figure)}
    figures["cpu_now"] = Figure(pod.itself_cpu_millicores, Exactness.ESTIMATE)  # the mean of a minute
    figures["working_set"] = Figure(pod.itself_working_set_bytes)
    figures["age"] = row.age
    named = replace(row, key=f"itself:{pod.whole.identity.cgroup_path}", name="pod itself", kind=ITSELF)
    return replace(named, alarms=frozenset(), **figures)  # type: ignore[arg-type]  # the fields that are figures


def _common(reasons: Iterable[Withheld | None]) -> Withheld | None:
    """Return the commonest reason; None = something is recommended, or nothing was evaluated."""
    stated = [reason for reason in reasons if reason is not None]
    return max(sorted(set(stated)), key=stated.count) if stated else None


def _values(figures: Iterable[Figure]) -> list[float]:
    return [figure.value for figure in figures if figure.value is not None]


def _total(figures: Iterable[Figure]) -> Figure:
    values = _values(figures)
    return Figure(sum(values) if values else None)


def _largest(figures: Iterable[Figure]) -> Figure:
    return Figure(max(_values(figures), default=None))


def _sum(figures: Iterable[Figure], bound: Exactness) -> Figure:
    parts = list(figures)
    values = _values(parts)
    if not values:
        return Figure(None)
    if len(values) < len(parts):
        # a part is missing: the sum of the rest is too small, and nothing more can be said of P75 and peak
        return Figure(sum(values), Exactness.AT_LEAST if bound is Exactness.EXACT else Exactness.ESTIMATE)
    return Figure(sum(values), bound if len(parts) > 1 else Exactness.EXACT)


_SORT_FIGURES: dict[SortKey, Callable[[TopRow], Figure]] = {
    SortKey.CPU: lambda row: row.cpu_now,
    SortKey.P75: lambda row: row.cpu_p75,
    SortKey.PEAK: lambda row: row.cpu_peak,
    SortKey.WAITING: lambda row: row.waiting,
    SortKey.THROTTLED: lambda row: row.throttled,
    SortKey.MEMORY: lambda row: row.working_set,
    SortKey.AGE: lambda row: row.age,
}


def sort_rows(rows: Iterable[TopRow], sort: SortKey, *, is_reversed: bool) -> list[TopRow]:
    """Order rows; those without the figure come last either way, and equal ones go by name."""
    by_name = sorted(rows, key=lambda row: (row.namespace or "", row.name, row.key))
    if sort is SortKey.NAME:
        return by_name[::-1] if is_reversed else by_name
    figure = _SORT_FIGURES[sort]
    known = [(value, row) for row in by_name if (value := figure(row).value) is not None]
    known.sort(key=lambda pair: pair[0] if is_reversed else -pair[0])
    return [row for _, row in known] + [row for row in by_name if figure(row).value is None]


def build_rows(snapshot: Snapshot, state: ViewState, thresholds: Thresholds = DEFAULT_THRESHOLDS) -> list[TopRow]:
    """Return the rows to show, in order; a filter that cannot be understood is a FilterError.

    In the node view a pod is shown when the filter holds for any of its containers, and its figures are always those
    of the whole pod.
    """
    chosen = select_units(snapshot, state.filter_text)
    pods = {pod_key(pod.whole.identity): pod for pod in snapshot.pods}
    if state.zoom is Zoom.POD:
        units = (unit for unit in chosen if pod_key(unit.identity) == state.pod)
        inside = sort_rows((unit_row(unit, thresholds) for unit in units), state.sort, is_reversed=state.is_reversed)
        return [*inside, *_itself_rows(pods.get(state.pod))] if inside else []
    wanted = {pod_key(unit.identity) for unit in chosen}
    members: dict[str, list[UnitStatus]] = {}
    for unit in snapshot.units:
        key = pod_key(unit.identity)
        if key is not None and key in wanted:
            members.setdefault(key, []).append(unit)
    rows = [pod_row(units, thresholds, pod=pods.get(key)) for key, units in members.items()]
    rows += [unit_row(unit, thresholds) for unit in chosen if pod_key(unit.identity) is None]
    ordered = sort_rows(rows, state.sort, is_reversed=state.is_reversed)
    holds = parse_filter(state.filter_text)
    tiers = [unit_row(tier, thresholds) for tier in snapshot.tiers if holds(tier.identity)]
    if not state.is_expanded:
        return [*tiers, *ordered]
    beneath: dict[str, list[TopRow]] = {}
    for unit in chosen:
        key = pod_key(unit.identity)
        if key is not None:
            beneath.setdefault(key, []).append(unit_row(unit, thresholds, depth=1))
    shown: list[TopRow] = tiers
    for row in ordered:
        containers = beneath.get(row.key, [])
        if len(containers) == 1 and len(members[row.key]) == 1:
            # one container says all that its pod says: one line names both
            shown.append(replace(row, name=f"{row.name}:{containers[0].name}"))
        else:
            shown += [row, *sort_rows(containers, state.sort, is_reversed=state.is_reversed)]
            shown += _itself_rows(pods.get(row.key) if containers else None, depth=1)
    return shown


def _itself_rows(pod: PodStatus | None, *, depth: int = 0) -> list[TopRow]:
    row = None if pod is None else itself_row(pod, depth=depth)
    return [] if row is None else [row]
