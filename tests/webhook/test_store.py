"""The store, the same on SQLite and PostgreSQL: taken once, in order, folded once."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import event, insert, select

from agent.webhook.store.database.tables import evictions, reports
from agent.webhook.store.shapes import FoldRaced, LogFolded, NewReport, StoredSketch
from agent.webhook.store.store import Store
from tests.webhook.open_store import open_store
from tests.webhook.reports import HOUR_SECONDS, new_report, whose


def sequences(store: Store) -> list[int]:
    return [whose(report.payload)[2] for report in store.tail(0, 10_000)]


def sketch(key: str, unix_hour: int, payload: bytes = b"x") -> StoredSketch:
    return StoredSketch(key=key, unix_hour=unix_hour, payload=payload)


def as_set(sketches: Iterator[StoredSketch]) -> set[tuple[str, int, bytes]]:
    return {(entry.key, entry.unix_hour, entry.payload) for entry in sketches}


def test_report_comes_back_from_the_log_as_it_went_in(store: Store) -> None:
    payload = bytes(range(256)) * 200
    appended = store.append(
        NewReport(
            node="node-a",
            incarnation="i",
            sequence=1,
            lost_reports=0,
            received_unix_seconds=1_700_000_000.123456,
            rows=60,
            payload=payload,
        )
    )
    (logged,) = store.tail(0, 10)
    assert (logged.id, logged.node, logged.received_unix_seconds, logged.payload) == (
        appended.id,
        "node-a",
        1_700_000_000.123456,
        payload,
    )


def test_repeat_changes_nothing(store: Store) -> None:
    first = store.append(new_report(1))
    again = store.append(new_report(1, received_unix_seconds=2_000_000.0, lost_reports=5))
    assert not first.repeated
    assert again.repeated
    assert again.lost_reports == 0
    assert sequences(store) == [1]
    (mark,) = store.nodes()
    assert (mark.reports, mark.last_received_unix_seconds) == (1, 1_000_000.0)


def test_sequences_out_of_order_are_each_taken_once(store: Store) -> None:
    order = list(range(1, 41))
    random.Random(7).shuffle(order)
    order += order
    taken = [sequence for sequence in order if not store.append(new_report(sequence)).repeated]
    assert sorted(taken) == list(range(1, 41))
    assert sorted(sequences(store)) == list(range(1, 41))
    (mark,) = store.nodes()
    assert (mark.highest_sequence, mark.reports, mark.missing_reports) == (40, 40, 0)


def test_gaps_are_counted_until_they_are_filled(store: Store) -> None:
    # 5 is the first that comes: 1 to 4 may have gone to an older database. 6 and 7 are missing.
    assert store.append(new_report(5)).missing_reports == 0
    assert store.append(new_report(8)).missing_reports == 2
    assert store.append(new_report(6)).missing_reports == 1
    # Now 3 came, so 4 is missing too.
    assert store.append(new_report(3)).missing_reports == 2


def test_what_the_node_dropped_is_counted_by_its_own_word(store: Store) -> None:
    store.append(new_report(1))
    assert store.append(new_report(9, lost_reports=7)).lost_reports == 7
    assert store.append(new_report(8, lost_reports=3)).lost_reports == 7, "said earlier, came later"
    assert store.nodes()[0].lost_reports == 7


def test_incarnations_count_apart_and_a_late_one_is_still_known(store: Store) -> None:
    store.append(new_report(1, incarnation="old", received_unix_seconds=100.0))
    store.append(new_report(2, incarnation="old", received_unix_seconds=200.0))
    assert not store.append(new_report(1, incarnation="new", received_unix_seconds=300.0)).repeated
    assert store.append(new_report(2, incarnation="old", received_unix_seconds=400.0)).repeated
    (mark,) = store.nodes()
    assert (mark.incarnation, mark.reports, mark.since_unix_seconds, mark.last_received_unix_seconds) == (
        "new",
        1,
        100.0,
        300.0,
    )


def test_nodes_are_listed_by_name(store: Store) -> None:
    for node in ("node-b", "Node-a", "node-a"):
        store.append(new_report(1, node=node))
    assert [mark.node for mark in store.nodes()] == ["Node-a", "node-a", "node-b"]


def test_tail_goes_on_from_any_id_in_pieces(store: Store) -> None:
    ids = [store.append(new_report(sequence)).id for sequence in range(1, 8)]
    assert ids == sorted({number for number in ids if number is not None})
    last, read = 0, []
    while piece := store.tail(last, 3):
        assert len(piece) <= 3
        read += [report.id for report in piece]
        last = piece[-1].id
    assert read == ids
    assert store.last_id() == ids[-1]


def test_empty_store_has_nothing(store: Store) -> None:
    assert store.tail(0, 10) == []
    assert store.nodes() == []
    assert list(store.sketches(0)) == []
    assert (store.folded_through(), store.last_id()) == (0, 0)


def test_fold_writes_sketches_and_drops_what_they_hold(store: Store) -> None:
    ids = [store.append(new_report(sequence)).id for sequence in (1, 2, 3)]
    second = ids[1]
    assert second is not None
    store.fold(second, [sketch("a", 277), sketch("b", 277)], 0, base_id=0)
    assert store.folded_through() == second
    with store.reading() as connection:
        assert connection.execute(select(reports.c.id)).scalars().all() == [ids[2]]
    assert [report.id for report in store.tail(second, 10)] == [ids[2]]
    assert as_set(store.sketches(0)) == {("a", 277, b"x"), ("b", 277, b"x")}


def test_fold_replaces_sketches_and_drops_old_hours(store: Store) -> None:
    store.fold(0, [sketch("a", 10), sketch("a", 11), sketch("a", 12)], 0, base_id=0)
    store.fold(0, [sketch("a", 12, b"new")], 11, base_id=0)
    assert as_set(store.sketches(0)) == {("a", 11, b"x"), ("a", 12, b"new")}
    assert as_set(store.sketches(12)) == {("a", 12, b"new")}


def test_ids_are_never_used_twice_though_the_log_is_empty(store: Store) -> None:
    last = store.append(new_report(1)).id
    assert last is not None
    store.fold(last, [], 0, base_id=0)
    after = store.append(new_report(2)).id
    assert after is not None
    assert after > last
    assert [report.id for report in store.tail(last, 10)] == [after]


def test_repeats_are_known_after_a_fold(store: Store) -> None:
    last = store.append(new_report(1)).id
    assert last is not None
    store.fold(last, [], 0, base_id=0)
    assert store.append(new_report(1)).repeated


def test_reader_left_behind_by_a_fold_is_told(store: Store) -> None:
    for sequence in (1, 2, 3):
        store.append(new_report(sequence))
    store.fold(2, [], 0, base_id=0)
    with pytest.raises(LogFolded, match="reports 2 to 2 are folded") as caught:
        store.tail(1, 10)
    assert caught.value.folded_through == 2


def test_fold_on_an_older_state_changes_nothing(store: Store) -> None:
    for sequence in (1, 2, 3):
        store.append(new_report(sequence))
    store.fold(2, [sketch("a", 1, b"right")], 0, base_id=0)
    with pytest.raises(FoldRaced):
        store.fold(3, [sketch("a", 1, b"wrong")], 0, base_id=0)
    assert as_set(store.sketches(0)) == {("a", 1, b"right")}
    assert sequences_after(store, 2) == [3]


def sequences_after(store: Store, report_id: int) -> list[int]:
    return [whose(report.payload)[2] for report in store.tail(report_id, 100)]


def test_fold_that_breaks_in_the_middle_leaves_all_as_it_was(store: Store) -> None:
    store.append(new_report(1))

    def breaking() -> Iterator[StoredSketch]:
        yield from (sketch(f"key-{number}", 5) for number in range(2_000))
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        store.fold(1, breaking(), 0, base_id=0)
    assert list(store.sketches(0)) == []
    assert sequences(store) == [1]


def test_fold_of_what_is_not_logged_is_refused(store: Store) -> None:
    store.append(new_report(1))
    with pytest.raises(ValueError, match="newest is 1"):
        store.fold(2, [], 0, base_id=0)
    with pytest.raises(ValueError, match="cannot build on"):
        store.fold(1, [], 0, base_id=2)
    assert store.folded_through() == 0


def test_marks_outlast_the_sketches_by_a_day(store: Store) -> None:
    # Hour 1000 begins at 3_600_000 s; a day before is 3_513_600 s.
    store.append(new_report(1, node="gone", received_unix_seconds=3_513_599.0))
    store.append(new_report(1, node="silent", received_unix_seconds=3_513_600.0))
    store.fold(0, [], 1000, base_id=0)
    assert [mark.node for mark in store.nodes()] == ["silent"]


def test_sketches_of_some_keys_and_hours(store: Store) -> None:
    every = [sketch(f"key-{number}", hour) for number in range(1_200) for hour in (1, 2, 3)]
    store.fold(0, every, 0, base_id=0)
    wanted = [f"key-{number}" for number in range(0, 1_200, 2)] + ["unknown"]
    sketches = as_set(store.sketches_of(wanted, [1, 3, 99]))
    assert sketches == {(f"key-{number}", hour, b"x") for number in range(0, 1_200, 2) for hour in (1, 3)}
    assert list(store.sketches_of([], [1])) == []
    assert list(store.sketches_of(["key-1"], [])) == []


def test_snapshot_is_of_one_moment_while_others_fold(store: Store) -> None:
    store.append(new_report(1))
    store.fold(0, [sketch(f"key-{number}", 1, b"old") for number in range(1_500)], 0, base_id=0)
    with store.snapshot(0) as snapshot:
        first = next(snapshot.sketches)
        store.fold(1, [sketch(f"key-{number}", 1, b"new") for number in range(1_500)], 0, base_id=0)
        payloads = {entry.payload for entry in itertools.chain([first], snapshot.sketches)}
    assert (snapshot.folded_through, payloads) == (0, {b"old"})
    assert store.folded_through() == 1


def test_snapshot_knows_its_place_in_the_log_though_others_fold_before_it_reads(store: Store) -> None:
    store.append(new_report(1))
    store.fold(0, [sketch("a", 1, b"old")], 0, base_id=0)
    raced: list[bool] = []

    @event.listens_for(store._engine.engine, "before_cursor_execute")
    def race(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "FROM sketches" in statement and statement.startswith("SELECT") and not raced:
            raced.append(True)
            store.fold(1, [sketch("a", 1, b"new")], 0, base_id=0)

    with store.snapshot(0) as snapshot:
        assert (snapshot.folded_through, as_set(snapshot.sketches)) == (0, {("a", 1, b"old")})
    assert raced


def test_snapshot_may_be_left_early(store: Store) -> None:
    store.fold(0, [sketch(f"key-{number}", 1) for number in range(1_500)], 0, base_id=0)
    for _ in range(12):  # more often than there are connections
        assert next(store.sketches(0)).unix_hour == 1
    store.append(new_report(1))


def test_beginnings_of_all_hours_come_newest_first_with_their_keys(store: Store) -> None:
    every = [sketch(key, hour, f"{key}{hour}{'.' * 20}".encode()) for hour in (5, 7, 6) for key in ("b", "a", "Z")]
    store.fold(0, [*every, sketch("c", 7, b"c7" + b"." * 20), sketch("old", 4, b"x" * 30)], 0, base_id=0)
    with store.snapshot(5) as snapshot:
        beginnings = list(snapshot.beginnings(2))
    assert [(heads.unix_hour, list(heads.keys), heads.joined) for heads in beginnings] == [
        (7, ["Z", "a", "b", "c"], b"Z7a7b7c7"),
        (6, ["Z", "a", "b"], b"Z6a6b6"),
        (5, ["Z", "a", "b"], b"Z5a5b5"),
    ]
    assert beginnings[1].keys is beginnings[2].keys


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        (sketch("b\nc", 1, b"12345"), (["a", "b\nc", "d"], b"xxx123yyy")),
        (sketch("b", 1, b"1"), (["a", "b", "d"], b"xxx1\0\0yyy")),
        (sketch("b", 1, b""), (["a", "b", "d"], b"xxx\0\0\0yyy")),
    ],
    ids=["key with a separator", "short", "empty"],
)
def test_beginnings_are_right_where_a_sketch_is_odd(
    store: Store, odd: StoredSketch, expected: tuple[list[str], bytes]
) -> None:
    store.fold(0, [sketch("a", 1, b"xxxx"), odd, sketch("d", 1, b"yyyy")], 0, base_id=0)
    store.fold(0, [sketch("a", 2, b"xxxx"), sketch("d", 2, b"yyyy")], 0, base_id=0)
    with store.snapshot(0) as snapshot:
        plain, heads = snapshot.beginnings(3)
    assert (list(plain.keys), plain.joined) == (["a", "d"], b"xxxyyy")
    assert (list(heads.keys), heads.joined) == expected


def test_beginnings_of_an_empty_store_are_none(store: Store) -> None:
    with store.snapshot(0) as snapshot:
        assert list(snapshot.beginnings(3)) == []


def test_size_grows_with_the_log(store: Store) -> None:
    empty = store.size_bytes()
    payload = random.Random(1).randbytes(60_000)
    for sequence in range(1, 21):
        entry = new_report(sequence)
        store.append(
            NewReport(
                node=entry.node,
                incarnation="i",
                sequence=sequence,
                lost_reports=0,
                received_unix_seconds=0.0,
                rows=1,
                payload=payload,
            )
        )
    assert store.size_bytes() - empty > 20 * 60_000


def test_old_sketches_go_by_the_hour_so_that_a_wrong_clock_takes_not_all(store: Store) -> None:
    store.fold(0, [sketch("a", 10), sketch("a", 11), sketch("b", 11), sketch("a", 12)], 0, base_id=0)
    store.fold(0, [], 1_000_000, base_id=0)
    assert {entry.unix_hour for entry in store.sketches(0)} == {11, 12}
    store.fold(0, [], 11, base_id=0)
    assert {entry.unix_hour for entry in store.sketches(0)} == {11, 12}


def test_pods_of_a_node_are_those_of_its_newest_report_and_go_with_a_node_that_is_silent(store: Store) -> None:
    day = 86_400.0
    assert store.pods_of("node-a") is None
    store.append(replace(new_report(1), pods=b"one"))
    store.append(replace(new_report(2), pods=b"two\x00"))
    store.append(replace(new_report(2), pods=b"a repeat"))
    store.append(new_report(3))  # of a replica that knows no pods
    store.append(replace(new_report(1, node="node-b", received_unix_seconds=1_000_000.0 + day), pods=b"b"))
    assert (store.pods_of("node-a"), store.pods_of("node-b")) == (b"two\x00", b"b")
    store.fold(1, [], 0, base_id=0)
    assert store.pods_of("node-a") == b"two\x00"
    store.append(replace(new_report(2, node="node-b", received_unix_seconds=1_000_001.0 + day), pods=b"b"))
    store.fold(2, [], 0, base_id=1)
    assert (store.pods_of("node-a"), store.pods_of("node-b")) == (None, b"b")


def test_ids_become_visible_in_order_with_many_writers(store: Store) -> None:
    writers, each = 4, 25
    seen: list[tuple[int, int]] = []
    is_done = threading.Event()

    def follow() -> None:
        last = 0
        while True:
            was_done = is_done.is_set()
            piece = store.tail(last, 7)
            for report in piece:
                seen.append((report.id, whose(report.payload)[2]))
                last = report.id
            if was_done and not piece:
                return

    def write(number: int) -> None:
        for sequence in range(1, each + 1):
            store.append(new_report(sequence, node=f"node-{number}"))

    with ThreadPoolExecutor(writers + 1) as pool:
        follower = pool.submit(follow)
        for written in [pool.submit(write, number) for number in range(writers)]:
            written.result()
        is_done.set()
        follower.result()
    assert len(seen) == writers * each, "a reader that goes on from its last id misses none"


def test_same_report_at_two_replicas_at_once_is_taken_once(store_url: str) -> None:
    replicas = [open_store(store_url) for _ in range(3)]
    for sequence in range(1, 16):
        barrier = threading.Barrier(len(replicas))

        def send(replica: Store, sequence: int = sequence, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            return replica.append(new_report(sequence)).repeated

        with ThreadPoolExecutor(len(replicas)) as pool:
            assert sorted(pool.map(send, replicas)) == [False, True, True]
    assert sequences(replicas[0]) == list(range(1, 16))
    for replica in replicas:
        replica.close()


def test_transactions_of_evictions_have_their_tables_to_themselves(store_url: str) -> None:
    """A budget of five, asked for by eight at three replicas: counted and taken in one transaction each."""
    replicas = [open_store(store_url) for _ in range(3)]
    row = {
        "requested_unix_seconds": 1.0,
        "namespace": "shop",
        "workload_kind": "Deployment",
        "workload_name": "web",
        "pod": "web-1",
        "node": "node-a",
        "reason": "cpu",
        "state": "begun",
        "detail": "",
    }

    def evict(number: int) -> bool:
        with replicas[number % 3].transaction() as connection:
            if len(connection.execute(select(evictions.c.id)).all()) >= 5:
                return False
            connection.execute(insert(evictions), {**row, "pod_uid": f"uid-{number}"})
            return True

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(evict, range(8))) == [False] * 3 + [True] * 5
    with replicas[0].reading() as connection:
        assert len(connection.execute(select(evictions.c.id)).all()) == 5
    for replica in replicas:
        replica.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sequence": 0}, "sequence 0 is not within"),
        ({"sequence": 2**63}, "is not within 1 and"),
        ({"lost_reports": -1}, "lost reports -1"),
        ({"node": ""}, "is no name"),
        ({"incarnation": "a\0b"}, "is no name"),
    ],
)
def test_report_that_no_database_could_keep_is_refused(change: dict[str, object], said: str) -> None:
    values: dict[str, object] = {"sequence": 1, **change}
    with pytest.raises(ValueError, match=said):
        new_report(**values)  # type: ignore[arg-type]


def test_largest_numbers_are_kept(store: Store) -> None:
    store.append(new_report(2**63 - 1, lost_reports=2**63 - 1, received_unix_seconds=HOUR_SECONDS * 1e6))
    assert store.append(new_report(2**63 - 1)).repeated
    assert store.nodes()[0].lost_reports == 2**63 - 1
