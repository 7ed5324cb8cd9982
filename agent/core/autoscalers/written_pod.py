"""A pod that runs, as its author wrote it: what admission made of it is taken back. Core, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from agent.core.cluster.pod import CPU, MEMORY, Container, Pod, Requirements
from agent.core.orders import annotations as names
from agent.core.orders.order import Mode
from agent.core.plan.needs.share_ticket import ticket_text
from agent.core.resize.originals import OriginalAmounts, OriginalError, annotated_original, requirements_of

_OF_ADMISSION: Final = (names.ORIGINAL_RESOURCES, names.ADMISSION, names.STARTUP_BOOSTED)
_SIZED: Final = (CPU, MEMORY)


def written_pod(pod: Pod) -> Pod:
    """Return a pod as it would be created anew: unbound, with the amounts that stood before it was sized.

    One that admission did not size has what it has; a resize of such a pod is not known of here.
    """
    try:
        original = annotated_original(pod)
    except OriginalError:
        original = None
    annotations = {key: text for key, text in pod.annotations.items() if key not in _OF_ADMISSION}
    pod = replace(pod, node_name=None, annotations=annotations)
    if original is None:
        return pod
    was = {amounts.container: amounts for amounts in original.amounts}
    own = was.get("")
    return replace(
        pod,
        containers=tuple(_written(container, was.get(container.name)) for container in pod.containers),
        init_containers=tuple(_written(container, was.get(container.name)) for container in pod.init_containers),
        # Resources of the whole pod that it had none of at first were given by admission.
        resources=None if own is None or pod.resources is None else _back(pod.resources, own),
    )


def to_recommend(pod: Pod, mode: Mode) -> Pod:
    """Return a pod that is sized whatever its mode, but off, and whatever share of its workload is.

    Without a boost, which is no steady request.
    """
    orders = {names.STARTUP_BOOST: "off"}
    if mode is not Mode.OFF:
        orders |= {names.MODE: str(Mode.ENFORCE), names.ENFORCE_SHARE: "100%"}
    return replace(pod, annotations={**pod.annotations, **orders})


def first_of_share(pod: Pod, *, unix_seconds: float) -> Pod:
    """Return a pod that is in every share of its workload but none: if it is not sized now, no new one is."""
    ticket = ticket_text(0, unix_seconds=unix_seconds)
    return replace(pod, annotations={**pod.annotations, names.SHARE_TICKET: ticket})


def _written(container: Container, was: OriginalAmounts | None) -> Container:
    return container if was is None else replace(container, resources=_back(container.resources, was))


def _back(now: Requirements, was: OriginalAmounts) -> Requirements:
    stated = requirements_of(was)
    return replace(now, requests=_joined(now.requests, stated.requests), limits=_joined(now.limits, stated.limits))


def _joined(now: Mapping[str, int], was: Mapping[str, int]) -> dict[str, int]:
    return {**{name: amount for name, amount in now.items() if name not in _SIZED}, **was}
