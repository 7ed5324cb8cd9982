"""What watches the node: builds the parts, starts them in order, stops them in the reverse one.

Node. Three threads: ``sampling`` (sweeps), ``control`` (windows, minute rows, gauges) and ``serving`` (HTTP, socket).
None waits for another. It holds no rule.
"""

from __future__ import annotations

import logging
import os
import random
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from agent.core.cluster.unit import UnitIdentity
from agent.core.history.minutes import OutOfMemory
from agent.metrics.acting_series import Trigger
from agent.metrics.agent_series import Metrics, PodSource
from agent.metrics.directive_series import DirectiveSeries
from agent.node.cluster.connection import connect
from agent.node.history.clock import HistoryClock, newest_minute
from agent.node.history.file import HistoryFile
from agent.node.history.learner import Learner
from agent.node.history.reported_kills import ToldKills
from agent.node.recommender.decider import Decider
from agent.node.recommender.evaluation import Teller
from agent.node.recommender.loop import ControlLoop
from agent.node.reports.directives_file import FILE_NAME as DIRECTIVES_FILE
from agent.node.reports.directives_file import Directions
from agent.node.sampling.limit_hit import limit_hit
from agent.node.sampling.listener import Listener, Tally
from agent.node.sampling.loop import SamplingLoop, SamplingPolicy
from agent.node.sampling.observer import Observer
from agent.node.sampling.pods_file import NoPods, PodsFile
from agent.node.sampling.unit_table import UnitTable
from agent.node.sampling.window_settings import ring_geometry, window_policy
from agent.sensing.discovery import Discovery, UnitScope
from agent.sensing.machine import Machine, find_cgroup_mount, node_name
from agent.sensing.memory_events import OomKill
from agent.sensing.ring_file import RingError, RingFile
from agent.sensing.sampler import open_sampler, raise_open_files_limit
from agent.sensing.state_file import read_boot_id
from agent.settings import SamplerChoice, Settings
from agent.version import installed_version

if TYPE_CHECKING:
    from agent.node.cluster.view import ClusterView
    from agent.node.recommender.planner import Planner
    from agent.node.reports.reporter import Reporter
    from agent.node.resize.assembly import Acting

log = logging.getLogger(__name__)

RING_FILE_NAME: Final = "rings"
HISTORY_FILE_NAME: Final = "history"
MAX_LANES: Final = 512
EVENT_FILES_SHARE: Final = 4
"""One in so many descriptors may go to memory.events: of a unit's eleven it is one, and one more of its pod."""
STOP_SECONDS: Final = 0.5
"""SIGTERM ends cleanly within a second (terminationGracePeriod is ten), of which serving takes up to 0.4 before."""


_FORCED_SAMPLER: Final[dict[SamplerChoice, Literal["native", "reference"] | None]] = {
    SamplerChoice.AUTO: None,
    SamplerChoice.NATIVE: "native",
    SamplerChoice.REFERENCE: "reference",
}


class Watch:
    """The watching part of the agent: sampler, rings, discovery and the threads ``sampling`` and ``control``.

    ``plimsoll agent`` and ``run`` serve it (``node.daemon``); ``plimsoll top`` without an agent uses it alone.
    """

    def __init__(self, settings: Settings, *, source: str, acts: bool = False) -> None:
        """Build all parts; nothing runs yet.

        Args:
            settings: All of them.
            source: What answers say of where they come from.
            acts: Take the pods from the API server where there is one, plan, and resize what is enforced.

        Raises:
            CredentialsError: There is no way to the API server as the settings name it.
            MachineError: No cgroup v2 to read.
            DiscoveryError: The cgroup root does not exist.
            RingError: The state file is in use by another agent, or cannot be made.
            PodsFileError: The pods file is not understood.
        """
        self.settings = settings
        self._stack = ExitStack()
        try:
            self._build(settings, source, acts=acts)
        except BaseException:
            self._stack.close()
            raise
        self._threads: list[threading.Thread] = []

    def _build(self, settings: Settings, source: str, *, acts: bool) -> None:
        sampling = settings.sampling
        self.mount = find_cgroup_mount(settings.cgroup.mount)
        self.machine = Machine(settings.node_name or node_name())
        connection = connect(settings, self.machine.name) if acts else None
        self._is_alone = acts and connection is None
        self._pods: PodsFile | NoPods | ClusterView
        if connection is not None:
            self._pods = connection[1]
        else:
            self._pods = PodsFile(settings.pods_file) if settings.pods_file else NoPods()
        _, self._open_files_limit = raise_open_files_limit()
        if settings.state.directory is not None:
            _make_state_directory(settings.state.directory)
        self.rings = RingFile.open(
            settings.state.directory / RING_FILE_NAME if settings.state.directory else None,
            ring_geometry(settings),
            boot_id=read_boot_id(),
        )
        self._stack.callback(self.rings.close)
        if self.rings.set_aside_reason is not None:
            log.warning(
                "state file set aside, beginning anew",
                extra={"reason": self.rings.set_aside_reason, "kept_as": str(self.rings.set_aside)},
            )
        if self.rings.damaged_slots:
            log.warning("slots of the state file are damaged: begun anew", extra={"slots": self.rings.damaged_slots})
        files = max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - sampling.open_files_reserve)
        event_files = files // EVENT_FILES_SHARE
        self.discovery = Discovery(
            self.mount,
            cgroup_root=settings.cgroup.root,
            scope=UnitScope(settings.cgroup.scope),
            max_units=sampling.max_containers,
        )
        self._stack.callback(self.discovery.close)
        self.sampler = open_sampler(
            self.mount,
            self.rings,
            fd_budget=files - event_files,
            max_lanes=MAX_LANES,
            force=_FORCED_SAMPLER[sampling.sampler],
        )
        self._stack.callback(self.sampler.close)
        self.units = UnitTable()
        self.tally = Tally()
        history = HistoryFile.open(
            settings.state.directory / HISTORY_FILE_NAME if settings.state.directory else None,
            max_rows=sampling.max_containers,
        )
        self._stack.callback(history.close)
        self.learner = Learner(
            history=history,
            policy=settings.recommend.policy,
            options=settings,
            pods=self._pods,
            clock=HistoryClock(
                newest_unix_minute=history.newest_unix_minute,
                newest_monotonic_minute=newest_minute(self.rings, self.rings.retained().values()),
            ),
        )
        directory = settings.state.directory
        self.directions = Directions(
            None if directory is None else directory / DIRECTIVES_FILE,
            is_expected=settings.report.url is not None,
            now=self.learner.clock.now,
            changed=self._directed,
        )
        self.planner: Planner | None = None
        if connection is not None:
            from agent.node.recommender.planner import Planner

            self.planner = Planner(
                settings=settings,
                state=connection[1].state,
                evaluated=lambda: self.teller.evaluated,
                # A clock that has jumped ahead makes no pod old enough: the history's believes it after some time only.
                wall_now=lambda: min(time.time(), self.learner.clock.now()),
                directed=self.directions.now,
            )
        self.decider = Decider(
            settings=settings,
            learner=self.learner,
            node=self.machine.name,
            source=source,
            orders_of=self.planner.orders_of if self.planner is not None else lambda identity: None,
            directed=self.directions.now,
        )
        self.metrics = Metrics(
            version=installed_version(),
            commit=os.environ.get("PLIMSOLL_COMMIT", "unknown"),
            sampler=self.sampler.name,
            max_series=settings.metrics.max_series,
            per_container=settings.metrics.per_container,
        )
        self.metrics.add_process()
        self.metrics.set_in_force(mode=str(settings.act.mode), policy=str(settings.recommend.policy))
        if self.directions.is_expected:
            self.metrics.register(DirectiveSeries(self.directions.now))
        self.loop = SamplingLoop(
            mount=self.mount,
            sampler=self.sampler,
            rings=self.rings,
            discovery=self.discovery,
            units=self.units,
            names=self._pods,
            policy=SamplingPolicy(
                interval_seconds=sampling.interval_seconds,
                slow_interval_seconds=sampling.slow_interval_seconds,
                fast_lane_hz=sampling.fast_lane_hz,
                relist_seconds=sampling.relist_seconds,
                retry_absent_seconds=sampling.retry_absent_seconds,
                sweep_budget_seconds=sampling.sweep_budget_seconds,
                max_event_files=event_files,
            ),
            listener=Listener(self.metrics, self.tally, self._killed, self._swept, self._contended),
        )
        self._stack.callback(self.loop.close)
        self.observer = Observer(
            rings=self.rings,
            units=self.units,
            machine=self.machine,
            heartbeat=self.loop.heartbeat,
            windows=window_policy(settings, capacity_millicores=self.machine.capacity_millicores),
            sampler_name=self.sampler.name,
            source=source,
            slow_interval_seconds=sampling.slow_interval_seconds,
            notes=lambda: self.teller.notes(),
            advice_of=lambda path: self.teller.advice_of(path),
        )
        self.teller = Teller(
            settings=settings,
            metrics=self.metrics,
            rings=self.rings,
            units=self.units,
            observer=self.observer,
            loop=self.loop,
            discovery=self.discovery,
            sampler=self.sampler,
            machine=self.machine,
            pod_source=_pod_source(settings, is_connected=connection is not None),
            pods_age_seconds=lambda: self._pods.age_seconds,
            tally=self.tally,
            open_files_limit=self._open_files_limit,
            learner=self.learner,
            decider=self.decider,
            more_notes=self._more_notes,
        )
        self.reporter: Reporter | None = None
        if connection is not None and settings.report.url is not None:
            from agent.node.reports.assembly import reporter_of

            self.reporter = reporter_of(
                settings,
                settings.report.url,
                rings=self.rings,
                units=self.units,
                policy=self.observer.policy,
                cluster=connection[1],
                cpus=self.machine.cpus,
                unix_now=lambda: min(time.time(), self.learner.clock.now()),
                directions=self.directions,
                metrics=self.metrics,
            )
        self.acting: Acting | None = None
        self.told_kills: ToldKills | None = None
        if connection is not None and self.planner is not None:
            from agent.node.resize.assembly import Acting

            api, cluster = connection
            self._stack.callback(api.close)
            self.acting = Acting(
                settings=settings,
                api=api,
                cluster=cluster,
                mount=self.mount,
                machine=self.machine,
                rings=self.rings,
                units=self.units,
                discovery=self.discovery,
                learner=self.learner,
                teller=self.teller,
                heartbeat=self.loop.heartbeat,
                planner=self.planner,
                metrics=self.metrics,
                directions=self.directions,
                reporter=self.reporter,
                chance=random.random(),  # noqa: S311 - not a secret
            )
            cluster.on_news = self._pods_changed
            self.told_kills = self._told_kills(cluster, self.acting)
        self.control = ControlLoop(
            evaluate_interval_seconds=settings.evaluate_interval_seconds,
            learner=self.learner,
            teller=self.teller,
            tally=self.tally,
            policies=self.planner.policies if self.planner is not None else None,
            evaluated=self._evaluated,
            turns=self.metrics.loops.begin("control"),
            evaluating=None if self.told_kills is None else self.told_kills.look,
        )

    def _told_kills(self, cluster: ClusterView, acting: Acting) -> ToldKills:
        def report(identity: UnitIdentity, memory_bytes: int | None) -> None:
            if self.reporter is not None:
                self.reporter.killed(identity, memory_bytes=memory_bytes, monotonic_ns=time.monotonic_ns())

        return ToldKills(
            learner=self.learner,
            pods=lambda: cluster.state().pods,
            tell=acting.journal.add,
            help_now=acting.killed,
            report=report,
        )

    def _more_notes(self) -> Iterator[str]:
        if self.acting is not None:
            yield from self.acting.notes()
        if self.reporter is not None:
            yield from self.reporter.notes()

    def _pods_changed(self) -> None:
        """Hear of news from the API server; on a thread of its watches."""
        if self.planner is not None and self.acting is not None:
            self.planner.news()
            self.loop.renew_names()
            self.acting.actor.ask(Trigger.NEWS)

    def _directed(self) -> None:
        """Hear that the webhook told something new; on the thread that reports."""
        if self.planner is not None and self.acting is not None:
            self.planner.news()
            self.acting.actor.ask(Trigger.NEWS)

    def _evaluated(self) -> None:
        """Hear of new recommendations; the thread ``control``."""
        if self.acting is not None:
            self.acting.actor.ask(Trigger.NEWS)

    def _swept(self) -> None:
        """Look for what is urgent; on the sampling thread, after each sweep."""
        if self.acting is not None:
            self.acting.swept()

    def _contended(self) -> None:
        """Hear that contention has begun: between the last two readings of the fast lane. On the sampling thread."""
        if self.acting is not None:
            self.acting.alarms.contended(int(1e9 / self.settings.sampling.fast_lane_hz))

    def _killed(self, kill: OomKill) -> bool:
        """Tell those who size of an out-of-memory kill, and say whether a resize may be to blame; sampling thread."""
        # A container that was killed is often gone before the news of it, and then its pod tells of the kill.
        unit = self.units.get(kill.path) or self.units.last_gone(kill.path, now_ns=kill.monotonic_ns)
        if unit is None:
            return False
        limit_bytes = limit_hit(kill, unit, self.units.all(), self.mount)
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
        is_blamed = self.acting is not None and self.acting.killed(unit.identity, usage_bytes or unit.memory_max_bytes)
        self.control.hurry()
        return is_blamed

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Find what is there and start the threads ``sampling`` and ``control``."""
        self.loop.start()
        for name, target in (("sampling", self.loop.run), ("control", self.control.run)):
            thread = threading.Thread(target=target, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        if self.acting is not None:
            self.acting.start()
        if self.reporter is not None:
            self.reporter.start()
        elif self.settings.report.url is not None and self._is_alone:
            log.warning("nothing is reported: report.url is set, but without an API server no pod is known")
        if self._is_alone:
            log.info("no API server to ask (not in a pod, no kubeconfig): nothing is planned or resized")
        log.info(
            "watching",
            extra={
                "mount": str(self.mount),
                "scope": str(self.discovery.scope_in_force),
                "units": len(self.units),
                "sampler": self.sampler.name,
            },
        )

    def stop(self) -> None:
        """End the threads and give everything back; a second call is fine."""
        self.control.stop()
        is_reporting_ended = self.reporter is None or self.reporter.stop()
        is_acting_ended = self.acting is None or self.acting.stop()
        self.loop.stop()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.05, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            # Closing under a running thread would hand its descriptors to others; the process is ending anyway.
            log.error(
                "a thread did not end in time", extra={"threads": [t.name for t in self._threads if t.is_alive()]}
            )
            return
        self._threads.clear()
        if not is_acting_ended:
            log.warning("a call to the API server is left unanswered")
        if not is_reporting_ended:
            log.warning("a report to the webhook is left unanswered: it is sent again")
        # No msync: the page cache keeps the rings for the next agent, and they mean nothing after a reboot.
        self._stack.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _pod_source(settings: Settings, *, is_connected: bool) -> PodSource | None:
    if is_connected:
        return PodSource.WATCH
    return PodSource.FILE if settings.pods_file is not None else None


def _make_state_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        msg = f"state directory {directory}: {error.strerror}; allowed: one that can be written, or none (--state-dir)"
        raise RingError(msg) from error
