"""Replicas as processes, killed in the middle: what was acknowledged is there, and nothing is there twice."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from dataclasses import replace

import psycopg
import pytest

from agent.webhook.store.database.engine import StorePatience
from agent.webhook.store.shapes import AppendOutcome, StoreAway
from agent.webhook.store.store import Store
from tests.webhook.open_store import PATIENT, open_store
from tests.webhook.postgres import PostgresServer
from tests.webhook.replica import PAYLOAD_BYTES, Replica
from tests.webhook.reports import new_report, whose

BEFORE_THE_KILL = 40
"""Answers read before; the replica is somewhere in the middle of a later append then."""


def kill_in_the_middle(replica: Replica) -> list[str]:
    """Kill it while it appends, and give every answer that it gave."""
    lines = [replica.await_line("node-") for _ in range(BEFORE_THE_KILL)]
    code, more, error = replica.end(kill=True)
    assert (code, error) == (-signal.SIGKILL, "")
    return lines + more


def acknowledged(lines: list[str]) -> dict[tuple[str, int], int]:
    """Read (node, sequence): id of what was taken, repeats left out."""
    parts = [line.split() for line in lines if line != "done"]
    return {(node, int(sequence)): int(report_id) for node, sequence, report_id in parts if report_id != "-"}


def logged(store: Store) -> dict[tuple[str, int], int]:
    """Read the whole log, whole payloads, in order, each once."""
    reports = store.tail(0, 100_000)
    assert [report.id for report in reports] == sorted({report.id for report in reports})
    assert all(len(report.payload) == PAYLOAD_BYTES for report in reports)
    counted = Counter((report.node, whose(report.payload)[2]) for report in reports)
    assert set(counted.values()) <= {1}, f"twice: {counted.most_common(3)}"
    return {(report.node, whose(report.payload)[2]): report.id for report in reports}


def started(url: str, *options: str) -> Replica:
    replica = Replica(url, "append", *options)
    replica.await_line("ready")
    return replica


def test_replica_killed_while_appending_loses_nothing_acknowledged(store_url: str) -> None:
    replica = started(store_url)
    replica.begin()
    taken = acknowledged(kill_in_the_middle(replica))

    store = open_store(store_url)
    # A repeat waits for the log's turn: what the killed one had sent off is done or undone when it has it.
    assert store.append(new_report(1)).repeated
    log = logged(store)
    assert taken.items() <= log.items()
    assert len(log) <= len(taken) + 1, "one may have been committed and not yet acknowledged"

    # The node sends all again to the next one, as it does not know.
    again = [store.append(new_report(sequence)).repeated for sequence in range(1, len(log) + 3)]
    assert again == [True] * len(log) + [False] * 2
    assert store.nodes()[0].missing_reports == 0
    store.close()


@pytest.mark.parametrize("count", [2, 3])
def test_one_of_several_replicas_killed_loses_and_doubles_nothing(store_url: str, count: int) -> None:
    """Each replica is sent every report of the same nodes: as repeats come when an answer was lost."""
    nodes, through = [f"node-{number}" for number in range(3)], 40
    of_nodes = ("--nodes", ",".join(nodes))
    # The one that is killed goes on until it is: it might otherwise have ended before this process comes to it.
    replicas = [started(store_url, *of_nodes)]
    replicas += [started(store_url, *of_nodes, "--through", str(through)) for _ in range(count - 1)]
    for replica in replicas:
        replica.begin()
    taken = [acknowledged(kill_in_the_middle(replicas[0]))]
    ends = [replica.end() for replica in replicas[1:]]
    assert [(code, error) for code, _, error in ends] == [(0, "")] * (count - 1)
    taken += [acknowledged(lines) for _, lines, _ in ends]

    store = open_store(store_url)
    assert store.append(new_report(1, node=nodes[0])).repeated
    log = logged(store)
    # Beyond it there is what the killed one alone came to.
    assert log.keys() >= {(node, sequence) for node in nodes for sequence in range(1, through + 1)}
    for answers in taken:
        assert answers.items() <= log.items()
    unacknowledged = len(log) - sum(len(answers) for answers in taken)
    assert unacknowledged in (0, 1), "what the killed one committed last; nobody else was told that it took it"
    counted = Counter(node for node, _ in log)
    assert [(mark.reports, mark.missing_reports) for mark in store.nodes()] == [(counted[node], 0) for node in nodes]
    store.close()


def test_replica_killed_in_a_transaction_leaves_nothing_and_blocks_nobody(store_url: str) -> None:
    replica = Replica(store_url, "hold")
    replica.await_line("ready")
    replica.begin()
    replica.await_line("holding")
    replica.end(kill=True)
    store = open_store(store_url)
    with store.transaction() as connection:
        assert connection.exec_driver_sql("SELECT value FROM counters WHERE name = 'eviction_turn'").scalar() == 1
    store.close()


def test_replica_frozen_in_a_transaction_is_cut_off(postgres: PostgresServer) -> None:
    """A paused machine would otherwise hold its locks, and all others, until it comes back."""
    url = postgres.url(postgres.new_database())
    holder = open_store(url)
    other = open_store(url, patience=replace(PATIENT, lock_seconds=0.1))
    # Of one that is patient: a busy machine may keep the other from its try for longer than the frozen one has.
    with holder.transaction(), pytest.raises(StoreAway, match="lock timeout"), other.transaction():
        pass
    holder.close()
    frozen = open_store(url)

    def freeze() -> None:
        with frozen.transaction() as connection:
            told: str = connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar_one()
            assert told == f"{StorePatience().idle_seconds:g}s"
            # Shortened from here on alone: a busy machine lets it be idle between any two statements before.
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = '1s'")
            _until_other_has_its_turn(other)
            connection.exec_driver_sql("SELECT 1")

    with pytest.raises(StoreAway, match="idle-in-transaction timeout"):
        freeze()
    frozen.append(new_report(1))
    frozen.close()
    other.close()


def test_mark_that_a_fold_drops_while_its_node_comes_back_is_made_again(postgres: PostgresServer) -> None:
    url = postgres.url(postgres.new_database())
    store = open_store(url)
    store.append(new_report(1))
    answers: list[AppendOutcome] = []
    thread = threading.Thread(target=lambda: answers.append(store.append(new_report(2))))
    with psycopg.connect(url) as fold:
        fold.execute("DELETE FROM node_marks")
        thread.start()
        with psycopg.connect(url, autocommit=True) as watcher:
            of_ours = "SELECT wait_event_type FROM pg_stat_activity WHERE datname = current_database()"
            while ("Lock",) not in watcher.execute(of_ours).fetchall():
                assert thread.is_alive()
    thread.join()
    assert [outcome.repeated for outcome in answers] == [False]
    assert store.append(new_report(2)).repeated, "it would be counted twice"
    assert [whose(report.payload)[2] for report in store.tail(0, 10)] == [1, 2]
    store.close()


def _until_other_has_its_turn(store: Store) -> None:
    for _ in range(600):
        try:
            with store.transaction():
                return
        except StoreAway:
            continue
    raise AssertionError("the frozen one was never cut off")
