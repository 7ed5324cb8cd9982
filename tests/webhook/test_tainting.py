"""The cap on tainted nodes: over several replicas at once, over time, and through the route that nodes ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.facts import ClusterRules
from agent.core.eviction.options import ArbiterOptions
from agent.core.eviction.taint_cap import TaintReason
from agent.webhook.eviction.taint_cap import TaintCap
from agent.webhook.http.routes import Call
from agent.webhook.store.database.engine import database_now
from agent.webhook.store.shapes import StoreAway
from agent.webhook.store.store import Store
from agent.webhook.store.taints import TaintStore
from tests.webhook.open_store import open_store
from tests.webhook.stack import Facts, Stack, stack

NODES = tuple(f"node-{number}" for number in range(40))
OPTIONS = ArbiterOptions(tainted_nodes_ratio=0.2)


def facts(**changed: Any) -> Facts:
    return Facts(node_names=NODES, **changed)


def cap(store: Store, of: Facts | None = None, options: ArbiterOptions = OPTIONS, **more: Any) -> TaintCap:
    return TaintCap(store=TaintStore(store, now=more.get("now", database_now)), facts=of or facts(), options=options)


def test_replicas_that_are_asked_together_grant_no_more_than_the_cap(store_url: str) -> None:
    stores = [open_store(store_url) for _ in range(4)]
    try:
        caps = [cap(store) for store in stores]

        def reason(number: int) -> TaintReason:
            # Where a busy machine let the database wait too long for its turn, nothing is granted: asked again.
            while (ruling := caps[number % 4].decide(NODES[number])).reason is TaintReason.STORE_AWAY:
                pass
            return ruling.reason

        with ThreadPoolExecutor(8) as pool:
            reasons = list(pool.map(reason, range(len(NODES))))
    finally:
        for store in stores:
            store.close()
    assert (reasons.count(TaintReason.GRANTED), reasons.count(TaintReason.CAP)) == (8, 32)


def test_a_place_is_kept_over_a_restart_and_free_again_once_the_watch_must_have_told(store_url: str) -> None:
    clock = [1_800_000_000.0]
    options = ArbiterOptions(tainted_nodes_ratio=0.01, taint_grant_seconds=120.0, stale_seconds=60.0)
    first = open_store(store_url)
    assert cap(first, options=options, now=lambda _: clock[0]).decide("node-1").is_granted
    first.close()
    second = open_store(store_url)
    later = cap(second, options=options, now=lambda _: clock[0])
    clock[0] += 179.0
    assert later.decide("node-2").reason is TaintReason.CAP
    assert later.decide("node-1").is_granted, "its own place; asked again it is held anew"
    clock[0] += 179.0
    assert later.decide("node-2").reason is TaintReason.CAP
    clock[0] += 1.0
    assert later.decide("node-2").is_granted
    second.close()


def test_a_grant_of_a_clock_that_was_wrong_is_forgotten(store: Store) -> None:
    options = ArbiterOptions(tainted_nodes_ratio=0.01)
    assert cap(store, options=options, now=lambda _: 4e9).decide("node-1").is_granted
    assert cap(store, options=options).decide("node-2").is_granted


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"is_complete": False}, TaintReason.FACTS_UNKNOWN),
        ({"age_seconds": None}, TaintReason.FACTS_UNKNOWN),
        ({"age_seconds": 181.0}, TaintReason.FACTS_UNKNOWN),
        ({"told": ClusterRules(pause_reason="fire")}, TaintReason.PAUSED),
        ({"tainted": frozenset(NODES[:8])}, TaintReason.CAP),
        ({"tainted": frozenset(NODES[:7])}, TaintReason.GRANTED),
    ],
)
def test_in_doubt_nobody_is_tainted(store: Store, changed: dict[str, Any], reason: TaintReason) -> None:
    asked = cap(store, facts(**changed))
    assert asked.decide("node-39").reason is reason
    assert asked.counts() == {reason: 1}


def test_a_node_that_the_cluster_does_not_have_is_refused(store: Store) -> None:
    assert cap(store).decide("node-x").reason is TaintReason.UNKNOWN_NODE


def test_without_the_database_nobody_is_tainted() -> None:
    class Away(Store):
        def __init__(self) -> None:
            pass

        def transaction(self) -> Any:
            raise StoreAway("database x is away: gone")

        reading = transaction

    asked = TaintCap(store=TaintStore(Away(), now=database_now), facts=facts(), options=OPTIONS)
    ruling = asked.decide("node-1")
    assert (ruling.reason, ruling.detail) == (TaintReason.STORE_AWAY, "database x is away: gone")


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Stack]:
    with stack(tmp_path) as webhook:
        yield webhook


def ask(webhook: Stack, body: Any, token: str = "good") -> Any:  # noqa: S107
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return webhook.posts.taint(Call(path="/v1/taint", body=text, authorization=f"Bearer {token}"))


def test_the_route_answers_who_the_token_names(whole: Stack) -> None:
    answer = ask(whole, {"schema": 1, "node": "node-a"})
    assert answer.status == 200
    assert json.loads(answer.body) == {
        "schema": 1,
        "granted": True,
        "reason": "granted",
        "detail": "0 of 2 nodes are tainted or about to be, at most 1 may (arbiter.taintedNodesRatio)",
        "seconds": 120.0,
    }
    whole.facts.tainted = frozenset({"node-b"})
    refused = json.loads(ask(whole, {"schema": 1, "node": "node-a"}).body)
    assert (refused["granted"], refused["reason"], refused["seconds"]) == (False, "taint_cap", 0.0)
    assert ask(whole, {"schema": 1, "node": "node-b"}).status == 403
    assert ask(whole, {"schema": 1, "node": "node-a"}, token="none").status == 401  # noqa: S106
    assert whole.counted('plimsoll_taint_questions_received_total{result="wrong_node"}') == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", {"schema": 9, "node": "node-a"}, {"schema": 1}, {"node": "A b"}])
def test_a_question_that_is_none_is_refused(whole: Stack, body: Any) -> None:
    answer = ask(whole, body)
    assert answer.status == 400
    assert "\n" not in json.loads(answer.body)["error"]
