"""Label selectors as text, as the status of a scale subresource has them: what the API server would match.

Source: ``labels.Parse`` of k8s.io/apimachinery.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_KEY: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE: Final = r"[-A-Za-z0-9_.]*"
_REQUIREMENT: Final = re.compile(
    rf"""\s*(?:
        (?P<absent>!)\s*(?P<absent_key>{_KEY})
      | (?P<key>{_KEY})
        (?: \s*(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})
          | \s*(?P<order>[<>])\s*(?P<bound>-?[0-9]+)
          | \s+(?P<verb>in|notin)\s*\((?P<values>\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*)\)
        )?
    )\s*(?P<end>,|\Z)""",
    re.VERBOSE | re.ASCII,
)
_ALLOWED: Final = "requirements such as app=web,tier in (a, b),!old"


class SelectorError(ValueError):
    """Text that is no label selector; the message is one line."""


def matches_selector(selector: str, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet a selector; an empty one selects nothing here, as nobody can have meant everything.

    Raises:
        SelectorError: It is none.
    """
    if not selector.strip():
        return False
    place = 0
    verdict = True
    while True:
        match = _REQUIREMENT.match(selector, place)
        if match is None:
            msg = f"{selector!r} is not a label selector ({_ALLOWED})"
            raise SelectorError(msg)
        verdict = _is_met(match, labels) and verdict
        place = match.end()
        if match["end"] == "":
            return verdict


def _is_met(requirement: re.Match[str], labels: Mapping[str, str]) -> bool:
    if requirement["absent"]:
        return requirement["absent_key"] not in labels
    label = labels.get(requirement["key"])
    if requirement["sign"]:
        return (label == requirement["value"]) is (requirement["sign"] != "!=")
    if requirement["verb"]:
        values = {value.strip() for value in requirement["values"].split(",")}
        return (label in values) is (requirement["verb"] == "in")
    if requirement["order"]:
        return label is not None and _is_ordered(label, requirement["order"], int(requirement["bound"]))
    return label is not None


def _is_ordered(label: str, order: str, bound: int) -> bool:
    try:
        number = int(label)
    except ValueError:
        return False
    return number > bound if order == ">" else number < bound
