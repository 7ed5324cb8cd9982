from __future__ import annotations

import numpy as np
import pytest

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.orders.policy_options import SizingOptions
from agent.core.recommender.plimsoll.policy import PlimsollPolicy
from agent.core.recommender.policy import Step, Steps
from tests.generated_traces import START_UNIX_MINUTE
from tests.policy_rows import Figures, all_rows, make_minutes, make_present
from tests.why_shapes import DIRECTORY, SHAPES, page

MIB = float(1 << 20)
DAY = 1440


def said(policy: PlimsollPolicy, minute: int, cpu: Figures = (1.0,), memory: Figures | None = None) -> list[Step]:
    steps = Steps()
    policy.recommend(all_rows(1), make_present(cpu, memory), now_unix_seconds=minute * 60.0, steps=steps)
    return steps.taken


def named(steps: list[Step], resource: str, what: str) -> Step:
    return next(step for step in steps if step.resource == resource and step.what == what)


def learnt(*usage: float, memory: float | None = None) -> tuple[PlimsollPolicy, int]:
    policy = PlimsollPolicy(SizingOptions(), 1)
    for index, value in enumerate(usage):
        policy.fold(make_minutes(START_UNIX_MINUTE + index, [value], [memory]))
    return policy, START_UNIX_MINUTE + len(usage)


@pytest.mark.parametrize("shape", SHAPES)
def test_why_pages_of_known_shapes(shape: str) -> None:
    expected = (DIRECTORY / f"{shape}.txt").read_text(encoding="utf-8")
    assert page(shape) == expected, "run: python -m tests.why_shapes"


def test_steps_nothing_known_say_so() -> None:
    steps = said(PlimsollPolicy(SizingOptions(), 1), START_UNIX_MINUTE, [None], [None])
    assert named(steps, "cpu", "percentile of the window").value is None
    assert "base" in named(steps, "cpu", "minutes measured").note
    assert "request" not in {step.what for step in steps if step.resource == "cpu"}
    assert named(steps, "memory", "largest of seven days").value is None
    assert named(steps, "memory", "out-of-memory memory").value is None
    assert named(steps, "memory", "base").value is None


def test_steps_tell_every_intermediate_value() -> None:
    policy, minute = learnt(*[100.0] * DAY, memory=MIB)
    policy.record_oom(0, OutOfMemory(unix_seconds=minute * 60.0, usage_bytes=2 << 20))
    steps = said(policy, minute, [150.0], [MIB])
    for before in ("15 min", "hour", "six hours"):
        assert named(steps, "cpu", f"largest of the {before} before").value == 100.0
    assert named(steps, "cpu", "usual of the twelve hours before").value == 100.0
    hours = named(steps, "cpu", "hours like this one")
    assert hours.value is not None
    assert 1 <= hours.value <= 24
    assert hours.note.startswith("of 24 past hours; the likest: ")
    assert named(steps, "cpu", "nine in ten of their minutes stayed within").value == 100.0
    cheapest = named(steps, "cpu", "cheapest level")
    assert cheapest.value == 100.0
    assert cheapest.note == "being short costs 60 x being idle (sizing.price); 0.00% of their minutes were above"
    assert named(steps, "cpu", "answer when the hour began").note == "that level"
    assert named(steps, "cpu", "request").value == 150.0
    assert named(steps, "cpu", "request").note == "the base, which is larger"
    assert named(steps, "memory", "margin above it").value == 0.05
    assert named(steps, "memory", "out-of-memory memory").value == 2 * MIB
    assert named(steps, "memory", "request").value == 2 * MIB
    assert named(steps, "memory", "limit").value == 4 * MIB


def test_steps_name_the_likest_hours_and_count_them() -> None:
    usage = np.full(3 * DAY, 50.0)
    usage[np.arange(usage.size) % DAY // 60 == 2] = 900.0
    policy, minute = learnt(*usage)
    steps = Steps()
    now = (minute + 2 * 60) * 60.0
    policy.recommend(all_rows(1), make_present([1.0]), now_unix_seconds=now, steps=steps)
    # Two o'clock of each of the three days is among the likest five.
    at_two = [(START_UNIX_MINUTE + day * DAY + 120) * 60 for day in range(3)]
    assert len(steps.hours) == 5
    assert steps.hours == sorted(steps.hours)
    assert set(at_two[1:]) <= set(steps.hours)


def test_steps_tell_of_a_rise_within_the_hour() -> None:
    policy, minute = learnt(*[100.0] * (DAY + 5), 700.0)
    steps = said(policy, minute)
    assert named(steps, "cpu", "answer when the hour began").value == 100.0
    assert named(steps, "cpu", "answer now").value == 700.0
    assert named(steps, "cpu", "answer now").note == "the last 15 min used 700m, which is more"


@pytest.mark.parametrize("minutes_after", [0, 20])
def test_steps_tell_that_nothing_was_measured_before_an_hour_after_a_gap(minutes_after: int) -> None:
    policy, minute = learnt(*[100.0] * DAY)
    minute += 300
    for index in range(minutes_after):
        policy.fold(make_minutes(minute + index, [100.0]))
    before = named(said(policy, minute + minutes_after), "cpu", "the hour before")
    assert before.note == "nothing was measured in it when the hour began at 05:00 UTC"


def test_steps_memory_base_only_names_no_limit() -> None:
    steps = said(PlimsollPolicy(SizingOptions(), 1), START_UNIX_MINUTE, memory=[MIB])
    assert named(steps, "memory", "limit").value is None
