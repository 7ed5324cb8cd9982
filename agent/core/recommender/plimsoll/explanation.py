"""What the policy ``plimsoll`` tells of one row's answer. Core, pure: it repeats figures and reads them off hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from agent.core.cluster.resource import Resource
from agent.core.history.workloads.hour_peaks import HOUR_SECONDS
from agent.core.numbers.arrays import Floats
from agent.core.orders.policy_options import SizingOptions
from agent.core.recommender.credit import CPU_FULL_PRICE
from agent.core.recommender.other_nodes import (
    NEIGHBOUR_HOURS,
    say_kill_elsewhere,
    say_peak_elsewhere,
    say_week_elsewhere,
)
from agent.core.recommender.plimsoll.dead_band import FALL_RATIO
from agent.core.recommender.plimsoll.demand import BASE_SHARE, ExpectedDemand, HourBeginning, Price
from agent.core.recommender.plimsoll.likeness import FORMER_IMAGE
from agent.core.recommender.plimsoll.memory_drift import LEAST_MARGIN, MOST_MARGIN, margin_of
from agent.core.recommender.plimsoll.price import level_of_share, share_above
from agent.core.recommender.policy import Elsewhere, Narration, Proposals, Steps

LIKE_RATIO: Final = 0.1
"""An hour is called like this one from this share of the likest one's weight on."""
TOLD_HOURS: Final = 5
"""The likest hours that are named."""
NINE_IN_TEN: Final = 0.9
_CONFIDENCES: Final = ((5.0, "good"), (1.0, "fair"), (0.0, "low"))
"""From how many hours just like this one on it is called so."""
_PRICE_SETTINGS: Final = {Price.FULL: "sizing.price", Price.IN_PLACE: "sizing.priceInPlace"}
_LOOK_WORDS: Final = (
    "largest of the 15 min before",
    "largest of the hour before",
    "largest of the six hours before",
    "usual of the twelve hours before",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlimsollAccount:
    """All that went into one row's answer, and the answer; arrays have the shape ``(1,)``."""

    options: SizingOptions
    price: Price
    demand: ExpectedDemand
    beginning: HourBeginning
    cpu_window_millicores: Floats
    """Percentile of the window."""
    cpu_elsewhere_millicores: float | None
    """Largest at this hour of the day on other nodes; None = none counts."""
    week_bytes: float | None
    """Maximum of seven days; None = not measured."""
    growth: float
    """Of the largest within an hour, faded, as a share of it."""
    oom_bytes: float | None
    """Of out-of-memory kills on this node; None = none counts."""
    elsewhere: Elsewhere | None
    """None = nothing is known of other nodes."""
    proposals: Proposals


def explain(steps: Steps, account: PlimsollAccount) -> None:
    """Record how CPU and memory came about, in the order of the rule."""
    _explain_cpu(steps, Narration(steps, Resource.CPU), account)
    _explain_memory(Narration(steps, Resource.MEMORY), account)


def _explain_cpu(steps: Steps, narration: Narration, account: PlimsollAccount) -> None:
    proposals, demand = account.proposals, account.demand
    narration.known(
        "percentile of the window",
        account.cpu_window_millicores,
        proposals.has_cpu,
        "PSI-adjusted where there is PSI",
        "not known, so there is no answer",
    )
    if demand.known_minutes[0]:
        _explain_beginning(narration, account)
        _explain_hours(steps, narration, account)
        _explain_answer(narration, account)
    else:
        narration.say("minutes measured", 0.0, "nothing to go by: the base, which may only raise", unit="samples")
    if proposals.has_cpu[0]:
        base = float(proposals.cpu_base_millicores[0])
        is_window = base == account.cpu_window_millicores[0]
        note = "percentile of the window" if is_window else "what three in four minutes of such hours stayed within"
        narration.say("base", base, f"{note}: what is sustained, in the node's plan")
    if account.cpu_elsewhere_millicores is not None:
        say_peak_elsewhere(narration, account.cpu_elsewhere_millicores, NEIGHBOUR_HOURS)
    if proposals.has_cpu[0]:
        request = float(proposals.cpu_request_millicores[0])
        narration.say("request", request, _request_note(request, account))
        if account.price is Price.IN_PLACE:
            _explain_credit(narration, request, account)


def _explain_beginning(narration: Narration, account: PlimsollAccount) -> None:
    """Record how things looked when the hour began."""
    began = _utc(account.beginning.hour, "%H:%M UTC")
    if not account.beginning.has_looks:
        narration.say("the hour before", None, f"nothing was measured in it when the hour began at {began}")
        return
    *largest, usual = zip(_LOOK_WORDS, account.beginning.looks, strict=True)
    for words, look in largest:
        narration.say(words, look, f"PSI-adjusted peaks of minutes, when the hour began at {began}")
    narration.say(*usual, "what half of an hour's minutes stayed within, in the median hour")


def _explain_hours(steps: Steps, narration: Narration, account: PlimsollAccount) -> None:
    """Record how many past hours are like this one, which, and what their minutes stayed within."""
    beginning = account.beginning
    weights, levels, masses = beginning.likeness, beginning.levels, beginning.masses
    known = int(np.count_nonzero(weights))
    if not known:
        narration.say("hours like this one", 0.0, "none is over yet: the largest of the last 60 min stands", unit="")
        return
    like = int(np.count_nonzero(weights >= LIKE_RATIO * weights.max()))
    likest = beginning.hours[np.argsort(-weights, kind="stable")[: min(TOLD_HOURS, known)]].tolist()
    steps.hours = sorted(hour * HOUR_SECONDS for hour in likest)
    named = ", ".join(_utc(hour, "%a %H:%M") for hour in likest)
    narration.say("hours like this one", like, f"of {known} past hours; the likest: {named} UTC", unit="")
    worth = float(weights.sum())
    narration.say("confidence", worth, f"{_confidence(worth)}: what they count; one just like this is 1", unit="")
    if beginning.image_since_hour is not None:
        since = _utc(beginning.image_since_hour, "%a %H:%M")
        narration.say("another image since", None, f"{since} UTC: each hour before counts {FORMER_IMAGE:g}")
    largest = narration.text(float(levels[masses > 0].max()))
    narration.say(
        "three in four of their minutes stayed within",
        level_of_share(levels, masses, BASE_SHARE),
        "each hour counts as much as it is like this one",
    )
    narration.say(
        "nine in ten of their minutes stayed within",
        level_of_share(levels, masses, NINE_IN_TEN),
        f"the largest of all was {largest}",
    )
    cheapest = beginning.cheapest_millicores
    narration.say(
        "cheapest level",
        cheapest,
        f"being short costs {account.options.prices[account.price]:g} x being idle ({_PRICE_SETTINGS[account.price]}); "
        f"{share_above(levels, masses, cheapest):.2%} of their minutes were above",
    )


def _confidence(worth: float) -> str:
    return next(word for least, word in _CONFIDENCES if worth >= least)


def _utc(hour: int, form: str) -> str:
    return datetime.fromtimestamp(hour * HOUR_SECONDS, UTC).strftime(form)


def _explain_answer(narration: Narration, account: PlimsollAccount) -> None:
    """Record what became of the cheapest level before it was the answer."""
    beginning, demand = account.beginning, account.demand
    now = float(demand.answer_millicores[account.price, 0])
    if not np.count_nonzero(beginning.likeness):
        narration.say("answer", now, "the largest of the last 60 min, while no hour is over")
        return
    quarter, answer, begun = (
        beginning.looks[0],
        beginning.answer_millicores,
        float(demand.begun_millicores[account.price, 0]),
    )
    wanted = max(beginning.cheapest_millicores, quarter)
    if answer == wanted:
        note = "the 15 min before, which are above it" if quarter > beginning.cheapest_millicores else "that level"
    elif answer == beginning.before_millicores:
        note = f"as in the hour before: {narration.text(wanted)} is a fall of less than {1 - FALL_RATIO:.0%}"
    else:
        note = f"{narration.text(wanted)} would be too small a rise to be made, so it is made whole"
    narration.say("answer when the hour began", answer, note)
    if now > begun:
        last = narration.text(float(demand.quarter_millicores[0]))
        narration.say("answer now", now, f"the last 15 min used {last}, which is more")


def _request_note(request: float, account: PlimsollAccount) -> str:
    if account.demand.known_minutes[0] and request == account.demand.answer_millicores[account.price, 0]:
        return "the answer"
    return "what other nodes saw" if request == account.cpu_elsewhere_millicores else "the base, which is larger"


def _explain_credit(narration: Narration, request: float, account: PlimsollAccount) -> None:
    """Record what the lower price saves."""
    full_price, in_place = account.options.prices
    full = float(account.proposals.extra[CPU_FULL_PRICE][0])
    narration.say(
        "saved by credit",
        full - request,
        f"being short is answered within seconds in place, and priced {in_place:g} x idle, not {full_price:g} x: "
        f"{narration.text(request)} instead of {narration.text(full)}",
    )


def _explain_memory(narration: Narration, account: PlimsollAccount) -> None:
    proposals = account.proposals
    week, oom = account.week_bytes, account.oom_bytes
    narration.say("largest of seven days", week, "by whole UTC hours" if week is not None else "no minute measured")
    margin = float(margin_of(np.array([account.growth]))[0])
    grown = f"the most it grew by within an hour, {account.growth:.2%} now, as that fades by half in 12 h"
    narration.say(
        "margin above it", margin, f"{grown}; {LEAST_MARGIN:.0%} at least, {MOST_MARGIN:.0%} at most", unit="ratio"
    )
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
