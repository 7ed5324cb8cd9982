from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.workload import Workload, workload_of
from tests.pods import container, make_pod, mirror_metadata

HASH = "7c5ddbdf54"
names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


def workload(
    kind: str | None,
    name: str = "",
    *,
    labels: dict[str, str] | None = None,
    controller: bool = True,
    annotations: dict[str, str] | None = None,
) -> Workload:
    owner = {"kind": kind, "name": name, "uid": "owner", "controller": controller}
    metadata: dict[str, Any] = {
        "labels": labels or {},
        "annotations": annotations or {},
        "ownerReferences": [owner] if kind else [],
    }
    return workload_of(make_pod(container(), metadata=metadata))


@pytest.mark.parametrize(
    ("replica_set", "labels", "kind", "name"),
    [
        (f"web-{HASH}", {"pod-template-hash": HASH}, "Deployment", "web"),
        (f"web-front-2-{HASH}", {"pod-template-hash": HASH}, "Deployment", "web-front-2"),
        ("web-b", {"pod-template-hash": "b"}, "Deployment", "web"),  # 6 is one digit long, and spelt b
        (f"web-{HASH}", {"rollouts-pod-template-hash": HASH}, "Rollout", "web"),
        # No label: a ReplicaSet that somebody made, however its name ends.
        (f"web-{HASH}", {}, "ReplicaSet", f"web-{HASH}"),
        # A label that does not end the name, or is no such hash (a is not among its letters; eleven are too many).
        ("web-7c5ddbdf55", {"pod-template-hash": HASH}, "ReplicaSet", "web-7c5ddbdf55"),
        (f"web{HASH}", {"pod-template-hash": HASH}, "ReplicaSet", f"web{HASH}"),
        ("web-canary", {"pod-template-hash": "canary"}, "ReplicaSet", "web-canary"),
        ("web-7c5ddbdf54b", {"pod-template-hash": "7c5ddbdf54b"}, "ReplicaSet", "web-7c5ddbdf54b"),
        ("web-", {"pod-template-hash": ""}, "ReplicaSet", "web-"),
        (f"-{HASH}", {"pod-template-hash": HASH}, "ReplicaSet", f"-{HASH}"),  # nothing would be left
    ],
)
def test_workload_of_a_replica_set_pod_is_its_maker_if_the_hash_label_says_so(
    replica_set: str, labels: dict[str, str], kind: str, name: str
) -> None:
    assert workload("ReplicaSet", replica_set, labels=labels) == Workload(namespace="shop", kind=kind, name=name)


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet", "Job", "ReplicationController", "SparkApplication"])
def test_workload_of_another_controllers_pod_is_the_controller(kind: str) -> None:
    # A name that ends like a template hash is taken as it is: a label names no ReplicaSet here.
    expected = Workload(namespace="shop", kind=kind, name=f"pg-main-{HASH}")
    assert workload(kind, f"pg-main-{HASH}", labels={"pod-template-hash": HASH}) == expected


def test_workload_of_a_pod_without_controller_is_the_pod() -> None:
    bare = Workload(namespace="shop", kind="Pod", name="web")
    assert workload(None) == bare
    assert workload("ConfigMap", "owner-but-no-controller", controller=False) == bare


def test_workload_of_a_static_pod_is_the_pod_not_its_node() -> None:
    bare = Workload(namespace="shop", kind="Pod", name="web")
    assert workload("Node", "node-1", annotations={"kubernetes.io/config.mirror": "0" * 32}) == bare


def test_workload_of_a_pod_that_only_says_it_is_static_is_its_controllers() -> None:
    annotations = mirror_metadata()["annotations"]
    assert workload("StatefulSet", "db", annotations=annotations) == Workload(
        namespace="shop", kind="StatefulSet", name="db"
    )


@given(names, st.text(alphabet="bcdf456789", min_size=1, max_size=10))
def test_workload_of_any_deployments_pod_is_its_name_whatever_its_dashes(name: str, template_hash: str) -> None:
    deployment = workload("ReplicaSet", f"{name}-{template_hash}", labels={"pod-template-hash": template_hash})
    assert deployment == Workload(namespace="shop", kind="Deployment", name=name)


@given(names, names)
def test_workload_never_has_a_name_that_the_owner_does_not_begin_with(name: str, label: str) -> None:
    assert name.startswith(workload("ReplicaSet", name, labels={"pod-template-hash": label}).name)
