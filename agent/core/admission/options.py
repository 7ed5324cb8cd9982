"""What can be set of admission; the docstring under each field is its documentation. Core, pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from agent.core.numbers.allowed_range import Between
from agent.core.orders.plan_options import ActOptions, PlanOptions
from agent.core.orders.policy_options import BoundsOptions, ControlledValues, PolicyName
from agent.core.orders.resolution import windows_unread
from agent.core.orders.run_options import RunOptions
from agent.core.orders.windows import Windows

MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionOptions:
    """How a new pod is sized."""

    memory_threshold_bytes: Annotated[int, Between(0, 1 << 50)] = 16 * MB
    """A memory request is changed only if it differs by more than so many bytes, and its limit together with it."""
    memory_limit_ratio: Annotated[float, Between(1, 100)] = 2.0
    """Memory limit = this x the largest of the request, of seven days and of out-of-memory kills ..."""
    memory_limit_of_request: bool = True
    """... false = of seven days and of kills alone: the request does not count ..."""
    memory_limit_floor_bytes: Annotated[int, Between(0, 1 << 50)] = 512 * MB
    """... and at least so many bytes."""
    cpu_limits_removed: bool = True
    """Take CPU limits off where there is history, under the policies that set none (cruise, plimsoll)."""
    memory_limits_added: bool = True
    """Give a memory limit to containers that have a memory request and no limit."""
    pod_limits: bool = True
    """Turn plimsoll.dev/pod-limits into spec.resources where the cluster knows it."""
    hpa_freezes_axes: bool = True
    """A resource that an HPA scales on is left; false = such workloads are left as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """The parts of the settings that a pod is admitted by; what annotations and the cluster's rules do not say."""

    act: ActOptions = field(default_factory=ActOptions)
    """The mode, and the namespaces that are never touched."""
    plan: PlanOptions = field(default_factory=PlanOptions)
    """Which owners are sized, DaemonSets, Guaranteed pods, memory."""
    bounds: BoundsOptions = field(default_factory=BoundsOptions)
    admission: AdmissionOptions = field(default_factory=AdmissionOptions)
    jobs: RunOptions = field(default_factory=RunOptions)
    """Whether and how runs of Jobs are sized by those before."""
    policy: PolicyName = PolicyName.PLIMSOLL
    vpa_controlled_values: ControlledValues = ControlledValues.REQUESTS_AND_LIMITS
    """Whether limits move with requests under the policy ``vpa``."""
    read_windows: Callable[[str], Windows] = windows_unread
    """Reads when pods may be disturbed: nothing of it holds for a new pod, but who writes nonsense is left alone."""
