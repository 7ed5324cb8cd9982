"""The arms: the same pods and the same hour, requested by four rules. Each is settings of one agent.

One hand writes in all arms, so that they differ by the rule and its pace alone. Under the rules of others nothing is
asked for between two of their rounds, as they do it: what is urgent to Plimsoll is not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from agent.core.orders.profile import PROFILE_VALUES, Profile
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
_NOT_URGENT: Final[Mapping[str, str]] = {
    "act.urgentWaitingRatio": "0",
    "act.urgentMemoryRatio": "1",
    "act.urgentMemoryWaitingRatio": "1",
    "act.urgentIntervalSeconds": "3600",
}
SETTINGS: Final[Mapping[Arm, Mapping[str, str]]] = {
    Arm.WRITTEN: {**COMMON, "act.mode": "recommend"},
    Arm.VPA: {
        **COMMON,
        **_NOT_URGENT,
        "act.mode": "enforce",
        "recommend.policy": "vpa",
        "plan.replanSeconds": "60",
        # Its updater waits for nothing between two rounds.
        "act.shrinkCoolDownSeconds": "60",
    },
    Arm.CRUISE: {
        **COMMON,
        **_NOT_URGENT,
        "act.mode": "enforce",
        "profile": "document",
        "recommend.policy": "cruise",
        "plan.replanSeconds": "300",
    },
    Arm.PLIMSOLL: {**COMMON, "act.mode": "enforce"},
}


def rate_window_seconds(arm: Arm) -> float:
    """Return what one rate of an arm's agent spans: what it remembers was measured so."""
    of_profile = PROFILE_VALUES[Profile(SETTINGS[arm].get("profile", Profile.DEFAULT))]
    seconds = of_profile.get("windows.rateWindowSeconds", WindowSettings().rate_window_seconds)
    assert isinstance(seconds, float)
    return seconds
