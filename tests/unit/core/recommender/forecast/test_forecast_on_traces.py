"""``forecast`` against ``cruise`` on the traces of tests/data/traces, through the product's simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pytest

from agent.cli.simulate.trace_files import load_trace
from agent.core.orders.policy_options import BoundsOptions, CruiseOptions, ForecastOptions
from agent.core.recommender.cruise.policy import CruisePolicy
from agent.core.recommender.forecast.policy import ForecastPolicy
from agent.core.recommender.policy import Policy
from agent.core.recommender.simulation.figures import SimulatedOutcome
from agent.core.recommender.simulation.replay import ReplayRules, simulate
from agent.core.recommender.simulation.trace import TraceSet
from tests.generated_traces import DIRECTORY, FILES, load, trace

pytestmark = pytest.mark.slow

TOO_SMALL: Final = "growing-memory"
"""50 millicores, of which the bounds' smallest change of 10 is a fifth: what is in force is more their doing than any
policy's. Forecast's slack is no less there, 0.02 cores against 0.018."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Both policies on one trace."""

    trace: TraceSet
    cruise: SimulatedOutcome
    forecast: SimulatedOutcome


def _outcome(replayed: TraceSet, policy: Policy) -> SimulatedOutcome:
    return simulate(replayed, policy, BoundsOptions(), ReplayRules())


@pytest.fixture(scope="module", params=sorted(FILES))
def pair(request: pytest.FixtureRequest) -> Pair:
    replayed = load_trace(DIRECTORY / str(request.param))
    rows = len(replayed.containers)
    return Pair(
        replayed,
        _outcome(replayed, CruisePolicy(CruiseOptions(), rows)),
        _outcome(replayed, ForecastPolicy(ForecastOptions(), rows)),
    )


@pytest.mark.parametrize("file", sorted(FILES))
def test_generated_files_hold_what_their_recipes_give(file: str) -> None:
    recipes, days = FILES[file]
    made = trace({recipe: load(recipe, days=days) for recipe in recipes})
    read = load_trace(DIRECTORY / file)
    assert read.containers == made.containers
    assert read.start_unix_minute == made.start_unix_minute
    # An exponential may differ in its last bit between machines, and so a millicore in its rounding.
    assert np.abs(read.cpu_millicores - made.cpu_millicores).max() <= 1.0
    assert (read.memory_bytes == made.memory_bytes).all() or np.allclose(
        read.memory_bytes, made.memory_bytes, rtol=1e-9
    )
    if read.psi is not None and made.psi is not None:
        assert np.allclose(read.psi, made.psi, atol=1.1e-3)


def test_forecast_has_less_cpu_slack_than_cruise_at_no_more_minutes_under_requested(pair: Pair) -> None:
    cruise, forecast = pair.cruise.cpu, pair.forecast.cpu
    assert forecast.unused_amount_hours.sum() < cruise.unused_amount_hours.sum()
    assert forecast.under_minutes.sum() <= cruise.under_minutes.sum()
    for row, name in enumerate(pair.trace.containers):
        assert forecast.under_minutes[row] <= cruise.under_minutes[row]
        if name != TOO_SMALL:
            assert forecast.unused_amount_hours[row] < cruise.unused_amount_hours[row]


def test_forecast_leaves_no_more_than_the_stated_share_under_requested(pair: Pair) -> None:
    cpu = pair.forecast.cpu
    sized = cpu.known_minutes - cpu.unsized_minutes
    assert (cpu.under_minutes <= 0.005 * sized).all()


def test_forecast_memory_is_never_asked_for_below_the_peak_and_under_requested_less_often(pair: Pair) -> None:
    cruise, forecast = pair.cruise.memory, pair.forecast.memory
    assert (forecast.under_minutes <= cruise.under_minutes).all()
    assert pair.forecast.memory_limit.kills.sum() == 0
    # The price of never falling below the peak: slack, here at most what the margin of 10 % can cost.
    assert (forecast.unused_amount_hours - cruise.unused_amount_hours <= 0.1 * forecast.used_amount_hours).all()
