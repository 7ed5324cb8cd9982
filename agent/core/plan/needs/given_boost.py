"""The boost that a pod was given at its creation: as it stands in the pod's annotation, and until when. Core, pure.

The state is in the pod alone, so that an agent that begins in the midst of a boost takes it back as well. Time is an
argument.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.cluster.pod import Pod, has_ended
from agent.core.cluster.resource import Resource
from agent.core.orders.annotations import STARTUP_BOOSTED
from agent.core.orders.startup_boost import MOST_SECONDS
from agent.core.plan.pod_change import Change, Setting, changed_pod, pod_numbers, stated
from agent.core.window.snapshot import CpuWindow

READY: Final = "Ready"
QUIET_SECONDS: Final = 30.0
"""Below its steady request for so long, a container has done what it needed more for."""
WRITTEN_WITHIN_SECONDS: Final = 300.0
"""Of the pod's creation: what was written at another time is of another pod, a template made of one as a rule. The
clocks of webhook and API server are nearer to each other."""
_LEAST_COVERAGE_RATIO: Final = 0.9
"""The seconds before the first reading of a container count as not covered: it has run for nearly all of them."""
LONGEST_TEXT: Final = 64 << 10
"""Characters. What the webhook writes of as many containers as it sizes is shorter, and work grows with them."""
_MOST_MILLICORES: Final = 1 << 40
_KEYS: Final = {Setting.REQUEST: "requestMillicores", Setting.LIMIT: "limitMillicores"}


class BoostEnd(StrEnum):
    """Why a boost is over. Also a metric label."""

    READY = "ready"
    """The pod has been ready for as long as was ordered."""
    QUIET = "quiet"
    """Its CPU has stayed below the steady requests."""
    TIMEOUT = "timeout"
    """It did not get ready in time."""


END_WORDS: Final[Mapping[BoostEnd, str]] = {
    BoostEnd.READY: "the pod is ready",
    BoostEnd.QUIET: f"its CPU stayed below the steady request for {QUIET_SECONDS:g} s",
    BoostEnd.TIMEOUT: "the pod did not get ready in time",
}
"""The same for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenBoost:
    """What was boosted, and for how long."""

    unix_seconds: float
    """When the webhook wrote it."""
    after_ready_seconds: float
    timeout_seconds: float
    changes: tuple[Change, ...]
    """CPU alone: ``before`` is the steady amount, ``after`` the boosted one, which is larger. Empty = nothing was
    boosted, and the start is learnt alone."""
    is_learnt: bool = False
    """What it uses while it starts is told to the webhook, for the starts to come."""

    def steady_requests(self) -> dict[str, int]:
        """Return the steady requests by container, millicores; one whose request was not boosted is missing."""
        return {change.container: change.before for change in self.changes if change.setting is Setting.REQUEST}


def boost_text(boost: GivenBoost) -> str:
    """Write a boost as the annotation has it; ``boost_from`` reads the same back."""
    containers: dict[str, dict[str, list[int]]] = {}
    for change in boost.changes:
        containers.setdefault(change.container, {})[_KEYS[change.setting]] = [change.before, change.after]
    document = {
        "unixSeconds": int(boost.unix_seconds),
        "afterReadySeconds": boost.after_ready_seconds,
        "timeoutSeconds": boost.timeout_seconds,
        "containers": containers,
        **({"learnt": True} if boost.is_learnt else {}),
    }
    return json.dumps(document, separators=(",", ":"))


def boost_from(pod: Pod) -> GivenBoost | None:
    """Read the annotation, of whichever pod it is; None = there is none, or it is not understood.

    Who writes one by hand has nothing of it but the lowering of his own pod's CPU.
    """
    text = pod.annotations.get(STARTUP_BOOSTED)
    if text is None or len(text) > LONGEST_TEXT:
        return None
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    written, after_ready, timeout = (
        _number(document.get(key), most)
        for key, most in (
            ("unixSeconds", 1 << 40),
            ("afterReadySeconds", MOST_SECONDS),
            ("timeoutSeconds", MOST_SECONDS),
        )
    )
    containers = document.get("containers")
    if written is None or after_ready is None or timeout is None or not isinstance(containers, dict):
        return None
    changes, is_learnt = tuple(_changes(pod, containers)), document.get("learnt") is True
    if not changes and not is_learnt:
        return None
    return GivenBoost(
        unix_seconds=written,
        after_ready_seconds=after_ready,
        timeout_seconds=timeout,
        changes=changes,
        is_learnt=is_learnt,
    )


def given_boost(pod: Pod) -> GivenBoost | None:
    """Return the boost that this very pod was given; None = it was given none."""
    boost, created = boost_from(pod), pod.created_unix_seconds
    if boost is None or created is None or abs(created - boost.unix_seconds) > WRITTEN_WITHIN_SECONDS:
        return None
    return boost


def standing_changes(pod: Pod, boost: GivenBoost) -> tuple[Change, ...]:
    """Return what of a boost still stands in the pod's spec, as changes that take it back; empty = nothing.

    A number that somebody has changed since is nobody's boost any more, nor is a limit that such a request has come to
    need.
    """
    numbers = pod_numbers(pod)
    standing = tuple(
        Change(
            container=change.container,
            kind=change.kind,
            resource=change.resource,
            setting=change.setting,
            before=change.after,
            after=change.before,
        )
        for change in boost.changes
        if stated(numbers, change) == change.after
    )
    after = changed_pod(pod, standing)
    needed = {
        container.name
        for container in after.sized_containers()
        for request, limit in ((container.resources.cpu_request_millicores, container.resources.cpu_limit_millicores),)
        if request is not None and limit is not None and request > limit
    }
    return tuple(change for change in standing if change.container not in needed)


def standing_boost(pod: Pod) -> GivenBoost | None:
    """Return the boost that a pod was given and of which something still stands; None = there is none."""
    boost = given_boost(pod)
    return boost if boost is not None and standing_changes(pod, boost) else None


def without_boost(pod: Pod, boost: GivenBoost) -> Pod:
    """Return the pod as it will be when what still stands of its boost is taken back."""
    return changed_pod(pod, standing_changes(pod, boost))


def end_unix_seconds(pod: Pod, boost: GivenBoost) -> float:
    """Return when the start is over by the pod's state as it is now, be it past; quiet CPU may end a boost before.

    A pod that gets ready again later has not started again.
    """
    began = boost.unix_seconds if pod.started_unix_seconds is None else pod.started_unix_seconds
    latest, ready = began + boost.timeout_seconds, pod.condition(READY)
    if ready is None:
        return latest
    since = ready.last_transition_unix_seconds
    return min(boost.unix_seconds if since is None else since, latest) + boost.after_ready_seconds


def starts_of(pods: Iterable[Pod]) -> dict[str, float]:
    """Return when the starts of pods that were given a boost are over, Unix seconds, by the uid of their cgroups.

    What they use until then is no sustained demand.
    """
    return {
        pod.cgroup_uid: end_unix_seconds(pod, boost)
        for pod in pods
        for boost in (given_boost(pod),)
        if boost is not None
    }


def boost_end(
    pod: Pod, boost: GivenBoost, *, now_unix_seconds: float, quiet: frozenset[str] = frozenset()
) -> BoostEnd | None:
    """Return why a boost is over; None = it goes on, or the pod has ended and with it all that it holds.

    Args:
        quiet: Containers that have run and stayed below their steady request for ``QUIET_SECONDS``.
    """
    if has_ended(pod) or pod.is_terminating:
        return None
    if now_unix_seconds >= end_unix_seconds(pod, boost):
        return BoostEnd.TIMEOUT if pod.condition(READY) is None else BoostEnd.READY
    boosted = {change.container for change in boost.changes}
    return BoostEnd.QUIET if boosted <= quiet else None


def quiet_bounds(pod: Pod, boost: GivenBoost) -> dict[str, int]:
    """Return the steady requests of the boosted containers, by name; millicores."""
    boosted, steady_requests = {change.container for change in boost.changes}, boost.steady_requests()
    return {
        container.name: steady
        for container in pod.sized_containers()
        if container.name in boosted
        for steady in (steady_requests.get(container.name, container.resources.cpu_request_millicores),)
        if steady is not None
    }


def is_quiet(window: CpuWindow, steady_millicores: int) -> bool:
    """Return whether a container stayed below its steady request, second by second.

    Args:
        window: Of the last ``QUIET_SECONDS``; one that covers less of them tells nothing.
    """
    if window.burst_millicores is None or window.coverage_ratio < _LEAST_COVERAGE_RATIO:
        return False
    return window.burst_millicores < steady_millicores


def _changes(pod: Pod, containers: Mapping[str, object]) -> Iterator[Change]:
    for container in pod.sized_containers():
        amounts = containers.get(container.name)
        if not isinstance(amounts, dict):
            continue
        for setting, key in _KEYS.items():
            steady, boosted = _pair(amounts.get(key))
            if steady is not None and boosted is not None and steady < boosted:
                yield Change(
                    container=container.name,
                    kind=container.kind,
                    resource=Resource.CPU,
                    setting=setting,
                    before=steady,
                    after=boosted,
                )


def _pair(value: object) -> tuple[int | None, int | None]:
    if not isinstance(value, list) or len(value) != 2:
        return None, None
    steady, boosted = (amount if _is_amount(amount) else None for amount in value)
    return steady, boosted


def _is_amount(value: object) -> bool:
    return type(value) is int and 0 < value <= _MOST_MILLICORES


def _number(value: object, most: float) -> float | None:
    """Return a number from 0 on; None = it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= most else None
