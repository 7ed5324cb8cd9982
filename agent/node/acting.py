"""The composition of all that needs an API server: the view of the node, the plan, the hand, and what is kept for them.

Node. Built only where there is an API server to ask (a pod's own account, or a kubeconfig); ``watching`` builds the
rest. It owns the thread ``acting``; the view has three of its own.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent.core.cluster import NodeState
from agent.core.cluster_checkup import ClusterFacts, MissingRight
from agent.core.decisions import Action, Decision, Outcome
from agent.core.demand import Kept, Reserved, Urgent
from agent.core.directed import STALE_SECONDS
from agent.core.explanation import Acted
from agent.core.model import UnitIdentity, UnitKind
from agent.core.planned import Plan, PlanStep
from agent.core.pod import Pod
from agent.core.policies.options import ControlledResources
from agent.core.report_checkup import ReportStanding
from agent.core.token_bucket import TokenBucket
from agent.core.versions import gates_of
from agent.core.write_gate import may_resize
from agent.kube.access import Purpose
from agent.kube.api import Api, HttpApi
from agent.kube.events import EventWriter
from agent.metrics.acting_series import ActingSeries, Trigger
from agent.metrics.agent_series import Metrics
from agent.node.act import Actor, Keeper
from agent.node.alarms import Alarms, Watched
from agent.node.barriers import PAUSED
from agent.node.cgroup_limits import FILE_NAME as CGROUP_LIMITS_FILE
from agent.node.cgroup_limits import CgroupLimits
from agent.node.cluster import ClusterView
from agent.node.control import ControlError, Verb
from agent.node.directions import Directions
from agent.node.documents import CLUSTER, PLAN
from agent.node.heartbeat import Heartbeat
from agent.node.holding_verbs import HoldingVerbs
from agent.node.holds import FILE_NAME as HOLDS_FILE
from agent.node.holds import Holds
from agent.node.journal import FILE_NAME as JOURNAL_FILE
from agent.node.journal import Choice, Journal
from agent.node.learning import Learner
from agent.node.ledger_file import FILE_NAME as LEDGER_FILE
from agent.node.ledger_file import LedgerFile
from agent.node.overload import OverloadKeeper, PodsPressure, machine_load_per_cpu
from agent.node.planning import Holding, Planned, Planner
from agent.node.pod_limits import PodLimitsWriter, pod_paths_of
from agent.node.qos_reserve import QosReserver
from agent.node.rights import Rights
from agent.node.steady_clock import BootClock, SteadyClock
from agent.node.telling import Teller
from agent.node.units import UnitTable
from agent.node.writing import Writer
from agent.sensing.discovery import Discovery
from agent.sensing.machine import Machine
from agent.sensing.rings import RingFile
from agent.settings import Settings

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 2.5
"""For a call that is under way, and for taking the taint away; a pod has ten seconds to end."""
OLDEST_SWEEP_SECONDS: Final = 10.0
OLDEST_SWEEPS: Final = 5
OLDEST_EVALUATIONS: Final = 3
"""Older than so many intervals, what was measured is not acted by."""
DECISIONS_TOLD: Final = 5
"""Of one pod, by ``why``."""
RESTORE_TIMEOUT_SECONDS: Final = 2.0
"""A person waits at the socket, and so do the scrapes behind them."""


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
        reporting: Callable[[], ReportStanding | None] = lambda: None,
    ) -> None:
        """Build all parts; nothing runs yet."""
        state = settings.state.directory
        self._settings, self._cluster, self._units, self._rings, self._mount = settings, cluster, units, rings, mount
        self._planner, self._learner = planner, learner
        self._server = api.server
        wall_now = time.time
        self.journal = Journal(_below(state, JOURNAL_FILE))
        self._directions, self._reporting = directions, reporting
        self.holds = Holds(
            _below(state, HOLDS_FILE),
            now_unix_seconds=wall_now(),
            boot=BootClock.of_machine(),
            of_cluster=directions.pause_reason,
        )
        self._now = SteadyClock(learner.clock.now()).now
        self._ledger_file = ledger_file = LedgerFile(_below(state, LEDGER_FILE))
        self.ledger = ledger_file.read(settings.act, now_seconds=self._now())
        self.rights = Rights(
            api,
            node=machine.name,
            needs_claim=settings.kubernetes.require_node_claim,
            unused=_unused(settings),
            tell=lambda sentence: self._notice("rights", sentence),
        )
        self.writer = Writer(
            api=api,
            ledger=self.ledger,
            journal=self.journal,
            holds=self.holds,
            series=metrics.acting,
            take_pod=cluster.put,
            keep=lambda: ledger_file.keep(self.ledger),
            now=self._now,
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
            bucket=TokenBucket(
                settings.act.resizes_per_minute,
                now_seconds=time.monotonic(),
                fill_ratio=random.random(),  # noqa: S311
            ),
            events=EventWriter(api, machine.name, unix_seconds=wall_now, monotonic_seconds=time.monotonic)
            if settings.kubernetes.events
            else None,
            keepers=self._keepers(api, machine, discovery, teller, metrics),
            keep=lambda: ledger_file.keep(self.ledger),
            is_history_known=lambda: learner.is_restored,
            measuring_fault=lambda: self._measuring_fault(teller, heartbeat),
            is_untold=lambda: directions.is_awaited,
            memory_in_use=self._memory_in_use,
            planned=self._follow,
            now=self._now,
            wall_now=wall_now,
        )
        self.alarms = Alarms(
            rings=rings,
            options=settings.act,
            memory_limit_ratio=settings.cruise.memory_limit_ratio,
            capacity_millicores=machine.capacity_millicores,
            on_alarm=self.actor.alarm,
        )
        self._thread: threading.Thread | None = None
        self._proposer = None
        if settings.report.url is not None:
            from agent.node.proposing_setup import proposer_of

            self._proposer = proposer_of(
                settings,
                settings.report.url,
                node=cluster.node_name,
                may_propose=self.actor.may_write,
                tell=self.journal.add,
                event=self.actor.tell_owner,
                metrics=metrics,
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

    def killed(self, identity: UnitIdentity, memory_bytes: int | None) -> None:
        """Hear of an out-of-memory kill; the sampling thread.

        Args:
            identity: Who was killed.
            memory_bytes: What it used then, else its limit; None = neither is known.
        """
        if identity.pod_uid is None or identity.container is None:
            return
        needs = None
        if memory_bytes is not None and self._settings.bounds.controlled_resources is not ControlledResources.CPU:
            limit_bytes = math.ceil(self._settings.cruise.memory_limit_ratio * memory_bytes)
            needs = Urgent(memory_bytes=memory_bytes, memory_limit_bytes=limit_bytes)
        self.actor.killed((identity.pod_uid, identity.container), needs)

    def was_resized_lately(self, identity: UnitIdentity) -> bool:
        """Say whether a container's pod was resized within ``act.revertSeconds``; any thread."""
        uid, since = identity.pod_uid, self._now() - self._settings.act.revert_seconds
        if uid is None:
            return False
        changed = self.actor.changed_seconds.get(uid)
        return changed is not None and changed >= since

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
        return [*notes, *(self._proposer.notes() if self._proposer is not None else ())]

    def acted(self, identity: UnitIdentity) -> Acted | None:
        """Give what the newest plan makes of a container, and what was done to its pod; None = it is in no plan."""
        planned = self.actor.planned
        demand = None if planned is None else planned.demands.get(identity.pod_uid or "")
        if planned is None or demand is None:
            return None
        pod = next((one for one in planned.plan.pods if one.ref.uid == demand.pod.uid), None)
        if pod is None:
            return None
        containers = {one.name: one for one in pod.containers}
        return Acted(
            orders=demand.orders,
            reserved=demand.reserved,
            planned=containers.get(identity.container or ""),
            is_evicted=pod.is_evicted,
            decisions=self.journal.newest(DECISIONS_TOLD, Choice(pod=str(pod.ref))),
            told=planned.directed.sentences(demand.workload),
        )

    def verbs(self, node: str) -> dict[str, Verb]:
        """Give what can be asked and ordered at the socket."""
        holding = HoldingVerbs(
            node=node,
            journal=self.journal,
            holds=self.holds,
            pods=lambda: self._cluster.state().pods,
            send=self._restore,
            clock=time.time,
            changed=lambda: self.actor.ask(Trigger.ORDER),
        )
        return {**holding.verbs(), "plan": self._plan, "cluster": self._cluster_facts}

    def _cluster_facts(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        if arguments:
            raise ControlError(f"cluster takes no arguments, not {', '.join(arguments)}")
        state, standing, now = self._cluster.state(), self.rights.standing, time.time()
        gates, directed = gates_of(state.server_version, state.node), self._directions.now()
        missing = () if standing is None else standing.missing
        return CLUSTER.to_json(
            ClusterFacts(
                node=self._cluster.node_name,
                server=self._server,
                server_version=state.server_version,
                kubelet_version=None if state.node is None else state.node.kubelet_version,
                age_seconds=state.age_seconds,
                stale_seconds=self._settings.act.stale_seconds,
                is_complete=state.is_complete,
                has_node=state.node is not None,
                pods=len(state.pods),
                unreadable_pods=state.unreadable_pods,
                missing_rights=tuple(
                    MissingRight(right=str(one.permission), consequence=str(one.permission.purpose)) for one in missing
                ),
                node_claim=None if standing is None else standing.claim,
                is_claim_required=self._settings.kubernetes.require_node_claim,
                can_resize=gates.resize,
                gate_reasons=gates.reasons,
                orders=self.holds.notes(now),
                is_paused=self.holds.is_paused(now),
                is_webhook_expected=self._directions.is_expected,
                directives_age_seconds=None if directed.directives is None else directed.age_seconds,
                directives_stale_seconds=STALE_SECONDS,
                cluster_pause=self.holds.cluster_pause(),
                reporting=self._reporting(),
            )
        )

    def _plan(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        unknown = set(arguments) - {"what_if"}
        what_if = arguments.get("what_if", False)
        if unknown or not isinstance(what_if, bool):
            raise ControlError("plan: allowed: what_if, true or false")
        return PLAN.to_json(self.plan(as_enforced=what_if))

    def plan(self, *, as_enforced: bool = False) -> Plan:
        """Plan now; nothing is done. Any thread."""
        now = self._now()
        with self.writer.lock:
            state = self._cluster.state()
            holding = Holding(
                pinned=self.holds.pinned(time.time()),
                constraints=self.ledger.constraints(state, now),
                is_barred=lambda workload: self.ledger.is_shrink_barred(workload, now),
                is_limit_held=lambda workload, name: self.ledger.is_memory_limit_held(workload, name, now),
            )
        plan = self._planner.plan(holding, urgent=self.actor.remembered(), as_enforced=as_enforced).plan
        return replace(plan, notes=(*plan.notes, *self.notes()))

    def _restore(self, pod: Pod, step: PlanStep) -> Decision:
        """Put one step of the originals back, past mode and pin, but by every rule that keeps a pod whole."""
        state = self._cluster.state()
        refusal = may_resize(
            step,
            pod,
            self._planner.orders_of_pod(pod, state),
            reserved=None,
            plan=self._settings.plan,
            gates=gates_of(state.server_version, state.node),
            memory_in_use_bytes=self._memory_in_use(pod),
            is_put_back=True,
        )
        faults = self.rights.faults()
        if refusal is not None or faults:
            return self.writer.withhold(step, Action.RESTORE, refusal or "rights", "; ".join(faults))
        decision, answer = self.writer.send(pod, step, Action.RESTORE, timeout_seconds=RESTORE_TIMEOUT_SECONDS)
        if answer is None and decision.reason == Kept.IN_FLIGHT:
            return self.writer.send_later(pod, step, Action.RESTORE)
        return decision

    # -- inside ----------------------------------------------------------------------------------------------------

    def _keepers(
        self, api: Api, machine: Machine, discovery: Discovery, teller: Teller, metrics: Metrics
    ) -> tuple[Keeper, ...]:
        settings, tell = self._settings, self.journal.add
        limits = CgroupLimits(self._mount, _below(settings.state.directory, CGROUP_LIMITS_FILE))

        def may_write() -> str | None:
            return self.actor.may_write()

        self.overload = OverloadKeeper(
            api=api,
            node_name=machine.name,
            options=settings.overload,
            node=lambda: self._cluster.state().node,
            load_per_cpu=lambda: machine_load_per_cpu(max(1, machine.capacity_millicores // 1000)),
            waiting_ratio=PodsPressure(self._mount, lambda: discovery.kubepods_root, teller.waiting_ratios),
            may_write=lambda: may_write() or self._taint_right(),
            tell=tell,
        )
        pod_limits = PodLimitsWriter(
            limits=limits,
            options=settings.pod_limits,
            pod_paths=lambda: pod_paths_of(unit.identity for unit in self._units.all()),
            margin_ratio=settings.plan.memory_limit_margin_ratio,
            may_write=may_write,
            tell=tell,
            pinned=lambda: self.holds.pinned(time.time()),
            orders_of=self._planner.orders_of_pod,
        )
        reserver = QosReserver(
            limits=limits,
            options=settings.pod_limits,
            mount=self._mount,
            kubepods_root=lambda: discovery.kubepods_root,
            may_write=may_write,
            tell=tell,
        )
        return _OverloadTurn(self.overload, metrics.acting), _Lasting(pod_limits.tick), _Lasting(reserver.tick)

    def _taint_right(self) -> str | None:
        if not self.rights.may(Purpose.TAINT):
            return "rights"
        # A taint of its own that is there is taken away in any mode.
        return None if self.actor.is_enforcing or self.overload.is_tainted else "recommend"

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
        watched: list[Watched] = []
        for unit in self._units.all():
            identity = unit.identity
            demand = managed.get(identity.pod_uid or "")
            if demand is None or identity.container is None or identity.kind is not UnitKind.CONTAINER:
                continue
            container = demand.pod.container(identity.container)
            if container is None:
                continue
            watched.append(
                Watched(
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
        oldest_seconds = max(OLDEST_SWEEP_SECONDS, OLDEST_SWEEPS * heartbeat.interval_seconds)
        if swept_ns is None or (time.monotonic_ns() - swept_ns) / 1e9 > oldest_seconds:
            return f"no sweep within {oldest_seconds:g} s: the sampler does not keep up"
        oldest_seconds = OLDEST_EVALUATIONS * self._settings.evaluate_interval_seconds + OLDEST_SWEEP_SECONDS
        if evaluated is None or time.monotonic() - evaluated.taken_monotonic_seconds > oldest_seconds:
            return f"no evaluation within {oldest_seconds:g} s: see the agent's log"
        return None

    def _memory_in_use(self, pod: Pod) -> dict[str, int]:
        """Read memory.current of a pod's containers, and of the pod itself under the empty name.

        The kernel is asked anew: a limit that falls below what is in use kills, and a reading of a second ago is old.
        """
        identities = [unit.identity for unit in self._units.all() if unit.identity.pod_uid == pod.cgroup_uid]
        paths = [(one.container, one.cgroup_path) for one in identities if one.container is not None]
        paths += [("", path) for path in pod_paths_of(identities).values()]
        found: dict[str, int] = {}
        for name, path in paths:
            try:
                text = (self._mount / path.lstrip("/") / "memory.current").read_text(encoding="ascii")
                found[name] = max(found.get(name, 0), int(text))
            except (OSError, ValueError):
                log.debug("memory in use not read", extra={"path": path})
        return found


class _Lasting:
    """A keeper whose work outlives the agent: what was asked for still is."""

    def __init__(self, tick: Callable[[NodeState, float], None]) -> None:
        self.tick = tick

    def close(self) -> None:
        """Leave all as it is."""


class _OverloadTurn:
    """The overload taint as one of the keepers."""

    def __init__(self, keeper: OverloadKeeper, series: ActingSeries) -> None:
        self._keeper, self._series = keeper, series

    def tick(self, state: NodeState, now_seconds: float) -> None:
        """Judge and write as far as it is due."""
        self._keeper.tick(now_seconds)
        self._series.set_overload(is_overloaded=self._keeper.is_overloaded, is_tainted=bool(self._keeper.is_tainted))

    def close(self) -> None:
        """Take the taint away."""
        self._keeper.remove_at_exit()


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
