"""The two groups of a workload's pods of which a share is enforced: how each fared lately, side by side. Core, pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from agent.core.history.reports.rollup import SampledRow
from agent.core.history.workloads.fare import Fare, together, worse
from agent.core.orders.guard_options import GuardOptions

_LEAST_RATIO: Final = 0.25
"""Of the seconds that are compared, seen of one container at least: so the newest report alone does not decide."""
MOST_ROWS: Final = 20_000
"""Of one workload; of more the oldest go."""


@dataclass(frozen=True, slots=True)
class ShareSample:
    """One row of a report."""

    unix_seconds: float
    """The end of its time."""
    share: str
    is_enforced: bool
    pod_uid: str
    fare: Fare


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFare:
    """One group."""

    is_enforced: bool
    pods: int
    fare: Fare


def share_sample(row: SampledRow, unix_seconds: float) -> ShareSample | None:
    """Return what a row tells of its group; None = no share of its workload is enforced."""
    share = row.share
    if share is None:
        return None
    fare = Fare(
        seconds=row.covered_seconds,
        restarts=share.restarts,
        kills=len(row.oom_kills),
        unready_seconds=share.unready_seconds,
        cpu_seconds=0.0 if row.cpu is None else row.covered_seconds,
        waiting_seconds=row.waiting_seconds,
        throttled_seconds=row.throttled_seconds,
    )
    return ShareSample(unix_seconds, share.share, share.is_enforced, row.pod_uid, fare)


class ShareGroups:
    """The samples of one workload within the seconds that are compared; the share in force is that of most pods.

    Each pod has one share, the last that it was told under. So no node says for others under which share their pods
    are: another one, whose pods it has not heard of yet or claims, does not end the comparison of the rest.
    """

    def __init__(self) -> None:
        self._samples: deque[ShareSample] = deque(maxlen=MOST_ROWS)
        self._last_unix_seconds = 0.0

    def take(self, sample: ShareSample, *, window_seconds: float) -> None:
        """Add a row, and forget those that are too old."""
        if sample.unix_seconds <= self._last_unix_seconds - window_seconds:
            return  # told late
        self._samples.append(sample)
        self._last_unix_seconds = max(self._last_unix_seconds, sample.unix_seconds)
        while self._samples[0].unix_seconds <= self._last_unix_seconds - window_seconds:
            self._samples.popleft()

    @property
    def share(self) -> str | None:
        """Return the share, as it was ordered; None = nothing is known. Of two with as many pods the newer one."""
        last: dict[str, ShareSample] = {}
        for sample in self._samples:
            known = last.get(sample.pod_uid)
            if known is None or known.unix_seconds <= sample.unix_seconds:
                last[sample.pod_uid] = sample
        pods: dict[str, tuple[int, float]] = {}
        for sample in last.values():
            count, newest = pods.get(sample.share, (0, 0.0))
            pods[sample.share] = count + 1, max(newest, sample.unix_seconds)
        return max(pods, key=pods.__getitem__, default=None)

    @property
    def last_unix_seconds(self) -> float:
        """Return the end of the newest row's time; 0 = nothing is known."""
        return self._last_unix_seconds

    def fares(self) -> tuple[GroupFare, ...]:
        """Return how the groups fared, the enforced one first; a group without pods is left out."""
        group_fares, share = [], self.share
        for is_enforced in (True, False):
            samples = [
                sample for sample in self._samples if sample.share == share and sample.is_enforced is is_enforced
            ]
            if samples:
                pods = len({sample.pod_uid for sample in samples})
                fare = together(sample.fare for sample in samples)
                group_fares.append(GroupFare(is_enforced=is_enforced, pods=pods, fare=fare))
        return tuple(group_fares)

    def why_taken_back(self, options: GuardOptions) -> str | None:
        """Return in what the enforced pods fare worse than the others; None = in nothing, or it cannot be told."""
        if not options.active:
            return None
        by_group = {group.is_enforced: group.fare for group in self.fares()}
        if len(by_group) < 2:
            return None
        least_seconds = _LEAST_RATIO * options.share_window_seconds
        return worse(by_group[True], by_group[False], options, least_seconds=least_seconds, than="in the other pods")
