"""The election in simulated time, on a server that answers, loses, delays and refuses as no real one does on demand."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kube.client.errors import ApiError, KubeError, Unreachable
from agent.kube.watch.lease import LeaderLease, LeaseTiming
from tests.examples import examples
from tests.fake_api import Call, FakeApi

TIMING = LeaseTiming(duration_seconds=15, renew_within_seconds=10.0, retry_seconds=2.0)


class World:
    """One Lease, and clocks that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lease: dict[str, Any] | None = None
        self.version = 0

    def answer(self, call: Call) -> object:
        if call.method == "GET":
            if self.lease is None:
                raise ApiError("GET", status=404, reason="NotFound")
            return copy.deepcopy(self.lease)
        written = copy.deepcopy(call.body)
        if call.method == "POST":
            if self.lease is not None:
                raise ApiError("POST", status=409, reason="AlreadyExists")
        elif self.lease is None:
            raise ApiError("PUT", status=404, reason="NotFound")
        elif written["metadata"].get("resourceVersion") != self.lease["metadata"]["resourceVersion"]:
            raise ApiError("PUT", status=409, reason="Conflict")
        self.version += 1
        written["metadata"]["resourceVersion"] = str(self.version)
        self.lease = written
        return copy.deepcopy(written)

    @property
    def spec(self) -> Mapping[str, Any]:
        assert self.lease is not None
        spec: Mapping[str, Any] = self.lease["spec"]
        return spec


class Wire(FakeApi):
    """One replica's way to the server."""

    def __init__(self, world: World) -> None:
        super().__init__(world.answer)
        self.world = world
        self.fate = "good"

    def answer(self, call: Call) -> object:
        fate = self.fate
        if fate == "refused":
            raise ApiError(call.method, status=403, reason="Forbidden", message="no right")
        if fate == "lost":
            raise Unreachable("no answer", may_have_been_done=False)
        answered = super().answer(call)
        if fate == "unanswered" and call.method != "GET":
            raise Unreachable("no answer", may_have_been_done=True)
        if fate == "late":
            self.world.now += 3.0
        return answered


class Replica:
    def __init__(self, world: World, name: str, *, ahead_seconds: float = 0.0, wall: float = 0.0) -> None:
        self.wire = Wire(world)
        self.heard: list[bool] = []
        self.lease = LeaderLease(
            self.wire,
            namespace="plimsoll",
            name="webhook",
            identity=name,
            timing=TIMING,
            clock=lambda: world.now + ahead_seconds,
            wall_clock=lambda: world.now + wall,
            random=lambda: 0.5,
        )
        self.lease.on_change = self.heard.append

    def attempt(self) -> bool:
        self.lease.attempt()
        return self.lease.is_leader


def test_the_first_makes_the_lease_and_the_second_waits_for_as_long_as_it_is_renewed() -> None:
    world = World()
    # A day between the walls' clocks, and monotonic clocks that began at other times, change nothing.
    first, second = Replica(world, "a"), Replica(world, "b", ahead_seconds=5e6, wall=86_400.0)
    assert first.attempt()
    assert world.spec["holderIdentity"] == "a"
    assert world.spec["renewTime"] == "1970-01-01T00:16:40.000000Z"
    for _ in range(20):
        assert not second.attempt()
        world.now += 2.0
        assert first.attempt()
    assert (first.heard, second.heard) == ([True], [])
    assert (second.lease.holder, second.lease.trouble) == ("a", None)
    assert world.spec["leaseTransitions"] == 0


def test_who_is_no_longer_answered_gives_up_before_the_other_takes_over() -> None:
    world = World()
    first, second = Replica(world, "a"), Replica(world, "b")
    first.attempt()
    second.attempt()
    first.wire.fate = "lost"
    taken = None
    for elapsed in range(1, 30):
        world.now += 1.0
        first.attempt()
        if second.attempt() and taken is None:
            taken = elapsed
        assert first.lease.is_leader == (elapsed < 10)
    assert taken == 15
    assert first.heard == [True, False]
    assert first.lease.trouble == "no answer"
    assert world.spec["leaseTransitions"] == 1
    first.wire.fate = "good"
    assert not first.attempt()
    assert first.lease.trouble is None


def test_a_lease_that_is_given_back_is_taken_at_once_and_nothing_is_led_before_it_is_sent() -> None:
    world = World()
    first, second = Replica(world, "a"), Replica(world, "b")
    first.attempt()
    second.attempt()

    seen: list[bool] = []
    answer = first.wire.answer

    def watched(call: Call) -> object:
        seen.append(first.lease.is_leader)
        return answer(call)

    first.wire.answer = watched  # type: ignore[method-assign]
    first.lease.stop()
    first.lease._release()
    assert seen == [False]
    assert first.heard == [True, False]
    assert (world.spec["holderIdentity"], world.spec["leaseDurationSeconds"]) == ("", 1)
    assert second.attempt()
    assert second.lease.holder == "b"


def test_who_does_not_lead_gives_nothing_back() -> None:
    world = World()
    first, second = Replica(world, "a"), Replica(world, "b")
    first.attempt()
    second.attempt()
    second.lease._release()
    assert world.spec["holderIdentity"] == "a"


def test_a_writing_that_was_not_answered_may_have_been_done_and_is_taken_up() -> None:
    world = World()
    first = Replica(world, "a")
    first.wire.fate = "unanswered"
    assert not first.attempt()
    assert world.spec["holderIdentity"] == "a"
    first.wire.fate = "good"
    assert first.attempt()
    assert world.spec["leaseTransitions"] == 0


def test_another_writer_between_two_renewals_is_looked_at_anew() -> None:
    world = World()
    first = Replica(world, "a")
    first.attempt()
    assert world.lease is not None
    world.lease["metadata"] |= {"resourceVersion": "77", "labels": {"by": "hand"}}
    assert first.attempt()
    assert world.lease["metadata"]["labels"] == {"by": "hand"}
    # Given to somebody else by hand: over at once.
    world.lease["spec"]["holderIdentity"] = "c"
    world.lease["metadata"]["resourceVersion"] = "78"
    assert not first.attempt()
    assert first.heard == [True, False]


def test_the_time_counts_from_before_a_slow_answer() -> None:
    world = World()
    first = Replica(world, "a")
    first.wire.fate = "late"
    assert first.attempt()
    world.now += 10.0 - 3.0 - 0.1  # the answer itself took the 3 s
    assert first.lease.is_leader
    world.now += 0.2
    assert not first.lease.is_leader


@pytest.mark.parametrize("duration", [None, -5, 10**9])
def test_a_duration_that_is_none_is_not_believed(duration: int | None) -> None:
    world = World()
    first, second = Replica(world, "a"), Replica(world, "b")
    first.attempt()
    assert world.lease is not None
    world.lease["spec"]["leaseDurationSeconds"] = duration
    second.attempt()
    world.now += 14.0
    assert not second.attempt()
    world.now += 3600.0
    assert second.attempt()


@pytest.mark.parametrize("spec", ["text", {"holderIdentity": 7}, {"leaseTransitions": "x"}])
def test_a_lease_that_is_not_understood_is_left_alone(spec: object) -> None:
    world = World()
    world.lease = {"metadata": {"resourceVersion": "1"}, "spec": spec}
    first = Replica(world, "a")
    for _ in range(3):
        assert not first.attempt()
        world.now += 100.0
    assert "is not" in (first.lease.trouble or "")
    assert world.lease["spec"] == spec


def test_a_missing_right_is_told() -> None:
    first = Replica(World(), "a")
    first.wire.fate = "refused"
    assert not first.attempt()
    assert "403 Forbidden: no right" in (first.lease.trouble or "")


def test_a_listener_that_fails_does_not_end_the_election() -> None:
    def fail(_: bool) -> None:
        raise RuntimeError

    world = World()
    first = Replica(world, "a")
    first.lease.on_change = fail
    assert first.attempt()
    world.now += 20.0
    assert first.attempt()


def test_timings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="each must be less than the next"):
        LeaseTiming(duration_seconds=10, renew_within_seconds=10.0)
    with pytest.raises(ValueError, match="identity is empty"):
        LeaderLease(Wire(World()), namespace="n", name="l", identity="")


MOVES = st.tuples(
    st.sampled_from("abc"),
    st.sampled_from(["good", "good", "good", "lost", "unanswered", "late", "refused"]),
    st.floats(min_value=0.0, max_value=12.0),
    st.booleans(),
)


@examples(300)
@given(st.lists(MOVES, min_size=5, max_size=60))
def test_whatever_happens_no_two_lead_at_once(moves: list[tuple[str, str, float, bool]]) -> None:
    world = World()
    replicas = {name: Replica(world, name, ahead_seconds=1e4 * index) for index, name in enumerate("abc")}
    leaders = 0
    for name, fate, pause, gives_back in moves:
        replica = replicas[name]
        replica.wire.fate = fate
        if gives_back and pause < 1.0:
            try:
                replica.lease._release()
            except KubeError:  # pragma: no cover  it takes them itself
                raise AssertionError from None
        else:
            replica.lease.attempt()
        leading = [who for who, other in replicas.items() if other.lease.is_leader]
        assert len(leading) <= 1, leading
        leaders += len(leading)
        world.now += pause
        assert sum(other.lease.is_leader for other in replicas.values()) <= 1
