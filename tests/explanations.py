"""Explanations made by hand for tests of what draws and writes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.core.history.minute.minutes import OutOfMemory
from agent.core.history.workloads.hour_peaks import HourPeak
from agent.core.orders.policy_options import BoundsOptions
from agent.core.recommender.explanation import Trail
from agent.core.recommender.recommender import explain
from agent.core.recommender.subject import Conditions, Subject
from agent.core.resize.why import Why
from tests.snapshots import cpu_window, memory_window
from tests.subjects import MI, TimesPolicy, subject

NOW = 1_795_255_200  # Sat 2026-11-21T10:00:00Z
HOUR = 3600


def trail(minutes: int = 60, **courses: Any) -> Trail:
    """Return the minutes up to now: 100m used, 150m at most, 10 % waiting, 64 MiB."""
    known: dict[str, Any] = {
        "start_unix_seconds": NOW - minutes * 60,
        "cpu_usage_millicores": (100.0,) * minutes,
        "cpu_peak_millicores": (150.0,) * minutes,
        "waiting_ratio": (0.1,) * minutes,
        "working_set_bytes": (64.0 * MI,) * minutes,
    }
    return Trail(**{**known, **courses})


def explanation(container: Subject | None = None, *, policy: TimesPolicy | None = None, **changes: Any) -> Why:
    """Return one of a container of shop/web that needs twice of what it uses, measured for an hour."""
    about = container if container is not None else subject(cpu=cpu_window(), memory=memory_window())
    reasoned = explain(
        about,
        policy or TimesPolicy(),
        now_unix_seconds=float(NOW),
        conditions=Conditions(min_span_seconds=600.0, max_age_seconds=60.0),
        options=BoundsOptions(),
    )
    why = Why(
        taken_unix_seconds=float(NOW),
        source="agent",
        recommendation=reasoned.recommendation,
        cpu=about.cpu,
        memory=about.memory,
        steps=reasoned.steps,
        changes=reasoned.changes,
        hours=(
            HourPeak(hour_unix_seconds=NOW - 25 * HOUR, cpu_millicores=400.0, working_set_bytes=None),
            HourPeak(hour_unix_seconds=NOW - HOUR, cpu_millicores=200.0, working_set_bytes=64.0 * MI),
        ),
        hours_counted=(NOW - 25 * HOUR,),
        kills=(OutOfMemory(unix_seconds=NOW - 7200.0, usage_bytes=None, limit_bytes=300 * MI),),
        trail=trail(),
    )
    return replace(why, **changes)
