"""The words of the house as types: what is measured of containers, pods and the node.

Core, pure. Values are frozen; a signal that is missing is None beside a reason, never 0, -1 or NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from agent.core.cluster.unit import UnitIdentity, UnitResources


class Gap(StrEnum):
    """Why two consecutive readings give no rate, or a reading gives no figure. Also a metric label."""

    CLOCK = "clock"
    TOO_FAR_APART = "too_far_apart"
    COUNTER_RESET = "counter_reset"
    IMPLAUSIBLE = "implausible"
    READ_FAILED = "read_failed"
    PARSE = "parse"


class Missing(StrEnum):
    """Why a figure is not there."""

    NO_SIGNAL = "no_signal"
    """The kernel does not give it here: controller, PSI or file absent."""
    TOO_FEW_SAMPLES = "too_few_samples"
    """Not enough readings yet for a difference or a percentile."""
    GAPS = "gaps"
    """More of the window is gap than the policy lets pass."""
    OUT_OF_RING = "out_of_ring"
    """The time asked for lies before what the rings still hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuWindow:
    """CPU of one cgroup over a window that ends at a stated moment.

    Millicores (1000 = one core kept busy) and ratios 0..1. ``usage_*`` and ``peak`` are rates over ``rateWindow``
    sliding by the tick; ``burst`` is the largest rate between two neighbouring readings; ``last`` is the newest such
    rate. ``adjusted`` means usage x (1 + waiting), waiting = PSI some, less the share put down to the cgroup's own
    cpu.max. A figure that is None has its reason in ``missing`` under the field's name.
    """

    readings: int
    """Readings with status OK inside the window."""
    gaps: Mapping[Gap, int]
    """Neighbouring pairs that gave no rate, by reason."""
    span_seconds: float
    """From the oldest to the newest reading used."""
    coverage_ratio: float
    """Share of the asked-for window that readings without gaps cover, 0..1."""
    last_usage_millicores: float | None
    usage_p75_millicores: float | None
    usage_peak_millicores: float | None
    burst_millicores: float | None
    adjusted_p75_millicores: float | None
    adjusted_peak_millicores: float | None
    last_waiting_ratio: float | None
    """PSI some over the newest pair, throttling taken out."""
    waiting_ratio: float | None
    """Mean over the window, throttling taken out."""
    last_throttled_ratio: float | None
    """Throttled time per second over the newest pair, capped at 1."""
    throttled_ratio: float | None
    throttled_periods_ratio: float | None
    """nr_throttled / nr_periods over the window."""
    missing: Mapping[str, Missing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdFile:
    """File cache of one cgroup that nobody is known to have come back for within a window; see ``cold_file``."""

    total_bytes: int
    """Active and inactive."""
    active_bytes: int
    """What of it is in the working set: inactive file pages are not."""
    refaulted_bytes: int
    """File cache that was reclaimed within the window and then read again, so that it was missed."""
    window_seconds: float
    is_left_out: bool
    """``active_bytes`` are not asked for as a request; False = they are told of only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWindow:
    """Memory of one cgroup over a window that ends at a stated moment; bytes. None has its reason in ``missing``."""

    readings: int
    span_seconds: float
    current_bytes: int | None
    working_set_bytes: int | None
    """Newest: memory.current - inactive_file, floor 0, both read in one go."""
    working_set_p75_bytes: int | None
    working_set_peak_bytes: int | None
    lifetime_peak_bytes: int | None
    """memory.peak: includes page cache, since the cgroup was made."""
    pressure_some_ratio: float | None
    """Stall of some task on memory, share of time over the window."""
    oom_kills: int | None
    """Out-of-memory kills inside the window."""
    anon_bytes: int | None = None
    """Newest: memory of the tasks' own, no page cache; without swap it cannot be reclaimed."""
    pressure_full_ratio: float | None = None
    """Stall of all tasks at once on memory, share of time over the window."""
    high_events: int | None = None
    """How often inside the window its tasks were held back to reclaim, as it was above memory.high."""
    io_pressure_some_ratio: float | None = None
    """Wait of some task for a disk (io.pressure), share of time over the window."""
    cold_file: ColdFile | None = None
    missing: Mapping[str, Missing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitAdvice:
    """What a unit should request, in short; ``core.recommender.recommendation`` has all of it."""

    policy: str
    cpu_request_millicores: int | None
    cpu_withheld: str | None
    """A ``recommendation.Withheld``, when there is no CPU request to recommend."""
    cpu_bounds: tuple[str, ...]
    """Each a ``recommendation.Bound`` that changed the CPU request."""
    memory_request_bytes: int | None
    memory_withheld: str | None
    memory_bounds: tuple[str, ...]
    measured_seconds: float
    """For how long it was measured at the evaluation."""
    min_span_seconds: float
    """For how long it must have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStatus:
    """One watched cgroup as ``top``, ``/metrics`` and the socket tell of it."""

    identity: UnitIdentity
    resources: UnitResources
    cpu: CpuWindow
    memory: MemoryWindow
    sample_age_seconds: float | None
    """Age of the newest good reading at the snapshot's moment; None = there is none yet."""
    cpu_max_millicores: float | None = None
    """The cgroup's own cpu.max as read; None = no limit or not known."""
    memory_max_bytes: int | None = None
    """The cgroup's own memory.max as read; None = no limit or not known."""
    advice: UnitAdvice | None = None
    """As of the newest evaluation; None = there was none yet, or this moment lies in the past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """One pod's own cgroup: all that is in it, measured and not added up."""

    whole: UnitStatus
    """Its resources are not filled in: they are its containers'."""
    itself_cpu_millicores: float | None = None
    """Used in none of its containers over the last minute; None = not known, or this moment lies in the past."""
    itself_working_set_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """The machine itself."""

    name: str
    cpus: int
    cpu_usage_millicores: float | None
    memory_total_bytes: int
    memory_available_bytes: int
    load_1m: float
    cpu_waiting_ratio: float | None
    """PSI some of the whole machine, newest tick; None without PSI."""
    memory_waiting_ratio: float | None
    uptime_seconds: float
    memory_stalled_ratio: float | None = None
    """PSI full of memory: all tasks of the machine stalled at once, newest tick; None without PSI."""
    io_waiting_ratio: float | None = None
    """PSI some of io."""
    io_stalled_ratio: float | None = None
    """PSI full of io."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerStatus:
    """How well the sampling itself goes."""

    name: str
    """``native`` or ``reference``."""
    rate_hz: float
    lateness_p99_seconds: float | None
    sweep_seconds: float | None
    sweeps: int
    overruns: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that is known of the node at one moment: the answer of the socket, and what ``top`` draws."""

    taken_unix_seconds: float
    """Wall clock, for people."""
    at_age_seconds: float
    """How far back the figures lie: 0 = now."""
    source: str
    """``agent`` (from a running one), ``self`` (sampled by the command itself), ``demo``."""
    node: NodeStatus
    sampler: SamplerStatus
    units: tuple[UnitStatus, ...]
    notes: tuple[str, ...] = ()
    """What is degraded and so absent, one sentence each."""
    pods: tuple[PodStatus, ...] = ()
    tiers: tuple[UnitStatus, ...] = ()
    """``kubepods`` and the cgroups of the QoS classes below it, in tree order."""
