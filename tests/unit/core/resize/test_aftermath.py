"""Whether a pod fares worse after a shrink."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agent.core.cluster.pod import Pod
from agent.core.cluster.resource import Resource
from agent.core.history.workloads.fare import Fare
from agent.core.orders.guard_options import GuardOptions
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.aftermath import (
    fare_after,
    fare_before,
    fare_of_peer,
    is_judged,
    is_suspect,
    own_restarts,
    restarts_of,
    why_taken_back,
)
from agent.core.resize.record import Shrunk
from agent.core.window.cpu import absent_cpu_window
from agent.core.window.snapshot import CpuWindow, Missing
from tests.pods import container, make_pod

NOW = 1_800_000_000.0
OPTIONS = GuardOptions()
"""120 s are compared."""
SHRUNK = Shrunk(sent_seconds=1000.0, at_seconds=1001.0, changes=(), restarts=3, was_ready=True)


def text(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    *, restarts: int = 3, began: float = NOW - 86_400.0, ready: str | None = "True", since: float | None = None
) -> Pod:
    condition: dict[str, Any] = {"type": "Ready", "status": ready}
    if since is not None:
        condition["lastTransitionTime"] = text(since)
    status = {"name": "app", "restartCount": restarts, "state": {"running": {"startedAt": text(began)}}}
    conditions = [] if ready is None else [condition]
    return make_pod(container("app"), status={"containerStatuses": [status], "conditions": conditions})


def window(*, coverage: float = 1.0, waiting: float | None = 0.0, throttled: float | None = 0.0) -> CpuWindow:
    nothing = absent_cpu_window(Missing.NO_SIGNAL)
    return replace(nothing, coverage_ratio=coverage, waiting_ratio=waiting, throttled_ratio=throttled)


def after(observed_pod: Pod, *windows: CpuWindow, shrunk: Shrunk = SHRUNK) -> Fare:
    return fare_after(observed_pod, shrunk, windows, OPTIONS, now_seconds=1200.0, now_unix_seconds=NOW)


def before(observed_pod: Pod, *windows: CpuWindow, shrunk: Shrunk = SHRUNK) -> Fare:
    return fare_before(observed_pod, shrunk, windows, OPTIONS, shrunk_unix_seconds=NOW - 200.0)


FINE = before(pod(), window())


def test_a_shrink_is_judged_once_as_much_time_has_passed_as_is_compared() -> None:
    assert not is_judged(SHRUNK, OPTIONS, 1120.0)
    assert is_judged(SHRUNK, OPTIONS, 1121.0)
    assert not is_judged(SHRUNK, GuardOptions(active=False), 1121.0)


def test_a_pod_that_fares_as_before_is_no_suspect() -> None:
    now = after(pod(), window(waiting=0.19, throttled=0.09))
    assert now == Fare(seconds=200.0, cpu_seconds=120.0, waiting_seconds=0.19 * 120.0, throttled_seconds=0.09 * 120.0)
    assert not is_suspect(now, OPTIONS)
    assert why_taken_back(FINE, now, (), OPTIONS) is None


def test_waiting_and_throttling_are_compared_with_before_the_shrink() -> None:
    slow = after(pod(), window(waiting=0.3))
    assert is_suspect(slow, OPTIONS)
    assert why_taken_back(FINE, slow, (), OPTIONS) == "waiting for CPU 30% of the time, 0% before the shrink"
    held = after(pod(), window(throttled=0.5), window(throttled=0.1))
    assert why_taken_back(FINE, held, (), OPTIONS) == "throttled 30% of the time, 0% before the shrink"
    assert why_taken_back(before(pod(), window(waiting=0.2)), slow, (), OPTIONS) is None


def test_a_window_that_was_hardly_seen_tells_nothing_of_cpu() -> None:
    assert why_taken_back(FINE, after(pod(), window(coverage=0.4, waiting=0.9)), (), OPTIONS) is None
    assert why_taken_back(FINE, after(pod(), window(waiting=None, throttled=None)), (), OPTIONS) is None


def test_two_restarts_since_the_shrink_are_too_many_where_there_was_none_before() -> None:
    assert restarts_of(pod(restarts=5)) == 5
    again = after(pod(restarts=5))  # its cgroup is new: nothing is known of its CPU
    assert why_taken_back(FINE, again, (), OPTIONS) == (
        "restarts: 2 in 0.1 container-hours, 0 in 0.0 container-hours before the shrink"
    )
    assert why_taken_back(FINE, after(pod(restarts=4)), (), OPTIONS) is None
    # One in 120 s before is as frequent as 1.7 in 200 s.
    unsteady = before(pod(restarts=5, began=NOW - 300.0))
    assert unsteady.restarts == 1
    assert why_taken_back(unsteady, again, (), OPTIONS) is None
    assert before(pod(restarts=5, began=NOW - 321.0)).restarts == 0, "earlier than what is compared"
    assert before(pod(restarts=0, began=NOW - 300.0)).restarts == 0, "its first run"
    assert after(pod(restarts=5), shrunk=replace(SHRUNK, restarts=None)).restarts == 5


def test_a_pod_that_has_not_been_ready_for_half_of_the_time_fares_worse_than_when_it_was() -> None:
    lost = after(pod(ready="False", since=NOW - 60.0))
    assert why_taken_back(FINE, lost, (), OPTIONS) == "not Ready 100% of the time, 0% before the shrink"
    never = before(pod(), shrunk=replace(SHRUNK, was_ready=False))
    assert why_taken_back(never, lost, (), OPTIONS) is None
    for unsure in (pod(ready="False", since=NOW - 59.0), pod(ready="False"), pod(ready=None), pod(ready="Unknown")):
        assert why_taken_back(FINE, after(unsure), (), OPTIONS) is None


def test_what_ails_pods_that_were_not_shrunk_as_well_was_not_the_shrink() -> None:
    slow = after(pod(), window(waiting=0.5))
    fine = fare_of_peer(pod(), (window(waiting=0.1),), OPTIONS, now_unix_seconds=NOW)
    as_slow = fare_of_peer(pod(), (window(waiting=0.9),), OPTIONS, now_unix_seconds=NOW)
    assert why_taken_back(FINE, slow, (fine,), OPTIONS) is not None
    assert why_taken_back(FINE, slow, (fine, as_slow), OPTIONS) is None
    lost = after(pod(ready="False", since=NOW - 100.0))
    down = fare_of_peer(pod(ready="False", since=NOW - 100.0), (), OPTIONS, now_unix_seconds=NOW)
    assert why_taken_back(FINE, lost, (down,), OPTIONS) is None
    crashing = fare_of_peer(pod(restarts=9, began=NOW - 10.0), (), OPTIONS, now_unix_seconds=NOW)
    assert crashing.restarts == 1
    assert why_taken_back(FINE, after(pod(restarts=5)), (crashing,), OPTIONS) is None


def test_containers_that_a_resize_starts_again_by_itself_are_no_restarts_of_theirs() -> None:
    policies = [[{"resourceName": name, "restartPolicy": "RestartContainer"}] for name in ("cpu", "memory")]
    by_cpu, by_memory = (container(name, resizePolicy=policy) for name, policy in zip("ab", policies, strict=True))
    pod_abc = make_pod(by_cpu, by_memory, container("c"))

    def change(name: str, resource: Resource, setting: Setting = Setting.REQUEST) -> Change:
        return Change(container=name, kind=None, resource=resource, setting=setting, before=2, after=1)

    assert own_restarts(pod_abc, [change("a", Resource.CPU), change("b", Resource.CPU), change("c", Resource.CPU)]) == 1
    assert own_restarts(pod_abc, [change("a", Resource.CPU), change("b", Resource.MEMORY)]) == 2
    assert own_restarts(pod_abc, []) == 0
    # Of the pod's own budget the limit counts, and only to those that go by it.
    assert own_restarts(pod_abc, [change("", Resource.MEMORY)]) == 0
    assert own_restarts(pod_abc, [change("", Resource.MEMORY, Setting.LIMIT)]) == 1
    limited = make_pod(by_cpu, container("b", None, {"memory": "64Mi"}, resizePolicy=policies[1]))
    assert own_restarts(limited, [change("", Resource.MEMORY, Setting.LIMIT)]) == 0
