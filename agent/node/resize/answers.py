"""What people ask of acting and order at the socket: the plan, what is known of the cluster, restores, and ``why``.

Node. Any thread may ask; nothing here waits for the thread ``acting``, but for the lock under which it sends a step:
a restore for as long as it takes, a plan for two seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent.core.cluster.pod import Pod
from agent.core.cluster.unit import UnitIdentity
from agent.core.cluster.versions import gates_of
from agent.core.cluster.workload import Workload
from agent.core.machine.cluster_checkup import ClusterStatus, MissingRight, ReportStanding
from agent.core.machine.oom_score import OomScore
from agent.core.orders.windows import waits_of, waits_words
from agent.core.plan.needs.directives import STALE_SECONDS
from agent.core.plan.plan import Plan, PlanStep
from agent.core.resize.decision import Action, Decision
from agent.core.resize.why import Acted, stale_oom_score, startup_boost_words
from agent.core.resize.write_gate import may_resize
from agent.metrics.acting_series import Trigger
from agent.node.files.documents import CLUSTER, PLAN
from agent.node.orders.journal import DecisionFilter
from agent.node.orders.verbs import HoldingVerbs
from agent.node.recommender.planner import Holding
from agent.node.reports.directives_file import Directions
from agent.node.resize.acting_parts import ActingParts
from agent.node.resize.actor import Actor
from agent.node.resize.writer import StepWriter
from agent.node.sockets.control import ControlError, Verb

DECISIONS_TOLD: Final = 5
"""Of one pod, by ``why``."""
RESTORE_TIMEOUT_SECONDS: Final = 2.0
"""A person waits at the socket, and so do the scrapes behind them."""
PLAN_WAIT_SECONDS: Final = 2.0
"""For a step that is being sent: an API server that is away keeps it for longer than the asking command waits."""
STEP_WAITS: Final = "a step waits for the API server's answer"


class ActingAnswers:
    """Answers, and sends what a person orders; see the module's docstring."""

    def __init__(
        self,
        parts: ActingParts,
        *,
        server: str,
        actor: Actor,
        writer: StepWriter,  # Sends steps; its lock guards the ledger
        directions: Directions,
        reporting: Callable[[], ReportStanding | None],  # How reports go; None = nothing is reported
        notes: Callable[[], Sequence[str]],  # What is degraded, one sentence each
        runs: Callable[[Workload, str], tuple[str, ...]],  # The last runs of a container here, one sentence each
    ) -> None:
        self._parts, self._server, self._actor, self._writer = parts, server, actor, writer
        self._directions, self._reporting, self._notes, self._runs = directions, reporting, notes, runs

    def acted(self, identity: UnitIdentity) -> Acted | None:
        """Return what the newest plan makes of a container, and what was done to its pod; None = it is in no plan."""
        planned = self._actor.planned
        demand = None if planned is None else planned.demands.get(identity.pod_uid or "")
        if planned is None or demand is None:
            return None
        pod = next((pod for pod in planned.plan.pods if pod.ref.uid == demand.pod.uid), None)
        if pod is None:
            return None
        containers = {container.name: container for container in pod.containers}
        return Acted(
            orders=demand.orders,
            reserved=demand.reserved,
            planned=containers.get(identity.container or ""),
            is_evicted=pod.is_evicted,
            decisions=self._parts.journal.newest(DECISIONS_TOLD, DecisionFilter(pod=str(pod.ref))),
            told=planned.directed.sentences(demand.workload),
            cpu=planned.plan.cpu,
            runs=self._runs(demand.workload, identity.container or ""),
            oom_score=self._oom_score(demand.pod.uid, identity.container or ""),
            windows=self._windows(demand.orders.windows, planned.plan.taken_unix_seconds),
            startup_boost=startup_boost_words(
                demand.pod,
                identity.container or "",
                demand.orders,
                now_unix_seconds=self._parts.clocks.wall_now(),
                used=self._parts.start_used(demand.pod.uid, identity.container or ""),
            ),
        )

    def _windows(self, text: str | None, now_unix_seconds: float) -> str | None:
        """Return when a pod may be disturbed, also one that the plan leaves alone and so works out nothing for."""
        if text is None:
            return None
        lasting_seconds = self._parts.settings.act.deferred_patience_seconds
        return waits_words(waits_of(self._parts.orders.read_windows(text), now_unix_seconds, lasting_seconds))

    def _oom_score(self, uid: str, name: str) -> OomScore | None:
        state, original = self._parts.cluster.state(), self._parts.holds.original(uid)
        pod = next((pod for pod in state.pods if pod.uid == uid), None)
        if pod is None or original is None or state.node is None:
            return None
        return stale_oom_score(pod, name, original, state.node)

    def verbs(self, node: str) -> dict[str, Verb]:
        """Return what can be asked and ordered at the socket."""
        holding = HoldingVerbs(
            node=node,
            journal=self._parts.journal,
            holds=self._parts.holds,
            pods=lambda: self._parts.cluster.state().pods,
            send=self._restore,
            clock=time.time,
            changed=lambda: self._actor.ask(Trigger.ORDER),
            is_told=lambda: self._parts.cluster.state().is_complete,
        )
        return {**holding.verbs(), "plan": self._plan, "cluster": self._cluster_facts}

    def _cluster_facts(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        if arguments:
            raise ControlError(f"cluster takes no arguments, not {', '.join(arguments)}")
        state, standing, now = self._parts.cluster.state(), self._parts.rights.standing, time.time()
        gates, directed = gates_of(state.server_version, state.node), self._directions.now()
        missing = () if standing is None else standing.missing
        return CLUSTER.to_json(
            ClusterStatus(
                node=self._parts.node_name,
                server=self._server,
                server_version=state.server_version,
                kubelet_version=None if state.node is None else state.node.kubelet_version,
                age_seconds=state.age_seconds,
                stale_seconds=self._parts.settings.act.stale_seconds,
                is_complete=state.is_complete,
                has_node=state.node is not None,
                pods=len(state.pods),
                unreadable_pods=state.unreadable_pods,
                missing_rights=tuple(
                    MissingRight(right=str(lack.permission), consequence=str(lack.permission.purpose))
                    for lack in missing
                ),
                node_claim=None if standing is None else standing.claim,
                is_claim_required=self._parts.settings.kubernetes.require_node_claim,
                can_resize=gates.resize,
                gate_reasons=gates.reasons,
                orders=self._parts.holds.notes(now),
                is_paused=self._parts.holds.is_paused(now),
                is_webhook_expected=self._directions.is_expected,
                directives_age_seconds=None if directed.directives is None else directed.age_seconds,
                directives_stale_seconds=STALE_SECONDS,
                cluster_pause=self._parts.holds.cluster_pause(),
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
        """Plan now; nothing is done. Any thread.

        While the API server leaves a step without an answer, what holds pods is the newest turn's, and that step.

        Raises:
            ControlError: A step has no answer, and there was no turn yet.
        """
        now, asides = self._parts.clocks.now(), self._notes()
        if self._writer.lock.acquire(timeout=PLAN_WAIT_SECONDS):
            try:
                state, holds = self._parts.cluster.state(), self._parts.holds
                holding = Holding.of(self._parts.ledger, holds, state, now_seconds=now, wall_now=time.time())
            finally:
                self._writer.lock.release()
        else:
            newest = self._actor.planned
            if newest is None:
                raise ControlError(f"plan: {STEP_WAITS}; ask again in a moment")
            holding = newest.holding.with_unanswered(self._writer.unanswered_uids)
            asides = (f"{STEP_WAITS}: cool-downs, pins and pauses are as of the newest turn", *asides)
        plan = self._parts.planner.plan(holding, urgent=self._actor.remembered(), as_enforced=as_enforced).plan
        return replace(plan, notes=(*plan.notes, *asides))

    def _restore(self, pod: Pod, step: PlanStep) -> Decision:
        """Restore one step of the originals, past mode and pin, but by every rule that keeps a pod whole."""
        state = self._parts.cluster.state()
        refusal = may_resize(
            step,
            pod,
            self._parts.orders.of_pod(pod, state),
            reserved=None,
            plan=self._parts.settings.plan,
            gates=gates_of(state.server_version, state.node),
            memory_in_use_bytes=self._parts.memory_in_use(pod),
            is_put_back=True,
        )
        faults = self._parts.rights.faults()
        if refusal is not None or faults:
            return self._writer.withhold(step, Action.RESTORE, refusal or "rights", "; ".join(faults))
        return self._writer.send(pod, step, Action.RESTORE, timeout_seconds=RESTORE_TIMEOUT_SECONDS)[0]
