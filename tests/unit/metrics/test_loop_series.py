"""The series of loops: what fails is counted, what hangs grows old."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from agent.metrics.loop_series import LoopSeries


def values(series: LoopSeries) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(series)
    lines = generate_latest(registry).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs if not name.partition("{")[0].endswith("_created")}


def test_a_loop_is_on_the_page_once_it_began_and_grows_old_while_it_hangs() -> None:
    now = [100.0]
    series = LoopSeries(lambda: now[0])
    assert values(series) == {}
    turns = series.begin("acting")
    now[0] = 130.0
    assert values(series) == {
        'plimsoll_loop_failures_total{loop="acting"}': 0.0,
        'plimsoll_loop_turn_age_seconds{loop="acting"}': 30.0,
    }
    turns.done()
    assert values(series)['plimsoll_loop_turn_age_seconds{loop="acting"}'] == 0.0


def test_a_failed_turn_is_counted_and_has_ended() -> None:
    now = [0.0]
    series = LoopSeries(lambda: now[0])
    series.begin("report")
    now[0] = 7.0
    series.begin("acting").failed()
    assert series.begin("acting") is series.begin("acting")
    assert values(series) == {
        'plimsoll_loop_failures_total{loop="acting"}': 1.0,
        'plimsoll_loop_failures_total{loop="report"}': 0.0,
        'plimsoll_loop_turn_age_seconds{loop="acting"}': 0.0,
        'plimsoll_loop_turn_age_seconds{loop="report"}': 7.0,
    }
