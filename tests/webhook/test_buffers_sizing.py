"""A chunk's size by admission: the reviewer itself over a cluster and a history of the test's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.admission.options import AdmissionOptions, AdmissionSettings
from agent.core.admission.patch import Operation
from agent.core.buffers.buffer import ScalableRef
from agent.core.cluster.workload import Workload
from agent.core.history.workloads.start_figures import LearntStart
from agent.core.orders.policy_options import PolicyName
from agent.webhook.admission.review import Reviewer
from agent.webhook.buffers.chunk_size import AdmissionSizer, patched
from tests.admissions import MB, new_pod, pod_of
from tests.admissions import patched as created
from tests.pods import container, sidecar
from tests.webhook.stack import Facts

WEB = ScalableRef(api_group="apps", kind="Deployment", name="web")


NOW = 1_800_000_000.0


class History:
    """Knows Deployment shop/web: 300m and 200 MB for each container, or of all but some."""

    def __init__(self, *, but: str = "") -> None:
        self.asked: list[tuple[Workload, str]] = []
        self.unknown = but

    def estimate(self, workload: Workload, container: str, **_: Any) -> Estimate | NoEstimate:
        self.asked.append((workload, container))
        if workload != Workload(namespace="shop", kind="Deployment", name="web"):
            return NoEstimate.UNKNOWN_WORKLOAD
        if container == self.unknown:
            return NoEstimate.UNKNOWN_CONTAINER
        return Estimate(
            source=EstimateSource.WORKLOAD,
            policy=PolicyName.CRUISE,
            cpu_request_millicores=300,
            memory_request_bytes=200 * MB,
            cpu_max_millicores=300,
            memory_max_bytes=200 * MB,
            oom_memory_bytes=None,
            cpu_base_millicores=200,
            memory_base_bytes=150 * MB,
            history_seconds=86_400.0,
            pods=3,
            newest_age_seconds=60.0,
        )

    def start(self, workload: Workload, container: str, *, now_unix_seconds: float) -> LearntStart | None:
        return None


def content(mode: str = "enforce", **requests: str) -> dict[str, Any]:
    resources = {"requests": requests or {"cpu": "1", "memory": "1G"}}
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": {"plimsoll.dev/mode": mode}},
        "spec": {"containers": [{"name": "app", "image": "x", "resources": resources}]},
    }


def sizer(history: History | None = None, *, is_ready: bool = True) -> AdmissionSizer:
    reviewer = Reviewer(Facts(), history or History(), AdmissionSettings())
    return AdmissionSizer(reviewer.admission, is_ready=lambda: is_ready)


def requests(template: Any, containers: str = "containers") -> Any:
    return template["spec"][containers][0]["resources"]["requests"]


def test_the_chunk_of_an_enforced_workload_has_the_size_of_a_new_pod() -> None:
    given = content()
    sized = sizer()(given, "shop", WEB)
    # 200 MB are 190.7 MiB, rounded up to whole ones: 191 x 1048576.
    assert requests(sized.content) == {"cpu": "300m", "memory": str(191 * 2**20)}
    assert requests(given) == {"cpu": "1", "memory": "1G"}  # what was given is as it was
    # When and from what it was sized would make another template each time.
    assert sized.content["metadata"] == given["metadata"]
    assert sized.is_final


def test_its_own_size_again_changes_nothing() -> None:
    once = sizer()(content(), "shop", WEB).content
    assert sizer()(once, "shop", WEB).content == once


@pytest.mark.parametrize(
    ("given", "workload", "words"),
    [
        (content("recommend"), WEB, "recommend"),
        (content(), ScalableRef(api_group="apps", kind="Deployment", name="stranger"), "ever reported"),
        (content(), None, "belongs to no workload"),
        ({"spec": {"containers": "none"}}, WEB, "not sized"),
    ],
)
def test_what_admission_would_leave_alone_stays(
    given: dict[str, Any], workload: ScalableRef | None, words: str
) -> None:
    sized = sizer()(given, "shop", workload)
    assert sized.content == given
    assert words in sized.words
    assert sized.is_final


def test_nothing_is_final_before_the_history_is_read() -> None:
    history = History()
    sized = sizer(history, is_ready=False)(content(), "shop", WEB)
    assert (sized.is_final, sized.content) == (False, content())
    assert history.asked == []


@pytest.mark.parametrize("age_seconds", [30.0, 120.0])
def test_the_chunk_of_a_pod_that_starts_is_boosted_once(age_seconds: float) -> None:
    now = NOW
    settings = AdmissionSettings(admission=AdmissionOptions(cpu_limits_removed=False))
    reviewer = Reviewer(Facts(), History(but="side"), settings, clock=lambda: now)
    asked = {"cpu": "500m", "memory": "300M"}
    document = new_pod(
        container("app", asked, {"cpu": "1"}),
        initContainers=[sidecar("side", asked)],
        orders={"plimsoll.dev/startup-boost": "factor 3"},
    )
    live = created(document, reviewer.admission(pod_of(document), None))
    assert [requests(live)["cpu"], requests(live, "initContainers")["cpu"]] == ["900m", "1500m"]
    now += age_seconds
    chunk = AdmissionSizer(reviewer.admission, is_ready=lambda: True)(live, "shop", WEB).content
    assert chunk["spec"] == live["spec"]


def test_a_boost_that_no_new_pod_would_be_given_is_not_in_the_chunk() -> None:
    boosted: dict[str, Any] = {"unixSeconds": 0, "afterReadySeconds": 0, "timeoutSeconds": 300}
    boosted["containers"] = {"app": {"requestMillicores": [500, 1500]}}
    live = content("recommend", cpu="1500m")
    live["metadata"]["annotations"]["plimsoll.dev/startup-boosted"] = json.dumps(boosted)
    sized = sizer()(live, "shop", WEB)
    assert requests(sized.content) == {"cpu": "500m"}
    assert requests(live) == {"cpu": "1500m"}


def test_operations_are_carried_out_on_a_copy() -> None:
    given: dict[str, Any] = {"spec": {"containers": [{"resources": {"limits": {"cpu": "1", "a/b": "2"}}}, {}]}}
    operations = [
        Operation(op="remove", path="/spec/containers/0/resources/limits/cpu"),
        Operation(op="replace", path="/spec/containers/0/resources/limits/a~1b", value="3"),
        Operation(op="add", path="/spec/containers/1/resources/requests", value={"cpu": "1"}),
        Operation(op="add", path="/spec/resources", value={"limits": {"cpu": "4"}}),
    ]
    assert patched(given, operations) == {
        "spec": {
            "containers": [{"resources": {"limits": {"a/b": "3"}}}, {"resources": {"requests": {"cpu": "1"}}}],
            "resources": {"limits": {"cpu": "4"}},
        }
    }
    assert given["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "a/b": "2"}
