"""What the policy ``cruise`` tells of one row's answer. Core, pure: it repeats figures and computes none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from agent.core.history.hour_peaks import HourPeak
from agent.core.numbers.amount_text import amount_text
from agent.core.orders.policy_options import CruiseOptions
from agent.core.recommender.cruise.oom_memory import OomFigure
from agent.core.recommender.cruise.peak import Prediction
from agent.core.recommender.other_nodes import say_kill_elsewhere, say_peak_elsewhere, say_week_elsewhere
from agent.core.recommender.policy import Elsewhere, Proposals, Steps

_SECONDS_PER_MINUTE = 60
_SECONDS_PER_DAY = 86_400
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
    """Say how CPU and memory came about, in the order of the rule."""
    steps.hours = [hour.hour_unix_seconds for hour in account.same_hours]
    _explain_cpu(steps, account)
    _explain_memory(steps, account)


def _explain_cpu(steps: Steps, account: CruiseAccount) -> None:
    cpu, proposals = account.cpu, account.proposals
    has_base = bool(cpu.has_base[0])
    steps.say(
        "cpu",
        "base: sustained demand",
        float(cpu.base[0]) if has_base else None,
        "millicores",
        f"{_OF_WINDOW}, PSI-adjusted where there is PSI" if has_base else "not known, so there is no answer",
    )
    _say_peak(steps, "cpu", "millicores", cpu, account, lambda hour: hour.cpu_millicores)
    if has_base:
        request = float(proposals.cpu_request_millicores[0])
        least = amount_text(account.options.min_cpu_millicores, "millicores")
        steps.say("cpu", "request", request, "millicores", _request_note(request, float(cpu.peak[0]), least))


def _explain_memory(steps: Steps, account: CruiseAccount) -> None:
    memory, proposals, options = account.memory, account.proposals, account.options
    p75_bytes, kills = account.working_set_p75_bytes, account.kills
    steps.say(
        "memory",
        "sustained working set",
        p75_bytes,
        "bytes",
        _OF_WINDOW if p75_bytes is not None else "not known",
    )
    retention = f"{options.oom_retention_seconds / _SECONDS_PER_DAY:g} days"
    if kills:
        note = f"usage, else limit, at the kill of {_utc(kills[-1].unix_seconds)}; the largest of {retention}"
        steps.say("memory", _AT_KILL, kills[-1].memory_bytes, "bytes", note)
    else:
        steps.say("memory", _AT_KILL, None, "bytes", f"no kill with usage or limit known in {retention}")
    say_kill_elsewhere(steps, account.elsewhere)
    has_base = bool(memory.has_base[0])
    steps.say(
        "memory",
        "base: sustained demand",
        float(memory.base[0]) if has_base else None,
        "bytes",
        "the largest of these" if has_base else "not known, so there is no answer",
    )
    _say_peak(steps, "memory", "bytes", memory, account, lambda hour: hour.working_set_bytes)
    if not has_base:
        return
    request = float(proposals.memory_request_bytes[0])
    steps.say(
        "memory",
        "request",
        request,
        "bytes",
        _request_note(request, float(memory.peak[0]), amount_text(options.min_memory_bytes, "bytes")),
    )
    steps.say(
        "memory",
        "largest of seven days",
        account.week_bytes,
        "bytes",
        "peaks of whole UTC hours" if account.week_bytes is not None else "no minute measured",
    )
    say_week_elsewhere(steps, account.elsewhere)
    has_limit = bool(proposals.has_memory_limit[0])
    steps.say(
        "memory",
        "limit",
        float(proposals.memory_limit_bytes[0]) if has_limit else None,
        "bytes",
        f"{options.memory_limit_ratio:g} x the larger of seven days' largest and the memory at a kill; "
        "at least the request"
        if has_limit
        else "no memory seen to set one by; a limit that is there stays, or is raised to the request",
    )


def _say_peak(
    steps: Steps,
    resource: str,
    unit: str,
    prediction: Prediction,
    account: CruiseAccount,
    of_hour: Callable[[HourPeak], float | None],
) -> None:
    """Say the two predictions and what they make of the base."""
    options = account.options
    has_last = bool(prediction.has_last[0])
    steps.say(
        resource,
        f"largest of the last {options.last_seconds / _SECONDS_PER_MINUTE:g} min",
        float(prediction.last[0]) if has_last else None,
        unit,
        "peaks of the minutes that reach into them" if has_last else "no minute measured",
    )
    neighbours = f" +- {options.neighbour_hours} h" if options.neighbour_hours else ""
    days = f"{options.history_days} days" if options.history_days > 1 else "1 day"
    known = [(value, hour.hour_unix_seconds) for hour in account.same_hours if (value := of_hour(hour)) is not None]
    steps.say(
        resource,
        f"largest at this hour of the day{neighbours}, {days}",
        float(prediction.same_hour[0]) if known else None,
        unit,
        f"in the hour from {_utc(max(known)[1])}; such hours measured: {len(known)}"
        if known
        else "no such hour measured",
    )
    if prediction.has_elsewhere[0]:
        say_peak_elsewhere(steps, resource, float(prediction.elsewhere[0]), unit, options.neighbour_hours)
    if prediction.has_base[0]:
        note = "the largest of these" if prediction.is_predicted[0] else _UNPREDICTED
        steps.say(resource, "peak", float(prediction.peak[0]), unit, note)


def _request_note(request: float, peak: float, least: str) -> str:
    return "the peak" if request == peak else f"the policy's least, {least}"


def _utc(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
