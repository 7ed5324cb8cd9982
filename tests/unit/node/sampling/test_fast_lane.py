"""The fast lane: waiting on quiet lanes tells what reading them one by one would have told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.window.sweep_pace import ContentionPolicy
from agent.node.sampling.fast_lane import NODE_PRESSURE, FastLane
from agent.sensing.ring_file import RingFile
from agent.sensing.sampler_contract import LaneReading
from agent.sensing.state_file import RingGeometry
from tests.fakes import NS, FakeClock, FakeSampler

PATHS = (NODE_PRESSURE, "kubepods/cpu.pressure", "kubepods/memory.pressure")
STEP_NS = NS // 4
POLICY = ContentionPolicy(least_spacing_seconds=2.0)
SHARES = st.sampled_from([0.0, 0.04, 0.09, 0.1, 0.15, 0.2, 0.7, 1.0, -1.0, None])
"""Of the time between two readings that some task waited; -1: the total goes back, None: it cannot be read."""
STEPS = st.lists(st.tuples(SHARES, SHARES, SHARES), max_size=40)

Told = list[tuple[float, tuple[str, ...], bool]]


class Course(FakeSampler):
    """A sampler whose totals move with its clock."""

    def __init__(self, rings: RingFile, steps: list[tuple[float | None, ...]]) -> None:
        super().__init__(Path("/"), rings, FakeClock(0.0))
        self._steps = steps
        self.totals = dict.fromkeys(PATHS, 10**9)

    def read_lanes(self) -> list[LaneReading]:
        step = self.clock.now_ns // STEP_NS
        for place, path in enumerate(PATHS):
            shares = [of_all[place] for of_all in self._steps[:step]]
            moved = sum(share * STEP_NS / 1000 for share in shares if share is not None)
            self.totals[path] = None if shares and shares[-1] is None else 10**9 + int(moved)
        return super().read_lanes()


@pytest.fixture(scope="module")
def rings() -> Iterator[RingFile]:
    with RingFile.open(None, RingGeometry(max_slots=1), boot_id="boot") as file:
        yield file


@pytest.fixture(scope="module")
def waker() -> Iterator[int]:
    ends = os.pipe()
    yield ends[0]
    for end in ends:
        os.close(end)


def told(rings: RingFile, steps: list[tuple[float | None, ...]], waker: int | None) -> Told:
    """Return when what rose, and when memory was waited for, reading by reading; with a waker quiet ones are left."""
    sampler = Course(rings, steps)
    lane = FastLane(sampler, hz=4, policy=POLICY)
    lane.begin(0)
    lane.follow("/kubepods")
    end_ns, news = len(steps) * STEP_NS, []
    while sampler.clock.now_ns <= end_ns:
        risen: tuple[str, ...] | None
        quiet = lane.quiet()
        if waker is not None and quiet:
            risen = lane.wait(quiet, waker, until_ns=end_ns + 1)
        else:
            sampler.clock.now_ns = max(sampler.clock.now_ns, lane.due_ns)
            risen = lane.read(sampler.clock.now_ns)
        if risen or (risen is not None and lane.is_memory_waited_for):
            news.append((sampler.clock.seconds, risen, lane.is_memory_waited_for))
    return news


@given(steps=STEPS)
def test_waiting_tells_what_reading_one_by_one_tells(
    rings: RingFile, waker: int, steps: list[tuple[float | None, ...]]
) -> None:
    assert told(rings, steps, waker) == told(rings, steps, None)


def test_what_rises_is_told_at_the_reading_that_shows_it(rings: RingFile, waker: int) -> None:
    steps = [(0.0, 0.0, 0.0)] * 9 + [(0.0, 0.5, 0.0)] + [(0.0, 0.5, 0.3)] * 2 + [(0.0, 0.0, 0.0)] * 3
    for how in (waker, None):
        assert told(rings, [*steps], how) == [(2.5, (PATHS[1],), False), (2.75, (), True), (3.0, (), True)]


def test_without_lanes_nothing_is_quiet(rings: RingFile) -> None:
    sampler = FakeSampler(Path("/"), rings, FakeClock())
    lane = FastLane(sampler, hz=4, policy=POLICY)
    lane.follow(None)
    assert not lane.quiet()
