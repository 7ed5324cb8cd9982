"""What can be set of each policy and of the bounds; the docstring under each field is its documentation. Core, pure.

Defaults are those of the originals (CruiseKube, the Vertical Pod Autoscaler, Crane), so that the numbers are theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from agent.core.numbers.allowed_range import Between, Unset, Words

MIB = 1 << 20
DAY_SECONDS = 86_400.0


class PolicyName(StrEnum):
    """Which policy sizes."""

    CRUISE = "cruise"
    VPA = "vpa"
    CRANE = "crane"
    PLIMSOLL = "plimsoll"


class ControlledValues(StrEnum):
    """Whether limits move with requests."""

    REQUESTS_AND_LIMITS = "RequestsAndLimits"
    REQUESTS_ONLY = "RequestsOnly"


class ControlledResources(StrEnum):
    """Which resources are recommended."""

    BOTH = "cpu,memory"
    CPU = "cpu"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class CruiseOptions:
    """The policy ``cruise``. Its windows and their percentile are ``windows.*``: they are measured, not remembered."""

    last_seconds: Annotated[float, Between(60, 86_400)] = 3600.0
    """Seconds of the current prediction: the largest demand of this long is a peak."""
    history_days: Annotated[int, Between(1, 7)] = 7
    """Days back to which the same hour of the day counts."""
    neighbour_hours: Annotated[int, Between(0, 12)] = 1
    """Hours before and after this hour of the day that count as the same; 0 = the hour alone."""
    memory_limit_ratio: Annotated[float, Between(1, 100)] = 2.0
    """Memory limit = this x the largest memory of seven days or at an out-of-memory kill."""
    oom_retention_seconds: Annotated[float, Between(60, 2_592_000)] = 7 * DAY_SECONDS
    """Seconds for which the memory at an out-of-memory kill is remembered."""
    min_cpu_millicores: Annotated[int, Between(1, 1_000_000)] = 1
    """Least CPU request, millicores."""
    min_memory_bytes: Annotated[int, Between(0, 1 << 50)] = 16_000_000
    """Least memory request and limit, bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VpaOptions:
    """The policy ``vpa``: names and defaults of the flags of the Vertical Pod Autoscaler's recommender."""

    target_cpu_percentile: Annotated[float, Between(0, 1)] = 0.9
    """Percentile of CPU usage behind the target, 0..1."""
    recommendation_lower_bound_cpu_percentile: Annotated[float, Between(0, 1)] = 0.5
    """Percentile of CPU usage behind the lower bound, 0..1."""
    recommendation_upper_bound_cpu_percentile: Annotated[float, Between(0, 1)] = 0.95
    """Percentile of CPU usage behind the upper bound, 0..1."""
    target_memory_percentile: Annotated[float, Between(0, 1)] = 0.9
    """Percentile of memory peaks behind the target, 0..1."""
    recommendation_lower_bound_memory_percentile: Annotated[float, Between(0, 1)] = 0.5
    """Percentile of memory peaks behind the lower bound, 0..1."""
    recommendation_upper_bound_memory_percentile: Annotated[float, Between(0, 1)] = 0.95
    """Percentile of memory peaks behind the upper bound, 0..1."""
    recommendation_margin_fraction: Annotated[float, Between(0, 100)] = 0.15
    """Added to each estimate, as a share of it."""
    pod_recommendation_min_cpu_millicores: Annotated[float, Between(0, 1_000_000)] = 25.0
    """Least CPU of a pod, millicores, divided among its containers."""
    pod_recommendation_min_memory_mb: Annotated[float, Between(0, 1e9)] = 250.0
    """Least memory of a pod, MiB (the flag says mb), divided among its containers."""
    cpu_histogram_decay_half_life_seconds: Annotated[float, Between(60, 31_536_000)] = DAY_SECONDS
    """Seconds after which a CPU sample weighs half as much as a new one."""
    memory_histogram_decay_half_life_seconds: Annotated[float, Between(60, 31_536_000)] = DAY_SECONDS
    """Seconds after which a memory peak weighs half as much as a new one."""
    memory_aggregation_interval_seconds: Annotated[float, Between(60, 2_592_000)] = DAY_SECONDS
    """Seconds of which one memory peak is kept."""
    memory_aggregation_interval_count: Annotated[int, Between(1, 1000)] = 8
    """Intervals without a sample after which what was learnt is dropped."""
    confidence_interval_cpu_seconds: Annotated[float, Between(60, 2_592_000)] = DAY_SECONDS
    """Seconds of samples that make the confidence 1, for CPU bounds."""
    confidence_interval_memory_seconds: Annotated[float, Between(60, 2_592_000)] = DAY_SECONDS
    """Seconds of samples that make the confidence 1, for memory bounds."""
    oom_bump_up_ratio: Annotated[float, Between(1, 100)] = 1.2
    """Memory after an out-of-memory kill: this x what was used."""
    oom_min_bump_up_bytes: Annotated[float, Between(0, 1 << 50)] = 100.0 * MIB
    """Memory after an out-of-memory kill: at least so many bytes more."""
    round_cpu_millicores: Annotated[int, Between(1, 1_000_000)] = 1
    """CPU is rounded up to a multiple of this many millicores."""
    round_memory_bytes: Annotated[int, Between(1, 1 << 50)] = 1
    """Memory is rounded up to a multiple of this many bytes."""
    cpu_integer_post_processor_enabled: bool = False
    """Round CPU up to whole cores for containers whose pod asks for it by annotation."""
    max_allowed_cpu_millicores: Annotated[int | None, Between(1, 1e9), Unset("no bound", none_means="no bound")] = None
    """Most CPU for any container, millicores (the flag container-recommendation-max-allowed-cpu)."""
    max_allowed_memory_bytes: Annotated[int | None, Between(1, 1 << 60), Unset("no bound", none_means="no bound")] = (
        None
    )
    """Most memory for any container, bytes (the flag container-recommendation-max-allowed-memory)."""
    controlled_values: ControlledValues = ControlledValues.REQUESTS_AND_LIMITS
    """RequestsAndLimits moves limits in proportion; RequestsOnly leaves them and caps requests by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CraneOptions:
    """The policy ``crane``: names and defaults of Crane's resource recommender."""

    cpu_request_percentile: Annotated[float, Between(0, 1)] = 0.99
    """Percentile of CPU mass (samples weigh their value), 0..1."""
    cpu_request_margin_fraction: Annotated[float, Between(0, 100)] = 0.15
    """Added to the CPU percentile, as a share of it."""
    cpu_target_utilization: Annotated[float, Between(0.01, 1)] = 1.0
    """Usage as a share of the request that is aimed at, 0..1."""
    cpu_model_history_seconds: Annotated[float, Between(3600, 604_800)] = 7 * DAY_SECONDS
    """Seconds of CPU samples that count."""
    cpu_histogram_bucket_size: Annotated[float, Between(0.001, 1000)] = 0.1
    """Cores of one bucket."""
    cpu_histogram_max_value: Annotated[float, Between(0.001, 100_000)] = 100.0
    """Cores of the last bucket."""
    mem_request_percentile: Annotated[float, Between(0, 1)] = 0.99
    """Percentile of memory mass, 0..1."""
    mem_request_margin_fraction: Annotated[float, Between(0, 100)] = 0.15
    """Added to the memory percentile, as a share of it."""
    mem_target_utilization: Annotated[float, Between(0.01, 1)] = 1.0
    """Working set as a share of the request that is aimed at, 0..1."""
    mem_model_history_seconds: Annotated[float, Between(3600, 604_800)] = 7 * DAY_SECONDS
    """Seconds of memory samples that count."""
    mem_histogram_bucket_size: Annotated[float, Between(4096, 1 << 50)] = 100.0 * MIB
    """Bytes of one bucket."""
    mem_histogram_max_value: Annotated[float, Between(4096, 1 << 60)] = 100_000.0 * MIB
    """Bytes of the last bucket."""
    specification: bool = False
    """Round up to the smallest specification that holds CPU and memory."""
    specification_config: Annotated[str | None, Unset("Crane's own list")] = None
    """Specifications such as 1c2g,2c4g (cores, GiB)."""
    oom_protection: bool = True
    """Memory is at least what an out-of-memory kill showed to be too little, and more."""
    oom_history_seconds: Annotated[float, Between(60, 2_592_000)] = 7 * DAY_SECONDS
    """Seconds for which a kill counts."""
    oom_bump_ratio: Annotated[float, Between(1, 100)] = 1.2
    """Memory after a kill: this x the request then, and at least 100 MiB more."""


PRICE_IN_PLACE_DIVISOR: Final = 6.0
"""10 beside the usual 60, and 33 beside ``safe``: a word for the one price moves the other."""
LEAST_PRICE_IN_PLACE: Final = 5.0
"""Below it little slack is saved, and growth comes too often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingOptions:
    """The policy ``plimsoll``: hours like this one, at the price of being short."""

    price: Annotated[float, Between(1, 1000), Words(lean=10.0, balanced=60.0, safe=200.0)] = 60.0
    """What CPU that is used but not requested costs, x what CPU requested and idle costs: the policy's one dial."""
    price_in_place: Annotated[float | None, Between(1, 1000), Unset("a sixth of sizing.price, at least 5")] = None
    """The same where the agent answers starvation within seconds, in place; never above sizing.price."""

    @property
    def prices(self) -> tuple[float, float]:
        """Return both prices: the full one, and that of what is answered within seconds."""
        in_place = self.price_in_place
        if in_place is None:
            in_place = max(self.price / PRICE_IN_PLACE_DIVISOR, LEAST_PRICE_IN_PLACE)
        return self.price, min(in_place, self.price)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsOptions:
    """What the answer of every policy passes through."""

    min_cpu_millicores: Annotated[int, Between(1, 1_000_000)] = 1
    """Least CPU request recommended, millicores."""
    max_cpu_millicores: Annotated[int | None, Between(1, 1e9), Unset("no bound", none_means="no bound")] = None
    """Most CPU request recommended, millicores."""
    min_memory_bytes: Annotated[int, Between(0, 1 << 50)] = 16_000_000
    """Least memory request recommended, bytes."""
    max_memory_bytes: Annotated[int | None, Between(1, 1 << 53), Unset("no bound", none_means="no bound")] = None
    """Most memory request recommended, bytes."""
    round_cpu_millicores: Annotated[int, Between(1, 1_000_000)] = 1
    """CPU is rounded up to a multiple of this many millicores."""
    round_memory_bytes: Annotated[int, Between(1, 1 << 40)] = MIB
    """Memory is rounded up to a multiple of this many bytes."""
    smallest_cpu_change_millicores: Annotated[int, Between(0, 1_000_000)] = 10
    """A CPU change below this is not worth making..."""
    smallest_memory_change_bytes: Annotated[int, Between(0, 1 << 50)] = 16 * MIB
    """... nor is a memory change below this ..."""
    smallest_change_ratio: Annotated[float, Between(0, 10)] = 0.05
    """... nor one below this share of the present request, whatever the amount."""
    memory_in_use_ratio: Annotated[float, Between(1, 100)] = 1.0
    """A memory request is never below this x the working set of now, a limit never below this x the memory in use."""
    controlled_resources: ControlledResources = ControlledResources.BOTH
    """Which resources are recommended: cpu,memory or one of them."""
