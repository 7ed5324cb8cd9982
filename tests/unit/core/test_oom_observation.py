from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.oom_observation import OOM_KILLED, ContainerMoment, request_at_oom
from agent.core.pod import ContainerState

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
    ],
)
def test_request_at_oom(before: ContainerMoment, after: ContainerMoment, request_bytes: int | None) -> None:
    assert request_at_oom(before, after) == request_bytes
