from __future__ import annotations

from typing import Any

import pytest

from agent.core.admission.answer import Admission
from agent.core.admission.patch import change_operations, patch_operations
from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.orders import annotations as names
from agent.core.plan.pod_change import Change, Setting, changed_pod
from tests.admissions import MB, admitted, estimate, new_pod, patched, pod_of
from tests.json_patch import PatchError, apply_patch
from tests.pods import container, sidecar

CPU, MEMORY = "cpu", "memory"


def operations(document: dict[str, Any], *, has_annotations: bool = True) -> list[dict[str, Any]]:
    patch: Any = patch_operations(admitted(document), has_annotations=has_annotations)
    return [operation for operation in patch if not operation["path"].startswith("/metadata")]


def test_each_operation_goes_by_what_is_there() -> None:
    document = new_pod(
        container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "1"}),
        container("free", {MEMORY: "300M"}),
        initContainers=[container("init"), sidecar("side", {CPU: "1"}, {CPU: "1", "ephemeral-storage": "1"})],
    )
    first = "/spec/containers/0/resources"
    assert operations(document) == [
        {"op": "replace", "path": "/spec/initContainers/1/resources/requests/cpu", "value": "300m"},
        {"op": "remove", "path": "/spec/initContainers/1/resources/limits/cpu"},
        {"op": "replace", "path": f"{first}/requests/cpu", "value": "300m"},
        {"op": "remove", "path": f"{first}/limits/cpu"},
        {"op": "replace", "path": f"{first}/requests/memory", "value": f"{200 * MB}"},
        {"op": "add", "path": f"{first}/limits/memory", "value": f"{512 * MB}"},
        {"op": "replace", "path": "/spec/containers/1/resources/requests/memory", "value": f"{200 * MB}"},
        {"op": "add", "path": "/spec/containers/1/resources/limits", "value": {MEMORY: f"{512 * MB}"}},
    ]
    done = patched(document, admitted(document))
    assert done["spec"]["initContainers"][1]["resources"]["limits"] == {"ephemeral-storage": "1"}


@pytest.mark.parametrize("limits", [None, {}])
def test_a_first_limit_is_added_whatever_stands_for_none(limits: object) -> None:
    document = new_pod({"name": "app", "resources": {"requests": {MEMORY: "300M"}, "limits": limits}})
    done = patched(document, admitted(document))
    assert done["spec"]["containers"][0]["resources"]["limits"] == {MEMORY: f"{512 * MB}"}


def test_annotations_are_added_beside_others_or_as_the_first() -> None:
    document = new_pod(container("app", {CPU: "500m"}), orders={"a/b~c": "kept"})
    done = patched(document, admitted(document))
    assert set(done["metadata"]["annotations"]) == {"a/b~c", names.MODE, names.ADMISSION, names.ORIGINAL_RESOURCES}
    admission = admitted(document)
    bare = {**document, "metadata": {"name": "web"}}
    patch: Any = patch_operations(admission, has_annotations=False)
    assert set(apply_patch(bare, patch)["metadata"]["annotations"]) == {names.ADMISSION, names.ORIGINAL_RESOURCES}


def test_nothing_changed_is_an_empty_patch() -> None:
    workload = Workload(namespace="shop", kind="Deployment", name="web")
    same = admitted(new_pod(container("app", {CPU: "300m"})), estimate(300, None))
    assert patch_operations(same, has_annotations=True) == []
    blank = Admission(outcome=same.outcome, why="", workload=workload, annotations={"a": "b"})
    assert patch_operations(blank, has_annotations=False) == []


def test_changes_of_amounts_that_are_there_are_made_where_they_are() -> None:
    document = new_pod(
        container("app", {CPU: "500m"}, {CPU: "1"}), initContainers=[container("init"), sidecar("side", {CPU: "1"})]
    )
    changes = [
        Change(container=name, kind=kind, resource=Resource.CPU, setting=setting, before=before, after=before // 2)
        for name, kind, setting, before in (
            ("side", ContainerKind.SIDECAR, Setting.REQUEST, 1000),
            ("app", ContainerKind.REGULAR, Setting.LIMIT, 1000),
        )
    ]
    patch: Any = change_operations(pod_of(document), changes)
    assert pod_of(apply_patch(document, patch)) == changed_pod(pod_of(document), changes)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/a/x"},
        {"op": "replace", "path": "/a/x", "value": 1},
        {"op": "add", "path": "/a/x/y", "value": 1},
        {"op": "add", "path": "/b/7/y", "value": 1},
        {"op": "add", "path": "/b/0", "value": 1},
        {"op": "add", "path": "/c/0", "value": 1},
        {"op": "copy", "path": "/a", "value": 1},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_the_tests_own_patch_is_strict(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchError):
        apply_patch({"a": {}, "b": [{}], "c": 1}, [operation])
