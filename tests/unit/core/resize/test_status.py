from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent.core.cluster.pod import ContainerKind, Pod
from agent.core.cluster.resource import Resource
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.status import ResizeState, ResizeStatus, is_granted, resize_status
from tests.pods import container, make_pod

REQUESTS = {"cpu": "500m", "memory": "64Mi"}
LIMITS = {"cpu": "1", "memory": "128Mi"}
RUNNING = {"running": {"startedAt": "2026-11-21T01:00:00Z"}}


def status_of(
    allocated: Mapping[str, str] | None = REQUESTS,
    requests: Mapping[str, str] | None = REQUESTS,
    limits: Mapping[str, str] | None = LIMITS,
    *,
    name: str = "app",
    state: Mapping[str, Any] | None = RUNNING,
) -> dict[str, Any]:
    status: dict[str, Any] = {"name": name, "restartCount": 0, "state": state}
    if allocated is not None:
        status["allocatedResources"] = allocated
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {**status, "resources": resources} if resources else status


def pod_of(
    *statuses: dict[str, Any],
    conditions: tuple[dict[str, Any], ...] = (),
    generation: int = 3,
    observed: int | None = 3,
    pod_status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    status = {
        "phase": "Running",
        "conditions": list(conditions),
        "containerStatuses": list(statuses or (status_of(),)),
        **({} if observed is None else {"observedGeneration": observed}),
        **(pod_status or {}),
    }
    return make_pod(container("app", REQUESTS, LIMITS), metadata={"generation": generation}, status=status, **spec)


def condition(kind: str, reason: str = "", message: str = "", generation: int | None = 3, status: str = "True") -> Any:
    known = {} if generation is None else {"observedGeneration": generation}
    return {"type": f"PodResize{kind}", "status": status, "reason": reason, "message": message, **known}


DEFERRED = condition("Pending", "Deferred", "Node didn't have enough resource: cpu")
NEVER = condition("Pending", "Infeasible", "Node didn't have enough capacity")
GOING = condition("InProgress")
FAILING = condition("InProgress", "Error", "cannot decrease memory\nlimits")


def state(pod: Pod) -> ResizeState:
    return resize_status(pod).state


def test_where_no_generation_is_told_a_pending_wish_that_was_taken_back_is_over() -> None:
    never = condition("Pending", "Infeasible", generation=None)
    assert state(pod_of(conditions=(never,), observed=None)) is ResizeState.DONE
    other = status_of({"cpu": "100m"}, {"cpu": "100m"})
    assert state(pod_of(other, conditions=(never,), observed=None)) is ResizeState.INFEASIBLE


def test_pod_that_has_what_it_asks_for_is_done() -> None:
    assert resize_status(pod_of()) == ResizeStatus(state=ResizeState.DONE)
    assert not resize_status(pod_of()).is_in_flight


@pytest.mark.parametrize(
    ("conditions", "expected", "message", "error"),
    [
        ([DEFERRED], ResizeState.DEFERRED, "Node didn't have enough resource: cpu", None),
        ([condition("Pending", "Deferred")], ResizeState.DEFERRED, "Deferred", None),
        ([condition("Pending", "")], ResizeState.DEFERRED, "", None),
        ([NEVER], ResizeState.INFEASIBLE, "Node didn't have enough capacity", None),
        ([GOING], ResizeState.IN_PROGRESS, "", None),
        ([FAILING], ResizeState.ERROR, "cannot decrease memory limits", "cannot decrease memory limits"),
        ([GOING, DEFERRED], ResizeState.DEFERRED, "Node didn't have enough resource: cpu", None),
        ([FAILING, NEVER], ResizeState.INFEASIBLE, "Node didn't have enough capacity", "cannot decrease memory limits"),
        ([condition("Pending", "Deferred", status="False")], ResizeState.DONE, "", None),
    ],
)
def test_conditions_give_state_and_words(
    conditions: list[Any], expected: ResizeState, message: str, error: str | None
) -> None:
    status = resize_status(pod_of(conditions=tuple(conditions)))
    assert (status.state, status.message, status.error) == (expected, message, error)


def test_only_states_with_an_answer_to_come_are_in_flight() -> None:
    flying = {resize_state for resize_state in ResizeState if ResizeStatus(state=resize_state).is_in_flight}
    assert flying == {ResizeState.UNSEEN, ResizeState.DEFERRED, ResizeState.IN_PROGRESS, ResizeState.ERROR}


def test_status_of_an_older_spec_says_nothing_of_the_newest() -> None:
    status = resize_status(pod_of(generation=4, observed=3, conditions=(DEFERRED,)))
    assert status.state is ResizeState.UNSEEN
    assert status.message == "generation 4 not seen yet, the status is of 3"


def test_condition_keeps_its_number_when_something_else_of_the_spec_changes() -> None:
    assert state(pod_of(generation=5, observed=5, conditions=(DEFERRED,))) is ResizeState.DEFERRED


def test_condition_of_an_older_spec_is_not_believed_where_only_it_tells() -> None:
    old = condition("Pending", "Deferred", generation=3)
    assert state(pod_of(generation=4, observed=None, conditions=(old,))) is ResizeState.DONE
    assert state(pod_of(generation=3, observed=None, conditions=(old,))) is ResizeState.DEFERRED
    nameless = condition("Pending", "Deferred", generation=None)
    smaller = status_of({"cpu": "100m"}, {"cpu": "100m"})
    assert state(pod_of(smaller, generation=4, observed=None, conditions=(nameless,))) is ResizeState.DEFERRED


@pytest.mark.parametrize(
    ("statuses", "expected", "message"),
    [
        # Allocated is a record and compared exactly: 499m is another wish than 500m.
        (status_of({"cpu": "499m", "memory": "64Mi"}), ResizeState.UNKNOWN, "app: cpu request allocated 499m, asked"),
        (status_of({"cpu": "500m", "memory": "32Mi"}), ResizeState.UNKNOWN, "memory request allocated 32MiB, asked"),
        # A CPU request is read back from a weight: 40m or 5 % are no difference, 41m of 500m are one.
        (status_of(requests={"cpu": "460m"}), ResizeState.DONE, ""),
        (status_of(requests={"cpu": "459m"}), ResizeState.UNKNOWN, "cpu request 459m, asked for 500m"),
        # A quota comes in hundredths of a CPU.
        (status_of(limits={"cpu": "1010m"}), ResizeState.DONE, ""),
        (status_of(limits={"cpu": "1011m"}), ResizeState.UNKNOWN, "cpu limit 1011m, asked for 1000m"),
        # A memory limit in pages of 64 KiB at most.
        (status_of(limits={"memory": "131008Ki"}), ResizeState.DONE, ""),
        (status_of(limits={"memory": "131007Ki"}), ResizeState.UNKNOWN, "memory limit 127.9MiB, asked for 128MiB"),
        (status_of(requests={"memory": "60Mi"}), ResizeState.UNKNOWN, "memory request 60MiB, asked for 64MiB"),
        # What is not reported is no difference.
        (status_of(requests=None, limits=None), ResizeState.DONE, ""),
        (status_of(allocated=None), ResizeState.DONE, ""),
        (status_of(requests={}, limits={}), ResizeState.DONE, ""),
        (status_of(None, None, None), ResizeState.UNKNOWN, "the kubelet does not report what is in force"),
        (status_of(state={"waiting": {}}), ResizeState.UNKNOWN, "no container of it runs"),
    ],
)
def test_without_conditions_what_is_reported_decides(
    statuses: dict[str, Any], expected: ResizeState, message: str
) -> None:
    status = resize_status(pod_of(statuses))
    assert status.state is expected
    assert message in status.message
    assert bool(status.message) == bool(message)


def test_large_cpu_request_may_be_read_back_five_percent_off() -> None:
    big = {"cpu": "4"}
    status = {"observedGeneration": 1, "containerStatuses": [status_of(big, {"cpu": "3800m"}, None)]}
    pod = make_pod(container("app", big), metadata={"generation": 1}, status=status)
    assert state(pod) is ResizeState.DONE


def test_kubelet_that_reports_no_generation_has_not_seen_what_it_has_not_allocated() -> None:
    pod = pod_of(status_of({"cpu": "100m", "memory": "64Mi"}), observed=None)
    assert state(pod) is ResizeState.UNSEEN
    assert state(pod_of(observed=None)) is ResizeState.DONE


def test_containers_that_do_not_run_and_init_containers_are_not_compared() -> None:
    init = [container("setup", {"cpu": "1"})]
    ended = status_of({"cpu": "2"}, name="setup", state=RUNNING)
    pod = pod_of(pod_status={"initContainerStatuses": [ended]}, initContainers=init)
    assert state(pod) is ResizeState.DONE


BUDGET = {"requests": {"cpu": "600m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}}


def with_budget(allocated: Mapping[str, str], actual: Mapping[str, Any], **spec: Any) -> ResizeStatus:
    pod_status = {"allocatedResources": allocated, "resources": actual}
    return resize_status(pod_of(pod_status=pod_status, resources=BUDGET, **spec))


def test_budget_of_a_pod_is_compared_but_for_its_cpu_request_read_back() -> None:
    lossy = {"requests": {"cpu": "79m", "memory": "128Mi"}, "limits": BUDGET["limits"]}
    assert with_budget(BUDGET["requests"], lossy).state is ResizeState.DONE
    behind = with_budget({"cpu": "500m", "memory": "128Mi"}, BUDGET)
    assert (behind.state, behind.message) == (
        ResizeState.UNKNOWN,
        "the pod: cpu request allocated 500m, asked for 600m",
    )
    smaller = {"requests": BUDGET["requests"], "limits": {"cpu": "2", "memory": "200Mi"}}
    assert with_budget(BUDGET["requests"], smaller).message == "the pod: memory limit 200MiB, asked for 256MiB"


def test_budget_may_be_reported_with_the_pods_overhead_in_it() -> None:
    overhead = {"cpu": "250m", "memory": "120Mi"}
    grown = {"cpu": "850m", "memory": "248Mi"}  # 600m + 250m; 128Mi + 120Mi
    actual = {"requests": grown, "limits": {"cpu": "2250m", "memory": "376Mi"}}  # 2 + 0.25; 256Mi + 120Mi
    assert with_budget(grown, actual, overhead=overhead).state is ResizeState.DONE
    assert with_budget(BUDGET["requests"], BUDGET, overhead=overhead).state is ResizeState.DONE
    assert with_budget(grown, {}, overhead=overhead).state is ResizeState.DONE
    assert with_budget({"cpu": "1"}, actual, overhead=overhead).state is ResizeState.UNKNOWN


def test_pod_without_a_budget_is_not_judged_by_its_own_amounts() -> None:
    pod_status = {"allocatedResources": {"cpu": "1m"}, "resources": {"requests": {"cpu": "79m"}}}
    assert state(pod_of(pod_status=pod_status)) is ResizeState.DONE


@pytest.mark.parametrize(
    ("resource", "setting", "before", "after", "expected"),
    [
        (Resource.CPU, Setting.REQUEST, 300, 500, True),
        (Resource.CPU, Setting.REQUEST, 500, 700, False),
        (Resource.MEMORY, Setting.REQUEST, 32 << 20, 64 << 20, True),
        (Resource.CPU, Setting.LIMIT, 700, 1000, True),
        (Resource.CPU, Setting.LIMIT, 1000, 1005, False),  # as near as the kernel goes, but so is what stood before
        (Resource.MEMORY, Setting.LIMIT, 128 << 20, 256 << 20, False),
        (Resource.MEMORY, Setting.LIMIT, 256 << 20, 128 << 20, True),
    ],
)
def test_a_number_is_granted_when_it_is_allocated_or_as_a_limit_in_force(
    resource: Resource, setting: Setting, before: int, after: int, expected: bool
) -> None:
    change = Change(
        container="app", kind=ContainerKind.REGULAR, resource=resource, setting=setting, before=before, after=after
    )
    assert is_granted(pod_of(), change) is expected
    assert not is_granted(pod_of(status_of(None, None, None)), change)
    assert not is_granted(pod_of(status_of(None, REQUESTS, {})), change)


def test_the_pods_own_budget_is_granted_by_its_own_status() -> None:
    change = Change(container="", kind=None, resource=Resource.CPU, setting=Setting.REQUEST, before=300, after=500)
    limit = Change(container="", kind=None, resource=Resource.CPU, setting=Setting.LIMIT, before=700, after=1000)
    pod = pod_of(pod_status={"allocatedResources": REQUESTS, "resources": {"requests": REQUESTS, "limits": LIMITS}})
    assert is_granted(pod, change)
    assert is_granted(pod, limit)
    # Kubelets report the overhead of the pod's RuntimeClass in it.
    amounts = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}
    with_it = {"allocatedResources": {"cpu": "750m"}, "resources": {"limits": {"cpu": "1250m"}}}
    boxed = make_pod(container("app"), resources=amounts, overhead={"cpu": "250m"}, status=with_it)
    assert is_granted(boxed, change)
    assert is_granted(boxed, limit)
    assert not is_granted(pod_of(), change)
    assert not is_granted(pod_of(), limit)
