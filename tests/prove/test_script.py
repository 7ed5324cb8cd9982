"""The hour by script: the same under a seed, another under another, and the past is made of such hours."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
import yaml

from agent.cli.main import main
from agent.core.numbers.units import MIB
from agent.core.orders.annotations import MAX_CPU
from tests.e2e.workloads import bytes_of, millicores
from tests.guest.machine import REPOSITORY
from tests.prove.arms import AGENT_REQUESTS, SETTINGS, Arm, rate_window_seconds
from tests.prove.script import (
    BURST_MILLICORES,
    HEAP_MIB,
    LEAST_RATE,
    MOST_RATE,
    REQUEST_CPU_SECONDS,
    ROLES,
    SERVER,
    WAVE_SECONDS,
    Course,
    arrivals,
    changes,
    course_of,
    past,
    rates,
    sliding_means,
    wanted_millicores,
)

AVAILABLE_MILLICORES = 1440
"""Of the node's allocatable 1800 without what agent and client request."""


@pytest.mark.parametrize("role", ROLES)
def test_a_seed_gives_the_same_hour_again(role: str) -> None:
    course, again = course_of(role, 3, 600), course_of(role, 3, 600)
    assert np.array_equal(course.cpu_millicores, again.cpu_millicores)
    assert np.array_equal(course.memory_mib, again.memory_mib)
    assert (course.cpu_millicores >= 0).all()
    assert course.cpu_millicores.shape == course.memory_mib.shape == (600,)


def test_another_seed_gives_another_hour_of_the_same_kind() -> None:
    course, other = course_of("bursts", 3, 3600), course_of("bursts", 4, 3600)
    assert not np.array_equal(course.cpu_millicores, other.cpu_millicores)
    assert course.cpu_millicores.mean() == pytest.approx(other.cpu_millicores.mean(), rel=0.4)


def test_clients_ask_as_often_as_the_wave_says() -> None:
    assert (rates(WAVE_SECONDS).min(), rates(WAVE_SECONDS).max()) == pytest.approx((LEAST_RATE, MOST_RATE), abs=0.01)
    sent = arrivals(1, 10 * WAVE_SECONDS)
    assert sent == sorted(sent)
    assert sent == arrivals(1, 10 * WAVE_SECONDS) != arrivals(2, 10 * WAVE_SECONDS)
    assert len(sent) == pytest.approx(rates(10 * WAVE_SECONDS).sum(), rel=0.05)
    at = Counter(int(moment) % WAVE_SECONDS // (WAVE_SECONDS // 4) for moment in sent)
    assert at[0] < at[1] > at[3]


def test_the_server_is_requested_too_little_and_the_others_too_much() -> None:
    def used(role: str) -> float:
        return float(course_of(role, 1, 3600).cpu_millicores.mean())

    requested = {role: millicores(spec.requests["cpu"]) for role, spec in ROLES.items()}
    assert used(SERVER) == pytest.approx((LEAST_RATE + MOST_RATE) / 2 * REQUEST_CPU_SECONDS * 1000, rel=0.05)
    assert requested[SERVER] < used(SERVER) / 2
    assert all(requested[role] > 2 * used(role) for role in ("bursts", "leak", "heap", "steady"))


def test_whatever_is_used_at_once_can_be_requested() -> None:
    def peak(role: str) -> float:
        return float(course_of(role, 1, 3600).cpu_millicores.max())

    asked = [min(peak(role), millicores(spec.annotations.get(MAX_CPU, "9"))) for role, spec in ROLES.items()]
    assert sum(asked) < sum(millicores(spec.requests["cpu"]) for spec in ROLES.values()) <= AVAILABLE_MILLICORES


def test_who_leaks_passes_its_limit_and_nobody_else_does() -> None:
    for role, spec in ROLES.items():
        most = course_of(role, 1, 3600).memory_mib.max() * MIB
        assert (most > bytes_of(spec.limits["memory"])) == (role == "leak") if spec.limits else True, role


def test_changes_are_those_alone() -> None:
    course = Course(cpu_millicores=np.array([1.0, 1.2, 2.0, 2.0, 2.0]), memory_mib=np.array([5.0, 5.0, 5.0, 5.0, 6.0]))
    assert changes(course) == [(0, 1, 5), (2, 2, 5), (4, 2, 6)]
    whole = course_of("batch", 1, 300)
    assert changes(whole)[0][0] == 0
    assert len(changes(whole)) < 20


def test_the_past_is_minutes_of_such_hours() -> None:
    minutes = past(1000, 120, seed=1, rate_window_seconds=60.0)
    assert [minute.unix_minute for minute in minutes] == [*range(1000, 1120)]
    heap = [*ROLES].index("heap")
    for minute in minutes:
        assert (minute.cpu_peak_millicores >= minute.cpu_usage_millicores).all()
        assert minute.working_set_bytes[heap] == HEAP_MIB * MIB
    assert Random("x").random() == Random("x").random()  # a text is a seed on any machine


def test_the_past_was_measured_by_rates_of_a_window() -> None:
    """What lasts for seconds is a share of a rate: an agent whose rates span a minute never saw the burst itself."""

    def peak(role: str, seconds: float) -> float:
        minutes = past(1000, 120, seed=1, rate_window_seconds=seconds)[5:]  # before them rates span what there is
        return float(max(minute.cpu_peak_millicores[[*ROLES].index(role)] for minute in minutes))

    assert peak("bursts", 1.0) == BURST_MILLICORES
    assert peak("bursts", 300.0) < peak("bursts", 60.0) < BURST_MILLICORES * 0.6
    assert peak("steady", 1.0) == pytest.approx(peak("steady", 60.0))


def test_sliding_means_span_what_there_is() -> None:
    means = sliding_means(np.array([[0.0, 4.0, 2.0, 2.0, 8.0]]), 2)
    assert means.tolist() == [[0.0, 2.0, 3.0, 2.0, 5.0]]


def test_each_arm_remembers_what_its_own_agent_would_have_measured() -> None:
    assert {arm: rate_window_seconds(arm) for arm in Arm} == dict.fromkeys(Arm, 60.0)


def test_what_a_limit_held_back_is_not_remembered() -> None:
    leak = [*ROLES].index("leak")
    most = max(minute.working_set_bytes[leak] for minute in past(1000, 60, seed=1, rate_window_seconds=60.0))
    assert most == bytes_of(ROLES["leak"].limits["memory"]) < course_of("leak", 2, 3600).memory_mib.max() * MIB


def test_what_is_wanted_is_that_of_the_seconds_asked_for() -> None:
    bursts = course_of("bursts", 1, 900).cpu_millicores
    assert wanted_millicores("bursts", 1, 600, 300) == pytest.approx(bursts[600:].mean())
    assert wanted_millicores(SERVER, 1, 240, 480) == pytest.approx(
        rates(720)[240:].mean() * REQUEST_CPU_SECONDS * 1000, rel=0.1
    )


def test_the_agent_costs_what_its_chart_requests() -> None:
    values = yaml.safe_load((REPOSITORY / "charts" / "plimsoll" / "values.yaml").read_text())
    assert values["agent"]["resources"]["requests"] == AGENT_REQUESTS


def test_settings_of_the_arms_are_taken() -> None:
    for arm, settings in SETTINGS.items():
        given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        assert main(["settings", "--in-force", *given]) == 0, arm
