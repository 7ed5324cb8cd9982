"""Growth that quotas do not show yet is remembered for seconds, and bounded."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.workload import Workload
from agent.webhook.admission import recent_growth
from agent.webhook.admission.recent_growth import UNSEEN_SECONDS, RecentGrowth
from tests.examples import examples
from tests.fakes import FakeClock

WEB = Workload(namespace="shop", kind="Deployment", name="web")
TILLS = Workload(namespace="bank", kind="Deployment", name="tills")
SERVER, STRANGER = "10.0.0.1", "10.1.2.3"


def test_growth_is_summed_by_namespace_and_name_until_it_is_old() -> None:
    clock = FakeClock()
    growth = RecentGrowth(lambda: clock.seconds)
    growth.add(WEB, {"memory": 5, "cpu": 1})
    clock.advance(UNSEEN_SECONDS)
    growth.add(WEB, {"memory": 7})
    growth.add(TILLS, {"memory": 9})
    assert growth.of("shop") == {"memory": 12, "cpu": 1}
    assert growth.of("bank") == {"memory": 9}
    assert growth.of("nowhere") == {}
    clock.advance(0.001)
    assert growth.of("shop") == {"memory": 7}
    clock.advance(UNSEEN_SECONDS)
    assert growth.of("shop") == growth.of("bank") == {}
    assert (len(growth), growth._sums) == (0, {})


def test_growth_of_a_pod_that_is_asked_about_again_does_not_count_for_itself() -> None:
    growth = RecentGrowth(lambda: 1.0)
    growth.add(WEB, {"memory": 5, "cpu": 1}, SERVER)
    growth.add(WEB, {"memory": 7}, SERVER)
    assert growth.of("shop", SERVER, own=(WEB, {"memory": 7})) == {"memory": 5, "cpu": 1}
    assert growth.of("shop", SERVER, own=(WEB, {"memory": 6})) == {"memory": 12, "cpu": 1}  # of none that is known
    assert growth.of("shop", SERVER, own=(TILLS, {"memory": 7})) == {"memory": 12, "cpu": 1}
    assert growth.of("shop", STRANGER, own=(WEB, {"memory": 7})) == {}
    assert growth.of("shop", SERVER, own=(WEB, {})) == {"memory": 12, "cpu": 1}


def test_only_so_many_admissions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_growth, "MOST_ADMISSIONS", 3)
    growth = RecentGrowth(lambda: 1.0)
    for amount in range(10):
        growth.add(WEB, {"memory": amount})
    assert (len(growth), growth.of("shop")) == (3, {"memory": 7 + 8 + 9})


def test_several_threads_add_up() -> None:
    growth = RecentGrowth(lambda: 1.0)

    def add() -> None:
        for _ in range(500):
            growth.add(WEB, {"memory": 1})

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert growth.of("shop") == {"memory": 2000}


def test_what_a_stranger_reserves_and_nobody_creates_does_not_count_for_others() -> None:
    clock = FakeClock()
    growth = RecentGrowth(lambda: clock.seconds)
    for _ in range(178):
        growth.add(WEB, {"memory": 1}, STRANGER)
    assert growth.of("shop", SERVER) == {}
    growth.add(WEB, {"memory": 5}, SERVER)
    assert growth.of("shop", SERVER) == {"memory": 5}
    assert growth.of("shop", STRANGER) == {"memory": 178}
    clock.advance(UNSEEN_SECONDS + 1.0)
    assert growth.of("shop", STRANGER) == {}
    growth.add(WEB, {"memory": 1}, STRANGER)  # none of them came: he is not believed now either
    assert growth.of("shop", SERVER) == {}


def test_a_pod_that_the_watch_shows_counts_for_everybody_and_no_longer_than_others() -> None:
    clock = FakeClock()
    growth = RecentGrowth(lambda: clock.seconds)
    growth.add(WEB, {"memory": 5}, SERVER)
    growth.see(TILLS)
    assert growth.of("shop", STRANGER) == {}
    growth.see(WEB)
    growth.see(WEB)
    assert growth.of("shop", STRANGER) == growth.of("shop", SERVER) == {"memory": 5}
    growth.add(WEB, {"memory": 7}, SERVER)  # whose pods come counts for others before they are there
    assert growth.of("shop", "10.0.0.2") == {"memory": 12}
    clock.advance(UNSEEN_SECONDS + 1.0)
    assert growth.of("shop", SERVER) == {}
    assert (len(growth), growth._sums, growth._unseen) == (0, {}, {})


def test_one_address_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_growth, "MOST_OF_ONE", 3)
    monkeypatch.setattr(recent_growth, "MOST_ADDRESSES", 10)
    clock = FakeClock()
    growth = RecentGrowth(lambda: clock.seconds)
    for _ in range(10):
        growth.add(WEB, {"memory": 1}, STRANGER)
    assert growth.of("shop", STRANGER) == {"memory": 3}
    for number in range(100):
        clock.advance(UNSEEN_SECONDS + 1.0)
        growth.add(WEB, {"memory": 1}, f"10.1.2.{number}")
    assert len(growth._records) <= 10


@examples(200)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "see", "wait"]), st.sampled_from([WEB, TILLS]), st.sampled_from("abc")),
        max_size=60,
    )
)
def test_sums_are_those_of_what_is_remembered(steps: list[tuple[str, Workload, str]]) -> None:
    clock = FakeClock()
    growth = RecentGrowth(lambda: clock.seconds)
    for what, workload, address in steps:
        if what == "add":
            growth.add(workload, {"memory": 1}, address)
        elif what == "see":
            growth.see(workload)
        else:
            clock.advance(1.7)
        admissions = [
            admission for admission in growth._admissions if clock.seconds - admission.at_seconds <= UNSEEN_SECONDS
        ]
        for namespace in ("shop", "bank"):
            own = [
                admission
                for admission in admissions
                if admission.workload.namespace == namespace and (admission.is_seen or admission.address == "a")
            ]
            assert growth.of(namespace, "a").get("memory", 0) >= len(own)
    clock.advance(10.0)
    assert growth.of("shop", "a") == {}
    assert (len(growth), growth._sums, growth._unseen) == (0, {}, {})
    assert all(not record.waiting for record in growth._records.values())
