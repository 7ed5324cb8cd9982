"""Answers of the policies other than ``cruise``, worked out in the background from the store's sketches. Webhook.

``vpa``, ``crane`` and ``plimsoll`` learn minute by minute, and their states are too large to be kept of every workload.
So for the workloads for which they are required (``preparing``), or that are asked about by an estimate, their hours
are read from the store, unfolded into minutes (``history.workloads.sketch_minutes`` says how, and what is lost), and
the same policies are run over them as on a node, from an empty state. Before that is done there is no answer by them
(``cruise`` stands in for ``plimsoll``), and an answer is at most as old as ``rebuild_seconds`` and one round: of a
fortnight 64 containers take 2 to 3 s of a CPU, and under ``plimsoll``, which remembers seven days, 0.8 s.

How far that is from the policy fed with the real minutes: measured in the test of this module, over eight days of the
six generated traces. ``vpa`` is the same to the number in five of them and one bucket of its own histogram higher in
CPU in the sixth (bursts: 182m for 163m, its percentile stands at the foot of the bursts); memory is the same. ``crane``
is the same in all; ``plimsoll``, which looks at the last quarter of each hour, is up to 1 % off either way in CPU.

An answer is for the workload as a whole, all node classes together. Of DaemonSets, whose pods differ by where they
run, there is one for each class, and the largest of them is that of the workload. Imported hours count where no agent
told of the hour, with what is added to them (``core.history.workloads.imported``).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Annotated, Final, NamedTuple

import numpy as np

from agent.core.cluster.workload import DAEMON_SET_KIND, Workload
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.history.reports.rollup import NodeClass
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS, MINUTES_PER_HOUR, hour_of
from agent.core.history.workloads.hour_sketch import HourSketch, cpu_percentile_millicores, memory_percentile_bytes
from agent.core.history.workloads.imported import is_imported, widen
from agent.core.history.workloads.node_claims import Most, NodeClaim, claim_of
from agent.core.history.workloads.node_peaks import Leaders
from agent.core.history.workloads.sketch_key import SketchKey
from agent.core.history.workloads.sketch_minutes import unfold
from agent.core.numbers.allowed_range import Between
from agent.core.numbers.arrays import Floats
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.policy import Policy, Present
from agent.core.recommender.registry import PolicyOptions, make, remembered_days
from agent.webhook.store.entries.sketch_bytes import BadSketchError, decode, is_readable, leaders_of
from agent.webhook.store.shapes import StoreAway, StoredSketch
from agent.webhook.workloads.estimates import BASE_RATIO, PolicyAnswer
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.percentiles import SketchSource
from agent.webhook.workloads.policy_demand import Key, Place

log = logging.getLogger(__name__)

BATCH_CONTAINER_DAYS: Final = 64 * 14
"""Worked out together: a minute costs little more for many rows than for few. Their sketches take about 10 MB."""
DAY_HOURS: Final = 24

Row = tuple[Workload, str, NodeClass | None]
"""What a policy learns as one: a container of a workload and, of DaemonSets, the class of nodes."""


class _ReadSketch(NamedTuple):
    """One sketch of an hour."""

    row: int
    payload: bytes
    is_imported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildOptions:
    """How often the policies other than cruise are worked out."""

    rebuild_seconds: Annotated[float, Between(60, 86_400)] = 3600.0
    """Seconds after which an answer is worked out again."""


class Rebuilder:
    """Works out the answers of the policies that are required, from the store's sketches. One thread."""

    def __init__(
        self,
        store: SketchSource,
        index: WorkloadIndex,
        policies: PolicyOptions,
        options: RebuildOptions,
        *,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin; ``pause`` is called after each hour that policies learnt: some ten milliseconds."""
        self._store = store
        self._index = index
        self._policies = policies
        self._options = options
        self._pause = pause

    def rebuild(self, now_unix_seconds: float) -> int:
        """Work out the most urgent of what is due, some dozens of containers; call it by a thread that has time.

        Returns:
            How many workloads were worked out; 0 = nothing is due. With the store away none, and what was answered
            before stays.
        """
        batch = self._batch(self._index.due(self._options.rebuild_seconds, now_unix_seconds))
        try:
            if batch:
                self._rebuild(batch, now_unix_seconds)
        except StoreAway as error:
            log.warning("policies not worked out: store away", extra={"reason": str(error)})
            return 0
        except Exception:
            # Or the same ones would be tried again and again, and all others wait.
            for key in batch:
                self._index.answer(*key, None, now_unix_seconds=now_unix_seconds)
            raise
        return len(batch)

    def _batch(self, due: Sequence[Key]) -> list[Key]:
        batch: list[Key] = []
        containers = 0
        for policy, workload in due:
            if policy is due[0][0]:
                batch.append((policy, workload))
                containers += len({_row(place) for place in self._index.places(workload)})
                if containers * self._days(policy) >= BATCH_CONTAINER_DAYS:
                    break
        return batch

    def _rebuild(self, batch: list[Key], now_unix_seconds: float) -> None:
        forgettings = self._index.forgettings  # before any sketch is read
        rows: dict[Row, int] = {}
        places: dict[str, SketchKey] = {}
        for _, workload in batch:
            for place in self._index.places(workload):
                places[str(place)] = place
                rows.setdefault(_row(place), len(rows))
        by_hour = self._read(batch[0][0], places, rows, now_unix_seconds)
        most = self._most(by_hour, list(rows))
        # What bounds them is the largest node alone, whatever the workload.
        most_imported = self._index.bounds(batch[0][1], "", NodeClaim(), NodeClaim())
        policy = make(batch[0][0], self._policies, len(rows), requests_only=True)
        newest: dict[int, HourSketch] = {}
        for hour in sorted(by_hour):
            read = by_hour.pop(hour)
            sketches = _merged(hour, [row_sketch for row_sketch in read if not row_sketch.is_imported])
            for row, sketch in sketches.items():
                sketch.cut(most[row])
            for row, sketch in _merged(hour, [row_sketch for row_sketch in read if row_sketch.is_imported]).items():
                widen(sketch)
                sketch.cut(most_imported)
                sketches[row] = sketch
            newest |= sketches
            self._learn(policy, hour, sketches, len(rows), now_unix_seconds)
            self._pause()
        answers = _answers(policy, rows, newest, now_unix_seconds)
        workload_answers: dict[Workload, dict[Place, PolicyAnswer]] = {workload: {} for _, workload in batch}
        for (workload, container, node_class), row in rows.items():
            if row not in newest:
                continue
            of_workload = workload_answers[workload]
            of_workload[container, node_class] = answers[row]
            if node_class is not None:
                of_workload[container, None] = _larger(of_workload.get((container, None)), answers[row])
        for name, workload in batch:
            self._index.answer(
                name, workload, workload_answers[workload], now_unix_seconds=now_unix_seconds, forgettings=forgettings
            )

    def _days(self, policy: PolicyName) -> int:
        kept_days = self._index.options.retention_days
        return min(kept_days, remembered_days(policy) or kept_days)

    def _read(
        self, policy: PolicyName, places: Mapping[str, SketchKey], rows: Mapping[Row, int], now_unix_seconds: float
    ) -> dict[int, list[_ReadSketch]]:
        """Read the sketches by hour; imported ones where no agent told of the hour of their container."""
        last = hour_of(now_unix_seconds)
        hours = range(last - self._days(policy) * DAY_HOURS, last + 1)
        by_hour: dict[int, list[_ReadSketch]] = defaultdict(list)
        own: set[tuple[Workload, str, int]] = set()
        imported: list[tuple[SketchKey, StoredSketch]] = []
        for stored in self._store.sketches_of(list(places), hours):
            place = places[stored.key]
            if is_imported(place):
                imported.append((place, stored))
                continue
            own.add((place.workload, place.container, stored.unix_hour))
            by_hour[stored.unix_hour].append(_ReadSketch(rows[_row(place)], stored.payload, False))
        for place, stored in imported:
            if (place.workload, place.container, stored.unix_hour) not in own:
                by_hour[stored.unix_hour].append(_ReadSketch(rows[_row(place)], stored.payload, True))
        return by_hour

    def _most(self, by_hour: Mapping[int, Sequence[_ReadSketch]], rows: Sequence[Row]) -> list[Most]:
        """Return up to what the claims of nodes count, by row: all hours and classes of nodes together bound them."""
        seen = [(Leaders(), Leaders()) for _ in rows]
        for sketches in by_hour.values():
            for row, payload, is_from_import in sketches:
                if is_readable(payload) and not is_from_import:
                    (cpu, memory), (more_cpu, more_memory) = seen[row], leaders_of(payload)
                    seen[row] = cpu.merged(more_cpu), memory.merged(more_memory)
        classes: dict[tuple[Workload, str], list[tuple[tuple[Leaders, Leaders], int]]] = defaultdict(list)
        for (workload, container, node_class), leaders in zip(rows, seen, strict=True):
            classes[workload, container].append((leaders, 1 if node_class is None else node_class.cpus))
        return [
            self._index.bounds(
                workload,
                container,
                *(
                    claim_of([(pair[resource], cpus) for pair, cpus in classes[workload, container]], by_size=True)
                    for resource in (0, 1)
                ),
            )
            for workload, container, _ in rows
        ]

    @staticmethod
    def _learn(policy: Policy, hour: int, sketches: dict[int, HourSketch], rows: int, now_unix_seconds: float) -> None:
        minutes = unfold(hour, sketches, rows)
        until = min(int(now_unix_seconds // 60) - hour * MINUTES_PER_HOUR, MINUTES_PER_HOUR)
        for minute in range(until):
            policy.fold(minutes.minute(minute))
        for row, sketch in sketches.items():
            if sketch.kills.count:
                policy.record_oom(
                    row,
                    OutOfMemory(
                        unix_seconds=float(min(sketch.kills.newest_unix_seconds, (hour + 1) * HOUR_SECONDS)),
                        usage_bytes=sketch.kills.largest_bytes or None,
                    ),
                )


def _row(place: SketchKey) -> Row:
    node_class = place.place if place.workload.kind == DAEMON_SET_KIND and isinstance(place.place, NodeClass) else None
    return place.workload, place.container, node_class


def _larger(answer: PolicyAnswer | None, other: PolicyAnswer) -> PolicyAnswer:
    """Return the larger of each resource; what one of them cannot say is as the other says."""
    if answer is None:
        return other
    return PolicyAnswer(
        cpu_request_millicores=_largest(answer.cpu_request_millicores, other.cpu_request_millicores),
        memory_request_bytes=_largest(answer.memory_request_bytes, other.memory_request_bytes),
    )


def _largest(*amounts: int | None) -> int | None:
    return max((amount for amount in amounts if amount is not None), default=None)


def _merged(hour: int, row_sketches: list[_ReadSketch]) -> dict[int, HourSketch]:
    merged: dict[int, HourSketch] = {}
    for row, payload, _ in row_sketches:
        try:
            sketch = decode(payload, hour, with_pods=False)
        except BadSketchError as error:
            log.warning("sketch unreadable", extra={"reason": str(error)})
            continue
        if row in merged:
            merged[row].merge(sketch)
        else:
            merged[row] = sketch
    return merged


def _answers(
    policy: Policy, rows: dict[Row, int], newest: dict[int, HourSketch], now_unix_seconds: float
) -> dict[int, PolicyAnswer]:
    """Ask the policy for all rows; the base is the P75 of each one's newest hour."""
    count = len(rows)
    cpu, memory = np.zeros(count), np.zeros(count)
    has_cpu, has_memory = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    for row, sketch in newest.items():
        has_cpu[row], has_memory[row] = sketch.demand.count > 0, sketch.memory.count > 0
        cpu[row] = cpu_percentile_millicores(sketch.demand, BASE_RATIO) or 0.0
        memory[row] = memory_percentile_bytes(sketch.memory, BASE_RATIO) or 0.0
    containers: dict[Workload, set[str]] = defaultdict(set)
    for workload, container, _ in rows:
        containers[workload].add(container)
    present = Present(
        cpu_base_millicores=cpu,
        has_cpu=has_cpu,
        memory_base_bytes=memory,
        has_memory=has_memory,
        pod_containers=np.array([len(containers[workload]) for workload, _, _ in rows], dtype=np.int64),
        wants_whole_cores=np.zeros(count, dtype=np.bool_),
    )
    proposals = policy.recommend(np.arange(count), present, now_unix_seconds=now_unix_seconds)
    return {
        row: PolicyAnswer(
            cpu_request_millicores=_whole(proposals.cpu_request_millicores, row) if proposals.has_cpu[row] else None,
            memory_request_bytes=_whole(proposals.memory_request_bytes, row) if proposals.has_memory[row] else None,
        )
        for row in range(count)
    }


def _whole(amounts: Floats, row: int) -> int:
    return ceil(float(amounts[row]))
