"""What every pod of a node needs, as the planner takes it: who may be sized, and base and peak of each container.

Core, pure. Values only. Millicores or bytes, whole numbers; missing is None beside a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agent.core.orders import Orders
from agent.core.pod import ContainerKind, Pod
from agent.core.recommendation import Withheld, Workload


class Reserved(StrEnum):
    """Why a pod may not be optimised: its requests are taken off the node as they stand. Also a metric label."""

    OFF = "off"
    """Mode off."""
    RECOMMEND = "recommend"
    """Mode recommend: sized on paper only."""
    EXCLUDED = "excluded"
    """Its namespace is one of ``act.excludedNamespaces``."""
    FAULTY_ANNOTATION = "faulty_annotation"
    PINNED = "pinned"
    """``plimsoll pin``."""
    STATIC = "static"
    """A static pod or the mirror of one: the API refuses to resize it."""
    BARE = "bare"
    """Nothing controls it."""
    JOB = "job"
    """A Job or CronJob: it ends."""
    UNKNOWN_OWNER = "unknown_owner"
    """Its controller is of a kind that ``plan.managedKinds`` does not name."""
    GUARANTEED = "guaranteed"
    """Of class Guaranteed, and not asked for."""
    BEST_EFFORT = "best_effort"
    """It has no request, and a resize cannot give it the first."""
    EXCLUSIVE_CPUS = "exclusive_cpus"
    """Guaranteed with whole cores: a static CPU manager would give it CPUs of its own."""
    DEVICES = "devices"
    """It holds GPUs or other devices, whose CPUs are chosen with them."""
    WINDOWS = "windows"
    TOO_YOUNG = "too_young"
    """Younger than ``plan.minAgeSeconds``."""
    NOT_RUNNING = "not_running"
    """Bound, but not running yet."""
    TERMINATING = "terminating"
    NO_DATA = "no_data"
    """Nothing was measured of any container."""
    HPA = "hpa"
    """A HorizontalPodAutoscaler scales on both of its resources (directive of the webhook)."""
    VPA = "vpa"
    """A VerticalPodAutoscaler sizes it (directive of the webhook)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One resource of one container; millicores or bytes. 0 <= base <= peak."""

    base: int
    """Sustained demand."""
    peak: int
    """Largest demand expected."""
    limit: int | None = None
    """What its limit should become; None = it stays."""
    in_use: int | None = None
    """Memory only: memory.current, page cache included, now; None = not known, then a limit is never lowered."""
    is_upward_only: bool = False
    """There is no prediction yet that could lower the request."""
    is_urgent: bool = False
    """Measured in the last seconds under pressure: cool-downs after a grow do not hold it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDemand:
    """One regular container or sidecar."""

    name: str
    kind: ContainerKind
    cpu: Demand | None
    """None = no prediction: its request counts as it stands and stays."""
    memory: Demand | None
    cpu_withheld: Withheld | None = None
    """Why there is none."""
    memory_withheld: Withheld | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDemand:
    """One pod bound to the node."""

    pod: Pod
    workload: Workload
    orders: Orders
    reserved: Reserved | None
    """None = it may be optimised."""
    containers: tuple[ContainerDemand, ...] = ()
    """In the spec's order, sidecars first; empty for a reserved pod that nothing is known of."""
    is_cpu_frozen: bool = False
    """An HPA scales on CPU: its CPU requests count as they stand."""
    is_memory_frozen: bool = False
    is_shrink_barred: bool = False
    """It may only grow: an out-of-memory kill came soon after a shrink."""
