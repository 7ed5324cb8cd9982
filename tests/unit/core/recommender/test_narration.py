from __future__ import annotations

import numpy as np

from agent.core.cluster.resource import Resource
from agent.core.recommender.policy import Narration, Steps


def test_a_narration_says_figures_of_one_row_in_the_unit_of_its_resource() -> None:
    steps = Steps()
    memory = Narration(steps, Resource.MEMORY)
    memory.say("margin", 0.5, "why", unit="ratio")
    memory.first("request", np.array([64.0, 1.0]))
    memory.known("limit", np.array([0.0]), np.array([False]), "because", "there is none")
    memory.known("limit", np.array([128.0]), np.array([True]), "because", "there is none")
    said = [(step.resource, step.what, step.value, step.unit, step.note) for step in steps.taken]
    assert said == [
        ("memory", "margin", 0.5, "ratio", "why"),
        ("memory", "request", 64.0, "bytes", ""),
        ("memory", "limit", None, "bytes", "there is none"),
        ("memory", "limit", 128.0, "bytes", "because"),
    ]
    assert memory.is_wanted


def test_where_nobody_asked_nothing_is_said_and_no_row_is_looked_at() -> None:
    nobody = Narration(None, Resource.CPU)
    nobody.say("request", 1.0)
    nobody.first("request", np.zeros(0))
    nobody.known("request", np.zeros(0), np.zeros(0, dtype=np.bool_))
    assert not nobody.is_wanted
