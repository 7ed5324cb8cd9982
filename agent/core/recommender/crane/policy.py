"""The policy ``crane``: the resource recommender of Crane, number for number, without its faults.

Core, pure. CPU: percentile, margin, target utilisation, whole millicores. Memory: the same in whole bytes, then what
out-of-memory kills show to be needed. At last, when asked for, both are rounded up to a specification together.

Other than Crane: a kill counts for its own container only and the largest one within a look-back that can be set; each
container of each pod is sized by itself, and one without samples does not keep the others from an answer.

Source:
    facts/crane.md sections 1 to 6.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from agent.core.cluster.resource import Resource
from agent.core.history.minute.minutes import Minutes, OutOfMemory
from agent.core.numbers.arrays import Bools, Floats, Rows
from agent.core.numbers.bucket_scheme import LinearScheme
from agent.core.orders.policy_options import CraneOptions
from agent.core.recommender.crane.estimate import Estimation, to_bytes, to_millicores
from agent.core.recommender.crane.kills import CraneKills, protect
from agent.core.recommender.crane.samples import CPU_QUANTUM, MEMORY_QUANTUM, SlidingHistograms
from agent.core.recommender.crane.specification import DEFAULT_SPECIFICATIONS, Specifications, parse_specifications
from agent.core.recommender.policy import LimitRule, MinutePolicy, Narration, Present, Proposals, Steps

_MINUTE_SECONDS: Final = 60
_DAY_MINUTES: Final = 1440
_MILLICORES_PER_CORE: Final = 1000.0
_CUT: Final = "fraction cut off"
_NO_SAMPLES: Final = "no samples"


class CranePolicy(MinutePolicy):
    """Sizes by a percentile of the usage of the last seven days, in which a sample weighs its value."""

    name: Final[str] = "crane"

    def __init__(self, options: CraneOptions, rows: int) -> None:
        self._options = options
        self._cpu = SlidingHistograms(
            LinearScheme(options.cpu_histogram_max_value, options.cpu_histogram_bucket_size),
            CPU_QUANTUM,
            percentile=options.cpu_request_percentile,
            window_minutes=int(options.cpu_model_history_seconds // _MINUTE_SECONDS),
            rows=rows,
        )
        self._cpu_estimation = Estimation(
            percentile=options.cpu_request_percentile,
            margin_fraction=options.cpu_request_margin_fraction,
            target_utilization=options.cpu_target_utilization,
        )
        self._memory = SlidingHistograms(
            LinearScheme(options.mem_histogram_max_value, options.mem_histogram_bucket_size),
            MEMORY_QUANTUM,
            percentile=options.mem_request_percentile,
            window_minutes=int(options.mem_model_history_seconds // _MINUTE_SECONDS),
            rows=rows,
        )
        self._memory_estimation = Estimation(
            percentile=options.mem_request_percentile,
            margin_fraction=options.mem_request_margin_fraction,
            target_utilization=options.mem_target_utilization,
        )
        self._kills = CraneKills(
            history_seconds=options.oom_history_seconds, bump_ratio=options.oom_bump_ratio, rows=rows
        )
        super().__init__(rows, self._cpu, self._memory, self._kills)
        # Read even while they are switched off, as Crane does: a wrong list should not wait for the switch.
        self._specifications = Specifications(
            DEFAULT_SPECIFICATIONS
            if options.specification_config is None
            else parse_specifications(options.specification_config)
        )

    def fold(self, minutes: Minutes) -> None:
        """Add one minute of all rows: CPU is the mean as measured, memory the peak of the working set."""
        cpu_usage_cores = minutes.cpu_usage_millicores / _MILLICORES_PER_CORE
        self._cpu.fold(minutes.unix_minute, cpu_usage_cores, minutes.has_cpu)
        self._memory.fold(minutes.unix_minute, minutes.working_set_bytes, minutes.has_memory)

    def record_oom(self, row: int, kill: OutOfMemory) -> None:
        """Record a kill; what was in use, else the limit, stands for a request that is not known.

        Crane bumps the memory request and keeps no record of a container without one.
        """
        known = (kill.request_bytes, kill.usage_bytes, kill.limit_bytes)
        requested_bytes = next((amount for amount in known if amount is not None), None)
        if requested_bytes is not None:
            self._kills.record(row, unix_seconds=kill.unix_seconds, requested_bytes=requested_bytes)

    def recommend(
        self,
        rows: Rows,
        present: Present,
        *,
        now_unix_seconds: float,
        steps: Steps | None = None,
    ) -> Proposals:
        """Answer for some rows, from what was learnt alone.

        The samples that count end with the newest minute learnt, the kills with the moment of the answer.
        """
        cpu, memory = Narration(steps, Resource.CPU), Narration(steps, Resource.MEMORY)
        has_cpu, has_memory = self._cpu.counts(rows) > 0, self._memory.counts(rows) > 0

        cpu_cores = _estimated(cpu, self._cpu, self._cpu_estimation, rows, has_cpu, units=_MILLICORES_PER_CORE)
        cpu_millicores = to_millicores(cpu_cores)
        cpu.known("whole millicores", cpu_millicores, has_cpu, _CUT, _NO_SAMPLES)

        memory_bytes = to_bytes(_estimated(memory, self._memory, self._memory_estimation, rows, has_memory))
        memory.known("whole bytes", memory_bytes, has_memory, _CUT, _NO_SAMPLES)
        has_memory &= memory_bytes > 0  # Crane: "no enough metrics"

        if self._options.oom_protection:
            needed_bytes, has_kill = self._kills.needed(rows, now_unix_seconds)
            note = f"request at the kill x {self._options.oom_bump_ratio:g} or plus 100 MiB, whichever is more"
            no_kill = "no kill within crane.oomHistorySeconds"
            memory.known("needed after an out-of-memory kill", needed_bytes, has_kill, note, no_kill)
            memory_bytes = protect(memory_bytes, needed_bytes, has_kill)
        if self._options.specification:
            chosen_millicores, chosen_bytes, has_fit = self._specifications.normalise(cpu_millicores, memory_bytes)
            has_fit &= has_cpu & has_memory  # a pair is chosen for both together
            for narration, chosen in ((cpu, chosen_millicores), (memory, chosen_bytes)):
                note, no_fit = "the smallest that holds CPU and memory", "none holds CPU and memory"
                narration.known("specification", chosen, has_fit, note, no_fit)
            cpu_millicores = np.where(has_fit, chosen_millicores, cpu_millicores)
            memory_bytes = np.where(has_fit, chosen_bytes, memory_bytes)
        return _proposals(cpu_millicores, has_cpu, memory_bytes, has_memory)


def _proposals(cpu_millicores: Floats, has_cpu: Bools, memory_bytes: Floats, has_memory: Bools) -> Proposals:
    """Return requests as proposals: Crane knows neither base and peak nor limits."""
    cpu_millicores = np.where(has_cpu, cpu_millicores, 0.0)
    memory_bytes = np.where(has_memory, memory_bytes, 0.0)
    nowhere = np.zeros(has_cpu.shape, dtype=np.bool_)
    return Proposals(
        cpu_request_millicores=cpu_millicores,
        has_cpu=has_cpu,
        memory_request_bytes=memory_bytes,
        has_memory=has_memory,
        memory_limit_bytes=np.zeros(has_cpu.shape),
        has_memory_limit=nowhere,
        cpu_base_millicores=cpu_millicores,
        cpu_peak_millicores=cpu_millicores,
        memory_base_bytes=memory_bytes,
        memory_peak_bytes=memory_bytes,
        cpu_upward_only=nowhere,
        memory_upward_only=nowhere,
        limit_rule=LimitRule.KEEP,
    )


def _estimated(
    narration: Narration,
    samples: SlidingHistograms,
    estimation: Estimation,
    rows: Rows,
    has: Bools,
    *,
    units: float = 1.0,
) -> Floats:
    """Return the estimates of some rows, cores or bytes; there are so many amounts in one of them."""
    days = samples.window_minutes / _DAY_MINUTES
    narration.first(f"minutes known of the last {days:g} days", samples.counts(rows), unit="samples")
    values = samples.percentiles(rows)
    percentile = f"P{estimation.percentile * 100:g}, each sample weighing its value"
    narration.known(percentile, values * units, has, "upper end of its histogram bucket", _NO_SAMPLES)
    values = estimation.of_percentile(values)
    margin, utilization = 1 + estimation.margin_fraction, estimation.target_utilization
    what = f"with margin (x {margin:g}) and target utilisation (/ {utilization:g})"
    narration.known(what, values * units, has, otherwise=_NO_SAMPLES)
    return values
