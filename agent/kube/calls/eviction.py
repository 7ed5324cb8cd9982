"""One eviction of one pod through policy/v1, and what its answer asks for. No retries: budgets are not judged here.

The node agent has no right to this call: the webhook evicts, within budgets of the whole cluster.
"""

from __future__ import annotations

import http
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import PodRef
from agent.core.resize.answer import one_line
from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError, KubeError, Unreachable
from agent.kube.client.paths import namespaced_path

DISRUPTION_BUDGET: Final = "DisruptionBudget"
CONTENTION_RETRY_SECONDS: Final = 10.0
"""What the server asks for itself, after twenty tries, when a budget is fought over."""

_SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"
_OF_A_BUDGET: Final = re.compile(r"poddisruptionbudget", re.IGNORECASE)
_BUDGET_NAME: Final = re.compile(r"disruption budget (\S+)")


class EvictionKind(StrEnum):
    """What an eviction came to. Also a metric label."""

    ACCEPTED = "accepted"
    """The pod is going (or would, in a dry run); one that was going already is accepted too."""
    BUDGET = "budget"
    """Its disruption budget allows none now: another pod, or minutes later."""
    STALE_BUDGET = "stale_budget"
    """The budget's numbers are being counted anew: seconds later."""
    SEVERAL_BUDGETS = "several_budgets"
    """More than one budget matches the pod: never, until a person mends that."""
    BROKEN_BUDGET = "broken_budget"
    """The budget's own status is out of order (too many evictions nobody has confirmed): a person or time must."""
    CONTENDED = "contended"
    """Too many evict under one budget at once: seconds later."""
    THROTTLED = "throttled"
    """The server sheds load: slower, the same later."""
    REPLACED = "replaced"
    """The name belongs to another pod now; nothing was done."""
    GONE = "gone"
    FORBIDDEN = "forbidden"
    """A right is missing, or an admission policy refuses."""
    INVALID = "invalid"
    """The server does not take the request as it is."""
    UNAVAILABLE = "unavailable"
    """The server cannot serve now; nothing was done."""
    UNKNOWN = "unknown"
    """No answer, or none that says: it may have been done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionAnswer:
    """The answer to one eviction."""

    kind: EvictionKind
    message: str = ""
    """One line for people: the budget's own words where there is one."""
    retry_after_seconds: float | None = None
    """As the server asks; None = it does not say. No number beside BUDGET means minutes."""
    budget: str | None = None
    """The name of the disruption budget that stands in the way; None = the answer names none."""


def evict(
    api: Api,
    ref: PodRef,
    *,
    grace_period_seconds: int | None = None,
    is_dry_run: bool = False,
    timeout_seconds: float | None = None,
) -> EvictionAnswer:
    """Ask for the eviction of one pod.

    Its uid is sent along, so that a successor of the same name is never evicted. The server looks at budgets first: for
    a name that has passed to another pod it may answer BUDGET instead of REPLACED; nothing is evicted either way.

    Args:
        grace_period_seconds: For its containers to end; None = as the pod says.
        is_dry_run: Have everything checked, evict nothing and take nothing off the budget.
        timeout_seconds: For connecting, and again for the answer; the server itself may take twenty tries.
    """
    path = namespaced_path(ref.namespace, "pods", ref.name, "eviction")
    options: dict[str, object] = {"preconditions": {"uid": ref.uid}}
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if is_dry_run:
        options["dryRun"] = ["All"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": ref.name, "namespace": ref.namespace},
        "deleteOptions": options,
    }
    # Both places: a server that overlooked one would evict in earnest.
    query = {"dryRun": "All"} if is_dry_run else None
    try:
        api.call("POST", path, query=query, body=body, timeout_seconds=timeout_seconds)
    except ApiError as error:
        return answer_of(error)
    except Unreachable as error:
        kind = EvictionKind.UNKNOWN if error.may_have_been_done else EvictionKind.UNAVAILABLE
        return EvictionAnswer(kind=kind, message=str(error))
    except KubeError as error:  # credentials that cannot be read: nothing was sent
        return EvictionAnswer(kind=EvictionKind.UNAVAILABLE, message=str(error))
    return EvictionAnswer(kind=EvictionKind.ACCEPTED)


def answer_of(error: ApiError) -> EvictionAnswer:
    """Classify a refusal: by its causes and words, as one code has several meanings.

    Source:
        pkg/registry/core/pod/storage/eviction.go; the answers of kube-apiserver 1.37.1 are asked for again by
        ``tests/cluster/test_evicting.py``.
    """
    budget_words = [cause.message for cause in error.causes if cause.reason == DISRUPTION_BUDGET]
    kind = _kind(error, has_budget=bool(budget_words))
    message = one_line(next((words for words in budget_words if words), error.message))
    name = _BUDGET_NAME.search(message) if budget_words else None
    retry = error.retry_after_seconds
    if kind is EvictionKind.CONTENDED and retry is None:
        retry = CONTENTION_RETRY_SECONDS
    return EvictionAnswer(
        kind=kind,
        message=message or f"{error.status} {error.reason}".rstrip(),
        retry_after_seconds=retry,
        budget=name.group(1) if name is not None else None,
    )


def _kind(error: ApiError, *, has_budget: bool) -> EvictionKind:
    status = http.HTTPStatus
    if error.status == status.TOO_MANY_REQUESTS:
        if not has_budget:
            return EvictionKind.THROTTLED
        return EvictionKind.BUDGET if error.retry_after_seconds is None else EvictionKind.STALE_BUDGET
    if error.status == status.NOT_FOUND:
        return EvictionKind.GONE
    if error.status == status.CONFLICT:
        return EvictionKind.REPLACED if "precondition" in error.message else EvictionKind.CONTENDED
    if error.status == status.FORBIDDEN:
        return EvictionKind.BROKEN_BUDGET if _is_about_budget(error) else EvictionKind.FORBIDDEN
    if error.status == status.UNAUTHORIZED:
        return EvictionKind.UNAVAILABLE
    if error.status < status.INTERNAL_SERVER_ERROR:
        return EvictionKind.INVALID
    if _SEVERAL_BUDGETS in error.message:
        return EvictionKind.SEVERAL_BUDGETS
    if error.status == status.GATEWAY_TIMEOUT and _is_about_budget(error):
        return EvictionKind.CONTENDED
    is_shut = error.status == status.SERVICE_UNAVAILABLE and "etcdserver" not in error.message
    return EvictionKind.UNAVAILABLE if is_shut else EvictionKind.UNKNOWN


def _is_about_budget(error: ApiError) -> bool:
    """Return whether the refusal is about the budget object and not about the caller's rights."""
    return _OF_A_BUDGET.search(error.message) is not None and "cannot create resource" not in error.message
