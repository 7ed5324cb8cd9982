"""The answer of ``plimsoll why``: an explanation, and what the node's plan and acting make of it. Core, pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from agent.core.cluster.unit import UnitIdentity
from agent.core.orders.order import Orders
from agent.core.plan.demand import Reserved
from agent.core.plan.plan import ContainerPlan
from agent.core.recommender.explanation import Explanation, Explanations
from agent.core.resize.decision import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """What the node's plan makes of a container, and what was done to its pod lately."""

    orders: Orders
    reserved: Reserved | None
    """Why its requests stay as they are; None = the pod may be optimised."""
    planned: ContainerPlan | None
    """None = the plan says nothing of this container."""
    is_evicted: bool
    """The plan proposes to evict its pod."""
    decisions: tuple[Decision, ...]
    """About its pod, newest first; only the newest few."""
    told: tuple[str, ...] = ()
    """What the webhook told of its workload that changes what is done, one sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why(Explanation):
    """One recommendation with all that led to it, and what became of it."""

    acted: Acted | None = None
    """None = whoever answers has no API server, or no plan yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whys:
    """Those of all containers asked for: one, or each of a pod."""

    items: tuple[Why, ...]


def whys_of(explanations: Explanations, acted: Callable[[UnitIdentity], Acted | None] = lambda _: None) -> Whys:
    """Return the explanations, each with what ``acted`` says of its container."""
    return Whys(
        items=tuple(
            Why(
                **{field.name: getattr(item, field.name) for field in fields(item)},
                acted=acted(item.recommendation.identity),
            )
            for item in explanations.items
        )
    )
