"""How much more CPU a new pod has while it starts, on top of what it is given to run with. Core, pure.

All or nothing: what a node, a LimitRange, a quota or the pod's QoS class would not bear is not boosted. Where a larger
request is not borne, limits alone are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.core.admission.answer import LEFT_WORDS, AdmissionFacts, LeftReason
from agent.core.admission.fit import Draft, fault_of, pods_of, with_drafts
from agent.core.admission.limit_ranges import quota_fault
from agent.core.admission.pod_budget import is_above_pod_limits
from agent.core.admission.sizes import ContainerSide, SizingRules
from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.cluster.resource import Resource
from agent.core.history.workloads.start_figures import LEAST_STARTS, LearntStart
from agent.core.machine.pod_limits import PodLimitsOrder
from agent.core.orders.annotations import POD_LIMITS, STARTUP_BOOST
from agent.core.orders.container_policies import ContainerPolicies
from agent.core.orders.startup_boost import LEAST_LEARNT_RATIO, WITHOUT_LIMIT, StartupBoost
from agent.core.plan.needs.given_boost import GivenBoost
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.change_text import changes_text

NOT_BOOSTED: Final = "start not boosted"
NOTHING_TO_BOOST: Final = "no container states CPU that may be boosted"
NO_MORE: Final = "it would be no more than what is requested"
NO_RESIZE: Final = "the cluster does not resize pods in place (1.33)"
_WHOLE_CORE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostOutcome:
    """What becomes of a pod's order of a boost."""

    drafts: list[Draft]
    boost: GivenBoost | None = None
    words: str = ""
    """For people; empty = nobody asks for a boost."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what whoever creates the pod is told: an order that can never boost it."""
        return (f"{STARTUP_BOOST}: {self.words}",) if self.words == f"{NOT_BOOSTED}: {WITHOUT_LIMIT}" else ()


Starts = Callable[[str], LearntStart | None]
"""What is known of the starts of a container, by its name; None = too little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostGrounds:
    """What a boost is judged by."""

    facts: AdmissionFacts
    rules: SizingRules
    starts: Starts
    policies: ContainerPolicies
    """What somebody ordered for single containers."""
    is_run: bool = False
    """The pod ends by itself: no agent resizes it, so none would take the boost back."""
    pod_limits: PodLimitsOrder | None = None
    """What is ordered for the whole pod; None = nothing is."""


def with_boost(
    pod: Pod, drafts: list[Draft], order: StartupBoost | None, grounds: BoostGrounds, *, now_unix_seconds: float
) -> BoostOutcome:
    """Return the containers with their boost.

    Args:
        pod: As it came.
        drafts: Its containers as they are to run.
        order: What is asked for; None = nothing is.
    """
    if order is None:
        return BoostOutcome(drafts=drafts)
    rules = grounds.rules
    fault = "its pods end by themselves" if grounds.is_run else _why_not(pod, grounds.facts, rules)
    if fault is not None:
        return BoostOutcome(drafts=drafts, words=f"{NOT_BOOSTED}: {fault}")
    given = GivenBoost(
        unix_seconds=now_unix_seconds,
        after_ready_seconds=order.after_ready_seconds,
        timeout_seconds=order.timeout_seconds,
        changes=(),
        is_learnt=order.is_learnt,
    )
    tries: tuple[StartupBoost, ...] = (order,)
    if not order.is_request_kept and not order.is_limit_kept:
        tries = (order, replace(order, is_request_kept=True))
    if Resource.CPU in rules.held or rules.frozen.cpu_for is not None or (rules.is_daemon and not rules.grows_daemons):
        tries = tuple(variant for variant in tries if variant.is_request_kept)
        fault = _left_words(rules)
    for variant in tries:
        tried = [_boosted(draft, variant, grounds) for draft in drafts]
        changes = tuple(_changes(drafts, tried))
        if not changes:
            continue
        obstacle = _fault(pod, tried, grounds)
        if obstacle is None:
            boost = replace(given, changes=changes)
            return BoostOutcome(drafts=tried, boost=boost, words=_words(boost, fault))
        fault = fault or obstacle
    # Whatever stands in the way now: where starts are learnt, the node is told to learn this one as well.
    words = f"{NOT_BOOSTED}: {fault or _nothing_words(drafts, order, grounds)}"
    return BoostOutcome(drafts=drafts, boost=given if order.is_learnt else None, words=words)


def _nothing_words(drafts: Sequence[Draft], order: StartupBoost, grounds: BoostGrounds) -> str:
    """Return why an order boosts nothing that would be borne."""
    boostable = [draft for draft in drafts if _may_be_boosted(draft, order)]
    if not boostable:
        return NOTHING_TO_BOOST
    if order.is_request_kept and all(draft.sides[Resource.CPU].limit is None for draft in boostable):
        return WITHOUT_LIMIT
    if not order.is_learnt:
        return NO_MORE
    known = [start for draft in boostable for start in (grounds.starts(draft.container.name),) if start is not None]
    if not known:
        return f"fewer than {LEAST_STARTS} starts are known"
    return f"its starts used less than {LEAST_LEARNT_RATIO:g} times the request"


def _why_not(pod: Pod, facts: AdmissionFacts, rules: SizingRules) -> str | None:
    """Return why a pod cannot have a boost at all."""
    if facts.resizes_in_place is False:
        return NO_RESIZE
    if pod.resources is not None:
        return LEFT_WORDS[LeftReason.POD_BUDGET]
    held = rules.held.get(Resource.CPU)
    if held is not None and held[0] is not LeftReason.HPA:
        return LEFT_WORDS[held[0]]
    return None


def _left_words(rules: SizingRules) -> str:
    """Return why requests stay as they are."""
    held = rules.held.get(Resource.CPU)
    if held is None and rules.frozen.cpu_for is not None:
        held = (LeftReason.HPA, rules.frozen.cpu_for)
    return LEFT_WORDS[LeftReason.DAEMON_SET] if held is None else f"{LEFT_WORDS[held[0]]} ({held[1]})"


def _may_be_boosted(draft: Draft, order: StartupBoost) -> bool:
    container = draft.container
    if container.kind is ContainerKind.INIT or draft.sides[Resource.CPU].request is None:
        return False
    # To take a boost back from one that restarts for it would make it start once more, and without one.
    return order.concerns(container.name) and not container.restarts_for_cpu


def _boosted(draft: Draft, order: StartupBoost, grounds: BoostGrounds) -> Draft:
    """Return a container with its boost: the request, and the limit in the ratio that it has to it.

    Of a Guaranteed pod never to whole cores: a static CPU manager would give it CPUs of its own, and no kubelet takes
    those back in place.
    """
    side = draft.sides[Resource.CPU]
    if side.request is None or not _may_be_boosted(draft, order):
        return draft
    learnt = grounds.starts(draft.container.name) if order.is_learnt else None
    policy = grounds.policies.of(draft.container.name)
    is_limit_kept = order.is_limit_kept or policy.are_limits_kept
    if policy.is_off or (is_limit_kept and order.is_request_kept):
        return draft
    request = order.boosted_millicores(side.request, None if learnt is None else learnt.cpu_millicores)
    if grounds.rules.is_guaranteed and request > side.request and request % _WHOLE_CORE == 0:
        request -= 1
    twin = draft.copied()
    raised = twin.sides[Resource.CPU]
    if side.limit is not None and not is_limit_kept:
        raised.limit = _boosted_limit(side.limit, side, request)
    if not order.is_request_kept:
        raised.request = _below(request, side) if is_limit_kept else request
    return twin


def _boosted_limit(limit: int, side: ContainerSide, request: int) -> int:
    """Return the limit in the ratio that it has to the request, rounded down.

    Where it moved with the request the ratio is that with which the pod came: rounded down twice, a limit over a
    request of a few millicores would be far too low.

    Source:
        As the Vertical Pod Autoscaler, which scales the original limit by the boosted request.
    """
    steady, before, limit_before = side.request or request, side.request_before, side.limit_before
    if before and limit_before and limit == limit_before * steady // before:
        return limit_before * request // before
    return limit * request // steady


def _below(request: int, side: ContainerSide) -> int:
    """Return a boosted request below a limit that stays, by a millicore: equal ones would make another QoS class.

    Source:
        As the Vertical Pod Autoscaler does under RequestsOnly.
    """
    if side.limit is None or request < side.limit:
        return request
    return max(side.request or 0, side.limit - 1)


def _changes(drafts: Sequence[Draft], tried: Sequence[Draft]) -> Iterator[Change]:
    for draft, twin in zip(drafts, tried, strict=True):
        steady, boosted = draft.sides[Resource.CPU], twin.sides[Resource.CPU]
        for setting, before, after in (
            (Setting.REQUEST, steady.request, boosted.request),
            (Setting.LIMIT, steady.limit, boosted.limit),
        ):
            if before is not None and after is not None and before < after:
                yield Change(
                    container=draft.container.name,
                    kind=draft.container.kind,
                    resource=Resource.CPU,
                    setting=setting,
                    before=before,
                    after=after,
                )


def _fault(pod: Pod, tried: Sequence[Draft], grounds: BoostGrounds) -> str | None:
    """Return what the pod's surroundings would not bear."""
    after, facts = with_drafts(pod, tried), grounds.facts
    if is_above_pod_limits(pod, tried, grounds.pod_limits, Resource.CPU):
        return f"{LEFT_WORDS[LeftReason.POD_BUDGET]} ({POD_LIMITS})"
    fault = fault_of(pod, after, facts)
    if fault is not None or not facts.quotas:
        return fault
    pods = pods_of(tried, facts)
    holders = (quota_fault(pod, after, facts.quotas, Resource.CPU, setting, pods=pods) for setting in Setting)
    return next((f"{LEFT_WORDS[LeftReason.QUOTA]} ({holder})" for holder in holders if holder is not None), None)


def _words(boost: GivenBoost, fault: str | None) -> str:
    """Return ``start boosted, until ready: app: cpu 500m -> 1500m``."""
    until = f"until {boost.after_ready_seconds:g} s after ready" if boost.after_ready_seconds else "until ready"
    alone = "" if fault is None else f"; requests kept: {fault}"
    return f"start boosted, {until}: {changes_text(boost.changes)}{alone}"
