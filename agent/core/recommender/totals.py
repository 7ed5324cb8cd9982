"""What recommendations come to, per namespace and for the node. Core, pure.

What can be freed and what must be added are told apart and never set off against each other: a node that is short of
memory in one pod is not helped by another's plenty until both have been resized.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.core.recommender.recommendation import Advice, Recommendation, Withheld


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTotal:
    """Sums over containers of one resource; millicores or bytes, as the field of ``Total`` says."""

    current: int = 0
    """Requested now; a container without a request adds nothing."""
    recommended: int = 0
    """What would be requested with every recommendation applied: current - to_free + to_add. A container whose
    recommendation is withheld keeps its request."""
    to_free: int = 0
    """Sum over the containers whose request may fall."""
    to_add: int = 0
    """Sum over the containers whose request is too small or not stated."""
    withheld: Mapping[Withheld, int] = field(default_factory=dict)
    """Containers without a recommendation, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What some containers come to."""

    namespace: str | None
    """None = containers without one: services, or pods that no source names."""
    containers: int
    cpu_millicores: ResourceTotal
    memory_bytes: ResourceTotal


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Per namespace and in all."""

    namespaces: tuple[Total, ...]
    """By name; those without a namespace last."""
    node: Total
    """All of them; its ``namespace`` is None."""


def totals(items: Iterable[Recommendation]) -> Totals:
    """Add up recommendations; zeros for none."""
    everything = tuple(items)
    groups: dict[str | None, list[Recommendation]] = {}
    for item in everything:
        groups.setdefault(item.identity.namespace, []).append(item)
    ordered = sorted(groups.items(), key=lambda group: (group[0] is None, group[0] or ""))
    return Totals(
        namespaces=tuple(_total(namespace, members) for namespace, members in ordered),
        node=_total(None, everything),
    )


def _total(namespace: str | None, items: Sequence[Recommendation]) -> Total:
    return Total(
        namespace=namespace,
        containers=len(items),
        cpu_millicores=_sum((item.resources.cpu_request_millicores, item.cpu_millicores) for item in items),
        memory_bytes=_sum((item.resources.memory_request_bytes, item.memory_bytes) for item in items),
    )


def _sum(pairs: Iterable[tuple[int | None, Advice]]) -> ResourceTotal:
    current = to_free = to_add = 0
    withheld: dict[Withheld, int] = {}
    for stated, advice in pairs:
        request = stated or 0
        current += request
        if advice.withheld is not None:
            withheld[advice.withheld] = withheld.get(advice.withheld, 0) + 1
        if advice.request is None:
            continue
        to_free += max(request - advice.request, 0)
        to_add += max(advice.request - request, 0)
    return ResourceTotal(
        current=current,
        recommended=current - to_free + to_add,
        to_free=to_free,
        to_add=to_add,
        withheld=withheld,
    )
