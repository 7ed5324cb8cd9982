from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.autoscalers.options import Preserve
from agent.core.autoscalers.preserved_target import (
    CALM_RATIO,
    MovableTargets,
    PreservedError,
    PreservedTarget,
    TargetLook,
    TargetMove,
    most_percent,
    movable_percents,
    next_move,
    parse_preserved,
    preserved_to_text,
    why_not,
)
from agent.core.cluster.facts import FrozenAxes, WorkloadRequests
from agent.core.cluster.hpa import CONTAINER_RESOURCE_METRIC, RESOURCE_METRIC, HpaMetric
from agent.core.cluster.resource import Resource
from tests.pods import container, make_pod

CPU, MEMORY = Resource.CPU, Resource.MEMORY
FOLLOW, RESTORE, OFF = Preserve.FOLLOW, Preserve.RESTORE, Preserve.OFF
GIB = 1 << 30
KEPT = PreservedTarget(resource=CPU, percent=70, request=500, unsized_request=500, written_percent=70)


def look(percent: int = 70, request: int | None = 500, kept: PreservedTarget | None = KEPT, **more: Any) -> TargetLook:
    return TargetLook(resource=CPU, percent=percent, kept=kept, request=request, **more)


def moved(preserve: Preserve = FOLLOW, **more: Any) -> TargetMove:
    move = next_move(look(**more), preserve)
    assert move is not None
    return move


def test_a_target_that_is_seen_first_is_kept_with_the_requests_of_that_moment_and_not_moved() -> None:
    first = moved(kept=None)
    assert (first.percent, first.kept, first.is_urgent) == (70, KEPT, True)
    assert first.why == "it is seen first: 70 % of 500m CPU is kept from now on"


@pytest.mark.parametrize(
    ("request_now", "percent", "is_urgent"),
    [(300, 117, True), (450, 78, True), (470, 74, False), (1000, 35, True)],  # 70 x 500 / request
)
def test_a_target_follows_the_requests(request_now: int, percent: int, is_urgent: bool) -> None:
    move = moved(request=request_now)
    assert (move.percent, move.kept) == (percent, replace(KEPT, written_percent=percent))
    assert move.is_urgent is is_urgent
    assert next_move(look(percent, request_now, move.kept), FOLLOW) is None, "and never twice"


def test_what_is_off_by_little_waits_but_the_last_percent_back_to_the_original() -> None:
    assert next_move(look(request=490), FOLLOW) is None  # 71.4: 2 % off
    near = replace(KEPT, written_percent=71)
    assert next_move(look(71, 500, near), FOLLOW) == moved(percent=71, kept=near)
    assert moved(percent=71, kept=near).percent == 70


def test_a_target_that_a_person_set_is_a_new_original() -> None:
    ours = replace(KEPT, written_percent=117)
    move = moved(percent=60, request=300, kept=ours)
    assert (move.percent, move.kept) == (60, replace(KEPT, percent=60, request=300, written_percent=60))
    assert move.why == "somebody set it: 60 % of 300m CPU is kept from now on"
    gone = moved(percent=60, request=300, kept=ours, why_not="mode is off")
    assert (gone.percent, gone.kept, gone.why) == (60, None, "somebody set 60 %: it stays so")
    assert moved(RESTORE, percent=60, request=300, kept=ours).kept is None


@pytest.mark.parametrize(
    ("seen", "preserve"),
    [
        (look(kept=None, why_not="mode is off"), FOLLOW),
        (look(kept=None, request=None), FOLLOW),
        (look(kept=None), RESTORE),
        (look(kept=None), OFF),
        (look(request=None), FOLLOW),  # no pod runs: nothing divides by it
        (look(kept=replace(KEPT, percent=0, written_percent=70), request=300), FOLLOW),
    ],
)
def test_in_doubt_nothing_is_written(seen: TargetLook, preserve: Preserve) -> None:
    assert next_move(seen, preserve) is None


def test_an_original_is_put_back_where_requests_are_again_as_before_and_follows_until_then() -> None:
    ours = replace(KEPT, written_percent=117)
    assert next_move(look(117, 300, ours), RESTORE) is None
    half = moved(RESTORE, percent=117, request=400, kept=ours)
    assert (half.percent, half.kept) == (88, replace(KEPT, written_percent=88))
    back = moved(RESTORE, percent=88, request=495, kept=half.kept)
    assert (back.percent, back.kept) == (70, None)
    assert back.why == "70 % is put back: requests are as before they were sized"
    assert moved(RESTORE, percent=117, request=None, kept=ours).percent == 70, "no pod runs"
    theirs = replace(KEPT, percent=60, request=300, written_percent=60)
    back = moved(RESTORE, percent=60, kept=theirs)
    assert (back.percent, back.kept) == (36, None), "what a person set of 300m is 36 % of 500m"
    assert next_move(look(60, 500, replace(theirs, percent=0)), RESTORE) is None


def test_a_target_beyond_the_limits_is_clamped_and_its_requests_are_left_from_then_on() -> None:
    move = moved(request=300, most_percent=100)
    assert move.kept is not None
    assert move.percent == 100
    assert move.kept.left == "117 % is not to be had: requests stay until the target is set anew"
    assert move.why == f"pods request 300m CPU on average; {move.kept.left}"
    assert move.kept.words() == f"70 % of 500m CPU is kept: the target is 100 %, {move.kept.left}"
    assert not move.kept.is_followed(100, 300)
    again = moved(percent=100, request=450, kept=move.kept, most_percent=100)
    assert (again.percent, again.kept) == (78, replace(move.kept, written_percent=78)), "it follows, and stays left"


def test_requests_are_free_only_while_the_target_is_near() -> None:
    assert KEPT.is_followed(70, 500)
    assert KEPT.is_followed(70, 460)  # 76 %
    assert not KEPT.is_followed(70, 440)  # 80 %: an eighth off
    assert not KEPT.is_followed(60, 500), "somebody set it"
    assert not KEPT.is_followed(70, None)
    assert not replace(KEPT, percent=0).is_followed(70, 500)
    assert KEPT.words() == "70 % of 500m CPU is kept: the target is 70 %"
    targets = MovableTargets(namespace="shop", name="web", uid="u", percents={CPU: 70, MEMORY: 80}, kept={CPU: KEPT})
    requests = WorkloadRequests(pods=2, cpu_millicores=1000, memory_bytes=0)
    assert targets.preserved(CPU, requests) == KEPT
    assert targets.preserved(MEMORY, requests) is targets.preserved(CPU, None) is None
    assert replace(targets, percents={}).preserved(CPU, requests) is None
    assert replace(targets, fault="odd").preserved(CPU, requests) is None
    assert (requests.mean(CPU), requests.mean(MEMORY)) == (500, None)
    both = FrozenAxes(cpu_for="x", memory_for="x", cpu_containers=("a",), memory_containers=("a",))
    assert both.without({CPU: KEPT}) == FrozenAxes(memory_for="x", memory_containers=("a",))
    assert both.without([MEMORY]) == FrozenAxes(cpu_for="x", cpu_containers=("a",))


def test_only_a_target_that_is_alone_on_its_resource_and_of_whole_pods_can_be_moved() -> None:
    cpu = HpaMetric(type=RESOURCE_METRIC, resource="cpu", target_percent=70)
    own = HpaMetric(type=CONTAINER_RESOURCE_METRIC, resource="cpu", target_percent=70, container="app")
    memory = HpaMetric(type=RESOURCE_METRIC, resource="memory", target_percent=80)
    value = HpaMetric(type=RESOURCE_METRIC, resource="memory", target_type="AverageValue")
    assert movable_percents([cpu, memory]) == {CPU: 70, MEMORY: 80}
    assert movable_percents([cpu, value]) == {CPU: 70}
    assert movable_percents([cpu, own]) == movable_percents([own]) == movable_percents([cpu, cpu]) == {}
    assert movable_percents([replace(cpu, target_percent=None)]) == {}


def test_which_pods_a_target_is_followed_for_and_how_far() -> None:
    app = container("app", {"cpu": "300m", "memory": "1Gi"}, {"cpu": "1"})
    side = {**container("side", {"cpu": "100m"}, {"cpu": "500m"}), "restartPolicy": "Always"}
    first = container("first", {}, {})
    usual = make_pod(app, initContainers=[first, side])
    assert why_not(usual, CPU) == ""
    assert why_not(usual, MEMORY) == "a container of its pods requests no memory"
    assert most_percent(usual, CPU, 400) == 337  # 0.9 x 1500 / 400
    assert most_percent(usual, MEMORY, GIB) is None
    same = make_pod(container("app", {"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}))
    assert why_not(same, CPU) == "its pods are Guaranteed: their limits move with their requests"
    assert most_percent(same, MEMORY, GIB) == 90
    assert most_percent(same, CPU, 10**9) == 1
    own = make_pod(app, resources={"requests": {"cpu": "1"}})
    assert why_not(own, CPU) == "its pods have resources of their own"


def test_what_is_kept_is_read_as_it_was_written() -> None:
    memory = PreservedTarget(
        resource=MEMORY, percent=80, request=GIB, unsized_request=2 * GIB, written_percent=75, left="why"
    )
    text = preserved_to_text([memory, KEPT])
    assert json.loads(text) == {
        "cpu": {"targetPercent": 70, "requestMillicores": 500, "unsizedMillicores": 500, "writtenPercent": 70},
        "memory": {
            "targetPercent": 80,
            "requestBytes": GIB,
            "unsizedBytes": 2 * GIB,
            "writtenPercent": 75,
            "left": "why",
        },
    }
    assert parse_preserved(text) == {CPU: KEPT, MEMORY: memory}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "not what Plimsoll wrote"),
        ("[]", "not what Plimsoll wrote"),
        ('{"disk": {}}', "not what Plimsoll wrote"),
        ("{" + " " * 5000 + "}", "not what Plimsoll wrote"),
        ("[" * 4000, "not what Plimsoll wrote"),
        ('{"cpu": 7}', "cpu.targetPercent: None is not allowed; allowed: a whole number from 1"),
        ('{"cpu": {"targetPercent": true}}', "cpu.targetPercent: True is not allowed"),
        ('{"cpu": {"targetPercent": 0}}', "cpu.targetPercent: 0 is not allowed"),
        ('{"cpu": {"targetPercent": 70, "requestMillicores": 1e3}}', "cpu.requestMillicores: 1000.0 is not allowed"),
    ],
)
def test_what_is_not_understood_is_no_original(text: str, fault: str) -> None:
    with pytest.raises(PreservedError, match=fault.replace("(", r"\(")):
        parse_preserved(text)


def test_why_it_is_left_may_be_anything_but_stays() -> None:
    text = preserved_to_text([replace(KEPT, left="why")]).replace('"why"', "7")
    assert parse_preserved(text)[CPU].left == "not understood"


def test_what_somebody_wrote_there_is_understood_again_once_it_is_written_again() -> None:
    body = json.loads(preserved_to_text((KEPT,)))
    body["cpu"]["left"] = "\u2603" * 3800
    by_resource = parse_preserved(json.dumps(body, ensure_ascii=False))
    assert parse_preserved(preserved_to_text(by_resource.values())) == by_resource


class Server:
    """One object with its version, as the API server keeps it: target and annotation change in one write."""

    def __init__(self, percent: int) -> None:
        self.version, self.percent, self.text = 0, percent, "{}"

    def write(self, version: int, percent: int, text: str) -> bool:
        if version != self.version:
            return False  # a conflict
        self.version, self.percent, self.text = version + 1, percent, text
        return True

    def take(self, version: int, move: TargetMove) -> bool:
        return self.write(version, move.percent, preserved_to_text([] if move.kept is None else [move.kept]))


EVENTS = st.one_of(
    st.tuples(st.just("request"), st.integers(50, 5000)),
    st.tuples(st.just("person"), st.integers(1, 400)),
    st.tuples(st.just("turn"), st.booleans()),  # whether it is cut off between reading and writing
    st.tuples(st.just("late"), st.just(0)),  # a former leader writes what it decided long ago
)


@given(st.lists(EVENTS, max_size=40), st.integers(1, 400), st.integers(50, 5000))
def test_whatever_is_cut_off_or_restarted_the_set_point_is_the_persons_and_restore_gives_it_back(
    events: list[tuple[str, int]], percent: int, request: int
) -> None:
    server = Server(percent)
    theirs, of = percent, request  # what a person set, and the requests when it was first seen
    unsized = 0  # what they were when the first was taken
    late: tuple[int, TargetMove | None] = (-1, None)
    is_taken = False

    def seen(preserve: Preserve = FOLLOW) -> TargetMove | None:
        """What a process that has just been started decides: it knows the object alone."""
        target = parse_preserved(server.text).get(CPU)
        return next_move(look(server.percent, request, target), preserve)

    for what, value in events:
        if what == "request":
            request = value
        elif what == "person" and value != server.percent:
            theirs, is_taken = value, False
            server.write(server.version, value, server.text)
        elif what == "turn":
            decided = seen()
            late = (server.version, decided) if value else late
            if not value and decided is not None and server.take(server.version, decided) and not is_taken:
                is_taken, of = True, request
        elif what == "late" and late[1] is not None:
            was_taken, late_target = is_taken, late[1].kept
            if server.take(late[0], late[1]) and not was_taken and late_target is not None:
                is_taken, of = True, late_target.request
        if is_taken:
            (target,) = parse_preserved(server.text).values()
            unsized = unsized or target.request
            assert target.unsized_request == unsized
            assert (target.percent, target.request) == (theirs, of), "the original is the person's, whatever happened"
            assert target.written_percent == server.percent
    for _ in range(2):
        decided = seen()
        if decided is not None:
            of = of if is_taken else request
            is_taken = True
            server.take(server.version, decided)
    wanted = max(1, int(theirs * of / request + 0.5))
    assert abs(server.percent - wanted) <= CALM_RATIO * wanted
    (target,) = parse_preserved(server.text).values()
    request = target.unsized_request
    assert unsized in (0, request)
    for preserve in (FOLLOW, RESTORE, RESTORE):
        decided = seen(preserve)
        assert decided is None or server.take(server.version, decided)
    assert (server.percent, server.text) == (max(1, int(theirs * of / request + 0.5)), "{}")
    assert seen(RESTORE) is None
