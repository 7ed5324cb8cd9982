"""What would change a recommendation: sentences with figures that were computed, not guessed. Core, pure.

Each "would be" is the answer of the same bounds to the same row with one thing changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import numpy as np

from agent.core.cluster.resource import LARGEST, Resource
from agent.core.numbers.amount_text import amount_text
from agent.core.orders.policy_options import BoundsOptions
from agent.core.recommender.bounds import BoundedAnswer, apply
from agent.core.recommender.policy import CurrentAmounts, Proposals
from agent.core.recommender.recommendation import Advice, Bound, Recommendation, Withheld
from agent.core.recommender.subject import Conditions, Subject

_NO: Final = np.zeros(1, dtype=np.bool_)
_YES: Final = np.ones(1, dtype=np.bool_)
_ZERO: Final = np.zeros(1)

_WITHOUT: Final = {
    Bound.MIN: "without {key} it would be {request}.",
    Bound.MAX: "without {key} it would be {request}.",
    Bound.IN_USE: "with less memory in use it could be {request}.",
    Bound.HEAP: "with a smaller heap, which its own flags fix, it could be {request}.",
    Bound.UPWARD_ONLY: "once there is a prediction it may fall; by the demand of now it would be {request}.",
    Bound.LIMIT: "with a limit that is no longer in the way it would be {request}.",
    Bound.QOS: "if it did not have to keep the QoS class it would be {request}.",
    Bound.SMALL_CHANGE: "without a smallest change ({key}, bounds.smallestChangeRatio) it would be {request}.",
    Bound.LIMIT_UNFILLED: "if a raise of its limit were of any use it would be {request}.",
    Bound.READ_AT_START: "if its limit, which it is too, had not been read at start, it would be {request}.",
}
"""Of the bounds that change a request; in the order in which they are applied."""
_KEYS: Final = {
    (Bound.MIN, Resource.CPU): "bounds.minCpuMillicores",
    (Bound.MIN, Resource.MEMORY): "bounds.minMemoryBytes",
    (Bound.MAX, Resource.CPU): "bounds.maxCpuMillicores",
    (Bound.MAX, Resource.MEMORY): "bounds.maxMemoryBytes",
    (Bound.SMALL_CHANGE, Resource.CPU): "bounds.smallestCpuChangeMillicores",
    (Bound.SMALL_CHANGE, Resource.MEMORY): "bounds.smallestMemoryChangeBytes",
}


@dataclass(frozen=True, slots=True)
class Outlook:
    """One row with all that its answer was made of."""

    subject: Subject
    proposals: Proposals
    """Of this row alone."""
    stated: CurrentAmounts
    options: BoundsOptions
    conditions: Conditions

    def sentences(self, answer: Recommendation) -> tuple[str, ...]:
        """Return what would change the answer, CPU first."""
        sentences: list[str] = []
        for resource, advice in ((Resource.CPU, answer.cpu_millicores), (Resource.MEMORY, answer.memory_bytes)):
            name = "CPU" if resource is Resource.CPU else "Memory"
            if advice.request is None:
                sentences.append(f"{name}: {self._until(resource, advice.withheld)}")
            else:
                sentences += [f"{name}: {sentence}" for sentence in self._about(resource, advice, advice.request)]
        return tuple(sentences)

    def _until(self, resource: Resource, reason: Withheld | None) -> str:
        """Return when a withheld recommendation would be made."""
        subject, conditions = self.subject, self.conditions
        if reason is Withheld.NOT_CONTROLLED:
            return f"bounds.controlledResources would have to name it; it is {self.options.controlled_resources}."
        if reason is Withheld.NO_SIGNAL:
            return "there is an answer once the kernel gives figures here: its controller is off, or its file absent."
        if reason is Withheld.STALE:
            age = f"{subject.sample_age_seconds:.0f} s"
            return (
                f"there is an answer again with a reading no older than {conditions.max_age_seconds:g} s "
                f"(recommend.maxAgeSeconds); the newest is {age} old."
            )
        if reason is Withheld.TOO_YOUNG:
            window = subject.cpu if resource is Resource.CPU else subject.memory
            known_seconds = max(subject.history_span_seconds, window.span_seconds)
            left_seconds = ceil(conditions.min_span_seconds - known_seconds)
            return (
                f"there is an answer after another {left_seconds} s of measuring, "
                f"{conditions.min_span_seconds:g} s in all (recommend.minSpanSeconds)."
            )
        if reason is Withheld.GAPS:
            share = f"; readings cover {subject.cpu.coverage_ratio:.0%} of it now" if resource is Resource.CPU else ""
            return f"there is an answer when less of its window is gap (windows.maxGapRatio){share}."
        return "there is an answer once the policy has something to answer from."

    def _about(self, resource: Resource, advice: Advice, request: int) -> Iterator[str]:
        """Return what would change a recommendation that is made."""
        for bound, sentence in _WITHOUT.items():
            if bound not in advice.bounds or (bound is Bound.QOS and Bound.LIMIT in advice.bounds):
                continue  # the unit below a limit goes with the limit
            other = self._request_without(bound, resource)
            if other != request:
                yield sentence.format(key=_KEYS.get((bound, resource), ""), request=_text(resource, other))
        base, peak, proposed = advice.base, advice.peak, advice.proposed
        if base is not None and peak is not None and proposed is not None and base < peak <= proposed:
            other = self._request_for(base, resource, self.stated)
            if other != request:
                yield (
                    f"it rests on a peak of {_text(resource, peak)}; when that no longer counts and demand stays at "
                    f"its base of {_text(resource, base)}, it would be {_text(resource, other)}."
                )
        yield from self._moves(resource, advice, request)

    def _moves(self, resource: Resource, advice: Advice, request: int) -> Iterator[str]:
        """Return from which answers of the policy on the request, once it is in force, would be changed again."""
        applied = self._applied(resource, advice, request)
        if applied is None:
            return
        answers = range(int(LARGEST))
        up = bisect_left(answers, True, key=lambda answer: self._request_for(answer, resource, applied) > request)
        down = bisect_left(answers, True, key=lambda answer: self._request_for(answer, resource, applied) >= request)
        turns = [f"rises when the policy asks for {_text(resource, up)} or more"] if up < len(answers) else []
        turns += [f"falls when the policy asks for {_text(resource, down - 1)} or less"] if down > 0 else []
        if turns:
            amount = _text(resource, request)
            when = f"at {amount} as now" if self._stated(resource) == request else f"once set to {amount}"
            yield f"{when}, the request {', and '.join(turns)}."

    def _stated(self, resource: Resource) -> int | None:
        resources = self.subject.resources
        return resources.cpu_request_millicores if resource is Resource.CPU else resources.memory_request_bytes

    def _applied(self, resource: Resource, advice: Advice, request: int) -> CurrentAmounts | None:
        """Return what is stated once the advice is in force; None = a resize cannot do that."""
        if not self._stated(resource):
            return None
        stated, requested, limited = self.stated, np.full(1, float(request)), np.full(1, float(advice.limit or 0))
        if resource is Resource.CPU:
            limit = stated.cpu_limit_millicores if advice.limit is None else limited
            return replace(stated, cpu_request_millicores=requested, cpu_limit_millicores=limit)
        limit = stated.memory_limit_bytes if advice.limit is None else limited
        return replace(stated, memory_request_bytes=requested, memory_limit_bytes=limit)

    def _request_for(self, answer: float, resource: Resource, stated: CurrentAmounts) -> int:
        asked = np.full(1, float(answer))
        if resource is Resource.CPU:
            proposals = replace(self.proposals, cpu_request_millicores=asked)
        else:
            proposals = replace(self.proposals, memory_request_bytes=asked)
        return _request(apply(proposals, stated, self.options), resource)

    def _request_without(self, bound: Bound, resource: Resource) -> int:
        proposals, stated, options = self.proposals, self.stated, self.options
        if bound is Bound.MIN:
            options = replace(options, min_cpu_millicores=1, min_memory_bytes=0)
        elif bound is Bound.MAX:
            options = replace(options, max_cpu_millicores=None, max_memory_bytes=None)
        elif bound is Bound.IN_USE:
            # Known to be nothing: a limit may not be lowered while what is in use is not known.
            stated = replace(stated, working_set_bytes=_ZERO, memory_current_bytes=_ZERO, has_memory_current=_YES)
        elif bound is Bound.HEAP:
            stated = replace(stated, heap_floor_bytes=None)
        elif bound is Bound.READ_AT_START:
            stated = replace(stated, limit_readers=None)
        elif bound is Bound.LIMIT_UNFILLED:
            stated = replace(stated, heap_floor_bytes=None, limit_readers=None)
        elif bound is Bound.UPWARD_ONLY:
            proposals = replace(proposals, cpu_upward_only=_NO, memory_upward_only=_NO)
        elif bound in (Bound.LIMIT, Bound.QOS):
            stated = replace(stated, has_cpu_limit=_NO, has_memory_limit=_NO)
        else:
            options = replace(
                options, smallest_cpu_change_millicores=0, smallest_memory_change_bytes=0, smallest_change_ratio=0.0
            )
        return _request(apply(proposals, stated, options), resource)


def _request(bounded: BoundedAnswer, resource: Resource) -> int:
    values = bounded.cpu_request_millicores if resource is Resource.CPU else bounded.memory_request_bytes
    return int(values[0])


def _text(resource: Resource, amount: float) -> str:
    return amount_text(amount, resource.unit)
