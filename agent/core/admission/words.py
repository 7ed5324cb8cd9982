"""Admissions in words: why a pod is left alone, what it was sized from; and the annotations that say so. Core, pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from agent.core.admission.answer import Admission
from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.admission.fit import Draft
from agent.core.admission.limit_ranges import UNIT_NANOS
from agent.core.cluster.pod import Container, Pod, Requirements
from agent.core.cluster.resource import Resource
from agent.core.orders.annotations import ADMISSION, ORIGINAL_RESOURCES, STARTUP_BOOSTED
from agent.core.orders.order import Mode, Orders
from agent.core.plan.needs.demand import ReservedReason
from agent.core.plan.needs.given_boost import GivenBoost, boost_from, boost_text
from agent.core.plan.pod_change import Setting, number_of
from agent.core.resize.originals import (
    Original,
    annotated_original,
    annotation_text,
    original_of,
    requirements_of,
    with_first,
)

AGAIN_SECONDS: Final = 60
"""An API server gives a request no longer, and the clocks of replicas are nearer to each other."""
Number = tuple[Resource, Setting]
_NUMBERS: Final[Mapping[Number, str]] = {
    (Resource.CPU, Setting.REQUEST): "cpuRequestMillicores",
    (Resource.CPU, Setting.LIMIT): "cpuLimitMillicores",
    (Resource.MEMORY, Setting.REQUEST): "memoryRequestBytes",
    (Resource.MEMORY, Setting.LIMIT): "memoryLimitBytes",
}
"""How the annotation names what a container was given."""
_DAY_SECONDS: Final = 86_400.0
_HOUR_SECONDS: Final = 3600.0

_RESERVED: Final = {
    ReservedReason.EXCLUDED: "its namespace is one of act.excludedNamespaces",
    ReservedReason.NAMESPACE_UNKNOWN: "what its namespace orders is not known",
    ReservedReason.PLACEHOLDER: "a placeholder pod, which keeps room for a CapacityBuffer",
    ReservedReason.STATIC: "a static pod",
    ReservedReason.WINDOWS: "a Windows pod",
    ReservedReason.BARE: "nothing controls it",
    ReservedReason.JOB: "a job: it ends, and jobs.sized is false",
    ReservedReason.UNKNOWN_OWNER: "its owner is of a kind that plan.managedKinds does not name",
    ReservedReason.GUARANTEED: "of class Guaranteed, and not asked for (plimsoll.dev/guaranteed)",
    ReservedReason.BEST_EFFORT: "of class BestEffort: it states no request",
    ReservedReason.EXCLUSIVE_CPUS: "Guaranteed with whole cores, which may become CPUs of its own",
    ReservedReason.DEVICES: "it holds devices",
}
_NO_ESTIMATE: Final = {
    NoEstimate.UNKNOWN_WORKLOAD: "nothing was ever reported of it",
    NoEstimate.UNKNOWN_CONTAINER: "nothing was reported of this container",
    NoEstimate.TOO_YOUNG: "its history is shorter than plan.minAgeSeconds",
    NoEstimate.NOT_LOADED: "the history is not loaded yet",
    NoEstimate.TOO_FEW_RUNS: "fewer runs of it have ended than jobs.leastRuns",
}
_SOURCE: Final = {
    EstimateSource.NODE: "its history on this node",
    EstimateSource.NODE_CLASS: "its history on nodes alike",
    EstimateSource.WORKLOAD: "its history",
    EstimateSource.RUNS: "its last runs",
}


def reserved_words(reserved: ReservedReason, orders: Orders) -> str:
    """Return why a pod is not sized."""
    if reserved is ReservedReason.FAULTY_ANNOTATION:
        return "; ".join(str(fault) for fault in orders.faults)
    if reserved is ReservedReason.NOT_IN_SHARE:
        return f"not in the enforced share of {orders.enforce_share} by the {orders.enforce_share_source}"
    if reserved in (ReservedReason.OFF, ReservedReason.RECOMMEND):
        sized = f"pods are sized in mode {Mode.ENFORCE}, upwards only in mode {Mode.PROTECT}"
        return f"mode {orders.mode} by the {orders.mode_source}; {sized}"
    return _RESERVED.get(reserved, reserved.replace("_", " "))


def estimate_words(estimate: Estimate | NoEstimate) -> str:
    """Return what is known: ``by cruise from its history of 6.2 days, 3 pods``; or why nothing is."""
    if isinstance(estimate, NoEstimate):
        return _NO_ESTIMATE[estimate]
    if estimate.source is EstimateSource.RUNS:
        runs = f"{estimate.pods} run{'' if estimate.pods == 1 else 's'}"
        killed = ", one killed for want of memory" if estimate.oom_memory_bytes is not None else ""
        return f"from its last {runs}, in {_span(estimate.history_seconds)}{killed}"
    pods = f"{estimate.pods} pod{'' if estimate.pods == 1 else 's'}"
    by, policy = estimate.policy.value, estimate.stands_in_for
    if policy is not None and estimate.source is EstimateSource.NODE:
        by += f", as {policy} is not worked out for single nodes,"
    elif policy is not None:
        by += f", until {policy} is worked out,"
    return f"by {by} from {_SOURCE[estimate.source]} of {_span(estimate.history_seconds)}, {pods}"


def sized_words(answer: Admission) -> str:
    """Return in one sentence from what a pod was sized, or why not."""
    words = list(
        dict.fromkeys(
            estimate_words(container.estimate) for container in answer.containers if container.estimate is not None
        )
    )
    if answer.pod_resources is not None:
        words.append("limits of the whole pod set")
    if answer.startup_boost:
        words.append(answer.startup_boost)
    return "; ".join(words) or "no container that could be sized"


def gave_budget(pod: Pod, *, now_unix_seconds: float) -> bool:
    """Return whether ``spec.resources`` of a pod that the API server asks about again is what we gave it."""
    earlier = _earlier(pod, now_unix_seconds)
    return earlier is not None and earlier.gave_budget


def gave_boost(pod: Pod, *, now_unix_seconds: float) -> GivenBoost | None:
    """Return the boost that we gave a pod that the API server asks about again; None = we gave it none."""
    earlier, boost = _earlier(pod, now_unix_seconds), boost_from(pod)
    if earlier is None or boost is None or abs(boost.unix_seconds - earlier.unix_seconds) > AGAIN_SECONDS:
        return None  # one of another time is of another pod
    return boost


def as_it_came(pod: Pod, *, now_unix_seconds: float) -> Pod:
    """Return a pod that the API server asks about again as it came first; any other as it is.

    What somebody else has changed since stays, and so does what was put in.
    """
    earlier = _earlier(pod, now_unix_seconds)
    if earlier is None or not earlier.given:
        return pod
    stated = {amounts.container: requirements_of(amounts) for amounts in earlier.original.amounts}

    def came(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            replace(container, resources=_without(container.resources, earlier.given[container.name], first))
            if container.name in earlier.given and (first := stated.get(container.name)) is not None
            else container
            for container in containers
        )

    return replace(pod, containers=came(pod.containers), init_containers=came(pod.init_containers))


def _without(shown: Requirements, given: Mapping[Number, int | None], first: Requirements) -> Requirements:
    """Return what a container states, with what it stated first in place of what it was given and has still."""
    requests, limits = dict(shown.requests), dict(shown.limits)
    for (resource, setting), amount in given.items():
        if (number_of(shown, resource, setting) or None) != amount:
            continue
        was, stated = number_of(first, resource, setting), requests if setting is Setting.REQUEST else limits
        if was is None:
            stated.pop(resource.value, None)
        else:
            stated[resource.value] = was * UNIT_NANOS[resource]
    return Requirements(requests=requests, limits=limits)


def given_to(drafts: Iterable[Draft]) -> dict[str, dict[str, int | None]]:
    """Return what containers are given, by container, as the annotation has it; None = it is taken off."""
    given: dict[str, dict[str, int | None]] = {}
    for draft in drafts:
        for resource, side in draft.sides.items():
            for setting, before, after in (
                (Setting.REQUEST, side.request_before, side.request),
                (Setting.LIMIT, side.limit_before, side.limit),
            ):
                if before != after:
                    given.setdefault(draft.container.name, {})[_NUMBERS[resource, setting]] = after
    return given


def annotations_of(
    pod: Pod, answer: Admission, given: Mapping[str, Mapping[str, int | None]], *, now_unix_seconds: float
) -> dict[str, str]:
    """Return the annotations of a pod that is patched: what it came with, from what it was sized, and to what.

    Args:
        pod: As it came.
        given: What its containers are to run with that it did not come with (``given_to``).
    """
    document: dict[str, object] = {"unixSeconds": int(now_unix_seconds)}
    known = {
        container.name: _source(container.estimate)
        for container in answer.containers
        if isinstance(container.estimate, Estimate)
    }
    if answer.orders is not None and known:
        document["policy"] = answer.orders.policy
    if known:
        document["containers"] = known
    if given:
        document["given"] = given
    earlier = _earlier(pod, now_unix_seconds)
    has_given = earlier is not None and earlier.gave_budget
    if answer.pod_resources is not None or (has_given and not answer.takes_pod_resources):
        document["podLimits"] = True
    original = original_of(pod, kept_unix_seconds=now_unix_seconds)
    if earlier is not None:
        original = with_first(original, earlier.original, gave_budget=has_given)
    boosted = {} if answer.boost is None else {STARTUP_BOOSTED: boost_text(answer.boost)}
    return {
        ORIGINAL_RESOURCES: annotation_text(original),
        ADMISSION: json.dumps(document, separators=(",", ":")),
        **boosted,
    }


@dataclass(frozen=True, slots=True)
class _Earlier:
    unix_seconds: int
    original: Original
    gave_budget: bool
    """``spec.resources`` is ours."""
    given: Mapping[str, Mapping[Number, int | None]]
    """What containers were given, millicores or bytes; None = it was taken off."""


def _earlier(pod: Pod, now_unix_seconds: float) -> _Earlier | None:
    """Return what a pod had when it was asked about first; None = this is the first time.

    A server asks again within the same request, once another webhook has changed the pod, and shows what we wrote; so
    what we are said to have written a minute ago or earlier is of another pod, a template made of one as a rule, and
    not believed. Whoever writes the annotations himself, with the time of the moment, misstates what his own pod goes
    back to: that he can do with the pod that runs as well, and quotas, ranges and the API server hold it.
    """
    text = pod.annotations.get(ADMISSION)
    if text is None:
        return None
    try:
        document: object = json.loads(text)
        original = annotated_original(pod)
    except (ValueError, RecursionError):  # an OriginalError, too
        return None
    if original is None or not isinstance(document, dict):
        return None
    written = document.get("unixSeconds")
    if type(written) is not int:
        return None
    # Compared, not subtracted: whoever writes it may write a number that no float holds.
    if not now_unix_seconds - AGAIN_SECONDS <= written <= now_unix_seconds + AGAIN_SECONDS:
        return None
    return _Earlier(written, original, document.get("podLimits") is True, dict(_given(document.get("given"))))


def _given(document: object) -> Iterable[tuple[str, Mapping[Number, int | None]]]:
    """Read what containers were given; what is not understood is left out."""
    for container, stated in document.items() if isinstance(document, dict) else ():
        if isinstance(stated, dict):
            amounts = {number: stated[name] for number, name in _NUMBERS.items() if name in stated}
            yield container, {key: value for key, value in amounts.items() if value is None or type(value) is int}


def _source(estimate: Estimate) -> dict[str, object]:
    stood_in = {} if estimate.stands_in_for is None else {"by": estimate.policy}
    return {
        **stood_in,
        "source": estimate.source,
        "historySeconds": int(estimate.history_seconds),
        "pods": estimate.pods,
        "newestAgeSeconds": int(estimate.newest_age_seconds),
    }


def _span(seconds: float) -> str:
    if seconds >= _DAY_SECONDS:
        return f"{seconds / _DAY_SECONDS:.1f} days"
    return f"{seconds / _HOUR_SECONDS:.1f} hours"
