"""The chart's CRD on a real API server: what it takes, what it refuses and how it says so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cluster.api import ApiError, Json
from tests.cluster.buffers import buffer_json, buffers_path, install_crd
from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.cluster

VECTORS = Path(__file__).parents[1] / "data/vectors/capacity_buffer.json"
CASES = [case for case in json.loads(VECTORS.read_text())["cases"] if case["input"]["fn"] == "validate_spec"]
NEEDS_SIZE = "If X is set, replicas or limits must also be set"
TEMPLATE = {"podTemplateRef": {"name": "t"}}
SCALABLE = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "d"}}


@pytest.fixture(scope="module")
def served(cluster: ControlPlane) -> ControlPlane:
    install_crd(cluster)
    return cluster


def tried(cluster: ControlPlane, namespace: str, spec: Json, *, version: str = "v1beta1") -> Json:
    """Have the server judge a spec, and keep nothing."""
    document = buffer_json("b") | {"apiVersion": f"autoscaling.x-k8s.io/{version}", "spec": spec}
    return cluster.admin.create(buffers_path(namespace, version=version), document, dryRun="All")


def refused(cluster: ControlPlane, namespace: str, spec: Json, *, version: str = "v1beta1") -> str:
    with pytest.raises(ApiError) as caught:
        tried(cluster, namespace, spec, version=version)
    assert caught.value.status == 422
    return caught.value.message


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_public_cases(served: ControlPlane, namespace: str, case: Json, version: str) -> None:
    spec, expected = case["input"]["spec"], case["expected"]
    if expected["valid"]:
        tried(served, namespace, spec, version=version)
    else:
        assert expected.get("message", "") in refused(served, namespace, spec, version=version)


def test_each_version_words_two_references_in_its_own_way(served: ControlPlane, namespace: str) -> None:
    both = {**TEMPLATE, **SCALABLE}
    newer = refused(served, namespace, both)
    assert "You must define either PodTemplateRef or ScalableRef, but not both" in newer
    assert NEEDS_SIZE in newer  # both rules speak
    older = refused(served, namespace, both, version="v1alpha1")
    assert "You must define both PodTemplateRef and ScalableRef" in older
    assert NEEDS_SIZE in older


ALLOWED: dict[str, Json] = {
    "nothing at all": {},
    "a template with limits": {**TEMPLATE, "limits": {"cpu": "4"}},
    "a template with no limit of anything": {**TEMPLATE, "limits": {}},
    "a number as limit": {**TEMPLATE, "limits": {"cpu": 4, "memory": "1Gi", "example.com/gpu": "2"}},
    "a negative limit": {**TEMPLATE, "limits": {"cpu": "-1"}},
    "micro units": {**TEMPLATE, "limits": {"cpu": "1500u"}},
    "an exponent": {**TEMPLATE, "limits": {"memory": "1e9"}},
    "zero": {**TEMPLATE, "replicas": 0},
    "the largest": {**TEMPLATE, "replicas": 2147483647, "percentage": 2147483647},
    "the core group": {"scalableRef": {"kind": "ReplicationController", "name": "rc"}},
    "null limits beside replicas": {**TEMPLATE, "replicas": 1, "limits": None},
}


@pytest.mark.parametrize("what", ALLOWED)
def test_what_is_taken(served: ControlPlane, namespace: str, what: str) -> None:
    tried(served, namespace, ALLOWED[what])


REFUSED: dict[str, Json] = {
    "null limits alone": {**TEMPLATE, "limits": None},
    "a percentage alone": {**TEMPLATE, "percentage": 10},
    "less than none": {**TEMPLATE, "replicas": -1},
    "a negative percentage": {**SCALABLE, "percentage": -1},
    "beyond 32 bits": {**TEMPLATE, "replicas": 2147483648},
    "a percentage beyond 32 bits": {**SCALABLE, "percentage": 2147483648},
    "a broken number": {**TEMPLATE, "replicas": 1.5},
    "no quantity": {**TEMPLATE, "limits": {"cpu": "many"}},
    "an empty name": {"podTemplateRef": {"name": ""}, "replicas": 1},
    "a reference to nothing": {"podTemplateRef": {}, "replicas": 1},
    "an empty kind": {"scalableRef": {"apiGroup": "apps", "kind": "", "name": "d"}},
    "a scalable object without a name": {"scalableRef": {"apiGroup": "apps", "kind": "Deployment"}},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(served: ControlPlane, namespace: str, what: str) -> None:
    refused(served, namespace, REFUSED[what])


@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        ({}, "buffer.x-k8s.io/active-capacity"),
        ({"provisioningStrategy": None}, "buffer.x-k8s.io/active-capacity"),
        ({"provisioningStrategy": ""}, ""),
        ({"provisioningStrategy": "other"}, "other"),
    ],
)
def test_an_absent_strategy_is_the_default_and_an_empty_one_stays(
    served: ControlPlane, namespace: str, stated: Json, kept: str
) -> None:
    assert tried(served, namespace, {**TEMPLATE, "replicas": 1, **stated})["spec"]["provisioningStrategy"] == kept


def test_the_older_version_shows_the_same_object_and_is_told_to_be_old(served: ControlPlane, namespace: str) -> None:
    served.admin.create(buffers_path(namespace), buffer_json("b", **TEMPLATE, replicas=2))
    older = served.admin.get(buffers_path(namespace, "b", version="v1alpha1"))
    assert older["spec"]["replicas"] == 2
    command = [str(served.kubectl), f"--kubeconfig={served.kubeconfig}", "-n", namespace, "get"]
    done = subprocess.run([*command, "capacitybuffers.v1alpha1.autoscaling.x-k8s.io"], capture_output=True, text=True)
    assert "deprecated" in done.stderr


def test_the_columns_and_the_short_name(served: ControlPlane, namespace: str) -> None:
    served.admin.create(buffers_path(namespace), buffer_json("b", **TEMPLATE, replicas=2))
    condition = {
        "status": "True",
        "reason": "AttributesSetSuccessfully",
        "message": "ready",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    other = {**condition, "type": "LimitedByQuotas", "status": "False", "reason": "ResourceQuotasAllocated"}
    status = {"replicas": 2, "podTemplateRef": {"name": "shape"}}
    served.admin.patch(
        buffers_path(namespace, "b", "status"),
        {"status": {**status, "conditions": [other, {**condition, "type": "ReadyForProvisioning"}]}},
        "application/merge-patch+json",
        fieldManager="kubectl",  # as people: the next file's controller would step back from another one's
    )
    command = [str(served.kubectl), f"--kubeconfig={served.kubeconfig}", "-n", namespace, "get", "cb"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    titles, row = (line.split() for line in done.stdout.splitlines())
    assert titles == [
        *("NAME", "STRATEGY", "PODTEMPLATE", "REPLICAS"),
        *("CONDITIONSTYPE", "CONDITIONSSTATUS", "CONDITIONSREASON", "AGE"),
    ]
    assert row[:7] == [
        *("b", "buffer.x-k8s.io/active-capacity", "shape", "2"),
        *("ReadyForProvisioning", "True", "AttributesSetSuccessfully"),
    ]
