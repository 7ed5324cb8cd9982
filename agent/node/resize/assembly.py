"""The composition of all that needs an API server: the view of the node, the plan, the hand, and what is kept for them.

Node. Built only where there is an API server to ask (a pod's own account, or a kubeconfig); ``watching`` builds the
rest. It owns the thread ``acting``; the view has three or four of its own. Questions and orders of people go to
``answers``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent.core.cluster.unit import UnitIdentity
from agent.core.numbers.token_bucket import filling_bucket
from agent.core.orders.policy_options import ControlledResources
from agent.core.plan.needs.demand import Urgent
from agent.core.resize.decision import Action, Outcome
from agent.core.window.freshness import measuring_fault
from agent.kube.calls.events import EventWriter
from agent.kube.client.api import HttpApi
from agent.kube.client.own_rights import Purpose
from agent.metrics.agent_series import Metrics
from agent.node.cluster.pause import ClusterPause
from agent.node.cluster.rights import Rights
from agent.node.cluster.view import ClusterView
from agent.node.files.steady_clock import BootClock, SteadyClock
from agent.node.history.learner import Learner
from agent.node.keepers.assembly import KeeperParts, cgroup_limits_of, keepers_of
from agent.node.keepers.cgroup_auditor import CgroupAuditor
from agent.node.keepers.keeper import Keeper, KeeperTerms
from agent.node.keepers.taint_permission import GRANTED
from agent.node.orders.holds import FILE_NAME as HOLDS_FILE
from agent.node.orders.holds import Holds
from agent.node.orders.journal import FILE_NAME as JOURNAL_FILE
from agent.node.orders.journal import Journal
from agent.node.orders.restores import RestorePromises
from agent.node.recommender.evaluation import Evaluator
from agent.node.recommender.planner import PlannedNode, Planner
from agent.node.recommender.pod_orders import PodOrders
from agent.node.reports.directives_file import Directions
from agent.node.resize.acting_parts import ActingClocks, ActingParts
from agent.node.resize.actor import Actor
from agent.node.resize.aftermath import CpuWindows
from agent.node.resize.alarms import Alarms, ContainerKey, alarm_containers
from agent.node.resize.answers import ActingAnswers
from agent.node.resize.barriers import PAUSED, Barriers
from agent.node.resize.ledger_file import FILE_NAME as LEDGER_FILE
from agent.node.resize.ledger_file import LedgerFile
from agent.node.resize.memory_in_use import MemoryInUse
from agent.node.resize.memory_shortages import MemoryShortages
from agent.node.resize.quiet_cpu import QuietCpu
from agent.node.resize.startup_boosts import StartupBoosts
from agent.node.resize.step_sender import StepSender, reserve_of
from agent.node.resize.teller import ActTeller
from agent.node.resize.writer import StepWriter
from agent.node.sampling.parts import SamplingParts
from agent.settings import Settings

if TYPE_CHECKING:
    from agent.node.reports.proposer import Proposer
    from agent.node.reports.reporter import Reporter
    from agent.node.reports.run_teller import RunTeller
    from agent.node.reports.taint_asker import TaintAsker

STOP_SECONDS: Final = 5.0
"""For a call that is under way, and for taking the taint away, which is there where CPU is short. A pod has ten seconds
to end, and all else takes three of them at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """What watches this node, for those who act on it."""

    settings: Settings
    sampling: SamplingParts
    learner: Learner
    evaluator: Evaluator
    orders: PodOrders
    planner: Planner
    metrics: Metrics
    directions: Directions
    reporter: Reporter | None
    runs: RunTeller | None
    """None = nobody tells of runs."""


class NodeGrounds:
    """What plans stand on: measured, learnt and told."""

    def __init__(self, node: NodeParts) -> None:
        self._node = node

    def measuring_fault(self) -> str | None:
        """Return why what was measured must not be acted by; None = it is new enough."""
        heartbeat, evaluated = self._node.sampling.loop.heartbeat, self._node.evaluator.newest
        swept_ns = heartbeat.last_sweep_monotonic_ns
        return measuring_fault(
            sweep_age_seconds=None if swept_ns is None else (time.monotonic_ns() - swept_ns) / 1e9,
            sweep_interval_seconds=heartbeat.interval_seconds,
            evaluation_age_seconds=(
                None if evaluated is None else (time.monotonic_ns() - evaluated.taken_monotonic_ns) / 1e9
            ),
            evaluation_interval_seconds=self._node.settings.evaluate_interval_seconds,
        )

    def is_history_known(self) -> bool:
        """Return whether what was learnt before the start is known by now."""
        return self._node.learner.is_restored

    def is_untold(self) -> bool:
        """Return whether the webhook has told nothing yet."""
        return self._node.directions.is_awaited


class Acting:
    """What needs an API server, built around what watches; see the module's docstring."""

    def __init__(
        self,
        node: NodeParts,
        api: HttpApi,
        cluster: ClusterView,
        *,
        chance: float,  # 0..1, drawn once: agents that start together send their first resizes in different phases
    ) -> None:
        """Build all parts in order, each of those before it; nothing runs yet."""
        settings, sampling = node.settings, node.sampling
        self._node, self._cluster = node, cluster
        self._ledger_file = LedgerFile(_below(settings.state.directory, LEDGER_FILE))
        self.journal = Journal(_below(settings.state.directory, JOURNAL_FILE))
        self._parts = parts = self._shared_parts(api)
        self.writer = StepWriter(parts)
        self.barriers = Barriers(parts, NodeGrounds(node))
        teller = ActTeller(parts, self.barriers, self._events(api))
        restoring = RestorePromises(parts.holds, parts.ledger)
        boosts = StartupBoosts(ledger=parts.ledger, journal=parts.journal, series=parts.series, quiet=parts.quiet_cpu)
        self._taint_asker = self._made_taint_asker()
        self._cgroup_limits = cgroup_limits_of(settings, sampling)
        self._auditor = CgroupAuditor(
            mount=sampling.mount,
            cgroup_root=settings.cgroup.root,
            state=cluster.state,
            written_by_us=self._cgroup_limits.was_last_written,
            metrics=node.metrics,
        )
        self.actor = Actor(
            parts,
            writer=self.writer,
            barriers=self.barriers,
            teller=teller,
            sender=StepSender(
                parts,
                writer=self.writer,
                barriers=self.barriers,
                teller=teller,
                restoring=restoring,
                bucket=filling_bucket(
                    settings.act.resizes_per_minute,
                    reserve=reserve_of(settings.act.resizes_per_minute),
                    now_seconds=time.monotonic(),
                    chance=chance,
                ),
            ),
            restoring=restoring,
            boosts=boosts,
            keepers=self._keepers(parts),
        )
        self.alarms = Alarms(
            rings=sampling.rings,
            options=settings.act,
            memory_limit_ratio=settings.cruise.memory_limit_ratio,
            capacity_millicores=sampling.machine.capacity_millicores,
            on_alarm=self._alarmed,
            shortages=MemoryShortages(
                mount=sampling.mount, options=settings.act, limit_ratio=settings.cruise.memory_limit_ratio
            ),
        )
        self._proposer = self._made_proposer(teller)
        self.actor.followers.append(self._follow)
        reporter, runs = node.reporter, node.runs
        self.answers = ActingAnswers(
            parts,
            server=api.server,
            actor=self.actor,
            writer=self.writer,
            directions=node.directions,
            reporting=lambda: None if reporter is None else reporter.standing(),
            notes=self.notes,
            runs=lambda workload, name: () if runs is None else runs.last_of(workload, name),
        )

    def _shared_parts(self, api: HttpApi) -> ActingParts:
        node, settings, machine = self._node, self._node.settings, self._node.sampling.machine
        clocks = ActingClocks(now=SteadyClock(node.learner.clock.now()).now)
        ledger_file, ledger = self._ledger_file, self._ledger_file.read(settings.act, now_seconds=clocks.now())
        return ActingParts(
            settings=settings,
            api=api,
            cluster=self._cluster,
            node_name=machine.name,
            orders=node.orders,
            planner=node.planner,
            ledger=ledger,
            keep_ledger=lambda: ledger_file.keep(ledger),
            holds=Holds(
                _below(settings.state.directory, HOLDS_FILE),
                now_unix_seconds=clocks.wall_now(),
                boot=BootClock.of_machine(),
                of_cluster=ClusterPause(
                    settings.cluster_pause_file, told=node.directions.pause_reason, watch=self._cluster.pause
                ).reason,
            ),
            journal=self.journal,
            series=node.metrics.acting,
            turns=node.metrics.loops.begin("acting"),
            rights=Rights(
                api,
                node=machine.name,
                needs_claim=settings.kubernetes.require_node_claim,
                unused=_unused(settings),
                tell=lambda sentence: self._notice("rights", sentence),
            ),
            clocks=clocks,
            memory_in_use=MemoryInUse(node.sampling.mount, node.sampling.units).of,
            quiet_cpu=QuietCpu(
                rings=node.sampling.rings,
                units=node.sampling.units,
                capacity_millicores=machine.capacity_millicores,
                interval_seconds=settings.sampling.interval_seconds,
            ).of,
            start_used=(lambda uid, container: None if node.runs is None else node.runs.start_used(uid, container)),
            cpu_windows=CpuWindows(
                rings=node.sampling.rings,
                units=node.sampling.units,
                capacity_millicores=machine.capacity_millicores,
                options=settings.guard,
            ).of,
            set_back=lambda pod, reason: None if node.reporter is None else node.reporter.set_back(pod, reason),
        )

    def _events(self, api: HttpApi) -> EventWriter | None:
        if not self._node.settings.kubernetes.events:
            return None
        return EventWriter(
            api, self._node.sampling.machine.name, unix_seconds=time.time, monotonic_seconds=time.monotonic
        )

    def _keepers(self, parts: ActingParts) -> tuple[Keeper, ...]:
        asker, barriers, cluster = self._taint_asker, self.barriers, self._cluster
        return keepers_of(
            KeeperParts(
                settings=parts.settings,
                api=parts.api,
                node=lambda: cluster.state().node,
                orders_of=parts.orders.of_pod,
                holds=parts.holds,
                rights=parts.rights,
                series=parts.series,
                terms=KeeperTerms(may_write=barriers.may_write, tell=self.journal.add),
                may_write_budget=barriers.may_write_budget,
                is_enforcing=lambda: barriers.is_enforcing,
                tell_overload=parts.planner.heed_overload,
            ),
            self._node.sampling,
            self._cgroup_limits,
            waiting_ratios=self._node.evaluator.waiting_ratios,
            permission=(lambda: GRANTED) if asker is None else asker.permission,
        )

    def _made_taint_asker(self) -> TaintAsker | None:
        settings = self._node.settings
        if self._node.reporter is None or settings.report.url is None or not settings.overload.taint:
            return None
        from agent.node.reports.assembly import taint_asker_of

        return taint_asker_of(settings, settings.report.url, node=self._cluster.node_name, metrics=self._node.metrics)

    def _made_proposer(self, teller: ActTeller) -> Proposer | None:
        settings, reporter = self._node.settings, self._node.reporter
        if reporter is None or settings.report.url is None:
            return None
        from agent.node.reports.assembly import proposer_of
        from agent.node.reports.proposer import unless_scheduler_makes_room

        return proposer_of(
            settings,
            settings.report.url,
            node=self._cluster.node_name,
            may_propose=unless_scheduler_makes_room(self.barriers.may_write, self._cluster.state),
            tell=self.journal.add,
            event=teller.event,
            metrics=self._node.metrics,
            reporter=reporter,
        )

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch the API server, and to plan and act; the agent samples whether it answers or not."""
        self._cluster.start()
        self.actor.turns.start()
        self._auditor.turns.start()
        if self._proposer is not None:
            self._proposer.turns.start()

    def stop(self) -> bool:
        """End the threads; False = one of them is left in a call to a server that does not answer."""
        self.actor.turns.stop()
        self._auditor.turns.stop()
        self._cluster.stop()
        if self._proposer is not None:
            self._proposer.stop()
        if self._taint_asker is not None:
            self._taint_asker.stop()
        until = time.monotonic() + STOP_SECONDS
        self._auditor.turns.join(STOP_SECONDS)
        if not self.actor.turns.join(max(until - time.monotonic(), 0.0)):
            return False
        self.journal.close()
        return True

    # -- asked by other parts --------------------------------------------------------------------------------------

    def swept(self) -> None:
        """Check for what is urgent after a sweep; the sampling thread."""
        self.alarms.look()

    def _alarmed(self, needs: Mapping[ContainerKey, Urgent]) -> None:
        """Count who is short, and plan for it; the sampling thread."""
        self._parts.series.count_urgent(needs.values())
        self.actor.alarm(needs)

    def killed(self, identity: UnitIdentity, memory_bytes: int | None) -> bool:
        """Handle an out-of-memory kill; the sampling thread.

        Args:
            memory_bytes: What it used then, else its limit; None = neither is known.

        Returns:
            Whether a shrink of its memory may be to blame.
        """
        if identity.pod_uid is None or identity.container is None:
            return False
        needs = None
        if memory_bytes is not None and self._node.settings.bounds.controlled_resources is not ControlledResources.CPU:
            limit_bytes = math.ceil(self._node.settings.cruise.memory_limit_ratio * memory_bytes)
            needs = Urgent(memory_bytes=memory_bytes, memory_limit_bytes=limit_bytes)
        is_blamed = self._parts.ledger.is_shrunk_lately(identity.pod_uid, identity.container, self._parts.clocks.now())
        self.actor.killed((identity.pod_uid, identity.container), needs)
        return is_blamed

    def notes(self) -> list[str]:
        """Return what is degraded, one sentence each."""
        barrier = self.barriers.newest
        notes = [*self._parts.holds.notes(time.time()), *self._node.directions.notes()]
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
        watch = self._cluster.pause
        if watch is not None and watch.trouble is not None and not troubles:
            notes.append(f"a pause of the cluster is heard late, by the mount and the webhook alone: {watch.trouble}")
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

    def _follow(self, planned: PlannedNode) -> None:
        """Watch, from now on, the containers that this plan may move; propose whom it wants evicted."""
        if self._proposer is not None:
            self._proposer.take(planned.plan)
        self.alarms.follow(alarm_containers(planned, self._node.sampling.units))


def _below(directory: Path | None, name: str) -> Path | None:
    return None if directory is None else directory / name


def _unused(settings: Settings) -> frozenset[Purpose]:
    """Return what this agent is not to do by its settings."""
    unused = set()
    if not settings.overload.taint:
        unused.add(Purpose.TAINT)
    if not settings.kubernetes.events:
        unused.add(Purpose.EVENTS)
    return frozenset(unused)
