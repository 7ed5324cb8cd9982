from __future__ import annotations

import pytest

from agent.core.buffers.buffer import Chunk, ScopeFault, ScopeTerm
from agent.core.buffers.quotas import matches_scopes
from tests.capacity_buffers import cores

BARE = Chunk(requests={})
GPU = Chunk(requests={"nvidia.com/gpu": cores(1)})
CPU = Chunk(requests={"cpu": cores(1)})
ZERO = Chunk(requests={"memory": 0})
HIGH = Chunk(requests={}, priority_class="high")
CROSSING = Chunk(requests={}, has_cross_namespace_affinity=True)


@pytest.mark.parametrize(
    ("chunk", "scope", "verdict"),
    [
        (BARE, "NotTerminating", True),
        (BARE, "Terminating", False),
        (BARE, "BestEffort", True),
        (GPU, "BestEffort", True),
        (CPU, "BestEffort", False),
        (ZERO, "BestEffort", False),
        (Chunk(requests={"cpu": 0}), "BestEffort", False),
        (BARE, "NotBestEffort", False),
        (CPU, "NotBestEffort", True),
        (ZERO, "NotBestEffort", True),
        (BARE, "CrossNamespacePodAffinity", False),
        (CROSSING, "CrossNamespacePodAffinity", True),
        (BARE, "VolumeAttributesClass", False),
        (HIGH, "PriorityClass", True),
        (BARE, "PriorityClass", False),
    ],
)
def test_plain_scopes(chunk: Chunk, scope: str, verdict: bool) -> None:
    assert matches_scopes(chunk, [ScopeTerm(scope=scope)]) is verdict


@pytest.mark.parametrize(
    ("operator", "values", "of_high", "of_none"),
    [
        ("In", ("high", "low"), True, False),
        ("In", ("low",), False, False),
        ("In", ("",), False, False),
        ("NotIn", ("high",), False, True),
        ("NotIn", ("low",), True, True),
        ("NotIn", ("",), True, True),
        ("Exists", (), True, False),
        ("DoesNotExist", (), False, True),
    ],
)
def test_priority_classes(operator: str, values: tuple[str, ...], of_high: bool, of_none: bool) -> None:
    term = ScopeTerm(scope="PriorityClass", operator=operator, values=values)
    assert matches_scopes(HIGH, [term]) is of_high
    assert matches_scopes(BARE, [term]) is of_none


@pytest.mark.parametrize(
    ("operator", "values", "fault"),
    [
        ("Like", ("high",), ScopeFault.OPERATOR),
        ("", (), ScopeFault.OPERATOR),
        ("In", (), ScopeFault.VALUES_MISSING),
        ("NotIn", (), ScopeFault.VALUES_MISSING),
        ("Exists", ("high",), ScopeFault.VALUES_FORBIDDEN),
        ("DoesNotExist", ("high",), ScopeFault.VALUES_FORBIDDEN),
        ("In", ("high", "not a label"), ScopeFault.VALUE_FORM),
        ("In", ("-high",), ScopeFault.VALUE_FORM),
        ("NotIn", ("a" * 64,), ScopeFault.VALUE_FORM),
        ("In", ("high\n",), ScopeFault.VALUE_FORM),
    ],
)
def test_what_cannot_be_read_is_a_fault_whatever_the_others_say(
    operator: str, values: tuple[str, ...], fault: ScopeFault
) -> None:
    term = ScopeTerm(scope="PriorityClass", operator=operator, values=values)
    assert matches_scopes(HIGH, [ScopeTerm(scope="Terminating"), term]) is fault


def test_a_label_value_may_have_63_characters() -> None:
    term = ScopeTerm(scope="PriorityClass", operator="In", values=("a" * 63,))
    assert matches_scopes(Chunk(requests={}, priority_class="a" * 63), [term]) is True


def test_all_scopes_must_match_and_none_match_everything() -> None:
    best_effort, cross = ScopeTerm(scope="BestEffort"), ScopeTerm(scope="CrossNamespacePodAffinity")
    assert matches_scopes(CROSSING, [best_effort, cross]) is True
    assert matches_scopes(BARE, [best_effort, cross]) is False
    assert matches_scopes(BARE, []) is True
