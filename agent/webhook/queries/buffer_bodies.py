"""The bodies of /v1/buffers, as types; see ``wire``. Webhook. Amounts are Quantities as text, of any resource."""

from __future__ import annotations

from agent.core.history.reports.rollup import SCHEMA_VERSION
from agent.webhook.queries.ledger_bodies import ScopeBody
from agent.webhook.reports.bodies import Body


class BufferConditionBody(Body, kw_only=True):
    """One condition of a buffer's status."""

    type: str
    status: str
    reason: str
    message: str
    age_seconds: float | None
    """Since its status last changed; null = not stated."""


class BufferWhyBody(Body, kw_only=True):
    """Where the number of chunks comes from; null = it plays no part, or is not known."""

    decided_by: str | None
    """replicas, percentage, limits, filled, quotas or schedule; null = there is no number."""
    shape_source: str | None
    shape_name: str
    sizing: str | None
    """What became of the annotation plimsoll.dev/buffer-sizing."""
    chunk: dict[str, str]
    scalable_replicas: int | None
    by_replicas: int | None
    by_percentage: int | None
    by_limits: int | None
    limiting_resource: str | None
    """The one whose limit has room for the fewest chunks."""
    filled: int | None = None
    """Pods of the selector in plimsoll.dev/for that are taken off; null = the buffer is for nobody in particular."""
    wanted: int | None
    """Before quotas."""
    allowed: int | None
    """After them."""
    by_quota: dict[str, int]
    """How many chunks each quota has room for."""
    limiting_quotas: list[str]
    schedule: str | None
    """Why the buffer is empty now by its schedule."""
    fault: str | None
    ready_pods: int | None
    """Placeholder pods that run; null = it has none of ours."""
    age_seconds: float
    """Since the controller looked."""


class BufferProvisionBody(Body, kw_only=True):
    """What cluster-autoscaler makes of a buffer's status in its next loop."""

    status: str | None
    """Of its condition Provisioning; null = it passes the buffer over, and leaves that as it is."""
    reason: str
    """Of the condition; where it passes over, why."""
    virtual_pods: int
    """So many it takes for waiting pods, and makes room for them."""
    first_pod: str | None
    """What the first of them is called in its log and its Events; null = there is none."""


class BufferBody(Body, kw_only=True):
    """One CapacityBuffer."""

    namespace: str
    name: str
    age_seconds: float
    generation: int
    strategy: str
    reference: str
    """``PodTemplate small``, ``Deployment.apps web``; empty = none."""
    replicas: int | None
    """Asked for, as are the next two."""
    percentage: int | None
    limits: dict[str, str] | None
    chunks: int | None
    """status.replicas."""
    template: str | None
    template_generation: int | None
    conditions: list[BufferConditionBody]
    others: list[str]
    """Other controllers that wrote this status."""
    left_alone: str | None
    """Why Plimsoll does not look after it; null = it does."""
    trouble: str | None
    """Why the last look at it failed, or what it goes by could not be read anew; null = nothing of the kind."""
    autoscaler: BufferProvisionBody | None = None
    """null = PodTemplates have not been read yet, and so it cannot be told."""
    why: BufferWhyBody | None
    """null = this replica has not looked: it does not lead, or nobody looks after the buffer."""


class BufferControllerBody(Body, kw_only=True):
    """Whether the replica that answers looks after buffers."""

    mode: str
    replica: str | None
    """Who answers: in a cluster the name of its pod, as is ``leader``; null = not the whole cluster is seen."""
    namespace: str | None
    """Of the replicas; null as above."""
    leads: bool
    """Only who leads looks after buffers, and knows why."""
    leader: str | None
    """Which replica does; null = not known, or as above."""
    paused: str | None
    """Why nothing is written anywhere; null = it is not so."""
    contested_by: str | None
    """Another controller, and where it was seen unless not the whole cluster is; null = none."""
    troubles: list[str]
    """What is not heard from the API server; none where not the whole cluster is seen."""
    dry_run: bool
    """Chunks are shaped by dry runs."""


class BuffersBody(Body, kw_only=True):
    """A page of buffers, by namespace and name."""

    schema: int = SCHEMA_VERSION
    controller: BufferControllerBody
    total: int
    buffers: list[BufferBody]
    next: str | None
    """What to ask for as ``after``; null = this is the last page."""
    scope: ScopeBody | None = None
    """What of the cluster the asker may see."""
