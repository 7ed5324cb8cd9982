"""The policy ``vpa``: the recommender of the Vertical Pod Autoscaler, number for number. Core, pure.

CPU samples and memory peaks go into decaying histograms; percentiles of these become target, lower and upper bound
through steps that truncate one by one.

Source:
    kubernetes/autoscaler, vertical-pod-autoscaler 1.8.1 (recommender/).
"""

from __future__ import annotations

from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike

from agent.core.cluster.resource import Resource
from agent.core.history.minute.minutes import Minutes, OutOfMemory
from agent.core.numbers.arrays import Bools, Floats, Ints, Rows
from agent.core.numbers.integer_amounts import cpu_from_cores, memory_from_bytes
from agent.core.orders.policy_options import ControlledValues, PolicyName, VpaOptions
from agent.core.recommender.policy import LimitRule, Narration, Present, Proposals, Steps
from agent.core.recommender.vpa.chain import Chain, Estimates
from agent.core.recommender.vpa.estimators import cpu_minimums, memory_minimums
from agent.core.recommender.vpa.samples import whole_millicores
from agent.core.recommender.vpa.state import Arrays, VpaState

_LIMIT_RULES: Final = {
    ControlledValues.REQUESTS_AND_LIMITS: LimitRule.PROPORTIONAL,
    ControlledValues.REQUESTS_ONLY: LimitRule.KEEP,
}


class VpaPolicy:
    """What the recommender of the Vertical Pod Autoscaler would recommend, for many containers, one row each.

    ``Proposals.extra`` holds uncapped targets, lower and upper bounds and confidences, unless made without bounds; 0
    where the resource is not known.
    """

    name: Final = PolicyName.VPA

    def __init__(self, options: VpaOptions, rows: int, *, with_bounds: bool = True) -> None:
        self.state = VpaState(options, rows)
        self._options = options
        self._with_bounds = with_bounds
        self._cpu_chain = Chain(
            to_amounts=cpu_from_cores,
            target_percentile=options.target_cpu_percentile,
            lower_bound_percentile=options.recommendation_lower_bound_cpu_percentile,
            upper_bound_percentile=options.recommendation_upper_bound_cpu_percentile,
            margin_fraction=options.recommendation_margin_fraction,
            round_to=options.round_cpu_millicores,
            max_allowed=options.max_allowed_cpu_millicores,
        )
        self._memory_chain = Chain(
            to_amounts=memory_from_bytes,
            target_percentile=options.target_memory_percentile,
            lower_bound_percentile=options.recommendation_lower_bound_memory_percentile,
            upper_bound_percentile=options.recommendation_upper_bound_memory_percentile,
            margin_fraction=options.recommendation_margin_fraction,
            round_to=options.round_memory_bytes,
            max_allowed=options.max_allowed_memory_bytes,
        )

    @property
    def rows(self) -> int:
        """Return how many rows it holds."""
        return self.state.rows

    def grow(self, rows: int) -> None:
        """Grow to at least so many rows; the new ones are empty."""
        self.state.grow(rows)

    def forget(self, rows: Rows) -> None:
        """Clear these rows: they will stand for other containers."""
        self.state.forget(rows)

    def fold(self, minutes: Minutes) -> None:
        """Add one minute of all rows: a CPU sample of its mean, a memory sample of its peak, both at its start.

        Rows that have had no CPU sample for too long know nothing any more before they learn again.
        """
        unix_seconds = minutes.unix_minute * 60.0
        expired = np.flatnonzero(self.state.expired(unix_seconds))
        if expired.size:
            self.state.forget(expired)
        rows = np.flatnonzero(minutes.has_cpu)
        self.state.add_cpu(rows, whole_millicores(minutes.cpu_usage_millicores[rows]), unix_seconds)
        rows = np.flatnonzero(minutes.has_memory)
        self.state.add_memory(rows, memory_from_bytes(minutes.working_set_bytes[rows]), unix_seconds)

    def record_image(self, row: int, since_unix_seconds: float) -> None:
        """Record that a row's containers run another image: the original goes by usage alone."""

    def record_oom(self, row: int, kill: OutOfMemory) -> None:
        """Record a kill; at equal times usage comes first.

        It counts at the start of its minute, as the minute's samples do: told later than the kill, they would be
        dropped as older. What a container without a request used at the kill stands in for the request, as in the
        original's way of taking in evictions.
        """
        request_bytes = kill.usage_bytes if kill.request_bytes is None else kill.request_bytes
        self.state.add_oom(row, request_bytes or 0, kill.unix_seconds // 60.0 * 60.0)

    def recommend(
        self, rows: Rows, present: Present, *, now_unix_seconds: float, steps: Steps | None = None
    ) -> Proposals:
        """Answer for some rows; changes nothing. There is an answer from the first sample on."""
        is_current = ~self.state.expired(now_unix_seconds, rows)
        has_cpu = (self.state.cpu.counts[rows] > 0) & is_current
        has_memory = self.state.memory.known[rows] & is_current
        cpu = self.cpu_estimates(
            rows, present.pod_containers, present.wants_whole_cores, self._cpu_narration(rows, has_cpu, steps)
        )
        memory = self.memory_estimates(
            rows, present.pod_containers, self._memory_narration(rows, has_memory, now_unix_seconds, steps)
        )
        cpu_request = np.where(has_cpu, cpu.target, 0.0)
        memory_request = np.where(has_memory, memory.target, 0.0)
        never = np.zeros(rows.size, dtype=np.bool_)
        return Proposals(
            cpu_request_millicores=cpu_request,
            has_cpu=has_cpu,
            memory_request_bytes=memory_request,
            has_memory=has_memory,
            memory_limit_bytes=np.zeros(rows.size),
            has_memory_limit=never,
            cpu_base_millicores=cpu_request,
            cpu_peak_millicores=cpu_request,
            memory_base_bytes=memory_request,
            memory_peak_bytes=memory_request,
            cpu_upward_only=never,
            memory_upward_only=never,
            limit_rule=_LIMIT_RULES[self._options.controlled_values],
            extra={**_extra("cpu", "millicores", cpu, has_cpu), **_extra("memory", "bytes", memory, has_memory)},
        )

    def cpu_estimates(
        self, rows: Rows, pod_containers: ArrayLike, wants_whole_cores: Bools, narration: Narration
    ) -> Estimates:
        """Estimate CPU, millicores; what it makes of a row without samples is the minimum."""
        options = self._options
        return self._cpu_chain.estimates(
            lambda p: self.state.cpu_percentile(p, rows),
            cpu_minimums(options.pod_recommendation_min_cpu_millicores, pod_containers),
            confidences=self._confidences(rows, options.confidence_interval_cpu_seconds, narration),
            wants_whole_cores=wants_whole_cores if options.cpu_integer_post_processor_enabled else None,
            narration=narration,
        )

    def memory_estimates(self, rows: Rows, pod_containers: ArrayLike, narration: Narration) -> Estimates:
        """Estimate memory, bytes; as ``cpu_estimates``."""
        options = self._options
        return self._memory_chain.estimates(
            lambda p: self.state.memory_percentile(p, rows),
            memory_minimums(options.pod_recommendation_min_memory_mb, pod_containers),
            confidences=self._confidences(rows, options.confidence_interval_memory_seconds, narration),
            wants_whole_cores=None,
            narration=narration,
        )

    def _confidences(self, rows: Rows, interval_seconds: float, narration: Narration) -> Floats | None:
        if not self._with_bounds:
            return None
        confidences = self.state.confidences(rows, interval_seconds)
        note = f"the smaller of span and number of the CPU samples, 1 = {interval_seconds:g} s of them; for the bounds"
        narration.first("confidence", confidences, note, unit="ratio")
        return confidences

    def _cpu_narration(self, rows: Rows, has: Bools, steps: Steps | None) -> Narration:
        if steps is not None and not has[0]:
            steps.say("cpu", "target", None, "millicores", self._why_unknown())
            steps = None
        narration = Narration(steps, Resource.CPU)
        samples = self.state.cpu
        narration.first("CPU samples", samples.counts[rows], "one per minute; all weigh the same", unit="samples")
        span_seconds = samples.last_unix_seconds[rows] - samples.first_unix_seconds[rows]
        narration.first("first to last CPU sample", span_seconds, unit="seconds")
        return narration

    def _memory_narration(self, rows: Rows, has: Bools, now_unix_seconds: float, steps: Steps | None) -> Narration:
        if steps is not None and not has[0]:
            steps.say("memory", "target", None, "bytes", self._why_unknown())
            steps = None
        narration = Narration(steps, Resource.MEMORY)
        peaks = self.state.memory
        rest_seconds = peaks.window_end_unix_seconds[rows] - now_unix_seconds
        note = "from now; each window gives one peak to the histogram"
        narration.first("end of the running window", rest_seconds, note, unit="seconds")
        for what, amounts, otherwise in (
            ("usage", peaks.usage_peak_bytes[rows], "no sample in it yet"),
            ("after kills", peaks.oom_peak_bytes[rows], "no kill in it"),
        ):
            narration.known(f"peak of the running window: {what}", amounts, amounts > 0, otherwise=otherwise)
        return narration

    def _why_unknown(self) -> str:
        return f"no sample, or no CPU sample for {self.state.retention_seconds:g} s"

    def to_arrays(self) -> dict[str, Floats | Ints]:
        """Return what was learnt, exactly, for ``from_arrays``: by name."""
        return self.state.to_arrays()

    @classmethod
    def from_arrays(cls, options: VpaOptions, arrays: Arrays, *, with_bounds: bool = True) -> Self:
        """Return the policy that knows what ``to_arrays`` gave; see ``VpaState.from_arrays``."""
        policy = cls(options, 0, with_bounds=with_bounds)
        policy.state = VpaState.from_arrays(options, arrays)
        return policy


def _extra(resource: str, unit: str, estimates: Estimates, has: Bools) -> dict[str, Floats]:
    bounds = estimates.bounds
    if bounds is None:
        return {}
    return {
        f"{resource}_uncapped_target_{unit}": np.where(has, estimates.uncapped_target, 0.0),
        f"{resource}_lower_bound_{unit}": np.where(has, bounds.lower, 0.0),
        f"{resource}_upper_bound_{unit}": np.where(has, bounds.upper, 0.0),
        f"{resource}_confidence_ratio": np.where(has, bounds.confidences, 0.0),
    }
