"""What nodes decided: posted, kept once and within bounds, on both databases where it is theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.workload import Workload
from agent.webhook.http.routes import Call
from agent.webhook.store.records import decisions as told_decisions
from agent.webhook.store.records.decisions import (
    KEPT_SECONDS,
    MOST_A_DAY,
    DecisionChoice,
    DecisionLogState,
    DecisionPlace,
    StoredDecision,
)
from agent.webhook.store.shapes import ForgetWish
from agent.webhook.store.store import Store
from tests.webhook.stack import GOOD, WEB, Stack, place, stack

NOW = 1_800_000_000.0
API = replace(WEB, name="api")
STATE = DecisionLogState(node="node-a", incarnation="i", agent="1.0", dropped=0, received_unix_seconds=NOW)


def row(sequence: int = 1, **fields: Any) -> StoredDecision:
    record = StoredDecision(
        node="node-a",
        incarnation="i",
        sequence=sequence,
        unix_seconds=NOW - sequence,
        action="resize",
        outcome="applied",
        reason="short",
        detail="",
        workload=WEB,
        pod="web-1",
        pod_uid="uid-1",
        changes="[]",
        seconds=None,
        repeats=1,
        asked_by=None,
    )
    return replace(record, **fields)


def sequences(store: Store, limit: int = 100, **choice: Any) -> list[int]:
    return [record.sequence for record in store.decisions(DecisionChoice(**choice), limit)]


def test_decision_told_twice_is_there_once(store: Store) -> None:
    assert store.take_decisions(STATE, [row(1), row(2)]) == 2
    assert store.take_decisions(STATE, [row(2), row(3)]) == 2
    assert sequences(store) == [1, 2, 3], "newest first: the first is the youngest here"


def test_newer_wording_takes_the_place_of_the_older_and_an_older_one_does_not(store: Store) -> None:
    store.take_decisions(STATE, [row(1, repeats=2, detail="twice", unix_seconds=NOW)])
    store.take_decisions(STATE, [row(1, repeats=3, detail="thrice", unix_seconds=NOW + 5, pod="other", workload=API)])
    store.take_decisions(STATE, [row(1, repeats=2, detail="late")])
    (record,) = store.decisions(DecisionChoice(), 10)
    assert (record.detail, record.repeats, record.unix_seconds) == ("thrice", 3, NOW + 5)
    assert (record.pod, record.workload) == ("web-1", WEB), "whose it is no later wording changes"


def test_logs_and_nodes_with_the_same_numbers_are_told_apart(store: Store) -> None:
    store.take_decisions(STATE, [row(1)])
    store.take_decisions(replace(STATE, incarnation="j", dropped=4), [row(1, incarnation="j")])
    store.take_decisions(replace(STATE, node="node-b"), [row(1, node="node-b")])
    assert len(store.decisions(DecisionChoice(), 10)) == 3
    assert [(log.node, log.incarnation, log.dropped) for log in store.decision_logs()] == [
        ("node-a", "j", 4),
        ("node-b", "i", 0),
    ]


def test_choices(store: Store) -> None:
    store.take_decisions(
        STATE,
        [
            row(1),
            row(2, workload=API, pod="api_1", action="eviction"),
            row(3, workload=None, pod=None, pod_uid=None, action="notice", outcome="done"),
            row(4, workload=replace(WEB, namespace="bank"), unix_seconds=NOW - 500, outcome="deferred"),
        ],
    )
    store.take_decisions(replace(STATE, node="node-b"), [row(5, node="node-b")])
    assert sequences(store) == [1, 2, 3, 5, 4]
    assert sequences(store, namespaces=frozenset({"shop"})) == [1, 2, 5]
    assert sequences(store, namespaces=frozenset()) == []
    assert sequences(store, workload_name="web") == [1, 5, 4]
    assert sequences(store, workload_name="web", workload_kind="StatefulSet") == []
    assert sequences(store, pod="web-*") == [1, 5, 4]
    assert sequences(store, pod="web-1") == [1, 5, 4]
    assert sequences(store, pod="api_*") == [2], "an underscore is no wildcard"
    assert sequences(store, pod="web_1") == []
    assert sequences(store, pod="*_*") == [2]
    assert sequences(store, node="node-b") == [5]
    assert sequences(store, actions=frozenset({"eviction", "notice"})) == [2, 3]
    assert sequences(store, outcomes=frozenset({"deferred"})) == [4]
    assert sequences(store, since_unix_seconds=NOW - 3) == [1, 2, 3]


def test_pages_hold_each_decision_once_where_several_are_of_one_moment(store: Store) -> None:
    store.take_decisions(STATE, [row(number, unix_seconds=NOW - number // 3) for number in range(1, 12)])
    numbers: list[int] = []
    after = None
    while page := store.decisions(DecisionChoice(after=after), 2):
        numbers += [record.sequence for record in page]
        after = DecisionPlace(unix_seconds=page[-1].unix_seconds, id=page[-1].id)
    assert sorted(numbers) == list(range(1, 12))


def test_newest_of_each_workload(store: Store) -> None:
    store.take_decisions(STATE, [row(1), row(2), row(3, workload=API)])
    by_workload = store.last_decisions([WEB, API, replace(WEB, name="none")])
    assert {workload.name: record.sequence for workload, record in by_workload.items()} == {"web": 1, "api": 3}


def test_old_ones_go_and_of_too_many_the_oldest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.take_decisions(STATE, [row(number) for number in range(1, 6)])
    store.take_decisions(STATE, [row(9, unix_seconds=NOW - KEPT_SECONDS - 1)])
    assert store.expire_decisions(NOW) == 1
    monkeypatch.setattr(told_decisions, "MOST_ROWS", 3)
    assert store.expire_decisions(NOW) == 2
    assert sequences(store) == [1, 2, 3]
    assert store.expire_decisions(NOW + KEPT_SECONDS + 10) == 3
    assert store.decision_logs() == []


def test_a_clock_that_is_ahead_takes_the_oldest_hour_at_a_time(store: Store) -> None:
    records = [row(number, unix_seconds=NOW - number * 1800) for number in range(1, 5)]
    store.take_decisions(STATE, records)
    ahead = NOW + 2 * KEPT_SECONDS
    assert store.expire_decisions(ahead) == 2
    assert sequences(store) == [1, 2]
    assert store.decision_logs() == [STATE], "of its node something is there yet"
    assert store.expire_decisions(ahead) == 2


def test_a_node_is_believed_no_more_than_so_many_a_day(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_decisions, "MOST_A_DAY", 3)
    assert store.take_decisions(STATE, [row(1), row(2)]) == 2
    assert store.take_decisions(STATE, [row(3), row(4)]) == 1
    assert store.take_decisions(replace(STATE, node="node-b"), [row(1, node="node-b")]) == 1
    tomorrow = replace(STATE, received_unix_seconds=NOW + 86_400)
    assert store.take_decisions(tomorrow, [row(5)]) == 1


def test_what_a_node_says_again_costs_it_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_decisions, "MOST_A_DAY", 3)
    for repeats in range(1, 6):
        assert store.take_decisions(STATE, [row(1, repeats=repeats), row(2, repeats=repeats)]) == 2
    assert store.take_decisions(STATE, [row(3), row(1, repeats=7), row(4), row(2, repeats=7)]) == 2
    assert store.take_decisions(STATE, [row(2, repeats=7)]) == 1, "the day's are all there, this is one of them"
    repeats_by_sequence = {record.sequence: record.repeats for record in store.decisions(DecisionChoice(), 10)}
    assert repeats_by_sequence == {1: 7, 2: 7, 3: 1}


def test_what_is_forgotten_of_a_workload_goes_with_it(store: Store) -> None:
    store.take_decisions(STATE, [row(1), row(2, workload=API)])
    store.forget(ForgetWish(workload=WEB, asked_by="a person"), now_unix_seconds=NOW)
    assert sequences(store) == [2]


# What is posted


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Stack]:
    with stack(tmp_path) as webhook:
        webhook.facts.places["uid-b"] = place(77, node="node-b")
        yield webhook


def told(**fields: Any) -> dict[str, Any]:
    return {
        "sequence": 1,
        "ageSeconds": 60.0,
        "action": "resize",
        "outcome": "applied",
        "reason": "short",
        "namespace": "shop",
        "pod": "web-1",
        "podUid": "uid-1",
        **fields,
    }


def post(desk: Stack, *rows: dict[str, Any], **fields: Any) -> tuple[int, Any]:
    body = {"schema": 1, "node": "node-a", "incarnation": "i-1", "agent": "1.2", "decisions": list(rows), **fields}
    call = Call(path="/v1/decisions", body=json.dumps(body).encode(), authorization=f"Bearer {GOOD}")
    answer = desk.posts.decisions(call)
    return answer.status, json.loads(answer.body)


def test_posted_decision_is_kept_as_it_was_told(desk: Stack) -> None:
    change = {"container": "app", "resource": "cpu", "field": "request", "before": 100, "after": 200}
    status, answer = post(
        desk, told(detail="why", changes=[change], seconds=1.5, repeats=2, by="root (uid 0)"), dropped=3
    )
    assert (status, answer) == (200, {"taken": 1, "refused": []})
    (record,) = desk.store.decisions(DecisionChoice(), 10)
    assert (record.node, record.workload, record.pod, record.asked_by) == ("node-a", WEB, "web-1", "root (uid 0)")
    assert json.loads(record.changes) == [change]
    (log,) = desk.store.decision_logs()
    assert (log.agent, log.dropped) == ("1.2", 3)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"podUid": "uid-b", "pod": "web-77"}, "podUid: the pod is not on node node-a"),
        ({"podUid": "uid-none"}, "podUid: no pod uid-none is known"),
        ({"pod": "web-2"}, "pod: the uid is another pod's"),
        ({"namespace": "bank"}, "pod: the uid is another pod's"),
        ({"podUid": None}, "podUid: is missing; allowed: namespace, pod and podUid, or none of them"),
        ({"ageSeconds": KEPT_SECONDS + 1}, f"ageSeconds: {KEPT_SECONDS + 1:.0f}; allowed: up to {KEPT_SECONDS:.0f}"),
    ],
)
def test_node_decides_for_its_own_pods_alone(desk: Stack, fields: dict[str, Any], reason: str) -> None:
    status, answer = post(desk, told(**fields), told(sequence=2))
    assert (status, answer) == (200, {"taken": 1, "refused": [{"row": 0, "reason": reason}]})
    assert [record.sequence for record in desk.store.decisions(DecisionChoice(), 10)] == [2]


def test_whose_pod_it_is_the_webhook_knows_and_the_node_does_not_say(desk: Stack) -> None:
    desk.facts.places["uid-1"] = replace(place(1), workload=Workload(namespace="shop", kind="StatefulSet", name="db"))
    post(desk, told(kind="Deployment", workload="bank"))
    (record,) = desk.store.decisions(DecisionChoice(), 10)
    assert record.workload == Workload(namespace="shop", kind="StatefulSet", name="db")


def test_decision_about_the_node_names_no_pod(desk: Stack) -> None:
    status, answer = post(desk, told(namespace=None, pod=None, podUid=None, action="pause", outcome="done"))
    assert (status, answer["taken"]) == (200, 1)
    (record,) = desk.store.decisions(DecisionChoice(), 10)
    assert (record.node, record.workload, record.pod) == ("node-a", None, None)


def test_pod_that_began_a_moment_ago_is_waited_for(desk: Stack) -> None:
    status, _ = post(desk, told(podUid="uid-new", ageSeconds=2.0))
    assert status == 503
    assert desk.store.decisions(DecisionChoice(), 10) == []


def test_node_speaks_for_itself_alone(desk: Stack) -> None:
    status, answer = post(desk, told(), node="node-b")
    assert status == 403
    assert "the report of node node-b" in answer["error"]


def test_nothing_in_a_text_steers_a_terminal_or_upsets_a_database(desk: Stack) -> None:
    post(desk, told(reason="a\x1b[31m", detail="b\x00c\n\u202ed", by="\x07x"), agent="1\x00")
    (record,) = desk.store.decisions(DecisionChoice(), 10)
    assert (record.reason, record.detail, record.asked_by) == ("a [31m", "b c  d", " x")
    assert desk.store.decision_logs()[0].agent == "1 "


@pytest.mark.parametrize(
    "fields",
    [
        {"sequence": 0},
        {"action": "guess"},
        {"outcome": "perhaps"},
        {"reason": "r" * 121},
        {"detail": "d" * 401},
        {"ageSeconds": -1},
        {"repeats": 0},
        {"changes": [{"resource": "disk", "field": "request"}]},
        {"changes": [{"resource": "cpu", "field": "request"}] * 65},
    ],
)
def test_what_is_no_decision_is_refused_whole(desk: Stack, fields: dict[str, Any]) -> None:
    status, answer = post(desk, told(**fields))
    assert status == 400
    assert answer["error"].startswith("decisions[0].")
    assert desk.store.decision_logs() == []


def test_a_post_holds_two_hundred_at_most(desk: Stack) -> None:
    assert post(desk, *[told(sequence=number) for number in range(1, 202)])[0] == 400
    assert post(desk, *[told(sequence=number) for number in range(1, 201)])[1]["taken"] == 200


def test_beyond_a_days_rows_the_answer_says_why(desk: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_decisions, "MOST_A_DAY", 1)
    status, answer = post(desk, told(), told(sequence=2))
    assert (status, answer["taken"]) == (200, 1)
    assert answer["refused"] == [{"row": 1, "reason": f"more than {MOST_A_DAY} decisions of node node-a today"}]
