from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.resource import Resource
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.recommender.recommendation import Advice, Basis, Recommendation, RequestSeverity, Withheld
from agent.core.resize.kubectl_patch import LeftOut, left_out, resize_patches
from tests.subjects import MI, identity


def advice(request: int | None, limit: int | None = None) -> Advice:
    return Advice(
        request=request,
        limit=limit,
        withheld=None if request is not None else Withheld.TOO_YOUNG,
        severity=RequestSeverity.GOOD,
        base=None,
        peak=None,
        proposed=None,
    )


def item(cpu: Advice, memory: Advice, who: UnitIdentity | None = None, **fields: Any) -> Recommendation:
    resources = UnitResources(
        cpu_request_millicores=500,
        cpu_limit_millicores=1000,
        memory_request_bytes=256 * MI,
        memory_limit_bytes=512 * MI,
    )
    known = {
        "identity": who or identity(),
        "workload": None,
        "policy": "vpa",
        "resources": resources,
        "cpu_millicores": cpu,
        "memory_bytes": memory,
        "basis": Basis(
            cpu_readings=1,
            cpu_span_seconds=1.0,
            memory_readings=1,
            memory_span_seconds=1.0,
            sample_age_seconds=1.0,
            history_minutes=1,
            history_span_seconds=1.0,
            oom_kills=0,
        ),
        "container_kind": ContainerKind.REGULAR,
    }
    return Recommendation(**{**known, **fields})


def bodies(*items: Recommendation) -> list[dict[str, Any]]:
    return [dict(patch.body) for patch in resize_patches(items)]


def test_patch_holds_what_differs_of_requests_and_limits() -> None:
    assert bodies(item(advice(250, 500), advice(300 * MI, 600 * MI))) == [
        {
            "spec": {
                "containers": [
                    {
                        "name": "app",
                        "resources": {
                            "requests": {"cpu": "250m", "memory": "314572800"},  # 300 x 1,048,576
                            "limits": {"cpu": "500m", "memory": "629145600"},
                        },
                    }
                ]
            }
        }
    ]


def test_patch_leaves_out_what_stays() -> None:
    assert bodies(item(advice(500), advice(300 * MI))) == [
        {"spec": {"containers": [{"name": "app", "resources": {"requests": {"memory": "314572800"}}}]}}
    ]
    assert bodies(item(advice(500, 900), advice(None))) == [
        {"spec": {"containers": [{"name": "app", "resources": {"limits": {"cpu": "900m"}}}]}}
    ]
    assert bodies(item(advice(500), advice(256 * MI)), item(advice(None), advice(None))) == []
    assert bodies(item(advice(500, 1000), advice(256 * MI, 512 * MI))) == []


@pytest.mark.parametrize(
    ("stated", "resources"),
    [
        (UnitResources(), None),
        (UnitResources(cpu_request_millicores=0, memory_request_bytes=0), None),
        (UnitResources(cpu_request_millicores=500), {"requests": {"cpu": "250m"}}),
        (UnitResources(memory_limit_bytes=512 * MI), {"limits": {"memory": "629145600"}}),
    ],
)
def test_patch_states_nothing_for_the_first_time(stated: UnitResources, resources: dict[str, Any] | None) -> None:
    recommendation = item(advice(250, 500), advice(300 * MI, 600 * MI), resources=stated)

    containers = [] if resources is None else [{"spec": {"containers": [{"name": "app", "resources": resources}]}}]
    assert bodies(recommendation) == containers


def test_patch_gathers_a_pods_containers_and_lists_sidecars_where_the_spec_has_them() -> None:
    patches = resize_patches(
        [
            item(advice(100), advice(None), identity("app")),
            item(advice(100), advice(None), identity("app", pod="other")),
            item(advice(200), advice(None), identity("proxy"), container_kind=ContainerKind.SIDECAR),
            item(advice(300), advice(None), identity("logs"), container_kind=None),
        ]
    )

    assert [(patch.namespace, patch.pod) for patch in patches] == [("shop", "web"), ("shop", "other")]
    names = {key: [container["name"] for container in value] for key, value in patches[0].body["spec"].items()}
    assert names == {"containers": ["app", "logs"], "initContainers": ["proxy"]}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"container_kind": ContainerKind.INIT}, LeftOut.NOT_RESIZABLE),
        ({"container_kind": ContainerKind.EPHEMERAL}, LeftOut.NOT_RESIZABLE),
        ({"identity": UnitIdentity(cgroup_path="/system.slice/ssh.service", kind=UnitKind.SERVICE)}, LeftOut.NO_POD),
        ({"identity": identity(pod=None)}, LeftOut.NO_POD),
        ({"identity": identity(container=None)}, LeftOut.NO_POD),
        # the mirror of a static pod: the API refuses
        ({"identity": identity(pod_uid="0123456789abcdef0123456789abcdef")}, LeftOut.STATIC_POD),
    ],
)
def test_what_cannot_be_resized_gets_no_patch_and_the_reason_is_told(fields: dict[str, Any], reason: LeftOut) -> None:
    recommendation = item(advice(100), advice(None), **fields)
    assert bodies(recommendation) == []
    assert left_out(recommendation) == {Resource.CPU: reason, Resource.MEMORY: LeftOut.WITHHELD}


def test_a_first_request_is_left_out_and_what_fits_or_is_patched_is_not() -> None:
    stated = UnitResources(cpu_request_millicores=500)
    assert left_out(item(advice(250), advice(256 * MI), resources=stated)) == {Resource.MEMORY: LeftOut.NOT_STATED}
    assert left_out(item(advice(250), advice(256 * MI))) == {}
    assert left_out(item(advice(500), advice(256 * MI), container_kind=ContainerKind.INIT)) == {}


def test_pod_of_unknown_uid_is_patched_by_its_name() -> None:
    assert len(bodies(item(advice(100), advice(None), identity(pod_uid=None)))) == 1


def test_command_is_safe_for_a_shell_and_carries_the_body() -> None:
    recommendation = item(advice(100), advice(None))

    (patch,) = resize_patches([replace(recommendation, identity=identity(pod="it's"))])

    words = shlex.split(patch.command)
    assert words[:8] == ["kubectl", "patch", "pod", "it's", "--namespace", "shop", "--subresource", "resize"]
    assert words[8:11] == ["--type", "strategic", "--patch"]
    assert json.loads(words[11]) == patch.body
    assert "\n" not in patch.command
