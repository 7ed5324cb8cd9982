from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.buffers.placeholder_options import PlaceholderOptions
from agent.core.buffers.placeholder_pod import BUFFER_UID, PlaceholderShape
from agent.core.buffers.placeholder_state import PlaceholderState, after_creation, after_refusal, after_refused_resize
from agent.core.buffers.placeholders import (
    NEXT_PASS_SECONDS,
    UNSEEN_SECONDS,
    PlaceholderPlan,
    PlaceholderWish,
    Resizing,
    buffer_uid_of,
    plan_placeholders,
    stem_of,
)
from agent.core.cluster.pod import Pod, Requirements
from agent.core.orders.annotations import PLACEHOLDER
from tests.placeholders import BUFFER, OPTIONS, container, content, placeholder_pod, read, shape_of

NOW = 1_800_000_000.0
SHAPE = shape_of(content())
LARGER = shape_of(content(container("app", cpu="1", memory="64Mi")))
OTHER = shape_of(content(nodeSelector={"disk": "ssd"}))
STEM = "spare-room-0b1d2"


def pod(number: int, shape: PlaceholderShape = SHAPE, **status: Any) -> Pod:
    return read(placeholder_pod(shape, f"{STEM}-{number}", **status))


def terminating(number: int) -> Pod:
    return replace(pod(number), is_terminating=True)


def plan(
    replicas: int | None,
    *pods: Pod,
    shape: PlaceholderShape | None = SHAPE,
    state: PlaceholderState | None = None,
    now: float = NOW,
    options: PlaceholderOptions = OPTIONS,
    can_resize: bool = True,
) -> PlaceholderPlan:
    return plan_placeholders(
        PlaceholderWish(buffer=BUFFER, replicas=replicas, shape=shape),
        pods,
        state or PlaceholderState(),
        now_unix_seconds=now,
        options=options,
        can_resize=can_resize,
    )


def made(work: PlaceholderPlan) -> list[int]:
    return [int(name.rpartition("-")[2]) for name in work.creations]


def removed(work: PlaceholderPlan) -> list[int]:
    return [int(name.rpartition("-")[2]) for name, _ in work.removals]


# -- how many ------------------------------------------------------------------------------------------------------


def test_missing_pods_are_made_under_the_lowest_free_numbers() -> None:
    work = plan(4, pod(1), terminating(2))
    assert made(work) == [0, 3, 4]
    assert work.creations[0] == f"{stem_of(BUFFER)}-0"
    assert work.again_seconds == UNSEEN_SECONDS


def test_a_pass_that_is_made_again_before_the_watch_shows_anything_makes_nothing_twice() -> None:
    first = plan(3)
    again = plan(3, state=first.state, now=NOW + 1)
    assert (made(first), made(again)) == ([0, 1, 2], [])
    late = plan(3, pod(0), state=first.state, now=NOW + UNSEEN_SECONDS)
    assert made(late) == [1, 2]


def test_what_is_there_as_it_should_be_is_left() -> None:
    work = plan(2, pod(0), pod(1))
    assert (work.creations, work.removals, work.resizings, work.again_seconds) == ((), (), (), None)
    assert (work.standing.ready, work.standing.missing) == (2, 0)


def test_too_many_go_from_those_without_a_node_to_the_highest_numbers() -> None:
    pods = [pod(0), pod(1, phase="Pending"), pod(2, node=None), pod(3), pod(4, OTHER)]
    for wanted in range(5):
        # What comes after the surplus is what is replaced because it is another.
        assert removed(plan(wanted, *pods))[: 5 - wanted] == [2, 4, 1, 3, 0][: 5 - wanted]


def test_a_pod_of_a_strange_name_is_the_last_to_go() -> None:
    strange = read(placeholder_pod(SHAPE, "spare-extra"))
    assert removed(plan(1, strange, pod(1))) == [1]


def test_what_was_removed_is_not_counted_while_it_is_still_seen() -> None:
    first = plan(1, pod(0), pod(1))
    assert removed(first) == [1]
    assert removed(plan(1, pod(0), pod(1), state=first.state, now=NOW + 1)) == []
    # It never went: it is removed once more.
    assert removed(plan(1, pod(0), pod(1), state=first.state, now=NOW + UNSEEN_SECONDS)) == [1]
    # Nor is it a loss when it goes.
    gone = plan(1, pod(0), state=first.state, now=NOW + 1)
    assert gone.state.hold_until_unix_seconds is None


def test_what_was_made_and_is_not_seen_yet_is_counted() -> None:
    first = plan(4, pod(0), pod(1))
    assert removed(plan(2, pod(0), pod(1), state=first.state, now=NOW + 1)) == [1, 0]


def test_where_the_number_is_not_known_nothing_is_made_or_removed() -> None:
    work = plan(None, pod(0), pod(1, OTHER), shape=None)
    assert (work.creations, work.removals, work.resizings) == ((), (), ())
    assert (work.standing.wanted, work.standing.ready) == (None, 2)


def test_a_chunk_that_requests_nothing_keeps_no_pods() -> None:
    work = plan(3, pod(0), shape=None)
    assert removed(work) == [0]
    assert (work.standing.wanted, work.standing.asked) == (0, 3)
    assert plan(0).creations == ()


def test_ended_pods_are_removed_and_their_numbers_are_free_afterwards() -> None:
    failed = pod(0, phase="Failed")
    work = plan(2, failed, pod(1))
    assert removed(work) == [0]
    assert made(work) == [2]
    assert removed(plan(None, failed, shape=None)) == [0]
    assert removed(plan(1, failed, state=work.state, now=NOW + 1)) == []


# -- bounds --------------------------------------------------------------------------------------------------------


def test_one_pass_does_a_bounded_number_of_things_and_the_next_is_soon() -> None:
    few = replace(OPTIONS, pods_per_pass=2)
    first = plan(5, options=few)
    assert (made(first), first.again_seconds) == ([0, 1], NEXT_PASS_SECONDS)
    less = plan(0, *(pod(number) for number in range(5)), options=few)
    assert (removed(less), less.again_seconds) == ([4, 3], NEXT_PASS_SECONDS)
    wide = plan(3, *(pod(number) for number in range(3)), shape=LARGER, options=few)
    assert ([resizing.name[-1] for resizing in wide.resizings], wide.again_seconds) == (["2", "1"], NEXT_PASS_SECONDS)


def test_no_buffer_has_more_pods_than_may_be() -> None:
    options = replace(OPTIONS, most_pods_per_buffer=2)
    work = plan(2**31 - 1, pod(0), options=options)
    assert made(work) == [1]
    assert (work.standing.wanted, work.standing.asked) == (2, 2**31 - 1)


def test_while_many_wait_for_a_node_no_more_are_made() -> None:
    options = replace(OPTIONS, most_waiting=2)
    waiting = [pod(number, node=None) for number in range(2)]
    assert made(plan(5, options=options)) == [0, 1]
    work = plan(5, *waiting, options=options)
    assert (made(work), work.standing.waiting) == ([], 2)


# -- giving way ----------------------------------------------------------------------------------------------------


def test_pods_that_gave_way_are_made_again_later_each_time() -> None:
    options = replace(OPTIONS, first_back_off_seconds=30.0, most_back_off_seconds=100.0)
    state, now = plan(1, pod(0)).state, NOW
    waits = []
    for _ in range(4):
        lost = plan(1, state=state, now=now, options=options)
        assert lost.creations == ()
        assert lost.standing.hold_until_unix_seconds is not None
        waits.append(lost.standing.hold_until_unix_seconds - now)
        assert lost.again_seconds == waits[-1]
        now += waits[-1]
        back = plan(1, state=lost.state, now=now, options=options)
        assert made(back) == [0]
        state = plan(1, pod(0), state=back.state, now=now + 1, options=options).state
        now += 2
    assert waits == [30.0, 60.0, 100.0, 100.0]
    calm = plan(1, state=state, now=now + 101.0, options=options)
    assert calm.standing.hold_until_unix_seconds == now + 131.0


def test_losses_while_it_waits_belong_to_the_first() -> None:
    state = plan(3, pod(0), pod(1), pod(2)).state
    first = plan(3, pod(0), pod(1), state=state)
    second = plan(3, pod(0), state=first.state, now=NOW + 2)
    assert second.state.setbacks == 1
    assert second.standing.hold_until_unix_seconds == NOW + 32
    assert second.standing.missing == 2


def test_a_pod_that_failed_gave_way_too() -> None:
    state = plan(1, pod(0)).state
    work = plan(1, pod(0, phase="Failed"), state=state)
    assert (removed(work), work.creations) == ([0], ())
    assert work.standing.hold_until_unix_seconds == NOW + 30


def test_while_it_waits_pods_of_an_old_shape_are_not_given_up() -> None:
    held = replace(PlaceholderState(), setbacks=1, hold_until_unix_seconds=NOW + 10)
    pods = [*(pod(number) for number in range(7)), pod(7, node=None)]
    assert removed(plan(8, *pods, shape=OTHER)) == [7, 6]  # a quarter of eight
    # Nothing is given up with the one that has no node; the others would not be made again before the hold is over.
    assert removed(plan(8, *pods, shape=OTHER, state=held)) == [7]


def test_a_refusal_holds_back_and_is_forgotten_when_one_is_made() -> None:
    first = plan(2)
    refused = after_refusal(
        first.state, first.creations[1:], "exceeded quota: q", now_unix_seconds=NOW, options=OPTIONS
    )
    assert list(refused.made) == [first.creations[0]]
    held = plan(2, pod(0), state=refused, now=NOW + 1)
    assert (held.creations, held.standing.refusal) == ((), "exceeded quota: q")
    assert made(plan(2, pod(0), state=refused, now=NOW + 30)) == [1]
    assert after_creation(refused).refusal is None
    assert after_creation(first.state) is first.state


# -- other sizes, other shapes -------------------------------------------------------------------------------------


def test_amounts_of_cpu_and_memory_are_changed_in_place() -> None:
    work = plan(1, pod(0), shape=LARGER)
    wanted = Requirements(requests={"cpu": 10**9, "memory": 64 * 2**20 * 10**9})
    resizing = Resizing(name=f"{STEM}-0", uid=f"uid-{STEM}-0", containers=(("room", wanted),))
    assert (work.resizings, work.removals) == ((resizing,), ())
    assert (work.standing.ready, work.standing.changing) == (0, 1)


def test_what_a_namespace_adds_is_not_taken_for_a_difference() -> None:
    document = placeholder_pod(SHAPE, f"{STEM}-0")
    document["spec"]["containers"][0]["resources"]["limits"] = {"memory": "1Gi"}
    assert plan(1, read(document)).resizings == ()


@pytest.mark.parametrize("case", ["server", "node", "starting", "shape", "class", "refused"])
def test_what_cannot_be_changed_in_place_is_replaced(case: str) -> None:
    shape, before, state, can_resize = LARGER, pod(0), PlaceholderState(), True
    if case == "server":
        can_resize = False
    elif case == "node":
        before = pod(0, node=None)
    elif case == "starting":
        before = pod(0, phase="Pending")
    elif case == "shape":
        shape = OTHER
    elif case == "class":
        both = {"cpu": "1", "memory": "64Mi"}
        before = pod(0, shape_of(content(container("app", both, **both))))
        shape = shape_of(content(container("app", both, cpu="500m", memory="64Mi")))
    else:
        state = after_refused_resize(state, before.uid)
    work = plan(1, before, shape=shape, state=state, can_resize=can_resize)
    assert (removed(work), work.resizings, work.creations) == ([0], (), ())
    assert work.again_seconds == NEXT_PASS_SECONDS
    after = plan(1, shape=shape, state=work.state, now=NOW + 1)
    assert made(after) == [0]


def test_only_a_part_is_replaced_at_once() -> None:
    pods = [pod(number) for number in range(9)]
    first = plan(9, *pods, shape=OTHER)
    assert removed(first) == [8, 7, 6]  # a quarter of nine, rounded up
    assert first.again_seconds == NEXT_PASS_SECONDS


def resized(reason: str, since: float | None) -> Pod:
    condition = {"type": "PodResizePending", "status": "True", "reason": reason}
    if since is not None:
        condition["lastTransitionTime"] = "2027-01-15T08:00:00Z"
    placeholder = pod(0, LARGER, conditions=[condition])
    return replace(
        placeholder,
        conditions=tuple(replace(entry, last_transition_unix_seconds=since) for entry in placeholder.conditions),
    )


def test_a_resize_that_is_put_off_too_long_becomes_a_new_pod() -> None:
    patient = plan(1, resized("Deferred", NOW - 10), shape=LARGER)
    assert (patient.removals, patient.again_seconds, patient.standing.changing) == ((), 20.0, 1)
    assert removed(plan(1, resized("Deferred", NOW - 30), shape=LARGER)) == [0]
    assert removed(plan(1, resized("Infeasible", None), shape=LARGER)) == [0]


def test_a_resize_under_way_is_not_yet_ready() -> None:
    moving = pod(0, conditions=[{"type": "PodResizeInProgress", "status": "True"}])
    work = plan(1, moving)
    assert (work.removals, work.standing.ready, work.standing.changing) == ((), 0, 1)


def test_what_the_kubelet_has_not_granted_yet_is_not_ready() -> None:
    def granted(cpu: str) -> PlaceholderPlan:
        return plan(1, pod(0, containerStatuses=[{"name": "room", "allocatedResources": {"cpu": cpu}}]))

    assert granted("500m").standing.ready == 1
    assert (granted("499m").standing.ready, granted("499m").standing.changing) == (0, 1)


# -- how it stands -------------------------------------------------------------------------------------------------


def test_standing_counts_each_pod_once() -> None:
    words: list[Any] = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]
    pods = [pod(0), pod(1, phase="Pending"), pod(2, node=None, conditions=words), pod(3, node=None), terminating(4)]
    standing = plan(6, *pods).standing
    assert (standing.ready, standing.starting, standing.waiting, standing.changing) == (1, 1, 2, 0)
    assert (standing.missing, standing.waiting_words) == (2, "0/1 nodes are available")


# -- whose ---------------------------------------------------------------------------------------------------------


def test_only_a_marked_pod_that_its_buffer_controls_is_a_buffers() -> None:
    document = placeholder_pod(SHAPE, "a")
    assert buffer_uid_of(read(document)) == BUFFER.uid
    labels = document["metadata"]["labels"]
    for strange in ({BUFFER_UID: BUFFER.uid}, {PLACEHOLDER: "true"}, {**labels, BUFFER_UID: "another"}):
        assert buffer_uid_of(read(placeholder_pod(SHAPE, "a", metadata={"labels": strange}))) is None
    owner = document["metadata"]["ownerReferences"][0]
    for owners in ([], [{**owner, "controller": False}], [{**owner, "kind": "ReplicaSet"}]):
        assert buffer_uid_of(read(placeholder_pod(SHAPE, "a", metadata={"ownerReferences": owners}))) is None


def test_names_are_short_and_another_buffers_are_others() -> None:
    long = replace(BUFFER, name="a" * 39 + ".-" + "b" * 100)
    assert stem_of(long) == "a" * 39 + "-room-0b1d2"
    assert stem_of(replace(BUFFER, uid="11111111")) != stem_of(BUFFER)


# -- anything ------------------------------------------------------------------------------------------------------


@given(
    steps=st.lists(
        st.tuples(st.one_of(st.none(), st.integers(0, 12)), st.integers(0, 3), st.booleans(), st.integers(1, 40)),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_happens_there_are_never_more_than_asked_for_and_in_the_end_as_many(
    steps: list[tuple[int | None, int, bool, int]],
) -> None:
    """A cluster in small: pods are made and removed as planned, some are lost, now and then the shape changes."""
    options = replace(OPTIONS, pods_per_pass=4, first_back_off_seconds=5.0, most_back_off_seconds=20.0)
    pods: dict[str, Pod] = {}
    state, now, serial, wanted = PlaceholderState(), NOW, 0, 0
    shape = SHAPE

    def turn(replicas: int | None) -> PlaceholderPlan:
        nonlocal state, serial
        work = plan(replicas, *pods.values(), state=state, now=now, options=options, shape=shape)
        state = work.state
        for name, uid in work.removals:
            assert pods[name].uid == uid
            del pods[name]
        for resizing in work.resizings:
            assert pods[resizing.name].uid == resizing.uid
            pods[resizing.name] = replace(
                pods[resizing.name], containers=read(placeholder_pod(shape, resizing.name)).containers
            )
        for name in work.creations:
            assert name not in pods
            serial += 1
            pods[name] = replace(read(placeholder_pod(shape, name)), uid=f"uid-{serial}")
        return work

    for replicas, losses, is_other, seconds in steps:
        before = len(pods)
        work = turn(replicas)
        assert len(work.creations) + len(work.removals) <= 2 * options.pods_per_pass
        if replicas is None:
            assert len(pods) == before
        else:
            wanted = replicas
            assert len(pods) <= max(replicas, before - 1)
        for name in sorted(pods)[:losses]:
            del pods[name]
        if is_other:
            shape = OTHER if shape is SHAPE else LARGER if shape is OTHER else SHAPE
        now += seconds
    for _ in range(40):
        now += 30.0
        last = turn(wanted)
    assert len(pods) == wanted
    assert (last.creations, last.removals, last.resizings) == ((), (), ())
    assert last.standing.ready == wanted
