"""Decisions as they go over the wire."""

from __future__ import annotations

import json
from typing import Any

from agent.core.cluster.resource import Resource
from agent.core.plan.pod_change import Change, Setting
from agent.core.resize.decision import Action, Decision, Outcome
from agent.core.resize.told_decisions import MAX_CHANGES, MAX_DETAIL, MAX_REASON, DecisionSource, decisions_text
from tests.plans import change, ref

SOURCE = DecisionSource(node="node-a", incarnation="i-1", agent="1.2.3", dropped=7)
NOW = 1000.0


def told(**fields: Any) -> Any:
    decision = Decision(
        **{
            "sequence": 4,
            "unix_seconds": 990.5,
            "action": Action.RESIZE,
            "outcome": Outcome.APPLIED,
            "reason": "short",
            **fields,
        }
    )
    document = json.loads(decisions_text(SOURCE, [decision], unix_now=NOW))
    assert {name: document[name] for name in ("schema", "node", "incarnation", "agent", "dropped")} == {
        "schema": 1,
        "node": "node-a",
        "incarnation": "i-1",
        "agent": "1.2.3",
        "dropped": 7,
    }
    (row,) = document["decisions"]
    return row


def test_what_is_not_known_is_left_out() -> None:
    assert told() == {"sequence": 4, "ageSeconds": 9.5, "action": "resize", "outcome": "applied", "reason": "short"}


def test_everything_that_is_known_is_told_in_its_unit() -> None:
    whole = Change(container="", kind=None, resource=Resource.MEMORY, setting=Setting.LIMIT, before=1, after=2)
    row = told(
        pod=ref("web"),
        detail="why",
        changes=(change(100, 200, container="app"), whole),
        seconds=1.23456,
        repeats=3,
        by="root (uid 0)",
    )
    assert row["namespace"], row["pod"] == (ref("web").namespace, "web")
    assert row["podUid"] == ref("web").uid
    assert (row["detail"], row["seconds"], row["repeats"], row["by"]) == ("why", 1.235, 3, "root (uid 0)")
    assert row["changes"] == [
        {"container": "app", "resource": "cpu", "field": "request", "before": 100, "after": 200},
        {"resource": "memory", "field": "limit", "before": 1, "after": 2},
    ]


def test_a_moment_ahead_of_the_clock_is_now_and_not_the_future() -> None:
    assert told(unix_seconds=NOW + 60, seconds=-0.5)["ageSeconds"] == 0.0
    assert told(seconds=-0.5)["seconds"] == 0.0


def test_texts_and_changes_are_cut_where_the_receiver_would_refuse_them() -> None:
    many = tuple(change(1, 2, container=f"c{number}") for number in range(MAX_CHANGES + 5))
    row = told(reason="r" * 500, detail="d" * 5000, changes=many)
    assert (len(row["reason"]), len(row["detail"]), len(row["changes"])) == (MAX_REASON, MAX_DETAIL, MAX_CHANGES)
