"""What watches the node: builds the parts, starts them in order, stops them in the reverse one.

Node. Three threads: ``sampling`` (sweeps), ``control`` (windows, minute rows, gauges) and ``serving`` (HTTP, socket).
None waits for another. It holds no rule.
"""

from __future__ import annotations

import logging
import os
import random
import resource
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from agent.calendar import ReadWindows
from agent.core.cluster.unit import UnitIdentity
from agent.core.history.minute.minutes import OutOfMemory
from agent.core.history.reports.rollup import ROLLUP_SECONDS, NodeSums
from agent.core.plan.plan import node_sums
from agent.core.recommender.credit import Credit
from agent.core.recommender.pod_itself import bearers
from agent.core.window.pod_itself import PodItself
from agent.core.window.snapshot import Snapshot
from agent.core.window.sweep_pace import ContentionPolicy
from agent.heap import Heap
from agent.metrics.acting_series import Trigger
from agent.metrics.agent_series import Metrics, PodSource
from agent.metrics.directive_series import DirectiveSeries
from agent.node.cluster.connection import connect
from agent.node.history.clock import HistoryClock, newest_minute
from agent.node.history.file import HISTORY_FILE_NAME, HistoryFile
from agent.node.history.learner import Learner
from agent.node.history.quality import QualityKeeper
from agent.node.history.reported_kills import ToldKills
from agent.node.recommender.decider import Decider, DecisionSources
from agent.node.recommender.evaluation import Evaluator
from agent.node.recommender.evaluation_series import EvaluationSeries
from agent.node.recommender.gauges import Gauges
from agent.node.recommender.loop import ControlLoop
from agent.node.recommender.notes import Notes
from agent.node.reports.directives_file import FILE_NAME as DIRECTIVES_FILE
from agent.node.reports.directives_file import Directions
from agent.node.sampling.limit_hit import limit_hit
from agent.node.sampling.listener import Listener, Tally
from agent.node.sampling.loop import SamplingLoop, SamplingPolicy
from agent.node.sampling.observer import Observer
from agent.node.sampling.parts import SamplingParts
from agent.node.sampling.pod_cgroups import PodCgroups
from agent.node.sampling.pod_observer import PodObserver
from agent.node.sampling.pods_file import NoPods, PodsFile
from agent.node.sampling.run_ends import RunEnds
from agent.node.sampling.unit_table import UnitTable
from agent.node.sampling.watched_cgroups import WatchedCgroups
from agent.node.sampling.window_settings import pod_ring_geometry, ring_geometry, window_policy
from agent.sensing.discovery import Discovery, UnitScope
from agent.sensing.machine import Machine, find_cgroup_mount, has_generational_lru, node_name
from agent.sensing.memory_events import OomKill
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler import open_sampler, raise_open_files_limit
from agent.sensing.state_file import RingError, read_boot_id
from agent.sensing.window_reader import open_window_reader
from agent.settings import SamplerChoice, Settings, StateSettings
from agent.version import installed_version

if TYPE_CHECKING:
    from agent.node.cluster.connection import Connection
    from agent.node.cluster.view import ClusterView
    from agent.node.recommender.pod_orders import PodOrders
    from agent.node.reports.decision_teller import DecisionTeller
    from agent.node.reports.reporter import Reporter
    from agent.node.reports.run_teller import RunTeller
    from agent.node.resize.assembly import Acting

log = logging.getLogger(__name__)

RING_FILE_NAME: Final = "rings"
MAX_LANES: Final = 512
EVENT_FILES_SHARE: Final = 4
"""One in so many descriptors may go to memory.events: of a unit's eleven it is one, and one more of its pod."""
POD_FILES_SHARE: Final = 16
"""One in so many descriptors may go to the cgroups of whole pods, which are read at slow ticks only."""
STOP_SECONDS: Final = 0.5
"""For sampling and control together at the end; the pod has ten seconds for all that ends."""


_FORCED_SAMPLER: Final[dict[SamplerChoice, Literal["native", "reference"] | None]] = {
    SamplerChoice.AUTO: None,
    SamplerChoice.NATIVE: "native",
    SamplerChoice.REFERENCE: "reference",
}


class Watch:
    """The watching part of the agent: sampler, rings, discovery and the threads ``sampling`` and ``control``.

    ``plimsoll agent`` and ``run`` serve it (``node.daemon``); ``plimsoll top`` without an agent uses it alone.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        source: str,  # What answers say of where they come from
        acts: bool = False,  # Take the pods from the API server where there is one, plan, and resize what is enforced
    ) -> None:
        """Build all parts; nothing runs yet.

        Raises:
            CredentialsError: There is no way to the API server as the settings name it.
            MachineError: No cgroup v2 to read.
            DiscoveryError: The cgroup root does not exist.
            RingError: The state file is in use by another agent, or cannot be made.
            PodsFileError: The pods file is not understood.
        """
        self.settings = settings
        self.heap: Final = Heap()
        self.heap.keep_one_arena()  # before any thread starts
        with ExitStack() as self._stack:
            self._build(settings, source, acts=acts)
            self._stack = self._stack.pop_all()
        self._turns = (self.sampling.loop.turns, self.control.turns)

    def _build(self, settings: Settings, source: str, *, acts: bool) -> None:
        """Build the parts in order, each of those before it."""
        machine = Machine(settings.node_name or node_name())
        connection = connect(settings, machine.name) if acts else None
        self._is_alone = acts and connection is None
        self._pods: PodsFile | NoPods | ClusterView = connection[1] if connection is not None else _pods_of(settings)
        self.sampling = self._sampling(settings, machine)
        self.learner = self._learner(settings)
        self.learner.follower = self.quality = QualityKeeper(self.learner.history)
        self.metrics.take_quality(
            self.quality.of_node, self.quality.figures_by_workload if settings.metrics.per_workload else None
        )
        self.directions = self._directions(settings)
        self._read_windows = ReadWindows()
        self.orders = self._orders(settings, connection)
        windows = window_policy(
            settings, capacity_millicores=machine.capacity_millicores, tells_file_use=not has_generational_lru()
        )
        self.observer = Observer(
            rings=self.sampling.rings,
            units=self.sampling.units,
            machine=machine,
            heartbeat=self.sampling.loop.heartbeat,
            windows=windows,
            source=source,
            sums=open_window_reader(self.sampling.rings),
        )
        self.pod_observer = PodObserver(
            observer=Observer(
                rings=self.sampling.pods.rings,
                units=self.sampling.pods.units,
                machine=machine,
                heartbeat=self.sampling.pods.heartbeat,
                windows=windows,
                source=source,
                sums=open_window_reader(self.sampling.pods.rings),
            ),
            pods=self.sampling.pods,
            containers=self.sampling.units,
        )
        start_ups = None
        if connection is not None:
            from agent.node.recommender.start_ups import StartUps

            cluster = connection[1]
            start_ups = StartUps(pods=lambda: cluster.state().pods, units=self.sampling.units, observer=self.observer)
        self.decider = Decider(
            settings=settings,
            learner=self.learner,
            node=machine.name,
            source=source,
            sources=DecisionSources(
                orders_of=(lambda identity: None) if self.orders is None else self.orders.of_unit,
                directed=self.directions.now,
                quality_of=self.quality.of_row,
                borne=self._borne,
                credit_of=self._credit_of,
                cpu_of=(lambda status: status.cpu) if start_ups is None else start_ups.cpu_of,
            ),
        )
        self.evaluator = Evaluator(
            sampling=self.sampling,
            observer=self.observer,
            pods=self.pod_observer,
            learner=self.learner,
            decider=self.decider,
            series=EvaluationSeries(self.metrics, self.sampling.rings, per_container=settings.metrics.per_container),
            orders=self.orders,
            start_ups=start_ups,
        )
        self.gauges = Gauges(
            metrics=self.metrics,
            sampling=self.sampling,
            pod_source=_pod_source(settings, is_connected=connection is not None),
            pods_age_seconds=lambda: self._pods.age_seconds,
        )
        self.notes = Notes(self.sampling, self.learner, interval_seconds=settings.sampling.interval_seconds)
        self.run_teller: RunTeller | None = None
        self.reporter = self._reporter(settings, connection)
        self.acting = self._acting(settings, connection)
        self.decision_teller = self._decision_teller(settings, connection)
        self.told_kills = self._told_kills(connection)
        self.control = ControlLoop(
            evaluate_interval_seconds=settings.evaluate_interval_seconds,
            learner=self.learner,
            evaluator=self.evaluator,
            tally=self.sampling.tally,
            told_kills=self.told_kills,
            evaluated=self._evaluated,
            counts=self.metrics.loops.begin("control"),
        )

    def _sampling(self, settings: Settings, machine: Machine) -> SamplingParts:
        sampling, mount = settings.sampling, find_cgroup_mount(settings.cgroup.mount)
        _, open_files_limit = raise_open_files_limit()
        if settings.state.directory is not None:
            _make_directory("state directory", settings.state.directory, "or none (--state-dir)")
        rings = self._rings(settings)
        files = max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - sampling.open_files_reserve)
        event_files = files // EVENT_FILES_SHARE
        discovery = Discovery(
            mount,
            cgroup_root=settings.cgroup.root,
            scope=UnitScope(settings.cgroup.scope),
            max_units=sampling.max_containers,
        )
        self._stack.callback(discovery.close)
        # Of a pod its directory is kept open; its files are opened anew at each slow tick where they are too many.
        pod_files = min(pod_ring_geometry(settings).max_slots + 1, files // POD_FILES_SHARE)
        sampler = open_sampler(
            mount,
            rings,
            fd_budget=files - event_files - pod_files,
            max_lanes=MAX_LANES,
            force=_FORCED_SAMPLER[sampling.sampler],
        )
        self._stack.callback(sampler.close)
        self.metrics = _metrics(settings, sampler.name)
        units, tally = UnitTable(), Tally()
        pods = self._pod_cgroups(settings, mount, units, rings, files=pod_files)
        listener = Listener(self.metrics, tally, self._killed, self._swept, self._contended)
        ends = RunEnds(mount=mount, rings=rings, tells_runs=settings.report.url is not None)
        loop = SamplingLoop(
            watched=WatchedCgroups(
                sampler=sampler,
                discovery=discovery,
                units=units,
                names=self._pods,
                on_refused=listener.refused,
                pods=pods,
                ends=ends,
            ),
            policy=SamplingPolicy(
                interval_seconds=sampling.interval_seconds,
                slow_interval_seconds=sampling.slow_interval_seconds,
                fast_lane_hz=sampling.fast_lane_hz,
                relist_seconds=sampling.relist_seconds,
                retry_absent_seconds=sampling.retry_absent_seconds,
                sweep_budget_seconds=sampling.sweep_budget_seconds,
                max_event_files=event_files,
                contention=ContentionPolicy(memory_waiting_ratio=settings.act.urgent_memory_waiting_ratio),
            ),
            listener=listener,
            memory=self,
        )
        self._stack.callback(loop.close)
        return SamplingParts(
            machine=machine,
            mount=mount,
            rings=rings,
            units=units,
            discovery=discovery,
            sampler=sampler,
            loop=loop,
            pods=pods,
            tally=tally,
            ends=ends,
            open_files_limit=open_files_limit,
        )

    def _pod_cgroups(
        self, settings: Settings, mount: Path, units: UnitTable, container_rings: RingFile, *, files: int
    ) -> PodCgroups:
        rings = RingFile.open(None, pod_ring_geometry(settings), boot_id=read_boot_id())
        self._stack.callback(rings.close)
        sampler = open_sampler(
            mount, rings, fd_budget=files, max_lanes=0, force=_FORCED_SAMPLER[settings.sampling.sampler]
        )
        self._stack.callback(sampler.close)
        return PodCgroups(
            mount=mount,
            sampler=sampler,
            rings=rings,
            interval_seconds=settings.sampling.slow_interval_seconds,
            containers=units,
            container_rings=container_rings,
        )

    def _rings(self, settings: Settings) -> RingFile:
        directory = self._rings_directory = make_directory_of_rings(settings.state)
        rings = RingFile.open(
            None if directory is None else directory / RING_FILE_NAME, ring_geometry(settings), boot_id=read_boot_id()
        )
        self._stack.callback(rings.close)
        if rings.set_aside_reason is not None:
            log.warning(
                "state file set aside, beginning anew",
                extra={"reason": rings.set_aside_reason, "kept_as": str(rings.set_aside)},
            )
        if rings.damaged_slots:
            log.warning("slots of the state file are damaged: begun anew", extra={"slots": rings.damaged_slots})
        return rings

    def _learner(self, settings: Settings) -> Learner:
        directory, rings = settings.state.directory, self.sampling.rings
        history = HistoryFile.open(
            None if directory is None else directory / HISTORY_FILE_NAME, max_rows=settings.sampling.max_containers
        )
        self._stack.callback(history.close)
        beside = self._rings_directory
        if directory is not None and beside is not None and not directory.samefile(beside):
            _remove_former_rings(directory)  # not before the history is ours: they may be another agent's, at work
        return Learner(
            history=history,
            policy=settings.recommend.policy,
            options=settings,
            pods=self._pods,
            clock=HistoryClock(
                newest_unix_minute=history.newest_unix_minute,
                newest_monotonic_minute=newest_minute(rings, rings.retained().values()),
            ),
        )

    def _directions(self, settings: Settings) -> Directions:
        directory = settings.state.directory
        directions = Directions(
            None if directory is None else directory / DIRECTIVES_FILE,
            is_expected=settings.report.url is not None,
            now=self.learner.clock.now,
            changed=self._pods_ordered,
        )
        if directions.is_expected:
            self.metrics.register(DirectiveSeries(directions.now))
        return directions

    def _orders(self, settings: Settings, connection: Connection | None) -> PodOrders | None:
        if connection is None:
            return None
        from agent.node.recommender.pod_orders import PodOrders

        return PodOrders(
            settings=settings,
            state=connection[1].state,
            directed=self.directions.now,
            read_windows=self._read_windows,
        )

    def _borne(self) -> dict[str, PodItself]:
        """Return what pods use in none of their containers, by the path of the container that asks for it."""
        units = self.sampling.units.all()
        return bearers(((unit.identity, unit.resources) for unit in units), self.pod_observer.itself())

    def _credit_of(self, identity: UnitIdentity) -> Credit | None:
        """Return whether the newest plan gives a container credit for seconds; None = it says nothing of it."""
        planned = None if self.acting is None else self.acting.actor.planned
        return None if planned is None else planned.credits.get((identity.pod_uid or "", identity.container or ""))

    def _believed_now(self) -> float:
        """Return Unix seconds that no jump of the clock puts ahead: it would make young pods old enough."""
        return self.learner.clock.believed_now()

    def _reporter(self, settings: Settings, connection: Connection | None) -> Reporter | None:
        if connection is None or self.orders is None or settings.report.url is None:
            return None
        from agent.node.reports.assembly import reporter_of, run_teller_of

        self.run_teller = run_teller_of(
            settings,
            settings.report.url,
            sampling=self.sampling,
            policy=self.observer.policy,
            cluster=connection[1],
            metrics=self.metrics,
        )
        return reporter_of(
            settings,
            settings.report.url,
            sampling=self.sampling,
            policy=self.observer.policy,
            cluster=connection[1],
            unix_now=self._believed_now,
            quality=self.quality.figures_by_workload,
            orders=self.orders,
            directions=self.directions,
            sums=self._sums,
            metrics=self.metrics,
        )

    def _sums(self) -> NodeSums | None:
        """Return how full the node is by the newest plan; None = there is none, or it is old: planning fails."""
        planned = None if self.acting is None else self.acting.actor.planned
        if planned is None or self._believed_now() - planned.plan.taken_unix_seconds > ROLLUP_SECONDS:
            return None
        return node_sums(planned.plan)

    def _acting(self, settings: Settings, connection: Connection | None) -> Acting | None:
        if connection is None or self.orders is None:
            return None
        from agent.node.recommender.planner import Planner
        from agent.node.recommender.together import together_of
        from agent.node.resize.assembly import Acting, NodeParts

        api, cluster = connection
        self._stack.callback(api.close)
        node = NodeParts(
            settings=settings,
            sampling=self.sampling,
            learner=self.learner,
            evaluator=self.evaluator,
            orders=self.orders,
            planner=Planner(
                settings=settings,
                state=cluster.state,
                directed=self.directions.now,
                evaluated=lambda: self.evaluator.newest,
                wall_now=self._believed_now,
                together=lambda items: together_of(self.learner, items),
                read_windows=self._read_windows,
            ),
            metrics=self.metrics,
            directions=self.directions,
            reporter=self.reporter,
            runs=self.run_teller,
        )
        acting = Acting(node, api, cluster, chance=random.random())  # noqa: S311 - not a secret
        cluster.on_news = self._pods_changed
        self.notes.further.append(acting.notes)
        if self.reporter is not None:
            self.notes.further.append(self.reporter.notes)
        return acting

    def _decision_teller(self, settings: Settings, connection: Connection | None) -> DecisionTeller | None:
        if connection is None or self.acting is None or settings.report.url is None:
            return None
        from agent.node.reports.assembly import decision_teller_of

        return decision_teller_of(
            settings,
            settings.report.url,
            node=connection[1].node_name,
            journal=self.acting.journal,
            metrics=self.metrics,
        )

    def _told_kills(self, connection: Connection | None) -> ToldKills | None:
        if connection is None or self.acting is None:
            return None
        reporter, cluster = self.reporter, connection[1]
        last_end_ns = None if reporter is None else reporter.last_end_ns

        def report(identity: UnitIdentity, memory_bytes: int | None, age_seconds: float) -> None:
            if reporter is not None:
                killed_ns = time.monotonic_ns() - int(age_seconds * 1e9)
                reporter.killed(identity, memory_bytes=memory_bytes, monotonic_ns=killed_ns)

        return ToldKills(
            learner=self.learner,
            pods=lambda: cluster.state().pods,
            tell=self.acting.journal.add,
            help_now=self.acting.killed,
            report=report,
            reported_until_unix_seconds=None if last_end_ns is None else self.learner.clock.unix_seconds(last_end_ns),
        )

    # -- told by other parts ---------------------------------------------------------------------------------------

    def _pods_changed(self) -> None:
        """Take over news from the API server; on a thread of its watches."""
        self.sampling.loop.renew_names()
        self._pods_ordered()

    def _pods_ordered(self) -> None:
        """Plan by what is ordered now: by people, or on the thread that reports by the webhook."""
        if self.orders is not None and self.acting is not None:
            self.orders.news()
            self.acting.actor.news()

    def _evaluated(self) -> None:
        """Handle new recommendations; the thread ``control``."""
        newest = self.evaluator.newest
        if newest is not None:
            self.quality.stand(newest.recommendations.items, newest.taken_monotonic_ns)
        self.heap.give_back()
        if self.acting is not None:
            self.acting.actor.ask(Trigger.NEWS)

    def _swept(self) -> None:
        """Check for what is urgent; on the sampling thread, after each sweep."""
        if self.acting is not None:
            self.acting.swept()

    def held(self, cgroup_path: str) -> None:
        """Record that a cgroup's tasks were held back at its memory.high; the sampling thread."""
        if self.acting is not None:
            self.acting.alarms.held(cgroup_path)

    @property
    def is_memory_quiet(self) -> bool:
        """Return whether nobody is looked at for memory between two sweeps; on the sampling thread."""
        return self.acting is None or self.acting.alarms.is_memory_quiet

    def look_at_memory(self, *, is_waited_for: bool) -> None:
        """Find who is short of memory; on the sampling thread, with readings of the fast lane."""
        if self.acting is not None:
            self.acting.alarms.look_at_memory(is_waited_for=is_waited_for)

    def _contended(self) -> None:
        """Record that contention has begun: between the last two readings of the fast lane. On the sampling thread."""
        if self.acting is not None:
            self.acting.alarms.contended(int(1e9 / self.settings.sampling.fast_lane_hz))

    def _killed(self, kill: OomKill) -> bool:
        """Tell those who size of an out-of-memory kill, and say whether a resize may be to blame; sampling thread."""
        # A container that was killed is often gone before the news of it, and then its pod tells of the kill.
        unit = self.sampling.units.get(kill.path) or self.sampling.units.last_gone(kill.path, now_ns=kill.monotonic_ns)
        if unit is None:
            return False
        limit_bytes = limit_hit(kill, unit, self.sampling.units.all(), self.sampling.mount)
        usage_bytes = self.observer.memory_at_kill(unit, limit_bytes=limit_bytes)
        unix_seconds = self.learner.clock.unix_seconds(kill.monotonic_ns)
        if self.told_kills is not None:
            self.told_kills.seen(unit.identity, unix_seconds)
        self.learner.killed(
            unit.identity,
            OutOfMemory(
                unix_seconds=unix_seconds,
                usage_bytes=usage_bytes,
                limit_bytes=unit.memory_max_bytes,
                request_bytes=unit.resources.memory_request_bytes,
            ),
        )
        if self.reporter is not None:
            self.reporter.killed(
                unit.identity,
                memory_bytes=usage_bytes or unit.memory_max_bytes,
                monotonic_ns=kill.monotonic_ns,
                kills=kill.kills,
            )
        if self.run_teller is not None:
            self.run_teller.killed(
                unit.identity,
                memory_bytes=usage_bytes or unit.memory_max_bytes,
                monotonic_ns=kill.monotonic_ns,
            )
        is_blamed = self.acting is not None and self.acting.killed(unit.identity, usage_bytes or unit.memory_max_bytes)
        self.control.hurry()
        return is_blamed

    def snapshot(self, at_age_seconds: float = 0.0) -> Snapshot:
        """Return the whole node, with what is degraded, now or as it was this many seconds ago."""
        return replace(
            self.observer.snapshot(at_age_seconds, self.notes.sentences()),
            pods=self.pod_observer.pods(at_age_seconds),
            tiers=self.pod_observer.tiers(at_age_seconds),
        )

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Find what is there and start the threads ``sampling`` and ``control``."""
        self.sampling.loop.start()
        for turns in self._turns:
            turns.start()
        if self.acting is not None:
            self.acting.start()
        if self.reporter is not None:
            self.reporter.turns.start()
        elif self.settings.report.url is not None and self._is_alone:
            log.warning("nothing is reported: report.url is set, but without an API server no pod is known")
        if self.run_teller is not None:
            self.run_teller.turns.start()
        if self.decision_teller is not None:
            self.decision_teller.turns.start()
        if self._is_alone:
            log.info("no API server to ask (not in a pod, no kubeconfig): nothing is planned or resized")
        log.info(
            "watching",
            extra={
                "mount": str(self.sampling.mount),
                "scope": str(self.sampling.discovery.scope_in_force),
                "units": len(self.sampling.units),
                "sampler": self.sampling.sampler.name,
            },
        )

    def stop(self) -> None:
        """End the threads and give everything back; a second call is fine."""
        self.control.turns.stop()
        is_reporting_ended = self.reporter is None or self.reporter.stop()
        if self.run_teller is not None:
            self.run_teller.stop()
        if self.decision_teller is not None:
            self.decision_teller.stop()
        is_acting_ended = self.acting is None or self.acting.stop()
        self.sampling.loop.stop()
        deadline = time.monotonic() + STOP_SECONDS
        hanging = [turns.name for turns in self._turns if not turns.join(max(0.05, deadline - time.monotonic()))]
        if hanging:
            # Closing under a running thread would hand its descriptors to others; the process is ending anyway.
            log.error("a thread did not end in time", extra={"threads": hanging})
            return
        if not is_acting_ended:
            log.warning("a call to the API server is left unanswered")
        if not is_reporting_ended:
            log.warning("a report to the webhook is left unanswered: it is sent again")
        # No msync: the page cache keeps the rings for the next agent, and they mean nothing after a reboot.
        self._stack.close()

    def __enter__(self) -> Self:
        with ExitStack() as undone:
            undone.callback(self.stop)
            self.start()
            undone.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _pods_of(settings: Settings) -> PodsFile | NoPods:
    return PodsFile(settings.pods_file) if settings.pods_file else NoPods()


def _metrics(settings: Settings, sampler: str) -> Metrics:
    metrics = Metrics(
        version=installed_version(),
        commit=os.environ.get("PLIMSOLL_COMMIT", "unknown"),
        sampler=sampler,
        max_series=settings.metrics.max_series,
        per_container=settings.metrics.per_container,
    )
    metrics.add_process()
    metrics.set_in_force(mode=str(settings.act.mode), policy=str(settings.recommend.policy))
    return metrics


def _pod_source(settings: Settings, *, is_connected: bool) -> PodSource | None:
    if is_connected:
        return PodSource.WATCH
    return PodSource.FILE if settings.pods_file is not None else None


def _remove_former_rings(directory: Path) -> None:
    """Remove the rings that an agent kept beside the history: whoever reads the state would take them for these."""
    try:
        (directory / RING_FILE_NAME).unlink(missing_ok=True)
    except OSError as error:
        log.warning("former rings are still there", extra={"path": str(directory), "cause": error.strerror})


def make_directory_of_rings(state: StateSettings) -> Path | None:
    """Make the directory of the rings, and return which it is; None = in memory, without a file.

    Raises:
        RingError: The one that was asked for cannot be written.
    """
    directory = state.directory_of_rings
    if directory is None:
        return None
    is_own_choice = state.rings_directory is None and directory != state.directory
    try:
        _make_directory("directory of the rings", directory, "by state.ringsDirectory")
    except RingError as error:
        if not is_own_choice:
            raise
        fault = str(error).partition(";")[0]
    else:
        if not is_own_choice or os.access(directory, os.W_OK | os.X_OK):
            return directory
        fault = f"{directory} cannot be written"
    log.warning(
        "the rings lie beside the history: on a disk 9 GB a day are written for 250 containers",
        extra={"cause": fault, "mend": "name a directory in memory by state.ringsDirectory"},
    )
    return state.directory


def _make_directory(what: str, directory: Path, otherwise: str) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{what} {directory}: {error.strerror}; allowed: one that can be written, {otherwise}"
        raise RingError(msg) from error
