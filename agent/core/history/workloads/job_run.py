"""What one run of a Job's container came to: how long it took, what it used, how it ended. Core, pure.

A run is told when it has ended, by the node it ran on. All pods of one run of a CronJob are one: merged in any order,
and as often as somebody tells them again, they come to the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent.core.cluster.workload import Workload
from agent.core.numbers.amount_text import BYTES, MILLICORES, amount_text
from agent.core.numbers.percentile import percentile
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MEMORY_ROW, SAMPLE, Has, Status
from agent.core.window.steps import NS, SHORT_NS, column, cpu_steps

RUNS_PATH: Final = "/v1/runs"
"""Where the webhook takes them."""
RUNS_SCHEMA: Final = 1
MAX_RUNS_A_POST: Final = 200
P75: Final = 0.75
LONG_MINUTES: Final = 10
"""A run with more of them is judged by its minutes: the readings of the first are no longer there at its end."""
_DECIMALS: Final = 3
_EMPTY_RAW: Final = np.zeros(0, dtype=SAMPLE)
_EMPTY_MEMORY: Final = np.zeros(0, dtype=MEMORY_ROW)
_USEC_PER_SECOND: Final = 1e6
_MILLICORES_PER_CORE: Final = 1000.0
_OUT_OF_MEMORY_EXIT: Final = 137
"""128 + SIGKILL, as a runtime tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """What was measured of one container from its beginning to its end; None = not known."""

    duration_seconds: float
    cpu_seconds: float | None = None
    """As the kernel counted them."""
    cpu_p75_millicores: float | None = None
    """Not more than this in three quarters of its time."""
    cpu_largest_millicores: float | None = None
    memory_peak_bytes: int | None = None
    """The most that was charged to it, as the kernel kept it: file cache counts too."""
    memory_need_bytes: int | None = None
    """The same without the cache that the kernel would have given back; the peak where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of one container of a workload, all its pods together; None = not known."""

    workload: Workload
    container: str
    run: str
    """The Job, or the pod of a Job by itself: see ``workload.run_of``."""
    ended_unix_seconds: float
    duration_seconds: float
    """Of the pod that took longest; so are all figures the largest of any pod."""
    cpu_seconds: float | None = None
    cpu_mean_millicores: float | None = None
    cpu_p75_millicores: float | None = None
    cpu_largest_millicores: float | None = None
    memory_peak_bytes: int | None = None
    memory_need_bytes: int | None = None
    """Of the pods that were not killed for want of memory; None = all were, or it is not known."""
    memory_at_kill_bytes: int | None = None
    """What was too little; None = none was killed."""
    exit_code: int | None = None
    cpu_node: int = 0
    """Whose word the CPU figures are, as ``node_peaks`` numbers it: of several that of the largest; 0 = nobody's."""
    memory_node: int = 0

    @property
    def largest_cpu_millicores(self) -> float:
        """Return the largest figure of CPU; 0 = there is none."""
        return max(self.cpu_mean_millicores or 0.0, self.cpu_p75_millicores or 0.0, self.cpu_largest_millicores or 0.0)

    @property
    def largest_memory_bytes(self) -> int:
        """Return the largest figure of memory; 0 = there is none."""
        return max(self.memory_peak_bytes or 0, self.memory_need_bytes or 0, self.memory_at_kill_bytes or 0)

    @property
    def key(self) -> tuple[Workload, str]:
        """Return whose history it belongs to: workload and container."""
        return self.workload, self.container


def run_figures(
    raw_pieces: Sequence[NDArray[np.void]],
    memory_pieces: Sequence[NDArray[np.void]],
    minutes: NDArray[np.void],
    policy: WindowPolicy,
    *,
    started_ns: int,
    ended_ns: int,
    is_from_beginning: bool,
    memory_peak_bytes: int | None = None,
    usage_usec: int | None = None,
) -> RunFigures:
    """Return what the rings tell of a container that has ended.

    CPU-seconds are what the kernel's counter says in the end. Rates are those between neighbouring readings; of a run
    of more than ``LONG_MINUTES`` those of its whole minutes.

    Args:
        raw_pieces: SAMPLE rows, oldest first.
        memory_pieces: MEMORY_ROW rows, oldest first.
        minutes: MINUTE_ROW rows of the container, oldest first.
        started_ns: CLOCK_MONOTONIC; when it was first seen.
        is_from_beginning: It was watched since it was made: its counter was 0 then. Else, as where the agent began
            anew meanwhile, its oldest row is where it begins.
        memory_peak_bytes: Read beside the rings; None = nothing was.
        usage_usec: The counter, read after the last row; None = it was not.
    """
    own = raw_pieces
    if is_from_beginning:
        own = [piece[piece["monotonic_ns"] >= max(started_ns, 0)] for piece in raw_pieces]
    status, stamps, usage = (column(own, name, _EMPTY_RAW) for name in ("status", "monotonic_ns", "usage_usec"))
    good = status == int(Status.OK)
    counted = [int(value) for value in usage[good]]
    if usage_usec is not None:
        counted.append(usage_usec)
    cpu_seconds = None
    if counted:
        before = 0 if is_from_beginning else counted[0]
        cpu_seconds = (max(counted) - before) / _USEC_PER_SECOND
    if not is_from_beginning and good.any():
        started_ns = int(stamps[good][0])
    p75, largest = _rates(own, minutes, policy, ended_ns=ended_ns)
    peak, need = _memory(own, memory_pieces, memory_peak_bytes)
    return RunFigures(
        duration_seconds=max(ended_ns - started_ns, 1) / NS,
        cpu_seconds=cpu_seconds,
        cpu_p75_millicores=p75,
        cpu_largest_millicores=largest,
        memory_peak_bytes=peak,
        memory_need_bytes=need,
    )


def _rates(
    raw_pieces: Sequence[NDArray[np.void]], minutes: NDArray[np.void], policy: WindowPolicy, *, ended_ns: int
) -> tuple[float | None, float | None]:
    """Return the P75 and the largest of the rates, millicores; None = there is none."""
    if minutes.size > LONG_MINUTES:
        measured = minutes[minutes["coverage_255"] > 0]
        if measured.size:
            means = measured["cpu_mean_millicores"].astype(np.float64)
            return percentile(means, P75), float(measured["cpu_peak_millicores"].max())
    steps = cpu_steps(raw_pieces, policy, until_ns=ended_ns)
    long = steps.good & (steps.elapsed_ns >= SHORT_NS)
    if not long.any():
        return None, None
    rates = steps.usage_millicores[long]
    return percentile(rates, P75), float(rates.max())


def _memory(
    raw_pieces: Sequence[NDArray[np.void]], memory_pieces: Sequence[NDArray[np.void]], peak_bytes: int | None
) -> tuple[int | None, int | None]:
    """Return the peak, and what of it was no cache that the kernel would have given back."""
    has, current, stamps = (
        column(raw_pieces, name, _EMPTY_RAW) for name in ("has", "memory_current_bytes", "monotonic_ns")
    )
    charged, charged_ns = current[_has(has, Has.MEMORY)], stamps[_has(has, Has.MEMORY)]
    kept_has, memory_peaks, sets, kept_ns = (
        column(memory_pieces, name, _EMPTY_MEMORY)
        for name in ("has", "memory_peak_bytes", "working_set_peak_bytes", "monotonic_ns")
    )
    peaks = [*charged.tolist(), *memory_peaks[_has(kept_has, Has.MEMORY_PEAK)].tolist()]
    if peak_bytes is not None:
        peaks.append(peak_bytes)
    if not peaks:
        return None, None
    peak = int(max(peaks))
    is_set = _has(kept_has, Has.MEMORY_STAT)
    working_sets = sets[is_set]
    # What rose between two readings, or after the last one that tells cache from the rest, is taken to be no cache: it
    # may be what the next run is killed for.
    before = charged[charged_ns <= kept_ns[is_set].max()] if working_sets.size else charged[:0]
    if not before.size:
        return peak, peak
    cache = max(int(before.max()) - int(working_sets.max()), 0)
    return peak, max(peak - cache, 0)


def _has(bits: NDArray[np.void], signal: Has) -> NDArray[np.bool_]:
    return (bits.astype(np.uint32) & np.uint32(signal)) > 0


def run_row(
    figures: RunFigures,
    *,
    workload: Workload,
    container: str,
    run: str,
    ended_unix_seconds: float,
    memory_at_kill_bytes: int | None,
    is_killed: bool,
    exit_code: int | None,
) -> JobRun:
    """Return the run of one container as it is told.

    Args:
        memory_at_kill_bytes: What it used when the kernel killed in it; None = not known, or it did not.
        is_killed: The kernel killed in it for want of memory.
    """
    at_kill = None
    if is_killed:
        known = [amount for amount in (memory_at_kill_bytes, figures.memory_peak_bytes) if amount is not None]
        at_kill = max(known, default=None)
    cpu_seconds, duration_seconds = figures.cpu_seconds, figures.duration_seconds
    return JobRun(
        workload=workload,
        container=container,
        run=run,
        ended_unix_seconds=ended_unix_seconds,
        duration_seconds=duration_seconds,
        cpu_seconds=cpu_seconds,
        cpu_mean_millicores=None if cpu_seconds is None else cpu_seconds * _MILLICORES_PER_CORE / duration_seconds,
        cpu_p75_millicores=figures.cpu_p75_millicores,
        cpu_largest_millicores=figures.cpu_largest_millicores,
        memory_peak_bytes=figures.memory_peak_bytes,
        memory_need_bytes=None if is_killed else figures.memory_need_bytes,
        memory_at_kill_bytes=at_kill,
        exit_code=_OUT_OF_MEMORY_EXIT if is_killed and exit_code is None else exit_code,
    )


def merged_run(job_run: JobRun, other: JobRun) -> JobRun:
    """Return two tellings of one run, or of two of its pods, as one: of each figure the larger.

    Who told the larger of a resource answers for all of it: then nobody's word is taken for another's, unless that one
    told more.
    """
    of_cpu = max(job_run, other, key=lambda run: (run.largest_cpu_millicores, run.cpu_node))
    of_memory = max(job_run, other, key=lambda run: (run.largest_memory_bytes, run.memory_node))
    return replace(
        job_run,
        cpu_node=of_cpu.cpu_node,
        memory_node=of_memory.memory_node,
        ended_unix_seconds=max(job_run.ended_unix_seconds, other.ended_unix_seconds),
        duration_seconds=max(job_run.duration_seconds, other.duration_seconds),
        cpu_seconds=_larger(job_run.cpu_seconds, other.cpu_seconds),
        cpu_mean_millicores=_larger(job_run.cpu_mean_millicores, other.cpu_mean_millicores),
        cpu_p75_millicores=_larger(job_run.cpu_p75_millicores, other.cpu_p75_millicores),
        cpu_largest_millicores=_larger(job_run.cpu_largest_millicores, other.cpu_largest_millicores),
        memory_peak_bytes=_larger_bytes(job_run.memory_peak_bytes, other.memory_peak_bytes),
        memory_need_bytes=_larger_bytes(job_run.memory_need_bytes, other.memory_need_bytes),
        memory_at_kill_bytes=_larger_bytes(job_run.memory_at_kill_bytes, other.memory_at_kill_bytes),
        exit_code=_larger_bytes(job_run.exit_code, other.exit_code),
    )


def run_words(run: JobRun, ended_age_seconds: float) -> str:
    """Return what a run came to, in a sentence."""
    words = [f"took {amount_text(run.duration_seconds, 's')}"]
    if run.cpu_mean_millicores is not None:
        words.append(f"CPU {amount_text(run.cpu_mean_millicores, MILLICORES)}")
    if run.memory_peak_bytes is not None:
        words.append(f"memory {amount_text(run.memory_peak_bytes, BYTES)}")
    if run.exit_code is not None:
        words.append(f"exit {run.exit_code}")
    if run.memory_at_kill_bytes is not None:
        words.append(f"killed for want of memory at {amount_text(run.memory_at_kill_bytes, BYTES)}")
    return f"{run.run}, ended {amount_text(ended_age_seconds // 60, 'min')} ago: {', '.join(words)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldRun:
    """A run as a node tells of one container of one pod; the receiver finds out which run of whose it is."""

    pod: str
    pod_uid: str
    ended_age_seconds: float
    """Before the sending."""
    row: JobRun
    """Its end is not looked at: clocks differ."""
    is_start: bool = False
    """It is the start of a pod that goes on running."""


def runs_text(node: str, runs: Sequence[ToldRun]) -> str:
    """Return the body of a post of runs, JSON."""
    document = {"schema": RUNS_SCHEMA, "node": node, "runs": [_run_to_json(run) for run in runs]}
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _run_to_json(run: ToldRun) -> dict[str, object]:
    row = run.row
    known: dict[str, object] = {
        "cpuSeconds": _rounded(row.cpu_seconds),
        "cpuMeanMillicores": _rounded(row.cpu_mean_millicores),
        "cpuP75Millicores": _rounded(row.cpu_p75_millicores),
        "cpuLargestMillicores": _rounded(row.cpu_largest_millicores),
        "memoryPeakBytes": row.memory_peak_bytes,
        "memoryNeedBytes": row.memory_need_bytes,
        "memoryAtKillBytes": row.memory_at_kill_bytes,
        "exitCode": row.exit_code,
    }
    return {
        "namespace": row.workload.namespace,
        "kind": row.workload.kind,
        "workload": row.workload.name,
        "container": row.container,
        "pod": run.pod,
        "podUid": run.pod_uid,
        "endedAgeSeconds": round(run.ended_age_seconds, _DECIMALS),
        "durationSeconds": max(round(row.duration_seconds, _DECIMALS), 0.001),
        **{name: value for name, value in known.items() if value is not None},
        **({"start": True} if run.is_start else {}),
    }


def _rounded(amount: float | None) -> float | None:
    return None if amount is None else round(amount, _DECIMALS)


def _larger(figure: float | None, other: float | None) -> float | None:
    return max((amount for amount in (figure, other) if amount is not None), default=None)


def _larger_bytes(figure: int | None, other: int | None) -> int | None:
    return max((amount for amount in (figure, other) if amount is not None), default=None)
