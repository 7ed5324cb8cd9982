"""What can be set of placeholder pods; the docstring under each field is its documentation. Core, pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from agent.core.numbers.allowed_range import Between


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderOptions:
    """How the strategy ``plimsoll.dev/placeholder-pods`` keeps room for CapacityBuffers."""

    image: str = "registry.k8s.io/pause:3.10.1"
    """What placeholder pods run: something that does nothing, on every kind of node that there is."""
    priority_class: str = "plimsoll-placeholder"
    """PriorityClass of placeholder pods. Its value must be below that of every pod that the room is for, and not below
    -10, under which the cluster autoscaler looks at no pod; its preemptionPolicy must be Never."""
    most_pods_per_buffer: Annotated[int, Between(1, 10_000)] = 500
    """Placeholder pods of one CapacityBuffer at most, however many chunks its status asks for."""
    most_waiting: Annotated[int, Between(1, 10_000)] = 100
    """While so many placeholder pods of a buffer wait for a node no more are made: schedulers look at each of them."""
    pods_per_pass: Annotated[int, Between(1, 1000)] = 20
    """Placeholder pods of one buffer made, resized or removed in one pass at most; the next pass is a second later."""
    first_back_off_seconds: Annotated[float, Between(1, 3600)] = 30.0
    """Seconds until placeholder pods that gave way to others are made again; doubled each time that they must ..."""
    most_back_off_seconds: Annotated[float, Between(1, 86_400)] = 600.0
    """... up to this. After so long without they begin anew."""
    resize_patience_seconds: Annotated[float, Between(1, 3600)] = 30.0
    """Seconds until a placeholder pod whose resize is put off is replaced by a new one, which may go elsewhere."""
