"""Enforced shares as the webhook sees them: side by side, taken back, and told to nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.core.history.reports.rollup import Report, RollupRow, Setback, ShareRow
from agent.core.history.workloads.workload_setback import SetbackKind, WorkloadSetback
from agent.core.orders.enforce_share import EnforceShare, TakenBack
from agent.core.orders.guard_options import GuardOptions
from agent.webhook.reports.directives import Director
from agent.webhook.workloads import shares as shares_module
from agent.webhook.workloads.shares import OLDEST_SECONDS, WorkloadShares
from tests.unit.webhook.reports.test_directives import NOW, Room
from tests.webhook.workload_reports import DNS, NOON, WEB, report, row

DAY = 86_400.0


class Kept:
    """Setbacks, kept."""

    def __init__(self) -> None:
        self.all: dict[SetbackKind, WorkloadSetback] = {}
        self.writes = 0

    def take_setback(self, setback: WorkloadSetback) -> None:
        self.all[setback.kind] = setback
        self.writes += 1

    def setbacks(self) -> list[WorkloadSetback]:
        return list(self.all.values())


def of_pod(pod: str, *, enforced: bool, share: str = "10 %", restarts: int = 0, waiting: float = 0.0) -> RollupRow:
    group = ShareRow(share=share, is_enforced=enforced, restarts=restarts, unready_seconds=0.0)
    return replace(row(pod=pod, waiting=waiting, throttled=0.0), share=group)


def both(share: str = "10 %", *, waiting: float = 0.0, sequence: int = 1) -> Report:
    rows = [of_pod(f"web-{number}", enforced=False, share=share) for number in range(3)]
    return report(of_pod("web-9", enforced=True, share=share, waiting=waiting), *rows, sequence=sequence)


def watch(*reports: Report, options: GuardOptions | None = None) -> tuple[WorkloadShares, Kept]:
    shares, store = WorkloadShares(options or GuardOptions()), Kept()
    for number, node_report in enumerate(reports):
        shares.take(node_report, NOON + 300.0 * number)
        shares.follow(store, NOON + 300.0 * number)
    return shares, store


def test_groups_that_fare_alike_go_on_and_stand_side_by_side() -> None:
    shares, store = watch(both(), both())
    assert (store.writes, shares.taken_back(WEB), shares.taken_back_count()) == (0, None, 0)
    fares = shares.fares(WEB)
    assert fares is not None
    share, (enforced, others) = fares
    assert (share, enforced.pods, others.pods, others.fare.seconds) == ("10 %", 1, 3, 1800.0)


def test_a_share_whose_pods_fare_worse_is_taken_back_once_and_known_to_every_replica() -> None:
    shares, store = watch(both(waiting=90.0), both(waiting=90.0))
    reason = "its pods fared worse: waiting for CPU 30% of the time, 0% in the other pods"
    assert shares.taken_back(WEB) == TakenBack(share="10 %", reason=reason)
    assert (store.writes, shares.taken_back_count()) == (1, 1)
    other = WorkloadShares(GuardOptions())
    other.follow(store, NOON)
    other.take(both(waiting=90.0), NOON)
    other.follow(store, NOON)
    assert (other.taken_back(WEB), store.writes) == (shares.taken_back(WEB), 1)


def test_another_share_is_judged_anew() -> None:
    shares, store = watch(both(waiting=90.0), both("20 %"), both("20 %", waiting=90.0))
    # 45 s of 600 by then: 15 %.
    assert (shares.taken_back(WEB), store.writes) == (shares.taken_back(WEB), 1)
    setback = shares.taken_back(WEB)
    assert setback is not None
    assert not setback.concerns(EnforceShare(2000))
    shares.take(both("20 %", waiting=290.0), NOON + 900.0)
    shares.follow(store, NOON + 900.0)
    setback = shares.taken_back(WEB)
    assert setback is not None
    assert setback.concerns(EnforceShare(2000))


def test_the_guard_can_be_off() -> None:
    shares, store = watch(both(waiting=300.0), options=GuardOptions(active=False))
    assert store.writes == 0
    assert shares.fares(WEB) is not None


def test_a_setback_of_a_node_stops_shrinking_everywhere() -> None:
    shares, store = watch()
    setback_row = replace(row(), setback=Setback(age_seconds=10.0, reason="restarts: 2"))
    for age in (0.0, 60.0):
        shares.take(report(setback_row, age=age), NOON)
    shares.follow(store, NOON)
    setback = shares.shrink_setback(WEB)
    assert setback is not None
    assert (setback.at_unix_seconds, setback.reason, store.writes) == (NOON - 10.0, "restarts: 2", 1)
    shares.take(report(setback_row, age=60.0), NOON)
    shares.follow(store, NOON)
    assert store.writes == 1, "an older one is no news"


def test_what_was_reported_of_a_workload_before_it_was_forgotten_takes_nothing_back() -> None:
    shares, store = watch(both(waiting=90.0), both(waiting=90.0))
    assert shares.taken_back(WEB) is not None
    store.all.clear()  # the database forgets by itself
    shares.take(report(replace(row(), setback=Setback(age_seconds=10.0, reason="restarts: 2"))), NOON + 600.0)
    shares.forget(WEB)
    assert shares.fares(WEB) is None
    shares.take(both(), NOON + 900.0)
    shares.follow(store, NOON + 900.0)
    assert (store.writes, shares.taken_back(WEB), shares.shrink_setback(WEB)) == (1, None, None)


def test_nothing_is_written_down_while_a_later_entry_of_the_log_may_forget_it() -> None:
    shares, store = WorkloadShares(GuardOptions()), Kept()
    other = WorkloadSetback(workload=DNS, kind=SetbackKind.SHRINK, at_unix_seconds=NOON, reason="restarts: 1")
    store.take_setback(other)
    shares.take(report(replace(row(), setback=Setback(age_seconds=10.0, reason="restarts: 2"))), NOON)
    shares.follow(store, NOON, is_caught_up=False)
    assert (store.writes, shares.shrink_setback(WEB), shares.shrink_setback(DNS)) == (1, None, other)
    shares.follow(store, NOON)
    assert store.writes == 2


def test_a_workload_of_which_no_node_tells_any_more_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    shares, store = watch(both())
    shares.follow(store, NOON + OLDEST_SECONDS - 1)
    assert shares.fares(WEB) is not None
    shares.follow(store, NOON + OLDEST_SECONDS)
    assert shares.fares(WEB) is None
    monkeypatch.setattr(shares_module, "MOST_WORKLOADS", 0)
    shares.take(both(), NOON)
    assert shares.fares(WEB) is None


def test_nodes_are_told_of_both() -> None:
    room, (shares, store) = Room(), watch()
    room.facts.places = {"node-a": [WEB]}
    store.take_setback(
        WorkloadSetback(workload=WEB, kind=SetbackKind.SHARE, at_unix_seconds=NOW, reason="w", share="5 %")
    )
    store.take_setback(WorkloadSetback(workload=WEB, kind=SetbackKind.SHRINK, at_unix_seconds=NOW, reason="restarts"))
    before = Director(room.facts, room.histories, setbacks=shares).directives_of("node-a", NOW)
    shares.follow(store, NOW)
    after = Director(room.facts, room.histories, setbacks=shares).directives_of("node-a", NOW)
    assert before.etag != after.etag
    (directive,) = after.workloads
    assert (directive.share_taken_back, directive.share_taken_back_for) == ("5 %", "w")
    assert directive.stop_shrinking_seconds is not None
    assert DAY <= directive.stop_shrinking_seconds <= DAY + 600.0
    assert directive.stop_shrinking_for == "a pod fared worse after a shrink: restarts"
