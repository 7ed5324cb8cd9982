"""What the store keeps of evictions, on SQLite and on PostgreSQL, with several replicas at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from agent.core.cluster.pod import PodRef
from agent.core.cluster.workload import Workload
from agent.core.eviction.budget import EvictionState, Replicas, Spent, budget_ruling
from agent.core.eviction.options import ArbiterOptions
from agent.core.eviction.proposal import Reason, Ruling, Want
from agent.webhook.store.database.engine import database_now
from agent.webhook.store.evictions import KEPT_SECONDS, BackOff, EvictionStore, EvictionWish
from agent.webhook.store.store import Store
from tests.evictions import NODE, NOW, WEB
from tests.webhook.open_store import open_store

MISSING_SECONDS = 600.0
REPLICAS = 4
PODS = 24


@pytest.fixture
def kept(store: Store) -> EvictionStore:
    return EvictionStore(store)


@pytest.fixture
def replicas(store_url: str) -> Iterator[list[Store]]:
    """Several stores on one database, as several replicas have."""
    stores = [open_store(store_url) for _ in range(REPLICAS)]
    yield stores
    for store in stores:
        store.close()


def wish(name: str = "web", workload: Workload = WEB, node: str = NODE) -> EvictionWish:
    ref = PodRef(namespace=workload.namespace, name=name, uid=f"uid-{name}")
    return EvictionWish(ref=ref, workload=workload, node=node, want=Want.CPU, needed="its node says that it needs 1m")


def allow(_: Spent) -> None:
    return None


def begin(store: EvictionStore, of: EvictionWish, now: float = NOW) -> Spent:
    spent = store.begin(of, allow, missing_seconds=MISSING_SECONDS, now_unix_seconds=now)
    assert isinstance(spent, Spent)
    return spent


def look(store: EvictionStore, of: EvictionWish, now: float = NOW) -> Spent:
    """What is spent as a next eviction would see it; nothing is taken."""
    seen: list[Spent] = []

    def judge(spent: Spent) -> Ruling:
        seen.append(spent)
        return Ruling(reason=Reason.PAUSED, detail="")

    store.begin(of, judge, missing_seconds=MISSING_SECONDS, now_unix_seconds=now)
    return seen[0]


def settle(
    store: EvictionStore,
    of: EvictionWish,
    state: EvictionState,
    now: float = NOW,
    back_off: BackOff | None = None,
    begun: float = NOW,
) -> None:
    store.settle(
        of.ref.uid, of.workload, state, "told", begun_unix_seconds=begun, now_unix_seconds=now, back_off=back_off
    )


def figures(spent: Spent) -> tuple[int, int, int, int, int]:
    return (
        spent.cluster_minute,
        spent.namespace_minute,
        spent.node_hour,
        spent.workload_hour,
        spent.workload_missing,
    )


def test_first_eviction_finds_nothing_spent_and_leaves_a_trace(kept: EvictionStore) -> None:
    assert begin(kept, wish()) == Spent(
        now_unix_seconds=NOW,
        cluster_minute=0,
        namespace_minute=0,
        node_hour=0,
        workload_hour=0,
        workload_missing=0,
        state=None,
        refusals=0,
        back_off_until_unix_seconds=None,
    )
    [record] = kept.newest(10)
    assert (record.ref, record.workload, record.node, record.want) == (wish().ref, WEB, NODE, Want.CPU)
    assert (record.state, record.requested_unix_seconds, record.done_unix_seconds) == (EvictionState.BEGUN, NOW, None)
    assert record.detail == "its node says that it needs 1m"


def test_refusal_takes_no_token(kept: EvictionStore) -> None:
    no = Ruling(reason=Reason.CLUSTER_BUDGET, detail="")
    assert kept.begin(wish(), lambda _: no, missing_seconds=1.0, now_unix_seconds=NOW) is no
    assert kept.newest(10) == []
    assert figures(look(kept, wish("other"))) == (0, 0, 0, 0, 0)


def test_each_count_has_its_own_window_and_place(kept: EvictionStore) -> None:
    bank = Workload(namespace="bank", kind="Deployment", name="web")
    api = replace(WEB, name="api")
    of_kind = replace(WEB, kind="StatefulSet")
    begin(kept, wish("a"), NOW)
    begin(kept, wish("b", bank, "node-b"), NOW)
    begin(kept, wish("c", api, "node-b"), NOW)
    begin(kept, wish("d", of_kind, "node-c"), NOW)
    assert figures(look(kept, wish("x"))) == (4, 3, 1, 1, 1)
    assert figures(look(kept, wish("x"), NOW + 59.9)) == (4, 3, 1, 1, 1)
    assert figures(look(kept, wish("x"), NOW + 60.0)) == (0, 0, 1, 1, 1)
    assert figures(look(kept, wish("x"), NOW + 600.0)) == (0, 0, 1, 1, 0)
    assert figures(look(kept, wish("x"), NOW + 3600.0)) == (0, 0, 0, 0, 0)
    assert figures(look(kept, wish("x", bank, "node-b"))) == (4, 1, 2, 1, 1)


def test_pods_count_as_missing_for_longer_than_any_budget_if_so_set(kept: EvictionStore) -> None:
    begin(kept, wish("a"))
    seen: list[Spent] = []

    def judge(spent: Spent) -> Ruling:
        seen.append(spent)
        return Ruling(reason=Reason.PAUSED, detail="")

    kept.begin(wish("b"), judge, missing_seconds=86_400.0, now_unix_seconds=NOW + 7200.0)
    assert figures(seen[0]) == (0, 0, 0, 0, 1)


@pytest.mark.parametrize("state", list(EvictionState))
def test_tokens_of_what_was_not_evicted_are_back_at_once(kept: EvictionStore, state: EvictionState) -> None:
    begin(kept, wish("a"))
    settle(kept, wish("a"), state)
    expected = 1 if state in (EvictionState.BEGUN, EvictionState.EVICTED) else 0
    assert figures(look(kept, wish("b"))) == (expected,) * 5
    assert look(kept, wish("a")).state is state


def test_pod_that_was_refused_may_be_begun_again_in_the_same_row(kept: EvictionStore) -> None:
    begin(kept, wish())
    settle(kept, wish(), EvictionState.REFUSED)
    assert begin(kept, replace(wish(), want=Want.MEMORY), NOW + 5).state is EvictionState.REFUSED
    [record] = kept.newest(10)
    assert (record.state, record.want, record.requested_unix_seconds) == (EvictionState.BEGUN, Want.MEMORY, NOW + 5)
    assert record.done_unix_seconds is None


def test_eviction_that_was_made_stays_made(kept: EvictionStore) -> None:
    begin(kept, wish())
    settle(kept, wish(), EvictionState.EVICTED, NOW + 1)
    settle(kept, wish(), EvictionState.VOID, NOW + 2)
    [record] = kept.newest(10)
    assert (record.state, record.done_unix_seconds, record.detail) == (EvictionState.EVICTED, NOW + 1, "told")


def test_replica_that_stood_still_does_not_settle_another_try(kept: EvictionStore) -> None:
    begin(kept, wish())
    settle(kept, wish(), EvictionState.VOID, NOW + 60)
    begin(kept, wish(), NOW + 61)
    settle(kept, wish(), EvictionState.REFUSED, NOW + 62, begun=NOW)
    assert look(kept, wish("other"), NOW + 62).state is None
    assert look(kept, wish(), NOW + 62).state is EvictionState.BEGUN
    # But that the pod went is true, whoever says so.
    settle(kept, wish(), EvictionState.EVICTED, NOW + 63, begun=NOW)
    assert look(kept, wish(), NOW + 63).state is EvictionState.EVICTED


def test_back_off_is_of_the_workload_and_ends_with_an_eviction(kept: EvictionStore) -> None:
    begin(kept, wish("a"))
    settle(kept, wish("a"), EvictionState.REFUSED, back_off=BackOff(refusals=1, until_unix_seconds=NOW + 60))
    spent = look(kept, wish("b"))
    assert (spent.refusals, spent.back_off_until_unix_seconds) == (1, NOW + 60)
    assert look(kept, wish("c", replace(WEB, name="api"))).back_off_until_unix_seconds is None
    begin(kept, wish("b"), NOW + 61)
    later = BackOff(refusals=2, until_unix_seconds=NOW + 200)
    settle(kept, wish("b"), EvictionState.REFUSED, NOW + 61, back_off=later, begun=NOW + 61)
    spent = look(kept, wish("a"), NOW + 61)
    assert (spent.refusals, spent.back_off_until_unix_seconds) == (2, NOW + 200)
    begin(kept, wish("b"), NOW + 201)
    settle(kept, wish("b"), EvictionState.VOID, NOW + 201, begun=NOW + 201)
    assert look(kept, wish("a"), NOW + 201).refusals == 2
    begin(kept, wish("b"), NOW + 202)
    settle(kept, wish("b"), EvictionState.EVICTED, NOW + 202, begun=NOW + 202)
    spent = look(kept, wish("a"), NOW + 202)
    assert (spent.refusals, spent.back_off_until_unix_seconds) == (0, None)


def test_only_old_ones_that_were_never_settled_are_to_be_looked_into(kept: EvictionStore) -> None:
    for name, at in (("old", NOW - 100), ("settled", NOW - 100), ("young", NOW - 10), ("ahead", NOW + 1000)):
        begin(kept, wish(name), at)
    settle(kept, wish("settled"), EvictionState.EVICTED, begun=NOW - 100)
    records = kept.unsettled(NOW - 60, NOW + 60)
    assert sorted(record.ref.name for record in records) == ["ahead", "old"]
    assert kept.unsettled(NOW - 200, NOW + 2000) == []


def test_future_after_a_clock_was_wrong_counts_and_is_forgotten_when_it_is_far(kept: EvictionStore) -> None:
    begin(kept, wish("a"), NOW + 3600)
    assert figures(look(kept, wish("b"))) == (1, 1, 1, 1, 1)
    begin(kept, wish("c"), NOW + 2 * KEPT_SECONDS)
    settle(
        kept,
        wish("c"),
        EvictionState.REFUSED,
        back_off=BackOff(refusals=1, until_unix_seconds=NOW + 2 * KEPT_SECONDS),
        begun=NOW + 2 * KEPT_SECONDS,
    )
    begin(kept, wish("d"))
    assert {record.ref.name for record in kept.newest(10)} == {"d"}
    assert look(kept, wish("e")).back_off_until_unix_seconds is None


def test_what_no_budget_asks_for_any_more_is_forgotten(kept: EvictionStore) -> None:
    begin(kept, wish("a"))
    settle(kept, wish("a"), EvictionState.REFUSED, back_off=BackOff(refusals=1, until_unix_seconds=NOW + 60))
    begin(kept, wish("b"), NOW + KEPT_SECONDS)
    assert {record.ref.name for record in kept.newest(10)} == {"a", "b"}
    begin(kept, wish("c"), NOW + KEPT_SECONDS + 61)
    assert {record.ref.name for record in kept.newest(10)} == {"b", "c"}
    assert look(kept, wish("a"), NOW + KEPT_SECONDS + 61).refusals == 0


def test_newest_come_first_and_no_more_than_asked_for(kept: EvictionStore) -> None:
    for index in range(5):
        begin(kept, wish(f"web-{index}"), NOW + index)
    assert [record.ref.name for record in kept.newest(2)] == ["web-4", "web-3"]


def test_names_are_values_and_no_statements(kept: EvictionStore) -> None:
    odd = Workload(namespace="shop'; DROP TABLE evictions; --", kind="Deployment", name="%_é")
    begin(kept, wish("a", odd))
    assert look(kept, wish("b", odd)).workload_hour == 1
    assert kept.newest(1)[0].workload == odd


def test_replicas_that_ask_at_once_take_no_more_tokens_than_there_are(replicas: list[Store]) -> None:
    options = ArbiterOptions(evictions_per_minute=5, namespace_evictions_per_minute=1000, node_evictions_per_hour=1000)
    # Each pod of a workload of its own, so that the cluster's budget alone decides.
    granted: list[str] = []
    start = threading.Barrier(REPLICAS)

    def evict(store: EvictionStore, share: range) -> None:
        start.wait()
        for index in share:
            of = wish(f"web-{index}", replace(WEB, name=f"web-{index}"))
            taken = store.begin(
                of,
                lambda spent: budget_ruling(spent, Replicas(wanted=9, available=9), options),
                missing_seconds=MISSING_SECONDS,
                now_unix_seconds=NOW,
            )
            if isinstance(taken, Spent):
                granted.append(of.ref.name)

    run_all([(evict, EvictionStore(replica), range(place, PODS, REPLICAS)) for place, replica in enumerate(replicas)])
    assert len(granted) == 5


def test_replicas_that_ask_for_one_pod_at_once_begin_it_once(replicas: list[Store]) -> None:
    begun: list[int] = []
    start = threading.Barrier(REPLICAS)

    def evict(store: EvictionStore, share: range) -> None:
        start.wait()
        for _ in range(5):
            taken = store.begin(
                wish(),
                lambda spent: budget_ruling(spent, Replicas(wanted=9, available=9), ArbiterOptions()),
                missing_seconds=MISSING_SECONDS,
                now_unix_seconds=NOW,
            )
            if isinstance(taken, Spent):
                begun.append(share.start)
            else:
                assert taken.reason is Reason.UNDER_WAY

    run_all([(evict, EvictionStore(replica), range(place, place + 1)) for place, replica in enumerate(replicas)])
    assert len(begun) == 1


def test_budgets_hold_over_replicas_whose_clocks_differ(replicas: list[Store]) -> None:
    """The database has the one clock; without it each of these would have a minute of its own."""
    options = ArbiterOptions(evictions_per_minute=3, namespace_evictions_per_minute=3)
    many = Replicas(wanted=99, available=99)
    answers = []
    for number in range(12):
        store = EvictionStore(replicas[number % REPLICAS], clock=database_now)
        answers.append(
            store.begin(
                wish(f"web-{number}", replace(WEB, name=f"web-{number}")),
                lambda spent: budget_ruling(spent, many, options),
                missing_seconds=MISSING_SECONDS,
                now_unix_seconds=NOW + 3600.0 * number,
            )
        )
    assert [isinstance(answer, Spent) for answer in answers] == [True] * 3 + [False] * 9
    store = EvictionStore(replicas[0], clock=database_now)
    now = store.now(NOW)
    assert now == pytest.approx(time.time(), abs=60.0)
    assert all(now - record.requested_unix_seconds < 60.0 for record in store.newest(9))
    settle(store, wish("web-0"), EvictionState.EVICTED, begun=NOW)
    (settled,) = [record for record in store.newest(9) if record.ref.name == "web-0"]
    assert settled.done_unix_seconds == pytest.approx(now, abs=60.0)


def run_all(jobs: list[tuple[Callable[[EvictionStore, range], None], EvictionStore, range]]) -> None:
    """Run jobs at once, and fail with the first that failed."""
    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(job, store, share) for job, store, share in jobs]:
            done.result(60.0)


def test_restarted_replica_goes_on_with_what_was_spent(store_url: str) -> None:
    first = open_store(store_url)
    begin(EvictionStore(first), wish("a"))
    first.close()
    second = open_store(store_url)
    assert figures(look(EvictionStore(second), wish("b"))) == (1, 1, 1, 1, 1)
    second.close()
