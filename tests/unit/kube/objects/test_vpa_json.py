from __future__ import annotations

from typing import Any

import pytest

from agent.calendar import ReadWindows
from agent.core.cluster.resource import Resource
from agent.core.cluster.vpa import (
    EvictionChangeRequirement,
    RecommendedContainerResources,
    UpdateMode,
    VpaBoost,
    VpaCondition,
    VpaStatus,
)
from agent.core.cluster.workload import Workload
from agent.core.orders.windows import WindowsError
from agent.kube.objects.cluster_json import vertical_autoscaler_from_json
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.vpa_json import managed_to_json, recommenders_of, status_to_json, vpa_from_json
from tests.vpas import vpa, vpa_json

WEB = Workload(namespace="shop", kind="Deployment", name="web")


def test_a_whole_object_is_read() -> None:
    spec = {
        "updatePolicy": {
            "updateMode": "InPlaceOrRecreate",
            "minReplicas": 2,
            "evictionRequirements": [
                {"resources": ["cpu", "memory"], "changeRequirement": "TargetLowerThanRequests"},
            ],
        },
        "resourcePolicy": {
            "containerPolicies": [
                {"containerName": "app", "maxAllowed": {"cpu": "2"}, "memoryAggregationIntervalCount": 4},
                {"startupBoost": {"cpu": {"type": "Quantity", "quantity": "250m"}}},
            ]
        },
        "startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 30}, "memory": {}},
        "later": 1,
    }
    scaler = vpa_from_json(vpa_json(spec))
    assert (scaler.target, str(scaler)) == (WEB, "VPA shop/web")
    assert (scaler.generation, scaler.created_unix_seconds, scaler.is_managed) == (3, 1_769_860_800.0, False)
    assert (scaler.update_mode, scaler.min_replicas) == (UpdateMode.IN_PLACE_OR_RECREATE, 2)
    assert scaler.eviction_requirements[0].resources == (Resource.CPU, Resource.MEMORY)
    assert scaler.eviction_requirements[0].direction is EvictionChangeRequirement.LOWER
    assert scaler.container_policies == '[{"containerName":"app","maxAllowed":{"cpu":"2000m"}},{"containerName":"*"}]'
    assert scaler.boost == VpaBoost(factor=2, after_ready_seconds=30)
    assert scaler.container_boosts == {"*": VpaBoost(added_millicores=250)}
    assert scaler.unsupported == (
        "later",
        "startupBoost.memory",
        "resourcePolicy.containerPolicies.memoryAggregationIntervalCount",
    )
    assert scaler.fault is None


def test_windows_stand_in_an_annotation_and_too_long_ones_stay_too_long() -> None:
    def windows(text: str) -> str | None:
        return vpa_from_json(vpa_json(annotations={"plimsoll.dev/windows": text})).windows

    assert vpa_from_json(vpa_json()).windows is None
    assert windows("deny: UTC 0 7 * * * for 1h") == "deny: UTC 0 7 * * * for 1h"
    cut = windows("deny: UTC 0 7 * * * for 1h;" + " " * 5000)
    with pytest.raises(WindowsError, match="characters are not allowed"):
        ReadWindows()(cut or "")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"updatePolicy": {"updateMode": "Maybe"}}, "spec.updatePolicy.updateMode: 'Maybe' is not allowed"),
        ({"updatePolicy": {"minReplicas": "two"}}, "minReplicas: 'two' is not allowed"),
        ({"updatePolicy": {"evictionRequirements": [{"resources": ["gpu"]}]}}, "changeRequirement: missing"),
        (
            {
                "updatePolicy": {
                    "evictionRequirements": [
                        {"resources": ["gpu"], "changeRequirement": "TargetHigherThanRequests"},
                    ]
                }
            },
            "resources: 'gpu' is not allowed",
        ),
        (
            {"resourcePolicy": {"containerPolicies": [{"mode": "Sometimes"}]}},
            "spec.resourcePolicy.containerPolicies[0].mode: 'Sometimes' is not allowed",
        ),
    ],
)
def test_what_an_object_orders_and_nobody_understands_is_its_fault(spec: dict[str, Any], words: str) -> None:
    scaler = vpa_from_json(vpa_json(spec))
    assert words in (scaler.fault or "")
    assert (scaler.target, scaler.update_mode) == (WEB, None)


def test_without_a_target_nothing_is_known() -> None:
    with pytest.raises(ConvertError, match="targetRef"):
        vpa_from_json(vpa_json({"targetRef": None}))


def test_an_object_is_ours_by_its_recommender_where_that_is_asked_for() -> None:
    assert recommenders_of(vpa_json()) == ("plimsoll",)
    assert vertical_autoscaler_from_json(vpa_json()).own is None
    own = vertical_autoscaler_from_json(vpa_json(), takes_own=True).own
    assert own == vpa()
    other = vertical_autoscaler_from_json(vpa_json({"recommenders": []}), takes_own=True)
    assert (other.own, other.acts) == (None, True)


STATUS = VpaStatus(
    containers=(
        RecommendedContainerResources(
            container="app",
            target={Resource.CPU: 300, Resource.MEMORY: 1 << 30},
            lower_bound={Resource.CPU: 100},
            upper_bound={Resource.CPU: 900},
            uncapped_target={Resource.CPU: 250},
        ),
    ),
    conditions=(
        VpaCondition(
            type="RecommendationProvided", status="True", reason="R", message="m", last_transition_unix_seconds=60.0
        ),
    ),
    observed_generation=3,
)


def test_a_status_is_a_merge_patch_of_this_version_of_the_object_and_read_back() -> None:
    patch: Any = status_to_json(vpa(), STATUS)
    assert patch["metadata"] == {"resourceVersion": "77"}
    (container,) = patch["status"]["recommendation"]["containerRecommendations"]
    assert container["target"] == {"cpu": "300m", "memory": "1073741824"}
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:01:00Z"
    assert vpa_from_json({**vpa_json(), "status": patch["status"]}).status == STATUS
    assert "recommendation" not in status_to_json(vpa(), VpaStatus())["status"]  # type: ignore[operator]


def test_a_status_that_is_not_understood_is_written_anew() -> None:
    assert vpa_from_json({**vpa_json(), "status": {"conditions": 5}}).status == VpaStatus()
    odd = {"recommendation": {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "x"}}]}}
    assert vpa_from_json({**vpa_json(), "status": odd}).status == VpaStatus()


def test_the_time_of_others_conditions_is_written_as_it_was_or_not_understood() -> None:
    def status(moment: str) -> VpaStatus:
        conditions = [{"type": "Theirs", "status": "True", "lastTransitionTime": moment}]
        return vpa_from_json({**vpa_json(), "status": {"conditions": conditions}}).status

    patch: Any = status_to_json(vpa(), status("0001-01-01T00:00:00Z"))
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == "0001-01-01T00:00:00Z"
    # Not in year 0 or 10,000, as no time is written.
    for moment in ("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59.999999Z"):
        assert status(moment) == VpaStatus()


def test_an_object_of_our_own_is_read_as_such() -> None:
    manifest: Any = managed_to_json(WEB, "plimsoll-deployment-web", "apps/v1")
    scaler = vpa_from_json(manifest)
    assert (scaler.is_managed, scaler.target, scaler.update_mode) == (True, WEB, UpdateMode.IN_PLACE)
    assert recommenders_of(manifest) == ("plimsoll",)
