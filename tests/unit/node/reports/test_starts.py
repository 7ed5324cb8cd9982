"""The starts of pods whose starts are learnt: told once, when they are over, of the readings of their time."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.pod import ContainerState, ContainerStatus, Pod
from agent.core.window.policy import WindowPolicy
from agent.node.reports.starts import FRESH_SECONDS, SETTLED_SECONDS, EndedStart, Starts, wall_unix_seconds
from agent.node.sampling.unit_table import UnitTable
from tests.unit.core.plan.needs.test_given_boost import BORN, pod
from tests.unit.node.resize.test_quiet_cpu import Rings, unit
from tests.window_rows import NS

READY_SECONDS = 20
AFTER_SECONDS = 30
OVER_SECONDS = READY_SECONDS + AFTER_SECONDS


def learning(**more: Any) -> Pod:
    """A pod whose containers began five seconds after its birth, and that was ready after twenty."""
    fields = {"ready": READY_SECONDS, "afterReadySeconds": AFTER_SECONDS, "learnt": True, "containers": {}, **more}
    return pod(**fields)


def running(new_pod: Pod, *names: str, began: int = 5) -> Pod:
    statuses = tuple(
        ContainerStatus(name=name, state=ContainerState.RUNNING, started_unix_seconds=BORN + began) for name in names
    )
    return replace(new_pod, statuses=statuses)


class World:
    """A node whose CLOCK_MONOTONIC was 0 when the pod was born."""

    def __init__(self, *pods: Pod, rings: Any = None) -> None:
        self.pods = list(pods)
        readings: Any = rings if rings is not None else Rings(800.0, 20.0, 3000.0)
        table = UnitTable()
        for number, name in enumerate(("app", "log")):
            table.put(unit(number, name))
        table.put(unit(2, "app", uid="uid-other"))
        self.starts = Starts(
            rings=readings,
            units=table,
            pods=lambda: self.pods,
            policy=lambda: WindowPolicy(capacity_millicores=4000),
            unix_seconds=lambda at_ns: BORN + at_ns / NS,
        )

    def at(self, seconds: float) -> list[EndedStart]:
        return self.starts.ended(int(seconds * NS))


def test_a_start_is_told_once_when_it_is_over() -> None:
    world = World(running(learning(), "app", "log"))
    assert world.at(OVER_SECONDS + SETTLED_SECONDS - 1) == []
    starts = world.at(OVER_SECONDS + SETTLED_SECONDS)
    assert [(start.container, start.figures.duration_seconds) for start in starts] == [("app", 45.0), ("log", 45.0)]
    assert starts[0].figures.cpu_largest_millicores == pytest.approx(800.0)
    assert starts[0].ended_ns == OVER_SECONDS * NS
    assert world.at(OVER_SECONDS + SETTLED_SECONDS + 1) == []


@pytest.mark.parametrize(
    "made",
    [
        learning(learnt=False, containers={"app": {"requestMillicores": [500, 1500]}}),
        learning(ready=None),
        learning(phase="Failed"),
    ],
    ids=["not learnt", "never ready", "ended"],
)
def test_others_have_no_start_to_tell(made: Pod) -> None:
    assert World(running(made, "app")).at(100) == []


def test_a_start_that_was_over_long_ago_is_not_told() -> None:
    assert World(running(learning(), "app")).at(OVER_SECONDS + FRESH_SECONDS + 1) == []


def test_a_container_that_began_anew_since_or_tells_nothing_is_left_out() -> None:
    assert World(running(learning(), "app", began=OVER_SECONDS)).at(60) == []
    assert World(learning()).at(60) == []  # no status tells when it began

    class Others(Rings):
        def inode(self, slot: int) -> int:
            return slot + 100

    assert World(running(learning(), "app"), rings=Others(800.0, 20.0, 3000.0)).at(60) == []


def test_a_pod_that_went_is_forgotten() -> None:
    world = World(running(learning(), "app"))
    world.at(60)
    world.pods.clear()
    world.at(61)
    assert world.starts._told == set()


def test_moments_are_those_of_the_clock_that_writes_the_times_of_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the history's, off by 25 s here, the busy part of this start would be left out and a quiet one taken."""
    with monkeypatch.context() as still:  # both clocks are read one after the other, and a moment may lie between
        still.setattr(time, "time", lambda: 1_800_000_025.25)
        still.setattr(time, "monotonic_ns", lambda: 500 * NS)
        assert wall_unix_seconds(500 * NS) == 1_800_000_025.25
        assert wall_unix_seconds(470 * NS) == 1_799_999_995.25
    readings: Any = Rings(800.0, 20.0, 3000.0)
    policy = WindowPolicy(capacity_millicores=4000)
    default = Starts(rings=readings, units=UnitTable(), pods=list, policy=lambda: policy)
    assert default._unix_seconds is wall_unix_seconds
