"""A new pod, what is known of its workload and of its surroundings -> what changes in it. Core, pure.

The rules are those of the node (annotations, modes, who is sized at all) plus what only creation allows: a CPU limit
can be taken off, a first memory limit set, a pod given resources of its own, and by them another QoS class. In doubt
the pod stays as it came. It is denied in one case alone: a budget of the whole pod that contradicts itself, or what its
containers request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agent.core.admission.answer import Admission, AdmissionFacts, AdmissionOutcome, LeftReason
from agent.core.admission.boost import BoostGrounds, BoostOutcome, Starts, with_boost
from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.admission.fit import (
    POD_RESOURCES,
    Draft,
    cap_limits,
    defaultings_of,
    fault_of,
    fit_class,
    fit_namespace,
    fit_node,
    fit_pod_budget,
    with_drafts,
)
from agent.core.admission.limit_ranges import allowed_for, counted_growth
from agent.core.admission.options import AdmissionSettings
from agent.core.admission.pod_budget import (
    NOT_SET,
    SET,
    budget_resources,
    class_words,
    fit_pod_limits,
    limits_of,
    order_of,
    order_words,
    wanted_budget,
    why_not,
)
from agent.core.admission.sizes import SizingRules, sides_of, size_container
from agent.core.admission.words import (
    AGAIN_SECONDS,
    annotations_of,
    as_it_came,
    gave_boost,
    gave_budget,
    given_to,
    reserved_words,
    sized_words,
)
from agent.core.cluster.hpa import is_whole_workload_left
from agent.core.cluster.pod import RUNNING, Container, ContainerKind, Pod, QosClass, Requirements
from agent.core.cluster.pod_defaults import classes_at_creation
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import DAEMON_SET_KIND, RUN_KINDS, Workload, workload_of
from agent.core.history.workloads.start_figures import LearntStart
from agent.core.machine.pod_limits import PodLimitHeld, PodLimitsOrder
from agent.core.orders.annotations import POD_LIMITS, SHARE_TICKET
from agent.core.orders.container_policies import NO_POLICY
from agent.core.orders.order import Mode, Orders, RunningJobs
from agent.core.orders.plan_options import DaemonSetGrowth
from agent.core.orders.policy_options import ControlledResources, ControlledValues, PolicyName
from agent.core.orders.resolution import orders_of
from agent.core.plan.needs.given_boost import GivenBoost, without_boost
from agent.core.plan.needs.reserved_reason import reserved_reason
from agent.core.plan.needs.share_ticket import given_ticket, ticket_text
from agent.core.plan.sizing.container_sizing import cpu_edges, memory_edges
from agent.core.recommender.policy import LimitRule

Estimates = Callable[[Container, PolicyName], Estimate | NoEstimate]


def no_starts(container: str) -> LearntStart | None:
    """Return that nothing is known of earlier starts."""
    del container
    return None


def admit(
    pod: Pod,
    *,
    facts: AdmissionFacts,
    estimates: Estimates,
    settings: AdmissionSettings,
    now_unix_seconds: float,
    starts: Starts = no_starts,
) -> Admission:
    """Return what changes in a pod that is being created, and what is left and why.

    The pod is as the API server shows it before it is stored; what it says of its status is not believed. ``estimates``
    gives what is known of a container, by the policy that holds for it, ``starts`` what is known of its starts.
    Applying the changes to the pod and asking again changes nothing more.
    """
    # The class is frozen at creation, so it is computed; and the pod is judged as it will be when it runs.
    pod = replace(pod, recorded_qos=None, phase=RUNNING, is_terminating=False, statuses=(), allocated=None, actual=None)
    workload, orders = workload_of(pod), _orders(pod, facts, settings)
    pod, ticket = _with_ticket(pod, facts, orders, now_unix_seconds)
    stated = pod.resources
    pod, shown, boost = _taken_back(pod, now_unix_seconds)
    given = None if shown.resources is stated else stated
    blank = Admission(
        outcome=AdmissionOutcome.EXCLUDED,
        why="",
        workload=workload,
        orders=orders,
        annotations=ticket,
        gave_ticket=bool(ticket),
    )
    if facts.pause_reason is not None:
        why = f"the cluster is paused: {facts.pause_reason}"
        return replace(blank, why=why, annotations={}, gave_ticket=False)
    order = order_of(pod, facts, orders) if settings.admission.pod_limits else None
    if order is not None and order.held is PodLimitHeld.BELOW_REQUESTS:
        denial = f"{POD_LIMITS}: {order.text}"
        return replace(blank, outcome=AdmissionOutcome.DENIED, why=denial, pod_limits=order.text, denial=denial)
    left = _left_alone(pod, facts, orders, workload, settings, now_unix_seconds)
    rules = _rules(pod, facts, orders, workload, settings)
    blanks = _drafts(pod, estimates if left is None else None, orders, settings)
    drafts, resources, pod_limits = _sized(pod, facts, rules, order, blanks, orders, settings)
    boosting = BoostOutcome(drafts=drafts)
    # In mode protect nothing is given that would be taken back.
    if left is None and resources is None and orders.mode is not Mode.PROTECT:
        known = BoostGrounds(
            facts=facts,
            rules=rules,
            starts=starts,
            policies=orders.container_policies,
            is_run=workload.kind in RUN_KINDS,
            pod_limits=order,
        )
        boosting = with_boost(pod, drafts, orders.startup_boost, known, now_unix_seconds=now_unix_seconds)
    sizes = given_to(drafts)
    drafts = [draft.on(stated) for draft, stated in zip(boosting.drafts, shown.sized_containers(), strict=True)]
    answer = replace(
        blank,
        containers=tuple(draft.answer() for draft in drafts),
        pod_resources=None if resources == given else resources,
        takes_pod_resources=given is not None and resources is None,
        pod_limits=pod_limits,
        boost=boosting.boost,
        startup_boost=boosting.words,
        warnings=(*_warnings(pod, orders, order, resources), *boosting.warnings),
    )
    is_learnt = boosting.boost is not None and boosting.boost.is_learnt and boost is None  # the node is to be told
    if resources != given or any(draft.is_changed for draft in drafts) or is_learnt:
        after = with_drafts(shown, drafts, resources)
        fault = facts.bounds_fault or fault_of(pod, after, facts, is_class_judged=resources is not None)
        if fault is not None:
            return _unchanged(answer, fault)
        answer = replace(answer, grown=counted_growth(shown, after) if facts.quotas else {})
        return _patched(pod, answer, sizes, now_unix_seconds)
    if left is not None:
        return replace(answer, why=left)
    if not any(isinstance(draft.estimate, Estimate) for draft in drafts):
        return replace(answer, outcome=AdmissionOutcome.NO_HISTORY, why=sized_words(answer))
    return replace(answer, outcome=AdmissionOutcome.NOOP, why="nothing to change; " + sized_words(answer))


def growth_given(pod: Pod, *, now_unix_seconds: float) -> dict[str, int]:
    """Return how much a pod that is asked about again has grown by our answer before, as quotas count it."""
    came, _, _ = _taken_back(pod, now_unix_seconds)
    return {} if came is pod else counted_growth(came, pod)


def _taken_back(pod: Pod, now_unix_seconds: float) -> tuple[Pod, Pod, GivenBoost | None]:
    """Return a pod as it came, the pod that is shown without a budget that we gave it, and the boost that we gave it.

    Asked again within the request, all of that is worked out anew: another webhook may have put in what the budget does
    not hold, and the API server would refuse the pod; and growth that was given is not what its author asks for.
    """
    shown = replace(pod, resources=None) if gave_budget(pod, now_unix_seconds=now_unix_seconds) else pod
    boost = gave_boost(shown, now_unix_seconds=now_unix_seconds)
    came = shown if boost is None else without_boost(shown, boost)
    return as_it_came(came, now_unix_seconds=now_unix_seconds), shown, boost


def _warnings(
    pod: Pod, orders: Orders, order: PodLimitsOrder | None, resources: Requirements | None
) -> tuple[str, ...]:
    """Return what whoever creates the pod is told."""
    warnings = () if order is None else order.warnings
    became = "" if resources is None else class_words(pod, resources)
    return (*map(str, orders.faults), *warnings, *((f"{POD_LIMITS}: {became}",) if became else ()))


def _patched(
    pod: Pod, answer: Admission, sizes: Mapping[str, Mapping[str, int | None]], now_unix_seconds: float
) -> Admission:
    annotations = {**answer.annotations, **annotations_of(pod, answer, sizes, now_unix_seconds=now_unix_seconds)}
    return replace(answer, outcome=AdmissionOutcome.PATCHED, why=sized_words(answer), annotations=annotations)


def _unchanged(answer: Admission, fault: str) -> Admission:
    """Revert everything: what came out must not be."""
    return replace(
        answer,
        outcome=AdmissionOutcome.ERROR,
        why=f"left as it came: {fault}",
        containers=tuple(replace(container, moves=()) for container in answer.containers),
        pod_resources=None,
        takes_pod_resources=False,
        pod_limits="",
        boost=None,
        startup_boost="",
    )


def _with_ticket(
    pod: Pod, facts: AdmissionFacts, orders: Orders, now_unix_seconds: float
) -> tuple[Pod, Mapping[str, str]]:
    """Return a pod with its ticket, where a share of its workload is enforced, and the annotation if that is new."""
    if facts.share_ticket is None or orders.share_in_force is None:
        return pod, {}
    pod = replace(pod, created_unix_seconds=now_unix_seconds)
    if given_ticket(pod, within_seconds=AGAIN_SECONDS) is not None:
        return pod, {}  # asked again within the request
    ticket = {SHARE_TICKET: ticket_text(facts.share_ticket, unix_seconds=now_unix_seconds)}
    return replace(pod, annotations={**pod.annotations, **ticket}), ticket


def _orders(pod: Pod, facts: AdmissionFacts, settings: AdmissionSettings) -> Orders:
    return orders_of(
        pod,
        facts.namespace,
        act=settings.act,
        recommend_policy=settings.policy,
        plan=settings.plan,
        rule=facts.rule,
        autoscaler=facts.autoscaler,
        read_windows=settings.read_windows,
    )


def _left_alone(
    pod: Pod,
    facts: AdmissionFacts,
    orders: Orders,
    workload: Workload,
    settings: AdmissionSettings,
    now_unix_seconds: float,
) -> str | None:
    """Return why no container of the pod is sized; None = they are."""
    reserved = reserved_reason(
        replace(pod, recorded_qos=_class_of(pod, facts)),
        # A pod that is created runs not yet; and whatever its age, the workload's counts.
        replace(orders, jobs=RunningJobs.GROW if settings.jobs.sized else RunningJobs.KEEP),
        workload,
        now_unix_seconds=now_unix_seconds,
        plan=replace(settings.plan, min_age_seconds=0.0),
        act=settings.act,
        is_pinned=False,
        is_namespace_known=facts.namespace is not None,
    )
    if reserved is not None:
        return reserved_words(reserved, orders)
    share, taken_back = orders.share_in_force, facts.share_taken_back
    if share is not None and taken_back is not None and taken_back.concerns(share):
        return f"the enforced share of {share} is taken back: {taken_back.reason}"
    if facts.left_alone_for is not None:
        return f"{facts.left_alone_for} sets its requests"
    if is_whole_workload_left(facts.frozen, freezes_axes=settings.admission.hpa_freezes_axes):
        holders = dict.fromkeys(
            holder for holder in (facts.frozen.cpu_for, facts.frozen.memory_for) if holder is not None
        )
        return f"{' and '.join(holders)} scales on its requests"
    return None


def _class_of(pod: Pod, facts: AdmissionFacts) -> QosClass:
    """Return the class that the pod gets as it came: Guaranteed where any API server that may store it would."""
    if QosClass.GUARANTEED in classes_at_creation(pod, defaultings_of(facts)):
        return QosClass.GUARANTEED
    return computed_qos_class(pod)


def _drafts(pod: Pod, estimates: Estimates | None, orders: Orders, settings: AdmissionSettings) -> list[Draft]:
    """Return all containers as they came; without estimates nothing is asked."""
    drafts = []
    for containers in (pod.init_containers, pod.containers):
        for index, container in enumerate(containers):
            estimate: Estimate | NoEstimate | None = None
            if estimates is not None and container.kind is not ContainerKind.INIT:
                estimate = estimates(container, orders.policy)
                if isinstance(estimate, Estimate) and _is_too_young(estimate, settings):
                    estimate = NoEstimate.TOO_YOUNG
            drafts.append(Draft(container=container, index=index, sides=sides_of(container), estimate=estimate))
    return drafts


def _is_too_young(estimate: Estimate, settings: AdmissionSettings) -> bool:
    """Return whether a history is too short; of runs their number counts."""
    return estimate.source is not EstimateSource.RUNS and estimate.history_seconds < settings.plan.min_age_seconds


def _rules(
    pod: Pod, facts: AdmissionFacts, orders: Orders, workload: Workload, settings: AdmissionSettings
) -> SizingRules:
    is_guaranteed = _class_of(pod, facts) is QosClass.GUARANTEED
    ordered = {
        Resource.CPU: (orders.min_cpu_millicores, orders.max_cpu_millicores),
        Resource.MEMORY: (orders.min_memory_bytes, orders.max_memory_bytes),
    }
    edges = {Resource.CPU: cpu_edges(settings.bounds), Resource.MEMORY: memory_edges(settings.bounds)}
    return SizingRules(
        options=settings.admission,
        edges={resource: edges[resource].narrowed(*ordered[resource]) for resource in Resource},
        ordered=ordered,
        limit_rule=LimitRule.NEEDED if workload.kind in RUN_KINDS else _limit_rule(orders.policy, settings),
        is_guaranteed=is_guaranteed,
        is_daemon=workload.kind == DAEMON_SET_KIND,
        only_raises=orders.mode is Mode.PROTECT,
        grows_daemons=settings.plan.daemon_set_growth is DaemonSetGrowth.FITS,
        held=_held(pod, facts, settings, is_guaranteed=is_guaranteed),
        frozen=facts.frozen,
        allowed={resource: allowed_for(resource, facts.limit_ranges, facts.quotas) for resource in Resource}
        if facts.limit_ranges or facts.quotas
        else {},
        budget=limits_of(pod.resources),
    )


def _limit_rule(policy: PolicyName, settings: AdmissionSettings) -> LimitRule:
    """Return what the policies themselves do with limits."""
    if policy in (PolicyName.CRUISE, PolicyName.PLIMSOLL):
        return LimitRule.RAISE
    is_moved = settings.vpa_controlled_values is ControlledValues.REQUESTS_AND_LIMITS
    return LimitRule.PROPORTIONAL if policy is PolicyName.VPA and is_moved else LimitRule.KEEP


def _held(
    pod: Pod, facts: AdmissionFacts, settings: AdmissionSettings, *, is_guaranteed: bool
) -> dict[Resource, tuple[LeftReason, str]]:
    """Return the resources that are left in all containers, and for whom."""
    held: dict[Resource, tuple[LeftReason, str]] = {}
    controlled = settings.bounds.controlled_resources
    frozen = facts.frozen
    for resource, frozen_for, containers, other in (
        (Resource.CPU, frozen.cpu_for, frozen.cpu_containers, ControlledResources.MEMORY),
        (Resource.MEMORY, frozen.memory_for, frozen.memory_containers, ControlledResources.CPU),
    ):
        if frozen_for is not None and containers is None:
            held[resource] = (LeftReason.HPA, frozen_for)
        elif controlled is other or (resource is Resource.MEMORY and not settings.plan.memory_applied):
            held[resource] = (LeftReason.NOT_APPLIED, "")
        elif is_guaranteed and pod.has_pod_level_resources:
            # The pod's own resources make the class: its containers need not be pairs, and must not become too small.
            held[resource] = (LeftReason.POD_BUDGET, POD_RESOURCES)
    return held


def _sized(
    pod: Pod,
    facts: AdmissionFacts,
    rules: SizingRules,
    order: PodLimitsOrder | None,
    drafts: list[Draft],
    orders: Orders,
    settings: AdmissionSettings,
) -> tuple[list[Draft], Requirements | None, str]:
    """Size and fit all containers, with the limits that the pod asks for as a whole, else without.

    Also returns ``spec.resources`` to set, None = none, and what became of the pod's limits, empty = it asks for none.
    """
    budget = wanted_budget(pod, order)
    pod_limits = order_words(order)
    if budget is not None:
        tried = [draft.copied() for draft in drafts]
        _size(tried, replace(rules, budget=limits_of(budget)), orders, settings)
        _fit(pod, tried, facts, budget)
        resources = budget_resources(pod, tried, budget)
        reason = why_not(pod, tried, resources, facts)
        if reason is None:
            return tried, resources, "; ".join(filter(None, (SET, class_words(pod, resources))))
        pod_limits = f"{NOT_SET}: {reason}"
    _size(drafts, rules, orders, settings)
    fit_pod_limits(pod, drafts, order)
    _fit(pod, drafts, facts, None)
    return drafts, None, pod_limits


def _size(drafts: Sequence[Draft], rules: SizingRules, orders: Orders, settings: AdmissionSettings) -> None:
    for draft in drafts:
        if isinstance(draft.estimate, Estimate):
            size_container(draft.sides, draft.estimate, _rules_for(draft.container.name, rules, orders, settings))


def _rules_for(container: str, rules: SizingRules, orders: Orders, settings: AdmissionSettings) -> SizingRules:
    """Return the rules for one container: those of its pod, unless something holds for it alone."""
    frozen = rules.frozen
    for resource, frozen_for in ((Resource.CPU, frozen.cpu_for), (Resource.MEMORY, frozen.memory_for)):
        if frozen_for is not None and resource not in rules.held and frozen.holds(resource, container):
            rules = replace(rules, held={**rules.held, resource: (LeftReason.HPA, frozen_for)})
    policy = orders.container_policies.of(container)
    if policy is NO_POLICY:
        return rules
    ordered = {resource: orders.bounds_of(container, resource) for resource in Resource}
    edges = {Resource.CPU: cpu_edges(settings.bounds), Resource.MEMORY: memory_edges(settings.bounds)}
    return replace(
        rules,
        edges={resource: edges[resource].narrowed(*ordered[resource]) for resource in Resource},
        ordered=ordered,
        policy=policy,
    )


def _fit(pod: Pod, drafts: Sequence[Draft], facts: AdmissionFacts, budget: Requirements | None) -> None:
    """Revert what does not go together; each step leaves what the ones before it reached."""
    whole = limits_of(pod.resources if budget is None else budget)
    if budget is not None:
        cap_limits(drafts, whole)
    if not any(draft.is_changed for draft in drafts):
        return
    fit_node(pod, drafts, facts, None if budget is None else budget_resources(pod, drafts, budget))
    if budget is not None or pod.resources is not None:
        fit_pod_budget(pod, drafts, budget)
        cap_limits(drafts, whole)  # one that followed a request stays when that is taken back
    fit_namespace(pod, drafts, facts, None if budget is None else budget_resources(pod, drafts, budget))
    if budget is None:  # with one the pod's own resources make the class
        fit_class(pod, drafts, facts)
