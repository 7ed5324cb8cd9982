"""A poisoning undone: what one node said, or all of a workload, goes from the store and from every memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from sqlalchemy import text

from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import Report, Setback
from agent.core.history.workloads.usage_ledger import LedgerAmounts, LedgerHour
from agent.core.orders.guard_options import GuardOptions
from agent.core.orders.policy_options import PolicyName
from agent.webhook.store.entries.forget_entry import Forgetting
from agent.webhook.store.shapes import ForgetWish, Forgotten, NodeDay, StoredSketch
from agent.webhook.store.store import Store
from agent.webhook.workloads.folder import Folder
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.rebuilder import Rebuilder, RebuildOptions
from agent.webhook.workloads.shapes import IndexOptions
from agent.webhook.workloads.shares import WorkloadShares
from agent.webhook.workloads.tailer import Tailer
from tests.webhook.open_store import open_store
from tests.webhook.reports import new_report
from tests.webhook.test_decisions import STATE
from tests.webhook.test_decisions import row as decision
from tests.webhook.test_runs import CRON_JOB, a_run
from tests.webhook.test_setbacks import SHARE
from tests.webhook.test_tailing import AT_ONCE, Dying, append, follow, replica, sketches_of
from tests.webhook.test_workloads import Policies, answers_of, index_of
from tests.webhook.workload_reports import DNS, HOUR, LARGE, MIB, NOON, WEB, report, row

TB = 10**12
LIE = {"cpu": 16_000.0, "memory": 10.0 * TB, "kills": [(1.0, 10 * TB)]}
NOW = NOON + 4 * HOUR + 1800
"""In the hour of the lie; predictions look at the hours beside it too."""
API = Workload(namespace="shop", kind="Deployment", name="api")


def honest(node: str, hours: int, *, pod: str = "", workload: Workload = WEB, cpu: float = 100.0) -> Iterator[Any]:
    """One report in each hour from noon on, of one pod."""
    for hour in range(hours):
        node_report = report(row(workload, pod=pod or f"of-{node}", cpu=cpu + hour), node=node, sequence=hour)
        yield NOON + hour * HOUR + 900, node_report


def lie(node: str = "node-b", *, at: float = NOON + 4 * HOUR + 1200, sequence: int = 90) -> tuple[float, Report]:
    return at, report(row(pod=f"of-{node}", **LIE), node=node, sequence=sequence)  # type: ignore[arg-type]


def taken(store: Store, reports: Iterable[tuple[float, Report]]) -> None:
    for received, node_report in reports:
        append(store, node_report, received)


def fold(store: Store, now: float = NOW) -> int:
    return Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=now)


def forget(store: Store, **wish: Any) -> Forgotten:
    return store.forget(ForgetWish(asked_by="tests", **wish), now_unix_seconds=NOW)


def memory_of(index: WorkloadIndex, workload: Workload = WEB, now: float = NOW) -> int | NoEstimate | None:
    answer = index.estimate(workload, "app", policy=PolicyName.CRUISE, node=None, node_class=None, now_unix_seconds=now)
    return answer.memory_request_bytes if isinstance(answer, Estimate) else answer


def has_lie(index: WorkloadIndex) -> bool:
    memory_bytes = memory_of(index)
    return isinstance(memory_bytes, int) and memory_bytes > 128 * MIB


def started(store: Store, now: float = NOW) -> WorkloadIndex:
    """Return the index of a replica that begins now."""
    index, tailer = replica(store)
    follow(tailer, now)
    return index


@pytest.mark.parametrize("folded", ["before the lie", "with the lie", "not at all"])
def test_a_lie_of_one_node_is_undone_in_every_replica_and_stays_undone(store_url: str, folded: str) -> None:
    first, second = open_store(store_url), open_store(store_url)
    replicas = [replica(first), replica(second)]
    taken(first, [*honest("node-a", 5), *honest("node-b", 3)])
    if folded == "before the lie":
        fold(first)
    for index, tailer in replicas:
        follow(tailer, NOW)
        assert memory_of(index) == 64 * MIB
    taken(first, [lie()])
    if folded == "with the lie":
        fold(first)
    for index, tailer in replicas:
        follow(tailer, NOW)
        assert has_lie(index)

    gone = forget(second, node="node-b", since_unix_hour=NOON // HOUR + 4)
    assert gone.id is not None
    assert {hour for hours in gone.hours.values() for hour in hours} == {NOON // HOUR + 4}
    for index, tailer in replicas:
        follow(tailer, NOW)
        assert memory_of(index) == 64 * MIB
        answer = index.estimate(WEB, "app", policy=PolicyName.CRUISE, node=None, node_class=None, now_unix_seconds=NOW)
        assert isinstance(answer, Estimate)
        assert (answer.cpu_request_millicores, answer.oom_memory_bytes) == (
            104 if folded != "with the lie" else 103,
            None,
        )
        assert index.directive_of(WEB, node="node-a", now_unix_seconds=NOW)[0].oom_memory_bytes is None

    fold(first)
    answers = answers_of(started(second), NOW)
    for index, tailer in replicas:
        follow(tailer, NOW)
        assert answers_of(index, NOW)[:4] == answers[:4]
    assert memory_of(started(first)) == 64 * MIB
    first.close()
    second.close()
    again = open_store(store_url)
    assert memory_of(started(again)) == 64 * MIB
    again.close()


def test_after_a_workload_is_forgotten_only_what_comes_later_counts(store: Store) -> None:
    taken(store, [*honest("node-a", 5), lie(), *honest("node-c", 5, workload=API, pod="api-1", cpu=50.0)])
    fold(store, NOON + 4 * HOUR)
    index, tailer = replica(store)
    follow(tailer, NOW)
    gone = forget(store, workload=WEB)
    assert (gone.is_known, gone.rows > 0, set(gone.hours)) == (True, True, {"shop/Deployment/web/app/c/2/m5.large"})
    follow(tailer, NOW)
    assert memory_of(index) is NoEstimate.UNKNOWN_WORKLOAD
    assert memory_of(index, API) == 64 * MIB
    taken(store, [(NOW - 600, report(row(cpu=70.0, memory=32.0 * MIB), sequence=300))])
    for fold_too in (False, True):
        if fold_too:
            fold(store)
        for workload_index in (index, started(store)):
            follow(tailer, NOW + HOUR)
            assert memory_of(workload_index, now=NOW + HOUR) == 32 * MIB
    assert [line.workload for line in started(store).workloads()] == [API, WEB]


def test_others_hours_of_a_forgotten_node_go_and_their_other_hours_and_classes_stay(store: Store) -> None:
    taken(store, [*honest("node-a", 5), *honest("node-b", 2), *honest("node-c", 5, workload=API, pod="api-1")])
    large = [
        (at, report(*node_report.rows, node="node-d", node_class=LARGE, sequence=at))
        for at, node_report in honest("node-d", 5)
    ]
    taken(store, large)
    fold(store)
    index, tailer = replica(store)
    follow(tailer, NOW)
    forget(store, node="node-b")
    follow(tailer, NOW)
    left = {(key, hour - NOON // HOUR) for key, hour in sketches_of(store)}
    web = "shop/Deployment/web/app/c"
    assert left == {
        *((f"{web}/2/m5.large", hour) for hour in (2, 3, 4)),
        *((f"{web}/16/m5.4xlarge", hour) for hour in range(5)),
        *(("shop/Deployment/api/app/c/2/m5.large", hour) for hour in range(5)),
    }
    assert answers_of(index, NOW)[:4] == answers_of(started(store), NOW)[:4]


def test_a_daemon_sets_history_by_node_goes_with_the_node_alone(store: Store) -> None:
    for node in ("node-a", "node-b"):
        taken(store, honest(node, 3, workload=DNS, pod=f"dns-{node}"))
    fold(store)
    index, tailer = replica(store)
    follow(tailer, NOW)
    forget(store, node="node-b")
    follow(tailer, NOW)
    for workload_index in (index, started(store)):
        merged = workload_index.merged(DNS)
        assert merged is not None
        (container,) = merged.containers
        assert ([row.node for row in container.nodes], container.classes) == (["node-a"], ())
        answer = workload_index.estimate(
            DNS, "app", policy=PolicyName.CRUISE, node="node-a", node_class=None, now_unix_seconds=NOW
        )
        assert isinstance(answer, Estimate)
        assert answer.source is EstimateSource.NODE
    assert index.workloads_on("node-b") == ()


@pytest.mark.parametrize("what", ["node", "workload"])
def test_a_fold_that_read_before_brings_nothing_back(store: Store, what: str) -> None:
    """The order comes between the leader's reading and its writing."""
    taken(store, [*honest("node-a", 4), lie()])
    wish: dict[str, Any] = {"node": "node-b"} if what == "node" else {"workload": WEB}

    class Slow(Dying):
        def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterable[StoredSketch]:
            sketches = list(self._store.sketches_of(keys, unix_hours))
            forget(self._store, **wish)
            return sketches

    leader = Folder(Slow(store, "none"), AT_ONCE)  # type: ignore[arg-type]
    assert leader.fold_once(True, now_unix_seconds=NOW) == 0
    assert memory_of(started(store)) == (64 * MIB if what == "node" else NoEstimate.UNKNOWN_WORKLOAD)
    fold(store)
    assert memory_of(started(store)) == (64 * MIB if what == "node" else NoEstimate.UNKNOWN_WORKLOAD)
    assert store.tail(store.folded_through(), 10) == []


@pytest.mark.parametrize("what", ["node", "workload"])
def test_a_replica_that_was_away_when_it_was_asked_and_folded_forgets_too(store: Store, what: str) -> None:
    taken(store, [*honest("node-a", 4), lie()])
    index, tailer = replica(store)
    follow(tailer, NOW)
    assert has_lie(index)
    wish: dict[str, Any] = {"node": "node-b"} if what == "node" else {"workload": WEB}
    forget(store, **wish)
    taken(store, [(NOW - 60, report(row(API, pod="api-1"), node="node-c", sequence=7))])
    fold(store)
    follow(tailer, NOW)
    assert tailer.loads == 2
    assert memory_of(index) == (64 * MIB if what == "node" else NoEstimate.UNKNOWN_WORKLOAD)
    assert answers_of(index, NOW)[:4] == answers_of(started(store), NOW)[:4]


def test_a_replica_whose_store_goes_away_in_the_middle_forgets_when_it_is_back(store: Store) -> None:
    taken(store, [*honest("node-a", 4), lie()])

    class Dies(Dying):
        def snapshot(self, since_unix_hour: int) -> Any:
            self._may_die("snapshot")
            return self._store.snapshot(since_unix_hour)

    store_once = Dies(store, "none")
    index = WorkloadIndex(index_of().options, Policies())
    tailer = Tailer(cast(Any, store_once), index)
    follow(tailer, NOW)
    forget(store, node="node-b")
    store_once._step = "snapshot"
    with pytest.raises(Exception):  # noqa: B017, PT011  what the fake raises
        tailer.advance(NOW)
    store_once._step = "none"
    follow(tailer, NOW)
    assert memory_of(index) == 64 * MIB


def test_prepared_policies_are_worked_out_again_without_the_lie(store: Store) -> None:
    taken(store, [*honest("node-a", 5), *honest("node-b", 4), lie()])
    fold(store)
    index, tailer = replica(store)
    follow(tailer, NOW)
    rebuilder = Rebuilder(store, index, Policies(), RebuildOptions())
    index.require({WEB: PolicyName.VPA}, now_unix_seconds=NOW)
    assert rebuilder.rebuild(NOW) == 1

    def asked() -> Estimate | NoEstimate:
        return index.estimate(WEB, "app", policy=PolicyName.VPA, node=None, node_class=None, now_unix_seconds=NOW)

    lied = asked()
    assert isinstance(lied, Estimate)

    class Slow(Dying):
        """The order comes while sketches are read."""

        def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterable[StoredSketch]:
            sketches = list(self._store.sketches_of(keys, unix_hours))
            forget(self._store, node="node-b", since_unix_hour=NOON // HOUR + 4)
            follow(tailer, NOW)
            return sketches

    index.answer(PolicyName.VPA, WEB, None, now_unix_seconds=NOW - 90 * HOUR)
    Rebuilder(Slow(store, "none"), index, Policies(), RebuildOptions()).rebuild(NOW)  # type: ignore[arg-type]
    assert asked() is NoEstimate.NOT_LOADED
    assert rebuilder.rebuild(NOW) == 1
    answer = asked()
    assert isinstance(answer, Estimate)
    assert (answer.memory_request_bytes or 0) < (lied.memory_request_bytes or 0)


def test_hours_of_before_it_was_known_who_had_a_part_go_where_the_node_led(store: Store) -> None:
    taken(store, [*honest("node-a", 5), lie(), *honest("node-b", 1, workload=API, pod="api-1", cpu=20.0)])
    fold(store)
    with store.transaction() as connection:  # as an older program leaves it
        connection.execute(text("DELETE FROM node_hours"))
        since = text("UPDATE counters SET value = :hour WHERE name = 'node_hours_since'")
        connection.execute(since, {"hour": NOW // HOUR + 1})
    gone = forget(store, node="node-b")
    assert gone.is_known
    assert {key.split("/")[2]: {hour - NOON // HOUR for hour in hours} for key, hours in gone.hours.items()} == {
        "web": {4},
        "api": {0},
    }
    assert memory_of(started(store)) == 64 * MIB


def test_what_would_go_is_told_and_stays(store: Store) -> None:
    taken(store, [*honest("node-a", 5), *honest("node-b", 2)])
    fold(store)
    taken(store, [lie()])
    before = sketches_of(store)
    looked = store.would_forget(ForgetWish(asked_by="tests", node="node-b"))
    assert (looked.id, looked.rows, looked.reports, looked.is_known) == (None, 2, 1, True)
    assert {hour - NOON // HOUR for hours in looked.hours.values() for hour in hours} == {0, 1, 4}
    assert sketches_of(store) == before
    assert not store.would_forget(ForgetWish(asked_by="tests", node="node-x")).is_known
    assert not store.would_forget(ForgetWish(asked_by="tests", workload=API)).is_known
    assert store.would_forget(ForgetWish(asked_by="tests", node="node-b", since_unix_hour=NOON // HOUR + 9)).hours == {}


def test_marks_and_remembered_pods_of_a_forgotten_node_stay(store: Store) -> None:
    """By them the receiver knows what was told before."""
    store.append(replace(new_report(1, node="node-b"), pods=b"pods"))
    assert store.pods_of("node-b") == b"pods"
    forget(store, node="node-b")
    assert store.pods_of("node-b") == b"pods"
    assert store.append(new_report(1, node="node-b")).repeated, "an old lie is not taken a second time"


def test_days_in_which_nodes_had_a_part_go_with_the_sketches(store: Store) -> None:
    taken(store, honest("node-a", 1))
    fold(store)
    day = NOON // HOUR // 24
    assert [node_day.node for node_day in store.node_days({day}, {"node-a", "node-b"})] == ["node-a"]
    forget(store, workload=API)
    later = NOON + 20 * 24 * HOUR
    append(store, report(row(), sequence=500), later)
    for _ in range(30):  # of sketches one hour goes with each fold
        fold(store, later)
        append(store, report(row(), sequence=501 + _), later)
    assert store.node_days({day}, {"node-a"}) == []
    assert store.forgettings(0) == []


def test_the_same_report_twice_writes_the_days_once(store: Store) -> None:
    class Counting(Dying):
        written: list[NodeDay] = []  # noqa: RUF012  one test, one object

        def fold(self, through_id: int, changed: Iterable[StoredSketch], before: int, **more: Any) -> None:
            days = list(more.pop("node_days"))
            self.written.extend(days)
            super().fold(through_id, changed, before, node_days=days, **more)

    counting = Counting(store, "none")
    for turn in range(3):
        append(store, report(row(), sequence=turn), NOON + turn)
        Folder(counting, AT_ONCE).fold_once(True, now_unix_seconds=NOON + 10)  # type: ignore[arg-type]
    assert [node_day.node for node_day in counting.written] == ["node-a"]


def test_an_order_is_no_report(store: Store) -> None:
    forget(store, workload=WEB)
    folder, (_, tailer) = Folder(store, AT_ONCE), replica(store)
    follow(tailer, NOW)
    assert (tailer.bad_reports, tailer.taken_reports, tailer.forgettings, tailer.position) == (0, 0, 1, 1)
    assert tailer.wait_for(1, 0.0)
    assert not tailer.wait_for(2, 0.0)
    assert folder.fold_once(True, now_unix_seconds=NOW) == 1
    assert folder.bad_reports == 0
    assert store.forgettings(0) == [Forgetting(id=1, asked_by="tests", workload=WEB)]


def test_an_unreadable_order_is_counted_and_stops_nobody(store: Store) -> None:
    append(store, report(row(), sequence=1), NOON, payload=b"forget\0nonsense")
    append(store, report(row(), sequence=2), NOON)
    _, tailer = replica(store)
    follow(tailer, NOW)
    assert (tailer.bad_reports, tailer.taken_reports, tailer.position) == (1, 1, 2)


def test_reports_logged_after_the_order_are_folded(store: Store) -> None:
    taken(store, [*honest("node-a", 2), *honest("node-b", 2)])
    forget(store, node="node-b")
    append(store, report(row(cpu=333.0, pod="of-node-b"), node="node-b", sequence=40), NOON + 3 * HOUR + 900)
    fold(store)
    index = started(store)
    answer = index.estimate(WEB, "app", policy=PolicyName.CRUISE, node=None, node_class=None, now_unix_seconds=NOW)
    assert isinstance(answer, Estimate)
    assert answer.cpu_request_millicores == 333


@pytest.mark.parametrize("what", ["runs", "decisions", "setback", "ledger"])
def test_a_workload_of_which_there_are_no_hours_any_more_is_forgotten_too(store: Store, what: str) -> None:
    wish = ForgetWish(asked_by="tests", workload=CRON_JOB)
    assert not store.would_forget(wish).is_known
    if what == "runs":
        store.take_runs([a_run(1)])
    elif what == "decisions":
        store.take_decisions(STATE, [decision(workload=CRON_JOB)])
    elif what == "setback":
        store.take_setback(replace(SHARE, workload=CRON_JOB))
    else:
        amounts = LedgerAmounts(
            written=None, requested=None, recommended=None, used=None, used_p95=None, short_seconds=None
        )
        hour = LedgerHour(workload=CRON_JOB, unix_hour=1, pods_milli=1000, cpu=amounts, memory=amounts, kills=0)
        store.write_ledger_hour(1, [hour], ())
    assert not store.would_forget(replace(wish, workload=API)).is_known
    assert store.would_forget(wish).is_known
    assert store.forget(wish, now_unix_seconds=NOW).is_known
    assert not store.would_forget(wish).is_known


@pytest.mark.parametrize("is_away", [False, True], ids=["at a start", "behind a fold"])
def test_what_was_taken_back_of_a_forgotten_workload_is_not_written_down_again(store: Store, is_away: bool) -> None:
    shares, index = WorkloadShares(GuardOptions()), WorkloadIndex(IndexOptions(), Policies())
    tailer = Tailer(store, index, taken=shares.take, forgotten=shares.forget)
    setback = Setback(age_seconds=10.0, reason="restarts: 2")
    append(store, report(replace(row(), setback=setback)), NOW)
    if is_away:
        follow(tailer, NOW)  # and the store goes before the setback is written down
    assert forget(store, workload=WEB).is_known is False, "nothing but the log has it"
    if is_away:
        fold(store)
        append(store, report(row(), sequence=2), NOW)
    follow(tailer, NOW)
    shares.follow(store, NOW)
    assert store.setbacks() == []
