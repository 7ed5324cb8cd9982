"""``plimsoll`` against ``cruise`` on the traces of tests/data/traces, through the product's simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pytest

from agent.cli.simulate.trace_files import load_trace
from agent.core.orders.policy_options import BoundsOptions, CruiseOptions, SizingOptions
from agent.core.recommender.cruise.policy import CruisePolicy
from agent.core.recommender.plimsoll.policy import PlimsollPolicy
from agent.core.recommender.policy import Policy
from agent.core.recommender.simulation.figures import SimulatedOutcome
from agent.core.recommender.simulation.replay import ReplayRules, simulate
from agent.core.recommender.simulation.trace import TraceSet
from tests.generated_traces import DIRECTORY, FILES, load, trace

pytestmark = pytest.mark.slow

HOURLY: Final = ReplayRules(decision_interval_seconds=3600.0)


@dataclass(frozen=True, slots=True)
class Three:
    """``cruise``, and ``plimsoll`` at two prices, on one trace."""

    trace: TraceSet
    cruise: SimulatedOutcome
    balanced: SimulatedOutcome
    lean: SimulatedOutcome


def _outcome(replayed: TraceSet, policy: Policy) -> SimulatedOutcome:
    return simulate(replayed, policy, BoundsOptions(), HOURLY)


@pytest.fixture(scope="module", params=sorted(FILES))
def three(request: pytest.FixtureRequest) -> Three:
    replayed = load_trace(DIRECTORY / str(request.param))
    rows = len(replayed.containers)
    return Three(
        replayed,
        _outcome(replayed, CruisePolicy(CruiseOptions(), rows)),
        _outcome(replayed, PlimsollPolicy(SizingOptions(), rows)),
        _outcome(replayed, PlimsollPolicy(SizingOptions(price=10.0), rows)),
    )


@pytest.mark.parametrize("file", sorted(FILES))
def test_generated_files_hold_what_their_recipes_give(file: str) -> None:
    recipes, days = FILES[file]
    recipe_trace = trace({recipe: load(recipe, days=days) for recipe in recipes})
    read = load_trace(DIRECTORY / file)
    assert read.containers == recipe_trace.containers
    assert read.start_unix_minute == recipe_trace.start_unix_minute
    # An exponential may differ in its last bit between machines, and so a millicore in its rounding.
    assert np.abs(read.cpu_millicores - recipe_trace.cpu_millicores).max() <= 1.0
    assert (read.memory_bytes == recipe_trace.memory_bytes).all() or np.allclose(
        read.memory_bytes, recipe_trace.memory_bytes, rtol=1e-9
    )
    if read.psi is not None and recipe_trace.psi is not None:
        assert np.allclose(read.psi, recipe_trace.psi, atol=1.1e-3)


def test_balanced_is_short_in_fewer_minutes_and_less_deep_than_cruise(three: Three) -> None:
    cruise, balanced = three.cruise.cpu, three.balanced.cpu
    assert (balanced.under_minutes <= cruise.under_minutes).all()
    assert (balanced.missing_amount_hours <= cruise.missing_amount_hours).all()


def test_lean_has_less_slack_than_balanced(three: Three) -> None:
    assert (three.lean.cpu.unused_amount_hours <= three.balanced.cpu.unused_amount_hours).all()
    assert three.lean.cpu.unused_amount_hours.sum() < 0.9 * three.balanced.cpu.unused_amount_hours.sum()


def test_memory_is_under_requested_less_often_and_costs_little_more_than_the_least_margin(three: Three) -> None:
    cruise, balanced = three.cruise.memory, three.balanced.memory
    assert (balanced.under_minutes <= cruise.under_minutes).all()
    assert three.balanced.memory_limit.kills.sum() == 0
    assert (balanced.unused_amount_hours - cruise.unused_amount_hours <= 0.06 * balanced.used_amount_hours).all()
