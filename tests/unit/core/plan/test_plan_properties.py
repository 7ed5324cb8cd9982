"""What holds of every plan of every node."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import Pod
from agent.core.cluster.qos import computed_qos_class
from agent.core.plan.node_room import counted, fits_now, holds_room
from agent.core.plan.pod_change import changed_pod
from agent.core.plan.pod_facts import PodFactsCache
from tests.examples import examples
from tests.planning import Situation, calm, lowered, protected, situations

_MANY = examples(150)


def _held(pods: dict[str, Pod]) -> tuple[int, int]:
    each = [counted(pod) for pod in pods.values() if holds_room(pod)]
    return sum(cpu for cpu, _ in each), sum(memory for _, memory in each)


def _spec(situation: Situation) -> list[tuple[object, ...]]:
    return [
        (demand.pod.uid, demand.pod.containers, demand.pod.init_containers, demand.pod.resources)
        for demand in situation.demands
    ]


@_MANY
@given(situations())
def test_every_invariant_holds(situation: Situation) -> None:
    plan = situation.plan()
    assert [str(invariant) for invariant in plan.invariants if not invariant.holds] == []
    assert not any("fault of Plimsoll" in note for note in plan.notes)


@_MANY
@given(situations())
def test_after_every_prefix_the_node_holds_its_pods_and_no_pod_is_broken(situation: Situation) -> None:
    start = {demand.pod.uid: demand.pod for demand in situation.demands}
    held = _held(start)
    allocatable = (situation.cpu, situation.memory)
    plan = situation.plan()
    for length in range(1, len(plan.steps) + 1):
        after = situation.after(plan.steps[:length])
        pods = {demand.pod.uid: demand.pod for demand in after.demands}
        now = _held(pods)
        for resource in (0, 1):
            assert now[resource] <= max(allocatable[resource], held[resource])
        held = now
        for uid, pod in pods.items():
            assert computed_qos_class(pod) is computed_qos_class(start[uid])
            stated = [container.resources for container in pod.sized_containers()]
            if pod.resources is not None:
                stated.append(pod.resources)
                for container in pod.sized_containers():
                    for name, limit in container.resources.limits.items():
                        assert limit <= pod.resources.limits.get(name, limit)
            for resources in stated:
                for name, limit in resources.limits.items():
                    assert not limit or resources.requests.get(name, 0) <= limit


@_MANY
@given(situations())
def test_a_plan_that_was_applied_leaves_nothing_to_do(situation: Situation) -> None:
    plan = situation.plan()
    again = situation.after(plan.steps).plan()
    assert again.steps == ()
    assert [eviction.ref for eviction in again.evictions] == [eviction.ref for eviction in plan.evictions]


@_MANY
@given(situations(), st.integers(0, 30))
def test_a_plan_that_was_interrupted_leads_to_the_same_end(situation: Situation, length: int) -> None:
    plan = situation.plan()
    end = _spec(situation.after(plan.steps))
    part = situation.after(plan.steps[:length])
    rest = part.plan()
    assert _spec(part.after(rest.steps)) == end


@_MANY
@given(situations(), st.randoms(use_true_random=False))
def test_the_order_of_pods_does_not_matter(situation: Situation, random: object) -> None:
    shuffled = list(situation.demands)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert replace(situation, demands=tuple(shuffled)).plan() == situation.plan()


@_MANY
@given(situations())
def test_steps_done_one_after_the_other_fit_when_their_turn_comes(situation: Situation) -> None:
    plan = situation.plan()
    current = situation
    for step in plan.steps:
        assert fits_now(current.state, step) or _is_overfull(current, step.ref.uid)
        pod = next(demand.pod for demand in current.demands if demand.pod.uid == step.ref.uid)
        assert changed_pod(pod, step.changes) != pod
        current = current.after([step])


def _is_overfull(situation: Situation, uid: str) -> bool:
    held = _held({demand.pod.uid: demand.pod for demand in situation.demands})
    return held[0] > situation.cpu or held[1] > situation.memory


@_MANY
@given(situations())
def test_a_burst_makes_nobody_go_and_moves_nobody_else(situation: Situation) -> None:
    plan, before = situation.plan(), calm(situation).plan()
    assert [eviction.ref for eviction in plan.evictions] == [eviction.ref for eviction in before.evictions]
    assert plan.cpu.is_infeasible == before.cpu.is_infeasible
    assert plan.memory.is_infeasible == before.memory.is_infeasible


@_MANY
@given(situations())
def test_what_is_seen_together_makes_nobody_go_and_is_shared_out_as_far_as_there_is_room(situation: Situation) -> None:
    alone = replace(situation, joint_millicores=None).plan()
    most = replace(situation, joint_millicores=10**6).plan()
    plan = situation.plan()
    for each in (plan, most):
        assert [eviction.ref for eviction in each.evictions] == [eviction.ref for eviction in alone.evictions]
        assert each.cpu.is_infeasible == alone.cpu.is_infeasible
        assert each.memory == alone.memory
    assert alone.cpu.headroom <= plan.cpu.headroom <= most.cpu.headroom
    # All of the headroom is somebody's: each share is off by less than it is rounded by.
    shares = [
        share
        for pod in plan.pods
        if pod.reserved is None and not pod.is_evicted
        for container in (*pod.containers, *(() if pod.budget is None else (pod.budget,)))
        if (share := container.cpu) is not None and share.spike
    ]
    lost = plan.cpu.headroom - sum(share.headroom for share in shares)
    assert abs(lost) <= len(shares) * situation.bounds.round_cpu_millicores
    assert all(share.headroom <= share.spike for share in shares)


@_MANY
@given(situations())
def test_what_is_read_of_pods_once_is_as_good_as_what_is_read_anew(situation: Situation) -> None:
    cache = PodFactsCache()
    plan = situation.plan_of(situation.state, cache)
    assert plan == situation.plan()
    for after in (situation.after(plan.steps), situation.after(plan.steps, is_actuated=False)):
        assert after.plan_of(after.state, cache) == after.plan()


@_MANY
@given(situations())
def test_changes_come_in_the_order_of_the_spec(situation: Situation) -> None:
    pods = {demand.pod.uid: demand.pod for demand in situation.demands}
    for step in situation.plan().steps:
        names = [*(container.name for container in pods[step.ref.uid].sized_containers()), ""]
        places = [names.index(change.container) for change in step.changes]
        assert places == sorted(places)


@_MANY
@given(situations(), st.booleans())
def test_mode_protect_lowers_nothing_evicts_nobody_and_then_stands_still(situation: Situation, is_mixed: bool) -> None:
    every = protected(situation)
    if is_mixed:
        pairs = zip(situation.demands, every.demands, strict=True)
        every = replace(every, demands=tuple(pair[place % 2] for place, pair in enumerate(pairs)))
    assert lowered(every) == []
    assert every.after(every.plan().steps).plan().steps == ()
