"""Heads of hours kept in one row each: a start reads in them what the sketches begin with, whatever happened."""

from __future__ import annotations

import zlib
from random import Random

import pytest
from sqlalchemy import delete, event, update

from agent.core.cluster.workload import Workload
from agent.core.history.workloads.imported import imported_key
from agent.core.history.workloads.sketch_key import SketchKey
from agent.webhook.store import hour_heads
from agent.webhook.store.database.tables import sketch_heads
from agent.webhook.store.shapes import ForgetWish, SketchHeads, StoredSketch
from agent.webhook.store.store import Store
from agent.webhook.workloads.folder import HEADS_AT_ONCE, OPEN_HOURS, Folder, FoldOptions
from agent.webhook.workloads.tailer import Tailer
from tests.webhook.open_store import open_store
from tests.webhook.reports import new_report
from tests.webhook.test_tailing import AT_ONCE, append
from tests.webhook.test_workloads import index_of
from tests.webhook.workload_reports import HOUR, LARGE, NOON, WEB, report, row

LENGTH = 3
SHOP = [Workload(namespace="shop", kind="Deployment", name=name) for name in ("api", "web", "db")]
KEYS = [str(SketchKey(workload, "app", LARGE)) for workload in SHOP]
IMPORTED = str(imported_key(SHOP[0], "app"))


def sketch(key: str, unix_hour: int, payload: bytes = b"12345") -> StoredSketch:
    return StoredSketch(key=key, unix_hour=unix_hour, payload=payload)


def keep_all(store: Store, before_unix_hour: int = 100) -> int:
    """Keep what there is to keep; return of how many hours."""
    count = 0
    while store.keep_heads(0, before_unix_hour, length=LENGTH):
        count += 1
    return count


def kept_hours(store: Store) -> set[int]:
    with store.reading() as connection:
        return set(hour_heads.KeptHeads(connection).hours)


def beginnings(store: Store) -> list[tuple[int, list[str], bytes]]:
    with store.snapshot(0) as snapshot:
        return [(heads.unix_hour, list(heads.keys), heads.joined) for heads in snapshot.beginnings(LENGTH)]


def of_sketches(store: Store) -> list[tuple[int, list[str], bytes]]:
    """The same, from the sketches themselves."""
    by_hour: dict[int, dict[str, bytes]] = {}
    for entry in store.sketches(0):
        by_hour.setdefault(entry.unix_hour, {})[entry.key] = entry.payload[:LENGTH].ljust(LENGTH, b"\0")
    return [
        (hour, sorted(by_hour[hour]), b"".join(by_hour[hour][key] for key in sorted(by_hour[hour])))
        for hour in sorted(by_hour, reverse=True)
    ]


def fold(store: Store, *changed: StoredSketch, drop_before: int = 0) -> None:
    """Fold all of the log, as a leader does that reads what is forgotten before."""
    store.fold(store.last_id(), changed, drop_before, base_id=store.folded_through())


def test_kept_hours_are_read_without_the_sketches(store: Store) -> None:
    fold(store, *(sketch(key, hour, f"{hour}{key}".encode()) for hour in (5, 6, 9) for key in KEYS))
    plain = beginnings(store)
    assert keep_all(store, before_unix_hour=9) == 4  # 7 and 8 too, in which there is nothing
    statements: list[str] = []

    @event.listens_for(store._engine.engine, "before_cursor_execute")
    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    assert beginnings(store) == plain == of_sketches(store)
    read = [statement for statement in statements if "substr" in statement]
    assert len(read) == 1  # that of the open hour


def test_hours_with_the_same_keys_share_them(store: Store) -> None:
    fold(store, *(sketch(key, hour) for hour in (5, 6) for key in KEYS))
    keep_all(store)
    with store.snapshot(0) as snapshot:
        first, second = snapshot.beginnings(LENGTH)
    assert first.keys is second.keys


def test_fold_drops_the_hours_that_it_changes_and_those_that_go(store: Store) -> None:
    fold(store, *(sketch(KEYS[0], hour) for hour in (4, 5, 6, 7)))
    keep_all(store, before_unix_hour=8)
    store.append(new_report(1))
    fold(store, sketch(KEYS[1], 6), drop_before=5)
    assert kept_hours(store) == {5, 7}
    assert beginnings(store) == of_sketches(store)
    assert keep_all(store, before_unix_hour=8) == 1
    assert beginnings(store) == of_sketches(store)


@pytest.mark.parametrize(
    "odd", [sketch("b\nc", 1), sketch("b", 1, b"1"), sketch("b", 1, b"")], ids=["separator", "short", "empty"]
)
def test_odd_sketches_are_kept_as_they_are_read(store: Store, odd: StoredSketch) -> None:
    fold(store, sketch("a", 1), odd, sketch("z", 2))
    plain = beginnings(store)
    assert keep_all(store, before_unix_hour=3) == 2
    assert beginnings(store) == plain


def test_heads_of_another_length_are_read_from_the_sketches(store: Store) -> None:
    fold(store, *(sketch(key, 1) for key in KEYS))
    keep_all(store, before_unix_hour=2)
    with store.snapshot(0) as snapshot:
        (heads,) = snapshot.beginnings(LENGTH + 1)
    assert heads.joined == b"1234" * len(KEYS)


@pytest.mark.parametrize("names", [b"", b"no zlib", zlib.compress(b"no names")])
def test_a_row_that_cannot_be_read_is_read_from_the_sketches(store: Store, names: bytes) -> None:
    fold(store, *(sketch(key, hour) for hour in (1, 2) for key in KEYS))
    keep_all(store, before_unix_hour=3)
    with store.transaction() as connection:
        connection.execute(update(sketch_heads).where(sketch_heads.c.unix_hour == 1).values(names=names))
    assert beginnings(store) == of_sketches(store)


def test_what_is_forgotten_or_imported_drops_all_once_it_is_folded(store: Store) -> None:
    fold(store, *(sketch(key, hour) for hour in (1, 2) for key in KEYS))
    keep_all(store, before_unix_hour=3)
    store.forget(ForgetWish(asked_by="me", workload=SHOP[0]), now_unix_seconds=1.0)
    assert kept_hours(store) == {1, 2}  # who reads them now meets the entry in the log
    fold(store)
    assert kept_hours(store) == set()
    assert beginnings(store) == of_sketches(store)
    keep_all(store, before_unix_hour=3)
    store.take_imported([sketch(IMPORTED, 1)], asked_by="me", now_unix_seconds=1.0)
    fold(store)
    assert kept_hours(store) == set()
    assert beginnings(store) == of_sketches(store)


def test_a_fold_of_an_older_release_makes_all_untrue(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fold(store, *(sketch(KEYS[0], hour) for hour in (1, 2)))
    keep_all(store, before_unix_hour=3)
    store.append(new_report(1))
    with monkeypatch.context() as older:
        older.setattr(hour_heads, "drop", lambda *_args, **_kwargs: None)
        fold(store, sketch(KEYS[1], 1))
    assert kept_hours(store) == set()
    assert beginnings(store) == of_sketches(store)
    store.append(new_report(2))
    fold(store, sketch(KEYS[1], 3))
    assert kept_hours(store) == set()  # a fold that drops what it changes does not make the rest true
    assert store.keep_heads(0, 3, length=LENGTH)
    assert kept_hours(store) == {2}
    assert beginnings(store) == of_sketches(store)


def test_heads_are_not_kept_when_a_fold_comes_between(store: Store) -> None:
    fold(store, sketch(KEYS[0], 1))
    store.append(new_report(1))
    raced: list[bool] = []

    @event.listens_for(store._engine.engine, "before_cursor_execute")
    def race(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "substr" in statement and not raced:
            raced.append(True)
            fold(store, sketch(KEYS[1], 1))

    assert not store.keep_heads(0, 2, length=LENGTH)
    assert kept_hours(store) == set()
    assert store.keep_heads(0, 2, length=LENGTH)
    assert raced
    assert beginnings(store) == of_sketches(store)


@pytest.mark.parametrize("seed", range(6))
def test_beginnings_are_those_of_the_sketches_whenever_all_is_folded(store: Store, seed: int) -> None:
    random, sequence = Random(seed), 0
    hours = range(1, 9)
    for _ in range(120):
        match random.choice(["fold", "fold", "keep", "keep", "keep", "forget", "import", "old fold", "drop"]):
            case "keep":
                store.keep_heads(0, random.choice(hours) + 1, length=LENGTH)
            case "forget":
                wish = ForgetWish(asked_by="me", workload=random.choice(SHOP))
                store.forget(wish, now_unix_seconds=1.0)
            case "import":
                new = sketch(IMPORTED, random.choice(hours), random.randbytes(5))
                store.take_imported([new], asked_by="me", now_unix_seconds=1.0)
            case "drop":
                fold(store, drop_before=random.choice(hours[:4]))
            case how:
                sequence += 1
                store.append(new_report(sequence))
                places = random.sample([(key, hour) for key in KEYS for hour in hours], 2)
                changed = [sketch(key, hour, random.randbytes(5)) for key, hour in places]
                with pytest.MonkeyPatch.context() as older:
                    if how == "old fold":
                        older.setattr(hour_heads, "drop", lambda *_args, **_kwargs: None)
                    fold(store, *changed)
        if store.folded_through() == store.last_id():
            assert beginnings(store) == of_sketches(store)


def test_leader_keeps_the_hours_that_are_over_some_after_each_fold(store: Store) -> None:
    hours = HEADS_AT_ONCE + 5
    for hour in range(hours):
        append(store, report(row(), sequence=hour), NOON + hour * HOUR + 1800)
    now = NOON + hours * HOUR  # of the last report's hour none is to come but late ones
    folder = Folder(store, FoldOptions(log_seconds=0.0))
    assert folder.fold_once(False, now_unix_seconds=now) == 0
    assert kept_hours(store) == set()
    assert folder.fold_once(True, now_unix_seconds=now) == hours
    newest = NOON // HOUR + hours + 1 - OPEN_HOURS
    assert kept_hours(store) == set(range(newest - HEADS_AT_ONCE, newest))
    folder.fold_once(True, now_unix_seconds=now + 1)
    assert len(kept_hours(store)) == HEADS_AT_ONCE  # not before the next fold is due
    folder.fold_once(True, now_unix_seconds=now + 301)
    assert kept_hours(store) == set(range(NOON // HOUR, newest))


def test_a_start_learns_the_same_from_kept_heads(store_url: str) -> None:
    store = open_store(store_url)
    for hour in range(6):
        append(store, report(row(cpu=100.0 + hour), sequence=hour), NOON + hour * HOUR + 900)
    now = NOON + 6 * HOUR
    folder = Folder(store, AT_ONCE)
    folder.fold_once(True, now_unix_seconds=now)
    assert len(kept_hours(store)) == 5
    learnt = []
    for _ in range(2):
        index = index_of()
        Tailer(store, index).advance(now)
        learnt.append(index.merged(WEB))
        with store.transaction() as connection:
            connection.execute(delete(sketch_heads))
    assert learnt[0] is not None
    assert learnt[0] == learnt[1]
    assert len(learnt[0].containers[0].hours) == 6
    store.close()


def test_nothing_is_kept_of_an_empty_store(store: Store) -> None:
    assert not store.keep_heads(0, 100, length=LENGTH)
    with store.transaction() as connection:
        assert not hour_heads.keep(connection, SketchHeads(1, [], b""), base_id=7)
