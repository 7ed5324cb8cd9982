"""What can be set of planning and acting; the docstring under each field is its documentation. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from agent.core.numbers.allowed_range import Between, Unset
from agent.core.orders.order import Mode

MIB = 1 << 20


class FitRule(StrEnum):
    """When a node fits."""

    SHARED = "shared"
    """sum of bases + the largest spike <= available: exactly what is handed out."""
    LITERAL = "literal"
    """The CruiseKube document's own test, which counts spikes twice."""


class HeadroomRule(StrEnum):
    """How much room a node keeps above the bases of its pods."""

    JOINT = "joint"
    """What the pods were seen to demand together in hours like this one, at least the largest single spike. It is known
    where the node's policy is ``plimsoll``, and of CPU only; anywhere else it is ``spike``."""
    SPIKE = "spike"
    """The largest single spike: the CruiseKube document's rule."""


class DaemonSetGrowth(StrEnum):
    """Whether DaemonSet pods may be given more than they request."""

    FITS = "fits"
    """As far as room is left after everybody else; never by an eviction."""
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How a node is planned."""

    replan_seconds: Annotated[float, Between(0.1, 3600)] = 60.0
    """Seconds between two plans; pressure and out-of-memory kills ask for one at once. Below 1 is for tests."""
    fit_rule: FitRule = FitRule.SHARED
    """shared: sum of bases + largest spike <= available; literal: the CruiseKube document's test."""
    headroom: HeadroomRule = HeadroomRule.JOINT
    """What is shared out above the bases: joint = what pods were seen to demand together (CPU, policy plimsoll), at
    least the largest single spike; spike = the largest single spike."""
    daemon_set_growth: DaemonSetGrowth = DaemonSetGrowth.FITS
    """Whether DaemonSet pods may grow: fits = as far as room is left, never = only shrink."""
    memory_applied: bool = True
    """Memory is resized and counted for evictions; false = CPU only, memory is only shown."""
    cpu_limits_raised: bool = True
    """A CPU limit, which cannot be removed in place, is raised to the node's allocatable CPU under the policies that
    set none (cruise, plimsoll)."""
    memory_limits_lowered: bool = True
    """Memory limits may fall, with a margin over what is in use and on 1.34 or newer only."""
    memory_limit_margin_ratio: Annotated[float, Between(1, 10)] = 1.25
    """A memory limit is never lowered below this x memory in use, page cache included."""
    memory_limit_history_seconds: Annotated[float, Between(0, 604_800)] = 86_400.0
    """Seconds a container must have been measured before its memory limit falls: a day knows its daily peak."""
    guaranteed: bool = False
    """Size Guaranteed pods too, requests and limits together; a pod's annotation can ask for it alone."""
    min_age_seconds: Annotated[float, Between(0, 604_800)] = 3600.0
    """Seconds a pod must have run before it is sized."""
    managed_kinds: str = "Deployment,ReplicaSet,StatefulSet,DaemonSet,Rollout,ReplicationController"
    """Kinds of owners whose pods are sized, separated by commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActOptions:
    """When and how fast the agent acts."""

    mode: Mode = Mode.RECOMMEND
    """What holds for pods that neither annotation nor namespace says anything of: off, recommend, protect (only more is
    given), enforce."""
    excluded_namespaces: str = "kube-system,kube-node-lease,plimsoll"
    """Namespaces whose pods are never touched, separated by commas."""
    resizes_per_minute: Annotated[int, Between(1, 6000)] = 60
    """Resizes of this node at most, per minute."""
    shrink_cool_down_seconds: Annotated[float, Between(0, 86_400)] = 300.0
    """Seconds after any resize of a pod in which it is not shrunk."""
    shrink_interval_seconds: Annotated[float, Between(0, 86_400)] = 3600.0
    """Seconds in each of which CPU falls once at most, counted from midnight UTC. This and the next two hold for those
    who ask for less because starvation is answered at once (credit of the policy plimsoll)."""
    shrink_after_growth_seconds: Annotated[float, Between(0, 604_800)] = 10_800.0
    """Seconds after starvation made CPU grow in which it does not fall."""
    shrink_ratio: Annotated[float, Between(0, 1)] = 0.3
    """Share of the CPU request by which it falls at least, 0..1."""
    grow_cool_down_seconds: Annotated[float, Between(0, 86_400)] = 30.0
    """Seconds after any resize of a pod in which it is not grown, unless pressure asks for it."""
    urgent_interval_seconds: Annotated[float, Between(0.1, 3600)] = 2.0
    """Seconds between two plans that pressure asks for."""
    urgent_waiting_ratio: Annotated[float, Between(0, 1)] = 0.2
    """Share of the last seconds that an enforced container waited for CPU which asks for a plan at once, 0..1; 0 =
    waiting for CPU never does."""
    urgent_headroom_ratio: Annotated[float, Between(0, 10)] = 0.2
    """Share added to what a starving container was seen to want: one large step instead of many small ones."""
    urgent_memory_ratio: Annotated[float, Between(0.1, 1)] = 0.9
    """Share of its memory limit in use which asks for a plan at once, 0..1."""
    urgent_memory_waiting_ratio: Annotated[float, Between(0.01, 1)] = 0.1
    """Share of a second that an enforced container waited for memory (PSI some), at its memory.high or its limit, which
    asks for a plan at once, 0..1."""
    revert_seconds: Annotated[float, Between(0, 86_400)] = 600.0
    """Seconds after a shrink in which an out-of-memory kill or rising memory pressure takes it back."""
    revert_memory_waiting_ratio: Annotated[float, Between(0.01, 1)] = 0.1
    """Memory pressure (PSI some) that counts as rising after a shrink, 0..1."""
    shrink_barred_seconds: Annotated[float, Between(0, 2_592_000)] = 86_400.0
    """Seconds for which a workload is not shrunk on this node after a shrink was taken back."""
    deferred_patience_seconds: Annotated[float, Between(1, 86_400)] = 600.0
    """Seconds after which a deferred resize is taken back to what is allocated."""
    stale_seconds: Annotated[float, Between(1, 3600)] = 180.0
    """Seconds without news of the API server after which nothing is written. It is asked for a list after five sixths
    of them, 150 s at most: 150 + 30 s, the time that a list may take, are the default. Where nothing happens a watch is
    heard once a minute, two minutes after it began: less than 150 costs the server lists, less than 36 is not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadOptions:
    """When the node is overloaded, and whether it says so by a taint."""

    taint: bool = False
    """Put the taint status-taint.cluster-autoscaler.kubernetes.io/plimsoll-overload:NoSchedule on the own node."""
    load_per_cpu_threshold: Annotated[float, Between(0.1, 1000)] = 1.0
    """Load average of one minute per CPU; above it in every reading of the window the node is overloaded ..."""
    release_load_per_cpu: Annotated[float, Between(0.0, 1000)] = 0.8
    """... until a reading is at or below this."""
    pressure_counts: bool = True
    """CPU pressure must be high too, as the load average counts tasks that wait for disks; false = the load alone."""
    waiting_ratio_threshold: Annotated[float, Between(0, 1)] = 0.2
    """CPU pressure (PSI some) of the node's pods that must be exceeded too, 0..1; without PSI the load alone counts."""
    release_waiting_ratio: Annotated[float, Between(0, 1)] = 0.1
    """An overload also ends with a reading whose CPU pressure is at or below this, whatever tasks wait for disks."""
    window_seconds: Annotated[float, Between(10, 3600)] = 120.0
    """Seconds of which every reading must be above the threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLimitsOptions:
    """Limits of whole pods where the cluster knows no pod-level resources; memory kept for higher QoS classes."""

    write_cgroups: bool = False
    """Set cpu.max and memory.max of pods that ask for it by plimsoll.dev/pod-limits, in any mode but off; needs a
    writable cgroup mount."""
    memory_low: bool = False
    """With writeCgroups: set memory.low of those pods, of their containers and of the cgroups above from what they
    request, so that the kernel takes memory from others first."""
    qos_reserved_memory_percent: Annotated[int | None, Between(0, 100), Unset("off", none_means="off")] = None
    """Percent of the memory requests of higher QoS classes that lower ones may not use; shown always when set."""
    qos_reserved_write: bool = False
    """Write those memory limits into the QoS tiers' cgroups; the kubelet rewrites them each minute."""
