"""Directives as JSON and back: one writing for the webhook's answer and for the node's own file. Core, pure.

Strict where it matters, patient where it does not: a field that this version does not know is passed over (a newer
webhook writes it), one of a wrong type or size is refused, with its path. An amount that is absent or null is not
known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeVar

from agent.core.directive import HOURS, ContainerDirective, Directives, WorkloadDirective
from agent.core.recommendation import Workload

MOST_WORKLOADS: Final = 5000
"""Of one node; a node has some hundred pods."""
MOST_CONTAINERS: Final = 200
"""Of one workload."""
LONGEST_TEXT: Final = 1024
"""Characters of a name or reason; API names have 253 at most."""
LONGEST_ETAG: Final = 128
LARGEST_AMOUNT: Final = 1 << 60
"""Millicores or bytes."""
LONGEST_SECONDS: Final = 366 * 86_400.0

_Item = TypeVar("_Item")


class DirectiveTextError(ValueError):
    """What came are no directives; one line that names the place, the value and what belongs there."""


def directives_to_json(directives: Directives) -> dict[str, object]:
    """Give what stands under ``directives`` in an answer: plain dicts, lists, numbers and strings; null = not known."""
    return {
        "pauseReason": directives.pause_reason,
        "workloads": [_workload_to_json(one) for one in directives.workloads],
    }


def directives_from_json(value: object, *, etag: str) -> Directives:
    """Read what stands under ``directives`` in an answer.

    Args:
        value: What ``json.loads`` made of it.
        etag: What it is known by.

    Raises:
        DirectiveTextError: Something in it is of a wrong type or size.
    """
    body = _object(value, "directives")
    workloads = _list(body, "workloads", "directives", MOST_WORKLOADS, _workload)
    return Directives(
        etag=etag_from(etag, "etag"), pause_reason=_text_or_none(body, "pauseReason", "directives"), workloads=workloads
    )


def etag_from(value: object, place: str) -> str:
    """Read an ETag; it may be empty (nothing to tell yet).

    Raises:
        DirectiveTextError: It is none.
    """
    if not isinstance(value, str) or len(value) > LONGEST_ETAG or not (value.isascii() and value.isprintable()):
        _refuse(place, value, f"printable ASCII of at most {LONGEST_ETAG} characters")
    return value


def _workload_to_json(one: WorkloadDirective) -> dict[str, object]:
    return {
        "namespace": one.workload.namespace,
        "kind": one.workload.kind,
        "name": one.workload.name,
        "mode": one.mode,
        "policy": one.policy,
        "leftAloneFor": one.left_alone_for,
        "cpuFrozenFor": one.cpu_frozen_for,
        "memoryFrozenFor": one.memory_frozen_for,
        "stopShrinkingSeconds": one.stop_shrinking_seconds,
        "replicas": one.replicas,
        "containers": [
            {
                "container": container.container,
                "cpuPeakMillicores": container.cpu_peak_millicores,
                "memoryPeakBytes": container.memory_peak_bytes,
                "cpuHourPeaksMillicores": list(container.cpu_hour_peaks_millicores),
                "memoryHourPeaksBytes": list(container.memory_hour_peaks_bytes),
                "oomMemoryBytes": container.oom_memory_bytes,
            }
            for container in one.containers
        ],
    }


def _workload(value: object, place: str) -> WorkloadDirective:
    body = _object(value, place)
    return WorkloadDirective(
        workload=Workload(
            namespace=_text(body, "namespace", place), kind=_text(body, "kind", place), name=_text(body, "name", place)
        ),
        mode=_text_or_none(body, "mode", place),
        policy=_text_or_none(body, "policy", place),
        left_alone_for=_text_or_none(body, "leftAloneFor", place),
        cpu_frozen_for=_text_or_none(body, "cpuFrozenFor", place),
        memory_frozen_for=_text_or_none(body, "memoryFrozenFor", place),
        stop_shrinking_seconds=_seconds_or_none(body, "stopShrinkingSeconds", place),
        replicas=_amount_or_none(body.get("replicas"), f"{place}.replicas"),
        containers=_list(body, "containers", place, MOST_CONTAINERS, _container),
    )


def _container(value: object, place: str) -> ContainerDirective:
    body = _object(value, place)
    return ContainerDirective(
        container=_text(body, "container", place),
        cpu_peak_millicores=_amount_or_none(body.get("cpuPeakMillicores"), f"{place}.cpuPeakMillicores"),
        memory_peak_bytes=_amount_or_none(body.get("memoryPeakBytes"), f"{place}.memoryPeakBytes"),
        cpu_hour_peaks_millicores=_hours(body, "cpuHourPeaksMillicores", place),
        memory_hour_peaks_bytes=_hours(body, "memoryHourPeaksBytes", place),
        oom_memory_bytes=_amount_or_none(body.get("oomMemoryBytes"), f"{place}.oomMemoryBytes"),
    )


def _object(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        _refuse(place, value, "an object")
    return value


def _list(
    body: Mapping[str, object], key: str, place: str, most: int, read: Callable[[object, str], _Item]
) -> tuple[_Item, ...]:
    value, place = body.get(key), f"{place}.{key}"
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > most:
        _refuse(place, value, f"a list of at most {most}")
    return tuple(read(item, f"{place}[{index}]") for index, item in enumerate(value))


def _hours(body: Mapping[str, object], key: str, place: str) -> tuple[int | None, ...]:
    hours = _list(body, key, place, HOURS, _amount_or_none)
    if len(hours) not in (0, HOURS):
        _refuse(f"{place}.{key}", hours, f"a list of {HOURS} or none")
    return hours


def _text(body: Mapping[str, object], key: str, place: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value or len(value) > LONGEST_TEXT:
        _refuse(f"{place}.{key}", value, f"text of 1 to {LONGEST_TEXT} characters")
    return value


def _text_or_none(body: Mapping[str, object], key: str, place: str) -> str | None:
    return None if body.get(key) is None else _text(body, key, place)


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
