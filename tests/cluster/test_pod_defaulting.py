"""What a real API server fills into new pods' resources, and the class that it gives them, against what we expect.

Pods are created by dry run: the server does all that it does otherwise, and keeps nothing.
"""

from __future__ import annotations

import random
import re
from http import HTTPStatus
from typing import Any

import pytest

from agent.core.admission.answer import AdmissionFacts, AdmissionOutcome
from agent.core.cluster.node import Namespace
from agent.core.cluster.pod_defaults import Defaulting, class_at_creation, defaulted
from agent.core.cluster.versions import Version, parse_version
from agent.kube.objects.pod_json import pod_from_json
from tests.admissions import admitted, patched
from tests.cluster.api import ApiError, Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import pod_path
from tests.random_pods import random_estimate, random_pod

pytestmark = pytest.mark.cluster

PODS = 1000


def defaulting_of(cluster: ControlPlane) -> Defaulting:
    version = parse_version(cluster.version)
    assert version is not None
    if version < Version(1, 34):
        return Defaulting.DROPPED
    return Defaulting.LIMITS if version >= Version(1, 37) else Defaulting.REQUESTS


def stored(cluster: ControlPlane, namespace: str, document: Json) -> Json | None:
    """Return the pod as the server would store it; None = it takes none like that."""
    metadata = {**document["metadata"], "namespace": namespace}
    metadata.pop("uid", None)
    metadata["ownerReferences"] = [{"apiVersion": "apps/v1", **owner} for owner in metadata["ownerReferences"]]
    spec = {**document["spec"]}
    for key in ("containers", "initContainers"):
        if key in spec:
            spec[key] = [{"image": "plimsoll.test/none:1", **container} for container in spec[key]]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    try:
        return cluster.admin.create(pod_path(namespace), body, dryRun="All")
    except ApiError as error:
        if error.status != HTTPStatus.UNPROCESSABLE_ENTITY:
            raise
        return None


def own(document: Json) -> Any:
    """Return the pod's own resources, in nanos."""
    resources = pod_from_json(document).resources
    return resources and (dict(resources.requests), dict(resources.limits))


def test_what_the_server_fills_in_and_the_class_that_it_gives_are_known(cluster: ControlPlane, namespace: str) -> None:
    rng = random.Random(15)
    defaulting = defaulting_of(cluster)
    taken = filled = 0
    for _ in range(PODS):
        document = random_pod(rng)
        pod = stored(cluster, namespace, document)
        if pod is None:
            continue
        taken += 1
        expected = defaulted(pod_from_json(document), defaulting).resources
        assert own(pod) == (expected and (dict(expected.requests), dict(expected.limits))), document
        assert pod["status"]["qosClass"] == class_at_creation(pod_from_json(document), defaulting), document
        filled += own(pod) != own(document)
    assert taken > PODS / 3
    assert filled > PODS / 20


def test_a_pod_that_is_sized_is_taken_and_keeps_the_class_that_the_server_gives(
    cluster: ControlPlane, namespace: str
) -> None:
    rng = random.Random(16)
    is_known = defaulting_of(cluster) is not Defaulting.DROPPED
    facts = AdmissionFacts(namespace=Namespace(name="shop"), knows_pod_level_resources=is_known)
    sized = 0
    for _ in range(PODS):
        document = random_pod(rng)
        known = {name: random_estimate(rng) for name in ("0", "1", "2", "init0", "init1")}
        admission = admitted(document, known, facts=facts)
        if admission.outcome is not AdmissionOutcome.PATCHED:
            continue
        before = stored(cluster, namespace, document)
        if before is None:
            continue  # it is refused as it came
        after = stored(cluster, namespace, patched(document, admission))
        assert after is not None, (document, admission.moves)
        # By a budget of its own a pod may come to another class, and whoever creates it is told which.
        match = re.search(r"QoS class (\w+) instead of", " ".join(admission.warnings))
        qos = before["status"]["qosClass"] if match is None else match[1]
        assert after["status"]["qosClass"] == qos, (document, admission.moves)
        sized += 1
    assert sized > PODS / 10
