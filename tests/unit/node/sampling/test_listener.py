"""What the sampling thread tells: kills with their blame, turns that failed."""

from __future__ import annotations

import pytest

from agent.metrics.agent_series import Metrics
from agent.node.sampling.listener import Listener, Tally
from agent.sensing.memory_events import OomKill


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(version="0", commit="", sampler="native")


def value(metrics: Metrics, series: str) -> float:
    for line in metrics.page().body.decode().splitlines():
        if line.startswith(f"{series} "):
            return float(line.rpartition(" ")[2])
    raise AssertionError(series)


@pytest.mark.parametrize("is_blamed", [True, False])
def test_a_kill_is_counted_with_what_may_be_to_blame(metrics: Metrics, is_blamed: bool) -> None:
    heard: list[OomKill] = []

    def on_kill(kill: OomKill) -> bool:
        heard.append(kill)
        return is_blamed

    kill = OomKill(path="/kubepods/pod1/app", kills=3, monotonic_ns=1)
    Listener(metrics, Tally(), on_kill).killed(kill)
    assert heard == [kill]
    counts = {
        said: value(metrics, f'plimsoll_oom_kills_total{{resized_recently="{said}"}}') for said in ("true", "false")
    }
    assert counts == {"true": 3.0 * is_blamed, "false": 3.0 * (not is_blamed)}


def test_a_turn_of_sampling_that_failed_is_counted(metrics: Metrics) -> None:
    listener = Listener(metrics, Tally(), lambda _: False)
    assert value(metrics, 'plimsoll_loop_failures_total{loop="sampling"}') == 0
    listener.failed(ValueError("no"))
    assert value(metrics, 'plimsoll_loop_failures_total{loop="sampling"}') == 1
