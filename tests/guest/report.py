"""What the pytest inside the guest reports, as the host reads it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class InnerRun:
    """What pytest inside the guest reported."""

    failures: dict[str, str] = field(default_factory=dict)
    """``file::test`` to its text, for each that failed, had an error or was skipped."""
    ran: frozenset[str] = frozenset()
    output: str = ""


def parse_report(text: str, output: str) -> InnerRun:
    """Read pytest's JUnit report; a parametrised test fails when one of its cases does."""
    failures: dict[str, str] = {}
    ran: set[str] = set()
    if not text:
        return InnerRun(output=output)
    for case in ET.fromstring(text).iter("testcase"):  # noqa: S314 - written by our own pytest a moment ago
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name', '').partition('[')[0]}"
        ran.add(name)
        for bad in (outcome for kind in ("failure", "error", "skipped") for outcome in case.findall(kind)):
            words = f"{case.get('name')}: {bad.tag}: {bad.text or bad.get('message')}"
            failures[name] = f"{failures.get(name, '')}{words}\n"
    return InnerRun(failures, frozenset(ran), output)
