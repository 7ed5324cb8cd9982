from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.hpa import UtilizationTarget
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import AutoscalerDirective, ContainerDirective, Directives, WorkloadDirective
from agent.core.history.reports.directive_json import (
    LARGEST_AMOUNT,
    LARGEST_PERCENT,
    LONGEST_ETAG,
    LONGEST_SECONDS,
    LONGEST_TEXT,
    MOST_CONTAINERS,
    MOST_TARGETS,
    MOST_WORKLOADS,
    DirectiveTextError,
    directives_from_json,
    directives_to_json,
    is_restraint,
)

NAMED = {"namespace": "shop", "kind": "Deployment", "name": "web"}

texts = st.text(min_size=1, max_size=20)
amounts = st.none() | st.integers(0, LARGEST_AMOUNT)
hours = st.just(()) | st.lists(amounts, min_size=24, max_size=24).map(tuple)
containers = st.builds(
    ContainerDirective,
    container=texts,
    cpu_peak_millicores=amounts,
    memory_peak_bytes=amounts,
    cpu_hour_peaks_millicores=hours,
    memory_hour_peaks_bytes=hours,
    oom_memory_bytes=amounts,
)
workloads = st.builds(
    WorkloadDirective,
    workload=st.builds(Workload, namespace=texts, kind=texts, name=texts),
    mode=st.none() | texts,
    policy=st.none() | texts,
    startup_boost=st.none() | texts,
    enforce_share=st.none() | texts,
    share_taken_back=st.none() | texts,
    share_taken_back_for=st.none() | texts,
    stop_shrinking_for=st.none() | texts,
    windows=st.none() | texts,
    left_alone_for=st.none() | texts,
    cpu_frozen_for=st.none() | texts,
    memory_frozen_for=st.none() | texts,
    cpu_preserved=st.none() | texts,
    memory_preserved=st.none() | texts,
    cpu_frozen_containers=st.none() | st.lists(texts, min_size=1, max_size=3).map(tuple),
    memory_frozen_containers=st.none() | st.lists(texts, min_size=1, max_size=3).map(tuple),
    hpa_targets=st.lists(
        st.builds(
            UtilizationTarget,
            holder=texts,
            resource=st.sampled_from(Resource),
            percent=st.integers(1, LARGEST_PERCENT),
            container=st.none() | texts,
        ),
        max_size=3,
    ).map(tuple),
    stop_shrinking_seconds=st.none() | st.floats(0, 1e6),
    replicas=amounts,
    autoscaler=st.none()
    | st.builds(
        AutoscalerDirective,
        name=texts,
        mode=st.none() | texts,
        eviction_ranking=st.none() | texts,
        container_policies=st.none() | texts,
        startup_boost=st.none() | texts,
    ),
    containers=st.lists(containers, max_size=3).map(tuple),
)


@given(
    st.builds(Directives, etag=st.just("e1"), pause_reason=st.none() | texts, workloads=st.lists(workloads).map(tuple))
)
@pytest.mark.slow
def test_what_is_written_is_read_back(directives: Directives) -> None:
    text = json.dumps(directives_to_json(directives), allow_nan=False)
    assert directives_from_json(json.loads(text), etag="e1") == directives


def test_the_writing_is_that_of_the_wire() -> None:
    directive = WorkloadDirective(
        workload=Workload(**NAMED),
        mode="enforce",
        left_alone_for="VerticalPodAutoscaler shop/web",
        stop_shrinking_seconds=60.0,
        replicas=3,
        containers=(ContainerDirective(container="app", cpu_peak_millicores=500, oom_memory_bytes=1 << 20),),
    )
    assert directives_to_json(Directives(etag="e", pause_reason="upgrade", workloads=(directive,))) == {
        "pauseReason": "upgrade",
        "workloads": [
            {
                **NAMED,
                "mode": "enforce",
                "policy": None,
                "leftAloneFor": "VerticalPodAutoscaler shop/web",
                "cpuFrozenFor": None,
                "memoryFrozenFor": None,
                "stopShrinkingSeconds": 60.0,
                "replicas": 3,
                "containers": [
                    {
                        "container": "app",
                        "cpuPeakMillicores": 500,
                        "memoryPeakBytes": None,
                        "cpuHourPeaksMillicores": [],
                        "memoryHourPeaksBytes": [],
                        "oomMemoryBytes": 1 << 20,
                    }
                ],
            }
        ],
    }


def test_fields_of_a_newer_webhook_are_passed_over_and_absent_ones_are_not_known() -> None:
    directives = directives_from_json({"workloads": [{**NAMED, "moon": 1}], "tide": {}}, etag="")
    assert directives == Directives(etag="", workloads=(WorkloadDirective(workload=Workload(**NAMED)),))
    assert directives_from_json({}, etag="x") == Directives(etag="x")


def of_workload(**fields: Any) -> dict[str, Any]:
    return {"workloads": [{**NAMED, **fields}]}


def of_container(**fields: Any) -> dict[str, Any]:
    return of_workload(containers=[{"container": "app", **fields}])


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ([], "directives"),
        ({"pauseReason": 3}, "directives.pauseReason"),
        ({"pauseReason": ""}, "directives.pauseReason"),
        ({"pauseReason": "x" * (LONGEST_TEXT + 1)}, "directives.pauseReason"),
        ({"workloads": {}}, "directives.workloads"),
    ],
)
def test_what_cannot_tell_who_is_to_be_left_alone_is_refused_with_its_place_on_one_line(
    body: object, place: str
) -> None:
    with pytest.raises(DirectiveTextError) as error:
        directives_from_json(body, etag="e")
    text = str(error.value)
    assert text.startswith(f"{place}: ")
    assert "\n" not in text
    assert len(text) < 300
    assert error.value.pause_reason is None


def test_a_pause_is_told_even_where_the_rest_is_refused() -> None:
    with pytest.raises(DirectiveTextError) as error:
        directives_from_json({"pauseReason": "upgrade", "workloads": {}}, etag="e")
    assert error.value.pause_reason == "upgrade"


FROZEN = {"cpuFrozenFor": "HorizontalPodAutoscaler shop/web", "mode": "enforce"}


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (of_workload(replicas=1.0), 1),
        (of_workload(replicas=False), 1),
        (of_workload(containers={}), 1),
        (of_workload(containers=["app", {}]), 2),
        (of_workload(containers=[{"container": f"c{place}"} for place in range(MOST_CONTAINERS + 3)]), 3),
        (of_container(cpuPeakMillicores=-1), 1),
        (of_container(memoryPeakBytes=LARGEST_AMOUNT + 1, oomMemoryBytes="1Gi"), 2),
        (of_container(cpuHourPeaksMillicores=[1] * 23), 1),
        (of_container(cpuHourPeaksMillicores=[1] * 25), 1),
        (of_container(memoryHourPeaksBytes=[None] * 23 + ["x"]), 1),
        (of_container(memoryHourPeaksBytes={}), 1),
        (of_container(container=None), 1),
    ],
)
def test_figures_that_are_wrong_or_too_many_are_left_out_and_counted_and_restraints_hold(
    body: dict[str, Any], count: int
) -> None:
    first = {**body["workloads"][0], **FROZEN}
    directives = directives_from_json({"pauseReason": "upgrade", "workloads": [first, "web", {}]}, etag="e")
    (directive,) = directives.workloads
    assert (directives.pause_reason, directive.cpu_frozen_for, directive.mode) == (
        "upgrade",
        FROZEN["cpuFrozenFor"],
        "enforce",
    )
    assert len(directive.containers) <= MOST_CONTAINERS
    assert directives.left_out == count + 2


@pytest.mark.parametrize("bad", [3, "", "x" * (LONGEST_TEXT + 1), ["HorizontalPodAutoscaler shop/web"]])
def test_a_restraint_that_is_not_understood_restrains(bad: object) -> None:
    keys = ("mode", "policy", "leftAloneFor", "cpuFrozenFor", "memoryFrozenFor")
    directives = directives_from_json(of_workload(**dict.fromkeys(keys, bad)), etag="e")
    (directive,) = directives.workloads
    said = (
        directive.mode,
        directive.policy,
        directive.left_alone_for,
        directive.cpu_frozen_for,
        directive.memory_frozen_for,
    )
    assert None not in said
    assert directives.left_out == len(keys)


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, True, "60", LONGEST_SECONDS + 1])
@pytest.mark.parametrize("reason", [None, "a pod fared worse after a shrink: restarts"])
def test_for_how_long_a_workload_only_grows_is_for_long_where_it_is_not_understood(
    bad: object, reason: str | None
) -> None:
    body = of_workload(stopShrinkingSeconds=bad, stopShrinkingFor=reason, **FROZEN)
    directives = directives_from_json(body, etag="e")
    (directive,) = directives.workloads
    assert directive.stop_shrinking_seconds == LONGEST_SECONDS
    assert directive.stop_shrinking_for == (reason or "something that is not understood")
    assert (directive.cpu_frozen_for, directive.mode) == (FROZEN["cpuFrozenFor"], "enforce")
    assert directives.left_out == 1
    written = directives_to_json(directives)
    assert directives_from_json(written, etag="e").workloads == directives.workloads


def test_of_too_many_workloads_those_that_are_restrained_are_kept() -> None:
    plain = [{**NAMED, "name": f"web{place}"} for place in range(MOST_WORKLOADS)]
    frozen = [{**NAMED, "name": f"api{place}", "cpuFrozenFor": "HorizontalPodAutoscaler shop/api"} for place in (1, 2)]
    directives = directives_from_json({"workloads": [*plain, *frozen]}, etag="e")
    assert (len(directives.workloads), directives.left_out) == (MOST_WORKLOADS, 2)
    assert [directive.workload.name for directive in directives.workloads if directive.cpu_frozen_for] == [
        "api1",
        "api2",
    ]
    every = directives_from_json({"workloads": [{**workload, **FROZEN} for workload in (*plain, *frozen)]}, etag="e")
    assert (len(every.workloads), every.left_out) == (MOST_WORKLOADS + 2, 0)


@pytest.mark.parametrize("etag", ["e" * (LONGEST_ETAG + 1), "ä", "a\nb"])
def test_an_etag_that_no_header_can_carry_is_refused(etag: str) -> None:
    with pytest.raises(DirectiveTextError, match=r"^etag: "):
        directives_from_json({}, etag=etag)


def test_amounts_and_seconds_are_read_as_the_wire_has_them() -> None:
    body = of_container(cpuPeakMillicores=500, oomMemoryBytes=1 << 20)
    body["workloads"][0]["stopShrinkingSeconds"] = 60
    (workload,) = directives_from_json(body, etag="e").workloads
    assert workload.stop_shrinking_seconds == 60.0
    (app,) = workload.containers
    assert (app.cpu_peak_millicores, app.memory_peak_bytes, app.oom_memory_bytes) == (500, None, 1 << 20)


def test_a_boost_is_told_only_where_a_rule_orders_one() -> None:
    directive = WorkloadDirective(workload=Workload(**NAMED), startup_boost="factor 3")
    written = directives_to_json(Directives(etag="e1", workloads=(directive,)))
    assert json.loads(json.dumps(written))["workloads"][0]["startupBoost"] == "factor 3"
    assert directives_from_json(json.loads(json.dumps(written)), etag="e1").workloads == (directive,)


def test_an_autoscalers_orders_are_written_and_what_is_not_understood_of_them_restrains() -> None:
    directive = AutoscalerDirective(
        name="VPA shop/web", mode="enforce", container_policies="x" * 16_384, startup_boost="off", windows="deny: x"
    )
    workload = Workload(namespace="shop", kind="Deployment", name="web")
    written = directives_to_json(
        Directives(etag="", workloads=(WorkloadDirective(workload=workload, autoscaler=directive),))
    )
    assert directives_from_json(written, etag="").workloads[0].autoscaler == directive

    def read(autoscaler: Any) -> AutoscalerDirective | None:
        directives = directives_from_json({"workloads": [{**NAMED, "autoscaler": autoscaler}]}, etag="")
        assert directives.left_out == 1
        return directives.workloads[0].autoscaler

    unknown = "something that is not understood"
    assert read(5) == AutoscalerDirective(name=unknown, mode=unknown)
    long = read({"name": "VPA shop/web", "containerPolicies": "x" * 16_385})
    assert long == AutoscalerDirective(name="VPA shop/web", container_policies=unknown)
    assert read({"name": "VPA shop/web", "startupBoost": 5}) == AutoscalerDirective(name="VPA shop/web")
    endless = read({"name": "VPA shop/web", "windows": "x" * (LONGEST_TEXT + 1)})
    assert endless == AutoscalerDirective(name="VPA shop/web", windows=unknown)


def test_a_share_that_is_not_understood_restrains() -> None:
    body = directives_to_json(Directives(etag="e", workloads=(WorkloadDirective(workload=Workload(**NAMED)),)))
    assert isinstance(body["workloads"], list)
    body["workloads"][0] |= {"enforceShare": 10, "shareTakenBack": [], "shareTakenBackFor": 7, "stopShrinkingFor": 7}
    (read,) = directives_from_json(body, etag="e").workloads
    assert read.enforce_share is not None
    assert read.share_taken_back is not None
    assert (read.share_taken_back_for, read.stop_shrinking_for) == (None, None)
    assert is_restraint(read)
    assert is_restraint(WorkloadDirective(workload=Workload(**NAMED), enforce_share="10%"))


def test_windows_are_told_where_there_are_some() -> None:
    directive = WorkloadDirective(workload=Workload(**NAMED), windows="deny: UTC 0 7 * * * for 1h")
    written = directives_to_json(Directives(etag="e", workloads=(directive,)))
    assert json.loads(json.dumps(written))["workloads"][0]["windows"] == "deny: UTC 0 7 * * * for 1h"
    assert is_restraint(directive), "without them it would be disturbed at any time"


def test_targets_of_autoscalers_are_told_and_what_is_wrong_of_them_is_left_out() -> None:
    target = {"holder": "HorizontalPodAutoscaler shop/web", "resource": "cpu", "percent": 70}
    whole = [target, {**target, "resource": "memory", "container": "app"}]
    wrong: list[Any] = [
        7,
        {**target, "percent": 0},
        {**target, "percent": True},
        {**target, "percent": LARGEST_PERCENT + 1},
        {**target, "resource": "pods"},
        {**target, "resource": None},
        {**target, "holder": ""},
        {**target, "container": 7},
    ]

    def read(targets: Any) -> tuple[tuple[UtilizationTarget, ...], int]:
        directives = directives_from_json(of_workload(hpaTargets=targets), etag="e")
        return directives.workloads[0].hpa_targets, directives.left_out

    targets, left_out = read([*whole, *wrong])
    assert [(utilization.resource, utilization.percent, utilization.container) for utilization in targets] == [
        (Resource.CPU, 70, None),
        (Resource.MEMORY, 70, "app"),
    ]
    assert left_out == len(wrong)
    assert read("all") == ((), 1)
    assert len(read([target] * (MOST_TARGETS + 1))[0]) == MOST_TARGETS

    directive = WorkloadDirective(workload=Workload(**NAMED), hpa_targets=targets)
    written: Any = directives_to_json(Directives(etag="e", workloads=(directive,)))
    assert written["workloads"][0]["hpaTargets"] == whole


def test_that_requests_are_free_although_an_hpa_divides_by_them_is_not_guessed() -> None:
    (directive,) = directives_from_json(of_workload(cpuFrozenFor="HPA", cpuPreserved="70 %"), etag="e").workloads
    assert (directive.cpu_frozen_for, directive.cpu_preserved, directive.memory_preserved) == ("HPA", "70 %", None)
    written: Any = directives_to_json(Directives(etag="e", workloads=(directive,)))
    assert written["workloads"][0]["cpuPreserved"] == "70 %"
    assert "memoryPreserved" not in written["workloads"][0]
    directives = directives_from_json(of_workload(cpuFrozenFor="HPA", cpuPreserved=True), etag="e")
    assert (directives.workloads[0].cpu_preserved, directives.left_out) == (None, 1)


@pytest.mark.parametrize("bad", [[], "app", ["app", 7], [""], ["app"] * (MOST_CONTAINERS + 1)])
def test_which_containers_are_frozen_holds_all_of_them_where_it_is_not_understood(bad: Any) -> None:
    (directive,) = directives_from_json(
        of_workload(cpuFrozenFor="HPA", cpuFrozenContainers=["app"]), etag="e"
    ).workloads
    assert (directive.cpu_frozen_containers, directive.memory_frozen_containers) == (("app",), None)
    written: Any = directives_to_json(Directives(etag="e", workloads=(directive,)))
    assert written["workloads"][0]["cpuFrozenContainers"] == ["app"]
    assert "memoryFrozenContainers" not in written["workloads"][0]

    directives = directives_from_json(of_workload(cpuFrozenFor="HPA", cpuFrozenContainers=bad), etag="e")
    assert (directives.workloads[0].cpu_frozen_for, directives.workloads[0].cpu_frozen_containers) == ("HPA", None)
    assert directives.left_out == 1
