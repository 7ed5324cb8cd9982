"""The log followed into memory and folded into sketches, with a real store of each kind."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from agent.core.admission.estimate import Estimate
from agent.core.history.reports.rollup import Report
from agent.core.history.workloads.hour_sketch import HourSketch, ReportInterval
from agent.core.history.workloads.node_peaks import node_number
from agent.core.history.workloads.sketch_key import keys_of
from agent.core.orders.policy_options import PolicyName
from agent.webhook.store.entries.forget_entry import Forgetting
from agent.webhook.store.entries.report_payload import encode_report
from agent.webhook.store.entries.sketch_bytes import decode, encode
from agent.webhook.store.shapes import LoggedReport, NewReport, NodeDay, StoreAway, StoredSketch
from agent.webhook.store.store import Store
from agent.webhook.workloads import folder as module_of_folder
from agent.webhook.workloads.folder import Folder, FoldOptions
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.shapes import IndexOptions
from agent.webhook.workloads.tailer import Tailer
from tests.webhook.test_workloads import Policies, answers_of, index_of, reports_at_random
from tests.webhook.workload_reports import DNS, HOUR, MIB, NOON, SMALL, WEB, report, row

DAY = 24 * HOUR
AT_ONCE = FoldOptions(log_seconds=0.0)


def append(store: Store, node_report: Report, received: float, payload: bytes | None = None) -> bool:
    answer = store.append(
        NewReport(
            node=node_report.node,
            incarnation=node_report.incarnation,
            sequence=node_report.sequence + 1,
            lost_reports=node_report.lost_reports,
            received_unix_seconds=received,
            rows=len(node_report.rows),
            payload=encode_report(node_report) if payload is None else payload,
        )
    )
    return not answer.repeated


def replica(store: Store) -> tuple[WorkloadIndex, Tailer]:
    index = WorkloadIndex(IndexOptions(), Policies())
    return index, Tailer(store, index)


def follow(tailer: Tailer, now: float) -> None:
    while tailer.advance(now):
        pass


def sketches_of(store: Store) -> dict[tuple[str, int], bytes]:
    return {(sketch.key, sketch.unix_hour): sketch.payload for sketch in store.sketches(0)}


def test_a_report_in_the_log_is_known_to_every_replica(store: Store) -> None:
    replicas = [replica(store) for _ in range(3)]
    for index, tailer in replicas:
        assert not index.is_loaded
        follow(tailer, NOON)
        assert index.is_loaded
    append(store, report(row(cpu=300.0)), NOON)
    for index, tailer in replicas:
        follow(tailer, NOON + 1)
        answer = index.estimate(
            WEB, "app", policy=PolicyName.CRUISE, node=None, node_class=None, now_unix_seconds=NOON + HOUR
        )
        assert isinstance(answer, Estimate)
        assert answer.cpu_request_millicores == 300
        assert (tailer.position, tailer.taken_reports, tailer.age_seconds(NOON + 5)) == (1, 1, 4.0)


@pytest.mark.parametrize("seed", [1, 2])
def test_replicas_that_began_at_different_times_answer_as_one_that_took_everything(store: Store, seed: int) -> None:
    reports = reports_at_random(seed)
    now = NOON + 10 * DAY
    expected = answers_of(index_of(*reports), now)
    folder = Folder(store, AT_ONCE)
    first, first_tailer = replica(store)
    chance = random.Random(seed)
    for received, node_report in reports:
        append(store, node_report, received)
        assert not append(store, node_report, received)  # a repeat is not there twice
        if chance.random() < 0.3:
            first_tailer.advance(now)
        if chance.random() < 0.1:
            folder.fold_once(True, now_unix_seconds=now)
            folder.fold_once(False, now_unix_seconds=now)  # and is due again at once when it leads again
    follow(first_tailer, now)
    late, late_tailer = replica(store)
    follow(late_tailer, now)
    folder.fold_once(True, now_unix_seconds=now)
    last, last_tailer = replica(store)
    follow(last_tailer, now)
    for index in (first, late, last):
        # Nodes are those that reported since the start or stand in the log.
        assert answers_of(index, now)[:4] == expected[:4]


def test_a_replica_that_missed_what_was_folded_reads_the_sketches_again(store: Store) -> None:
    index, tailer = replica(store)
    append(store, report(row(cpu=100.0, pod="a"), sequence=1), NOON)
    follow(tailer, NOON)
    append(store, report(row(cpu=500.0, pod="b"), sequence=2), NOON + 1)
    append(store, report(row(cpu=200.0, pod="c"), sequence=3), NOON + 2)
    assert Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=NOON + 10) == 3
    append(store, report(row(cpu=50.0, pod="d"), sequence=4), NOON + 20)
    assert tailer.advance(NOON + 20)
    follow(tailer, NOON + 20)
    assert (tailer.loads, tailer.position) == (2, 4)
    merged = index.merged(WEB)
    assert merged is not None
    (history,) = merged.containers[0].classes
    assert history.hours[0].cpu_millicores == 500.0
    assert history.pods == 4
    # 50, 100, 200 and 500: three quarters of them are at most 200, whose bucket ends at 209.
    assert history.cpu_base_millicores is not None
    assert 200 <= history.cpu_base_millicores <= 210


def test_a_database_that_was_put_back_to_an_earlier_state_is_read_again_and_followed_from_there(store: Store) -> None:
    """Its numbers begin again behind those that were read: whoever waits for later ones learns nothing for a day."""
    index, tailer = replica(store)
    for sequence in range(1, 8):
        append(store, report(row(cpu=100.0 * sequence, pod="a"), sequence=sequence), NOON + sequence)
    follow(tailer, NOON + 10)
    tailer.offer(4, report(row(cpu=5000.0, pod="a")))  # logged here, and lost before it was followed
    with store._engine.writing() as connection:
        connection.execute(text("DELETE FROM reports WHERE id > 3"))
        connection.execute(text("UPDATE counters SET value = 3 WHERE name = 'last_id'"))
    append(store, report(row(cpu=900.0, pod="a"), sequence=8), NOON + 20)
    follow(tailer, NOON + 30)
    assert (tailer.loads, tailer.position) == (2, 4)
    answer = index.estimate(
        WEB, "app", policy=PolicyName.CRUISE, node=None, node_class=None, now_unix_seconds=NOON + HOUR
    )
    assert isinstance(answer, Estimate)
    assert answer.cpu_request_millicores == 900
    assert not tailer.advance(NOON + 31), "and is not read a third time"
    assert tailer.loads == 2


def test_what_a_database_that_was_put_back_lacks_is_still_known(store: Store) -> None:
    index, tailer = replica(store)
    append(store, report(row(cpu=700.0)), NOON)
    follow(tailer, NOON)
    with store._engine.writing() as connection:
        connection.execute(text("DELETE FROM reports"))
        connection.execute(text("UPDATE counters SET value = 0 WHERE name = 'last_id'"))
    follow(tailer, NOON + 1)
    assert (tailer.loads, tailer.position) == (2, 0)
    answer = index.estimate(
        WEB, "app", policy=PolicyName.CRUISE, node=None, node_class=None, now_unix_seconds=NOON + HOUR
    )
    assert isinstance(answer, Estimate)
    assert answer.cpu_request_millicores == 700


class Killed(Exception):  # noqa: N818
    """Stands for the end of the process."""


class Dying:
    """A store whose leader dies at one of the steps of a fold, before it is carried out."""

    def __init__(self, store: Store, step: str, *, after: bool = False) -> None:
        self._store, self._step, self._after = store, step, after

    def _may_die(self, step: str) -> None:
        if step == self._step:
            raise Killed

    def tail(self, after_id: int, limit: int) -> list[LoggedReport]:
        self._may_die("tail")
        return self._store.tail(after_id, limit)

    def folded_through(self) -> int:
        self._may_die("folded_through")
        return self._store.folded_through()

    def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterable[StoredSketch]:
        self._may_die("sketches_of")
        return self._store.sketches_of(keys, unix_hours)

    def forgettings(self, after_id: int) -> list[Forgetting]:
        self._may_die("forgettings")
        return self._store.forgettings(after_id)

    def node_days(self, unix_days: set[int], nodes: set[str]) -> list[NodeDay]:
        self._may_die("node_days")
        return self._store.node_days(unix_days, nodes)

    def keep_heads(self, since: int, before: int, *, length: int) -> bool:
        self._may_die("keep_heads")
        return self._store.keep_heads(since, before, length=length)

    def fold(self, through_id: int, changed: Iterable[StoredSketch], before: int, **more: Any) -> None:
        def half() -> Iterable[StoredSketch]:
            yield from list(changed)[:1]
            raise Killed

        if self._step == "fold" and not self._after:
            self._store.fold(through_id, half(), before, **more)
        self._store.fold(through_id, changed, before, **more)
        if self._after:
            raise Killed


STEPS = ("folded_through", "forgettings", "tail", "sketches_of", "node_days", "fold", "after", "keep_heads")


@pytest.mark.parametrize("step", STEPS)
def test_a_leader_killed_at_any_step_has_folded_or_not(store: Store, step: str) -> None:
    reports = reports_at_random(7)[:60]
    now = NOON + 10 * DAY
    for received, node_report in reports[:30]:
        append(store, node_report, received)
    Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=now)
    for received, node_report in reports[30:]:
        append(store, node_report, received)
    dying = Dying(store, step, after=step == "after")
    with pytest.raises(Killed):
        Folder(dying, AT_ONCE).fold_once(True, now_unix_seconds=now)  # type: ignore[arg-type]
    index, tailer = replica(store)
    follow(tailer, now)
    expected = answers_of(index_of(*reports), now)
    assert answers_of(index, now)[:4] == expected[:4]
    assert Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=now) == (
        0 if step in ("after", "keep_heads") else 30
    )
    again, tailer = replica(store)
    follow(tailer, now)
    assert answers_of(again, now)[:4] == expected[:4]
    assert store.tail(60, 10) == []


def test_sketches_do_not_depend_on_how_the_log_was_cut_into_folds(store: Store) -> None:
    reports = reports_at_random(3)
    now = NOON + 10 * DAY
    for received, node_report in reports:
        append(store, node_report, received)
    folder = Folder(store, AT_ONCE)
    assert folder.fold_once(True, now_unix_seconds=now) == len(reports)
    whole = sketches_of(store)
    for received, node_report in reports:  # the same again, as reports of their own, one fold each or a few
        append(store, one_more(node_report), received)
        if random.Random(received).random() < 0.2:
            folder.fold_once(False, now_unix_seconds=now)
            folder.fold_once(True, now_unix_seconds=now)
    folder.fold_once(False, now_unix_seconds=now)
    folder.fold_once(True, now_unix_seconds=now)
    twice = sketches_of(store)
    assert twice.keys() == whole.keys()
    for (key, hour), payload in whole.items():
        once = decode(payload, hour)
        both = decode(payload, hour)
        both.merge(once)
        assert decode(twice[key, hour], hour) == both, key


def one_more(original: Report) -> Report:
    return report(*original.rows, node=original.node, node_class=original.node_class, sequence=original.sequence + 1000)


def test_only_the_leader_folds_and_only_when_it_is_time(store: Store) -> None:
    folder = Folder(store, FoldOptions(fold_interval_seconds=300.0, log_seconds=60.0))
    append(store, report(row(), sequence=1), NOON)
    assert folder.fold_once(False, now_unix_seconds=NOON + 100) == 0
    assert folder.fold_once(True, now_unix_seconds=NOON + 59) == 0  # followers are to find it in the log
    assert folder.fold_once(True, now_unix_seconds=NOON + 100) == 0  # folded a moment ago, as far as it knows
    assert folder.fold_once(True, now_unix_seconds=NOON + 359) == 1
    append(store, report(row(), sequence=2), NOON + 360)
    assert folder.fold_once(True, now_unix_seconds=NOON + 500) == 0
    assert folder.fold_once(True, now_unix_seconds=NOON + 100) == 0  # the clock was set back: not for ever
    assert folder.fold_once(True, now_unix_seconds=NOON + 430) == 1
    assert folder.folded_reports == 2


def test_a_report_taken_by_a_clock_that_was_wrong_does_not_hold_up_the_others(store: Store) -> None:
    folder = Folder(store, FoldOptions(log_seconds=60.0))
    append(store, report(row(), sequence=1), NOON)
    append(store, report(row(), sequence=2), NOON + 400 * DAY)
    append(store, report(row(), sequence=3), NOON + 1)
    append(store, report(row(), sequence=4), NOON + 120)  # another replica's clock is a little ahead
    assert folder.fold_once(True, now_unix_seconds=NOON + 100) == 3
    assert [entry.id for entry in store.tail(3, 10)] == [4]


def test_a_report_of_the_future_counts_now_and_takes_no_hour_to_come(store: Store) -> None:
    append(store, report(row(cpu=100.0), sequence=1), NOON - 8 * HOUR)
    append(store, report(row(cpu=300.0), sequence=2), NOON + 200 * HOUR)
    index, tailer = replica(store)
    follow(tailer, NOON)
    merged = index.merged(WEB)
    assert merged is not None
    assert merged.last_unix_seconds <= NOON
    hours = [peak.hour_unix_seconds for peak in merged.containers[0].hours]
    assert hours == [NOON - 9 * HOUR, NOON - HOUR], "and the past one is not forgotten for it"
    assert Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=NOON) == 2
    assert sorted({hour * HOUR for _, hour in sketches_of(store)}) == hours


def test_of_two_leaders_the_later_one_folds_nothing_twice(store: Store) -> None:
    for sequence in range(1, 6):
        append(store, report(row(cpu=float(sequence)), sequence=sequence), NOON + sequence)

    class Slow(Dying):
        def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterable[StoredSketch]:
            assert Folder(self._store, AT_ONCE).fold_once(True, now_unix_seconds=NOON + 60) == 5
            return self._store.sketches_of(keys, unix_hours)

    assert Folder(Slow(store, "none"), AT_ONCE).fold_once(True, now_unix_seconds=NOON + 60) == 0  # type: ignore[arg-type]
    ((_, hour), payload), *_ = sketches_of(store).items()
    assert decode(payload, hour).rows == 5


def test_old_sketches_go_with_the_fold(store: Store) -> None:
    folder = Folder(store, AT_ONCE)
    append(store, report(row(), sequence=1), NOON)
    folder.fold_once(True, now_unix_seconds=NOON)
    assert len(sketches_of(store)) == 1
    append(store, report(row(), sequence=2), NOON + 15 * DAY)
    append(store, report(row(), sequence=3, age=14.5 * DAY), NOON + 15 * DAY)
    folder.fold_once(True, now_unix_seconds=NOON + 15 * DAY)
    assert [hour for _, hour in sketches_of(store)] == [(NOON + 15 * DAY) // HOUR - 1]


def test_a_report_that_this_replica_took_is_not_decoded_again(store: Store) -> None:
    index, tailer = replica(store)
    node_report = report(row(cpu=300.0))
    append(store, node_report, NOON, payload=b"nobody reads this")
    tailer.offer(1, node_report)
    follow(tailer, NOON + 1)
    assert (tailer.position, tailer.taken_reports, tailer.bad_reports) == (1, 1, 0)
    assert index.size().workloads == 1


def test_a_report_that_cannot_be_read_is_counted_and_stops_nobody(store: Store) -> None:
    append(store, report(row(), sequence=1), NOON, payload=b"nonsense")
    append(store, report(row(cpu=70.0), sequence=2), NOON + 1)
    _, tailer = replica(store)
    follow(tailer, NOON + 2)
    assert (tailer.bad_reports, tailer.taken_reports, tailer.position) == (1, 1, 2)
    folder = Folder(store, AT_ONCE)
    assert folder.fold_once(True, now_unix_seconds=NOON + 3) == 2
    assert folder.bad_reports == 1


@pytest.mark.parametrize("cut", [0, 5, 40])
def test_a_sketch_that_cannot_be_read_is_counted_and_begun_anew(store: Store, cut: int) -> None:
    append(store, report(row(cpu=70.0, kills=[(1.0, MIB)]), sequence=1), NOON)
    folder = Folder(store, AT_ONCE)
    folder.fold_once(True, now_unix_seconds=NOON)
    (((key, hour), payload),) = sketches_of(store).items()
    store.fold(1, [StoredSketch(key=key, unix_hour=hour, payload=payload[:cut])], 0, base_id=1)
    index, tailer = replica(store)
    follow(tailer, NOON)
    assert tailer.bad_sketches == 1
    assert index.is_loaded
    append(store, report(row(cpu=80.0), sequence=2), NOON + 1)
    folder.fold_once(False, now_unix_seconds=NOON + 6)
    assert folder.fold_once(True, now_unix_seconds=NOON + 6) == 1
    assert folder.bad_sketches == 1
    assert decode(sketches_of(store)[key, hour], hour).rows == 1


def one_sketch(hour: int, **fields: Any) -> bytes:
    sketch = HourSketch()
    interval = ReportInterval(start_unix_seconds=hour * HOUR, end_unix_seconds=hour * HOUR + 300, unix_hour=hour)
    sketch.add(row(**fields), interval, 1)
    return encode(sketch, hour)


def load(index: WorkloadIndex, store: Store, on_piece: Iterator[None] | None = None) -> int:
    with store.snapshot(0) as snapshot:
        return index.load(snapshot, on_piece=on_piece)


def test_thousands_of_sketches_are_loaded_in_pieces_with_pauses_between(store: Store) -> None:
    hour = NOON // HOUR
    payload = one_sketch(hour, cpu=70.0)
    keys = [f"shop/Deployment/web-{number}/app/c/2/m5.large" for number in range(9000)]
    store.fold(0, [StoredSketch(key=key, unix_hour=hour, payload=payload) for key in keys], 0, base_id=0)
    index = WorkloadIndex(IndexOptions(max_rows=600), Policies())
    pauses = iter([None] * 100)
    assert load(index, store, pauses) == 0
    # After each 8,192 heads and the rest of them, and after each 256 whole ones of the 600 for which there is room.
    assert len(list(pauses)) == 100 - 2 - 2
    index.loaded()
    assert (index.size().workloads, index.size().rows) == (9000, 600)
    known = [
        merged for line in index.workloads() if (merged := index.merged(line.workload)) and merged.containers[0].classes
    ]
    assert {history.containers[0].hours[0].cpu_millicores for history in known} == {70.0}
    assert len(known) == 600


def test_of_a_row_the_newest_hour_is_read_whole_and_all_hours_with_kills(store: Store) -> None:
    hour = NOON // HOUR
    kills_by_hour = {hour - 3: [(0.0, 300)], hour - 2: [], hour - 1: [(0.0, 200)], hour: []}
    key = "shop/Deployment/web/app/c/2/m5.large"
    store.fold(
        0,
        [
            StoredSketch(key=key, unix_hour=at, payload=one_sketch(at, cpu=float(hour - at + 1), kills=kills))
            for at, kills in kills_by_hour.items()
        ],
        0,
        base_id=0,
    )
    index = WorkloadIndex(IndexOptions(), Policies())
    assert load(index, store) == 0
    merged = index.merged(WEB)
    assert merged is not None
    (history,) = merged.containers[0].classes
    assert [kills.largest_bytes for kills in history.kills] == [300, 200]
    assert (history.cpu_base_millicores, history.pods) == (1, 1)
    assert [peak.cpu_millicores for peak in history.hours] == [4.0, 3.0, 2.0, 1.0]


def test_a_load_that_broke_off_leaves_nothing_for_the_next(store: Store) -> None:
    hour = NOON // HOUR
    key = "shop/Deployment/web/app/c/2/m5.large"
    store.fold(0, [StoredSketch(key=key, unix_hour=hour, payload=one_sketch(hour, cpu=70.0))], 0, base_id=0)
    index = WorkloadIndex(IndexOptions(), Policies())

    def breaks() -> Iterator[None]:
        for _ in ():
            yield
        raise StoreAway("gone in the middle")

    with pytest.raises(StoreAway):
        load(index, store, breaks())
    store.fold(0, [], hour + 1, base_id=0)
    assert load(index, store) == 0


def test_old_runs_of_jobs_are_not_loaded_and_leave_room_for_the_others(store: Store) -> None:
    hour = NOON // HOUR
    payload = one_sketch(hour, cpu=70.0)
    index = WorkloadIndex(IndexOptions(max_rows=5), Policies())
    keys = [f"shop/Job/backup-{number}/app/c/2" for number in range(50)] + ["shop/Deployment/web/app/c/2"]
    store.fold(0, [StoredSketch(key=key, unix_hour=hour, payload=payload) for key in keys], 0, base_id=0)
    assert load(index, store) == 0
    assert [line.workload for line in index.workloads()] == [WEB]
    assert index.size().rows == 1


class Away(Store):
    """A store that may be away."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_away = False

    def tail(self, after_id: int, limit: int) -> list[LoggedReport]:
        if self.is_away:
            raise StoreAway("database away")
        return self.store.tail(after_id, limit)

    def snapshot(self, since_unix_hour: int) -> Any:
        if self.is_away:
            raise StoreAway("database away")
        return self.store.snapshot(since_unix_hour)

    def forgettings(self, after_id: int) -> list[Forgetting]:
        return self.store.forgettings(after_id)


def test_with_the_store_away_memory_answers_and_tells_its_age(store: Store) -> None:
    away = Away(store)
    index = WorkloadIndex(IndexOptions(), Policies())
    tailer = Tailer(away, index)
    away.is_away = True
    assert not tailer.advance(NOON)
    assert tailer.age_seconds(NOON) is None
    assert (tailer.is_away, index.is_loaded) == (True, False)
    away.is_away = False
    append(store, report(row(memory=70.0 * MIB)), NOON)
    follow(tailer, NOON)
    assert not tailer.is_away
    away.is_away = True
    assert not tailer.advance(NOON + 600)
    assert (tailer.is_away, tailer.age_seconds(NOON + 600)) == (True, 600.0)
    answer = index.estimate(
        WEB, "app", policy=PolicyName.CRUISE, node=None, node_class=SMALL, now_unix_seconds=NOON + HOUR
    )
    assert isinstance(answer, Estimate)
    assert answer.memory_request_bytes == 70 * MIB


def test_what_is_gone_for_long_is_forgotten_while_following(store: Store) -> None:
    index, tailer = replica(store)
    append(store, report(row()), NOON)
    follow(tailer, NOON)
    assert len(index.workloads()) == 1
    tailer.advance(NOON + 15 * DAY)
    assert index.workloads() == ()


def test_pauses_are_made_between_reports_and_sketches(store: Store) -> None:
    pauses: list[None] = []
    for sequence in range(1, 4):
        append(store, report(row(), sequence=sequence), NOON + sequence)
    Tailer(store, index_of(), pause=lambda: pauses.append(None)).advance(NOON)
    assert len(pauses) == 3
    Folder(store, AT_ONCE, pause=lambda: pauses.append(None)).fold_once(True, now_unix_seconds=NOON + 5)
    assert len(pauses) == 5  # after the piece of reports, and after the piece of sketches


def plainly_folded(reports: Iterable[tuple[float, Report]]) -> dict[tuple[str, int], bytes]:
    plain: dict[tuple[str, int], HourSketch] = defaultdict(HourSketch)
    for received, node_report in reports:
        interval = ReportInterval.of(
            received_unix_seconds=received,
            end_age_seconds=node_report.end_age_seconds,
            interval_seconds=node_report.interval_seconds,
        )
        for rollup in node_report.rows:
            for key in keys_of(rollup.workload, rollup.container, node_report.node, node_report.node_class):
                plain[str(key), interval.unix_hour].add(rollup, interval, node_number(node_report.node))
    return {(key, hour): encode(sketch, hour) for (key, hour), sketch in plain.items()}


@pytest.mark.parametrize("seed", [1, 2])
def test_folded_sketches_are_to_the_byte_those_of_rows_added_one_by_one(store: Store, seed: int) -> None:
    huge = replace(row(WEB, memory=1e19, pod="huge"), memory_request_bytes=1 << 60)
    reports = [
        *reports_at_random(seed),
        (NOON, report(huge, row(kills=[(1.0, MIB)]), row(DNS), row(DNS, kills=[(2.0, None)]), node="z", sequence=1)),
        *((NOON + pod, report(row(pod=f"pod-{pod}"), row(DNS), node=f"n-{pod}")) for pod in range(20)),
    ]
    now = NOON + 10 * DAY
    folder = Folder(store, AT_ONCE)
    for place, (received, node_report) in enumerate(reports):
        append(store, node_report, received)
        if place % 50 == 20:
            folder.fold_once(False, now_unix_seconds=now)
            folder.fold_once(True, now_unix_seconds=now)
    folder.fold_once(False, now_unix_seconds=now)
    folder.fold_once(True, now_unix_seconds=now)
    assert folder.folded_reports == len(reports)
    assert sketches_of(store) == plainly_folded(reports)


def test_a_fold_of_many_reports_is_cut_and_loses_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [(NOON + n, report(*(row(container=f"c{n}-{at}") for at in range(3)), node=f"n-{n}")) for n in range(40)]
    for received, node_report in reports:
        append(store, node_report, received)
    monkeypatch.setattr(module_of_folder, "MAX_SKETCHES", 50)
    monkeypatch.setattr(module_of_folder, "ENCODED_AT_ONCE", 7)
    assert Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=NOON + 60) == 40
    assert sketches_of(store) == plainly_folded(reports)


def test_an_unsound_report_is_left_out_of_a_fold_whole(store: Store) -> None:
    unsound = replace(row(cpu=500.0), covered_seconds=-1.0)
    append(store, report(row(cpu=400.0), unsound, sequence=1), NOON)
    good = report(row(cpu=70.0), sequence=2)
    append(store, good, NOON + 1)
    folder = Folder(store, AT_ONCE)
    assert folder.fold_once(True, now_unix_seconds=NOON + 3) == 2
    assert folder.bad_reports == 1
    assert sketches_of(store) == plainly_folded([(NOON + 1, good)])
