"""Figures of a simulation in words, and which policy is best in each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.cli.simulate.text import (
    FIGURES,
    TableLine,
    amount_text,
    comparison_lines,
    front_text,
    rate_text,
    ratio_text,
    series_lines,
)
from agent.cli.text.spans import Tone
from agent.core.orders.policy_options import BoundsOptions
from agent.core.recommender.simulation.figures import PolicyTotal, total
from agent.core.recommender.simulation.replay import ReplayRules, simulate
from tests.traces import FixedPolicy, trace_of


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.0004, "<0.001"),
        (0.0123, "0.012"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (12345.6, "12,346"),
    ],
)
def test_amount_has_three_digits_that_count(amount: float | None, text: str) -> None:
    assert amount_text(amount) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, "-"), (0.0, "0"), (0.00001, "<0.0001"), (0.00046, "0.0005"), (0.0143, "0.0143"), (1.9712, "1.971")],
)
def test_ratio_has_three_digits_or_four_places(ratio: float | None, text: str) -> None:
    assert ratio_text(ratio) == text


@pytest.mark.parametrize(("rate", "text"), [(None, "-"), (0.0, "0.0"), (0.01, "<0.1"), (5.35, "5.3"), (28.0, "28.0")])
def test_rate_has_one_place(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text


def test_front_names_nobody_where_there_is_no_choice() -> None:
    assert front_text(totals_of(300)) is None
    assert front_text(totals_of(None, None)) is None
    front = front_text(totals_of(50, 300))
    assert front is not None
    assert front.endswith("than: fixed, fixed")


def test_series_are_cut_to_those_that_used_most_and_long_names_to_their_ends() -> None:
    trace = trace_of(cpu=[[100 + row] * 60 for row in range(12)])
    trace = replace(trace, containers=tuple(f"{'n' * 50}{row}" for row in range(12)))
    outcome = simulate(trace, FixedPolicy(12, cpu=200), BoundsOptions(), ReplayRules(min_span_seconds=0))
    lines = ["".join(span.text for span in line) for line in series_lines([outcome])]
    assert lines[0] == "CPU of each container, the 10 of 12 that used most (--csv has all)"
    assert len(lines) == 2 + 10
    assert lines[2].split()[0] == "..." + "n" * 35 + "11"
    assert max(map(len, lines)) <= 120


def totals_of(*requests: int | None) -> list[PolicyTotal]:
    trace = trace_of(cpu=[[100] * 60])
    rules = ReplayRules(min_span_seconds=0)
    return [total((simulate(trace, FixedPolicy(cpu=request), BoundsOptions(), rules),)) for request in requests]


def figure(title: str) -> TableLine:
    return next(line for line in FIGURES["CPU"] if line.title == title)


def test_best_has_the_smallest_value() -> None:
    totals = totals_of(300, 100, 200)
    assert figure("slack, core-hours").best(totals) == {1}


def test_best_is_shared_and_is_nobody_when_all_are_equal() -> None:
    assert figure("under-requested, minutes").best(totals_of(300, 50, 200)) == {0, 2}
    assert figure("under-requested, minutes").best(totals_of(300, 200)) == frozenset()


def test_best_passes_over_those_without_a_value_and_figures_that_are_no_merit() -> None:
    totals = totals_of(None, 200)
    assert figure("slack of requested").best(totals) == {1}
    assert figure("unsized, minutes").best(totals) == frozenset()


def test_lines_accent_the_best_and_leave_out_what_the_traces_do_not_tell() -> None:
    lines = comparison_lines(totals_of(300, 100))
    titles = [line[0].text for line in lines]
    assert "CPU" in titles
    assert "Memory" not in titles
    slack = next(line for line in lines if line[0].text.startswith("  slack, core-hours"))
    assert [span.tone for span in slack[1:]] == [Tone.PLAIN, Tone.ACCENT]
