"""Directives as JSON and back: one writing for the webhook's answer and for the node's own file. Core, pure.

What restrains comes first: a pause, what HPAs and VPAs scale, and the cluster's rules hold whatever else the answer
has in it. What the other nodes saw is less than that: where it is of a wrong type or size, or too much, it is left out
and counted, and never keeps the rest from being read. A restraint that is not understood restrains. A field that this
version does not know is passed over (a newer webhook writes it). An amount that is absent or null is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NoReturn, TypeVar

from agent.core.cluster.hpa import UtilizationTarget
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import (
    HOURS,
    AutoscalerDirective,
    ContainerDirective,
    Directives,
    WorkloadDirective,
)
from agent.core.orders.container_policies import LONGEST_POLICIES

MOST_WORKLOADS: Final = 5000
"""Of one node, which has some hundred pods; of more only those that are restrained are kept."""
MOST_CONTAINERS: Final = 200
"""Of one workload."""
MOST_TARGETS: Final = 20
"""Of the autoscalers of one workload."""
LARGEST_PERCENT: Final = (1 << 31) - 1
"""Of a target: the API's int32."""
LONGEST_TEXT: Final = 1024
"""Characters of a name or reason; API names have 253 at most."""
LONGEST_ETAG: Final = 128
LARGEST_AMOUNT: Final = 1 << 60
"""Millicores or bytes."""
LONGEST_SECONDS: Final = 366 * 86_400.0

_Item = TypeVar("_Item")


_NOT_UNDERSTOOD: Final = "something that is not understood"
"""In the place of a restraint that is no text: who is left alone for what cannot be told, but that it is can."""


class DirectiveTextError(ValueError):
    """What came are no directives; one line that names the place, the value and what belongs there."""

    def __init__(self, message: str, *, pause_reason: str | None = None) -> None:
        """Take the line, and why the cluster is paused, which holds whatever else is wrong."""
        super().__init__(message)
        self.pause_reason: Final = pause_reason


def directives_to_json(directives: Directives) -> dict[str, object]:
    """Return what stands under ``directives`` in an answer: plain dicts, lists, numbers, strings; null = not known."""
    return {
        "pauseReason": directives.pause_reason,
        "workloads": [_workload_to_json(workload) for workload in directives.workloads],
    }


def directives_from_json(value: object, *, etag: str) -> Directives:
    """Read what stands under ``directives`` in an answer.

    Returns:
        What is understood of it; ``left_out`` counts what is not.

    Raises:
        DirectiveTextError: It is not an object, its ``workloads`` are no list, or its pause is no text: then who is to
            be left alone is not known.
    """
    body = _object(value, "directives")
    etag = etag_from(etag, "etag")
    pause_reason = _text_or_none(body, "pauseReason", "directives")
    given = body.get("workloads")
    if given is not None and not isinstance(given, list):
        try:
            _refuse("directives.workloads", given, "a list")
        except DirectiveTextError as error:
            raise DirectiveTextError(str(error), pause_reason=pause_reason) from None
    left_out = _LeftOut()
    every = [restraint for restraint in (_restraints(item, left_out) for item in given or ()) if restraint is not None]
    restrained = sum(1 for _, restraint in every if is_restraint(restraint))
    others = max(0, MOST_WORKLOADS - restrained)
    workloads: list[WorkloadDirective] = []
    for item, restraint in every:
        if not is_restraint(restraint):
            if not others:
                left_out.count += 1
                continue
            others -= 1
        workloads.append(_with_figures(restraint, item, left_out) if len(workloads) < MOST_WORKLOADS else restraint)
    return Directives(etag=etag, pause_reason=pause_reason, workloads=tuple(workloads), left_out=left_out.count)


def etag_from(value: object, place: str) -> str:
    """Read an ETag; it may be empty (nothing to tell yet).

    Raises:
        DirectiveTextError: It is none.
    """
    if not isinstance(value, str) or len(value) > LONGEST_ETAG or not (value.isascii() and value.isprintable()):
        _refuse(place, value, f"printable ASCII of at most {LONGEST_ETAG} characters")
    return value


def _workload_to_json(directive: WorkloadDirective) -> dict[str, object]:
    return {
        "namespace": directive.workload.namespace,
        "kind": directive.workload.kind,
        "name": directive.workload.name,
        "mode": directive.mode,
        "policy": directive.policy,
        **{
            key: said
            for key, said in (
                ("startupBoost", directive.startup_boost),
                ("enforceShare", directive.enforce_share),
                ("shareTakenBack", directive.share_taken_back),
                ("shareTakenBackFor", directive.share_taken_back_for),
                ("stopShrinkingFor", directive.stop_shrinking_for),
                ("cpuPreserved", directive.cpu_preserved),
                ("memoryPreserved", directive.memory_preserved),
            )
            if said is not None
        },
        **({} if directive.autoscaler is None else {"autoscaler": _autoscaler_to_json(directive.autoscaler)}),
        **({} if directive.windows is None else {"windows": directive.windows}),
        "leftAloneFor": directive.left_alone_for,
        "cpuFrozenFor": directive.cpu_frozen_for,
        "memoryFrozenFor": directive.memory_frozen_for,
        **{
            key: list(names)
            for key, names in (
                ("cpuFrozenContainers", directive.cpu_frozen_containers),
                ("memoryFrozenContainers", directive.memory_frozen_containers),
            )
            if names is not None
        },
        **(
            {"hpaTargets": [_target_to_json(target) for target in directive.hpa_targets]}
            if directive.hpa_targets
            else {}
        ),
        "stopShrinkingSeconds": directive.stop_shrinking_seconds,
        "replicas": directive.replicas,
        "containers": [
            {
                "container": container.container,
                "cpuPeakMillicores": container.cpu_peak_millicores,
                "memoryPeakBytes": container.memory_peak_bytes,
                "cpuHourPeaksMillicores": list(container.cpu_hour_peaks_millicores),
                "memoryHourPeaksBytes": list(container.memory_hour_peaks_bytes),
                "oomMemoryBytes": container.oom_memory_bytes,
            }
            for container in directive.containers
        ],
    }


def _target_to_json(target: UtilizationTarget) -> dict[str, object]:
    whose = {} if target.container is None else {"container": target.container}
    return {"holder": target.holder, "resource": target.resource.value, "percent": target.percent, **whose}


def _autoscaler_to_json(autoscaler: AutoscalerDirective) -> dict[str, object]:
    stated = {
        "mode": autoscaler.mode,
        "evictionRanking": autoscaler.eviction_ranking,
        "containerPolicies": autoscaler.container_policies,
        "startupBoost": autoscaler.startup_boost,
        "windows": autoscaler.windows,
    }
    return {"name": autoscaler.name, **{key: text for key, text in stated.items() if text is not None}}


@dataclass(slots=True)
class _LeftOut:
    """Counts what is left out."""

    count: int = 0

    def unless(self, read: Callable[[], _Item], otherwise: _Item) -> _Item:
        """Return what is read; where it is refused that counts, and this stands for it."""
        try:
            return read()
        except DirectiveTextError:
            self.count += 1
            return otherwise


def _restraints(value: object, left_out: _LeftOut) -> tuple[Mapping[str, object], WorkloadDirective] | None:
    """Read what restrains of one workload; None = it does not say which workload it is about."""
    try:
        body = _object(value, "")
        workload = Workload(
            namespace=_text(body, "namespace", ""), kind=_text(body, "kind", ""), name=_text(body, "name", "")
        )
    except DirectiveTextError:
        left_out.count += 1
        return None

    def restraint(key: str) -> str | None:
        otherwise: str | None = _NOT_UNDERSTOOD
        return left_out.unless(lambda: _text_or_none(body, key, ""), otherwise)

    stop_seconds, stop_reason = _stop_shrinking(body, left_out)
    return body, WorkloadDirective(
        workload=workload,
        mode=restraint("mode"),  # a mode or policy that is none makes the pod off (``orders_of``)
        policy=restraint("policy"),
        startup_boost=left_out.unless(lambda: _text_or_none(body, "startupBoost", ""), None),
        enforce_share=restraint("enforceShare"),  # as a mode: one that is none makes the pod off
        share_taken_back=restraint("shareTakenBack"),
        share_taken_back_for=left_out.unless(lambda: _text_or_none(body, "shareTakenBackFor", ""), None),
        windows=restraint("windows"),  # as a mode that is none
        left_alone_for=restraint("leftAloneFor"),
        cpu_frozen_for=restraint("cpuFrozenFor"),
        memory_frozen_for=restraint("memoryFrozenFor"),
        # Which they are is a relief: what is not understood of it holds all.
        cpu_frozen_containers=left_out.unless(lambda: _names(body, "cpuFrozenContainers"), None),
        memory_frozen_containers=left_out.unless(lambda: _names(body, "memoryFrozenContainers"), None),
        cpu_preserved=left_out.unless(lambda: _text_or_none(body, "cpuPreserved", ""), None),  # a relief too
        memory_preserved=left_out.unless(lambda: _text_or_none(body, "memoryPreserved", ""), None),
        stop_shrinking_seconds=stop_seconds,
        stop_shrinking_for=stop_reason,
        autoscaler=None if body.get("autoscaler") is None else _autoscaler(body["autoscaler"], left_out),
    )


def _stop_shrinking(body: Mapping[str, object], left_out: _LeftOut) -> tuple[float | None, str | None]:
    """Read for how long it only grows, and after what; of a time that is not understood the end is not known."""
    reason = left_out.unless(lambda: _text_or_none(body, "stopShrinkingFor", ""), None)
    try:
        return _seconds_or_none(body, "stopShrinkingSeconds", ""), reason
    except DirectiveTextError:
        left_out.count += 1
        return LONGEST_SECONDS, reason or _NOT_UNDERSTOOD


def _autoscaler(value: object, left_out: _LeftOut) -> AutoscalerDirective:
    """Read what an autoscaler's object orders; what is not understood of it is no order that anybody understands."""
    unknown: Mapping[str, object] = {"name": _NOT_UNDERSTOOD, "mode": _NOT_UNDERSTOOD}
    body = left_out.unless(lambda: _object(value, "autoscaler"), unknown)

    def order(key: str, longest: int = LONGEST_TEXT) -> str | None:
        otherwise: str | None = _NOT_UNDERSTOOD
        return left_out.unless(lambda: _text_or_none(body, key, "autoscaler", longest), otherwise)

    return AutoscalerDirective(
        name=order("name") or _NOT_UNDERSTOOD,
        mode=order("mode"),
        eviction_ranking=order("evictionRanking"),
        container_policies=order("containerPolicies", LONGEST_POLICIES),
        startup_boost=left_out.unless(lambda: _text_or_none(body, "startupBoost", "autoscaler"), None),
        windows=order("windows"),
    )


def is_restraint(directive: WorkloadDirective) -> bool:
    """Return whether leaving this workload out would let happen what must not."""
    said = (
        directive.mode,
        directive.policy,
        directive.enforce_share,
        directive.share_taken_back,
        directive.windows,
        directive.left_alone_for,
        directive.cpu_frozen_for,
        directive.memory_frozen_for,
        directive.autoscaler,
    )
    return directive.stop_shrinking_seconds is not None or any(word is not None for word in said)


def _with_figures(directive: WorkloadDirective, body: Mapping[str, object], left_out: _LeftOut) -> WorkloadDirective:
    """Add what is known of its size: replicas, its autoscalers' targets, and what the other nodes saw."""
    read = [_container(item, left_out) for item in _listed(body.get("containers"), MOST_CONTAINERS, left_out)]
    targets = [_target(item, left_out) for item in _listed(body.get("hpaTargets"), MOST_TARGETS, left_out)]
    return replace(
        directive,
        replicas=left_out.unless(lambda: _amount_or_none(body.get("replicas"), ""), None),
        hpa_targets=tuple(target for target in targets if target is not None),
        containers=tuple(container for container in read if container is not None),
    )


def _listed(given: object, most: int, left_out: _LeftOut) -> list[object]:
    """Return the first items of a list; what is too much or no list counts as left out."""
    items: list[object] = given if isinstance(given, list) else []
    left_out.count += max(0, len(items) - most) + (given is not None and not isinstance(given, list))
    return items[:most]


def _target(value: object, left_out: _LeftOut) -> UtilizationTarget | None:
    try:
        body = _object(value, "hpaTargets")
        resource, percent = body.get("resource"), body.get("percent")
        if not isinstance(resource, str) or resource not in list(Resource):
            _refuse("hpaTargets.resource", resource, " or ".join(Resource))
        if isinstance(percent, bool) or not isinstance(percent, int) or not 1 <= percent <= LARGEST_PERCENT:
            _refuse("hpaTargets.percent", percent, f"a whole number from 1 to {LARGEST_PERCENT}")
        return UtilizationTarget(
            holder=_text(body, "holder", "hpaTargets"),
            resource=Resource(resource),
            percent=percent,
            container=_text_or_none(body, "container", "hpaTargets"),
        )
    except DirectiveTextError:
        left_out.count += 1
        return None


def _container(value: object, left_out: _LeftOut) -> ContainerDirective | None:
    try:
        body = _object(value, "")
        name = _text(body, "container", "")
    except DirectiveTextError:
        left_out.count += 1
        return None

    def amount(key: str) -> int | None:
        return left_out.unless(lambda: _amount_or_none(body.get(key), ""), None)

    return ContainerDirective(
        container=name,
        cpu_peak_millicores=amount("cpuPeakMillicores"),
        memory_peak_bytes=amount("memoryPeakBytes"),
        cpu_hour_peaks_millicores=left_out.unless(lambda: _hours(body, "cpuHourPeaksMillicores"), ()),
        memory_hour_peaks_bytes=left_out.unless(lambda: _hours(body, "memoryHourPeaksBytes"), ()),
        oom_memory_bytes=amount("oomMemoryBytes"),
    )


def _object(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        _refuse(place, value, "an object")
    return value


def _hours(body: Mapping[str, object], key: str) -> tuple[int | None, ...]:
    value = body.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) not in (0, HOURS):
        _refuse(key, value, f"a list of {HOURS} or none")
    return tuple(_amount_or_none(item, key) for item in value)


def _names(body: Mapping[str, object], key: str) -> tuple[str, ...] | None:
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not 0 < len(value) <= MOST_CONTAINERS:
        _refuse(key, value, f"a list of 1 to {MOST_CONTAINERS} names")
    return tuple(_text({key: name}, key, "") for name in value)


def _text(body: Mapping[str, object], key: str, place: str, longest: int = LONGEST_TEXT) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value or len(value) > longest:
        _refuse(f"{place}.{key}", value, f"text of 1 to {longest} characters")
    return value


def _text_or_none(body: Mapping[str, object], key: str, place: str, longest: int = LONGEST_TEXT) -> str | None:
    return None if body.get(key) is None else _text(body, key, place, longest)


def _amount_or_none(value: object, place: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_AMOUNT:
        _refuse(place, value, f"a whole number from 0 to {LARGEST_AMOUNT}, or null")
    return value


def _seconds_or_none(body: Mapping[str, object], key: str, place: str) -> float | None:
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_SECONDS:
        _refuse(f"{place}.{key}", value, f"seconds from 0 to {LONGEST_SECONDS:g}, or null")
    return float(value)


def _refuse(place: str, value: object, wanted: str) -> NoReturn:
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise DirectiveTextError(f"{place}: {shown} is not {wanted}")
