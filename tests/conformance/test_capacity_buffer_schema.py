from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.capacity_buffer_schema import ONE_REFERENCE, SIZE_MISSING, spec_faults

TEMPLATE = {"podTemplateRef": {"name": "t"}}
SCALABLE = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "d"}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        SCALABLE,
        {**TEMPLATE, "replicas": 0},
        {**TEMPLATE, "limits": {}},
        {**TEMPLATE, "limits": {"cpu": "-1.5e3", "memory": 7, "gpu": None, "x": ".5Gi"}},
        {**TEMPLATE, "replicas": 2**31 - 1, "percentage": 200, "provisioningStrategy": ""},
        {"scalableRef": {"kind": "X", "name": "d", "apiGroup": None}, "podTemplateRef": None, "percentage": 0},
        {"unknown": 1, "provisioningStrategy": None},
    ],
)
def test_accepted(spec: dict[str, Any]) -> None:
    assert spec_faults(spec) == ()


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (None, "spec must be an object"),
        ({"provisioningStrategy": 1}, "spec.provisioningStrategy must be a text"),
        ({"replicas": -1}, "spec.replicas must be a whole number from 0 to 2147483647"),
        ({"replicas": 2**31}, "spec.replicas must be a whole number from 0 to 2147483647"),
        ({"replicas": "3"}, "spec.replicas must be a whole number from 0 to 2147483647"),
        ({"percentage": True}, "spec.percentage must be a whole number from 0 to 2147483647"),
        ({"podTemplateRef": {}}, "spec.podTemplateRef.name must be a text of at least 1 character"),
        ({"podTemplateRef": {"name": ""}}, "spec.podTemplateRef.name must be a text of at least 1 character"),
        ({"podTemplateRef": "t"}, "spec.podTemplateRef must be an object"),
        ({"scalableRef": {"name": "d"}}, "spec.scalableRef.kind must be a text of at least 1 character"),
        ({"scalableRef": {"kind": "X"}}, "spec.scalableRef.name must be a text of at least 1 character"),
        ({"scalableRef": {**SCALABLE["scalableRef"], "apiGroup": 0}}, "spec.scalableRef.apiGroup must be a text"),
        ({"limits": []}, "spec.limits must be an object"),
        ({"limits": {"cpu": "a lot"}}, "spec.limits.cpu must be a quantity"),
        ({"limits": {"cpu": True}}, "spec.limits.cpu must be a quantity"),
        ({"limits": {"cpu": 1.5}}, "spec.limits.cpu must be a quantity"),
        ({"limits": {"cpu": "1\n"}}, "spec.limits.cpu must be a quantity"),
        (TEMPLATE, SIZE_MISSING),
        ({**TEMPLATE, "percentage": 10}, SIZE_MISSING),
        ({**TEMPLATE, "replicas": None, "limits": None}, SIZE_MISSING),
        ({**TEMPLATE, **SCALABLE, "replicas": 1}, ONE_REFERENCE["v1beta1"]),
    ],
)
def test_refused(spec: object, fault: str) -> None:
    assert spec_faults(spec) == (fault,)


def test_both_references_without_a_size_break_both_rules() -> None:
    spec = {**TEMPLATE, **SCALABLE, "percentage": 10}
    assert spec_faults(spec, "v1alpha1") == (SIZE_MISSING, "You must define both PodTemplateRef and ScalableRef")
    assert spec_faults(spec, "v2") == spec_faults(spec)


def test_rules_over_several_fields_are_not_asked_of_odd_ones() -> None:
    assert spec_faults({"podTemplateRef": {}, "limits": 1}) == (
        "spec.podTemplateRef.name must be a text of at least 1 character",
        "spec.limits must be an object",
    )
