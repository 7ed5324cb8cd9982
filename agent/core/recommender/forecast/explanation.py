"""What the policy ``forecast`` tells of one row's answer. Core, pure: it repeats figures and computes none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.core.orders.policy_options import ForecastOptions
from agent.core.recommender.forecast.candidates import CandidateChoice
from agent.core.recommender.forecast.season import Season
from agent.core.recommender.other_nodes import (
    NEIGHBOUR_HOURS,
    say_kill_elsewhere,
    say_peak_elsewhere,
    say_week_elsewhere,
)
from agent.core.recommender.policy import Elsewhere, Proposals, Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastAccount:
    """All that went into one row's answer, and the answer; arrays have the shape ``(1,)``."""

    options: ForecastOptions
    choice: CandidateChoice
    looks: Mapping[int, float]
    """Largest demand of the last so many minutes, millicores."""
    levels: Mapping[Season, float]
    """Of the seasons, millicores."""
    wanted_millicores: float
    """What the chosen candidate asks for."""
    measured_minutes: int
    """Of all time: since the row stands for this container."""
    week_bytes: float | None
    """Maximum of seven days; None = not measured."""
    memory_margin: float
    """As a share of it."""
    oom_bytes: float | None
    """Of out-of-memory kills on this node; None = none counts."""
    elsewhere: Elsewhere | None
    """None = nothing is known of other nodes."""
    cpu_elsewhere_millicores: float | None
    """Largest at this hour of the day on other nodes; None = none counts."""
    proposals: Proposals


def explain(steps: Steps, account: ForecastAccount) -> None:
    """Say how CPU and memory came about, in the order of the rule."""
    has_cpu = bool(account.proposals.has_cpu[0])
    steps.say(
        "cpu",
        "base: percentile of the window",
        float(account.proposals.cpu_base_millicores[0]) if has_cpu else None,
        "millicores",
        "PSI-adjusted where there is PSI" if has_cpu else "not known, so there is no answer",
    )
    if account.measured_minutes:
        _explain_levels(steps, account)
        _explain_choice(steps, account)
    else:
        steps.say("cpu", "minutes measured", 0.0, "samples", "nothing to forecast from: the base, which may only raise")
    if account.cpu_elsewhere_millicores is not None:
        say_peak_elsewhere(steps, "cpu", account.cpu_elsewhere_millicores, "millicores", NEIGHBOUR_HOURS)
    if has_cpu:
        request = float(account.proposals.cpu_request_millicores[0])
        steps.say("cpu", "request", request, "millicores", _request_note(request, account))
    _explain_memory(steps, account)


def _request_note(request: float, account: ForecastAccount) -> str:
    if request == account.wanted_millicores:
        return "what the candidate asks for"
    return "what other nodes saw" if request == account.cpu_elsewhere_millicores else "the base, which is larger"


def _explain_levels(steps: Steps, account: ForecastAccount) -> None:
    for minutes, largest in account.looks.items():
        steps.say("cpu", f"largest of the last {minutes} min", largest, "millicores", "PSI-adjusted peaks")
    for season, level in account.levels.items():
        note = "maxima of UTC hours, seven days" if level else "not measured"
        steps.say("cpu", f"season: {season.words}", level if level else None, "millicores", note)


def _explain_choice(steps: Steps, account: ForecastAccount) -> None:
    choice, options = account.choice, account.options
    peaks = f"the rule of peaks {choice.week_exceeded_by_peaks}"
    steps.say(
        "cpu",
        "share of minutes over the answer, seven days",
        choice.week_exceeded / choice.week_minutes if choice.week_minutes else None,
        "ratio",
        f"{choice.week_exceeded} of {choice.week_minutes} minutes, {peaks}; the aim is {options.exceed_ratio:g}",
    )
    steps.say(
        "cpu",
        "share allowed to a candidate",
        choice.allowed_ratio,
        "ratio",
        f"{options.exceed_ratio:g} x e^-{choice.strictness:.3g}"
        + (", and not more than the rule of peaks, which was safer" if choice.is_compared else ""),
    )
    steps.say("cpu", "record", choice.minutes, "samples", "minutes that candidates are judged by, newer ones more")
    steps.say("cpu", "candidate's share", choice.exceeded_ratio, "ratio", _standing(choice))
    steps.say("cpu", "candidate's slack", choice.slack_millicores, "millicores", "mean of the record")
    steps.say("cpu", "candidate's margin", choice.margin, "ratio", "x the larger of its two levels")
    steps.say(
        "cpu",
        "candidate's answer",
        account.wanted_millicores,
        "millicores",
        f"last {choice.look_minutes} min, {choice.season.words}",
    )


def _standing(choice: CandidateChoice) -> str:
    if choice.is_within:
        return "the cheapest candidate within the allowed share"
    if choice.is_learning:
        return "too few minutes to tell: the most generous candidate"
    return "no candidate keeps the allowed share: the one with the fewest minutes over"


def _explain_memory(steps: Steps, account: ForecastAccount) -> None:
    proposals = account.proposals
    week, oom = account.week_bytes, account.oom_bytes
    steps.say(
        "memory",
        "largest of seven days",
        week,
        "bytes",
        "by whole UTC hours" if week is not None else "no minute measured",
    )
    steps.say(
        "memory",
        "margin above it",
        account.memory_margin,
        "ratio",
        f"1 % for each minute that needed more, less when there is none; the aim is {account.options.exceed_ratio:g}",
    )
    say_week_elsewhere(steps, account.elsewhere)
    steps.say("memory", "out-of-memory memory", oom, "bytes", "" if oom is not None else "no kill with a figure")
    say_kill_elsewhere(steps, account.elsewhere)
    if not proposals.has_memory[0]:
        steps.say("memory", "base", None, "bytes", "not known, so there is no answer")
        return
    steps.say("memory", "base", float(proposals.memory_base_bytes[0]), "bytes", "percentile of the window, or the kill")
    steps.say(
        "memory", "request", float(proposals.memory_request_bytes[0]), "bytes", "largest of these, with its margin"
    )
    has_limit = bool(proposals.has_memory_limit[0])
    steps.say(
        "memory",
        "limit",
        float(proposals.memory_limit_bytes[0]) if has_limit else None,
        "bytes",
        "2 x the larger of seven days and out-of-memory memory"
        if has_limit
        else "nothing to set one by; one that is there stays, or is raised to the request",
    )
