from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.launch import MOST_CHARACTERS
from agent.core.cluster.node import Namespace, Node, Taint
from agent.core.cluster.pod import (
    ContainerKind,
    ContainerState,
    ContainerStatus,
    OwnerReference,
    PodCondition,
    QosClass,
    Reported,
    Requirements,
    Termination,
    image_hash_of,
)
from agent.core.cluster.pod_index import WHOLE_CORES_ANNOTATION
from agent.core.cluster.runtime_profile import LanguageRuntime, RuntimeProfile
from agent.core.orders.annotations import RUNTIME, runtimes_ordered
from agent.kube.objects import pod_json as reading
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.pod_json import (
    namespace_from_json,
    namespaces_from_json,
    node_from_json,
    pod_from_json,
    pods_from_json,
)
from tests.pods import container, make_pod, pod_json, sidecar

FULL = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-7f9",
        "uid": "0b1c",
        "labels": {"app": "web", "empty": None},
        "annotations": {"note": "x", "plimsoll.dev/note": "x"},
        "deletionTimestamp": "2026-11-21T02:00:00Z",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7f", "uid": "9a", "controller": True}
        ],
    },
    "spec": {
        "nodeName": "node-1",
        "priority": 100,
        "priorityClassName": "high",
        "containers": [container("app", {"cpu": "250m", "memory": "64Mi"}, {"memory": "128Mi"})],
        "initContainers": [container("setup"), sidecar("proxy", {"cpu": "0.1"})],
        "ephemeralContainers": [{"name": "debug"}],
        "resources": {"requests": {"cpu": 1}},
        "overhead": {"cpu": 0.25},
    },
    "status": {
        "phase": "Running",
        "qosClass": "Burstable",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}, {"type": "Odd"}],
        "containerStatuses": [
            {
                "name": "app",
                "containerID": "containerd://abc",
                "restartCount": 2,
                "state": {"running": {"startedAt": "2026-11-21T01:00:00Z"}},
                "allocatedResources": {"cpu": "250m"},
                "resources": {"requests": {"cpu": "200m"}},
            }
        ],
        "initContainerStatuses": [{"name": "proxy", "containerID": "bare", "state": {"waiting": {}}}],
        "ephemeralContainerStatuses": [{"name": "debug", "containerID": "cri-o://def", "state": {"terminated": {}}}],
        "allocatedResources": {},
        "resources": {"limits": {"cpu": "2"}},
    },
}


def test_pod_from_json_reads_all_that_sizing_needs() -> None:
    pod = pod_from_json(FULL)
    assert (pod.uid, pod.namespace, pod.name, pod.node_name) == ("0b1c", "default", "web-7f9", "node-1")
    assert (pod.phase, pod.is_terminating, pod.recorded_qos) == ("Running", True, QosClass.BURSTABLE)
    assert (pod.labels, pod.annotations) == ({"app": "web", "empty": ""}, {"plimsoll.dev/note": "x"})
    assert (pod.priority, pod.priority_class) == (100, "high")
    assert pod.owners == (OwnerReference(kind="ReplicaSet", name="web-7f", uid="9a", is_controller=True),)
    assert pod.resources == Requirements(requests={"cpu": 10**9})
    assert pod.overhead == {"cpu": 25 * 10**7}
    assert pod.allocated == {}
    assert pod.actual == Reported(limits={"cpu": 2 * 10**9})
    assert pod.conditions == (
        PodCondition(type="PodResizePending", status="True", reason="Deferred"),
        PodCondition(type="Odd", status="Unknown"),
    )


def test_pod_from_json_tells_container_kinds_apart() -> None:
    pod = pod_from_json(FULL)
    kinds = [(entry.name, entry.kind) for entry in (*pod.sized_containers(), *pod.ephemeral_containers)]
    assert kinds == [
        ("setup", ContainerKind.INIT),
        ("proxy", ContainerKind.SIDECAR),
        ("app", ContainerKind.REGULAR),
        ("debug", ContainerKind.EPHEMERAL),
    ]
    assert pod.containers[0].resources.memory_limit_bytes == 128 * 2**20


def test_pod_from_json_reads_statuses_and_keeps_absent_from_empty() -> None:
    pod = pod_from_json(FULL)
    assert pod.statuses == (
        ContainerStatus(
            name="app",
            container_id="abc",
            runtime="containerd",
            state=ContainerState.RUNNING,
            restart_count=2,
            started_unix_seconds=1_795_222_800.0,  # date -u -d 2026-11-21T01:00:00Z +%s
            allocated={"cpu": 25 * 10**7},
            actual=Reported(requests={"cpu": 2 * 10**8}),
        ),
        ContainerStatus(name="proxy", container_id="bare", state=ContainerState.WAITING),
    )
    assert pod.ephemeral_statuses[0].state is ContainerState.TERMINATED
    bare = pod_from_json({"metadata": {"name": "a", "uid": "b"}, "status": {"containerStatuses": [{"name": "c"}]}})
    assert (bare.resources, bare.allocated, bare.actual) == (None, None, None)
    assert bare.statuses == (ContainerStatus(name="c"),)


def test_annotations_of_others_are_kept_where_they_are_asked_for_and_no_others() -> None:
    asked = {
        "kubernetes.io/config.hash": "0" * 32,
        "kubernetes.io/config.mirror": "0" * 32,
        "kubernetes.io/config.source": "file",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
        WHOLE_CORES_ANNOTATION.format(container="app"): "true",
        "plimsoll.dev/mode": "enforce",
    }
    many = {f"of-others/note-{number}": "x" for number in range(16_000)}
    assert make_pod(container("app"), metadata={"annotations": many | asked}).annotations == asked


def test_of_thousands_of_labels_and_owners_a_bounded_number_is_kept_and_the_controller() -> None:
    many = [{"apiVersion": "v1", "kind": "ConfigMap", "name": f"c{number}", "uid": "u"} for number in range(3000)]
    controller = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}
    metadata = {
        "labels": {f"label-{number}": "x" for number in range(3000)},
        "ownerReferences": [*many, controller],
    }
    pod = make_pod(container(), metadata=metadata)
    assert len(pod.labels) == reading.MOST_LABELS
    assert len(pod.owners) == reading.MOST_OTHER_OWNERS + 1
    assert pod.owners[0] == OwnerReference(kind="ReplicaSet", name="web", uid="r", is_controller=True)
    few = make_pod(container(), metadata={"ownerReferences": [*many[:2], controller]})
    assert [owner.name for owner in few.owners] == ["c0", "c1", "web"]


def test_pod_from_json_reads_what_planning_and_acting_ask_for() -> None:
    app = container("app") | {
        "image": "registry/app:1",
        "resizePolicy": [
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        ],
    }
    document = pod_json(
        app,
        container("fixed") | {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
        metadata={
            "resourceVersion": "77",
            "generation": 3,
            "creationTimestamp": "1970-01-01T00:01:00Z",
            "annotations": {"plimsoll.dev/long": "x" * 1025},
        },
        status={
            "observedGeneration": 2,
            "startTime": "1970-01-01T01:01:10+01:00",
            "conditions": [
                {
                    "type": "PodResizeInProgress",
                    "status": "True",
                    "reason": "Error",
                    "message": "cannot decrease memory limits",
                    "observedGeneration": 2,
                    "lastTransitionTime": "1970-01-01T00:01:20.250000000Z",
                }
            ],
            "containerStatuses": [
                {
                    "name": "app",
                    "ready": True,
                    "started": False,
                    "state": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": None}},
                    "lastState": {
                        "terminated": {
                            "exitCode": 137,
                            "reason": "OOMKilled",
                            "finishedAt": "1970-01-01T00:01:15Z",
                            "containerID": "containerd://former",
                        }
                    },
                }
            ],
        },
        os={"name": "linux"},
        resourceClaims=[{"name": "gpu"}],
        volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "x"}}],
    )
    pod = pod_from_json(document)
    assert (pod.resource_version, pod.generation, pod.observed_generation) == ("77", 3, 2)
    assert (pod.created_unix_seconds, pod.started_unix_seconds) == (60.0, 70.0)
    assert pod.annotations == {"plimsoll.dev/long": "x" * 1025}
    assert [(entry.restarts_for_cpu, entry.restarts_for_memory) for entry in pod.containers] == [
        (False, True),
        (True, False),
    ]
    assert pod.containers[0].image_hash == image_hash_of("registry/app:1") != image_hash_of("registry/app:2")
    assert [entry.runtime for entry in pod.containers] == [None, None]
    assert (pod.operating_system, pod.has_memory_volumes, pod.has_resource_claims) == ("linux", False, True)
    assert pod.conditions == (
        PodCondition(
            type="PodResizeInProgress",
            status="True",
            reason="Error",
            message="cannot decrease memory limits",
            observed_generation=2,
            last_transition_unix_seconds=80.25,
        ),
    )
    (status,) = pod.statuses
    assert (status.is_ready, status.is_started, status.started_unix_seconds) == (True, False, None)
    assert status.termination == Termination(exit_code=1, reason="Error")
    assert status.last_termination == Termination(
        exit_code=137, reason="OOMKilled", finished_unix_seconds=75.0, container_id="former"
    )


def test_pod_from_json_of_a_bare_pod_leaves_all_that_unknown() -> None:
    pod = pod_from_json(pod_json(container("app")))
    assert (pod.resource_version, pod.generation, pod.observed_generation) == (None, None, None)
    assert (pod.created_unix_seconds, pod.started_unix_seconds) == (None, None)
    assert (pod.operating_system, pod.has_memory_volumes, pod.has_resource_claims) == (None, False, False)


@pytest.mark.parametrize(
    ("spec", "system"),
    [
        ({"os": {"name": "windows"}}, "windows"),
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, "windows"),
        ({"nodeSelector": {"beta.kubernetes.io/os": "windows"}}, "windows"),
        ({"nodeSelector": {"kubernetes.io/os": "linux"}}, "linux"),
        ({"nodeSelector": {"zone": "a"}}, None),
    ],
)
def test_pod_from_json_finds_the_operating_system(spec: dict[str, Any], system: str | None) -> None:
    pod = pod_from_json(pod_json(**spec))
    assert (pod.operating_system, pod.is_windows) == (system, system == "windows")


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "٢026-01-01T00:00:00Z"]
)
def test_pod_from_json_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(ConvertError) as raised:
        pod_from_json(pod_json(metadata={"creationTimestamp": text}))
    assert str(raised.value) == (
        f"metadata.creationTimestamp: {text!r} is not allowed (a time such as 2026-01-31T12:00:00Z)"
    )


NODE = {
    "kind": "Node",
    "metadata": {"name": "node-1", "uid": "n", "resourceVersion": "5", "labels": {"zone": "a"}},
    "spec": {
        "unschedulable": True,
        "taints": [
            {"key": "k", "effect": "NoSchedule", "value": "v", "timeAdded": "2026-01-01T00:00:00Z"},
            {"key": "l", "effect": "NoExecute"},
        ],
    },
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "allocatable": {"cpu": "3920m", "memory": "7Gi"},
        "declaredFeatures": ["B", "A"],
        "nodeInfo": {"kubeletVersion": "v1.37.1", "operatingSystem": "linux"},
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Odd"}],
        "images": [{"names": ["x"]}],
    },
}


def test_node_from_json_reads_what_planning_asks_for() -> None:
    node = node_from_json(NODE)
    assert node == Node(
        name="node-1",
        uid="n",
        resource_version="5",
        labels={"zone": "a"},
        taints=(
            Taint(key="k", effect="NoSchedule", value="v"),
            Taint(key="l", effect="NoExecute"),
        ),
        capacity={"cpu": 4 * 10**9, "memory": 8 * 2**30 * 10**9},
        allocatable={"cpu": 3920 * 10**6, "memory": 7 * 2**30 * 10**9},
        kubelet_version="v1.37.1",
        operating_system="linux",
        declared_features=frozenset({"A", "B"}),
        conditions={"Ready": "True", "Odd": "Unknown"},
    )
    assert (node.allocatable_cpu_millicores, node.allocatable_memory_bytes) == (3920, 7 * 2**30)


def test_node_from_json_of_a_new_node_knows_nothing_and_says_so() -> None:
    node = node_from_json({"metadata": {"name": "node-1"}})
    assert node == Node(name="node-1")
    assert (node.allocatable_cpu_millicores, node.declared_features) == (None, None)
    assert (
        node_from_json({"metadata": {"name": "a"}, "status": {"declaredFeatures": []}}).declared_features == frozenset()
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Pod", "metadata": {"name": "x"}}, "kind: 'Pod' is not allowed (Node)"),
        ({}, "metadata.name: missing"),
        ({"metadata": {"name": "x"}, "spec": {"taints": [{}]}}, "spec.taints[0].key: missing"),
        (
            {"metadata": {"name": "x"}, "status": {"allocatable": {"cpu": "many"}}},
            "status.allocatable.cpu: 'many' is not a quantity",
        ),
    ],
)
def test_node_from_json_names_what_is_wrong(document: Any, message: str) -> None:
    with pytest.raises(ConvertError) as raised:
        node_from_json(document)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("kind", ["Namespace", "PartialObjectMetadata", None])
def test_namespace_from_json_takes_the_whole_or_its_metadata(kind: str | None) -> None:
    document = {
        "kind": kind,
        "metadata": {"name": "shop", "labels": {"a": "b"}, "annotations": {"plimsoll.dev/mode": "off"}},
    }
    known = Namespace(name="shop", labels={"a": "b"}, annotations={"plimsoll.dev/mode": "off"})
    assert namespace_from_json(document) == known


def test_namespace_from_json_refuses_another_kind() -> None:
    with pytest.raises(ConvertError, match=r"kind: 'Pod' is not allowed \(Namespace or PartialObjectMetadata\)"):
        namespace_from_json({"kind": "Pod", "metadata": {"name": "x"}})


@pytest.mark.parametrize("kind", ["NamespaceList", "List", None])
def test_namespaces_from_json_reads_lists_and_one(kind: str | None) -> None:
    namespace = {"kind": "Namespace", "metadata": {"name": "shop"}}
    assert namespaces_from_json({"kind": kind, "items": [namespace, namespace]}) == (Namespace(name="shop"),) * 2
    assert namespaces_from_json(namespace) == (Namespace(name="shop"),)


@pytest.mark.parametrize("kind", ["PodList", "List", None])
def test_pods_from_json_reads_lists(kind: str | None) -> None:
    item = {key: value for key, value in FULL.items() if key != "kind"}
    assert [pod.uid for pod in pods_from_json({"kind": kind, "items": [item, FULL]})] == ["0b1c", "0b1c"]
    assert pods_from_json({"kind": "PodList"}) == ()
    assert len(pods_from_json(FULL)) == 1


def resources_of(cpu: object) -> dict[str, Any]:
    return pod_json({"name": "app", "resources": {"requests": {"cpu": cpu}}})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "document: [] is not an object"),
        ({"kind": "Service"}, "kind: 'Service' is not allowed (Pod, PodList or List)"),
        ({}, "kind: missing (Pod, PodList or List)"),
        ({"kind": "Pod"}, "metadata.uid: missing (a text that is not empty)"),
        ({"kind": "List", "items": {}}, "items: {} is not allowed (a list)"),
        ({"kind": "List", "items": [{"kind": "Node"}]}, "items[0].kind: 'Node' is not allowed (Pod)"),
        ({"kind": "List", "items": [FULL, 7]}, "items[1]: 7 is not an object"),
        (resources_of("1x"), "spec.containers[0].resources.requests.cpu: '1x' is not a quantity (a number with"),
        (resources_of(None), "spec.containers[0].resources.requests.cpu: missing (a number with"),
        (resources_of(True), "spec.containers[0].resources.requests.cpu: True is not allowed (a number with"),
        (resources_of(float("nan")), "spec.containers[0].resources.requests.cpu: 'nan' is not a quantity"),
        (pod_json({}), "spec.containers[0].name: missing"),
        (pod_json({"name": 5}), "spec.containers[0].name: 5 is not allowed (a text)"),
        (pod_json(priority="high"), "spec.priority: 'high' is not allowed (a whole number)"),
        (pod_json(priority=True), "spec.priority: True is not allowed (a whole number)"),
        (pod_json(metadata={"labels": {1: "x"}}), "metadata.labels: key 1 is not allowed (a text)"),
        (pod_json(status={"qosClass": "Best"}), "status.qosClass: 'Best' is not allowed (Guaranteed, Burstable, BestE"),
        (
            pod_json(metadata={"ownerReferences": [{"kind": "a", "name": "b", "uid": "c", "controller": 1}]}),
            "metadata.ownerReferences[0].controller: 1 is not allowed (true or false)",
        ),
        (
            pod_json(status={"nodeAllocatableResourceClaimStatuses": [{"containers": [1]}]}),
            "status.nodeAllocatableResourceClaimStatuses[0].containers: [1] is not allowed (a list of texts)",
        ),
        (pod_json("x" * 200), "spec.containers[0]: 'xxx"),
    ],
)
def test_pods_from_json_names_path_value_and_what_is_allowed(document: Any, message: str) -> None:
    with pytest.raises(ConvertError) as raised:
        pods_from_json(document)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_pods_from_json_puts_the_place_in_front() -> None:
    with pytest.raises(ConvertError, match=r"^pods\.spec\.containers"):
        pods_from_json(resources_of("1x"), "pods")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["kind", "items", "metadata", "spec", "status", "name", "uid", "containers", "resources"]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)


@given(JSON)
def test_pods_from_json_of_any_document_gives_pods_or_the_error(document: object) -> None:
    with contextlib.suppress(ConvertError):
        assert isinstance(pods_from_json(document), tuple)


# Runtimes


def of_limit(
    divisor: str | None = None, container: str | None = None, resource: str = "limits.memory"
) -> dict[str, Any]:
    stated = {"resource": resource, "divisor": divisor, "containerName": container}
    reference = {key: value for key, value in stated.items() if value is not None}
    return {"name": "GOMEMLIMIT", "valueFrom": {"resourceFieldRef": reference}}


def runtime(annotations: dict[str, str] | None = None, **fields: Any) -> RuntimeProfile | None:
    pod = make_pod(container("app", **fields), metadata={"annotations": annotations or {}})
    return pod.containers[0].runtime


def test_a_container_keeps_the_sizes_of_its_flags_and_nothing_else_of_its_environment() -> None:
    env = [{"name": "PASSWORD", "value": "hunter2"}, {"name": "JAVA_TOOL_OPTIONS", "value": "-Xmx1g -Dkey=hunter2"}]
    java = RuntimeProfile(runtime=LanguageRuntime.JAVA, heap_bytes=1 << 30, heap_source="-Xmx in JAVA_TOOL_OPTIONS")

    assert runtime(env=env) == java
    assert runtime(env=env, command=["java"], args=["Main"]) == java
    assert runtime({"plimsoll.dev/runtime": "app=none"}, env=env) is None
    assert runtime({"plimsoll.dev/runtime": "python"}, env=env) == RuntimeProfile(runtime=LanguageRuntime.PYTHON)
    assert runtime(image="registry/openjdk:21") == RuntimeProfile(
        runtime=LanguageRuntime.JAVA, limit_share_ratio=0.25, small_heap_bytes=126 << 20
    )
    assert runtime(image="registry/app:1", env=[{"name": "PASSWORD", "value": "hunter2"}]) is None


@pytest.mark.parametrize(
    ("variable", "share"),
    [
        (of_limit(), 1.0),
        (of_limit("0"), 1.0),  # as the API server fills it in
        (of_limit("1"), 1.0),
        (of_limit("1Ki", "app"), 1 / 1024),  # so many KiB, which go takes for bytes
    ],
)
def test_a_reference_to_the_container_s_own_limit_is_a_share_of_it(variable: dict[str, Any], share: float) -> None:
    assert runtime(env=[variable]) == RuntimeProfile(
        runtime=LanguageRuntime.GO, limit_share_ratio=share, heap_source="GOMEMLIMIT"
    )


@pytest.mark.parametrize(
    "variable",
    [
        of_limit(container="other"),
        of_limit(resource="requests.memory"),
        {"name": "GOMEMLIMIT", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
    ],
)
def test_what_a_variable_has_from_elsewhere_is_not_known_and_named(variable: dict[str, Any]) -> None:
    assert runtime(env=[variable]) == RuntimeProfile(runtime=LanguageRuntime.GO, hidden="GOMEMLIMIT")
    assert runtime(env=[{"name": "GOMEMLIMIT"}]) == RuntimeProfile(runtime=LanguageRuntime.GO)


def test_an_environment_that_is_no_text_is_passed_over_and_shown_nowhere() -> None:
    env = [{"value": "hunter2"}, {"name": "JAVA_TOOL_OPTIONS", "value": 3}]

    assert runtime(command=["java", 7], args="-Xmx1g", env=env) == RuntimeProfile(
        runtime=LanguageRuntime.JAVA, limit_share_ratio=0.25, small_heap_bytes=126 << 20
    )


def test_the_containers_of_a_pod_have_one_budget_for_what_is_filled_in() -> None:
    text = "x" * (MOST_CHARACTERS // 2)
    start: dict[str, Any] = {"command": ["java", "$(TEXT)", "Main"], "env": [{"name": "TEXT", "value": text}]}
    pod = make_pod(*(container(name) | start for name in ("first", "second", "third")))

    profiles = [entry.runtime for entry in pod.containers]
    assert [profile and profile.hidden for profile in profiles] == ["", "", "the command line"]


def test_a_language_runtime_is_ordered_by_name_first() -> None:
    def ordered(value: str) -> list[LanguageRuntime | None]:
        pod = make_pod(container("app"), container("proxy"), metadata={"annotations": {RUNTIME: value}})
        return [None if entry.runtime is None else entry.runtime.runtime for entry in pod.containers]

    assert ordered("java,proxy=go") == [LanguageRuntime.JAVA, LanguageRuntime.GO]
    assert ordered("java,proxy=none") == [LanguageRuntime.JAVA, None]
    assert ordered("proxy=go") == [None, LanguageRuntime.GO]


def test_the_runtimes_of_a_pod_are_read_once_and_not_for_each_container(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Mapping[str, str]] = []

    def counted(annotations: Mapping[str, str]) -> Mapping[str, LanguageRuntime]:
        reads.append(annotations)
        return runtimes_ordered(annotations)

    monkeypatch.setattr(reading, "runtimes_ordered", counted)
    make_pod(container("app"), container("other"), metadata={"annotations": {RUNTIME: "none"}})
    assert len(reads) == 1


def test_containers_that_end_have_no_runtime() -> None:
    pod = make_pod(
        container("app"), initContainers=[container("init", command=["java"]), sidecar("log") | {"command": ["java"]}]
    )

    assert [entry.runtime is None for entry in pod.init_containers] == [True, False]
