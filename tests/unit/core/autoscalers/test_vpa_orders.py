from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.core.autoscalers.options import Publish, VpaObjectOptions
from agent.core.autoscalers.vpa_orders import VpaSurroundings, container_policies_in, holder_of, vpa_orders
from agent.core.orders import annotations as names
from agent.core.orders.container_policies import NO_POLICIES
from tests.vpas import vpa

ALONE = VpaSurroundings()
EVICTING = VpaSurroundings(are_evictions_on=True)
THEIRS = VpaSurroundings(has_their_admission=True)


@pytest.mark.parametrize(
    ("update_mode", "new", "running", "ranking"),
    [
        ("Off", "recommend", "recommend", None),
        ("Initial", "enforce", "recommend", None),
        ("InPlace", "enforce", "enforce", "no-eviction"),
        ("InPlaceOrRecreate", "enforce", "enforce", None),
    ],
)
def test_an_update_mode_is_a_mode_of_new_pods_and_of_those_that_run(
    update_mode: str, new: str, running: str, ranking: str | None
) -> None:
    orders = vpa_orders(vpa(update_mode), ALONE)
    assert (orders.at_admission[names.MODE], orders.on_nodes[names.MODE]) == (new, running)
    assert orders.on_nodes.get(names.EVICTION_RANKING) == ranking
    assert (orders.faults, orders.left_to, orders.name) == ((), None, "VPA shop/web")


@pytest.mark.parametrize("update_mode", [None, "Recreate", "Auto"])
def test_nobody_is_recreated_to_be_sized_unless_evictions_are_on(update_mode: str | None) -> None:
    refused = vpa_orders(vpa(update_mode), ALONE)
    assert refused.at_admission == refused.on_nodes == {names.MODE: "recommend"}
    (fault,) = refused.faults
    assert fault.startswith(f"updateMode {update_mode or 'Recreate'} is not honoured while evictions are off")
    taken = vpa_orders(vpa(update_mode), EVICTING)
    assert taken.at_admission == taken.on_nodes == {names.MODE: "enforce"}
    assert "resized in place" in taken.faults[0]


def test_policies_replicas_and_requirements_are_taken() -> None:
    policies = {"containerPolicies": [{"containerName": "app", "minAllowed": {"cpu": "1"}, "evictAfter": 1}]}
    requirement = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
    orders = vpa_orders(
        vpa(
            resourcePolicy=policies,
            updatePolicy={
                "updateMode": "InPlaceOrRecreate",
                "minReplicas": 3,
                "evictionRequirements": [requirement],
                "evictAfterOOMSeconds": 5,
            },
        ),
        ALONE,
    )
    assert container_policies_in(orders.on_nodes).of("app").min_cpu_millicores == 1000
    assert container_policies_in({}) is NO_POLICIES
    assert orders.min_replicas == 3
    assert [demand.direction for demand in orders.eviction_requirements] == ["TargetHigherThanRequests"]
    assert orders.faults == (
        "updatePolicy.evictAfterOOMSeconds is not honoured",
        "resourcePolicy.containerPolicies.evictAfter is not honoured",
    )


def test_its_annotation_says_when_its_pods_may_be_disturbed() -> None:
    windows = "shrink: UTC 0 22 * * * for 6h"
    autoscaler = replace(vpa("InPlace"), windows=windows)
    orders = vpa_orders(autoscaler, ALONE)
    assert orders.at_admission[names.WINDOWS] == orders.on_nodes[names.WINDOWS] == windows
    assert names.WINDOWS not in vpa_orders(autoscaler, THEIRS).on_nodes, "others size there, at any time"
    assert names.WINDOWS not in vpa_orders(replace(autoscaler, is_managed=True), ALONE).on_nodes


def test_where_their_admission_is_the_object_is_left_to_it_but_for_off() -> None:
    policies = {"containerPolicies": [{"containerName": "app", "mode": "Off"}]}
    left = vpa_orders(vpa("InPlace", resourcePolicy=policies), THEIRS)
    assert left.left_to == "VPA's own admission controller (vpa-webhook-config) and updater"
    assert left.at_admission.keys() == {names.CONTAINER_POLICIES}, "the status keeps to it, and no mode is ordered"
    assert vpa_orders(vpa("Initial"), THEIRS).at_admission == {}
    assert vpa_orders(vpa("Off"), THEIRS).left_to is None


def test_an_object_that_is_not_understood_turns_its_pods_off_and_one_of_ours_orders_nothing() -> None:
    odd = vpa_orders(vpa("Sometimes"), EVICTING)
    assert odd.at_admission == odd.on_nodes == {names.MODE: "off"}
    assert odd.faults[0].startswith("not understood: spec.updatePolicy.updateMode: 'Sometimes'")
    managed = vpa_orders(replace(vpa("InPlace"), is_managed=True), ALONE)
    assert (managed.at_admission, managed.on_nodes, managed.faults) == ({}, {}, ())


def boosted(**spec: Any) -> tuple[str | None, tuple[str, ...]]:
    orders = vpa_orders(vpa("InPlace", **spec), ALONE)
    return orders.on_nodes.get(names.STARTUP_BOOST), orders.faults


TRIPLE = {"cpu": {"type": "Factor", "factor": 3, "durationSeconds": 60}}
MORE = {"cpu": {"type": "Quantity", "quantity": "500m"}}


def own(*named: tuple[str, Any]) -> dict[str, Any]:
    return {"containerPolicies": [{"containerName": name, "startupBoost": boost} for name, boost in named]}


def test_a_boost_is_ordered_as_the_annotation_would() -> None:
    assert boosted(startupBoost=TRIPLE) == ("factor 3 for 60s after ready", ())
    assert boosted(startupBoost=MORE) == ("add 500m", ())
    assert boosted(startupBoost={}) == (None, ())
    assert boosted(resourcePolicy=own(("b", MORE), ("a", MORE))) == ("add 500m; containers: a, b", ())
    assert boosted(resourcePolicy=own(("*", MORE))) == ("add 500m", ())
    assert boosted(startupBoost=MORE, resourcePolicy=own(("a", MORE))) == ("add 500m", ())


def test_boosts_that_differ_between_containers_or_are_too_much_are_told() -> None:
    text, (fault,) = boosted(startupBoost=TRIPLE, resourcePolicy=own(("a", MORE)))
    assert text == "factor 3 for 60s after ready"
    assert "where it differs between containers" in fault
    text, (fault,) = boosted(resourcePolicy=own(("a", MORE), ("b", TRIPLE)))
    assert text is None
    assert "where it differs between containers" in fault
    text, (fault,) = boosted(startupBoost={"cpu": {"type": "Factor", "factor": 1000}})
    assert (text, fault.startswith("startupBoost is not honoured: '1000'")) == (None, True)
    # The API admits it; resource_updates.go of VPA: "boost factor must be >= 1".
    for none in ({"factor": 0}, {}):
        text, (fault,) = boosted(startupBoost={"cpu": {"type": "Factor", **none}})
        assert (text, fault.startswith("startupBoost is not honoured: '0'")) == (None, True)


def test_objects_are_taken_only_where_that_is_asked_for() -> None:
    assert VpaObjectOptions() == VpaObjectOptions(enabled=False, publish=Publish.OFF)


def test_of_several_objects_the_oldest_that_people_made_counts() -> None:
    old, new = vpa(name="old"), replace(vpa(name="a-new"), created_unix_seconds=2e9)
    managed = replace(vpa(name="made"), is_managed=True, created_unix_seconds=0.0)
    assert holder_of([new, managed, old]) is old
    assert holder_of([managed]) is managed
    assert holder_of([]) is None
