"""The bodies of answers about cost; JSON in camelCase. Webhook.

Money is a decimal number as a text, exact: what is summed or multiplied by a reader gives what was meant.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from agent.core.history.reports.rollup import SCHEMA_VERSION
from agent.webhook.queries.ledger_bodies import ScopeBody
from agent.webhook.reports.bodies import Body

Money = Annotated[str, Meta(pattern="^-?[0-9]+(\\.[0-9]+)?$", description="An exact decimal number.")]


class CostTotalBody(Body, kw_only=True):
    """All that the asker may see, whatever part of it was asked for."""

    nodes: int | None
    """null = not the whole cluster is seen, as for the two below: what a node costs tells of all that run on it."""
    pods: int
    cost_month: Money | None
    """Of all nodes: ``podsMonth`` and ``idleMonth`` together, exactly."""
    pods_month: Money
    """What pods request."""
    idle_month: Money | None
    """What nobody requests; below 0 where pods request more than their node has."""
    freed_month: Money
    possible_month: Money
    needed_month: Money
    pods_without_advice: int
    """They count as they are."""
    unpriced_nodes: list[str]
    """Of which no capacity is known, at most 100; they and their pods count nowhere."""
    unpriced_pods: int
    unplaced_pods: int
    """On no node yet."""


class CostRowBody(Body, kw_only=True):
    """One namespace, workload, node or value of a label."""

    key: str
    """What ``after`` takes."""
    namespace: str | None = None
    kind: str | None = None
    name: str | None = None
    node: str | None = None
    value: str | None = None
    """Of the label; empty = pods without it."""
    pods: int
    cost_month: Money
    """What its pods request; of a node its price."""
    cpu_month: Money
    """Of its pods."""
    memory_month: Money
    idle_month: Money | None = None
    """Of a node."""
    freed_month: Money
    """Written less requested now, where that is more than nothing; of each pod and resource by itself."""
    possible_month: Money
    """Requested now less recommended, as above."""
    needed_month: Money
    """Recommended less requested now, as above."""
    pods_without_advice: int
    is_list_price: bool
    price_source: str | None = None
    """Of a node: where its price is from."""


class WorkloadCostBody(Body, kw_only=True):
    """What a workload's pods cost, as ``/v1/cost?by=workload`` has it."""

    pods: int
    """On nodes that have a price."""
    cost_month: Money
    cpu_month: Money
    memory_month: Money
    freed_month: Money
    possible_month: Money
    needed_month: Money
    pods_without_advice: int
    is_list_price: bool


class PricingBody(Body, kw_only=True):
    """In what money the figures of an answer are, and how good they are."""

    currency: str
    month_hours: Money
    list_price_note: str
    """What is to stand beside figures that are of a list; empty = none is."""
    fault: str | None = None
    """Why there are no figures; null = there are."""


class GoingNodeBody(Body, kw_only=True):
    """A node that could go."""

    node: str
    month: Money
    moves: int
    """Pods that go elsewhere."""


class StayingNodeBody(Body, kw_only=True):
    """A node that could not."""

    node: str
    reason: str


class FitBody(Body, kw_only=True):
    """Which nodes could go, all together, if every pod requested what is recommended."""

    nodes: int
    could_go: int
    saves_month: Money
    is_list_price: bool
    fault: str | None
    """Why nothing can be said; null = it can."""
    go: list[GoingNodeBody]
    """In the order in which they would go."""
    stay: list[StayingNodeBody]
    """At most 500, by name."""


class CostBody(Body, kw_only=True):
    """A page of rows, by key."""

    schema: int = SCHEMA_VERSION
    currency: str
    month_hours: Money
    by: str
    """``namespace``, ``workload``, ``node`` or ``label``."""
    label: str | None
    is_list_price: bool
    """Some node has no better price than a list's; where not the whole cluster is seen, one with pods that are."""
    list_price_note: str
    """What is to stand beside every figure; empty = nothing."""
    cpu_core_hour: Money
    """On nodes without a price of their own."""
    memory_gib_hour: Money
    total: CostTotalBody
    rows: list[CostRowBody]
    """Of nodes none where not the whole cluster is seen."""
    next: str | None
    """What to ask for as ``after``; null = this is the last page."""
    fit: FitBody | None = msgspec.field(default=None)
    """On the first page of the whole cluster, for who sees it."""
    scope: ScopeBody | None = None
    """What of the cluster the asker may see."""
