"""The boost that stands in a pod's annotation: what it says, whose it is, and when it is over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.cluster.pod import Pod
from agent.core.orders import annotations as names
from agent.core.plan.needs.given_boost import (
    LONGEST_TEXT,
    QUIET_SECONDS,
    BoostEnd,
    GivenBoost,
    boost_end,
    boost_from,
    boost_text,
    end_unix_seconds,
    given_boost,
    is_quiet,
    quiet_bounds,
    standing_boost,
    standing_changes,
    starts_of,
    without_boost,
)
from agent.core.plan.pod_change import Setting
from agent.core.window.cpu import cpu_window
from agent.core.window.policy import WindowPolicy
from agent.webhook.admission.glance import MAX_CONTAINERS
from tests.pods import container, make_pod
from tests.window_rows import NS, steady

BORN = 1_800_000_000.0
BORN_TEXT = "2027-01-15T08:00:00Z"
CPU = "cpu"


def document(**more: Any) -> dict[str, Any]:
    return {
        "unixSeconds": BORN,
        "afterReadySeconds": 60,
        "timeoutSeconds": 600,
        "containers": {"app": {"requestMillicores": [500, 1500], "limitMillicores": [1000, 3000]}},
    } | more


def at(seconds: int) -> str:
    return f"2027-01-15T08:{seconds // 60:02}:{seconds % 60:02}Z"


def pod(
    text: str | None = None,
    *,
    request: str = "1500m",
    limit: str = "3",
    ready: int | None = None,
    created: str = BORN_TEXT,
    began: int | None = 5,
    phase: str = "Running",
    **more: Any,
) -> Pod:
    """Return a pod born with a boost, ready so many seconds after its birth."""
    conditions = [{"type": "Ready", "status": "False"}]
    if ready is not None:
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": at(ready)}]
    status: dict[str, Any] = {"phase": phase, "conditions": conditions}
    if began is not None:
        status["startTime"] = at(began)
    annotations = {names.STARTUP_BOOSTED: json.dumps(document(**more)) if text is None else text}
    return make_pod(
        container("app", {CPU: request}, {CPU: limit}),
        container("log", {CPU: "100m"}),
        metadata={"annotations": annotations, "creationTimestamp": created},
        status=status,
    )


def boost_of(pod: Pod) -> GivenBoost:
    boost = given_boost(pod)
    assert boost is not None
    return boost


def ends(pod: Pod, seconds: float, quiet: frozenset[str] = frozenset()) -> BoostEnd | None:
    return boost_end(pod, boost_of(pod), now_unix_seconds=BORN + seconds, quiet=quiet)


# The enhancement's four cases. A pod without a readiness probe is ready as soon as its containers run: both are told by
# the condition Ready alone, at 7 and at 40 seconds here.


@pytest.mark.parametrize("ready", [7, 40], ids=["no probe", "probe"])
@pytest.mark.parametrize("duration", [0, 30])
def test_a_boost_is_over_so_long_after_ready(ready: int, duration: int) -> None:
    assert ends(pod(afterReadySeconds=duration), ready) is None  # not ready yet
    is_ready = pod(ready=ready, afterReadySeconds=duration)
    assert end_unix_seconds(is_ready, boost_of(is_ready)) == BORN + ready + duration
    if duration:
        assert ends(is_ready, ready + duration - 1) is None
    assert ends(is_ready, ready + duration) is BoostEnd.READY


def test_a_pod_that_never_gets_ready_is_boosted_for_its_timeout_from_its_start() -> None:
    assert ends(pod(), 604) is None
    assert ends(pod(), 605) is BoostEnd.TIMEOUT
    assert ends(pod(began=None), 600) is BoostEnd.TIMEOUT  # no kubelet has told of it: from its creation
    # Ready late: what was ordered after ready holds, whatever the timeout.
    assert ends(pod(ready=590), 610) is None


def test_a_pod_that_is_ready_since_nobody_knows_when_counts_from_its_creation() -> None:
    unknown = make_pod(
        container("app", {CPU: "1500m"}),
        metadata={"annotations": {names.STARTUP_BOOSTED: json.dumps(document())}, "creationTimestamp": BORN_TEXT},
        status={"conditions": [{"type": "Ready", "status": "True"}]},
    )
    assert end_unix_seconds(unknown, boost_of(unknown)) == BORN + 60


def test_quiet_cpu_of_all_boosted_containers_ends_a_boost() -> None:
    assert ends(pod(), 100, frozenset({"app"})) is BoostEnd.QUIET
    assert ends(pod(), 100, frozenset({"log"})) is None


def test_nothing_is_over_for_a_pod_that_has_ended() -> None:
    assert ends(pod(ready=10, phase="Failed"), 600) is None


def test_what_was_written_is_read_back() -> None:
    boost = boost_of(pod())
    assert [(change.setting, change.before, change.after) for change in boost.changes] == [
        (Setting.REQUEST, 500, 1500),
        (Setting.LIMIT, 1000, 3000),
    ]
    assert boost_from(pod(boost_text(boost))) == boost
    assert boost.steady_requests() == {"app": 500}


def test_a_start_that_is_learnt_alone_has_an_end_and_nothing_to_take_back() -> None:
    learnt = pod(request="500m", learnt=True, containers={})
    boost = boost_of(learnt)
    assert (boost.changes, boost.is_learnt) == ((), True)
    assert boost_from(pod(boost_text(boost))) == boost
    assert standing_boost(learnt) is None
    assert starts_of([pod(ready=10, learnt=True, containers={})]) == {"uid-web": BORN + 70}
    assert given_boost(pod(learnt="true", containers={})) is None


def test_what_still_stands_is_taken_back_and_nothing_else() -> None:
    whole = pod()
    steady = without_boost(whole, boost_of(whole))
    resources = steady.containers[0].resources
    assert (resources.cpu_request_millicores, resources.cpu_limit_millicores) == (500, 1000)
    assert standing_changes(steady, boost_of(whole)) == ()
    raised = pod(request="900m")  # somebody has changed it since
    assert [change.setting for change in standing_changes(raised, boost_of(raised))] == [Setting.LIMIT]


def test_a_limit_that_somebody_has_come_to_need_stays() -> None:
    # The request was raised from 1500 to 2000 since: a limit of 1000 below it would be refused for ever.
    raised = pod(request="2")
    assert standing_changes(raised, boost_of(raised)) == ()
    little = pod(request="700m")
    assert [change.after for change in standing_changes(little, boost_of(little))] == [1000]
    free = pod(text=json.dumps(document(containers={"app": {"limitMillicores": [1000, 3000]}})), request="1")
    assert [change.after for change in standing_changes(free, boost_of(free))] == [1000]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 100_000,
        "[]",
        "{}",
        json.dumps(document(unixSeconds="now")),
        json.dumps(document(unixSeconds=True)),
        json.dumps(document(afterReadySeconds=-1)),
        json.dumps(document(timeoutSeconds=1e9)),
        json.dumps(document(containers=[])),
        json.dumps(document(containers={"other": {"requestMillicores": [1, 2]}})),
        json.dumps(document(containers={"app": 7})),
        json.dumps(document(containers={"app": {}})),
        json.dumps(document(containers={"app": {"requestMillicores": [500]}})),
        json.dumps(document(containers={"app": {"requestMillicores": [500, "1500m"]}})),
        json.dumps(document(containers={"app": {"requestMillicores": [0, 1500]}})),
        json.dumps(document(containers={"app": {"requestMillicores": [1500, 500]}})),  # it would be raised
        json.dumps(document(text="x" * LONGEST_TEXT)),
    ],
)
def test_what_is_not_understood_is_no_boost(text: str) -> None:
    assert given_boost(pod(text)) is None


def many(boosted: int) -> Pod:
    """Return a pod with as many containers as the webhook sizes, so many of them boosted."""
    named = [f"{number:063}" for number in range(MAX_CONTAINERS)]
    amounts = {"requestMillicores": [100_000, 300_000], "limitMillicores": [200_000, 400_000]}
    text = json.dumps(document(containers=dict.fromkeys(named[:boosted], amounts)), separators=(",", ":"))
    return make_pod(
        *(container(name, {CPU: "300"}, {CPU: "400"}) for name in named),
        metadata={"annotations": {names.STARTUP_BOOSTED: text}, "creationTimestamp": BORN_TEXT},
    )


def test_as_many_containers_as_the_webhook_sizes_are_taken_back() -> None:
    whole = many(MAX_CONTAINERS)
    assert len(standing_changes(whole, boost_of(whole))) == 2 * MAX_CONTAINERS
    assert quiet_bounds(whole, boost_of(whole)) == {item.name: 100_000 for item in whole.containers}


def test_the_boost_of_another_pod_is_none() -> None:
    assert given_boost(make_pod(container())) is None
    assert given_boost(pod(created="2027-01-15T08:05:00Z")) is not None
    assert given_boost(pod(created="2027-01-15T08:05:01Z")) is None  # a template made of a pod that ran
    assert given_boost(make_pod(container("app"), metadata={"annotations": dict(pod().annotations)})) is None


def test_a_container_is_quiet_that_stayed_below_its_steady_request_for_nearly_all_of_the_seconds() -> None:
    policy = WindowPolicy(capacity_millicores=4000, cpu_window_seconds=QUIET_SECONDS)

    def quiet(began: int, millicores: float, steady_millicores: int = 500) -> bool:
        rows = steady(range(began, 101), millicores)
        return is_quiet(cpu_window((rows,), policy, end_monotonic_ns=100 * NS), steady_millicores)

    assert quiet(0, 499.0)
    assert not quiet(0, 500.0)
    assert not quiet(80, 10.0)  # it has run for twenty seconds only
    assert not is_quiet(cpu_window((), policy, end_monotonic_ns=100 * NS), 500)


def test_the_bound_of_a_container_whose_limit_alone_was_boosted_is_its_request() -> None:
    whole = pod()
    assert quiet_bounds(whole, boost_of(whole)) == {"app": 500}
    limit = pod(request="400m", containers={"app": {"limitMillicores": [1000, 3000]}})
    assert quiet_bounds(limit, boost_of(limit)) == {"app": 400}
    limited = pod(text=json.dumps(document(containers={"log": {"limitMillicores": [1, 3]}})))
    assert quiet_bounds(limited, boost_of(limited)) == {"log": 100}
    unstated = make_pod(
        container("app", {}, {CPU: "3"}),
        metadata={"annotations": dict(limit.annotations), "creationTimestamp": BORN_TEXT},
    )
    assert quiet_bounds(unstated, boost_of(unstated)) == {}


def test_a_pod_that_gets_ready_again_has_not_started_again() -> None:
    again = pod(ready=3000)
    assert end_unix_seconds(again, boost_of(again)) == BORN + 605 + 60
    assert starts_of([again, make_pod(container())]) == {"uid-web": BORN + 665}
