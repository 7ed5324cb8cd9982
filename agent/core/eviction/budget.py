"""Whether one more eviction is within the budgets, by the evictions of the past. Core, pure; time is an argument.

A token is an eviction that was begun within the window: it is out until the window has passed it, and at once back when
nothing was evicted after all. So a budget needs no state but the evictions themselves, no minute sees more than there
are tokens wherever it begins, and a replica that is killed loses none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.eviction.options import ArbiterOptions
from agent.core.eviction.proposal import Reason, Ruling

MINUTE_SECONDS: Final = 60.0
HOUR_SECONDS: Final = 3600.0
_MOST_DOUBLINGS: Final = 30
"""Beyond any back-off that can be set."""


class EvictionState(StrEnum):
    """How far an eviction has come."""

    BEGUN = "begun"
    """Its tokens are taken; the API server is asked, or was when the replica ended."""
    EVICTED = "evicted"
    REFUSED = "refused"
    """The API server refused; its tokens are back."""
    VOID = "void"
    """Nothing was evicted: the pod was gone, or nobody asked after all. Its tokens are back."""

    @property
    def holds_tokens(self) -> bool:
        """Return whether it counts against the budgets."""
        return self in (EvictionState.BEGUN, EvictionState.EVICTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was evicted lately, of one moment that nobody else changes."""

    now_unix_seconds: float
    """That moment, by the clock that all replicas share."""
    cluster_minute: int
    """Evictions begun or made within the last minute."""
    namespace_minute: int
    node_hour: int
    workload_hour: int
    workload_missing: int
    """Of the workload, within ``replacement_seconds``."""
    state: EvictionState | None
    """Of the last eviction of this very pod; None = there was none."""
    refusals: int
    """How often in a row the API server refused for this workload."""
    back_off_until_unix_seconds: float | None
    """Until when the workload is left alone; None = it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """A workload's pods now."""

    wanted: int
    available: int
    """By its controller's count: ready for as long as it asks."""


def budget_ruling(spent: Spent, replicas: Replicas, options: ArbiterOptions) -> Ruling | None:
    """Return what speaks against one more eviction by what was done already; None = it may be begun."""
    if spent.state is EvictionState.EVICTED:
        return Ruling(reason=Reason.ALREADY_EVICTED, detail="it was evicted before; one eviction per pod")
    if spent.state is EvictionState.BEGUN:
        detail = "an eviction of it was begun and its end is not known yet"
        return Ruling(reason=Reason.UNDER_WAY, detail=detail)
    until = spent.back_off_until_unix_seconds
    if until is not None and spent.now_unix_seconds < until:
        left_seconds = until - spent.now_unix_seconds
        said = "the last eviction of its workload could not be carried out"
        if spent.refusals:
            said = f"its workload was refused {spent.refusals} times in a row"
        return Ruling(reason=Reason.BACKING_OFF, detail=f"{said}; tried again in {left_seconds:.0f} s")
    return missing_ruling(replicas, spent.workload_missing, options) or _window_ruling(spent, options)


def missing_ruling(replicas: Replicas, evicted: int, options: ArbiterOptions) -> Ruling | None:
    """Refuse where more of a workload would be missing than may be; None = one more may.

    ``evicted`` counts those within ``replacement_seconds``: one whose replacement is not available yet counts twice.
    Rather one too few than one too many.
    """
    missing = max(0, replicas.wanted - replicas.available) + evicted
    if replicas.wanted == 1 and not options.single_replicas:
        return Ruling(reason=Reason.SINGLE_REPLICA, detail="it is the only pod of its workload")
    most = 1 if replicas.wanted == 1 else int(options.workload_share_ratio * replicas.wanted)
    if missing + 1 <= most:
        return None
    detail = (
        f"{missing} of {replicas.wanted} pods of its workload are missing or were evicted lately, at most {most} may"
    )
    return Ruling(reason=Reason.REPLICAS_SHARE, detail=detail)


def _window_ruling(spent: Spent, options: ArbiterOptions) -> Ruling | None:
    for taken, most, reason, where in (
        (
            spent.workload_hour,
            options.workload_evictions_per_hour,
            Reason.WORKLOAD_BUDGET,
            "of its workload in an hour",
        ),
        (spent.node_hour, options.node_evictions_per_hour, Reason.NODE_BUDGET, "from its node in an hour"),
        (
            spent.namespace_minute,
            options.namespace_evictions_per_minute,
            Reason.NAMESPACE_BUDGET,
            "in its namespace in a minute",
        ),
        (spent.cluster_minute, options.evictions_per_minute, Reason.CLUSTER_BUDGET, "in the cluster in a minute"),
    ):
        if taken >= most:
            return Ruling(reason=reason, detail=f"{taken} evictions {where}, at most {most}")
    return None


def back_off_seconds(refusals: int, options: ArbiterOptions, *, asked_seconds: float | None = None) -> float:
    """Return for how long a workload is left alone after a refusal that had so many in a row before it.

    Never less than the API server asks for.
    """
    doubled = options.refused_back_off_seconds * 2.0 ** min(refusals, _MOST_DOUBLINGS)
    return max(min(doubled, options.most_back_off_seconds), asked_seconds or 0.0)
