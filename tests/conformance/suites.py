"""Which vector file is which: the adapters of one peer, and how its files are known.

Two peers may use one function name for two things (``recommend``), so a case is looked up by suite and name. Files are
known by the functions they declare or use, else by their source, else by their name: a file may come under any name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance import capacity_buffer, crane, cruisekube, kubelet, vpa

Adapter = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The adapters of one peer."""

    stem: str
    """Name of its file in shared/vectors, without ``.json``."""
    source_marks: tuple[str, ...]
    """Words of the file's ``source`` that no other peer's has."""
    adapters: Mapping[str, Adapter]
    tolerances: Mapping[str, float] = field(default_factory=dict)
    """By function, where the vectors' text names a tolerance that the cases do not repeat."""
    later: frozenset[str] = frozenset()
    """Functions of parts that are not built yet: the command fails their cases, our own tests pass them over."""


SUITES = (
    Suite(
        stem="kubelet_cgroups",
        source_marks=("kubelet", "opencontainers/cgroups"),
        adapters=kubelet.ADAPTERS,
        tolerances=kubelet.TOLERANCES,
    ),
    Suite(
        stem="crane",
        source_marks=("gocrane/crane",),
        adapters=crane.ADAPTERS,
        later=crane.LATER,
    ),
    Suite(
        stem="cruisekube",
        source_marks=("truefoundry/CruiseKube",),
        adapters=cruisekube.ADAPTERS,
        later=cruisekube.LATER,
    ),
    Suite(
        stem="vpa",
        source_marks=("kubernetes/autoscaler, vertical-pod-autoscaler",),
        adapters=vpa.ADAPTERS,
        later=vpa.LATER,
    ),
    Suite(
        stem="capacity_buffer",
        source_marks=("CapacityBuffer",),
        adapters=capacity_buffer.ADAPTERS,
    ),
)

NO_SUITE = Suite(stem="", source_marks=(), adapters={})
"""For files of peers that are not built yet."""


def suite_of(path: Path, document: Mapping[str, Any]) -> Suite:
    """Find the suite a vector file belongs to."""
    declared = set(document.get("functions") or ())
    used = {case.get("input", {}).get("fn") for case in document["cases"]}
    source = str(document.get("source", ""))

    def likeness(suite: Suite) -> tuple[int, int, int]:
        marks = sum(mark in source for mark in suite.source_marks)
        return len((declared | used) & (set(suite.adapters) | suite.later)), marks, int(path.stem == suite.stem)

    best = max(SUITES, key=likeness)
    return best if any(likeness(best)) else NO_SUITE
