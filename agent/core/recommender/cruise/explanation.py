"""What the policy ``cruise`` tells of one row's answer. Core, pure: it repeats figures and computes none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from agent.core.cluster.resource import Resource
from agent.core.history.workloads.hour_peaks import HourPeak
from agent.core.orders.policy_options import CruiseOptions
from agent.core.recommender.cruise.oom_memory import OomFigure
from agent.core.recommender.cruise.peak import Prediction
from agent.core.recommender.other_nodes import say_kill_elsewhere, say_peak_elsewhere, say_week_elsewhere
from agent.core.recommender.policy import Elsewhere, Narration, Proposals, Steps

_SECONDS_PER_MINUTE = 60
_SECONDS_PER_DAY = 86_400
_BASE = "base: sustained demand"
_NO_BASE = "not known, so there is no answer"
_OF_WINDOW = "windows.percentile of the window"
_AT_KILL = "memory at an out-of-memory kill"
_UNPREDICTED = "nothing measured yet to predict from: the base, which may raise the request but not lower it"


@dataclass(frozen=True, slots=True, kw_only=True)
class CruiseAccount:
    """All that went into one row's answer, and the answer; arrays have the shape ``(1,)``."""

    options: CruiseOptions
    cpu: Prediction
    memory: Prediction
    """Its base is that after out-of-memory kills."""
    working_set_p75_bytes: float | None
    """The base before them; None = not known."""
    week_bytes: float | None
    """Maximum of seven days on this node; None = not measured."""
    elsewhere: Elsewhere | None
    """None = nothing is known of other nodes."""
    same_hours: tuple[HourPeak, ...]
    """The hours that count as the same, oldest first."""
    kills: tuple[OomFigure, ...]
    """Those that count, newest first, the largest last."""
    proposals: Proposals


def explain(steps: Steps, account: CruiseAccount) -> None:
    """Record how CPU and memory came about, in the order of the rule."""
    steps.hours = [hour.hour_unix_seconds for hour in account.same_hours]
    _explain_cpu(Narration(steps, Resource.CPU), account)
    _explain_memory(Narration(steps, Resource.MEMORY), account)


def _explain_cpu(narration: Narration, account: CruiseAccount) -> None:
    cpu = account.cpu
    narration.known(_BASE, cpu.base, cpu.has_base, f"{_OF_WINDOW}, PSI-adjusted where there is PSI", _NO_BASE)
    _say_peak(narration, cpu, account, lambda hour: hour.cpu_millicores)
    if cpu.has_base[0]:
        request = float(account.proposals.cpu_request_millicores[0])
        least = narration.text(account.options.min_cpu_millicores)
        narration.say("request", request, _request_note(request, float(cpu.peak[0]), least))


def _explain_memory(narration: Narration, account: CruiseAccount) -> None:
    memory, proposals, options = account.memory, account.proposals, account.options
    p75_bytes, kills = account.working_set_p75_bytes, account.kills
    narration.say("sustained working set", p75_bytes, _OF_WINDOW if p75_bytes is not None else "not known")
    retention = f"{options.oom_retention_seconds / _SECONDS_PER_DAY:g} days"
    if kills:
        note = f"usage, else limit, at the kill of {_utc(kills[-1].unix_seconds)}; the largest of {retention}"
        narration.say(_AT_KILL, kills[-1].memory_bytes, note)
    else:
        narration.say(_AT_KILL, None, f"no kill with usage or limit known in {retention}")
    say_kill_elsewhere(narration, account.elsewhere)
    narration.known(_BASE, memory.base, memory.has_base, "the largest of these", _NO_BASE)
    _say_peak(narration, memory, account, lambda hour: hour.working_set_bytes)
    if not memory.has_base[0]:
        return
    request = float(proposals.memory_request_bytes[0])
    least = narration.text(options.min_memory_bytes)
    narration.say("request", request, _request_note(request, float(memory.peak[0]), least))
    week_note = "peaks of whole UTC hours" if account.week_bytes is not None else "no minute measured"
    narration.say("largest of seven days", account.week_bytes, week_note)
    say_week_elsewhere(narration, account.elsewhere)
    narration.known(
        "limit",
        proposals.memory_limit_bytes,
        proposals.has_memory_limit,
        f"{options.memory_limit_ratio:g} x the larger of seven days' largest and the memory at a kill; "
        "at least the request",
        "no memory seen to set one by; a limit that is there stays, or is raised to the request",
    )


def _say_peak(
    narration: Narration,
    prediction: Prediction,
    account: CruiseAccount,
    of_hour: Callable[[HourPeak], float | None],
) -> None:
    options = account.options
    last = f"largest of the last {options.last_seconds / _SECONDS_PER_MINUTE:g} min"
    note = "peaks of the minutes that reach into them"
    narration.known(last, prediction.last, prediction.has_last, note, "no minute measured")
    neighbours = f" +- {options.neighbour_hours} h" if options.neighbour_hours else ""
    days = f"{options.history_days} days" if options.history_days > 1 else "1 day"
    same_hour = f"largest at this hour of the day{neighbours}, {days}"
    known = [(value, hour.hour_unix_seconds) for hour in account.same_hours if (value := of_hour(hour)) is not None]
    if known:
        note = f"in the hour from {_utc(max(known)[1])}; such hours measured: {len(known)}"
        narration.first(same_hour, prediction.same_hour, note)
    else:
        narration.say(same_hour, None, "no such hour measured")
    if prediction.has_elsewhere[0]:
        say_peak_elsewhere(narration, float(prediction.elsewhere[0]), options.neighbour_hours)
    if prediction.has_base[0]:
        narration.first("peak", prediction.peak, "the largest of these" if prediction.is_predicted[0] else _UNPREDICTED)


def _request_note(request: float, peak: float, least: str) -> str:
    return "the peak" if request == peak else f"the policy's least, {least}"


def _utc(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
