"""What a pod used while it started, boosted, is left out of windows and minutes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agent.core.cluster.pod import Pod
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.window.cpu import cpu_window
from agent.core.window.policy import WindowPolicy
from agent.core.window.ring_rows import MINUTE_ROW
from agent.core.window.snapshot import CpuWindow, Missing, UnitStatus
from agent.node.recommender.start_ups import LOOKED_SECONDS, StartUps
from agent.node.sampling.unit_table import UnitTable, WatchedUnit
from tests.snapshots import container
from tests.unit.core.plan.needs.test_given_boost import BORN, pod
from tests.window_rows import NS, steady

IDENTITY = UnitIdentity(cgroup_path="/kubepods/web", kind=UnitKind.CONTAINER, pod_uid="uid-web", container="app")
OTHER = replace(IDENTITY, cgroup_path="/kubepods/other", pod_uid="uid-other")
WHOLE = cpu_window((steady(range(101), 900.0),), WindowPolicy(capacity_millicores=4000), end_monotonic_ns=100 * NS)


class Windows:
    """An observer that tells how long a window was asked for."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def policy(self) -> WindowPolicy:
        return WindowPolicy(capacity_millicores=4000)

    def cpu(self, slot: int, policy: WindowPolicy, end_ns: int) -> CpuWindow:
        self.asked.append(policy.cpu_window_seconds)
        return replace(WHOLE, readings=0)


class World:
    """A pod that got ready ten seconds after its birth: its start is over sixty later."""

    def __init__(self) -> None:
        self.windows, self.units, self.now, self.clock = Windows(), UnitTable(), BORN, 0.0
        self.pods: list[Pod] = [pod(ready=10)]
        for slot, identity in enumerate((IDENTITY, OTHER)):
            self.units.put(WatchedUnit(slot=slot, inode=1, identity=identity, resources=UnitResources()))
        self.starts = StartUps(
            pods=lambda: self.pods,
            units=self.units,
            observer=self.windows,  # type: ignore[arg-type]
            wall_now=lambda: self.now,
            monotonic=lambda: self.clock,
        )

    def status(self, identity: UnitIdentity = IDENTITY) -> UnitStatus:
        return replace(container("web", "app"), identity=identity, cpu=WHOLE)


@pytest.mark.parametrize(
    ("since_birth", "seconds"),
    [
        (131, 1.0),  # a rate that ends now reaches back by a minute
        (330, 200.0),
        (729, 599.0),
    ],
)
def test_a_window_reaches_back_to_the_end_of_the_start(since_birth: int, seconds: float) -> None:
    world = World()
    world.now = BORN + since_birth
    assert world.starts.cpu_of(world.status()).readings == 0
    assert world.windows.asked == [seconds]


@pytest.mark.parametrize("since_birth", [30, 70, 129])
def test_of_a_start_and_the_minute_after_it_nothing_is_known(since_birth: int) -> None:
    """No reading in a shorter window would do: its rate reaches back into the start, over by 70 s after the birth."""
    world = World()
    world.now = BORN + since_birth
    window = world.starts.cpu_of(world.status())
    assert (window.span_seconds, window.adjusted_p75_millicores, window.usage_peak_millicores) == (0.0, None, None)
    assert window.missing["adjusted_p75_millicores"] is Missing.TOO_FEW_SAMPLES


def test_windows_of_others_and_long_after_the_start_stay_whole() -> None:
    world = World()
    world.now = BORN + 730
    assert world.starts.cpu_of(world.status()) is WHOLE
    world.now = BORN + 30
    assert world.starts.cpu_of(world.status(OTHER)) is WHOLE
    world.units.drop(IDENTITY.cgroup_path)
    assert world.starts.cpu_of(world.status()) is WHOLE
    assert world.windows.asked == []


def test_minutes_that_touch_the_start_are_learnt_without_cpu() -> None:
    world, row = World(), np.zeros(1, dtype=MINUTE_ROW)
    row["coverage_255"], row["working_set_peak_kib"] = 255, 64
    born_minute = int(BORN) // 60
    learnt_rows = [world.starts.learnt(IDENTITY, row, born_minute + minute) for minute in range(4)]
    assert [int(learnt_row["coverage_255"][0]) for learnt_row in learnt_rows] == [0, 0, 0, 255]
    assert {int(learnt_row["working_set_peak_kib"][0]) for learnt_row in learnt_rows} == {64}
    assert world.starts.learnt(OTHER, row, born_minute) is row


def test_a_minute_of_a_clock_half_a_minute_ahead_is_not_learnt_with_the_end_of_the_start() -> None:
    """The start is over after 110 s, and a rate reaches back by 60: what begins after 170 s is steady."""
    world, row = World(), np.zeros(1, dtype=MINUTE_ROW)
    world.pods = [pod(ready=50)]
    row["coverage_255"] = 255
    born_minute = int(BORN) // 60
    # The minute that is called the fourth, from 180 s on, may have begun at 150 s.
    learnt_rows = [world.starts.learnt(IDENTITY, row, born_minute + minute) for minute in (3, 4)]
    assert [int(learnt_row["coverage_255"][0]) for learnt_row in learnt_rows] == [0, 255]


def test_pods_are_looked_at_once_a_second() -> None:
    world, row = World(), np.zeros(1, dtype=MINUTE_ROW)
    row["coverage_255"] = 255
    minute = int(BORN) // 60
    assert world.starts.learnt(IDENTITY, row, minute) is not row
    world.pods = []
    assert world.starts.learnt(IDENTITY, row, minute) is not row
    world.clock += LOOKED_SECONDS
    assert world.starts.learnt(IDENTITY, row, minute) is row
