"""Scraped series to hours of workloads: which hour a sample is of, how much it weighs, whose it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.imported import ImportedKill
from agent.core.history.workloads.scraped_hours import PodContainer, ScrapedNamespace, ScrapedSeries, hours_of

pytestmark = pytest.mark.covers_core
WEB = Workload(namespace="shop", kind="Deployment", name="web")
HOUR = 500_000
START = HOUR * 3600
ONE, OTHER = PodContainer("web-1", "app"), PodContainer("web-2", "app")
OWNERS = {"web-1": WEB, "web-2": WEB}


def series(values: list[float], *, first: int = START + 60) -> ScrapedSeries:
    return ScrapedSeries(first + 60 * np.arange(len(values), dtype=np.int64), np.array(values))


def scraped(**changes: Any) -> ScrapedNamespace:
    fields: dict[str, Any] = {
        "step_seconds": 60,
        "cpu_cores": {ONE: series([0.1] * 60)},
        "waiting_ratio": {},
        "throttled_ratio": {},
        "memory_bytes": {ONE: series([1e8] * 60)},
        "kill_seconds": {},
        "limit_bytes": {},
    }
    return ScrapedNamespace(**{**fields, **changes})


def test_an_hour_weighs_as_much_as_one_of_an_agent() -> None:
    [hour] = hours_of(scraped(), OWNERS)
    assert (hour.workload, hour.container, hour.unix_hour, hour.pods) == (WEB, "app", HOUR, 1)
    assert hour.covered_seconds == 3600.0
    assert hour.cpu is not None
    # One sample a second of CPU, one in ten seconds of memory.
    assert hour.cpu.count == sum(hour.cpu.buckets.values()) == 3600
    assert hour.cpu.max == pytest.approx(100.0)
    assert hour.cpu.sum == pytest.approx(360_000.0)
    assert hour.memory is not None
    assert hour.memory.count == 360
    assert hour.cpu_adjusted is None


def test_a_sample_belongs_to_the_hour_of_the_time_before_it() -> None:
    """The one at the full hour ends the hour before."""
    hours = hours_of(scraped(cpu_cores={ONE: series([0.1] * 61)}, memory_bytes={}), OWNERS)
    assert [(hour.unix_hour, hour.covered_seconds) for hour in hours] == [(HOUR, 3600.0), (HOUR + 1, 60.0)]
    assert hours[0].memory is None


def test_pods_of_one_workload_come_together_and_those_of_nobody_are_left_out() -> None:
    stranger = PodContainer("nobody", "app")
    hours = hours_of(
        scraped(
            cpu_cores={ONE: series([0.1]), OTHER: series([0.3]), stranger: series([9.0])},
            memory_bytes={OTHER: series([1e8]), PodContainer("web-1", "side"): series([1e6]), stranger: series([1e9])},
            kill_seconds={stranger: (START + 60,)},
        ),
        OWNERS,
    )
    app, side = hours
    assert (app.container, app.pods, app.covered_seconds) == ("app", 2, 120.0)
    assert app.cpu is not None
    assert app.cpu.max == pytest.approx(300.0)
    assert (side.container, side.pods, side.cpu) == ("side", 1, None)
    assert hours_of(scraped(cpu_cores={ONE: series([])}, memory_bytes={}), OWNERS) == []


def test_waiting_raises_demand_but_for_what_the_own_limit_held_back() -> None:
    """0.2 cores, waiting 0.5 of which 0.25 is the limit's: 250m; without a figure for a minute as measured."""
    scrape = scraped(
        cpu_cores={ONE: series([0.2, 0.2, 0.2]), OTHER: series([0.1])},
        waiting_ratio={ONE: series([0.5, 3.0], first=START + 60)},
        throttled_ratio={ONE: series([0.25])},
        memory_bytes={},
    )
    [hour] = hours_of(scrape, OWNERS)
    assert hour.cpu_adjusted is not None
    assert hour.cpu is not None
    # 250 and (waiting is never above all the time) 400, 200, and 100 of the other pod.
    assert hour.cpu_adjusted.sum == pytest.approx(60 * (250 + 400 + 200 + 100))
    assert hour.cpu.sum == pytest.approx(60 * 700)
    [bare] = hours_of(scraped(waiting_ratio={ONE: series([0.5] * 60)}, throttled_ratio={ONE: series([])}), OWNERS)
    assert bare.cpu_adjusted is not None
    assert bare.cpu_adjusted.max == pytest.approx(150.0)


def test_a_kill_has_the_limit_else_the_most_that_was_seen() -> None:
    def kills(**changes: Any) -> tuple[ImportedKill, ...]:
        [hour] = hours_of(scraped(kill_seconds={ONE: (START + 600,)}, **changes), OWNERS)
        return hour.kills

    assert kills(limit_bytes={ONE: 1 << 30}) == (ImportedKill(second=599.0, memory_bytes=1 << 30),)
    assert kills()[0].memory_bytes == 100_000_000
    assert kills(memory_bytes={})[0].memory_bytes is None
    assert kills(memory_bytes={ONE: series([0.0])})[0].memory_bytes is None
    late = hours_of(scraped(kill_seconds={ONE: (START + 7200,)}), OWNERS)
    assert [hour.kills for hour in late] == [()]


def test_of_a_kill_in_an_hour_without_memory_no_figure_is_known() -> None:
    both = scraped(memory_bytes={ONE: series([1e8], first=START + 3660)}, kill_seconds={ONE: (START + 600,)})
    assert [[kill.memory_bytes for kill in hour.kills] for hour in hours_of(both, OWNERS)] == [[None], []]


def test_no_more_kills_than_a_report_may_tell_of() -> None:
    many = tuple(START + 1 + second for second in range(150))
    [hour] = hours_of(scraped(kill_seconds={ONE: many}), OWNERS)
    assert len(hour.kills) == 100
