"""Three minutes of the experiment as a part of ``make e2e``: that it runs, and that sharing is seen at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.e2e.node import Node
from tests.e2e.steps import Steps
from tests.experiment.arms import Arm
from tests.experiment.experiment import TRIAL, Experiment, Schedule
from tests.experiment.intervals import median
from tests.experiment.page import groups_of
from tests.experiment.records import LOADS, OPERATIONS
from tests.experiment.spaces import Terms

TERMS: Final = Terms(pods=1, counts=TRIAL, rest_seconds=3.0, stagger_seconds=0.0)
SCHEDULE: Final = Schedule(drop_seconds=2.0, window_seconds=60.0)
"""With split limits one round of all takes 40 s, whatever the machine: 6.6 CPU-seconds at 188m, and a rest."""
AS_FAST: Final = 1.5
"""Four is expected of a build; far below what chance brings."""


def run(guest: Node, tree: Path, payload: Path, steps: Steps) -> None:
    """Take the steps on a node without agent and webhook."""
    experiment = Experiment(guest, tree, payload, TERMS, SCHEDULE, print, has_webhook=False)

    def calibrated() -> str:
        counts = experiment.calibrate()
        experiment.terms = replace(experiment.terms, counts=counts)
        return words(counts)

    def prepared() -> str:
        experiment.prepare((Arm.SPLIT, Arm.POD))
        experiment.audit()
        return "; ".join(f"{name}: {text}" for name, text in experiment.notes.items())

    def measured(arm: Arm) -> str:
        experiment.measure(arm)
        by_name = {name: groups_of(experiment.operations, arm.value, name) for name in (*OPERATIONS, LOADS[0])}
        missing = [name for name, groups in by_name.items() if not groups]
        assert not missing, f"not one of: {', '.join(missing)}"
        assert not experiment.blocks[-1].oom_kills
        return f"throttled {experiment.blocks[-1].throttled_ratio:.0%}"

    def faster() -> str:
        split, shared = (median(groups_of(experiment.operations, arm.value, "build")) for arm in (Arm.SPLIT, Arm.POD))
        assert split is not None
        assert shared is not None
        assert split.value > AS_FAST * shared.value, (split, shared)
        return f"{split.value:.1f} s, {shared.value:.1f} s"

    titles = (
        "operations are calibrated",
        "pods of both arms run, and may use the same",
        "limits split over the containers",
        "the same limits on the pod",
    )
    steps.run(titles[0], calibrated)
    steps.run(titles[1], prepared, needs=titles[0])
    steps.run(titles[2], lambda: measured(Arm.SPLIT), needs=titles[1])
    steps.run(titles[3], lambda: measured(Arm.POD), needs=titles[2])
    steps.run("a build is faster where siblings lend their part", faster, needs=titles[3])


def words(counts: Mapping[str, int]) -> str:
    """Return what the operations were sized to."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())
