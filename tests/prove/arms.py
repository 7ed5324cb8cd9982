"""The arms: the same pods and the same hour, requested by four rules. Each is settings of one agent.

One hand writes in all arms, so that they differ by the rule and its pace alone. What Plimsoll has of its own is off
under the rules of others: nothing is urgent to them, nothing guards their falls, no cool-down holds them back, and no
margin keeps a memory limit up. Of CruiseKube it is the rule as its code has it: rates of a minute, this hour of the day
and its neighbours, one spike for the node. Of the Vertical Pod Autoscaler it is the target, taken each minute: its own
updater leaves workloads of one replica alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from agent.settings.sections import WindowSettings


class Arm(StrEnum):
    """By which rule the pods request."""

    WRITTEN = "written"
    VPA = "vpa"
    CRUISE = "cruise"
    PLIMSOLL = "plimsoll"


MEANING: Final[Mapping[Arm, str]] = {
    Arm.WRITTEN: "as written",
    Arm.VPA: "the Vertical Pod Autoscaler's rule, each minute",
    Arm.CRUISE: "CruiseKube's rule, each five minutes",
    Arm.PLIMSOLL: "Plimsoll",
}
COMMON: Final[Mapping[str, str]] = {
    # A block is minutes, not hours: pods are sized from their second minute on, in every arm.
    "plan.minAgeSeconds": "30",
    "recommend.minSpanSeconds": "30",
    "logging.format": "text",
}
_NOTHING_OF_PLIMSOLL: Final[Mapping[str, str]] = {
    "act.urgentWaitingRatio": "0",
    "act.urgentMemoryRatio": "1",
    "act.urgentMemoryWaitingRatio": "1",
    "act.urgentIntervalSeconds": "3600",
    "act.shrinkCoolDownSeconds": "0",
    "act.growCoolDownSeconds": "0",
    "act.revertSeconds": "0",
    "act.shrinkBarredSeconds": "0",
    "guard.active": "false",
    "plan.headroom": "spike",
    "plan.memoryLimitMarginRatio": "1",
}
SETTINGS: Final[Mapping[Arm, Mapping[str, str]]] = {
    Arm.WRITTEN: {**COMMON, "act.mode": "recommend"},
    Arm.VPA: {
        **COMMON,
        **_NOTHING_OF_PLIMSOLL,
        "act.mode": "enforce",
        "recommend.policy": "vpa",
        "plan.replanSeconds": "60",
    },
    Arm.CRUISE: {
        **COMMON,
        **_NOTHING_OF_PLIMSOLL,
        "act.mode": "enforce",
        "recommend.policy": "cruise",
        # What is decided between two of its rounds is by the same answers.
        "evaluateIntervalSeconds": "300",
        "plan.replanSeconds": "300",
        "plan.daemonSetGrowth": "never",
        # It patches any difference.
        "bounds.smallestCpuChangeMillicores": "0",
        "bounds.smallestMemoryChangeBytes": "0",
        "bounds.smallestChangeRatio": "0",
    },
    Arm.PLIMSOLL: {**COMMON, "act.mode": "enforce"},
}
AGENT_REQUESTS: Final[Mapping[str, str]] = {"cpu": "20m", "memory": "128Mi"}
"""Of the chart: what Plimsoll's arm pays for. The others need nothing on the node."""


def rate_window_seconds(arm: Arm) -> float:
    """Return what one rate of an arm's agent spans: what it remembers was measured so."""
    return float(SETTINGS[arm].get("windows.rateWindowSeconds", WindowSettings().rate_window_seconds))
