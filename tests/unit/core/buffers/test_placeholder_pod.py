from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.buffers.placeholder_pod import BUFFER_UID, placeholder_of
from agent.core.cluster.effective_resources import pod_requests
from agent.core.cluster.qos import computed_qos_class
from agent.core.orders.annotations import PLACEHOLDER, is_placeholder
from agent.kube.objects.buffer_json import pod_of_template
from tests.placeholders import BUFFER, OPTIONS, Json, container, content, placeholder_pod, read, shape_of

OWN = {BUFFER_UID: BUFFER.uid}


def spec_of(template: Json) -> Json:
    spec: Any = shape_of(template).body["spec"]
    return dict(spec)


def resources_of(template: Json) -> list[Json]:
    return [entry["resources"] for entry in spec_of(template)["containers"]]


# -- what it is ----------------------------------------------------------------------------------------------------


def test_a_placeholder_has_nothing_of_its_template_but_shape_and_place() -> None:
    template = content(
        {**container("app", cpu="500m"), "env": [{"name": "PASSWORD", "value": "x"}], "ports": [{"hostPort": 80}]},
        volumes=[{"name": "secret", "secret": {"secretName": "s"}}],
        serviceAccountName="admin",
        imagePullSecrets=[{"name": "s"}],
        hostNetwork=True,
        nodeName="node-a",
        priority=1000,
        priorityClassName="high",
        runtimeClassName="kata",
        terminationGracePeriodSeconds=300,
        nodeSelector={"disk": "ssd"},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        schedulerName="other",
    )
    assert spec_of(template) == {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "schedulerName": "other",
        "priorityClassName": "plimsoll-placeholder",
        "preemptionPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65535,
            "runAsGroup": 65535,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "room",
                "image": OPTIONS.image,
                "resources": {"requests": {"cpu": "500m"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }


def test_its_labels_are_its_own_and_its_owner_is_the_buffer() -> None:
    metadata: Any = shape_of(content(labels={"app": "web"})).body["metadata"]
    assert metadata["labels"] == {PLACEHOLDER: "true", BUFFER_UID: BUFFER.uid, "sidecar.istio.io/inject": "false"}
    assert metadata["namespace"] == "shop"
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "kind": "CapacityBuffer",
            "name": "spare",
            "uid": BUFFER.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]
    assert is_placeholder(read(placeholder_pod(shape_of(content()), "a")))


def test_on_windows_nothing_is_said_that_only_linux_knows() -> None:
    spec = spec_of(content(os={"name": "windows"}))
    assert spec["os"] == {"name": "windows"}
    assert "securityContext" not in spec
    assert "securityContext" not in spec["containers"][0]


def test_a_chunk_that_requests_nothing_has_no_placeholder() -> None:
    for template in (content({"name": "app"}), content(container("app", cpu="0"))):
        assert placeholder_of(template, pod_of_template(template), BUFFER, OPTIONS) is None


def test_what_is_malformed_where_it_may_go_is_passed_over() -> None:
    template = content(affinity="near", topologySpreadConstraints=["even"], nodeSelector={})
    assert "affinity" not in spec_of(template)
    assert spec_of({**template, "metadata": None})["topologySpreadConstraints"] == [{}]


# -- amounts -------------------------------------------------------------------------------------------------------


def test_each_container_and_sidecar_has_its_counterpart_and_the_class_stays() -> None:
    sidecar = {
        **container("proxy", {"cpu": "100m", "memory": "32Mi"}, cpu="100m", memory="32Mi"),
        "restartPolicy": "Always",
    }
    template = content(
        container("app", {"cpu": "1", "memory": "1Gi"}, cpu="1", memory="1Gi"),
        initContainers=[{**container("setup", {"cpu": "10m", "memory": "1Mi"}, cpu="10m", memory="1Mi")}, sidecar],
    )
    assert resources_of(template) == [
        {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "32Mi"}},
        {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    ]
    assert computed_qos_class(read(placeholder_pod(shape_of(template), "a"))) == "Guaranteed"


def test_what_overhead_and_a_large_init_container_need_is_put_onto_the_first() -> None:
    template = content(
        container("app", {"memory": "128Mi"}, cpu="200m", memory="128Mi"),
        container("log", cpu="100m", memory="32Mi"),
        initContainers=[container("setup", cpu="1", memory="16Mi")],
        overhead={"memory": "20Mi"},
    )
    # CPU: the init container's 1 core, 700m more than the two have; memory: 20 MiB over their 160.
    assert resources_of(template) == [
        {"requests": {"cpu": "900m", "memory": "148Mi"}, "limits": {"memory": "148Mi"}},
        {"requests": {"cpu": "100m", "memory": "32Mi"}},
    ]


def test_devices_and_huge_pages_are_limited_to_what_they_request() -> None:
    template = content(
        {
            "name": "app",
            "resources": {
                "requests": {"cpu": "1", "example.com/gpu": "2", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"},
                "limits": {"example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
            },
        }
    )
    (resources,) = resources_of(template)
    assert resources["limits"] == {"example.com/gpu": "2", "hugepages-2Mi": "4Mi"}
    assert resources["requests"] == {
        "cpu": "1",
        "ephemeral-storage": "1Gi",
        "example.com/gpu": "2",
        "hugepages-2Mi": "4Mi",
    }


def test_a_device_that_only_an_init_container_asks_for_is_limited_too() -> None:
    gpu = {"example.com/gpu": "1"}
    template = content(container("app", cpu="1"), initContainers=[container("setup", gpu, **gpu)])
    assert resources_of(template) == [{"requests": {"cpu": "1", **gpu}, "limits": gpu}]


def test_resources_of_the_pod_stay_the_pods() -> None:
    template = content(
        container("app", memory="64Mi"),
        resources={"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
        overhead={"cpu": "250m", "memory": "10Mi"},
    )
    spec = spec_of(template)
    assert spec["resources"] == {"requests": {"cpu": "2250m"}, "limits": {"cpu": "2250m"}}
    assert spec["containers"][0]["resources"] == {"requests": {"memory": "74Mi"}}


def test_a_pod_whose_own_resources_are_all_has_one_container_without_any() -> None:
    template = content({"name": "app"}, resources={"requests": {"cpu": "2"}})
    assert resources_of(template) == [{}]


def test_a_template_whose_containers_all_end_still_has_a_container() -> None:
    template = {"spec": {"containers": [], "initContainers": [container("setup", cpu="1")]}}
    assert resources_of(template) == [{"requests": {"cpu": "1"}}]


amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(0, 8000).map(lambda value: f"{value}m"),
        "memory": st.integers(0, 1 << 33).map(str),
        "example.com/gpu": st.integers(0, 4).map(str),
        "ephemeral-storage": st.integers(0, 1 << 30).map(str),
    },
)


@given(
    regular=st.lists(amounts, min_size=1, max_size=3),
    init=st.lists(st.tuples(amounts, st.booleans()), max_size=3),
    overhead=st.one_of(st.just({}), st.just({"cpu": "250m", "memory": "120Mi"})),
    pod_level=st.booleans(),
)
def test_a_placeholder_requests_what_a_chunk_requests(
    regular: list[dict[str, str]], init: list[tuple[dict[str, str], bool]], overhead: Json, pod_level: bool
) -> None:
    template = content(
        *(container(f"c{number}", **requests) for number, requests in enumerate(regular)),
        initContainers=[
            {**container(f"i{number}", **requests), **({"restartPolicy": "Always"} if is_sidecar else {})}
            for number, (requests, is_sidecar) in enumerate(init)
        ],
        overhead=overhead,
        resources={"requests": {"cpu": "100"}} if pod_level else None,
    )
    chunk = pod_of_template(template)
    wanted = {name: amount for name, amount in pod_requests(chunk).items() if amount}
    shape = placeholder_of(template, chunk, BUFFER, OPTIONS)
    if shape is None:
        assert not wanted
        return
    pod = read(placeholder_pod(shape, "a"))
    assert {name: amount for name, amount in pod_requests(pod).items() if amount} == wanted
    for unit in pod.containers:
        assert all(unit.resources.requests.get(name, 0) <= amount for name, amount in unit.resources.limits.items())


# -- where it may go -----------------------------------------------------------------------------------------------


def term(labels: dict[str, str], **more: Any) -> Json:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname", **more}


MINE = {"labelSelector": {"matchLabels": OWN}, "topologyKey": "kubernetes.io/hostname"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def test_what_keeps_the_templates_pods_apart_keeps_its_placeholders_apart() -> None:
    node: Json = {REQUIRED: {"nodeSelectorTerms": []}}
    template = content(
        affinity={
            "nodeAffinity": node,
            "podAntiAffinity": {
                REQUIRED: [term({"app": "web"}, matchLabelKeys=["pod-template-hash"]), term({"app": "db"})],
                PREFERRED: [{"weight": 3, "podAffinityTerm": term({"app": "web"})}],
            },
        }
    )
    assert spec_of(template)["affinity"] == {
        "nodeAffinity": node,
        "podAntiAffinity": {
            REQUIRED: [term({"app": "web"}), MINE, term({"app": "db"})],
            PREFERRED: [
                {"weight": 3, "podAffinityTerm": term({"app": "web"})},
                {"weight": 3, "podAffinityTerm": MINE},
            ],
        },
    }


def test_required_nearness_stays_to_the_real_pods() -> None:
    template = content(
        affinity={
            "podAffinity": {
                REQUIRED: [term({"app": "web"})],
                PREFERRED: [{"weight": 1, "podAffinityTerm": term({"app": "web"})}],
            }
        }
    )
    assert spec_of(template)["affinity"]["podAffinity"] == {
        REQUIRED: [term({"app": "web"})],
        PREFERRED: [
            {"weight": 1, "podAffinityTerm": term({"app": "web"})},
            {"weight": 1, "podAffinityTerm": MINE},
        ],
    }


@pytest.mark.parametrize(
    ("more", "is_own"),
    [
        ({}, True),
        ({"namespaces": ["shop", "other"]}, True),
        ({"namespaces": ["other"]}, False),
        ({"namespaceSelector": {}}, False),
    ],
)
def test_a_term_is_of_the_templates_own_pods_only_in_their_namespace(more: Json, is_own: bool) -> None:
    template = content(affinity={"podAntiAffinity": {REQUIRED: [term({"app": "web"}, **more)]}})
    terms = spec_of(template)["affinity"]["podAntiAffinity"][REQUIRED]
    assert terms == [term({"app": "web"}, **more), *([MINE] if is_own else [])]


def test_spread_over_the_templates_own_pods_becomes_spread_over_its_placeholders() -> None:
    web = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["hash"]}
    template = content(
        topologySpreadConstraints=[
            {**web, "labelSelector": {"matchLabels": {"app": "web"}}},
            {**web, "labelSelector": {"matchLabels": {"app": "db"}}},
            web,
        ]
    )
    bare = {key: value for key, value in web.items() if key != "matchLabelKeys"}
    assert spec_of(template)["topologySpreadConstraints"] == [
        {**bare, "labelSelector": {"matchLabels": OWN}},
        {**bare, "labelSelector": {"matchLabels": {"app": "db"}}},
        bare,
    ]


@pytest.mark.parametrize(
    ("expression", "is_own"),
    [
        ({"key": "app", "operator": "In", "values": ["web", "db"]}, True),
        ({"key": "app", "operator": "In", "values": ["db"]}, False),
        ({"key": "app", "operator": "NotIn", "values": ["db"]}, True),
        ({"key": "app", "operator": "NotIn", "values": ["web"]}, False),
        ({"key": "tier", "operator": "NotIn", "values": ["web"]}, True),
        ({"key": "app", "operator": "Exists"}, True),
        ({"key": "tier", "operator": "Exists"}, False),
        ({"key": "tier", "operator": "DoesNotExist"}, True),
        ({"key": "app", "operator": "DoesNotExist"}, False),
        ({"key": "app", "operator": "Like", "values": ["web"]}, False),
        ({"operator": "Exists"}, False),
    ],
)
def test_selectors_are_read_as_the_api_reads_them(expression: Json, is_own: bool) -> None:
    selector = {"labelSelector": {"matchExpressions": [expression]}, "topologyKey": "zone"}
    template = content(affinity={"podAntiAffinity": {REQUIRED: [selector]}}, labels={"app": "web"})
    assert len(spec_of(template)["affinity"]["podAntiAffinity"][REQUIRED]) == (2 if is_own else 1)


def test_what_servers_add_to_every_pod_makes_no_difference() -> None:
    usual = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    mine = {"key": "spot", "operator": "Exists"}
    full = content(tolerations=[mine, *usual], schedulerName="default-scheduler")
    assert shape_of(full).body == shape_of(content(tolerations=[mine])).body
    assert shape_of(content(tolerations=usual)).body == shape_of(content()).body
    patient = [{**usual[0], "tolerationSeconds": 10}]
    assert spec_of(content(tolerations=patient))["tolerations"] == patient


# -- what makes it another -----------------------------------------------------------------------------------------


def test_only_amounts_of_cpu_and_memory_leave_the_digest_as_it_is() -> None:
    first = shape_of(content(container("app", {"memory": "64Mi"}, cpu="500m", memory="64Mi")))
    assert shape_of(content(container("app", {"memory": "1Gi"}, cpu="2", memory="1Gi"))).digest == first.digest
    others = [
        content(container("app", cpu="500m", memory="64Mi")),
        content(container("app", {"memory": "64Mi"}, memory="64Mi")),
        content(container("app", {"memory": "64Mi"}, cpu="500m", memory="64Mi"), container("b", cpu="1m")),
        content(container("app", {"memory": "64Mi"}, cpu="500m", memory="64Mi"), nodeSelector={"disk": "ssd"}),
        content(container("app", {"memory": "64Mi"}, cpu="500m", memory="64Mi"), resources={"requests": {"cpu": "2"}}),
    ]
    digests = {shape_of(template).digest for template in others}
    assert len(digests) == len(others)
    assert first.digest not in digests
    gpu = shape_of(content(container("app", **{"example.com/gpu": "1"})))
    assert gpu.digest != shape_of(content(container("app", **{"example.com/gpu": "2"}))).digest
    assert shape_of(content(), replace(OPTIONS, image="pause:2")).digest != shape_of(content()).digest
