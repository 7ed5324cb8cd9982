from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.directive import ContainerDirective, Directives, WorkloadDirective
from agent.core.directive_text import (
    LARGEST_AMOUNT,
    LONGEST_ETAG,
    LONGEST_TEXT,
    MOST_WORKLOADS,
    DirectiveTextError,
    directives_from_json,
    directives_to_json,
)
from agent.core.recommendation import Workload

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
    left_alone_for=st.none() | texts,
    cpu_frozen_for=st.none() | texts,
    memory_frozen_for=st.none() | texts,
    stop_shrinking_seconds=st.none() | st.floats(0, 1e6),
    replicas=amounts,
    containers=st.lists(containers, max_size=3).map(tuple),
)


@given(
    st.builds(Directives, etag=st.just("e1"), pause_reason=st.none() | texts, workloads=st.lists(workloads).map(tuple))
)
def test_what_is_written_is_read_back(directives: Directives) -> None:
    text = json.dumps(directives_to_json(directives), allow_nan=False)
    assert directives_from_json(json.loads(text), etag="e1") == directives


def test_the_writing_is_that_of_the_wire() -> None:
    one = WorkloadDirective(
        workload=Workload(**NAMED),
        mode="enforce",
        left_alone_for="VerticalPodAutoscaler shop/web",
        stop_shrinking_seconds=60.0,
        replicas=3,
        containers=(ContainerDirective(container="app", cpu_peak_millicores=500, oom_memory_bytes=1 << 20),),
    )
    assert directives_to_json(Directives(etag="e", pause_reason="upgrade", workloads=(one,))) == {
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
    found = directives_from_json({"workloads": [{**NAMED, "moon": 1}], "tide": {}}, etag="")
    assert found == Directives(etag="", workloads=(WorkloadDirective(workload=Workload(**NAMED)),))
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
        ({"workloads": {}}, "directives.workloads"),
        ({"workloads": [{}] * (MOST_WORKLOADS + 1)}, "directives.workloads"),
        ({"workloads": ["web"]}, "directives.workloads[0]"),
        ({"workloads": [{"namespace": "shop", "kind": "Deployment"}]}, "directives.workloads[0].name"),
        (of_workload(mode="x" * (LONGEST_TEXT + 1)), "directives.workloads[0].mode"),
        (of_workload(leftAloneFor=True), "directives.workloads[0].leftAloneFor"),
        (of_workload(stopShrinkingSeconds=-1), "directives.workloads[0].stopShrinkingSeconds"),
        (of_workload(stopShrinkingSeconds=math.nan), "directives.workloads[0].stopShrinkingSeconds"),
        (of_workload(stopShrinkingSeconds=math.inf), "directives.workloads[0].stopShrinkingSeconds"),
        (of_workload(stopShrinkingSeconds=True), "directives.workloads[0].stopShrinkingSeconds"),
        (of_workload(stopShrinkingSeconds="60"), "directives.workloads[0].stopShrinkingSeconds"),
        (of_workload(replicas=1.0), "directives.workloads[0].replicas"),
        (of_workload(replicas=False), "directives.workloads[0].replicas"),
        (of_container(cpuPeakMillicores=-1), "directives.workloads[0].containers[0].cpuPeakMillicores"),
        (of_container(memoryPeakBytes=LARGEST_AMOUNT + 1), "directives.workloads[0].containers[0].memoryPeakBytes"),
        (of_container(oomMemoryBytes="1Gi"), "directives.workloads[0].containers[0].oomMemoryBytes"),
        (of_container(cpuHourPeaksMillicores=[1] * 23), "directives.workloads[0].containers[0].cpuHourPeaksMillicores"),
        (of_container(cpuHourPeaksMillicores=[1] * 25), "directives.workloads[0].containers[0].cpuHourPeaksMillicores"),
        (
            of_container(memoryHourPeaksBytes=[None] * 23 + ["x"]),
            "directives.workloads[0].containers[0].memoryHourPeaksBytes[23]",
        ),
        (of_container(container=None), "directives.workloads[0].containers[0].container"),
    ],
)
def test_a_wrong_type_or_size_is_refused_with_its_place_on_one_line(body: object, place: str) -> None:
    with pytest.raises(DirectiveTextError) as error:
        directives_from_json(body, etag="e")
    text = str(error.value)
    assert text.startswith(f"{place}: ")
    assert "\n" not in text
    assert len(text) < 300


@pytest.mark.parametrize("etag", ["e" * (LONGEST_ETAG + 1), "ä", "a\nb"])
def test_an_etag_that_no_header_can_carry_is_refused(etag: str) -> None:
    with pytest.raises(DirectiveTextError, match=r"^etag: "):
        directives_from_json({}, etag=etag)
