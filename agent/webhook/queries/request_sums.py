"""What a workload's pod would request by today's estimates, in sums for lists, kept for half a minute. Webhook.

A list of 200 workloads of three containers takes 150 ms of estimates, and five people ask for it every ten seconds;
admissions beside it were late (``tests/bench/webhook.py``). A report changes an estimate once in minutes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from agent.core.admission.estimate import Estimate, NoEstimate
from agent.core.cluster.workload import Workload
from agent.core.orders.policy_options import PolicyName
from agent.webhook.workloads.shapes import WorkloadSeen

LEAST_KEPT_SECONDS: Final = 20.0
MOST_KEPT_SECONDS: Final = 40.0
"""Each workload's are kept for a time of its own between these, so that no list has to make all of them anew."""
MOST_KEPT: Final = 5_000
"""Workloads; 1.4 MB."""
_SHARES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSums:
    """Over all containers of a pod; None = one of them is not known."""

    cpu_request_millicores: int | None
    memory_request_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeptSum:
    sums: RequestSums
    policy: PolicyName
    containers: tuple[str, ...]
    first_unix_seconds: float
    """Of the history: another one if the workload was forgotten meanwhile."""
    until_unix_seconds: float
    from_unix_seconds: float

    def holds(self, seen: WorkloadSeen, policy: PolicyName, now_unix_seconds: float) -> bool:
        """Return whether they still are a workload's; not after a clock that was set back."""
        return (
            self.policy is policy
            and self.containers == tuple(seen.containers)
            and self.first_unix_seconds == seen.first_unix_seconds
            and self.from_unix_seconds <= now_unix_seconds < self.until_unix_seconds
        )


class RequestSumBook:
    """Sums of estimates by workload; for any thread."""

    def __init__(self, estimate: Callable[[Workload, str, PolicyName, float], Estimate | NoEstimate]) -> None:
        """Begin empty; ``estimate`` answers for a workload's container, by a policy, at a time."""
        self._estimate = estimate
        self._lock = threading.Lock()
        self._kept: OrderedDict[Workload, _KeptSum] = OrderedDict()

    def of(self, seen: WorkloadSeen, policy: PolicyName, now_unix_seconds: float) -> RequestSums:
        """Return a workload's sums; those of which each container's figures are known are kept for a while."""
        with self._lock:
            entry = self._kept.get(seen.workload)
        if entry is not None and entry.holds(seen, policy, now_unix_seconds):
            return entry.sums
        advice = [self._estimate(seen.workload, name, policy, now_unix_seconds) for name in seen.containers]
        known = [estimate for estimate in advice if isinstance(estimate, Estimate)]
        if len(known) < len(advice):
            return RequestSums(cpu_request_millicores=None, memory_request_bytes=None)
        sums = RequestSums(
            cpu_request_millicores=_sum(estimate.cpu_request_millicores for estimate in known),
            memory_request_bytes=_sum(estimate.memory_request_bytes for estimate in known),
        )
        self._keep(seen, policy, sums, now_unix_seconds)
        return sums

    def _keep(self, seen: WorkloadSeen, policy: PolicyName, sums: RequestSums, now_unix_seconds: float) -> None:
        share = hash(seen.workload) % _SHARES / _SHARES
        entry = _KeptSum(
            sums=sums,
            policy=policy,
            containers=tuple(seen.containers),
            first_unix_seconds=seen.first_unix_seconds,
            from_unix_seconds=now_unix_seconds,
            until_unix_seconds=now_unix_seconds + LEAST_KEPT_SECONDS + share * (MOST_KEPT_SECONDS - LEAST_KEPT_SECONDS),
        )
        with self._lock:
            self._kept[seen.workload] = entry
            self._kept.move_to_end(seen.workload)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)


def _sum(amounts: Iterable[int | None]) -> int | None:
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
