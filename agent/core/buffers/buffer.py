"""What the CapacityBuffer controller works on: buffers, what their references came to, quotas, and what it decides.

Core, pure. Amounts are nanos by resource name, as in ``pod``. The content of a pod template stays the JSON it came as
(a PodTemplateSpec: ``metadata`` and ``spec``), because the managed template has to carry all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import Pod
from agent.core.orders.annotations import PREFIX

GROUP: Final = "autoscaling.x-k8s.io"
BUFFER_KIND: Final = "CapacityBuffer"

ACTIVE_CAPACITY: Final = "buffer.x-k8s.io/active-capacity"
"""The default strategy: whoever reads the status provides the room."""
PLACEHOLDER_PODS: Final = f"{PREFIX}placeholder-pods"
"""Plimsoll's own strategy: pods of low priority keep the room."""
OUR_STRATEGIES: Final = frozenset({ACTIVE_CAPACITY, PLACEHOLDER_PODS})

READY_FOR_PROVISIONING: Final = "ReadyForProvisioning"
LIMITED_BY_QUOTAS: Final = "LimitedByQuotas"
PROVISIONING: Final = "Provisioning"
"""Written by whoever provides the room: with placeholder pods that is us, else it is the autoscaler's."""

TRUE: Final = "True"
FALSE: Final = "False"

INT32_MAX: Final = 2**31 - 1

Content = Mapping[str, object]
"""A PodTemplateSpec as JSON."""
PodReader = Callable[[Content], Pod]
"""Reads a PodTemplateSpec as a pod; a ``ValueError`` names what of it is malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of a buffer's status, as the API has them."""

    type: str
    status: str
    """``True``, ``False`` or ``Unknown``."""
    reason: str
    message: str = ""
    observed_generation: int | None = None
    last_transition_unix_seconds: float | None = None
    """When the status last changed, to the second; None = not stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferStatus:
    """The status of a buffer."""

    template_name: str | None = None
    """Of the managed template; None = there is none."""
    template_generation: int | None = None
    replicas: int | None = None
    """Chunks after limits and quotas; None = they cannot be told."""
    strategy: str | None = None
    conditions: tuple[Condition, ...] = ()

    def condition(self, type_name: str) -> Condition | None:
        """Find a condition by type; None = it is not set."""
        return next((condition for condition in self.conditions if condition.type == type_name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalableRef:
    """The scalable object that a buffer names, of its own namespace."""

    api_group: str
    """Empty = the core group."""
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}{f'.{self.api_group}' if self.api_group else ''} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSpec:
    """How many chunks a buffer asks for; None = not set."""

    replicas: int | None = None
    percentage: int | None = None
    """Of the scalable object's replicas."""
    limits: Mapping[str, int] | None = None
    """Caps of the summed requests, nanos; an empty mapping is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """One CapacityBuffer."""

    namespace: str
    name: str
    uid: str
    generation: int
    created_unix_seconds: float
    is_terminating: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    strategy: str | None = None
    """As the spec states it; None = not stated, which the API server never leaves so."""
    template_ref: str | None = None
    """The PodTemplate of the same namespace that the spec names."""
    scalable_ref: ScalableRef | None = None
    size: SizeSpec = field(default_factory=SizeSpec)
    status: BufferStatus = field(default_factory=BufferStatus)
    """As last read."""
    fault: str | None = None
    """What of its spec is not understood; None = all is."""


class ShapeSource(StrEnum):
    """Where a chunk's shape came from."""

    POD_TEMPLATE = "PodTemplate"
    LIVE_POD = "newest live pod"
    SPEC = "template of its spec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a buffer's reference came to."""

    content: Content
    source: ShapeSource
    source_name: str
    """For words: ``PodTemplate small``, ``pod web-7d4f``, ``Deployment web``."""
    scalable_replicas: int | None = None
    """How many replicas the scalable object has; None = not a scalable buffer, or not known: no percentage counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """A reference that came to nothing, and why; the pass is to be repeated."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleFacts:
    """The status of an object's scale subresource."""

    replicas: int
    selector: str
    """As text; empty = it selects nothing that is known, so no live pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePod:
    """A pod that a scale's selector matches."""

    name: str
    created_unix_seconds: float
    is_terminating: bool
    content: Content
    """Its metadata and spec; what is not of the template is left behind when it is taken as shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalableObject:
    """An object of one of the kinds whose spec is known."""

    replicas: int | None
    """spec.replicas, or spec.parallelism of a Job; None = not stated."""
    content: Content | None
    """spec.template; None = it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedTemplate:
    """A PodTemplate that stands under the name of a managed one."""

    name: str
    generation: int
    content: Content
    owner_uid: str | None
    """uid of its controller owner, if that is a CapacityBuffer; None = it has none, or another kind."""
    resource_version: str | None = None


class OrderKind(StrEnum):
    """What is to be done to a managed template."""

    CREATE = "create"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateOrder:
    """A managed template to be written."""

    kind: OrderKind
    buffer: Buffer
    template_name: str
    content: Content
    resource_version: str | None = None
    """Of what is replaced, so that a hand that was quicker is noticed; None = of a CREATE, or not known."""


class ScopeFault(StrEnum):
    """Why a quota's scopes cannot be told."""

    OPERATOR = "unknown operator"
    VALUES_MISSING = "values are missing"
    VALUES_FORBIDDEN = "values are not allowed"
    VALUE_FORM = "a value is no label value"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeTerm:
    """One scope that a quota asks for."""

    scope: str
    """``NotTerminating``, ``PriorityClass``, ..."""
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferQuota:
    """A ResourceQuota, as far as buffers ask; nanos."""

    name: str
    hard: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    scopes: tuple[ScopeTerm, ...] = ()
    """All must match: of spec.scopes and of spec.scopeSelector."""
    fault: str | None = None
    """What of it is not understood: it is left out and the pass is repeated; None = all is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What sizing and quotas ask of one chunk."""

    requests: Mapping[str, int]
    """Effective requests of the whole pod, nanos."""
    priority_class: str | None = None
    has_cross_namespace_affinity: bool = False
    """Some pod affinity or anti-affinity term, required or preferred, names namespaces or selects them."""


class ChunkRule(StrEnum):
    """What settled the number of chunks."""

    REPLICAS = "replicas"
    PERCENTAGE = "percentage"
    LIMITS = "limits"
    QUOTAS = "quotas"
    SCHEDULE = "schedule"
    FILLED = "filled"
    """By pods that the buffer is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSizing:
    """How many chunks a buffer wants, and why."""

    replicas: int
    """What quotas have not cut yet."""
    decided_by: ChunkRule
    by_replicas: int | None = None
    """None = the spec says nothing of it; as for the others."""
    by_percentage: int | None = None
    by_limits: int | None = None
    limiting_resource: str | None = None
    """The resource whose limit has room for the fewest chunks, of equals the first by name."""
    filled: int | None = None
    """Pods of its selector that are taken off already; None = it is for nobody in particular."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSized:
    """Why no number of chunks can be told: a mistake of the spec, so nothing is repeated."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAllocation:
    """What the quotas leave of a wish."""

    wanted: int
    allowed: int
    by_quota: Mapping[str, int] = field(default_factory=dict)
    """How many chunks each quota has room for that counts the chunk and names something it requests."""
    limiting: tuple[str, ...] = ()
    """Quotas with room for fewer than wanted, sorted by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkExplanation:
    """Where a buffer's number of chunks comes from."""

    decided_by: ChunkRule | None = None
    """None = there is no number."""
    shape_source: ShapeSource | None = None
    shape_name: str = ""
    chunk: Chunk | None = None
    scalable_replicas: int | None = None
    sizing: BufferSizing | None = None
    allocation: QuotaAllocation | None = None
    """None = quotas were not asked: no number, or a chunk that requests nothing."""
    schedule: str | None = None
    """Why the buffer is not active now; None = it is."""
    fault: str | None = None
    """Why it is not ready; None = it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferOutcome:
    """What one pass came to for one buffer."""

    buffer: Buffer
    status: BufferStatus
    """As it should be; foreign conditions are kept as they were."""
    explanation: ChunkExplanation
    requeue: bool = False
    """Resolving or writing failed: it is to be tried again, ever more slowly."""

    @property
    def is_changed(self) -> bool:
        """Return whether the status differs from the one that was read."""
        return self.status != self.buffer.status


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFacts:
    """All that a pass over one namespace goes by."""

    buffers: tuple[Buffer, ...]
    """In any order, of any strategy."""
    shapes: Mapping[str, Shape | Unresolved]
    """By buffer name; a buffer without one that names a reference is unresolved."""
    held: frozenset[str] = frozenset()
    """Buffers of which it cannot be told for the moment what they need, or have of quotas: what was given to them stays
    theirs."""
    templates: Mapping[str, ManagedTemplate] = field(default_factory=dict)
    """By template name: what stands under the names of managed templates."""
    quotas: tuple[BufferQuota, ...] = ()
    written: frozenset[str] = frozenset()
    """Buffers whose template was written in this pass, or may not be rewritten yet: it is taken as it stands."""
    write_faults: Mapping[str, str] = field(default_factory=dict)
    """By buffer name: why its template could not be written."""
    inactive: Mapping[str, str] = field(default_factory=dict)
    """By buffer name: why its schedule keeps it empty now."""
    filled: Mapping[str, int] = field(default_factory=dict)
    """By buffer name: how many pods fill it that it is for; those for nobody in particular have no entry."""
    placeholder_class: str | None = None
    """Priority class of placeholder pods: quotas count them by it, whatever the chunk's own is."""
    placeholder_usage: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By buffer name: what its placeholder pods request together, nanos. Quotas count it as used already."""
    provisioning: Mapping[str, Condition] = field(default_factory=dict)
    """By buffer name: how far placeholder pods provide the room; for buffers of that strategy only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What a namespace should look like."""

    orders: tuple[TemplateOrder, ...]
    """Templates to write first; then the pass is made again over what the API returned. Empty = outcomes are final."""
    outcomes: tuple[BufferOutcome, ...]
    """In the order of quotas; while there are orders, nothing: numbers would go by templates that do not stand yet."""
    passed_over: tuple[Buffer, ...] = ()
    """Buffers of a strategy that is not ours: their status is left alone."""
    faults: tuple[str, ...] = ()
    """What is wrong with quotas, for the log."""
    requeue: bool = False
