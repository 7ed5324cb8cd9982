from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.cluster.pod import Pod
from agent.core.cluster.workload import Workload
from agent.core.orders.annotations import SHARE_TICKET
from agent.core.orders.enforce_share import hashed_ticket
from agent.core.plan.needs.given_boost import WRITTEN_WITHIN_SECONDS
from agent.core.plan.needs.share_ticket import given_ticket, next_ticket, share_ticket, ticket_text
from tests.pods import container, make_pod

BORN = 1_800_000_000.0
BORN_TEXT = "2027-01-15T08:00:00Z"
WEB = Workload(namespace="shop", kind="Deployment", name="web")


def pod(text: str | None = None, created: str | None = BORN_TEXT) -> Pod:
    metadata: dict[str, Any] = {"annotations": {} if text is None else {SHARE_TICKET: text}}
    return make_pod(container(), metadata=metadata | ({} if created is None else {"creationTimestamp": created}))


def test_a_ticket_is_read_as_it_was_written() -> None:
    assert share_ticket(pod(ticket_text(123, unix_seconds=BORN + 1.7))) == 123


def test_without_a_ticket_the_uid_counts() -> None:
    assert share_ticket(pod()) == hashed_ticket("uid-web")
    assert share_ticket(pod(ticket_text(123, unix_seconds=BORN), created=None)) == hashed_ticket("uid-web")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "7",
        "[" * 100_000,
        '{"ticket":1}',
        '{"ticket":true,"unixSeconds":1}',
        '{"ticket":1,"unixSeconds":1%s}' % ("0" * 400),
    ],
)
def test_what_is_no_ticket_is_passed_over(text: str) -> None:
    assert given_ticket(pod(text)) is None


@pytest.mark.parametrize("ticket", [-1, 10_000, 1.5, "1"])
def test_a_ticket_beyond_all_is_passed_over(ticket: object) -> None:
    assert given_ticket(pod(json.dumps({"ticket": ticket, "unixSeconds": int(BORN)}))) is None


def test_a_ticket_of_another_pod_is_passed_over() -> None:
    late = BORN + WRITTEN_WITHIN_SECONDS
    assert given_ticket(pod(ticket_text(5, unix_seconds=late))) == 5
    assert given_ticket(pod(ticket_text(5, unix_seconds=late + 1))) is None
    assert given_ticket(pod(ticket_text(5, unix_seconds=BORN + 61)), within_seconds=60.0) is None


def test_pods_are_counted_on_where_their_workload_begins() -> None:
    tickets = [next_ticket(WEB, "web-", node=None, before=number) for number in range(20)]
    assert sum(ticket < 1000 for ticket in tickets) == 2
    others = {
        next_ticket(Workload(namespace="shop", kind="Deployment", name=name), "x", node=None, before=0)
        for name in ("a", "b", "c")
    }
    assert len(others) == 3


def test_a_pod_of_a_stateful_set_keeps_its_group_whenever_it_is_made_again() -> None:
    workload = Workload(namespace="shop", kind="StatefulSet", name="db")
    first = [next_ticket(workload, f"db-{number}", node=None, before=0) for number in range(20)]
    assert first == [next_ticket(workload, f"db-{number}", node="n", before=77) for number in range(20)]
    assert sum(ticket < 1000 for ticket in first) == 2
    assert next_ticket(workload, "odd", node=None, before=3) == next_ticket(workload, "db-3", node=None, before=0)


def test_a_pod_of_a_daemon_set_goes_by_its_node() -> None:
    workload = Workload(namespace="shop", kind="DaemonSet", name="log")
    there = [next_ticket(workload, "log-", node=f"node-{number}", before=number) for number in range(100)]
    assert there == [next_ticket(workload, "log-", node=f"node-{number}", before=0) for number in range(100)]
    assert len(set(there)) > 90
    assert next_ticket(workload, "log-", node=None, before=0) != next_ticket(workload, "log-", node=None, before=1)
