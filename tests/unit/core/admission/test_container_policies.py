"""New pods whose containers are sized one by one."""

from __future__ import annotations

import json
from typing import Any

from agent.core.admission.answer import AdmissionFacts
from agent.core.cluster.node import Namespace
from agent.core.orders import annotations as names
from tests.admissions import MB, admitted, after, estimate, new_pod, patched, resources
from tests.pods import container

APP = container("app", {"cpu": "500m", "memory": "300M"}, {"cpu": "1", "memory": "600M"})
PROXY = container("proxy", {"cpu": "500m", "memory": "300M"})


def sized(*policies: dict[str, Any], known: Any = None, pod: Any = None, **orders: str) -> dict[str, Any]:
    """Return what ``app`` and ``proxy`` state after an admission under what an object orders."""
    document = pod if pod is not None else new_pod(APP, PROXY, mode=None)
    autoscaler = {names.MODE: "enforce", names.CONTAINER_POLICIES: json.dumps(policies), **orders}
    facts = AdmissionFacts(namespace=Namespace(name="shop"), autoscaler=autoscaler)
    done = patched(document, admitted(document, known, facts=facts))
    return {name: resources(done, name) for name in ("app", "proxy") if name in json.dumps(done["spec"])}


def test_a_container_that_is_off_stays_as_it_came() -> None:
    by_name = sized({"containerName": "app", "mode": "Off"})
    assert by_name["app"] == {"requests": {"cpu": "500m", "memory": "300M"}, "limits": {"cpu": "1", "memory": "600M"}}
    assert by_name["proxy"]["requests"] == {"cpu": "300m", "memory": "200000000"}


def test_bounds_and_resources_hold_for_their_container_alone() -> None:
    by_name = sized({"containerName": "app", "minAllowed": {"cpu": "400m"}, "controlledResources": ["cpu"]})
    assert by_name["app"]["requests"] == {"cpu": "400m", "memory": "300M"}
    assert by_name["proxy"]["requests"]["cpu"] == "300m"


def test_requests_only_leaves_limits_and_keeps_requests_below_them() -> None:
    by_name = sized({"containerName": "*", "controlledValues": "RequestsOnly"}, known=estimate(1500, 700))
    assert by_name["app"] == {
        "requests": {"cpu": "1000m", "memory": "600000000"},
        "limits": {"cpu": "1", "memory": "600M"},
    }
    assert by_name["proxy"] == {"requests": {"cpu": "1500m", "memory": "700000000"}, "limits": {}}, (
        "no first limit either"
    )


def test_a_guaranteed_pods_request_does_not_part_from_a_limit_that_is_kept() -> None:
    both = {"cpu": "500m", "memory": "300M"}
    pod = new_pod(container("app", both, both), mode=None, orders={names.GUARANTEED: "true"})
    assert sized({"controlledValues": "RequestsOnly"}, pod=pod)["app"] == {"requests": both, "limits": both}


def test_a_kill_counts_with_what_the_policy_adds() -> None:
    killed = estimate(300, 200, oom_memory_bytes=400 * MB)
    # The larger of 400 x 1.5 and 400 + 100; without a policy the kill's own figure.
    by_name = sized({"containerName": "app", "oomBumpUpRatio": "1.5", "oomMinBumpUp": "100M"}, known=killed)
    assert by_name["app"]["requests"]["memory"] == "600000000"
    assert by_name["proxy"]["requests"]["memory"] == "400000000"


def test_a_boost_passes_a_container_that_is_off_and_keeps_limits_that_are_kept() -> None:
    boost = {names.STARTUP_BOOST: "factor 4"}
    by_name = sized({"containerName": "proxy", "mode": "Off"}, {"controlledValues": "RequestsOnly"}, **boost)
    # 4 x 300m would pass the limit of 1000m: a millicore below it.
    assert (by_name["app"]["requests"]["cpu"], by_name["app"]["limits"]["cpu"]) == ("999m", "1")
    assert by_name["proxy"]["requests"]["cpu"] == "500m"
    limit_boost = {names.STARTUP_BOOST: "factor 2; request: keep"}
    by_name = sized({"controlledValues": "RequestsOnly"}, **limit_boost)
    assert (by_name["app"]["requests"]["cpu"], by_name["app"]["limits"]["cpu"]) == ("300m", "1")


def test_an_annotation_of_the_pod_wins_over_an_object() -> None:
    pod = new_pod(APP, mode=None, orders={names.MIN_CPU: "450m"})
    assert sized({"containerName": "app", "minAllowed": {"cpu": "700m"}}, pod=pod)["app"]["requests"]["cpu"] == "450m"
    off = new_pod(APP, mode="off")
    assert after(off)["requests"] == {"cpu": "500m", "memory": "300M"}
