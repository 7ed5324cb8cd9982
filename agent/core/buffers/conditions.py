"""The conditions of a CapacityBuffer: their words, and how a new one joins those that are there. Core, pure.

Source: kubernetes-sigs/cluster-autoscaler pkg/capacitybuffer/common/common.go, and ``SetStatusCondition`` of
k8s.io/apimachinery. Both conditions name the generation they speak of, and none outlives its reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from agent.core.buffers.buffer import FALSE, LIMITED_BY_QUOTAS, READY_FOR_PROVISIONING, TRUE, Condition, QuotaAllocation

ATTRIBUTES_SET: Final = "AttributesSetSuccessfully"
ERROR: Final = "error"
QUOTAS_ALLOCATED: Final = "ResourceQuotasAllocated"

READY: Final = "ready"
NOT_READY_PREFIX: Final = "Buffer not ready for provisioning: "
SIZING_PREFIX: Final = "couldn't get number of replicas for buffer: "

_LONGEST_MESSAGE: Final = 32_768
"""Characters; the API refuses a longer one, and with it the whole status."""


def ready(generation: int, *, schedule: str | None = None) -> Condition:
    """Return ReadyForProvisioning True; the schedule says why the buffer is kept empty now."""
    message = READY if schedule is None else f"{READY}, and kept empty now: {schedule}"
    return Condition(
        type=READY_FOR_PROVISIONING,
        status=TRUE,
        reason=ATTRIBUTES_SET,
        message=_cut(message),
        observed_generation=generation,
    )


def not_ready(generation: int, fault: str) -> Condition:
    """Return ReadyForProvisioning False."""
    return Condition(
        type=READY_FOR_PROVISIONING,
        status=FALSE,
        reason=ERROR,
        message=_cut(f"{NOT_READY_PREFIX}{fault}"),
        observed_generation=generation,
    )


def limited(generation: int, allocation: QuotaAllocation) -> Condition:
    """Return LimitedByQuotas by what the quotas left."""
    message = ""
    if allocation.limiting:
        names = ", ".join(allocation.limiting)
        message = f"Buffer replicas limited from {allocation.wanted} to {allocation.allowed} due to quotas: {names}"
    return Condition(
        type=LIMITED_BY_QUOTAS,
        status=TRUE if allocation.limiting else FALSE,
        reason=QUOTAS_ALLOCATED,
        message=_cut(message),
        observed_generation=generation,
    )


def merged(
    before: Iterable[Condition], wanted: Iterable[Condition], *, withdrawn: Iterable[str], now_unix_seconds: float
) -> tuple[Condition, ...]:
    """Join conditions: the order stays, new ones come last, and a time of transition moves only with the status.

    Conditions of the withdrawn types are gone. Times are kept in whole seconds, as the API does.
    """
    gone = set(withdrawn)
    joined = {condition.type: condition for condition in before if condition.type not in gone}
    for condition in wanted:
        old = joined.get(condition.type)
        since = old.last_transition_unix_seconds if old is not None and old.status == condition.status else None
        joined[condition.type] = replace(
            condition, last_transition_unix_seconds=float(int(now_unix_seconds)) if since is None else since
        )
    return tuple(joined.values())


def _cut(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 3]}..."
