"""From what every pod of a node needs to a plan: what fits, who gets what, who should go, and the steps. Core, pure.

Available is what the node can allocate without the requests of those who may not be optimised. Memory first, then CPU
on the survivors: while it does not fit, the next pod in order is proposed for eviction (``fit``). The headroom is
shared out (``spike_sharing``): the largest spike, or what all were seen to want together (``joint_spike``). What stands
in the way of moving keeps what it has (``moves``), and the rest is ordered into steps (``steps``). The plan then states
its own invariants (``invariants``): a pod of which one does not hold is left out, told, and the rest is planned anew;
where one fails for the node's own sums, nothing is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent.core.cluster.node import NodeState
from agent.core.cluster.pod import ContainerKind, QosClass
from agent.core.cluster.qos import pod_qos_class
from agent.core.cluster.resource import Resource
from agent.core.cluster.versions import Gates
from agent.core.cluster.workload import workload_of
from agent.core.numbers.amount_text import amount_text
from agent.core.orders.order import Mode, Orders, Ranking
from agent.core.orders.plan_options import HeadroomRule, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, ControlledResources
from agent.core.plan.invariants import Examination, examine
from agent.core.plan.moves import Room, move
from agent.core.plan.needs.demand import FREE, Constraint, PodDemand, ReservedReason
from agent.core.plan.needs.given_boost import without_boost
from agent.core.plan.node_room import counted
from agent.core.plan.plan import ContainerPlan, Eviction, Plan, PodPlan, ResourcePlan, Share
from agent.core.plan.pod_change import actuated
from agent.core.plan.pod_facts import PodFacts, PodFactsCache
from agent.core.plan.room_maker import room_maker
from agent.core.plan.sizing.container_sizing import cpu_edges, memory_edges
from agent.core.plan.sizing.entry import PlanRules, PodEntry, Unit
from agent.core.plan.sizing.fit import Fit, evict, oom_evictions, share
from agent.core.plan.sizing.interim import Interim
from agent.core.plan.sizing.joint_spike import Together, joint_spike
from agent.core.plan.sizing.unit_levels import entry_of
from agent.core.plan.steps import steps_of
from agent.core.plan.tier_room import NO_TIER_LIMITS, TierMemory, TierRoom

_MEMORY_PRESSURE: Final = "MemoryPressure"
_TRUE: Final = "True"
_TOLD: Final = 5
"""Pods that are left out, by name."""
_STUCK: Final = "its resize is infeasible here, and it would go on asking for that"
_RESERVED_BY_MODE: Final = {Mode.OFF: ReservedReason.OFF, Mode.RECOMMEND: ReservedReason.RECOMMEND}


def build(
    state: NodeState,
    demands: Sequence[PodDemand],
    *,
    constraints: Mapping[str, Constraint],
    gates: Gates,
    options: PlanOptions,
    bounds: BoundsOptions,
    taken_unix_seconds: float,
    cache: PodFactsCache | None = None,
    tiers: Mapping[QosClass, TierMemory] = NO_TIER_LIMITS,
    together: Together | None = None,
) -> Plan:
    """Plan one node, and check the plan.

    Planning again after it was applied, or after any part of it, leads to the same end; a plan later where a QoS tier's
    own limit has to be left by some before others may grow. Where the state is not complete both resources are only
    looked at. A pod without a demand is reserved as it stands; a demand of a pod that has
    ended, or that the state does not know, is passed over. Constraints are by uid. The cache is for speed alone. Tiers
    are those QoS tiers whose own cgroup limits memory. ``together`` tells what containers demanded at the same
    time; None = nobody knows.
    """
    notes = _doubts(state)
    node = state.node
    allocatable_cpu = node.allocatable_cpu_millicores or 0 if node is not None else 0
    allocatable_memory = node.allocatable_memory_bytes or 0 if node is not None else 0
    rules = PlanRules(
        options=options,
        gates=gates,
        cpu=cpu_edges(bounds),
        memory=memory_edges(bounds),
        allocatable_cpu_millicores=allocatable_cpu,
        allocatable_memory_bytes=allocatable_memory,
    )
    facts = (cache or PodFactsCache()).facts_of(state.pods)
    left_out: dict[str, str] = {}
    while True:  # ends: each round leaves out at least one pod more
        plan, stuck = _planned(
            state,
            facts,
            demands,
            constraints=constraints,
            rules=rules,
            bounds=bounds,
            taken_unix_seconds=taken_unix_seconds,
            notes=notes,
            left_out=left_out,
            tiers=tiers,
            together=together if options.headroom is HeadroomRule.JOINT else None,
        )
        examined = examine(plan, state)
        more = {**examined.pods, **stuck}
        if not more:
            return _checked(plan, examined)
        left_out.update(more)


def _planned(
    state: NodeState,
    facts: Sequence[PodFacts],
    demands: Sequence[PodDemand],
    *,
    constraints: Mapping[str, Constraint],
    rules: PlanRules,
    bounds: BoundsOptions,
    taken_unix_seconds: float,
    notes: tuple[str, ...],
    left_out: Mapping[str, str],
    tiers: Mapping[QosClass, TierMemory],
    together: Together | None,
) -> tuple[Plan, dict[str, str]]:
    """Plan without those that are left out; return the plan, unchecked, and whose resize stays infeasible by it.

    Where there are notes nothing may be written.
    """
    node, options, gates = state.node, rules.options, rules.gates
    allocatable_cpu, allocatable_memory = rules.allocatable_cpu_millicores, rules.allocatable_memory_bytes
    entries, reserved, held, off_limits = _sorted_out(facts, demands, constraints, rules, left_out)
    cpu = Fit(
        resource=Resource.CPU,
        room=allocatable_cpu - off_limits[0],
        is_applied=not notes and bounds.controlled_resources is not ControlledResources.MEMORY,
    )
    memory = Fit(
        resource=Resource.MEMORY,
        room=allocatable_memory - off_limits[1],
        is_applied=not notes and options.memory_applied and bounds.controlled_resources is not ControlledResources.CPU,
    )
    fits = [fit for fit in (memory, cpu) if fit.is_applied]
    applied = [fit.resource for fit in fits]
    evictions = [eviction for fit in (memory, cpu) for eviction in _evictions(fit, entries, options, applied)]
    cpu_room = Room(allocatable=allocatable_cpu, held=held[0])
    tier_room = TierRoom(tiers, _requested_by_class(facts)) if tiers else None
    memory_room = Room(allocatable=allocatable_memory, held=held[1], tiers=tier_room)
    is_pressed = node is not None and node.conditions.get(_MEMORY_PRESSURE) == _TRUE
    for fit, room in ((memory, memory_room), (cpu, cpu_room)):
        share(fit, entries, options, joint_spike(fit, entries, together))
        interim = None
        if any(entry.is_evicted for entry in entries):
            interim = Interim(fit, entries, options, joint_spike(fit, entries, together, is_interim=True))
        move(entries, fit, room, rules, is_pressed=is_pressed)
        if interim is not None:
            interim.end()
    evictions += oom_evictions(entries, memory)
    steps = steps_of(entries, cpu_room, memory_room)
    pods = [*reserved, *(_pod_plan(entry) for entry in entries)]
    pods.sort(key=lambda pod: (pod.ref.namespace, pod.ref.name, pod.ref.uid))
    plan = Plan(
        taken_unix_seconds=taken_unix_seconds,
        node=node.name if node is not None else "",
        cpu=_resource_plan(cpu, cpu_room, entries),
        memory=_resource_plan(memory, memory_room, entries),
        pods=tuple(pods),
        evictions=tuple(evictions),
        steps=steps,
        notes=(
            *notes,
            *_notes(cpu, memory, gates),
            *_tier_notes(tier_room),
            *_pending_notes(entries, is_shared=gates.resize and any(not fit.is_infeasible for fit in fits)),
            *_held_notes(entries),
            *_left_out_notes(reserved, left_out),
            *_room_notes(state, taken_unix_seconds),
        ),
    )
    staying = (entry for entry in entries if entry.is_infeasible and not entry.is_evicted)
    stuck = {entry.ref.uid: _STUCK for entry in staying if entry.is_wish_left}
    return plan, stuck


def _requested_by_class(facts: Sequence[PodFacts]) -> dict[QosClass, int]:
    """Return the memory that pods hold now by QoS class; bytes."""
    requested = dict.fromkeys(QosClass, 0)
    for pod in facts:
        if pod.holds_room:
            requested[pod_qos_class(pod.pod)] += pod.counted[1]
    return requested


def _room_notes(state: NodeState, taken_unix_seconds: float) -> tuple[str, ...]:
    maker = room_maker(state, taken_unix_seconds)
    return () if maker is None else (maker.note,)


def _tier_notes(tiers: TierRoom | None) -> tuple[str, ...]:
    note = tiers.note() if tiers is not None else None
    return () if note is None else (note,)


def _pending_notes(entries: Sequence[PodEntry], *, is_shared: bool) -> list[str]:
    pending = sum(entry.is_evicted for entry in entries)
    if not pending or not is_shared:
        return []
    who = (
        "1 pod is proposed for eviction: until it goes"
        if pending == 1
        else f"{pending} pods are proposed for eviction: until they go"
    )
    return [f"{who}, what is free is shared over all that lack it"]


def _held_notes(entries: Sequence[PodEntry]) -> list[str]:
    """Return of which containers more is in use than the most that was ordered for them."""
    sentences = [
        f"{entry.ref} {unit.name}: more memory is in use, or its fixed heap, than the most allowed, so it keeps that"
        for entry in entries
        for unit in entry.memory.units
        if unit.is_held_over_most
    ]
    return (
        sentences
        if len(sentences) <= _TOLD
        else [*sentences[:_TOLD], f"{len(sentences) - _TOLD} more containers use more memory so"]
    )


def _left_out_notes(reserved: Sequence[PodPlan], left_out: Mapping[str, str]) -> list[str]:
    """Return who is left out of the plan and why: the first few, and how many more."""
    sentences = sorted(f"{pod.ref} is left out: {left_out[pod.ref.uid]}" for pod in reserved if pod.ref.uid in left_out)
    return (
        sentences
        if len(sentences) <= _TOLD
        else [*sentences[:_TOLD], f"{len(sentences) - _TOLD} more pods are left out"]
    )


def _checked(plan: Plan, examined: Examination) -> Plan:
    invariants = examined.invariants
    failed = [invariant for invariant in invariants if not invariant.holds]
    if not failed:
        return replace(plan, invariants=invariants)
    breaches = "; ".join(
        f"{invariant.name} ({invariant.detail})" if invariant.detail else invariant.name for invariant in failed
    )
    note = f"nothing is done: the plan breaks its own invariants, which is a fault of Plimsoll: {breaches}"
    return replace(plan, invariants=invariants, steps=(), evictions=(), notes=(*plan.notes, note))


def _doubts(state: NodeState) -> tuple[str, ...]:
    """Return why nothing may be written on what is known; empty = nothing speaks against it."""
    notes: list[str] = []
    if state.node is None:
        notes.append("nothing is done: the node is not known")
    elif state.node.allocatable_cpu_millicores is None or state.node.allocatable_memory_bytes is None:
        notes.append("nothing is done: the node does not tell what it can allocate")
    if not state.is_complete:
        notes.append("nothing is done: not everything about the node has been read yet")
    if state.unreadable_pods:
        some = "; ".join(state.unreadable_pods[:3])
        more = f" and {len(state.unreadable_pods) - 3} more" if len(state.unreadable_pods) > 3 else ""
        notes.append(f"nothing is done: pods are not understood, and nobody can count what they hold: {some}{more}")
    return tuple(notes)


def _notes(cpu: Fit, memory: Fit, gates: Gates) -> tuple[str, ...]:
    notes = [
        f"{fit.resource} does not fit and nobody else may go: no {fit.resource} is resized"
        for fit in (cpu, memory)
        if fit.is_infeasible
    ]
    return (*notes, *gates.reasons)


def _sorted_out(
    facts: Sequence[PodFacts],
    demands: Sequence[PodDemand],
    constraints: Mapping[str, Constraint],
    rules: PlanRules,
    left_out: Mapping[str, str],
) -> tuple[list[PodEntry], list[PodPlan], tuple[int, int], tuple[int, int]]:
    """Return who may be optimised, by namespace and name, who is reserved, what all hold and what the node loses.

    Both in millicores and bytes. All hold what the scheduler counts, which is what growth must fit beside. Taken off
    is what those who are reserved have in force: a wish that is not granted, may be never, makes nobody else go.
    """
    by_uid: dict[str, PodDemand] = {}
    for demand in demands:
        by_uid.setdefault(demand.pod.uid, demand)
    entries: list[PodEntry] = []
    reserved: list[PodPlan] = []
    held_cpu = held_memory = off_cpu = off_memory = 0
    for pod in facts:
        if not pod.holds_room:
            continue
        held_cpu += pod.counted[0]
        held_memory += pod.counted[1]
        known, reason = by_uid.get(pod.ref.uid), None
        if known is not None:
            reason = known.reserved or _RESERVED_BY_MODE.get(known.orders.mode)
            if reason is None and pod.ref.uid in left_out:
                reason = ReservedReason.LEFT_OUT
            if reason is None:
                entries.append(entry_of(known, pod, constraints.get(pod.ref.uid, FREE), rules))
                continue
        off_cpu += pod.in_force[0] if known is None else _lasting_cpu_millicores(pod, known)
        off_memory += pod.in_force[1]
        reserved.append(_reserved(pod, known, reason))
    entries.sort(key=lambda entry: entry.name)
    return entries, reserved, (held_cpu, held_memory), (off_cpu, off_memory)


def _lasting_cpu_millicores(facts: PodFacts, demand: PodDemand) -> int:
    """Return what a pod that is not planned has in force, without a boost that will be taken back."""
    if demand.boost is None or demand.orders.mode is not Mode.ENFORCE:
        return facts.in_force[0]
    return min(facts.in_force[0], counted(actuated(without_boost(facts.pod, demand.boost)))[0])


def _reserved(facts: PodFacts, demand: PodDemand | None, reason: ReservedReason | None) -> PodPlan:
    return PodPlan(
        ref=facts.ref,
        workload=workload_of(facts.pod) if demand is None else demand.workload,
        mode=Mode.OFF if demand is None else demand.orders.mode,
        ranking=Ranking.NO_EVICTION if demand is None else demand.orders.ranking,
        reserved=reason or ReservedReason.NO_DATA,
        cpu_counted_millicores=facts.counted[0],
        memory_counted_bytes=facts.counted[1],
        enforce_share=None if demand is None else _share_text(demand.orders),
    )


def _share_text(orders: Orders) -> str | None:
    share = orders.share_in_force
    return None if share is None else str(share)


def _evictions(
    fit: Fit, entries: Sequence[PodEntry], options: PlanOptions, applied: Sequence[Resource]
) -> list[Eviction]:
    proposals = []
    for entry, lacking in evict(fit, entries, options.fit_rule, applied=applied):
        spike = entry.side(fit.resource).lasting_spike
        ranking = entry.demand.orders.ranking
        lacks = amount_text(lacking, fit.resource.unit)
        has = amount_text(spike, fit.resource.unit)
        proposals.append(
            Eviction(
                ref=entry.ref,
                workload=entry.demand.workload,
                resource=fit.resource,
                ranking=ranking,
                spike=spike,
                reason=f"{lacks} of {fit.resource} are lacking; next by ranking {ranking} and spike {has}",
            )
        )
    return proposals


def _pod_plan(entry: PodEntry) -> PodPlan:
    cpu_units = entry.cpu.inside or entry.cpu.units
    memory_units = entry.memory.inside or entry.memory.units
    budget = None
    if entry.cpu.inside or entry.memory.inside:
        budget = ContainerPlan(
            name="",
            kind=ContainerKind.REGULAR,
            cpu=_share(entry.cpu.units[0]) if entry.cpu.inside else None,
            memory=_share(entry.memory.units[0]) if entry.memory.inside else None,
        )
    return PodPlan(
        ref=entry.ref,
        workload=entry.demand.workload,
        mode=entry.demand.orders.mode,
        ranking=entry.demand.orders.ranking,
        reserved=None,
        cpu_counted_millicores=entry.cpu.counted,
        memory_counted_bytes=entry.memory.counted,
        containers=tuple(
            [
                ContainerPlan(name=cpu.name, kind=cpu.kind, cpu=_share(cpu), memory=_share(memory))
                for cpu, memory in zip(cpu_units, memory_units, strict=True)
            ]
        ),
        budget=budget,
        is_evicted=entry.is_evicted,
        enforce_share=_share_text(entry.demand.orders),
    )


def _share(unit: Unit) -> Share | None:
    request = unit.request
    if request is None and unit.demand is None:
        return None
    return Share(
        base=unit.base,
        peak=unit.peak,
        spike=unit.spike,
        headroom=unit.headroom,
        final=unit.final,
        request=request,
        applied=None if request is None else unit.applied,
        limit=unit.limit,
        limit_applied=unit.limit_applied,
        kept=unit.kept or unit.fixed,
        limit_kept=unit.limit_kept,
        withheld=unit.withheld,
        urgent=unit.urgent,
        waits_until_unix_seconds=unit.waits_until_seconds,
        has_credit=unit.demand is not None and unit.demand.calm_falls is not None,
        possible=unit.possible,
    )


def _resource_plan(fit: Fit, room: Room, entries: Sequence[PodEntry]) -> ResourcePlan:
    beyond = fit.total - fit.base_total
    finals = applied = 0
    for entry in entries:
        if entry.is_evicted:
            continue
        side = entry.side(fit.resource)
        if side.stages:
            finals += side.held([unit.final for unit in side.units])
            applied += side.held_applied()
            continue
        for unit in side.units:
            finals += unit.final
            applied += unit.applied
        finals += side.overhead
        applied += side.overhead
    return ResourcePlan(
        resource=fit.resource,
        allocatable=room.allocatable,
        reserved=room.allocatable - fit.room + beyond,
        available=fit.room - beyond,
        base_total=fit.base_total,
        spike_largest=fit.spike,
        headroom=fit.headroom,
        final_total=finals - beyond,
        applied_total=applied - beyond,
        is_infeasible=fit.is_infeasible,
        is_applied=fit.is_applied,
        spike_total=fit.spike_total,
        joint=fit.joint,
    )
