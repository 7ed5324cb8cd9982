from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.pod import OOM_KILLED, ContainerState
from agent.core.numbers.units import MIB
from agent.core.recommender.vpa.oom_observation import (
    SAME_KILL_SECONDS,
    SETTLE_SECONDS,
    ContainerMoment,
    Heed,
    ToldKill,
    has_amounts_of_kill,
    heed,
    request_at_oom,
    told_kills,
)
from tests.pods import container, make_pod, sidecar

RUNNING = ContainerMoment(state=ContainerState.RUNNING, memory_request_bytes=1000)
WAITING = replace(RUNNING, state=ContainerState.WAITING)
KILLED = ContainerMoment(state=ContainerState.TERMINATED, reason=OOM_KILLED, memory_request_bytes=2000)
RESTARTED = ContainerMoment(
    state=ContainerState.RUNNING, last_reason=OOM_KILLED, restart_count=1, memory_request_bytes=2000
)


@pytest.mark.parametrize(
    ("before", "after", "request_bytes"),
    [
        (RUNNING, KILLED, 2000),  # the new moment tells what was in force
        (WAITING, KILLED, 2000),
        (KILLED, KILLED, None),  # the same termination again
        (KILLED, replace(KILLED, restart_count=1), 2000),  # fails so fast that it is not seen to run
        (RUNNING, replace(KILLED, reason="Error"), None),
        (RUNNING, replace(KILLED, memory_request_bytes=None), 0),
        (RUNNING, RESTARTED, 1000),  # the run before was killed, with what it requested
        (replace(RUNNING, memory_request_bytes=None), RESTARTED, 0),
        (RUNNING, replace(RESTARTED, restart_count=0), None),
        (RUNNING, replace(RESTARTED, last_reason="Error"), None),
        (WAITING, RESTARTED, None),  # the termination before the wait was counted
        (RUNNING, replace(RUNNING, state=None), None),
        (replace(RUNNING, state=None), KILLED, None),  # was not reported before
    ],
)
def test_request_at_oom(before: ContainerMoment, after: ContainerMoment, request_bytes: int | None) -> None:
    assert request_at_oom(before, after) == request_bytes


def ended(at: str | None, reason: str = "OOMKilled") -> dict[str, Any]:
    return {"terminated": {"exitCode": 137, "reason": reason, **({} if at is None else {"finishedAt": at})}}


def test_a_status_tells_of_the_newest_kill_of_each_container() -> None:
    pod = make_pod(
        container("app", {"memory": "32Mi"}, {"memory": "64Mi"}),
        container("resized", {"memory": "32Mi"}, {"memory": "64Mi"}),
        container("bare"),
        container("failed", None, {"memory": "64Mi"}),
        container("undated", None, {"memory": "64Mi"}),
        container("calm"),
        initContainers=[sidecar("proxy", None, {"memory": "16Mi"})],
        status={
            "containerStatuses": [
                {"name": "app", "state": ended("2026-11-22T10:00:05Z"), "lastState": ended("2026-11-22T10:00:00Z")},
                {
                    "name": "resized",
                    "lastState": ended("2026-11-22T10:00:00Z"),
                    "resources": {"requests": {"memory": "48Mi"}, "limits": {"memory": "96Mi"}},
                },
                {"name": "bare", "lastState": ended("2026-11-22T10:00:00Z")},
                {"name": "failed", "lastState": ended("2026-11-22T10:00:00Z", "Error")},
                {"name": "undated", "lastState": ended(None)},
                {"name": "calm"},
            ],
            "initContainerStatuses": [{"name": "proxy", "lastState": ended("2026-11-22T10:00:01Z")}],
        },
    )
    at = 1_795_341_600.0  # 2026-11-22T10:00:00Z
    assert told_kills(pod) == (
        ToldKill(container="app", unix_seconds=at + 5, limit_bytes=64 * MIB, request_bytes=32 * MIB),
        ToldKill(container="resized", unix_seconds=at, limit_bytes=96 * MIB, request_bytes=48 * MIB),
        ToldKill(container="bare", unix_seconds=at, limit_bytes=None, request_bytes=None),
        ToldKill(container="proxy", unix_seconds=at + 1, limit_bytes=16 * MIB, request_bytes=None),
    )


def test_a_status_of_a_container_that_the_spec_does_not_have_tells_no_amounts() -> None:
    pod = make_pod(
        container("app"), status={"containerStatuses": [{"name": "x", "state": ended("2026-11-22T10:00:00Z")}]}
    )
    (kill,) = told_kills(pod)
    assert (kill.limit_bytes, kill.request_bytes) == (None, None)


KNOWN_UNTIL, SINCE = 1000.0, 2000.0
"""The agent before looked until the one, this one since the other."""


@pytest.mark.parametrize(
    ("at", "now", "seen", "expected"),
    [
        (900.0, 3000.0, (), Heed.KNOWN),
        (KNOWN_UNTIL, 3000.0, (), Heed.KNOWN),
        (KNOWN_UNTIL + 1, 3000.0, (), Heed.LEARN),
        (SINCE - 1, SINCE, (), Heed.LEARN),  # nobody will tell of it any more
        (SINCE, SINCE + SETTLE_SECONDS - 1, (), Heed.WAIT),
        (SINCE, SINCE + SETTLE_SECONDS, (), Heed.LEARN),  # of a cgroup that was not watched
        (SINCE + 500, SINCE + 501, (SINCE + 500.5,), Heed.KNOWN),
        (1500.0, 3000.0, (1500.0 + SAME_KILL_SECONDS,), Heed.KNOWN),
        (1500.0, 3000.0, (1500.0 - SAME_KILL_SECONDS,), Heed.KNOWN),
        (1500.0, 3000.0, (100.0, 1500.0 - SAME_KILL_SECONDS - 1), Heed.LEARN),
    ],
)
def test_a_kill_is_learnt_once_and_only_if_nobody_saw_it(
    at: float, now: float, seen: tuple[float, ...], expected: Heed
) -> None:
    verdict = heed(
        at,
        known_until_unix_seconds=KNOWN_UNTIL,
        looked_since_unix_seconds=SINCE,
        now_unix_seconds=now,
        seen_unix_seconds=seen,
        reported_until_unix_seconds=None,
    )
    assert verdict is expected


@pytest.mark.parametrize(
    ("at", "seen", "reported_until", "expected"),
    [
        (900.0, (905.0,), 800.0, Heed.REPORT),  # also before the newest minute that was measured
        (1500.0, (1505.0,), 1502.0, Heed.REPORT),  # a report has a kill at the moment that the kernel told of it
        (1500.0, (1505.0,), 1505.0, Heed.KNOWN),
        (1500.0, (1505.0,), None, Heed.KNOWN),  # as after a reboot
        (1500.0, (1495.0, 1540.0), 1500.0, Heed.KNOWN),  # the later one is another pod's
        (SINCE - 0.5, (SINCE + 0.1,), 1500.0, Heed.KNOWN),  # this agent saw it: status' times are whole seconds
        (900.0, (), 800.0, Heed.KNOWN),  # nobody has learnt it
    ],
)
def test_a_kill_that_the_agent_before_learnt_and_did_not_report_is_to_be_reported(
    at: float, seen: tuple[float, ...], reported_until: float | None, expected: Heed
) -> None:
    verdict = heed(
        at,
        known_until_unix_seconds=KNOWN_UNTIL,
        looked_since_unix_seconds=SINCE,
        now_unix_seconds=SINCE + 100,
        seen_unix_seconds=seen,
        reported_until_unix_seconds=reported_until,
    )
    assert verdict is expected


def test_the_first_agent_of_a_node_learns_whatever_is_told() -> None:
    verdict = heed(
        1.0,
        known_until_unix_seconds=None,
        looked_since_unix_seconds=SINCE,
        now_unix_seconds=SINCE,
        seen_unix_seconds=(),
        reported_until_unix_seconds=None,
    )
    assert verdict is Heed.LEARN


@pytest.mark.parametrize(
    ("generation", "known_until", "at", "expected"),
    [
        (1, None, SINCE - 1, True),
        (2, None, SINCE - 1, False),  # an agent that left no history may have raised it
        (None, None, SINCE - 1, False),
        (2, None, SINCE, True),  # this agent knows of no kill, and answered none
        (2, KNOWN_UNTIL, SINCE - 1, True),  # nobody was there to answer it
    ],
)
def test_amounts_are_those_at_a_kill_that_no_agent_can_have_answered(
    generation: int | None, known_until: float | None, at: float, expected: bool
) -> None:
    pod = make_pod(container("app"), metadata={"generation": generation})
    is_so = has_amounts_of_kill(pod, at, known_until_unix_seconds=known_until, looked_since_unix_seconds=SINCE)
    assert is_so is expected
