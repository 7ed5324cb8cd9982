"""Sets of settings under one word: what the default does, or what the CruiseKube document writes. Core, pure.

A profile takes the place of defaults only: whatever a file, the environment or the command line sets wins over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent.core.orders.plan_options import FitRule, HeadroomRule
from agent.core.orders.policy_options import PolicyName


class Profile(StrEnum):
    """Whose rules hold where no setting says otherwise."""

    DEFAULT = "default"
    """Plimsoll's own."""
    DOCUMENT = "document"
    """As the CruiseKube document writes them, for comparison and for those who want them."""


PROFILE_VALUES: Final[Mapping[Profile, Mapping[str, object]]] = {
    Profile.DEFAULT: {},
    Profile.DOCUMENT: {
        "recommend.policy": PolicyName.CRUISE,
        # A pod holds its bases and its own largest spike, and the node's largest spike is demanded once more.
        "plan.fitRule": FitRule.LITERAL,
        # Whatever the policy knows of pods that spike together.
        "plan.headroom": HeadroomRule.SPIKE,
        # This hour of the day, and not the ones before and after it.
        "cruise.neighbourHours": 0,
        # The text's rates are of five minutes; the code behind it takes one.
        "windows.rateWindowSeconds": 300.0,
        # Tainted while load per CPU is above the threshold in every reading, and as soon as it is not: no more.
        "overload.pressureCounts": False,
        "overload.releaseLoadPerCpu": 1.0,
        # A memory limit is twice what was seen in seven days or at a kill: no floor, and not twice the request.
        "admission.memoryLimitOfRequest": False,
        "admission.memoryLimitFloorBytes": 0,
    },
}
"""What each sets, by the setting's key; a program passes over the sections that it does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSetting:
    """One setting that a profile is about, as it is in force."""

    key: str
    value: str
    source: str
    """``profile document``; or ``setting``, where one of its own wins over the profile."""


def profile_settings(profile: Profile, in_force: Mapping[str, object]) -> tuple[ProfileSetting, ...]:
    """Return the settings that a profile is about, in its order; empty for the default.

    Args:
        profile: The one that is chosen.
        in_force: All settings of a program as it shows them: sections of values.
    """
    settings = []
    for key, of_profile in PROFILE_VALUES[profile].items():
        section, _, name = key.partition(".")
        values = in_force.get(section)
        if isinstance(values, Mapping) and name in values:
            source = f"profile {profile}" if values[name] == of_profile else "setting"
            settings.append(ProfileSetting(key=key, value=value_text(values[name]), source=source))
    return tuple(settings)


def profile_notes(settings: Sequence[ProfileSetting]) -> tuple[str, ...]:
    """Return what a profile sets, and what settings of one's own say instead, in one sentence; none for the default."""
    by_source: dict[str, list[str]] = {}
    for setting in settings:
        by_source.setdefault(setting.source, []).append(f"{setting.key} {setting.value}")
    if not by_source:
        return ()
    return ("; ".join(f"{source}: {', '.join(values)}" for source, values in by_source.items()),)


def value_text(value: object) -> str:
    """Write a value as a settings file would hold it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
