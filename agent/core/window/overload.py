"""Whether a node is overloaded: load per CPU and CPU pressure over a window, with hysteresis. Core, pure.

The load average of Linux counts tasks that wait for disks too; pressure tells those that wait for CPU. Where both are
known both must be high, unless the settings go by the load alone. Doubt changes nothing: without readings, or with too
few to speak for the window, the state stays what it was.

Source: facts cruisekube, section 11 (function ``node_overload`` of the vectors); psi.rst of the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final

from agent.core.orders.plan_options import OverloadOptions

OVERLOAD_TAINT_KEY: Final = "status-taint.cluster-autoscaler.kubernetes.io/plimsoll-overload"
"""The cluster autoscaler leaves taints of this prefix out of its templates of new nodes."""
OVERLOAD_TAINT_EFFECT: Final = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReading:
    """The node at one moment."""

    seconds: float
    """On any clock that only goes forward; the same for all readings."""
    load_per_cpu: float
    """Load average of one minute / logical CPUs, >= 0."""
    waiting_ratio: float | None = None
    """Share of the time since the reading before in which some task of a pod waited for CPU, 0..1; None = no PSI."""


class OverloadBasis(StrEnum):
    """What a verdict rests on."""

    ABOVE = "above"
    """Every reading of the window is above the thresholds: overloaded."""
    LOW = "low"
    """A reading of the window is not above the thresholds (of the release, where it was overloaded): not overloaded."""
    BETWEEN = "between"
    """Neither: what was goes on."""
    UNCOVERED = "uncovered"
    """What there is is above, but there is too little of the window: what was goes on."""
    NO_DATA = "no_data"
    """No reading in the window: what was goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadVerdict:
    """Overloaded or not, and why."""

    is_overloaded: bool
    basis: OverloadBasis
    text: str
    """One sentence for people, with the figures."""


def judge_overload(
    readings: Iterable[LoadReading],
    options: OverloadOptions,
    *,
    now_seconds: float,
    was_overloaded: bool,
    longest_gap_seconds: float | None = None,
) -> OverloadVerdict:
    """Return whether the node is overloaded now.

    Args:
        readings: In any order; those outside (now - window, now] and those that are no number do not count.
        longest_gap_seconds: Within the window no two neighbouring readings, nor its ends and the readings next to
            them, may lie further apart, or the node does not become overloaded. None = any reading speaks for the
            whole window.
    """
    begin_seconds = now_seconds - options.window_seconds
    if not options.pressure_counts:
        readings = (replace(reading, waiting_ratio=None) for reading in readings)
    inside = sorted(
        (
            reading
            for reading in readings
            if begin_seconds < reading.seconds <= now_seconds and math.isfinite(reading.load_per_cpu)
        ),
        key=lambda reading: reading.seconds,
    )
    if not inside:
        text = f"no reading of the last {options.window_seconds:g} s: left as it was"
        return OverloadVerdict(is_overloaded=was_overloaded, basis=OverloadBasis.NO_DATA, text=text)
    low = next((reading for reading in reversed(inside) if _is_low(reading, options, was_overloaded)), None)
    if low is not None:
        ago_seconds = now_seconds - low.seconds
        text = f"{_figures(low)} {ago_seconds:.0f} s ago: not above {_limits(options, was_overloaded)}"
        return OverloadVerdict(is_overloaded=False, basis=OverloadBasis.LOW, text=text)
    lowest = min(reading.load_per_cpu for reading in inside)
    span = f"in all {len(inside)} readings of the last {options.window_seconds:g} s: load per CPU {lowest:.2f} or more"
    waits = [reading.waiting_ratio for reading in inside if reading.waiting_ratio is not None]
    if waits:
        span += f", {min(waits):.0%} or more of the time waiting for CPU"
    if not all(_is_high(reading, options) for reading in inside):
        # Only a node that was overloaded comes here: whatever is not high is low for one that was not.
        text = f"{span}: above {_limits(options, was_overloaded)}"
        return OverloadVerdict(is_overloaded=was_overloaded, basis=OverloadBasis.BETWEEN, text=text)
    if longest_gap_seconds is not None and not was_overloaded:
        moments = [begin_seconds, *(reading.seconds for reading in inside), now_seconds]
        widest_seconds = max(after - before for before, after in pairwise(moments))
        if widest_seconds > longest_gap_seconds:
            text = f"{span}, but nothing is known of {widest_seconds:.0f} s of them: left as it was"
            return OverloadVerdict(is_overloaded=False, basis=OverloadBasis.UNCOVERED, text=text)
    text = f"{span}: above {_limits(options, False)}"
    return OverloadVerdict(is_overloaded=True, basis=OverloadBasis.ABOVE, text=text)


def _is_high(reading: LoadReading, options: OverloadOptions) -> bool:
    if reading.load_per_cpu <= options.load_per_cpu_threshold:
        return False
    return reading.waiting_ratio is None or reading.waiting_ratio > options.waiting_ratio_threshold


def _is_low(reading: LoadReading, options: OverloadOptions, was_overloaded: bool) -> bool:
    """Return whether a reading ends an overload, or keeps one from beginning."""
    if not was_overloaded:
        return not _is_high(reading, options)
    # A release above the threshold would be no hysteresis but its opposite.
    if reading.load_per_cpu <= min(options.release_load_per_cpu, options.load_per_cpu_threshold):
        return True
    release_ratio = min(options.release_waiting_ratio, options.waiting_ratio_threshold)
    return reading.waiting_ratio is not None and reading.waiting_ratio <= release_ratio


def _figures(reading: LoadReading) -> str:
    waiting = "" if reading.waiting_ratio is None else f", {reading.waiting_ratio:.0%} of the time waiting for CPU,"
    return f"load per CPU {reading.load_per_cpu:.2f}{waiting}"


def _limits(options: OverloadOptions, was_overloaded: bool) -> str:
    if was_overloaded:
        load = min(options.release_load_per_cpu, options.load_per_cpu_threshold)
        ratio = min(options.release_waiting_ratio, options.waiting_ratio_threshold)
    else:
        load, ratio = options.load_per_cpu_threshold, options.waiting_ratio_threshold
    return f"{load:g} and {ratio:.0%}" if options.pressure_counts else f"{load:g}"


def pods_waiting_ratio(root_ratio: float | None, container_ratios: Sequence[float | None]) -> float | None:
    """Return the share of time in which some pod waited for CPU that others had.

    The pressure of ``kubepods`` holds the waits of containers at their own cpu.max too, which are no contention. Some
    task of some container waits for at most the sum of what the containers wait, throttling taken out of each.

    Args:
        root_ratio: PSI some of ``kubepods``, 0..1; None = no signal.
        container_ratios: PSI some of each container over about the same time, throttling taken out, 0..1; None where
            it is not known. Empty = nothing is known of them.

    Returns:
        0..1; None = no signal. Where a container's own share is not known nothing is discounted.
    """
    if root_ratio is None or not container_ratios:
        return root_ratio
    known = [ratio for ratio in container_ratios if ratio is not None]
    return min(root_ratio, sum(known)) if len(known) == len(container_ratios) else root_ratio
