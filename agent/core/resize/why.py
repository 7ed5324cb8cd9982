"""The answer of ``plimsoll why``: an explanation, and what the node's plan and acting make of it. Core, pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Final

from agent.core.cluster.node import Node
from agent.core.cluster.pod import MEMORY, Pod
from agent.core.cluster.unit import UnitIdentity
from agent.core.history.workloads.job_run import RunFigures
from agent.core.history.workloads.start_figures import RATE_SECONDS
from agent.core.machine.oom_score import OomScore, score_since_start
from agent.core.numbers.later_field import LATER
from agent.core.numbers.units import to_units
from agent.core.orders.order import Mode, Orders
from agent.core.orders.startup_boost import WITHOUT_LIMIT
from agent.core.plan.needs.demand import ReservedReason
from agent.core.plan.needs.given_boost import END_WORDS, boost_end, given_boost, standing_changes
from agent.core.plan.plan import ContainerPlan, ResourcePlan
from agent.core.recommender.explanation import Explanation, Explanations
from agent.core.resize.change_text import changes_text
from agent.core.resize.decision import Decision
from agent.core.resize.originals import Original


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """What the node's plan makes of a container, and what was done to its pod lately."""

    orders: Orders
    reserved: ReservedReason | None
    """Why its requests stay as they are; None = the pod may be optimised."""
    planned: ContainerPlan | None
    """None = the plan says nothing of this container."""
    is_evicted: bool
    """The plan proposes to evict its pod."""
    decisions: tuple[Decision, ...]
    """About its pod, newest first; only the newest few."""
    told: tuple[str, ...] = ()
    """What the webhook told of its workload that changes what is done, one sentence each."""
    cpu: ResourcePlan | None = None
    """The node's sums of CPU: what its share of the headroom is a share of."""
    oom_score: OomScore | None = None
    """The kernel ranks it by the request of its start; None = by that of now, or it is not known."""
    startup_boost: str | None = field(default=None, metadata=LATER)
    """What is ordered, and was given, for its start; None = nothing."""
    runs: tuple[str, ...] = field(default=(), metadata=LATER)
    """The last runs of its workload that ended on this node, newest first, one sentence each."""
    windows: str | None = field(default=None, metadata=LATER)
    """What may be done to its pod now, and until when the rest waits; None = anything at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why(Explanation):
    """One recommendation with all that led to it, and what became of it."""

    acted: Acted | None = None
    """None = whoever answers has no API server, or no plan yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whys:
    """Those of all containers asked for: one, or each of a pod."""

    items: tuple[Why, ...]


def stale_oom_score(pod: Pod, container: str, original: Original, node: Node) -> OomScore | None:
    """Return by which score the kernel ranks a container, where that is of before the first resize of its pod.

    Args:
        original: What the agent kept of the pod before that resize.

    Returns:
        None = it is the same, or the container began since: which request it began with is not known then.
    """
    status, capacity_nanos = pod.status_of(container), node.capacity.get(MEMORY)
    began = None if status is None else status.started_unix_seconds
    if began is None or not capacity_nanos:
        return None
    if original.kept_unix_seconds is None or began >= original.kept_unix_seconds:
        return None
    requested = {amounts.container: amounts.memory_request_bytes for amounts in original.amounts}
    return score_since_start(pod, container, requested, to_units(capacity_nanos))


_NOT_COUNTED: Final = "; CPU of the start is left out of what is recommended"


def startup_boost_words(
    pod: Pod, container: str, orders: Orders, *, now_unix_seconds: float, used: RunFigures | None = None
) -> str | None:
    """Return what becomes of a container's start: what it was given, or would be; None = nobody asks for more.

    What its next pod would be given is told from its request of now, without what webhook and cluster would add.

    Args:
        used: What was measured of its start; None = nothing, or it is not over.
    """
    boost = given_boost(pod)
    own = () if boost is None else tuple(change for change in boost.changes if change.container == container)
    measured = "" if used is None else _used_words(used)
    if boost is not None and own:
        standing = [change for change in standing_changes(pod, boost) if change.container == container]
        if not standing:
            return f"boosted while it started, and taken back: {changes_text(own)}{measured}{_NOT_COUNTED}"
        end = boost_end(pod, boost, now_unix_seconds=now_unix_seconds)
        until = f"until {boost.after_ready_seconds:g} s after ready, or its CPU is quiet"
        state = until if end is None else f"over: {END_WORDS[end]}"
        return f"boosted while it starts: {changes_text(own)}; {state}{measured}{_NOT_COUNTED}"
    order, stated = orders.startup_boost, pod.container(container)
    if order is None or stated is None or not order.concerns(container):
        return None
    order_words = f"{order} ({orders.startup_boost_source})"
    if orders.mode is not Mode.ENFORCE:
        order_words += f"; not in mode {orders.mode}"
    this_one = f"; this one was not boosted{measured}{_NOT_COUNTED}" if order.is_learnt and boost is not None else ""
    if order.is_request_kept and stated.resources.cpu_limit_millicores is None:
        return f"a new pod's start is not boosted: {WITHOUT_LIMIT}: {order_words}{this_one}"
    if order.is_learnt:
        return f"a new pod's start is to be boosted by what earlier ones used: {order_words}{this_one}"
    request = stated.resources.cpu_request_millicores
    if order.is_request_kept or request is None:
        return f"a new pod's start is to be boosted: {order_words}"
    return f"a new pod's start is to be boosted to {order.boosted_millicores(request)}m: {order_words}"


def _used_words(used: RunFigures) -> str:
    if used.cpu_largest_millicores is None:
        return ""
    return f"; used at most {used.cpu_largest_millicores:.0f}m in {RATE_SECONDS:g} s of {used.duration_seconds:.0f} s"


def whys_of(explanations: Explanations, acted: Callable[[UnitIdentity], Acted | None] = lambda _: None) -> Whys:
    """Return the explanations, each with what ``acted`` says of its container."""
    return Whys(
        items=tuple(
            Why(
                **{known.name: getattr(item, known.name) for known in fields(item)},
                acted=acted(item.recommendation.identity),
            )
            for item in explanations.items
        )
    )
