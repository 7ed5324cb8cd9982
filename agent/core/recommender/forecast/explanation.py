"""What the policy ``forecast`` tells of one row's answer. Core, pure: it repeats figures and computes none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.core.cluster.resource import Resource
from agent.core.orders.policy_options import ForecastOptions
from agent.core.recommender.forecast.candidates import CandidateChoice
from agent.core.recommender.forecast.season import Season
from agent.core.recommender.other_nodes import (
    NEIGHBOUR_HOURS,
    say_kill_elsewhere,
    say_peak_elsewhere,
    say_week_elsewhere,
)
from agent.core.recommender.policy import Elsewhere, Narration, Proposals, Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastAccount:
    """All that went into one row's answer, and the answer; arrays have the shape ``(1,)``."""

    options: ForecastOptions
    choice: CandidateChoice
    looks: Mapping[int, float]
    """Largest demand of the last so many minutes, millicores."""
    levels: Mapping[Season, float]
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
    """Record how CPU and memory came about, in the order of the rule."""
    _explain_cpu(Narration(steps, Resource.CPU), account)
    _explain_memory(Narration(steps, Resource.MEMORY), account)


def _explain_cpu(narration: Narration, account: ForecastAccount) -> None:
    proposals = account.proposals
    narration.known(
        "base: percentile of the window",
        proposals.cpu_base_millicores,
        proposals.has_cpu,
        "PSI-adjusted where there is PSI",
        "not known, so there is no answer",
    )
    if account.measured_minutes:
        _explain_levels(narration, account)
        _explain_choice(narration, account)
    else:
        nothing = "nothing to forecast from: the base, which may only raise"
        narration.say("minutes measured", 0.0, nothing, unit="samples")
    if account.cpu_elsewhere_millicores is not None:
        say_peak_elsewhere(narration, account.cpu_elsewhere_millicores, NEIGHBOUR_HOURS)
    if proposals.has_cpu[0]:
        request = float(proposals.cpu_request_millicores[0])
        narration.say("request", request, _request_note(request, account))


def _request_note(request: float, account: ForecastAccount) -> str:
    if request == account.wanted_millicores:
        return "what the candidate asks for"
    return "what other nodes saw" if request == account.cpu_elsewhere_millicores else "the base, which is larger"


def _explain_levels(narration: Narration, account: ForecastAccount) -> None:
    for minutes, largest in account.looks.items():
        narration.say(f"largest of the last {minutes} min", largest, "PSI-adjusted peaks")
    for season, level in account.levels.items():
        note = "maxima of UTC hours, seven days" if level else "not measured"
        narration.say(f"season: {season.words}", level or None, note)


def _explain_choice(narration: Narration, account: ForecastAccount) -> None:
    choice, aim = account.choice, f"{account.options.exceed_ratio:g}"
    peaks = f"the rule of peaks {choice.week_exceeded_by_peaks}"
    narration.say(
        "share of minutes over the answer, seven days",
        choice.week_exceeded / choice.week_minutes if choice.week_minutes else None,
        f"{choice.week_exceeded} of {choice.week_minutes} minutes, {peaks}; the aim is {aim}",
        unit="ratio",
    )
    compared = ", and not more than the rule of peaks, which was safer" if choice.is_compared else ""
    allowed = f"{aim} x e^-{choice.strictness:.3g}{compared}"
    narration.say("share allowed to a candidate", choice.allowed_ratio, allowed, unit="ratio")
    judged = "minutes that candidates are judged by, newer ones more"
    narration.say("record", choice.minutes, judged, unit="samples")
    narration.say("candidate's share", choice.exceeded_ratio, _standing(choice), unit="ratio")
    narration.say("candidate's slack", choice.slack_millicores, "mean of the record")
    narration.say("candidate's margin", choice.margin, "x the larger of its two levels", unit="ratio")
    answer = f"last {choice.look_minutes} min, {choice.season.words}"
    narration.say("candidate's answer", account.wanted_millicores, answer)


def _standing(choice: CandidateChoice) -> str:
    if choice.is_within:
        return "the cheapest candidate within the allowed share"
    if choice.is_learning:
        return "too few minutes to tell: the most generous candidate"
    return "no candidate keeps the allowed share: the one with the fewest minutes over"


def _explain_memory(narration: Narration, account: ForecastAccount) -> None:
    proposals = account.proposals
    week, oom = account.week_bytes, account.oom_bytes
    narration.say("largest of seven days", week, "by whole UTC hours" if week is not None else "no minute measured")
    aim = f"the aim is {account.options.exceed_ratio:g}"
    margin_note = f"1 % for each minute that needed more, less when there is none; {aim}"
    narration.say("margin above it", account.memory_margin, margin_note, unit="ratio")
    say_week_elsewhere(narration, account.elsewhere)
    narration.say("out-of-memory memory", oom, "" if oom is not None else "no kill with a figure")
    say_kill_elsewhere(narration, account.elsewhere)
    if not proposals.has_memory[0]:
        narration.say("base", None, "not known, so there is no answer")
        return
    narration.first("base", proposals.memory_base_bytes, "percentile of the window, or the kill")
    narration.first("request", proposals.memory_request_bytes, "largest of these, with its margin")
    narration.known(
        "limit",
        proposals.memory_limit_bytes,
        proposals.has_memory_limit,
        "2 x the larger of seven days and out-of-memory memory",
        "nothing to set one by; one that is there stays, or is raised to the request",
    )
