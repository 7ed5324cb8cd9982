"""How long a list's sums of estimates are kept, and when they are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.cluster.workload import Workload
from agent.core.orders.policy_options import PolicyName
from agent.webhook.queries.request_sums import (
    LEAST_KEPT_SECONDS,
    MOST_KEPT,
    MOST_KEPT_SECONDS,
    RequestSumBook,
    RequestSums,
)
from agent.webhook.workloads.shapes import WorkloadSeen

CRUISE, PLIMSOLL = PolicyName.CRUISE, PolicyName.PLIMSOLL
KNOWN = Estimate(
    source=EstimateSource.WORKLOAD,
    policy=CRUISE,
    cpu_request_millicores=100,
    memory_request_bytes=1 << 20,
    cpu_max_millicores=None,
    memory_max_bytes=None,
    oom_memory_bytes=None,
    cpu_base_millicores=None,
    memory_base_bytes=None,
    history_seconds=86_400.0,
    pods=1,
    newest_age_seconds=60.0,
)
WEB = WorkloadSeen(
    workload=Workload(namespace="shop", kind="Deployment", name="web"),
    containers=("app", "proxy"),
    first_unix_seconds=1000.0,
    last_unix_seconds=9000.0,
)
NOW = 10_000.0


class Estimates:
    """What is known, and how often it was asked for."""

    def __init__(self, answer: Estimate | NoEstimate = KNOWN) -> None:
        self.answer, self.asked = answer, 0
        self.of_container: dict[str, Estimate | NoEstimate] = {}

    def __call__(self, _workload: Workload, container: str, _policy: PolicyName, _now: float) -> Estimate | NoEstimate:
        self.asked += 1
        return self.of_container.get(container, self.answer)


def test_sums_are_over_all_containers_and_made_once_in_a_while() -> None:
    estimates = Estimates()
    book = RequestSumBook(estimates)
    assert book.of(WEB, CRUISE, NOW) == RequestSums(cpu_request_millicores=200, memory_request_bytes=2 << 20)
    estimates.answer = replace(KNOWN, cpu_request_millicores=300)
    assert book.of(WEB, CRUISE, NOW + LEAST_KEPT_SECONDS - 0.1).cpu_request_millicores == 200
    assert book.of(WEB, CRUISE, NOW + MOST_KEPT_SECONDS).cpu_request_millicores == 600
    assert estimates.asked == 4


def test_workloads_are_not_all_made_anew_at_the_same_time() -> None:
    estimates = Estimates()
    book = RequestSumBook(estimates)
    every = [replace(WEB, workload=replace(WEB.workload, name=f"web-{number}")) for number in range(200)]
    for seen in every:
        book.of(seen, CRUISE, NOW)
    estimates.asked = 0
    for seen in every:
        book.of(seen, CRUISE, NOW + 30.0)
    assert 100 < estimates.asked < 300  # of 400; half of the workloads are over, by hash


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(replace(WEB, containers=("app",)), id="another container"),
        pytest.param(replace(WEB, first_unix_seconds=NOW), id="forgotten, and known again"),
    ],
)
def test_a_workload_that_is_another_now_is_made_anew(seen: WorkloadSeen) -> None:
    estimates = Estimates()
    book = RequestSumBook(estimates)
    book.of(WEB, CRUISE, NOW)
    book.of(seen, CRUISE, NOW + 1.0)
    assert estimates.asked == 2 + len(seen.containers)


def test_another_policy_and_a_clock_set_back_are_made_anew() -> None:
    estimates = Estimates()
    book = RequestSumBook(estimates)
    book.of(WEB, CRUISE, NOW)
    book.of(WEB, PLIMSOLL, NOW)
    book.of(WEB, PLIMSOLL, NOW - 3600.0)
    assert estimates.asked == 6


def test_what_is_not_known_yet_is_asked_for_each_time() -> None:
    estimates = Estimates()
    estimates.of_container["proxy"] = NoEstimate.TOO_YOUNG
    book = RequestSumBook(estimates)
    assert book.of(WEB, PLIMSOLL, NOW) == RequestSums(cpu_request_millicores=None, memory_request_bytes=None)
    book.of(WEB, PLIMSOLL, NOW)
    assert estimates.asked == 4


def test_a_figure_that_is_missing_makes_a_sum_that_is_missing() -> None:
    estimates = Estimates()
    estimates.of_container["app"] = replace(KNOWN, memory_request_bytes=None)
    assert RequestSumBook(estimates).of(WEB, CRUISE, NOW) == RequestSums(
        cpu_request_millicores=200, memory_request_bytes=None
    )


def test_no_more_are_kept_than_there_is_room_for() -> None:
    estimates = Estimates()
    book = RequestSumBook(estimates)
    web = replace(WEB, containers=("app",))
    for number in range(MOST_KEPT + 1):
        book.of(replace(web, workload=replace(web.workload, name=f"web-{number}")), CRUISE, NOW)
    estimates.asked = 0
    book.of(replace(web, workload=replace(web.workload, name=f"web-{MOST_KEPT}")), CRUISE, NOW)
    assert estimates.asked == 0
    book.of(replace(web, workload=replace(web.workload, name="web-0")), CRUISE, NOW)
    assert estimates.asked == 1
