"""Pods that an API server asks about again, since another webhook changed them after ours: what counts as original."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from agent.core.admission.answer import AdmissionFacts, AdmissionOutcome
from agent.core.admission.pod_admission import growth_given
from agent.core.cluster.facts import LimitRangeItem
from agent.core.cluster.pod import QosClass
from agent.core.cluster.qos import computed_qos_class
from agent.core.orders import annotations as names
from agent.core.resize.originals import annotated_original
from tests.admissions import MB, NOW_UNIX_SECONDS, SHOP, admitted, estimate, new_pod, patched, pod_of, resources
from tests.pods import container

CPU, MEMORY = "cpu", "memory"
APP = container("app", {CPU: "500m", MEMORY: "300M"}, {CPU: "1", MEMORY: "600M"})
LATE = container("late", {CPU: "900m", MEMORY: "700M"})
KNOWN = {"app": estimate(), "late": estimate(cpu=100, memory_mb=100), "other": estimate(cpu=50, memory_mb=50)}
KNOWING = AdmissionFacts(namespace=SHOP.namespace, knows_pod_level_resources=True)


def again(document: dict[str, Any], *containers: dict[str, Any], facts: AdmissionFacts = SHOP) -> dict[str, Any]:
    """Admit a pod to which another webhook gave further containers."""
    changed = deepcopy(document)
    changed["spec"]["containers"] += containers
    return patched(changed, admitted(changed, KNOWN, facts=facts))


def originals(document: dict[str, Any]) -> dict[str, tuple[int | None, int | None]]:
    original = annotated_original(pod_of(document))
    assert original is not None
    return {
        amounts.container: (amounts.cpu_request_millicores, amounts.memory_request_bytes)
        for amounts in original.amounts
    }


def first(**more: Any) -> dict[str, Any]:
    facts = more.pop("facts", SHOP)
    document = new_pod(APP, **more)
    return patched(document, admitted(document, KNOWN, facts=facts))


def test_the_first_originals_stay_and_those_of_a_further_container_are_added() -> None:
    done = again(first(), LATE)
    assert originals(done) == {"app": (500, 300 * MB), "late": (900, 700 * MB)}
    third = again(done, container("other", {CPU: "70m"}))
    assert originals(third) == {"app": (500, 300 * MB), "late": (900, 700 * MB), "other": (70, None)}


def test_a_second_review_of_what_came_out_changes_nothing() -> None:
    for done in (first(), again(first(), LATE)):
        admission = admitted(done, KNOWN)
        assert admission.outcome is AdmissionOutcome.NOOP
        assert patched(done, admission) == done


def test_what_another_webhook_made_of_a_container_that_we_sized_is_no_original() -> None:
    done = first()
    done["spec"]["containers"][0]["resources"]["requests"][CPU] = "2"
    assert originals(again(done)) == {"app": (500, 300 * MB)}


def test_a_container_that_is_gone_has_no_original() -> None:
    done = first()
    done["spec"]["containers"][0]["name"] = "late"
    assert originals(again(done, APP | {"name": "other"})) == {"late": (300, 200 * MB), "other": (500, 300 * MB)}


def test_resources_that_we_gave_the_pod_are_no_original() -> None:
    orders = {names.POD_LIMITS: '{"limits": {"cpu": "3", "memory": "3Gi"}}'}
    done = first(orders=orders, facts=KNOWING)
    assert done["spec"]["resources"]["limits"][CPU] == "3"
    done["spec"]["containers"][0]["resources"]["requests"][CPU] = "100m"
    more = again(done, container("late"), facts=KNOWING)
    assert originals(more) == {"app": (500, 300 * MB), "late": (None, None)}
    assert json.loads(more["metadata"]["annotations"][names.ADMISSION])["podLimits"] is True


def given(**limits: str) -> dict[str, Any]:
    """Return a pod that got resources of its own."""
    return first(orders={names.POD_LIMITS: json.dumps({"limits": limits})}, facts=KNOWING)


def test_resources_that_we_gave_the_pod_hold_what_another_webhook_put_in_then() -> None:
    done = given(cpu="3", memory="3Gi")
    assert done["spec"]["resources"]["requests"] == {CPU: "300m", MEMORY: "200M"}
    more = again(done, LATE, facts=KNOWING)
    assert more["spec"]["resources"] == {
        "requests": {CPU: "400m", MEMORY: "300M"},
        "limits": {CPU: "3", MEMORY: "3Gi"},
    }
    assert again(more, facts=KNOWING) == more
    unknown = again(done, container("unknown", {CPU: "900m", MEMORY: "700M"}), facts=KNOWING)
    assert unknown["spec"]["resources"]["requests"] == {CPU: "1200m", MEMORY: "900M"}


def test_resources_that_we_gave_the_pod_are_taken_off_where_they_cannot_hold_it_any_more() -> None:
    done = given(cpu="2")
    done["metadata"]["annotations"][names.POD_LIMITS] = '{"limits": {"cpu": "nonsense"}}'
    more = again(done, LATE, facts=KNOWING)
    assert "resources" not in more["spec"]
    assert "podLimits" not in json.loads(more["metadata"]["annotations"][names.ADMISSION])
    assert originals(more) == {"app": (500, 300 * MB), "late": (900, 700 * MB)}


def test_resources_that_we_gave_the_pod_and_that_another_webhook_took_off_are_given_again() -> None:
    done = given(cpu="3")
    del done["spec"]["resources"]
    assert again(done, LATE, facts=KNOWING)["spec"]["resources"] == {"requests": {CPU: "400m"}, "limits": {CPU: "3"}}


def test_resources_are_ours_only_within_the_request_that_gave_them() -> None:
    done = given(cpu="3", memory="3Gi")
    annotation = json.loads(done["metadata"]["annotations"][names.ADMISSION])
    done["metadata"]["annotations"][names.ADMISSION] = json.dumps(annotation | {"unixSeconds": NOW - 61})
    more = again(done, LATE, facts=KNOWING)
    assert more["spec"]["resources"] == done["spec"]["resources"]


def test_resources_that_the_pod_came_with_are() -> None:
    done = first(facts=KNOWING, resources={"requests": {CPU: "2"}, "limits": {CPU: "5"}})
    done["spec"]["resources"]["requests"][CPU] = "4"
    assert originals(again(done, LATE, facts=KNOWING))[""] == (2000, None)
    given = first(facts=KNOWING)
    given["spec"]["resources"] = {"requests": {CPU: "4"}, "limits": {CPU: "5"}}  # by another webhook
    assert originals(again(given, LATE, facts=KNOWING))[""] == (4000, None)


FORGED = json.dumps({"containers": {"app": {"requests": {CPU: "64", MEMORY: "1Ti"}}}})
NOW = int(NOW_UNIX_SECONDS)


@pytest.mark.parametrize(
    ("original", "admission"),
    [
        (FORGED, None),
        (FORGED, json.dumps({"unixSeconds": NOW - 61})),  # a template made of a pod that runs
        (FORGED, json.dumps({"unixSeconds": NOW + 61})),
        (FORGED, json.dumps({"unixSeconds": True})),
        (FORGED, json.dumps({"unixSeconds": str(NOW)})),
        (FORGED, json.dumps({"unixSeconds": 10**400})),
        (FORGED, json.dumps({})),
        (FORGED, json.dumps([NOW])),
        (FORGED, "nonsense"),
        (FORGED, "[" * 100_000),
        (None, json.dumps({"unixSeconds": NOW})),
        ("nonsense", json.dumps({"unixSeconds": NOW})),
        ('{"containers": {"app": {"requests": {"cpu": "-1"}}}}', json.dumps({"unixSeconds": NOW})),
    ],
)
def test_originals_that_the_pod_brings_along_are_not_believed(original: str | None, admission: str | None) -> None:
    brought = {names.ORIGINAL_RESOURCES: original, names.ADMISSION: admission}
    orders = {key: text for key, text in brought.items() if text is not None}
    assert originals(first(orders=orders)) == {"app": (500, 300 * MB)}


GROWING = {"app": estimate(cpu=300, memory_mb=950)}
SIDE = container("side", {CPU: "10m", MEMORY: "128M"})


def grown(*put_in: dict[str, Any], facts: AdmissionFacts = SHOP, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Admit a pod that is given more memory, and again once another webhook has put something in."""
    document = new_pod(container("app", {CPU: "300m", MEMORY: "300M"}, more.pop("limits", None)), **more)
    once = patched(document, admitted(document, GROWING, facts=facts))
    changed = deepcopy(once)
    changed["spec"]["containers"] += put_in
    admission = admitted(changed, GROWING, facts=facts)
    assert admission.denial is None
    return once, patched(changed, admission)


def memory_mb(*documents: dict[str, Any]) -> list[float]:
    """Return what the container requests."""
    stated = [pod_of(document).containers[0].resources.memory_request_bytes or 0 for document in documents]
    return [amount / MB for amount in stated]


@pytest.mark.parametrize("knows", [True, False])
def test_growth_that_was_given_is_not_what_the_pods_own_limit_is_held_against(knows: bool) -> None:
    facts = AdmissionFacts(namespace=SHOP.namespace, knows_pod_level_resources=knows)
    orders = {names.POD_LIMITS: '{"limits": {"memory": "1G"}}'}
    once, twice = grown(SIDE, facts=facts, orders=orders)
    assert memory_mb(once, twice) == [950, 300]  # with what was put in, a larger one has no room


def test_growth_that_was_given_goes_where_the_pods_own_resources_hold_it_no_more() -> None:
    once, twice = grown(SIDE, resources={"requests": {CPU: "1", MEMORY: "1G"}})
    assert memory_mb(once, twice) == [950, 300]


def test_growth_that_was_given_goes_where_a_limit_range_would_refuse_the_pod() -> None:
    most = LimitRangeItem(name="range", type="Pod", max={MEMORY: 2_000 * MB * 10**9})
    facts = AdmissionFacts(namespace=SHOP.namespace, limit_ranges=(most,))
    side = container("side", {MEMORY: "128M"}, {MEMORY: "128M"})
    once, twice = grown(side, facts=facts, limits={MEMORY: "600M"})
    assert memory_mb(once, twice) == [950, 300]
    assert resources(twice)["limits"] == {MEMORY: str(600 * MB)}


def test_what_somebody_changed_since_is_what_the_pod_came_with() -> None:
    done = first()
    done["spec"]["containers"][0]["resources"]["requests"][CPU] = "700m"
    held = admitted(done, {"app": estimate(cpu=None, memory_mb=None)})  # nothing is known of it any more
    assert resources(patched(done, held)) == {
        "requests": {CPU: "700m", MEMORY: str(300 * MB)},  # ours is taken back, theirs stays
        "limits": {CPU: "1000m", MEMORY: str(600 * MB)},
    }


def test_the_class_is_that_with_which_the_pod_came_whatever_a_budget_has_made_of_it_since() -> None:
    document = new_pod(
        APP, orders={names.POD_LIMITS: '{"limits": {"cpu": "2", "memory": "1G"}}', names.POLICY: "crane"}
    )
    known = {"app": estimate(cpu=1500, memory_mb=900)}
    once = patched(document, admitted(document, known, facts=KNOWING))
    twice = patched(once, admitted(once, known, facts=KNOWING))
    assert computed_qos_class(pod_of(twice)) is QosClass.BURSTABLE
    assert twice == once


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        "nonsense",
        {"app": None},
        {"app": {"cpuRequestMillicores": "300"}},
        {"app": {"cpuRequestMillicores": True}},
        {"app": {"cpuRequestMillicores": 10**400}},
        {"gone": {"cpuRequestMillicores": 300}},
    ],
)
def test_what_a_pod_was_given_is_read_where_it_is_understood(given: object) -> None:
    done = first()
    annotation = json.loads(done["metadata"]["annotations"][names.ADMISSION])
    done["metadata"]["annotations"][names.ADMISSION] = json.dumps({**annotation, "given": given})
    admission = admitted(done, {"app": estimate(cpu=None, memory_mb=None)})
    assert resources(patched(done, admission)) == resources(done)


def test_a_boost_of_another_time_is_none_of_this_pod() -> None:
    orders = {names.GUARANTEED: "true"}
    pair = {CPU: "1200m", MEMORY: "300M"}
    document = new_pod(container("app", pair, pair), orders=orders)
    document["metadata"]["annotations"][names.STARTUP_BOOSTED] = json.dumps(
        {
            "unixSeconds": NOW - 3600,
            "afterReadySeconds": 0,
            "timeoutSeconds": 600,
            "containers": {"app": {"requestMillicores": [100, 300]}},
        }
    )
    once = patched(document, admitted(document))
    assert resources(once)["requests"][CPU] == "300m"
    assert patched(once, admitted(once)) == once


@pytest.mark.parametrize(
    ("orders", "cpu_millicores", "memory_mb"),
    [
        ({}, 0, 650),
        ({names.STARTUP_BOOST: "add 1"}, 1000, 650),
        ({names.POD_LIMITS: '{"limits": {"memory": "2G"}, "requests": {"memory": "1G"}}'}, 0, 700),
    ],
)
def test_what_a_pod_has_grown_by_our_answer_is_known_when_it_is_asked_about_again(
    orders: dict[str, str], cpu_millicores: int, memory_mb: int
) -> None:
    once, _ = grown(orders=orders, facts=KNOWING)
    given = growth_given(pod_of(once), now_unix_seconds=NOW_UNIX_SECONDS)
    assert given.get("requests.cpu", 0) == cpu_millicores * 10**6
    assert given.get("requests.memory", 0) == memory_mb * MB * 10**9
    assert growth_given(pod_of(new_pod(APP)), now_unix_seconds=NOW_UNIX_SECONDS) == {}
    assert growth_given(pod_of(once), now_unix_seconds=NOW_UNIX_SECONDS + 61) == {}
