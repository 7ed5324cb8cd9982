"""The composition of all that needs an API server: the view of the node, the plan, the hand, and what is kept for them.

Node. Built only where there is an API server to ask (a pod's own account, or a kubeconfig); ``watching`` builds the
rest. It owns the thread ``acting``; the view has three of its own. Questions and orders of people go to ``answers``.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.numbers.token_bucket import filling_bucket
from agent.core.orders.policy_options import ControlledResources
from agent.core.plan.demand import Reserved, Urgent
from agent.core.resize.decision import Action, Outcome
from agent.core.window.freshness import measuring_fault
from agent.kube.api import HttpApi
from agent.kube.events import EventWriter
from agent.kube.own_rights import Purpose
from agent.metrics.agent_series import Metrics
from agent.node.cluster.pause import ClusterPause
from agent.node.cluster.rights import Rights
from agent.node.cluster.view import ClusterView
from agent.node.files.steady_clock import BootClock, SteadyClock
from agent.node.history.learner import Learner
from agent.node.keepers.assembly import keepers_of
from agent.node.keepers.taint_permission import GRANTED
from agent.node.orders.holds import FILE_NAME as HOLDS_FILE
from agent.node.orders.holds import Holds
from agent.node.orders.journal import FILE_NAME as JOURNAL_FILE
from agent.node.orders.journal import Journal
from agent.node.recommender.evaluation import Teller
from agent.node.recommender.planner import Planned, Planner
from agent.node.reports.directives_file import Directions
from agent.node.resize.actor import Actor, reserve_of
from agent.node.resize.alarms import AlarmContainer, Alarms
from agent.node.resize.answers import ActingAnswers
from agent.node.resize.barriers import PAUSED
from agent.node.resize.ledger_file import FILE_NAME as LEDGER_FILE
from agent.node.resize.ledger_file import LedgerFile
from agent.node.resize.memory_in_use import MemoryInUse
from agent.node.resize.writer import StepWriter
from agent.node.sampling.heartbeat import Heartbeat
from agent.node.sampling.unit_table import UnitTable
from agent.sensing.discovery import Discovery
from agent.sensing.machine import Machine
from agent.sensing.ring_file import RingFile
from agent.settings import Settings

if TYPE_CHECKING:
    from agent.node.reports.reporter import Reporter

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 2.5
"""For a call that is under way, and for taking the taint away; a pod has ten seconds to end."""


class Acting:
    """What needs an API server, built around what watches; see the module's docstring."""

    def __init__(
        self,
        *,
        settings: Settings,
        api: HttpApi,
        cluster: ClusterView,
        mount: Path,
        machine: Machine,
        rings: RingFile,
        units: UnitTable,
        discovery: Discovery,
        learner: Learner,
        teller: Teller,
        heartbeat: Heartbeat,
        planner: Planner,
        metrics: Metrics,
        directions: Directions,
        reporter: Reporter | None,
        chance: float,
    ) -> None:
        """Build all parts; nothing runs yet.

        ``chance`` is 0..1, drawn once: agents that start together send their first resizes in different phases.
        """
        state = settings.state.directory
        self._settings, self._cluster, self._units = settings, cluster, units
        wall_now = time.time
        self.journal = Journal(_below(state, JOURNAL_FILE))
        self._directions = directions
        self.holds = Holds(
            _below(state, HOLDS_FILE),
            now_unix_seconds=wall_now(),
            boot=BootClock.of_machine(),
            of_cluster=ClusterPause(settings.cluster_pause_file, told=directions.pause_reason).reason,
        )
        now = self._now = SteadyClock(learner.clock.now()).now
        memory_in_use = MemoryInUse(mount, units).of
        self._ledger_file = ledger_file = LedgerFile(_below(state, LEDGER_FILE))
        self.ledger = ledger_file.read(settings.act, now_seconds=now())
        self.rights = Rights(
            api,
            node=machine.name,
            needs_claim=settings.kubernetes.require_node_claim,
            unused=_unused(settings),
            tell=lambda sentence: self._notice("rights", sentence),
        )
        self.writer = StepWriter(
            api=api,
            ledger=self.ledger,
            journal=self.journal,
            holds=self.holds,
            series=metrics.acting,
            take_pod=cluster.put,
            keep=lambda: ledger_file.keep(self.ledger),
            now=now,
            wall_now=wall_now,
            timeout_seconds=settings.kubernetes.request_timeout_seconds,
        )
        self.actor = Actor(
            settings=settings,
            node_name=machine.name,
            cluster=cluster,
            planner=planner,
            writer=self.writer,
            ledger=self.ledger,
            holds=self.holds,
            journal=self.journal,
            series=metrics.acting,
            rights=self.rights,
            bucket=filling_bucket(
                settings.act.resizes_per_minute,
                reserve=reserve_of(settings.act.resizes_per_minute),
                now_seconds=time.monotonic(),
                chance=chance,
            ),
            events=EventWriter(api, machine.name, unix_seconds=wall_now, monotonic_seconds=time.monotonic)
            if settings.kubernetes.events
            else None,
            keepers=keepers_of(
                settings,
                api=api,
                cluster=cluster,
                mount=mount,
                machine=machine,
                units=units,
                discovery=discovery,
                teller=teller,
                planner=planner,
                holds=self.holds,
                rights=self.rights,
                series=metrics.acting,
                tell=self.journal.add,
                may_write=lambda: self.actor.may_write(),
                is_enforcing=lambda: self.actor.is_enforcing,
                permission=lambda: GRANTED if self._taint_asker is None else self._taint_asker.permission(),
            ),
            keep=lambda: ledger_file.keep(self.ledger),
            is_history_known=lambda: learner.is_restored,
            measuring_fault=lambda: self._measuring_fault(teller, heartbeat),
            is_untold=lambda: directions.is_awaited,
            memory_in_use=memory_in_use,
            planned=self._follow,
            now=now,
            wall_now=wall_now,
            turns=metrics.loops.begin("acting"),
        )
        self.alarms = Alarms(
            rings=rings,
            options=settings.act,
            memory_limit_ratio=settings.cruise.memory_limit_ratio,
            capacity_millicores=machine.capacity_millicores,
            on_alarm=self.actor.alarm,
        )
        self.answers = ActingAnswers(
            settings=settings,
            server=api.server,
            cluster=cluster,
            planner=planner,
            actor=self.actor,
            writer=self.writer,
            ledger=self.ledger,
            holds=self.holds,
            journal=self.journal,
            rights=self.rights,
            directions=directions,
            reporting=lambda: None if reporter is None else reporter.standing(),
            memory_in_use=memory_in_use,
            notes=self.notes,
            now=now,
        )
        self._thread: threading.Thread | None = None
        self._proposer = None
        self._taint_asker = None
        if reporter is not None and settings.report.url is not None:
            from agent.node.reports.assembly import proposer_of, taint_asker_of

            if settings.overload.taint:
                self._taint_asker = taint_asker_of(
                    settings, settings.report.url, node=cluster.node_name, metrics=metrics
                )

            self._proposer = proposer_of(
                settings,
                settings.report.url,
                node=cluster.node_name,
                may_propose=self.actor.may_write,
                tell=self.journal.add,
                event=self.actor.tell_owner,
                metrics=metrics,
                reporter=reporter,
            )

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch the API server, and to plan and act; the agent samples whether it answers or not."""
        self._cluster.start()
        self._thread = threading.Thread(target=self.actor.run, name="acting", daemon=True)
        self._thread.start()
        if self._proposer is not None:
            self._proposer.start()

    def stop(self) -> bool:
        """End the threads; False = one of them is left in a call to a server that does not answer."""
        self.actor.stop()
        self._cluster.stop()
        if self._proposer is not None:
            self._proposer.stop()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
            if self._thread.is_alive():
                return False
        self.journal.close()
        return True

    # -- asked by other parts --------------------------------------------------------------------------------------

    def swept(self) -> None:
        """Look for what is urgent after a sweep; the sampling thread."""
        self.alarms.look()

    def killed(self, identity: UnitIdentity, memory_bytes: int | None) -> bool:
        """Hear of an out-of-memory kill; the sampling thread.

        Args:
            identity: Who was killed.
            memory_bytes: What it used then, else its limit; None = neither is known.

        Returns:
            Whether a shrink of its memory may be to blame.
        """
        if identity.pod_uid is None or identity.container is None:
            return False
        needs = None
        if memory_bytes is not None and self._settings.bounds.controlled_resources is not ControlledResources.CPU:
            limit_bytes = math.ceil(self._settings.cruise.memory_limit_ratio * memory_bytes)
            needs = Urgent(memory_bytes=memory_bytes, memory_limit_bytes=limit_bytes)
        is_blamed = self.ledger.is_shrunk_lately(identity.pod_uid, identity.container, self._now())
        self.actor.killed((identity.pod_uid, identity.container), needs)
        return is_blamed

    def notes(self) -> list[str]:
        """Say what is degraded, one sentence each."""
        barrier = self.actor.barrier
        notes = [*self.holds.notes(time.time()), *self._directions.notes()]
        if barrier is not None and barrier.reason != PAUSED:
            notes.append(f"nothing is resized: {barrier.sentence}")
        if self.actor.failure is not None:
            notes.append(f"the newest turn of planning failed: {self.actor.failure}")
        if self.journal.fault is not None:
            notes.append(self.journal.fault)
        if self._ledger_file.fault is not None:
            notes.append(f"nothing is resized: what is under way cannot be kept: {self._ledger_file.fault}")
        troubles = {status.trouble for status in self._cluster.statuses() if status.trouble is not None}
        notes += [f"the API server is not heard: {trouble}" for trouble in sorted(troubles)]
        notes += [f"not understood: {fault}" for fault in self._cluster.faults()]
        for asking in (self._proposer, self._taint_asker):
            notes += () if asking is None else asking.notes()
        return notes

    # -- inside ----------------------------------------------------------------------------------------------------

    def _notice(self, reason: str, sentence: str) -> None:
        self.journal.add(
            unix_seconds=time.time(),
            action=Action.NOTICE,
            outcome=Outcome.WITHHELD,
            reason=reason,
            detail=sentence,
        )

    def _follow(self, planned: Planned) -> None:
        """Look, from now on, at the containers that this plan may move; propose whom it wants evicted."""
        if self._proposer is not None:
            self._proposer.take(planned.plan)
        # Of a pod of which nothing is predicted yet, hunger is seen all the same, and it may grow by that.
        sized = (None, Reserved.NO_DATA)
        managed = {uid: one for uid, one in planned.demands.items() if one.reserved in sized}
        watched: list[AlarmContainer] = []
        for unit in self._units.all():
            identity = unit.identity
            demand = managed.get(identity.pod_uid or "")
            if demand is None or identity.container is None or identity.kind is not UnitKind.CONTAINER:
                continue
            container = demand.pod.container(identity.container)
            if container is None:
                continue
            watched.append(
                AlarmContainer(
                    slot=unit.slot,
                    inode=unit.inode,
                    pod_uid=demand.pod.uid,
                    container=container.name,
                    cpu_request_millicores=container.resources.cpu_request_millicores,
                    memory_limit_bytes=container.resources.memory_limit_bytes,
                )
            )
        self.alarms.follow(watched)

    def _measuring_fault(self, teller: Teller, heartbeat: Heartbeat) -> str | None:
        """Say why what was measured must not be acted by: it is too old."""
        swept_ns, evaluated = heartbeat.last_sweep_monotonic_ns, teller.evaluated
        return measuring_fault(
            sweep_age_seconds=None if swept_ns is None else (time.monotonic_ns() - swept_ns) / 1e9,
            sweep_interval_seconds=heartbeat.interval_seconds,
            evaluation_age_seconds=(
                None if evaluated is None else time.monotonic() - evaluated.taken_monotonic_seconds
            ),
            evaluation_interval_seconds=self._settings.evaluate_interval_seconds,
        )


def _below(directory: Path | None, name: str) -> Path | None:
    return None if directory is None else directory / name


def _unused(settings: Settings) -> frozenset[Purpose]:
    """Give what this agent is not to do by its settings."""
    unused = set()
    if not settings.overload.taint:
        unused.add(Purpose.TAINT)
    if not settings.kubernetes.events:
        unused.add(Purpose.EVENTS)
    return frozenset(unused)
