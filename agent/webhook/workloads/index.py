"""What all nodes learnt of each workload, in memory: answers admissions and directives without asking anybody.

Webhook; any thread. One lock, held for one row at a time, or while a few are copied: tens of microseconds; while
sketches of the store are loaded, for one piece of them.

A row stands for one container of a workload on all nodes of one class, and for DaemonSets there is another per node.
What is asked of the workload is the largest over its rows. Times are those of the receivers' clocks; a row of a report
counts in the UTC hour that holds the middle of its interval. In which order reports come does not matter, and an index
that was loaded from the store answers as one that took every report itself. Hours that were imported
(``core.history.workloads.imported``) have a row of their own, and count where no agent told of the hour.

Outliers: the largest value of an hour counts, whoever reported it. Values were bounded by the receiver, and what one
node alone claims of a container counts up to four times what any other node saw of it in the hours that are kept, and
never beyond the largest node (``core.workload_claims``). What a DaemonSet's pod is given by the history of its own node
is that node's own word.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from sys import intern
from typing import Final

from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate, is_stood_in_for, standing_in
from agent.core.cluster.facts import WrittenContainer
from agent.core.cluster.workload import DAEMON_SET_KIND, RUN_KINDS, Workload
from agent.core.history.reports.directive import ContainerDirective
from agent.core.history.reports.rollup import ROLLUP_SECONDS, NodeClass, SampledReport, SampledRow
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.history.workloads.hour_sketch import ReportInterval
from agent.core.history.workloads.imported import imported_key
from agent.core.history.workloads.node_claims import Most, NodeClaim, claim_of, most_of
from agent.core.history.workloads.node_peaks import node_number
from agent.core.history.workloads.peak_rings import CPU, MEMORY
from agent.core.history.workloads.sketch_key import SketchKey, keys_of, parse_key
from agent.core.history.workloads.start_figures import LearntStart
from agent.core.orders.plan_options import PlanOptions
from agent.core.orders.policy_options import PolicyName
from agent.core.orders.resolution import listed
from agent.core.orders.run_options import RunOptions
from agent.core.recommender.registry import PolicyOptions
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.store.entries.forget_entry import Forgetting
from agent.webhook.workloads.entries import ContainerEntry, Entries, WorkloadEntry
from agent.webhook.workloads.estimates import (
    AS_TOLD,
    HistoryRows,
    PolicyAnswer,
    cruise_estimate,
    hour_peaks,
    remembered_kills,
    row_history,
    with_answer,
)
from agent.webhook.workloads.loader import LoadedSketches, SketchLoad
from agent.webhook.workloads.others_seen import SeenContainer, others_saw, seen_container
from agent.webhook.workloads.policy_demand import AskedPolicies, Key, Place, Preparation, Tables, due
from agent.webhook.workloads.quality import MergedQuality, NodeQualities
from agent.webhook.workloads.reporting_nodes import ReportingNodes
from agent.webhook.workloads.runs import RunIndex
from agent.webhook.workloads.shapes import (
    ContainerHistory,
    IndexOptions,
    IndexSize,
    MergedHistory,
    NodeSeen,
    RowHistory,
    WorkloadSeen,
)

DAY_SECONDS: Final = 86_400
SIZED_KINDS: Final = listed(PlanOptions().managed_kinds)
MIN_AGE_SECONDS: Final = PlanOptions().min_age_seconds
PASSING_SECONDS: Final = 3600
"""Seconds without a report after which a workload that is never sized is forgotten: each run of a job, each bare pod is
a workload of its own, and those of a fortnight would leave no room for the others."""
COPIED_AT_ONCE: Final = 16
"""Containers whose rows are copied under one hold of the lock: 55 microseconds, measured."""
_NAMED: Final = attrgetter("namespace", "kind", "name")


class WorkloadIndex:
    """The history of all workloads in memory: takes rows of reports, answers estimates and directives."""

    def __init__(
        self,
        options: IndexOptions,
        policies: PolicyOptions,
        *,
        sized_kinds: Collection[str] = SIZED_KINDS,
        min_age_seconds: float = MIN_AGE_SECONDS,
        cluster: ClusterFacts | None = None,
        jobs: RunOptions | None = None,
    ) -> None:
        """Begin empty.

        Args:
            sized_kinds: Of owners whose pods are sized (``plan.managedKinds``); others get new names all the time.
            min_age_seconds: History a workload must have before new pods are sized by it (``plan.minAgeSeconds``).
            jobs: How runs count; None = as by default.
            cluster: What bounds claims; None = neither requests nor nodes are known, and nodes alone bound each other.
        """
        self.options: Final = options
        self.runs: Final = RunIndex(jobs if jobs is not None else RunOptions())
        self._sized_kinds = frozenset(sized_kinds)
        self._min_age_seconds = min_age_seconds
        self._cruise = policies.cruise
        self._cluster = cluster
        self._lock = threading.Lock()
        self._entries = Entries(options)
        self._slots, self._numbers = self._entries.slots, self._entries.numbers
        self._by_class, self._by_node = self._entries.by_class, self._entries.by_node
        self._nodes = ReportingNodes()
        self._qualities = NodeQualities()
        self._rows_without_room = 0
        self._containers_left_out = 0
        self._asked = AskedPolicies()
        self._is_loaded = False
        self._forgettings = 0

    @property
    def forgettings(self) -> int:
        """How often something was forgotten at somebody's order: what was worked out before that may not be so now."""
        return self._forgettings

    @property
    def is_loaded(self) -> bool:
        """The history of the store is in: readiness goes by this."""
        return self._is_loaded

    def loaded(self) -> None:
        """Record that the store's sketches and its log were read to the end."""
        self._is_loaded = True

    # -- learning ---------------------------------------------------------------------------------------------------

    def take(self, report: SampledReport, received_unix_seconds: float) -> None:
        """Learn a report. Only the Tailer calls this: every replica follows the log, with its own reports in it."""
        interval = ReportInterval.of(
            received_unix_seconds=received_unix_seconds,
            end_age_seconds=report.end_age_seconds,
            interval_seconds=report.interval_seconds,
        )
        with self._lock:
            self._entries.open_hour(interval.unix_hour)
            node = self._numbers.give(node_number(report.node), interval.unix_hour)
            node_class = self._entries.interned(report.node_class)
        entries: dict[Workload, WorkloadEntry] = {}
        entry: WorkloadEntry | None = None
        for row in report.rows:
            with self._lock:
                if entry is None or row.workload != entry.workload:  # a workload's rows follow each other
                    entry = entries[row.workload] = self._entries.entry(row.workload)
                self._learn(entry, row, interval, report.node, node, node_class)
        with self._lock:
            self._nodes.see(report, interval, node_class, tuple(entries.values()))

    def _learn(
        self,
        entry: WorkloadEntry,
        row: SampledRow,
        interval: ReportInterval,
        node: str,
        number: int,
        node_class: NodeClass,
    ) -> None:
        container = self._entries.container(entry, row.container)
        if container is None:
            self._containers_left_out += 1
            return
        if row.quality is not None:
            self._qualities.take(entry.workload, container.name, intern(node), row.quality, interval.end_unix_seconds)
        by_class = self._entries.class_row(container, node_class)
        if by_class is not None:
            self._by_class.learn(by_class, row, interval, number)
        by_node = None
        if entry.workload.kind == DAEMON_SET_KIND:
            by_node = self._entries.node_row(container, node)
            if by_node is not None:
                self._by_node.learn(by_node, row, interval, number)
        if by_class is None or (by_node is None and entry.workload.kind == DAEMON_SET_KIND):
            self._rows_without_room += 1

    def learn_again(
        self, report: SampledReport, rows: Iterable[SampledRow], received_unix_seconds: float, *, keys: Collection[str]
    ) -> None:
        """Learn rows of a report that was taken before, but for these histories alone, which were forgotten since."""
        interval = ReportInterval.of(
            received_unix_seconds=received_unix_seconds,
            end_age_seconds=report.end_age_seconds,
            interval_seconds=report.interval_seconds,
        )
        with self._lock:
            self._entries.open_hour(interval.unix_hour)
            node = self._numbers.give(node_number(report.node), interval.unix_hour)
        for row in rows:
            for key in keys_of(row.workload, row.container, report.node, report.node_class):
                if str(key) in keys:
                    with self._lock:
                        location = self._entries.row_of(key)
                        if location is not None:
                            location[0].learn(location[1], row, interval, node)

    def forget(self, forgetting: Forgetting) -> None:
        """Forget a workload, or the histories in which a node had a part, and what was worked out from them."""
        keys = [parse_key(text) for text in forgetting.keys]
        workloads = {key.workload for key in keys}
        if forgetting.workload is not None:
            workloads.add(forgetting.workload)
            self.runs.forget(forgetting.workload)
            with self._lock:
                self._entries.forget(forgetting.workload)
                self._qualities.forget(forgetting.workload)
        for key in keys:
            with self._lock:
                self._entries.forget_row(key)
        with self._lock:
            if forgetting.node is not None:
                self._nodes.forget(forgetting.node)
            self._asked.renew(workloads)
            self._forgettings += 1
            quality_workloads = [] if forgetting.node is None else self._qualities.workloads()
        for workload in quality_workloads:
            with self._lock:
                self._qualities.forget_node(workload, forgetting.node or "")

    # -- the store's sketches ---------------------------------------------------------------------------------------

    def load(self, sketches: LoadedSketches, *, on_piece: Iterator[None] | None = None) -> int:
        """Load all sketches of the store as of one moment; what the index knew of their hours was part of them.

        May be done again when the log was missed: sketches then replace what is known. ``on_piece`` is advanced after
        each few thousand, to let others run.

        Returns:
            How many could not be read: they are left out.
        """
        return SketchLoad(self._entries, self._lock, sized_kinds=self._sized_kinds).run(sketches, on_piece=on_piece)

    def expire(self, now_unix_seconds: float) -> int:
        """Forget what was not reported for the days of ``retention_days``; return how many workloads went.

        Workloads of a kind that is never sized go after ``PASSING_SECONDS``.
        """
        oldest = int(now_unix_seconds) - self.options.retention_days * DAY_SECONDS
        oldest_passing = int(now_unix_seconds) - PASSING_SECONDS
        with self._lock:
            names = list(self._entries.known)
        gone = 0
        for workload in names:
            with self._lock:
                is_gone = self._entries.expire(
                    workload, oldest if workload.kind in self._sized_kinds else oldest_passing
                )
                self._qualities.expire(workload, now_unix_seconds)
                if is_gone:
                    self._qualities.forget(workload)
            gone += is_gone
        with self._lock:
            self._nodes.expire(oldest)
        self.runs.expire(now_unix_seconds)
        return gone

    # -- asking -----------------------------------------------------------------------------------------------------

    def estimate(
        self,
        workload: Workload,
        container: str,
        *,
        policy: PolicyName,
        node: str | None,
        node_class: NodeClass | None,
        now_unix_seconds: float,
        is_ordered: bool = True,
    ) -> Estimate | NoEstimate:
        """Return what a new pod's container needs.

        ``cruise``: the request is the predicted peak, by the rules of the policy's module; see ``Slots.predicting``
        for the last hour. Other policies: their requests for the workload as a whole, and for DaemonSets on the nodes
        of one class, worked out in the background (``rebuilder``); asking is what has it done where nobody has
        required it. Until then ``cruise`` stands in for ``plimsoll``, and for a DaemonSet's pod whose own node has a
        history always; of the policies that are to be exact the answer is NOT_LOADED.

        Args:
            node: Where a DaemonSet's pod will run; its own history there is taken if it is old enough.
            node_class: Where any pod will run, else; None = not known yet.
            is_ordered: The policy is ordered by somebody who may; False = by a review, which anybody may send: asking
                has nothing worked out then.

        Returns:
            NoEstimate when the workload is not known, or younger than ``plan.minAgeSeconds``.
        """
        if not self._is_loaded:
            return NoEstimate.NOT_LOADED
        if workload.kind in RUN_KINDS:
            cluster = self._cluster
            return self.runs.estimate(
                workload,
                container,
                policy=policy,
                now_unix_seconds=now_unix_seconds,
                written=lambda: None if cluster is None else cluster.written(workload).get(container),
            )
        with self._lock:
            entry = self._entries.known.get(workload)
            if entry is None:
                return NoEstimate.UNKNOWN_WORKLOAD
            container_entry = entry.find(container)
            if container_entry is None:
                return NoEstimate.UNKNOWN_CONTAINER
            if policy is PolicyName.CRUISE:
                return self._predicted(entry, container_entry, node, node_class, now_unix_seconds)
            answer = self._answered(entry, container_entry, policy, node_class, now_unix_seconds, is_ordered=is_ordered)
            has_own_node = node is not None and container_entry.nodes is not None and node in container_entry.nodes
            if not is_stood_in_for(policy) or (isinstance(answer, Estimate) and not has_own_node):
                return answer
            predicted = self._predicted(entry, container_entry, node, node_class, now_unix_seconds)
            if isinstance(predicted, NoEstimate):
                return predicted
            is_nearer = predicted.source is EstimateSource.NODE
            return answer if isinstance(answer, Estimate) and not is_nearer else standing_in(predicted, policy)

    def start(self, workload: Workload, container: str, *, now_unix_seconds: float) -> LearntStart | None:
        """Return what the starts of a workload's pods say of the next one; None = too little is known."""
        cluster = self._cluster
        return self.runs.start(
            workload,
            container,
            now_unix_seconds=now_unix_seconds,
            written=lambda: None if cluster is None else cluster.written(workload).get(container),
        )

    def _all_rows(self, container: ContainerEntry, workload: Workload) -> HistoryRows:
        """Return all rows by class, with the imported one."""
        most = AS_TOLD
        if container.imported is not None:
            most = self.bounds(workload, container.name, NodeClaim(), NodeClaim())
        return HistoryRows(table=self._by_class, rows=container.rows, imported=container.imported, imported_most=most)

    def _predicted(
        self,
        entry: WorkloadEntry,
        container: ContainerEntry,
        node: str | None,
        node_class: NodeClass | None,
        now_unix_seconds: float,
    ) -> Estimate | NoEstimate:
        """Return the estimate of ``cruise``, by the nearest history that is old enough."""
        for source, history in self._sources(entry, container, node, node_class):
            if self._is_old_enough(history, now_unix_seconds):
                return self._estimated(source, entry, container, history, now_unix_seconds)
        return NoEstimate.TOO_YOUNG

    def _answered(
        self,
        entry: WorkloadEntry,
        container: ContainerEntry,
        policy: PolicyName,
        node_class: NodeClass | None,
        now_unix_seconds: float,
        *,
        is_ordered: bool,
    ) -> Estimate | NoEstimate:
        """Return the estimate by the nearest answer; of DaemonSets there is one for each class of nodes."""
        if not is_ordered and is_stood_in_for(policy) and not self._asked.is_answered(policy, entry.workload):
            return NoEstimate.NOT_LOADED  # who stands in says whether the history is old enough
        whole = self._all_rows(container, entry.workload)
        if not self._is_old_enough(whole, now_unix_seconds):
            return NoEstimate.TOO_YOUNG
        if is_ordered:
            self._asked.note(policy, entry.workload, now_unix_seconds)
        for source, history in self._sources(entry, container, None, node_class):
            of_class = node_class if source is EstimateSource.NODE_CLASS else None
            answer = self._asked.answer_of(policy, entry.workload, (container.name, of_class))
            if answer is not None and (history.every == whole.every or self._is_old_enough(history, now_unix_seconds)):
                estimated = self._estimated(source, entry, container, history, now_unix_seconds)
                return with_answer(estimated, policy, answer)
        return NoEstimate.NOT_LOADED

    def _estimated(
        self,
        source: EstimateSource,
        entry: WorkloadEntry,
        container: ContainerEntry,
        history: HistoryRows,
        now_unix_seconds: float,
    ) -> Estimate:
        most = self._most(entry.workload, container)
        own = (
            most
            if source is not EstimateSource.NODE
            else self.bounds(entry.workload, container.name, NodeClaim(), NodeClaim())
        )
        nearest = cruise_estimate(
            source, history, slots=self._slots, options=self._cruise, most=own, now_unix_seconds=now_unix_seconds
        )
        # A kill counts wherever it was: as the agents are told.
        kills = remembered_kills(self._all_rows(container, entry.workload), self._cruise, now_unix_seconds)
        largest = max(nearest.oom_memory_bytes or 0, kills.largest_bytes(most) or 0) or None
        return nearest if largest == nearest.oom_memory_bytes else replace(nearest, oom_memory_bytes=largest)

    def _most(self, workload: Workload, container: ContainerEntry) -> Most:
        """Return up to what the claims of nodes count, over all classes of nodes."""
        leaders = self._by_class.leaders(container.rows)
        cpus, is_by_size = [node_class.cpus for node_class, _ in container.classes], workload.kind == DAEMON_SET_KIND
        cpu, memory = (
            claim_of(zip((pair[resource] for pair in leaders), cpus, strict=True), by_size=is_by_size)
            for resource in (CPU, MEMORY)
        )
        return self.bounds(workload, container.name, cpu, memory)

    def bounds(
        self,
        workload: Workload,
        container: str,
        cpu: NodeClaim,
        memory: NodeClaim,
        *,
        written_of: Callable[[Workload], Mapping[str, WrittenContainer]] | None = None,
    ) -> Most:
        """Return up to what the claims of nodes count; none = the word of one node on its own pods.

        ``written_of`` returns a workload's requests as written, None = as the cluster knows them now: for who asks
        about many containers of few workloads.
        """
        if self._cluster is None:
            return most_of(cpu, memory)
        # Where no other node saw anything no floor is needed, which is the rule.
        is_bounded = cpu.others or memory.top
        written = (written_of or self._cluster.written)(workload).get(container) if is_bounded else None
        return most_of(cpu, memory, written=written, largest=self._cluster.largest_allocatable())

    def _sources(
        self, entry: WorkloadEntry, container: ContainerEntry, node: str | None, node_class: NodeClass | None
    ) -> Iterator[tuple[EstimateSource, HistoryRows]]:
        """Return whose histories there are, the nearest first.

        An import does not tell on what nodes it was: of a DaemonSet, whose pods differ by where they run, it counts
        for the workload as a whole alone.
        """
        if node is not None and container.nodes is not None and node in container.nodes:
            yield EstimateSource.NODE, HistoryRows(table=self._by_node, rows=(container.nodes[node],))
        alike = tuple(row for known, row in container.classes if known == node_class)
        whole = self._all_rows(container, entry.workload)
        if alike:
            is_by_class = entry.workload.kind == DAEMON_SET_KIND
            nearest = HistoryRows(table=self._by_class, rows=alike) if is_by_class else replace(whole, rows=alike)
            yield EstimateSource.NODE_CLASS, nearest
        if whole.every:
            yield EstimateSource.WORKLOAD, whole

    def _is_old_enough(self, history: HistoryRows, now_unix_seconds: float) -> bool:
        """Return whether there is enough history in the last seven days: what is older is no part of any prediction."""
        table, rows = history.table, history.every
        if not rows:
            return False
        first = min(int(table.first[row]) for row in rows)
        last = max(int(table.last[row]) for row in rows)
        if now_unix_seconds - first < self._min_age_seconds or last <= now_unix_seconds - 7 * DAY_SECONDS:
            return False
        known = self._slots.hours[table.rings.peaks(rows).any(axis=0) & self._slots.week(now_unix_seconds)]
        if known.size == 0:
            return True  # reported and without a figure: the estimate says so
        # A row counts in the hour of its middle, so its beginning may lie a little before that.
        oldest = int(known.min()) * HOUR_SECONDS - ROLLUP_SECONDS
        return now_unix_seconds - oldest >= self._min_age_seconds

    def directive_of(self, workload: Workload, *, node: str, now_unix_seconds: float) -> tuple[ContainerDirective, ...]:
        """Return what `directives_of` does of one workload."""
        return self.directives_of((workload,), node=node, now_unix_seconds=now_unix_seconds)[0]

    def directives_of(
        self,
        workloads: Sequence[Workload],
        *,
        node: str,
        now_unix_seconds: float,
        pause: Callable[[], None] = lambda: None,
    ) -> list[tuple[ContainerDirective, ...]]:
        """Return the peaks that nodes other than this saw, of each workload by container in order of name.

        Exact for the node asked about, within what a claim counts: of each hour the largest value is kept with its
        node, and the largest of any other node. A container of which nothing is known is left out. ``pause`` is called
        after some containers each time.
        """
        number = self._numbers.find(node_number(node)) or -1
        every = [
            (place, container)
            for place, workload in enumerate(workloads)
            for container in self._containers_of(workload)
        ]
        directives: list[list[ContainerDirective]] = [[] for _ in workloads]
        written_of = None if self._cluster is None else cache(self._cluster.written)
        bounds = partial(self.bounds, written_of=written_of)
        for start in range(0, len(every), COPIED_AT_ONCE):
            seen: list[SeenContainer] = []
            owners: list[int] = []
            rows: list[int] = []
            with self._lock:
                week = self._slots.week(now_unix_seconds)
                for place, container in every[start : start + COPIED_AT_ONCE]:
                    history = self._all_rows(container, workloads[place])
                    if history.every:  # else forgotten meanwhile
                        owners.append(place)
                        rows += history.rows
                        seen.append(
                            seen_container(workloads[place], container, history, self._cruise, now_unix_seconds)
                        )
                planes = self._by_class.rings.copies(rows)
            if seen:
                told_of = others_saw(seen, planes, node=number, week=week, bounds=bounds)
                for place, directive in zip(owners, told_of, strict=True):
                    if directive is not None:
                        directives[place].append(directive)
            pause()
        return [tuple(containers) for containers in directives]

    def _containers_of(self, workload: Workload) -> tuple[ContainerEntry, ...]:
        with self._lock:
            entry = self._entries.known.get(workload)
            return () if entry is None else entry.containers

    def newest_kill(self, workload: Workload) -> float | None:
        """Return when the newest out-of-memory kill of eight days was, Unix seconds; None = there was none."""
        newest: float | None = None
        with self._lock:
            entry = self._entries.known.get(workload)
            for container in () if entry is None else entry.containers:
                for row in self._all_rows(container, workload).every:
                    for kills in self._by_class.kills_of(row):
                        newest = max(newest or 0.0, float(kills.newest_unix_seconds))
        return newest

    def workloads_on(self, node: str) -> tuple[Workload, ...]:
        """Return the workloads of a node's newest report, in order; empty = it has not reported since the start."""
        with self._lock:
            return self._nodes.workloads_on(node)

    def merged(self, workload: Workload) -> MergedHistory | None:
        """Return what is in memory of a workload; None = nothing."""
        with self._lock:
            entry = self._entries.known.get(workload)
            if entry is None:
                return None
            first, last = self._entries.span(entry)
            containers = entry.containers
        return MergedHistory(
            workload=entry.workload,
            first_unix_seconds=first,
            last_unix_seconds=last,
            containers=tuple(self._merged(entry.workload, container) for container in containers),
        )

    def _merged(self, workload: Workload, container: ContainerEntry) -> ContainerHistory:
        with self._lock:
            classes, nodes = container.classes, sorted((container.nodes or {}).items())
            hours = hour_peaks(self._all_rows(container, workload), self._slots)
            imported = None
            if container.imported is not None:
                imported = row_history(self._by_class, container.imported, self._slots)
        # A row that was forgotten since may be another workload's by now.
        by_class: list[RowHistory] = []
        for node_class, row in classes:
            with self._lock:
                if (node_class, row) in container.classes:
                    by_class.append(row_history(self._by_class, row, self._slots, node_class=node_class))
        by_node: list[RowHistory] = []
        for node, row in nodes:
            with self._lock:
                if container.nodes is not None and container.nodes.get(node) == row:
                    by_node.append(row_history(self._by_node, row, self._slots, node=node))
        return ContainerHistory(
            container=container.name, classes=tuple(by_class), nodes=tuple(by_node), hours=hours, imported=imported
        )

    def quality(self, workload: Workload, now_unix_seconds: float) -> MergedQuality | None:
        """Return how good a workload's sizing was, over its containers and all nodes; None = nobody told."""
        with self._lock:
            return self._qualities.of_workload(workload, now_unix_seconds)

    def container_quality(self, workload: Workload, now_unix_seconds: float) -> Mapping[str, MergedQuality]:
        """Return the same of each of its containers of which somebody told."""
        with self._lock:
            return self._qualities.merged(workload, now_unix_seconds)

    def workloads(self) -> tuple[WorkloadSeen, ...]:
        """List all workloads, in order."""
        with self._lock:
            names = sorted(self._entries.known, key=_NAMED)  # the class' own order takes ten times as long
        seen: list[WorkloadSeen] = []
        for workload in names:
            with self._lock:
                entry = self._entries.known.get(workload)
                if entry is not None:
                    first, last = self._entries.span(entry)
                    containers = tuple(sorted(entry.by_name))
                    seen.append(
                        WorkloadSeen(
                            workload=entry.workload,
                            containers=containers,
                            first_unix_seconds=first,
                            last_unix_seconds=last,
                        )
                    )
        return tuple(seen)

    def nodes(self) -> tuple[NodeSeen, ...]:
        """List the nodes that reported since the start, or whose reports were in the log then; in order of name."""
        with self._lock:
            return self._nodes.listed()

    def size(self) -> IndexSize:
        """Count what there is."""
        with self._lock:
            return IndexSize(
                workloads=len(self._entries.known),
                containers=sum(len(entry.by_name) for entry in self._entries.known.values()),
                rows=self._by_class.rings.rows,
                node_rows=self._by_node.rings.rows,
                nodes=len(self._nodes),
                array_bytes=self._by_class.rings.nbytes + self._by_node.rings.nbytes,
                rows_without_room=self._rows_without_room,
                containers_left_out=self._containers_left_out,
            )

    # -- other policies ---------------------------------------------------------------------------------------------

    def known(self) -> list[Workload]:
        """List all workloads, in no order."""
        with self._lock:
            return list(self._entries.known)

    def require(self, wanted: Mapping[Workload, PolicyName], *, now_unix_seconds: float) -> None:
        """Require the answers of policies other than cruise for these workloads, and for no others.

        What somebody asked about is worked out all the same. A workload that is not known, or too young to be sized by
        its history, is passed over: its first answer shall not be that of a few minutes.
        """
        for workload, policy in wanted.items():
            with self._lock:
                if policy is not PolicyName.CRUISE and not self._asked.is_required(policy, workload):
                    entry = self._entries.known.get(workload)
                    containers = () if entry is None else entry.containers
                    if entry is not None and any(
                        self._is_old_enough(self._all_rows(container, workload), now_unix_seconds)
                        for container in containers
                    ):
                        self._asked.require(policy, entry.workload)
        for policy, workloads, _ in self._asked_tables():
            for workload in workloads:
                with self._lock:
                    if workload not in self._entries.known:
                        self._asked.forget(policy, workload)
                    elif wanted.get(workload) is not policy:
                        self._asked.release(policy, workload, now_unix_seconds)

    def due(self, rebuild_seconds: float, now_unix_seconds: float) -> list[Key]:
        """Return for which workloads which other policies are to be worked out, the most urgent first."""
        return due(self._asked_tables(), now_unix_seconds, rebuild_seconds)

    def order(self, workload: Workload, policy: PolicyName, now_unix_seconds: float) -> bool:
        """Require a policy for a workload, as its pods order it; False = the workload is not known."""
        with self._lock:
            entry = self._entries.known.get(workload)
            if entry is not None:
                self._asked.note(policy, entry.workload, now_unix_seconds)
            return entry is not None

    def preparation(self) -> Preparation:
        """Count for how many workloads other policies are required, and how many of them were worked out."""
        every = [(policy, entry) for policy, _, table in self._asked_tables() for entry in table]
        waiting = [(policy, entry) for policy, entry in every if entry.done_unix_seconds is None]
        missing = [policy for policy, entry in waiting if entry.is_required]
        required = sum(entry.is_required for _, entry in every)
        return Preparation(
            required=required,
            done=required - len(missing),
            awaited=sum(not is_stood_in_for(policy) for policy in missing),
            waiting=len(waiting),
        )

    def _asked_tables(self) -> Tables:
        with self._lock:
            return self._asked.tables()

    def places(self, workload: Workload) -> tuple[SketchKey, ...]:
        """Return under which keys the store has a workload's histories by class; empty = it is not known.

        The imported ones are among them.
        """
        containers = self._containers_of(workload)
        own = [
            SketchKey(workload, container.name, node_class)
            for container in containers
            for node_class, _ in container.classes
        ]
        return (
            *own,
            *(imported_key(workload, container.name) for container in containers if container.imported is not None),
        )

    def answer(
        self,
        policy: PolicyName,
        workload: Workload,
        answers: Mapping[Place, PolicyAnswer] | None,
        *,
        now_unix_seconds: float,
        forgettings: int | None = None,
    ) -> None:
        """Record what a policy answered, by container, and of DaemonSets by class of nodes too; None = it failed.

        What was worked out from sketches read when ``forgettings`` was another number is left: it is due again.
        """
        with self._lock:
            if forgettings is not None and forgettings != self._forgettings:
                return
            self._asked.take(policy, workload, answers, now_unix_seconds)
