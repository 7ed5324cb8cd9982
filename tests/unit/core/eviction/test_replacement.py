"""With what the replacement of an evicted pod would be admitted."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.admission.answer import Admission, AdmissionFacts, AdmissionOutcome
from agent.core.admission.estimate import NoEstimate
from agent.core.cluster.effective_resources import pod_requests
from agent.core.cluster.facts import FrozenAxes, LimitRangeItem
from agent.core.cluster.pod import Pod
from agent.core.cluster.resource import Resource
from agent.core.eviction.arbiter import gain_ruling
from agent.core.eviction.proposal import Reason, Ruling
from agent.core.eviction.replacement import replacement_of, to_be_created
from agent.core.numbers.units import NANOS_PER_MILLI, NANOS_PER_UNIT
from tests.evictions import ENFORCED, MIB, WEB, Admissions, estimate, make_pod, proposal
from tests.pods import container, sidecar


def replaced(pod: Pod, resource: Resource = Resource.CPU, **of_admission: Any) -> Pod | Ruling:
    return replacement_of(pod, Admissions(**of_admission)(to_be_created(pod)), resource)


def cpu_millicores(pod: Pod | Ruling) -> int:
    assert isinstance(pod, Pod), pod
    return pod_requests(pod)["cpu"] // NANOS_PER_MILLI


def why(replacement: Pod | Ruling) -> str:
    assert isinstance(replacement, Ruling)
    assert replacement.reason is Reason.NO_ESTIMATE
    return replacement.detail


def test_replacement_has_what_admission_gives_it_of_the_resource_that_counts() -> None:
    replacement = replaced(make_pod())
    assert cpu_millicores(replacement) == 400
    assert isinstance(replacement, Pod)
    # Memory is not looked at: it stays.
    assert pod_requests(replacement)["memory"] == 256 * MIB * NANOS_PER_UNIT
    of_memory = replaced(make_pod(), Resource.MEMORY)
    assert isinstance(of_memory, Pod)
    assert pod_requests(of_memory)["memory"] == 512 * MIB * NANOS_PER_UNIT
    assert pod_requests(of_memory)["cpu"] == 200 * NANOS_PER_MILLI


def test_pod_is_put_to_admission_without_its_node() -> None:
    assert to_be_created(make_pod()).node_name is None


@pytest.mark.parametrize("by", ["the pod", "its autoscaler"])
def test_boost_of_its_start_is_no_gain(by: str) -> None:
    # 400m is what it has and what the history says; three times as much would be taken back within minutes.
    order = {"plimsoll.dev/startup-boost": "factor 3"}
    own, others = (order, {}) if by == "the pod" else ({}, order)
    pod = make_pod("web", container("app", {"cpu": "400m"}), annotations={**ENFORCED, **own})
    replacement = replaced(pod, facts=AdmissionFacts(namespace=None, autoscaler=others))
    assert cpu_millicores(replacement) == 400
    assert isinstance(replacement, Pod)
    ruling = gain_ruling(proposal(), pod, replacement)
    assert ruling is not None
    assert ruling.reason is Reason.NOT_MORE
    assert cpu_millicores(replaced(pod, estimates={"app": estimate(500)})) == 500


def test_sidecars_count_and_other_init_containers_stay() -> None:
    pod = make_pod(
        "web",
        container("app", {"cpu": "200m"}),
        initContainers=[sidecar("proxy", {"cpu": "50m"}), container("setup", {"cpu": "100m"})],
    )
    replacement = replaced(pod, estimates={"app": estimate(400), "proxy": estimate(80)})
    assert cpu_millicores(replacement) == 480
    assert isinstance(replacement, Pod)
    assert [init.resources.cpu_request_millicores for init in replacement.init_containers] == [80, 100]


def test_container_that_requests_nothing_needs_no_history() -> None:
    pod = make_pod("web", container("app", {"cpu": "200m"}), container("tail"))
    assert cpu_millicores(replaced(pod)) == 400


def test_one_container_without_history_leaves_the_whole_unknown() -> None:
    # Its template may ask for less than it has now.
    pod = make_pod("web", container("app", {"cpu": "200m"}), container("tail", {"cpu": "10m"}))
    assert why(replaced(pod)) == "container tail: unknown container"


@pytest.mark.parametrize("missing", list(NoEstimate))
def test_no_history_at_all_is_said(missing: NoEstimate) -> None:
    assert why(replaced(make_pod(), estimates={"app": missing})).startswith("its replacement would be left as it comes")


def test_resource_without_a_figure_is_not_known() -> None:
    detail = why(replaced(make_pod(), estimates={"app": estimate(cpu_millicores=None)}))
    assert detail == "container app: admission would leave cpu: the history has no figure"


def test_amount_that_differs_too_little_to_be_changed_is_known_and_no_gain() -> None:
    pod = make_pod("web", container("app", {"cpu": "200m", "memory": "512Mi"}))
    replacement = replaced(pod, Resource.MEMORY, estimates={"app": estimate(400, 512 * MIB + 1000)})
    assert isinstance(replacement, Pod)
    assert gain_ruling(proposal(), pod, replacement) is not None


def test_what_admission_leaves_for_an_hpa_is_not_known() -> None:
    frozen = FrozenAxes(cpu_for="HorizontalPodAutoscaler shop/web")
    assert "an HPA scales on it" in why(replaced(make_pod(), facts=AdmissionFacts(namespace=None, frozen=frozen)))


def test_range_that_holds_the_request_down_is_respected() -> None:
    # A LimitRange of 150m at most: admission cannot give what the history asks for.
    item = LimitRangeItem(name="small", type="Container", max={"cpu": 150 * NANOS_PER_MILLI})
    pod = make_pod()
    replacement = replaced(pod, facts=AdmissionFacts(namespace=None, limit_ranges=(item,)))
    ruling = replacement if isinstance(replacement, Ruling) else gain_ruling(proposal(), pod, replacement)
    assert ruling is not None
    assert ruling.reason in (Reason.NO_ESTIMATE, Reason.NOT_MORE)


def test_pod_that_admission_leaves_alone_is_not_known() -> None:
    paused = AdmissionFacts(namespace=None, pause_reason="maintenance")
    assert why(replaced(make_pod(), facts=paused)) == (
        "its replacement would be left as it comes: the cluster is paused: maintenance"
    )


def test_answer_that_lacks_a_container_is_not_known() -> None:
    empty = Admission(outcome=AdmissionOutcome.NOOP, why="", workload=WEB)
    assert why(replacement_of(make_pod(), empty, Resource.CPU)) == "container app: no history"


def test_resources_of_the_whole_pod_count_where_admission_sets_them() -> None:
    pod = make_pod(annotations={"plimsoll.dev/mode": "enforce", "plimsoll.dev/pod-limits": '{"limits": {"cpu": "2"}}'})
    replacement = replaced(pod, facts=AdmissionFacts(namespace=None, knows_pod_level_resources=True))
    assert isinstance(replacement, Pod)
    assert replacement.resources is not None
    assert cpu_millicores(replacement) >= 400
