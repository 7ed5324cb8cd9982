"""Which evictions of a plan are proposed to the webhook, and when: those that have stood for a while. Core, pure.

A plan is made anew at each turn, and one noisy reading can make it ask for an eviction that the next turn does not want
any more. So a proposal goes out only after it has stood in several turns one after the other and for some time. And
only after a report of all of that time was taken: the pod that comes in its place is sized from what was reported, and
without the peak that made it go it would be in want again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.eviction.proposal import MAX_PROPOSALS, PodAmounts, Proposal, Verdict, Want
from agent.core.numbers.allowed_range import Between
from agent.core.plan.plan import ContainerPlan, Eviction, Plan, PodPlan, Share


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeOptions:
    """When evictions are proposed to the webhook. The agent itself evicts nobody."""

    turns: Annotated[int, Between(1, 1000)] = 3
    """Plans in a row that must ask for an eviction before it is proposed; one noisy reading proposes nothing."""
    standing_seconds: Annotated[float, Between(0, 86_400)] = 60.0
    """Seconds for which they must have asked for it."""
    interval_seconds: Annotated[float, Between(1, 86_400)] = 60.0
    """Seconds between two calls with proposals; one that is put off is proposed again so soon."""
    again_seconds: Annotated[float, Between(1, 86_400)] = 600.0
    """Seconds until a pod is proposed again whose eviction was granted, refused or only recommended."""


@dataclass(slots=True, kw_only=True)
class _Stand:
    proposal: Proposal
    turns: int
    since_seconds: float
    ripe_seconds: float | None
    """When it had first stood for long enough; None = it has not."""


class ProposalStanding:
    """Follows what the plans of a node ask for. Times are seconds of one clock that does not go backwards."""

    def __init__(self, options: ProposeOptions) -> None:
        self._options: Final = options
        self._stands: dict[tuple[str, Want], _Stand] = {}
        self._quiet_until_seconds: dict[str, float] = {}
        """Of pods that were answered, by uid."""
        self._call_due_seconds = 0.0

    def take(self, proposals: Sequence[Proposal], now_seconds: float) -> None:
        """Record what one plan asks for; what it does not ask for any more is forgotten."""
        stands = {}
        for proposal in proposals:
            key = (proposal.ref.uid, proposal.want)
            before = self._stands.get(key)
            since = now_seconds if before is None else before.since_seconds
            turns = 1 if before is None else before.turns + 1
            ripe = None if before is None else before.ripe_seconds
            stands[key] = _Stand(proposal=proposal, turns=turns, since_seconds=since, ripe_seconds=ripe)
        self._stands = stands
        self._ripen(now_seconds)
        self._quiet_until_seconds = {
            uid: until for uid, until in self._quiet_until_seconds.items() if until > now_seconds
        }

    def due(self, now_seconds: float, *, reported_until_seconds: float | None) -> tuple[Proposal, ...]:
        """Return what is to be proposed now, in the plan's order; empty = nothing, or not yet.

        The webhook knows what was measured up to ``reported_until_seconds``; None = it knows nothing.
        """
        due = [
            stand.proposal
            for ripe_seconds, stand in self._ripe(now_seconds)
            if _is_told(ripe_seconds, reported_until_seconds)
        ]
        return tuple(sorted(due, key=lambda proposal: proposal.order)[:MAX_PROPOSALS])

    def awaited_report_seconds(self, now_seconds: float, *, reported_until_seconds: float | None) -> float | None:
        """Return until when the webhook would have to know all for everything to be due; None = it knows enough."""
        awaited = [
            ripe_seconds
            for ripe_seconds, _ in self._ripe(now_seconds)
            if not _is_told(ripe_seconds, reported_until_seconds)
        ]
        return max(awaited, default=None)

    def _ripe(self, now_seconds: float) -> list[tuple[float, _Stand]]:
        """Return what has stood for long enough, and since when it has."""
        if now_seconds < self._call_due_seconds:
            return []
        self._ripen(now_seconds)
        return [
            (stand.ripe_seconds, stand)
            for (uid, _), stand in self._stands.items()
            if stand.ripe_seconds is not None and uid not in self._quiet_until_seconds
        ]

    def _ripen(self, now_seconds: float) -> None:
        for stand in self._stands.values():
            stood_seconds = now_seconds - stand.since_seconds
            is_ripe = stand.turns >= self._options.turns and stood_seconds >= self._options.standing_seconds
            if is_ripe and stand.ripe_seconds is None:
                stand.ripe_seconds = now_seconds

    def called(self, now_seconds: float, *, quiet_seconds: float | None = None) -> None:
        """Record a call, whatever came of it, and for how long the webhook asks to be left alone."""
        self._call_due_seconds = now_seconds + max(self._options.interval_seconds, quiet_seconds or 0.0)

    def answered(self, verdicts: Mapping[str, Verdict], now_seconds: float) -> None:
        """Record the answers, by uid: only what was put off is asked for again soon."""
        for uid, verdict in verdicts.items():
            if verdict is not Verdict.LATER:
                self._quiet_until_seconds[uid] = now_seconds + self._options.again_seconds


def _is_told(ripe_seconds: float, reported_until_seconds: float | None) -> bool:
    return reported_until_seconds is not None and reported_until_seconds >= ripe_seconds


def proposals_of(plan: Plan) -> tuple[Proposal, ...]:
    """Return the evictions that a plan asks for as proposals; none of a plan that is not sound."""
    if not plan.is_sound:
        return ()
    pods = {pod.ref.uid: pod for pod in plan.pods}
    return tuple(
        _proposal(order, eviction, pods.get(eviction.ref.uid)) for order, eviction in enumerate(plan.evictions)
    )


def _proposal(order: int, eviction: Eviction, pod: PodPlan | None) -> Proposal:
    parts = () if pod is None else _parts(pod)
    return Proposal(
        ref=eviction.ref,
        want=_want(eviction),
        order=order,
        ranking=str(eviction.ranking),
        requested=_amounts(parts, is_peak=False),
        needed=_amounts(parts, is_peak=True),
    )


def _want(eviction: Eviction) -> Want:
    if eviction.is_out_of_memory:
        return Want.OUT_OF_MEMORY
    return Want.CPU if eviction.resource is Resource.CPU else Want.MEMORY


def _parts(pod: PodPlan) -> tuple[ContainerPlan, ...]:
    return tuple(container for container in pod.containers if container.kind is not ContainerKind.INIT)


def _amounts(parts: Sequence[ContainerPlan], *, is_peak: bool) -> PodAmounts:
    return PodAmounts(
        cpu_millicores=_sum([container.cpu for container in parts], is_peak=is_peak),
        memory_bytes=_sum([container.memory for container in parts], is_peak=is_peak),
    )


def _sum(shares: Sequence[Share | None], *, is_peak: bool) -> int | None:
    known = [share.peak if is_peak else share.request for share in shares if share is not None]
    amounts = [amount for amount in known if amount is not None]
    return sum(amounts) if amounts else None
