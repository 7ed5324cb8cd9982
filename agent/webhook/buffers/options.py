"""What can be set of the CapacityBuffer controller; the docstring under each field is its documentation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from agent.core.numbers.allowed_range import Between


class BufferMode(StrEnum):
    """Whether Plimsoll's controller writes the status of CapacityBuffers."""

    AUTO = "auto"
    """Where no other controller does."""
    ON = "on"
    """In any case: the status is taken over from whoever wrote it."""
    OFF = "off"
    """Never; buffers are not even read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferOptions:
    """The CapacityBuffer controller; only the leading replica writes."""

    mode: BufferMode = BufferMode.AUTO
    """auto: buffers are reconciled unless another controller (of cluster-autoscaler, of Karpenter) is seen to write
    their status; on: in any case, taking a status over up to four times in ten minutes; off: never."""
    dry_run: bool = True
    """Have the API server shape a chunk by a creation that it does not store, so that LimitRanges and admission
    webhooks count. Needs the right to create pods; without it, or with false, requests are defaulted from limits."""
    resync_seconds: Annotated[float, Between(10, 86_400)] = 300.0
    """Seconds after which all that a namespace's buffers go by is read anew, whether something changed or not; and
    between two new shapes of one chunk that come from live pods or from history."""
    ask_seconds: Annotated[float, Between(1, 86_400)] = 120.0
    """Seconds between two questions whether the cluster has CapacityBuffers at all."""
