"""How much more CPU a new pod has while it starts, on top of what it is given to run with. Core, pure.

All or nothing: what a node, a LimitRange, a quota or the pod's QoS class would not bear is not boosted. Where a larger
request is not borne, limits alone are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.core.admission.answer import LEFT_WORDS, AdmissionFacts, Left
from agent.core.admission.fit import Draft, fault_of, pods_of, with_drafts
from agent.core.admission.limit_ranges import quota_fault
from agent.core.admission.sizes import ContainerSide, SizingRules
from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.cluster.resource import Resource
from agent.core.orders.order import Orders
from agent.core.orders.startup_boost import StartupBoost
from agent.core.plan.given_boost import GivenBoost
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.change_text import changes_text

NOT_BOOSTED: Final = "start not boosted"
NOTHING_TO_BOOST: Final = "no container states CPU that may be boosted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Boosting:
    """What becomes of a pod's order of a boost."""

    drafts: list[Draft]
    boost: GivenBoost | None = None
    words: str = ""
    """For people; empty = nobody asks for a boost."""


def with_boost(
    pod: Pod,
    drafts: list[Draft],
    orders: Orders,
    facts: AdmissionFacts,
    rules: SizingRules,
    *,
    now_unix_seconds: float,
    is_run: bool = False,
) -> Boosting:
    """Return the containers with their boost, which the pod's orders ask for.

    Args:
        pod: As it came.
        drafts: Its containers as they are to run.
        is_run: It ends by itself: no agent resizes it, so none would take the boost back.
    """
    order = orders.startup_boost
    if order is None:
        return Boosting(drafts=drafts)
    fault = "its pods end by themselves" if is_run else _why_not(pod, order, rules)
    if fault is not None:
        return Boosting(drafts=drafts, words=f"{NOT_BOOSTED}: {fault}")
    tries: tuple[StartupBoost, ...] = (order,)
    if not order.is_request_kept and not order.is_limit_kept:
        tries = (order, replace(order, is_request_kept=True))
    if Resource.CPU in rules.held or (rules.is_daemon and not rules.grows_daemons):
        tries = tuple(one for one in tries if one.is_request_kept)
        fault = _left_words(rules)
    for one in tries:
        tried = [_boosted(draft, one, orders) for draft in drafts]
        changes = tuple(_changes(drafts, tried))
        if not changes:
            continue
        found = _fault(pod, tried, facts)
        if found is None:
            boost = GivenBoost(
                unix_seconds=now_unix_seconds,
                after_ready_seconds=order.after_ready_seconds,
                timeout_seconds=order.timeout_seconds,
                changes=changes,
            )
            return Boosting(drafts=tried, boost=boost, words=_words(boost, fault))
        fault = fault or found
    return Boosting(drafts=drafts, words=f"{NOT_BOOSTED}: {fault or NOTHING_TO_BOOST}")


def _why_not(pod: Pod, order: StartupBoost, rules: SizingRules) -> str | None:
    """Return why a pod cannot have a boost at all."""
    if pod.resources is not None:
        return LEFT_WORDS[Left.POD_BUDGET]
    held = rules.held.get(Resource.CPU)
    if held is not None and held[0] is not Left.HPA:
        return LEFT_WORDS[held[0]]
    return None


def _left_words(rules: SizingRules) -> str:
    """Return why requests stay as they are."""
    held = rules.held.get(Resource.CPU)
    return LEFT_WORDS[Left.DAEMON_SET] if held is None else f"{LEFT_WORDS[held[0]]} ({held[1]})"


def _boosted(draft: Draft, order: StartupBoost, orders: Orders) -> Draft:
    """Return a container with its boost: the request, and the limit in the ratio that it has to it."""
    container, side = draft.container, draft.sides[Resource.CPU]
    if container.kind is ContainerKind.INIT or side.request is None or not order.concerns(container.name):
        return draft
    if container.restarts_for_cpu and not orders.is_restart_allowed:
        return draft  # to take the boost back would make it start once more
    policy = orders.container_policies.of(container.name)
    if policy.is_off:
        return draft
    is_limit_kept = order.is_limit_kept or policy.are_limits_kept
    if is_limit_kept and order.is_request_kept:
        return draft
    request = order.boosted_millicores(side.request)
    twin = draft.copied()
    raised = twin.sides[Resource.CPU]
    if side.limit is not None and not is_limit_kept:
        raised.limit = side.limit * request // side.request
    if not order.is_request_kept:
        raised.request = _below(request, side) if is_limit_kept else request
    return twin


def _below(request: int, side: ContainerSide) -> int:
    """Return a boosted request below a limit that stays, by a millicore: equal ones would make another QoS class.

    Source:
        As the Vertical Pod Autoscaler does under RequestsOnly.
    """
    if side.limit is None or request < side.limit:
        return request
    return max(side.request or 0, side.limit - 1)


def _changes(drafts: Sequence[Draft], tried: Sequence[Draft]) -> Iterator[Change]:
    for draft, one in zip(drafts, tried, strict=True):
        steady, boosted = draft.sides[Resource.CPU], one.sides[Resource.CPU]
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


def _fault(pod: Pod, tried: Sequence[Draft], facts: AdmissionFacts) -> str | None:
    """Return what the pod's surroundings would not bear."""
    after = with_drafts(pod, tried)
    fault = fault_of(pod, after, facts)
    if fault is not None or not facts.quotas:
        return fault
    pods = pods_of(tried, facts)
    holders = (quota_fault(pod, after, facts.quotas, Resource.CPU, setting, pods=pods) for setting in Setting)
    return next((f"{LEFT_WORDS[Left.QUOTA]} ({holder})" for holder in holders if holder is not None), None)


def _words(boost: GivenBoost, fault: str | None) -> str:
    """Return ``start boosted, until ready: app: cpu 500m -> 1500m``."""
    until = f"until {boost.after_ready_seconds:g} s after ready" if boost.after_ready_seconds else "until ready"
    alone = "" if fault is None else f"; requests kept: {fault}"
    return f"start boosted, {until}: {changes_text(boost.changes)}{alone}"
