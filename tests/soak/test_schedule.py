"""The day by script: the same under a seed, another under another, and all of it within the run."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.soak.roles import ELSEWHERE, HERE, ROLES, document, history_key
from tests.soak.schedule import HOUR_RATIO, STEP_SECONDS, Event, Kind, residents, schedule, spans


def day(seed: int = 1) -> tuple[Event, ...]:
    return schedule(seed=seed, seconds=3600.0, pods=2000, kills=50)


def test_a_seed_gives_the_same_day_again_and_another_one_another() -> None:
    assert day(3) == day(3) != day(4)
    assert list(day()) == sorted(day())


def test_a_whole_day_has_all_that_belongs_to_it() -> None:
    counts = Counter(event.kind for event in day())
    assert counts[Kind.POD_COMES] == 2000
    assert counts[Kind.AGENT_KILLED] == 50
    assert counts[Kind.API_SERVER_KILLED] == counts[Kind.API_SERVER_BACK] == 4
    assert counts[Kind.CLOCK_SET] == 4
    assert counts[Kind.CERTIFICATE_ROTATED] == 2
    assert set(counts) == set(Kind)
    assert {counts[kind] for kind in (Kind.UPGRADED, Kind.DISK_FULL, Kind.WEBHOOK_AWAY, Kind.MEMORY_SHORT)} == {1}
    assert all(0.0 <= event.second < 3600.0 for event in day())


def test_who_goes_has_come_before_and_residents_stay() -> None:
    come = {event.pod: event.second for event in day() if event.kind is Kind.POD_COMES}
    gone = {event.pod: event.second for event in day() if event.kind is Kind.POD_GOES}
    assert len(come) == 2000
    assert all(come[pod] < second for pod, second in gone.items())
    assert {pod for pod, second in come.items() if second == 0.0} == {f"{role}-resident" for role in residents()}
    assert not any(pod.endswith("-resident") for pod in gone)


@pytest.mark.parametrize("seed", range(8))
def test_a_node_never_has_more_pods_than_a_kubelet_takes(seed: int) -> None:
    there = most = 0
    for event in day(seed):
        there += {Kind.POD_COMES: 1, Kind.POD_GOES: -1}.get(event.kind, 0)
        most = max(most, there)
    assert len(residents()) < most <= 110


def test_an_hour_of_the_day_is_a_24th_of_the_run() -> None:
    for begun, ended in (
        (Kind.WEBHOOK_AWAY, Kind.WEBHOOK_BACK),
        (Kind.DISK_FULL, Kind.DISK_FREE),
        (Kind.MEMORY_SHORT, Kind.MEMORY_ENOUGH),
    ):
        ((since, until),) = spans(day(), begun, ended, 3600.0)
        assert until - since == pytest.approx(HOUR_RATIO * 3600.0)
        assert until < 3600.0


def test_the_clock_goes_forwards_and_backwards_by_an_hour_and_comes_back() -> None:
    offsets = [event.offset_seconds for event in day() if event.kind is Kind.CLOCK_SET]
    assert offsets == [STEP_SECONDS, 0.0, -STEP_SECONDS, 0.0]


def test_kills_come_at_all_times_but_in_the_calm_after_the_upgrade() -> None:
    kills = [event.second / 3600.0 for seed in range(5) for event in day(seed) if event.kind is Kind.AGENT_KILLED]
    assert len(kills) == 250
    assert not any(0.50 <= kill < 0.65 for kill in kills)
    parts = Counter(int(kill * 20) for kill in kills)
    assert all(parts[part] for part in (*range(10), *range(13, 20)))


def test_more_kills_move_nothing_else() -> None:
    def others(kills: int) -> list[Event]:
        events = schedule(seed=1, seconds=600.0, pods=100, kills=kills)
        return [event for event in events if event.kind is not Kind.AGENT_KILLED]

    assert others(3) == others(9)


def test_what_lasts_to_the_end_of_the_run_has_a_span_too() -> None:
    events = [Event(second=5.0, kind=Kind.DISK_FULL)]
    assert spans(events, Kind.DISK_FULL, Kind.DISK_FREE, 9.0) == [(5.0, 9.0)]


def test_a_role_is_a_pod_with_its_owner_and_its_orders() -> None:
    pod = document("bounded-3", "bounded")
    assert pod["metadata"]["annotations"]["plimsoll.dev/min-cpu"] == "90m"
    assert pod["metadata"]["ownerReferences"][0]["name"] == "bounded-7c5ddbdf54"
    assert pod["spec"]["nodeName"] == HERE
    assert document("stranger-1", "stranger")["spec"]["nodeName"] == ELSEWHERE
    assert "ownerReferences" not in document("bare-1", "bare")["metadata"]
    assert history_key("store") == "workload:soak/StatefulSet/store/app"
    assert {role for role, traits in ROLES.items() if not traits.may_be_resized} >= {"system", "stranger", "off", "job"}
