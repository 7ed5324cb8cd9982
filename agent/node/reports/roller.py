"""Makes the rows of a report from the rings: of the containers that are there, and of those that have gone meanwhile.

Node. One thread makes rows; the sampling thread leaves out-of-memory kills here. It calls core and holds no rule.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.cluster.pod_index import PodIndex
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.cluster.workload import RUN_KINDS, Workload, workload_of
from agent.core.history.reports.rollup import OutOfMemoryKill, RollupRow, Setback, ShareRow
from agent.core.history.reports.rollup_figures import RollupFigures, rollup_figures, with_short_life
from agent.core.history.reports.rollup_schedule import NS
from agent.core.numbers.arrays import Floats
from agent.core.plan.needs.given_boost import starts_of
from agent.core.window.cold_file import policy_of
from agent.core.window.policy import WindowPolicy
from agent.node.reports.share_fares import ShareFares, ShareGroup
from agent.node.sampling.row_source import Rows, RowSource
from agent.node.sampling.short_lives import ShortLife
from agent.node.sampling.unit_table import UnitTable, WatchedUnit

MAX_GONE: Final = 1000
"""Containers of one interval that have gone before its end, at most: a crash loop makes a new one each time."""
MAX_KILLS: Final = 1000
"""Out-of-memory kills that wait for a row, at most; the oldest go first."""
MAX_KILLS_OF_ROW: Final = 16
"""Those with the most memory are kept: it is what the next size is made of."""
QUALITY_NS: Final = 900 * NS
"""Between two reports that tell how good sizing was: it moves slowly, and is as long as the rest of a row."""
OLDEST_KILL_SECONDS: Final = 3600.0
"""A kill whose container got no row for so long is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner:
    """What the API tells of a container, kept as its pod may be gone when the row is made."""

    workload: Workload
    pod: str
    pod_uid: str
    created_unix_seconds: float | None


@dataclass(slots=True, kw_only=True)
class _SeenContainer:
    unit: WatchedUnit
    owner: _Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class _GoneContainer:
    """A container that went within the interval: its slot is handed to the next, so its figures are taken at once."""

    seen: _SeenContainer
    figures: RollupFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class _EndedContainer:
    """A container that ended young: maybe before it was seen here."""

    seen: _SeenContainer
    life: ShortLife


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kill:
    pod_uid: str
    """As the cgroup has it."""
    container: str
    monotonic_ns: int
    memory_bytes: int | None


class Roller:
    """Makes rows; see the module's docstring."""

    def __init__(
        self,
        *,
        rings: RowSource,  # Read without a lock; what the sampler has overtaken meanwhile is read again
        units: UnitTable,
        policy: Callable[[], WindowPolicy],  # The windows in force
        pods: Callable[[], Iterable[Pod]],  # All pods of the node as the API has them
        unix_seconds: Callable[[int], float],  # UTC of a moment of CLOCK_MONOTONIC; for the pods' age
        # How good sizing was by workload and container
        quality: Callable[[], Mapping[tuple[Workload, str], Floats]] = dict,
        # In which group a pod is of a workload of which a share is enforced; None = there is no share
        share_group: Callable[[Pod], ShareGroup | None] = lambda _: None,
        # The containers that ended young since it was asked last
        short_lives: Callable[[], Iterable[ShortLife]] = tuple,
    ) -> None:
        self._rings, self._units, self._policy = rings, units, policy
        self._pods, self._unix_seconds, self._quality = pods, unix_seconds, quality
        self._fares = ShareFares(share_group)
        self._setbacks: dict[str, tuple[int, str]] = {}
        """By the pod's uid: when its shrink was taken back, of CLOCK_MONOTONIC, and why."""
        self._quality_ns: int | None = None
        """Until when it was told; None = not yet."""
        self._start_ns: int | None = None
        """Where the interval begins that is under way; None = not known yet."""
        self._seen: dict[tuple[str, int], _SeenContainer] = {}
        """By path and inode: who stands behind them, of containers watched at the last look."""
        self._starts: Mapping[str, float] = {}
        """When the boosted starts of pods are over, by the uid of their cgroups."""
        self._gone: deque[_GoneContainer] = deque(maxlen=MAX_GONE)
        self._short_lives = short_lives
        self._ended: deque[_EndedContainer] = deque(maxlen=MAX_GONE)
        self._heard: deque[_Kill] = deque(maxlen=MAX_KILLS)
        self._kills: list[_Kill] = []

    def killed(self, identity: UnitIdentity, *, memory_bytes: int | None, monotonic_ns: int, kills: int = 1) -> None:
        """Handle out-of-memory kills; the sampling thread. Never waits."""
        if identity.pod_uid is None or identity.container is None:
            return
        kill = _Kill(
            pod_uid=identity.pod_uid,
            container=identity.container,
            monotonic_ns=monotonic_ns,
            memory_bytes=memory_bytes or None,
        )
        self._heard.extend([kill] * min(kills, MAX_KILLS_OF_ROW))

    def set_back(self, pod_uid: str, reason: str, *, monotonic_ns: int) -> None:
        """Handle that a pod's shrink is taken back as it fares worse; any thread. Never waits."""
        self._setbacks[pod_uid] = (monotonic_ns, reason)

    def begin(self, start_ns: int) -> None:
        """Set where the interval under way begins, so that those who go before its end are counted from there."""
        self._start_ns = start_ns

    def look(self, now_ns: int) -> None:
        """Take over who has come, and the figures of who has gone; every few seconds, as slots are handed on."""
        self._fares.look(self._pods, now_ns)
        index: PodIndex | None = None
        present: set[tuple[str, int]] = set()
        for unit in self._units.all():
            identity = unit.identity
            if identity.kind is not UnitKind.CONTAINER or identity.pod_uid is None or identity.container is None:
                continue
            key = _instance_of(unit)
            present.add(key)
            seen = self._seen.get(key)
            if seen is None:
                if index is None:
                    pods = tuple(self._pods())
                    index = PodIndex(pods)
                    self._starts = {**self._starts, **starts_of(pods)}
                owner = _owner_of(identity, index)
                if owner is not None:
                    self._seen[key] = _SeenContainer(unit=unit, owner=owner)
            else:
                seen.unit = unit
        for key in self._seen.keys() - present:
            self._take_gone(self._seen.pop(key), now_ns)
        self._take_short_lives()

    def _take_short_lives(self) -> None:
        lives = list(self._short_lives())
        if not lives:
            return
        index = PodIndex(self._pods())
        for life in lives:
            owner = _owner_of(life.unit.identity, index)
            if owner is not None and owner.workload.kind not in RUN_KINDS:  # of Jobs the runs tell
                self._ended.append(_EndedContainer(seen=_SeenContainer(unit=life.unit, owner=owner), life=life))

    def _take_gone(self, seen: _SeenContainer, now_ns: int) -> None:
        if self._start_ns is None:
            return
        figures = self._figures_of(seen.unit, self._policy(), self._start_ns, now_ns)
        if figures is not None:
            self._gone.append(_GoneContainer(seen=seen, figures=figures))

    def rows(self, start_ns: int, end_ns: int) -> tuple[RollupRow, ...]:
        """Return the rows of an interval, (start, end] of CLOCK_MONOTONIC, and begin the next one.

        Args:
            start_ns: The end of the interval before, as a rule.
            end_ns: Some seconds ago, so that what was read up to it is in the rings.
        """
        self.look(end_ns)
        shares = self._fares.end(self._pods())
        self._kills += [self._heard.popleft() for _ in range(len(self._heard))]
        if self._starts:  # by now they may be over
            self._starts = starts_of(self._pods())
        policy = self._policy()
        instances = self._found_gone(start_ns)
        for seen in self._seen.values():
            figures = self._figures_of(seen.unit, policy, start_ns, end_ns)
            if figures is not None:
                instances.append((seen, figures))
        kills = self._take_kills(end_ns)
        unix_seconds = self._unix_seconds(end_ns)
        rows = [
            # Of several instances of one container the newest tells of the kills.
            _row(seen, figures, kills.pop(_key_of(seen.unit.identity), ()), end_ns, unix_seconds)
            for seen, figures in reversed(instances)
        ]
        rows = list(self._with_setbacks((_with_share(row, shares) for row in rows), end_ns))
        self._kills += [kill for left in kills.values() for kill in left]
        self.begin(end_ns)
        return tuple(self._with_quality(sorted(rows, key=lambda row: (row.workload, row.pod, row.container)), end_ns))

    def _found_gone(self, start_ns: int) -> list[tuple[_SeenContainer, RollupFigures]]:
        """Record those that have gone, and those that ended young whether they were seen here or not."""
        by_instance = {_instance_of(gone.seen.unit): (gone.seen, gone.figures) for gone in self._gone}
        self._gone.clear()
        for ended in self._ended:
            life, key = ended.life, _instance_of(ended.seen.unit)
            seen, figures = by_instance.get(key, (ended.seen, None))
            life_seconds = (life.ended_ns - max(life.started_ns, start_ns)) / NS
            by_instance[key] = seen, with_short_life(figures, life.working_set_bytes, life_seconds=life_seconds)
        self._ended.clear()
        return list(by_instance.values())

    def _with_setbacks(self, rows: Iterable[RollupRow], end_ns: int) -> Iterator[RollupRow]:
        """Add to one row of each pod that its shrink was taken back; what comes later waits."""
        for row in rows:
            setback = self._setbacks.get(row.pod_uid)
            if setback is None or setback[0] > end_ns:
                yield row
                continue
            del self._setbacks[row.pod_uid]
            yield replace(row, setback=Setback(age_seconds=(end_ns - setback[0]) / NS, reason=setback[1]))

    def _with_quality(self, rows: Sequence[RollupRow], end_ns: int) -> Iterator[RollupRow]:
        """Add to the first row of each container of a workload how good its sizing was, when it is time."""
        if not rows or (self._quality_ns is not None and end_ns - self._quality_ns < QUALITY_NS):
            yield from rows
            return
        self._quality_ns = end_ns
        untold = dict(self._quality())
        for row in rows:
            figures = untold.pop((row.workload, row.container), None)
            yield row if figures is None else replace(row, quality=tuple(map(tuple, figures.tolist())))

    def _take_kills(self, end_ns: int) -> dict[tuple[str, str], Sequence[_Kill]]:
        """Take the kills that are to be told by now, by cgroup uid and container; later ones wait."""
        oldest_ns = end_ns - int(OLDEST_KILL_SECONDS * NS)
        by_container: defaultdict[tuple[str, str], list[_Kill]] = defaultdict(list)
        for kill in self._kills:
            if oldest_ns <= kill.monotonic_ns <= end_ns:
                by_container[kill.pod_uid, kill.container].append(kill)
        self._kills = [kill for kill in self._kills if kill.monotonic_ns > end_ns]
        return dict(by_container)

    def _steady_ns(self, identity: UnitIdentity, end_ns: int) -> int:
        """Return since when a container's CPU counts: since its pod's boosted start was over; 0 = since ever."""
        over = self._starts.get(identity.pod_uid or "")
        return 0 if over is None else max(0, end_ns + int((over - self._unix_seconds(end_ns)) * NS))

    def _figures_of(self, unit: WatchedUnit, policy: WindowPolicy, start_ns: int, end_ns: int) -> RollupFigures | None:
        """Return the figures of a unit; None = nothing was measured, or its slot is another's by now."""
        raw, memory = self._rings.raw(unit.slot), self._rings.memory(unit.slot)
        begin_ns = self._steady_ns(unit.identity, end_ns)
        policy = policy_of(policy, unit.resources)

        def summed_up(raw_pieces: Sequence[Rows], memory_pieces: Sequence[Rows]) -> RollupFigures | None:
            return rollup_figures(
                raw_pieces, memory_pieces, policy, start_ns=start_ns, end_ns=end_ns, cpu_start_ns=begin_ns
            )

        figures = summed_up(raw.pieces, memory.pieces)
        if not raw.intact() or not memory.intact():  # the sampler overtook the views
            figures = summed_up((self._rings.raw(unit.slot).joined(),), (self._rings.memory(unit.slot).joined(),))
        # After use: a newcomer's inode stands in the slot before its first row does.
        return figures if self._rings.inode(unit.slot) == unit.inode else None


def _instance_of(unit: WatchedUnit) -> tuple[str, int]:
    return unit.identity.cgroup_path, unit.inode


def _key_of(identity: UnitIdentity) -> tuple[str, str]:
    return identity.pod_uid or "", identity.container or ""


def _owner_of(identity: UnitIdentity, index: PodIndex) -> _Owner | None:
    """Find who a container belongs to; None = the API does not tell, or it is a debug container."""
    pod = index.pod(identity.pod_uid or "")
    container = None if pod is None else pod.container(identity.container or "")
    if pod is None or container is None or container.kind is ContainerKind.EPHEMERAL:
        return None
    return _Owner(
        workload=workload_of(pod), pod=pod.name, pod_uid=pod.uid, created_unix_seconds=pod.created_unix_seconds
    )


def _with_share(row: RollupRow, shares: dict[tuple[str, str], ShareRow]) -> RollupRow:
    # Of several instances of one container one row tells.
    share = shares.pop((row.pod_uid, row.container), None)
    return row if share is None else replace(row, share=share)


def _row(
    seen: _SeenContainer, figures: RollupFigures, kills: Sequence[_Kill], end_ns: int, end_unix_seconds: float
) -> RollupRow:
    owner = seen.owner
    age = None if owner.created_unix_seconds is None else end_unix_seconds - owner.created_unix_seconds
    largest = sorted(kills, key=lambda kill: kill.memory_bytes or 0, reverse=True)[:MAX_KILLS_OF_ROW]
    return RollupRow(
        workload=owner.workload,
        container=seen.unit.identity.container or "",
        pod=owner.pod,
        pod_uid=owner.pod_uid,
        pod_age_seconds=age if age is not None and age >= 0 else None,
        covered_seconds=figures.covered_seconds,
        cpu=figures.cpu,
        cpu_adjusted=figures.cpu_adjusted,
        memory=figures.memory,
        throttled_seconds=figures.throttled_seconds,
        waiting_seconds=figures.waiting_seconds,
        oom_kills=tuple(
            OutOfMemoryKill(age_seconds=(end_ns - kill.monotonic_ns) / NS, memory_bytes=kill.memory_bytes)
            for kill in sorted(largest, key=lambda kill: kill.monotonic_ns)
        ),
        cpu_request_millicores=seen.unit.resources.cpu_request_millicores or 0,
        memory_request_bytes=seen.unit.resources.memory_request_bytes or 0,
    )
