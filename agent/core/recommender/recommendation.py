"""What one container should request, or why that may not be said: the words, as types.

Core, pure. Values only; ``recommender.recommender`` makes them, the face prints them, the agent acts on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.runtime_profile import RuntimeProfile
from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.core.cluster.workload import Workload
from agent.core.numbers.later_field import LATER


class Withheld(StrEnum):
    """Why a recommendation is not made. Also a metric label."""

    NO_DATA = "no_data"
    """Nothing was measured yet from which the policy could answer."""
    TOO_YOUNG = "too_young"
    """Measured for less than ``recommend.minSpanSeconds``."""
    GAPS = "gaps"
    """More of the window is gap than ``windows.maxGapRatio`` lets pass."""
    NO_SIGNAL = "no_signal"
    """The kernel does not give it here: controller or file absent."""
    STALE = "stale"
    """The newest reading is older than ``recommend.maxAgeSeconds``."""
    NOT_CONTROLLED = "not_controlled"
    """``bounds.controlledResources`` leaves this resource out."""


class Bound(StrEnum):
    """A rule after the policy that changed its answer. In the order in which they are applied."""

    MIN = "min"
    """Raised to the least allowed."""
    MAX = "max"
    """Lowered to the most allowed, which wins over the least."""
    IN_USE = "in_use"
    """Raised to the memory in use now. A limit is lowered no further than that, and not at all where it is unknown."""
    HEAP = "heap"
    """Raised to, or not lowered below, the runtime's fixed heap and what is beside it."""
    ROUNDED = "rounded"
    """Rounded up, though never past the most allowed."""
    UPWARD_ONLY = "upward_only"
    """Kept at the present request or limit: there is no prediction yet that could lower it."""
    LIMIT = "limit"
    """Lowered to the limit, which stays."""
    QOS = "qos"
    """Changed so that the pod keeps its QoS class, or the limit moves with the request for that reason."""
    SMALL_CHANGE = "small_change"
    """Kept at the present request: the difference is not worth a change."""
    LIMIT_UNFILLED = "limit_unfilled"
    """Not raised past the limit: a heap that was sized at the start takes nothing of a raise, and the limit was never
    nearly reached."""
    LIMIT_RAISED = "limit_raised"
    READ_AT_START = "read_at_start"
    """The limit is not lowered: the container's runtime sized its heap by it at its start."""


class RequestSeverity(StrEnum):
    """How far a request is from the recommendation: too small is a danger, too large only costs."""

    GOOD = "good"
    """No change worth making."""
    SAVING = "saving"
    """The request may fall; nothing is in danger."""
    LARGE_SAVING = "large_saving"
    """The request may fall by much."""
    SHORT = "short"
    """The request is too small."""
    VERY_SHORT = "very_short"
    """The request is much too small."""
    UNSET = "unset"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The data that an answer rests on."""

    cpu_readings: int
    cpu_span_seconds: float
    memory_readings: int
    memory_span_seconds: float
    sample_age_seconds: float | None
    """Age of the newest good reading; None = there is none."""
    history_minutes: int
    """Minutes known in the history of seven days."""
    history_span_seconds: float
    """From the oldest known minute to now; 0 = none."""
    oom_kills: int
    """Out-of-memory kills remembered."""

    @property
    def cpu_measured_seconds(self) -> float:
        """Return for how long CPU is known: what ``recommend.minSpanSeconds`` is held against."""
        return max(self.history_span_seconds, self.cpu_span_seconds)

    @property
    def memory_measured_seconds(self) -> float:
        """Return for how long memory is known."""
        return max(self.history_span_seconds, self.memory_span_seconds)


OWN_BASE: Final = "own_base"
"""After ``cpu_`` or ``memory_`` a name in ``Advice.extra``: the base by what this node saw alone, where what others
saw counts as well. Then all three are there; a limit of 0 is none."""
OWN_PEAK: Final = "own_peak"
OWN_LIMIT: Final = "own_limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One resource of one container; millicores or bytes, as the field of ``Recommendation`` says."""

    request: int | None
    """None = withheld."""
    limit: int | None
    """The limit that it needs to change to; None = it stays as it is, or there is none."""
    withheld: Withheld | None
    severity: RequestSeverity
    base: float | None
    """Sustained demand, before bounds; None = the policy knows none."""
    peak: float | None
    """Largest demand expected, before bounds."""
    proposed: float | None
    """The policy's own answer, before bounds."""
    bounds: tuple[Bound, ...] = ()
    """Those that changed the answer."""
    is_upward_only: bool = False
    has_credit: bool = field(default=False, metadata=LATER)
    """CPU only: it is asked for at the price of what is answered within seconds."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """More figures of the policy (lower and upper bound and the like), named with their unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What one container should request."""

    identity: UnitIdentity
    workload: Workload | None
    policy: str
    resources: UnitResources
    """As the pod states them now."""
    cpu_millicores: Advice
    memory_bytes: Advice
    basis: Basis
    container_kind: ContainerKind | None = None
    """What it is within its pod, which says where a resize names it; None = not known, or it has no pod."""
    runtime: RuntimeProfile | None = field(default=None, metadata=LATER)
    """What its language runtime takes of memory by its own flags; None = not known."""
    runtime_advice: tuple[str, ...] = field(default=(), metadata=LATER)
    """Which of those flags are wasteful, and what would be better; for people, who alone set them."""
    hpa_advice: tuple[str, ...] = field(default=(), metadata=LATER)
    """What the utilisation targets of its autoscalers mean if the request is changed; for people, as above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendations:
    """All of one node at one moment: the answer of the socket, and what ``recommend`` prints."""

    taken_unix_seconds: float
    source: str
    """``agent``, ``demo``, ``state`` (from an agent's files) or a recording's name."""
    node: str
    policy: str
    min_span_seconds: float
    """For how long a container must have been measured."""
    max_age_seconds: float
    """How old its newest reading may be."""
    items: tuple[Recommendation, ...]
    notes: tuple[str, ...] = ()
