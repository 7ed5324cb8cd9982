from __future__ import annotations

import copy
from typing import Any

import pytest

from agent.core.buffers.template import (
    chunk_of,
    is_same_content,
    managed_content,
    managed_template_name,
    with_default_requests,
)
from agent.kube.objects.buffer_json import pod_of_template
from tests.capacity_buffers import content, cores, gibibytes
from tests.pods import container, sidecar


def managed(of: dict[str, Any]) -> Any:
    before = copy.deepcopy(of)
    result = managed_content(of, pod_of_template)
    assert of == before, "what came from outside must stay as it is"
    assert managed_content(result, pod_of_template) == result
    return result


def defaulted(of: dict[str, Any]) -> Any:
    return with_default_requests(of, pod_of_template)


@pytest.mark.parametrize(("length", "kept"), [(1, 1), (225, 225), (226, 225), (253, 225)])
def test_the_name_is_cut_so_that_the_api_accepts_it(length: int, kept: int) -> None:
    name = managed_template_name("b" * length)
    assert name == f"capacitybuffer-{'b' * kept}-pod-template"
    assert len(name) <= 253


def test_of_a_live_pod_labels_annotations_and_spec_remain() -> None:
    of_this_pod = ("original-resources", "admission", "share-ticket", "startup-boosted")
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "web-1",
            "uid": "u",
            "labels": {"app": "web"},
            "annotations": {"team": "a", **{f"plimsoll.dev/{name}": "{}" for name in of_this_pod}},
            "finalizers": ["x"],
        },
        "spec": {
            "nodeName": "n1",
            "nodeSelector": {"disk": "ssd"},
            "containers": [container(requests={"cpu": "1"})],
            "ephemeralContainers": [{"name": "debug"}],
        },
        "status": {"phase": "Running"},
    }
    assert managed(pod) == {
        "metadata": {"labels": {"app": "web"}, "annotations": {"team": "a"}},
        "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [container(requests={"cpu": "1"})]},
    }


def test_metadata_without_anything_to_keep_are_left_out() -> None:
    assert managed({"metadata": {"name": "x", "labels": None}, "spec": {}}) == {"spec": {}}


def test_volumes_of_access_tokens_are_taken_off_everywhere() -> None:
    token, data = {"name": "kube-api-access-x7v2p", "mountPath": "/t"}, {"name": "data", "mountPath": "/d"}
    of = {
        "spec": {
            "volumes": [{"name": "kube-api-access-x7v2p"}, {"name": "data"}],
            "initContainers": [container("init", volumeMounts=[token])],
            "containers": [container("app", volumeMounts=[data, token]), container("b", volumeMounts=[token])],
        }
    }
    spec = managed(of)["spec"]
    assert spec["volumes"] == [{"name": "data"}]
    assert [unit.get("volumeMounts") for unit in (*spec["initContainers"], *spec["containers"])] == [None, [data], None]


def test_a_template_with_no_volume_but_the_token_has_none() -> None:
    assert managed({"spec": {"volumes": [{"name": "kube-api-access-x7v2p"}], "containers": []}}) == {
        "spec": {"containers": []}
    }


def test_requests_come_from_limits_where_they_are_missing() -> None:
    of = {
        "spec": {
            "initContainers": [container("init", limits={"cpu": "3"})],
            "containers": [
                container("a", requests={"cpu": "1"}, limits={"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}),
                container("b", requests={"cpu": "1"}),
                {"name": "c"},
            ],
        }
    }
    spec = defaulted(of)["spec"]
    assert spec["initContainers"][0]["resources"]["requests"] == {"cpu": "3"}
    first = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert spec["containers"][0]["resources"]["requests"] == first
    assert spec["containers"][1:] == of["spec"]["containers"][1:]


@pytest.mark.parametrize(
    ("own", "containers", "requests"),
    [
        # What containers request together, not the limit: a buffer of such chunks is not fatter than its pods.
        ({"limits": {"cpu": "4", "memory": "4Gi"}}, [{"cpu": "1"}, {"cpu": "500m"}], {"cpu": "1500m", "memory": "4Gi"}),
        ({"limits": {"cpu": "4"}}, [{"memory": "1Gi"}], {"cpu": "4", "memory": "1Gi"}),
        ({"limits": {"cpu": "4"}, "requests": {"cpu": "3"}}, [{"cpu": "1"}], {"cpu": "3"}),
        ({"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}, [{"hugepages-2Mi": "2Mi"}], None),
        ({"limits": {}, "requests": {"cpu": "3"}}, [{"memory": "1Gi"}], {"cpu": "3"}),
        ({"limits": {"cpu": None}}, [], ValueError),
    ],
)
def test_requests_of_the_pod_itself(own: dict[str, Any], containers: list[dict[str, str]], requests: Any) -> None:
    of = content(resources=own)
    of["spec"]["containers"] = [container(f"c{place}", amounts) for place, amounts in enumerate(containers)]
    if requests is ValueError:
        with pytest.raises(ValueError, match=r"limits\.cpu"):
            defaulted(of)
        return
    expected = {"cpu": "1", "hugepages-2Mi": "4Mi"} if requests is None else requests
    assert defaulted(of)["spec"]["resources"]["requests"] == expected


def test_without_resources_of_its_own_a_pod_gets_none() -> None:
    assert "resources" not in defaulted(content({"cpu": "1"}))["spec"]


def test_a_chunk_requests_what_the_pod_would() -> None:
    # Two containers of 1 and 2, a sidecar of 0.5 beside them; an init container of 4 after the sidecar: 4.5 is most.
    of = {
        "spec": {
            "initContainers": [sidecar("mesh", {"cpu": "500m"}), container("init", {"cpu": "4"})],
            "containers": [container("a", {"cpu": "1"}), container("b", limits={"cpu": "2", "memory": "1Gi"})],
            "overhead": {"memory": "1Gi"},
            "priorityClassName": "high",
        }
    }
    chunk = chunk_of(of, pod_of_template)
    assert chunk.requests == {"cpu": cores(4.5), "memory": gibibytes(2)}
    assert chunk.priority_class == "high"
    assert not chunk.has_cross_namespace_affinity


def test_resources_of_the_pod_itself_count_instead_of_its_containers() -> None:
    of = content({"cpu": "1", "nvidia.com/gpu": "2"}, resources={"requests": {"cpu": "3"}})
    assert chunk_of(of, pod_of_template).requests == {"cpu": cores(3), "nvidia.com/gpu": cores(2)}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OWN: dict[str, Any] = {"topologyKey": "zone"}
OTHER: dict[str, Any] = {"namespaces": ["other"]}
ALL: dict[str, Any] = {"namespaceSelector": {}}


@pytest.mark.parametrize(
    ("affinity", "crosses"),
    [
        ({"podAffinity": {REQUIRED: [OWN, OTHER]}}, True),
        ({"podAntiAffinity": {REQUIRED: [ALL]}}, True),
        ({"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": OTHER}]}}, True),
        ({"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": ALL}]}}, True),
        ({"podAffinity": {REQUIRED: [OWN], PREFERRED: [{"podAffinityTerm": OWN}]}}, False),
        ({"podAffinity": {REQUIRED: [{"namespaces": [], "namespaceSelector": None}]}}, False),
        ({"nodeAffinity": {REQUIRED: OTHER}}, False),
        (None, False),
    ],
)
def test_affinity_to_other_namespaces(affinity: Any, crosses: bool) -> None:
    assert chunk_of(content(affinity=affinity), pod_of_template).has_cross_namespace_affinity is crosses


@pytest.mark.parametrize("spec", [[], {"containers": 1}, {"containers": ["x"]}, content({"cpu": "lots"})["spec"]])
def test_what_is_no_pod_is_said_by_the_reader(spec: Any) -> None:
    if isinstance(spec, list):
        assert managed_content({"spec": spec}, pod_of_template) == {"spec": {}}
        return
    with pytest.raises(ValueError, match=r"spec\.containers"):
        managed_content({"spec": spec}, pod_of_template)


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        (content({"cpu": "1"}), content({"cpu": "1000m"}), True),
        (content({"cpu": "1"}), content({"cpu": "1001m"}), False),
        (content({"cpu": "1"}), content({"cpu": "1", "memory": "0"}), False),
        (content({"cpu": "odd"}), content({"cpu": "odd"}), True),
        (content(), content(nodeSelector={}, tolerations=[], hostname=None), True),
        (content(), {"metadata": {"labels": {}, "creationTimestamp": None}, **content()}, True),
        (content(), content(hostNetwork=True), False),
        (content(volumes=[{"name": "a", "emptyDir": {}}]), content(volumes=[{"name": "a"}]), False),
        (content(tolerations=[{"key": "a"}, {"key": "b"}]), content(tolerations=[{"key": "b"}, {"key": "a"}]), False),
    ],
)
def test_contents_that_mean_the_same(one: dict[str, Any], other: dict[str, Any], verdict: bool) -> None:
    assert is_same_content(one, other) is verdict
    assert is_same_content(other, one) is verdict
