"""The ledger of workloads: put down by the hour from the sketches, once however often; by day; on both databases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import delete, event

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import RollupRow
from agent.core.history.workloads.usage_ledger import (
    DAILY_DAYS,
    HOURLY_DAYS,
    LedgerAmounts,
    LedgerContainer,
    LedgerHour,
)
from agent.webhook.store.database.tables import sketches
from agent.webhook.store.entries.report_payload import encode_report
from agent.webhook.store.records import usage_ledger as stored
from agent.webhook.store.records.usage_ledger import LedgerMargins
from agent.webhook.store.shapes import ForgetWish, NewReport, StoreAway
from agent.webhook.store.store import Store
from agent.webhook.workloads.folder import Folder, FoldOptions
from agent.webhook.workloads.usage_ledger import AGAIN_HOURS, OVER_SECONDS, LedgerParts, UsageLedger
from tests.webhook.workload_reports import DNS, LARGE, MIB, NOON, WEB, report, row

HOUR = NOON // 3600
DAY = HOUR // 24
API = replace(WEB, name="api")
OVER = NOON + 3600 + OVER_SECONDS
"""When the hour of noon is over."""


class World:
    """A leader: reports come in, are folded, and the ledger is put down."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.advice = {"app": LedgerContainer(cpu_millicores=150, memory_bytes=80 * MIB)}
        self.sequence: dict[str, int] = {}
        self.begin()

    def begin(self) -> None:
        """Another replica leads."""
        self.ledger = UsageLedger(
            LedgerParts(store=self.store, written=self.written, recommended=lambda _, names: self.recommended(names))
        )
        self.folder = Folder(self.store, FoldOptions(log_seconds=0), folded=self.ledger.folded)

    def written(self, workload: Workload) -> Mapping[str, LedgerContainer]:
        return {"app": LedgerContainer(cpu_millicores=500, memory_bytes=256 * MIB)}

    def recommended(self, names: Collection[str]) -> Mapping[str, LedgerContainer]:
        return {name: self.advice[name] for name in names if name in self.advice}

    def take(self, *rows: RollupRow, at: float = NOON + 300, node: str = "node-a", **more: Any) -> None:
        self.sequence[node] = sequence = self.sequence.get(node, 0) + 1
        node_report = report(*rows, node=node, sequence=sequence, **more)
        self.store.append(
            NewReport(
                node=node,
                incarnation=node_report.incarnation,
                sequence=sequence,
                lost_reports=0,
                received_unix_seconds=at,
                rows=len(rows),
                payload=encode_report(node_report),
            )
        )

    def fold(self, now: float) -> None:
        self.folder = Folder(self.store, FoldOptions(log_seconds=0), folded=self.ledger.folded)
        self.folder.fold_once(True, now_unix_seconds=now)

    def turn(self, now: float = OVER) -> None:
        self.fold(now)
        while self.ledger.turn(True, now_unix_seconds=now):
            pass

    def rows(self, workload: Workload = WEB) -> list[LedgerHour]:
        return self.store.ledger_of(workload, range(HOUR - 48, HOUR + 48))


@pytest.fixture
def world(store: Store) -> World:
    return World(store)


def told(workload: Workload = WEB, *, request: int | None = 200, **more: Any) -> RollupRow:
    return replace(row(workload, **more), cpu_request_millicores=request, memory_request_bytes=64 * MIB)


@contextmanager
def writes(store: Store, table: str) -> Iterator[list[tuple[str, int]]]:
    """Collect what is written to a table: each statement's verb and number of rows, where there are any."""
    counts: list[tuple[str, int]] = []

    def count(_: object, cursor: Any, statement: str, *__: object) -> None:
        verb, *words = statement.split(maxsplit=3)
        if (verb, *words[:2]) in {("DELETE", "FROM", table), ("INSERT", "INTO", table)} and cursor.rowcount:
            counts.append((verb, cursor.rowcount))

    event.listen(store._engine.engine, "after_cursor_execute", count)
    yield counts
    event.remove(store._engine.engine, "after_cursor_execute", count)


def test_hour_is_put_down_when_it_is_over_and_not_before(world: World) -> None:
    world.take(told())
    world.turn(NOON + 3600 + OVER_SECONDS - 1)
    assert world.rows() == []
    world.turn()
    (hour,) = world.rows()
    # 300 s are a twelfth of the hour: 500m written are 42m, 200m requested 17m, 150m advised 12m, 100m used 8m.
    assert (hour.unix_hour, hour.pods_milli) == (HOUR, 83)
    assert (hour.cpu.written, hour.cpu.requested, hour.cpu.recommended, hour.cpu.used) == (42, 17, 12, 8)
    assert world.store.ledger_through() == HOUR


def test_looking_again_changes_nothing(world: World) -> None:
    world.take(told())
    world.turn()
    before = world.rows()
    world.begin()
    world.turn()
    world.ledger.folded(HOUR, [f"{WEB.namespace}/{WEB.kind}/{WEB.name}/app/c/2/m5.large"])
    world.turn()
    assert world.rows() == before


def test_of_an_hour_looked_at_again_the_rows_that_differ_are_written_alone(world: World) -> None:
    world.take(told(), told(API))
    world.turn()
    with_both = world.store.ledger_at(HOUR)
    world.begin()
    with writes(world.store, "ledger_hours") as counts:
        world.turn()
    assert counts == []
    world.take(told(API), node="node-b", at=OVER, age=OVER - NOON - 600)
    world.fold(OVER + 60)
    world.begin()
    with writes(world.store, "ledger_hours") as late_counts:
        world.turn(OVER + 60)
    assert late_counts == [("DELETE", 1), ("INSERT", 1)]
    assert world.rows() == [hour for hour in with_both if hour.workload == WEB]
    assert [hour.cpu.requested for hour in world.rows(API)] == [33]


def test_a_row_without_sketches_goes_from_its_hour_and_day(world: World) -> None:
    world.take(told(), told(API))
    world.turn()
    with world.store.transaction() as connection:
        connection.execute(delete(sketches).where(sketches.c.key.contains(f"/{API.name}/")))
    world.ledger.folded(HOUR, [f"{API.namespace}/{API.kind}/{API.name}/app/c/2/m5.large"])
    with writes(world.store, "ledger_hours") as counts:
        world.turn()
    assert counts == [("DELETE", 1)]
    assert [hour.workload for hour in world.store.ledger_at(HOUR)] == [WEB]
    (total,) = world.store.ledger_sums_by_day(range(DAY, DAY + 1)).values()
    assert total.workloads == 1


def test_a_day_is_added_up_again_where_an_hour_of_it_changed(world: World) -> None:
    world.take(told())
    world.turn()
    key = f"{WEB.namespace}/{WEB.kind}/{WEB.name}/app/c/2/m5.large"
    world.ledger.folded(HOUR, [key])
    with writes(world.store, "ledger_days") as counts:
        world.turn()
    assert counts == []
    world.take(told(), node="node-b", at=OVER, age=OVER - NOON - 600)
    with writes(world.store, "ledger_days") as late_counts:
        world.turn(OVER + 60)
    assert late_counts == [("DELETE", 1), ("INSERT", 1)]


def test_report_that_comes_late_is_added_and_counts_once(world: World) -> None:
    world.take(told())
    world.turn()
    world.take(told(), node="node-b", at=OVER, age=OVER - NOON - 600)
    world.turn(OVER + 60)
    (hour,) = world.rows()
    assert (hour.pods_milli, hour.cpu.requested) == (167, 33)
    (total,) = world.store.ledger_sums(HOUR).values()
    assert total.cpu.requested == 33


@pytest.mark.parametrize("is_whole", [False, True], ids=["some workloads", "a whole hour"])
def test_a_late_report_is_not_lost_where_the_database_goes_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    world.take(told())
    world.turn()
    world.take(told(), node="node-b", at=OVER, age=OVER - NOON - 600)
    if is_whole:
        monkeypatch.setattr("agent.webhook.workloads.usage_ledger.MOST_LATE", 0)

    def away(*_: object, **__: object) -> None:
        raise StoreAway("database away")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "write_ledger_hour", away)
        with pytest.raises(StoreAway):
            world.turn(OVER + 60)
    world.turn(OVER + 90)
    (hour,) = world.rows()
    assert hour.cpu.requested == 33


def test_a_late_report_that_was_folded_under_another_leader_is_put_down(world: World) -> None:
    world.take(told())
    world.turn()
    world.take(told(), node="node-b", at=OVER, age=OVER - NOON - 600)
    world.fold(OVER + 60)
    world.begin()
    world.advice["app"] = LedgerContainer(cpu_millicores=9000, memory_bytes=MIB)
    world.turn(OVER + 90)
    (hour,) = world.rows()
    assert (hour.pods_milli, hour.cpu.requested, hour.cpu.recommended) == (167, 33, 12)
    (total,) = world.store.ledger_sums_by_day(range(DAY, DAY + 1)).values()
    assert total.cpu.requested == 33


def test_who_begins_to_lead_looks_some_hours_back_and_no_further(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.take(told())
    now = OVER + 30 * 3600
    world.turn(now)
    world.begin()
    write = world.store.write_ledger_hour
    hours: list[int] = []

    def noted(unix_hour: int, rows: Sequence[LedgerHour], gone: Iterable[Workload]) -> bool:
        hours.append(unix_hour)
        return write(unix_hour, rows, gone)

    monkeypatch.setattr(world.store, "write_ledger_hour", noted)
    world.turn(now)
    world.turn(now)
    assert hours == [*range(HOUR + 31 - AGAIN_HOURS, HOUR + 31)]


@pytest.mark.parametrize("hours_ahead", [2, 720])
def test_a_mark_of_a_leader_whose_clock_was_ahead_is_not_believed(world: World, hours_ahead: int) -> None:
    world.take(told())
    world.fold(NOON + 600)
    while world.ledger.turn(True, now_unix_seconds=NOON + 600 + hours_ahead * 3600):
        pass
    world.begin()
    world.take(told(API), at=NOON + 900)
    world.fold(NOON + 1200)  # and its replica ends
    world.begin()
    world.turn(OVER - 1)
    assert (world.store.ledger_through(), world.rows(API)) == (HOUR - 1, [])
    world.turn()
    assert world.store.ledger_through() == HOUR
    assert [hour.cpu.requested for hour in (*world.rows(), *world.rows(API))] == [17, 17]
    (total,) = world.store.ledger_sums_by_day(range(DAY, DAY + 1)).values()
    assert (total.hours, total.workloads, total.cpu.requested) == (1, 2, 34)


def test_hours_that_a_leader_whose_clock_is_behind_did_not_believe_count_once(world: World) -> None:
    world.take(told())
    world.turn()
    world.take(told(), at=NOON + 3900)
    world.turn(OVER + 3600)
    before = world.rows()
    world.advice["app"] = LedgerContainer(cpu_millicores=9000, memory_bytes=MIB)
    for now in (OVER - 20 * 86_400, OVER + 3600):
        world.begin()
        while world.ledger.turn(True, now_unix_seconds=now):
            pass
    assert world.rows() == before
    assert world.store.ledger_through() == HOUR + 1
    (total,) = world.store.ledger_sums_by_day(range(DAY, DAY + 1)).values()
    assert (total.hours, total.cpu.requested) == (2, 34)


def test_a_mark_that_another_leader_moved_meanwhile_stays(store: Store) -> None:
    store.note_ledger_through(HOUR, before=0)
    store.note_ledger_through(HOUR - 1, before=HOUR - 2)
    assert store.ledger_through() == HOUR


@pytest.mark.parametrize(
    ("method", "is_late"),
    [
        ("write_ledger_hour", False),
        ("note_ledger_through", False),
        ("write_ledger_day", False),
        ("write_ledger_hour", True),
        ("write_ledger_day", True),
    ],
)
def test_a_day_is_added_up_where_a_commits_answer_was_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, method: str, is_late: bool
) -> None:
    world.take(told())
    world.turn(OVER if is_late else OVER - 3600)
    world.take(told(), node="node-b", at=OVER, age=OVER - NOON - 600)
    committed = getattr(world.store, method)

    def lost(*given: object, **named: object) -> None:
        committed(*given, **named)
        raise StoreAway("the answer to COMMIT was lost")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, method, lost)
        with pytest.raises(StoreAway):
            world.turn()
    world.turn()
    (total,) = world.store.ledger_sums_by_day(range(DAY, DAY + 1)).values()
    assert (total.hours, total.cpu.requested) == (1, 33)


def test_what_was_recommended_then_stays(world: World) -> None:
    world.take(told())
    world.turn()
    world.advice["app"] = LedgerContainer(cpu_millicores=9000, memory_bytes=MIB)
    world.take(told(), node="node-b", at=OVER, age=OVER - NOON - 600)
    world.turn(OVER + 60)
    (hour,) = world.rows()
    assert hour.cpu.recommended == 12
    assert hour.cpu.requested == 33


def test_hours_long_over_have_no_advice(world: World) -> None:
    world.take(told())
    world.turn(OVER + 5 * 3600)
    (hour,) = world.rows()
    assert hour.cpu.recommended is None
    assert hour.cpu.used == 8
    assert world.store.ledger_through() == HOUR + 5


def test_daemon_set_counts_once_though_it_is_kept_by_node_too(world: World) -> None:
    world.take(told(DNS))
    world.take(told(DNS), node="node-b", node_class=LARGE)
    world.turn()
    (hour,) = world.rows(DNS)
    assert hour.pods_milli == 167


def test_containers_without_advice_leave_the_sum_unknown(world: World) -> None:
    world.take(told(), told(container="proxy"))
    world.turn()
    (hour,) = world.rows()
    assert (hour.cpu.recommended, hour.cpu.written) == (None, None)
    (total,) = world.store.ledger_sums(HOUR).values()
    assert (total.workloads, total.without_recommended, total.without_requested) == (1, 1, 0)


def test_only_the_leader_writes(world: World) -> None:
    world.take(told())
    world.folder.fold_once(True, now_unix_seconds=OVER)
    assert world.ledger.turn(False, now_unix_seconds=OVER) is False
    assert world.rows() == []


def test_day_is_the_sum_of_its_hours_and_margins_are_not_netted(world: World) -> None:
    # At noon 200m are requested and 150m recommended, an hour later 200m and 300m: 4m too much, 13m too little.
    world.take(told())
    world.turn()
    world.advice["app"] = LedgerContainer(cpu_millicores=300, memory_bytes=80 * MIB)
    world.take(told(), at=NOON + 3900)
    world.turn(OVER + 3600)
    ((place, total),) = world.store.ledger_sums_by_day(range(DAY - 1, DAY + 2)).items()
    assert place == ("shop", DAY)
    assert (total.hours, total.workloads) == (2, 1)
    assert (total.cpu.requested, total.cpu.recommended, total.cpu.written) == (34, 37, 84)
    assert total.cpu_margins == LedgerMargins(freed=50, possible=5, needed=8)


def test_days_before_yesterday_are_added_up_by_who_put_their_hours_down_and_led_no_longer(world: World) -> None:
    for day in range(3):
        world.take(told(), at=NOON + 300 + day * 86_400)
    now = OVER + 3 * 86_400
    world.folder.fold_once(True, now_unix_seconds=now)
    while world.store.ledger_through() < (DAY + 2) * 24:
        assert world.ledger.turn(True, now_unix_seconds=now)
    world.begin()
    world.turn(now)
    sums = world.store.ledger_sums_by_day(range(DAY, DAY + 4))
    assert [(day, total.hours) for (_, day), total in sorted(sums.items())] == [(DAY, 1), (DAY + 1, 1), (DAY + 2, 1)]


def test_a_day_that_a_late_hour_changed_is_added_up_by_who_leads_after_an_outage(world: World) -> None:
    midnight = (DAY + 1) * 86_400.0
    world.take(told(), at=midnight - 3000)
    now = midnight + 3 * 3600 + OVER_SECONDS
    world.turn(now)
    world.take(told(), node="node-b", at=now, age=now - midnight + 2700)
    world.fold(now + 60)
    assert world.ledger.turn(True, now_unix_seconds=now + 60)  # the hour, and not its day
    assert [hour.cpu.requested for hour in world.rows()] == [33]
    world.begin()
    world.turn(now + 3 * 86_400)
    (total,) = world.store.ledger_sums_by_day(range(DAY, DAY + 1)).values()
    assert total.cpu.requested == 33


def test_sums_are_by_namespace_and_of_those_asked_for_alone(world: World) -> None:
    other = replace(WEB, namespace="bank")
    world.take(told(), told(API), told(other, pod="bank-1"))
    world.turn()
    assert {name: total.workloads for name, total in world.store.ledger_sums(HOUR).items()} == {"shop": 2, "bank": 1}
    assert set(world.store.ledger_sums(HOUR, {"bank"})) == {"bank"}
    assert world.store.ledger_sums(HOUR, set()) == {}
    assert {hour.workload for hour in world.store.ledger_at(HOUR)} == {WEB, API, other}


def test_kills_of_a_week(world: World) -> None:
    world.take(told(kills=[(5.0, None), (6.0, MIB)]), told(API))
    world.turn()
    assert world.store.ledger_kills(HOUR - 24) == {WEB: 2}
    assert world.store.ledger_kills(HOUR + 1) == {}


def test_what_is_forgotten_of_a_workload_is_out_of_the_ledger(world: World) -> None:
    world.take(told(), told(API))
    world.turn()
    world.store.forget(ForgetWish(workload=WEB, asked_by="a person"), now_unix_seconds=OVER)
    assert world.rows() == []
    assert len(world.rows(API)) == 1
    ((_, total),) = world.store.ledger_sums_by_day(range(DAY, DAY + 1)).items()
    assert total.workloads == 1


def test_hours_that_a_forgotten_node_had_a_part_in_are_out_of_the_ledger(world: World) -> None:
    world.take(told())
    world.take(told(API), node="node-b")
    world.turn()
    world.store.forget(ForgetWish(node="node-b", asked_by="a person"), now_unix_seconds=OVER)
    assert len(world.rows()) == 1
    assert world.rows(API) == []
    ((_, total),) = world.store.ledger_sums_by_day(range(DAY, DAY + 1)).items()
    assert total.workloads == 1


def test_old_hours_go_and_their_days_stay_longer(world: World) -> None:
    world.take(told())
    world.turn()
    world.store.expire_ledger(HOUR + HOURLY_DAYS * 24 + 1)
    assert world.rows() == []
    assert len(world.store.ledger_sums_by_day(range(DAY, DAY + 1))) == 1
    world.store.expire_ledger(HOUR + (DAILY_DAYS + 1) * 24)
    assert world.store.ledger_sums_by_day(range(DAY, DAY + 1)) == {}
    with world.store.reading() as connection:
        assert stored._numbers_of(connection, [WEB]) == {}, "nor is its name kept"


def test_a_clock_that_is_ahead_takes_the_oldest_two_days_of_the_ledger_at_a_time(store: Store) -> None:
    amounts = LedgerAmounts(written=1, requested=1, recommended=1, used=1, used_p95=1, short_seconds=0)
    for day in range(DAY, DAY + 4):
        rows = [LedgerHour(workload=WEB, unix_hour=day * 24, pods_milli=1000, cpu=amounts, memory=amounts, kills=0)]
        store.write_ledger_hour(day * 24, rows, gone=())
        store.write_ledger_day(day)
    ahead = HOUR + 1000 * 24
    assert store.expire_ledger(ahead) == 4
    assert [row.unix_hour for row in store.ledger_of(WEB, range(DAY * 24, DAY * 24 + 96))] == [
        (DAY + 2) * 24,
        (DAY + 3) * 24,
    ]
    assert sorted(day for _, day in store.ledger_sums_by_day(range(DAY, DAY + 4))) == [DAY + 2, DAY + 3]
    assert store.expire_ledger(ahead) == 4


def test_amounts_as_large_as_a_cluster_has_add_up(store: Store) -> None:
    huge = LedgerAmounts(
        written=2**50, requested=2**51, recommended=2**52, used=2**49, used_p95=2**49, short_seconds=2**40
    )
    rows = [
        LedgerHour(
            workload=replace(WEB, name=f"web-{number}"), unix_hour=HOUR, pods_milli=1000, cpu=huge, memory=huge, kills=1
        )
        for number in range(3)
    ]
    store.write_ledger_hour(HOUR, rows, gone=())
    (total,) = store.ledger_sums(HOUR).values()
    assert (total.cpu.recommended, total.kills) == (3 * 2**52, 3)
    assert total.memory_margins == LedgerMargins(freed=0, possible=0, needed=3 * 2**51)
    assert isinstance(total.cpu.recommended, int)
