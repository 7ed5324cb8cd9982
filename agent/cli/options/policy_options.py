"""The options of policies and bounds as flags, made from the typed settings; and ``--policy`` itself.

``--vpa-target-cpu-percentile`` stands for ``vpa.targetCpuPercentile`` and so on. What is given there goes the way of
all settings (``options.overrides_from``), with the same checks.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agent.core.orders.policy_options import PolicyName

SECTIONS: Final = {
    "cruise": "policy cruise",
    "vpa": "policy vpa",
    "crane": "policy crane",
    "sizing": "policy plimsoll",
    "bounds": "bounds of every answer",
}
"""The sections of the settings that become flags, and their headings in the help."""


def add_policy_options(parser: argparse.ArgumentParser, sections: Sequence[str] = tuple(SECTIONS)) -> None:
    """Add a flag for each setting of these sections; all are kept under their setting's key.

    The parser must have been through ``options.add_options``, too.
    """
    from agent.settings import describe_settings
    from agent.settings.keys import keys

    texts = {doc.key: doc for doc in describe_settings()}
    groups = {section: parser.add_argument_group(SECTIONS[section]) for section in sections}
    for key, spec in keys().items():
        if spec.section in groups:
            doc = texts[key]
            groups[spec.section].add_argument(
                flag_of(key),
                dest=f"setting {key}",
                metavar="VALUE",
                help=f"{doc.text} Default: {doc.default}; allowed: {doc.allowed}.".replace("%", "%%"),
            )


def flag_of(key: str) -> str:
    """Return the flag of a setting: ``vpa.targetCpuPercentile`` -> ``--vpa-target-cpu-percentile``."""
    return "--" + "".join(f"-{char.lower()}" if char.isupper() else char for char in key).replace(".", "-")


def policy_names(text: str) -> tuple[PolicyName, ...]:
    """Parse ``cruise,vpa``, for ``type=`` of an argument; one that is unknown or stands twice is an error."""
    from agent.core.recommender.registry import UnknownPolicyError, policy_name

    names = []
    for word in text.split(","):
        try:
            name = policy_name(word.strip())
        except UnknownPolicyError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        if name in names:
            raise argparse.ArgumentTypeError(f"{name} is given twice; allowed: each policy once")
        names.append(name)
    return tuple(names)
