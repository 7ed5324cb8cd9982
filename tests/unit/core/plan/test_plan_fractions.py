"""Requests with fractions of a millicore or byte: sums are the scheduler's, which rounds up once per pod."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.pod import CPU, MEMORY, Container, ContainerKind, Pod, Requirements
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.resource import Resource
from agent.core.numbers.units import MIB, NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders.policy_options import BoundsOptions
from agent.core.plan.invariants import QOS, examine
from agent.core.plan.needs.demand import Constraint, Demand, KeptReason, ReservedReason
from agent.core.plan.node_room import counted, holds_room
from agent.core.plan.plan import Phase, PlanStep
from agent.core.plan.pod_change import Change, Setting
from tests.examples import examples
from tests.planning import Situation, container, needs, node, pod_demand, situation_of, wanted

_MANY = examples(150)
_NANOS = ((CPU, NANOS_PER_MILLI), (MEMORY, NANOS_PER_UNIT))


def _fraction(random: Random, nanos: int) -> int:
    return random.choice([0, random.randrange(nanos), 2 * nanos // 3])


def _with_fractions(random: Random, stated: Requirements, *, is_lower: bool) -> Requirements:
    """Return what rounds up to the same whole numbers, or, of a pod's own budget, to one more."""
    requests, limits = dict(stated.requests), dict(stated.limits)
    for name, nanos in _NANOS:
        request, limit = requests.get(name), limits.get(name)
        if request:
            fraction = _fraction(random, nanos)
            requests[name] = request - fraction if is_lower else request + fraction
        if limit:
            is_pair = request == limit
            limits[name] = requests[name] if is_pair else max(limit - _fraction(random, nanos), requests.get(name, 0))
    return Requirements(requests=requests, limits=limits)


def _pod(random: Random, pod: Pod) -> Pod:
    def of(container: Container) -> Container:
        return replace(container, resources=_with_fractions(random, container.resources, is_lower=True))

    variant = replace(
        pod,
        containers=tuple(of(part) for part in pod.containers),
        init_containers=tuple(of(part) for part in pod.init_containers),
        overhead={name: max(0, amount - _fraction(random, NANOS_PER_MILLI)) for name, amount in pod.overhead.items()},
        resources=None if pod.resources is None else _with_fractions(random, pod.resources, is_lower=False),
    )
    spec = {part.name: part.resources.requests for part in variant.sized_containers()}
    variant = replace(variant, statuses=tuple(replace(status, allocated=spec[status.name]) for status in pod.statuses))
    return variant if pod.recorded_qos is None else replace(variant, recorded_qos=computed_qos_class(variant))


def _told(random: Random, demand: Demand | None, more: int) -> Demand | None:
    if demand is None or random.randrange(4):
        return demand
    base = demand.base + random.randint(0, more)
    return replace(demand, foreseen_base=base, foreseen_peak=base + random.randint(0, more))


def _situation(seed: int) -> Situation:
    random, situation = Random(seed), situation_of(seed)
    demands = tuple(
        replace(
            demand,
            pod=_pod(random, demand.pod),
            containers=tuple(
                replace(each, cpu=_told(random, each.cpu, 300), memory=_told(random, each.memory, 30 * MIB))
                for each in demand.containers
            ),
        )
        for demand in situation.demands
    )
    cpu, memory = _held(demand.pod for demand in demands)
    shares = [0.5, 0.8, 0.9, 0.95, 0.99, 1.0]
    return replace(
        situation,
        demands=demands,
        cpu=int(cpu * random.choice(shares)),
        memory=int(memory * random.choice(shares)),
    )


def _held(pods: Iterable[Pod]) -> tuple[int, int]:
    each = [counted(pod) for pod in pods if holds_room(pod)]
    return sum(cpu for cpu, _ in each), sum(memory for _, memory in each)


@_MANY
@given(st.integers(0, 2**32 - 1).map(_situation))
def test_no_prefix_adds_to_a_node_that_starts_over_its_allocatable_and_nobody_is_left_out(situation: Situation) -> None:
    plan = situation.plan()
    assert plan.is_sound
    assert not [pod for pod in plan.pods if pod.reserved is ReservedReason.LEFT_OUT]
    held = _held(demand.pod for demand in situation.demands)
    for length in range(1, len(plan.steps) + 1):
        now = _held(demand.pod for demand in situation.after(plan.steps[:length]).demands)
        assert now[0] <= max(situation.cpu, held[0])
        assert now[1] <= max(situation.memory, held[1])
        held = now


def _crumbs(name: str, many: int, **fields: object) -> dict[str, object]:
    """Return a pod of many containers that request a tenth of a millicore more than a hundred each."""
    resources = Requirements(requests={CPU: 100_100_000, MEMORY: 8 * MIB * NANOS_PER_UNIT})
    containers = [Container(name=f"c{place}", kind=ContainerKind.REGULAR, resources=resources) for place in range(many)]
    return {"name": name, "containers": containers, **fields}


def test_a_pod_of_many_fractions_may_fall_on_a_node_that_is_over_its_allocatable() -> None:
    demands = [needs("c0", wanted(90), wanted(8 * MIB))]
    situation = node(pod_demand(**_crumbs("crumbs", 24, demands=demands)), cpu=2400)  # type: ignore[arg-type]
    assert counted(situation.demands[0].pod)[0] == 2403  # and not 24 x 101
    plan = situation.plan()
    assert (plan.is_sound, [change.after for step in plan.steps for change in step.changes]) == (True, [90])


def test_rounding_of_containers_that_stay_makes_nobody_go() -> None:
    # 1202 millicores and 200: as many as the node has. Rounded one by one the first pod would hold ten more.
    crumbs = pod_demand(**_crumbs("crumbs", 12))  # type: ignore[arg-type]
    web = pod_demand("web", demands=[needs("app", wanted(200), wanted(64 * MIB))])
    plan = node(crumbs, web, cpu=1402).plan()
    assert (plan.is_sound, plan.evictions, plan.cpu.is_infeasible) == (True, (), False)
    assert [(change.before, change.after) for step in plan.steps for change in step.changes] == [(100, 200)]
    assert plan.cpu.reserved + plan.cpu.available == 1402


def test_growth_for_what_others_saw_takes_no_room_that_a_fall_has_given_to_others() -> None:
    # 700 become free by what this node saw of "big", and 400 of them are for "web"; "held" may not fall for now.
    big = pod_demand(
        "big",
        containers=[container(cpu=1000, memory=64 * MIB)],
        demands=[needs("app", replace(wanted(300), foreseen_base=700, foreseen_peak=700), wanted(64 * MIB))],
    )
    web = pod_demand("web", demands=[needs("app", wanted(500), wanted(64 * MIB))])
    held = pod_demand(
        "held",
        containers=[container(cpu=600, memory=64 * MIB)],
        demands=[needs("app", wanted(100), wanted(64 * MIB))],
        is_shrink_barred=True,
    )
    situation = node(big, web, held, cpu=1700)
    plan = situation.plan()
    assert plan.is_sound
    assert not [pod for pod in plan.pods if pod.reserved is ReservedReason.LEFT_OUT]
    assert _held(demand.pod for demand in situation.after(plan.steps).demands)[0] == 300 + 500 + 600


def test_a_class_that_only_rounding_keeps_is_not_kept() -> None:
    """A request of a nano less than its limit: rounded they are equal, to Kubernetes they are not."""
    memory = 64 * MIB * NANOS_PER_UNIT
    stated = Requirements(requests={CPU: 100_000_000 - 1, MEMORY: memory}, limits={CPU: 100_000_000, MEMORY: memory})
    app = Container(name="app", kind=ContainerKind.REGULAR, resources=stated)
    situation = node(pod_demand(containers=[app], demands=[needs("app", wanted(50), wanted(64 * MIB))]))
    plan = situation.plan()
    (pod,) = plan.pods
    changes = tuple(
        Change(container="app", kind=app.kind, resource=Resource.CPU, setting=setting, before=100, after=50)
        for setting in Setting
    )
    step = PlanStep(ref=pod.ref, workload=pod.workload, phase=Phase.SHRINK, changes=changes, reason="")
    broken = {
        invariant.name
        for invariant in examine(replace(plan, steps=(step,)), situation.state).invariants
        if not invariant.holds
    }
    assert QOS in broken


def test_fractions_that_are_kept_do_not_stop_a_node_that_another_s_growth_fills() -> None:
    fraction = Requirements(
        requests={CPU: 100 * NANOS_PER_MILLI, MEMORY: 64 * MIB * NANOS_PER_UNIT - NANOS_PER_UNIT // 2}
    )
    tenant = pod_demand(
        "tenant",
        containers=[Container(name=name, kind=ContainerKind.REGULAR, resources=fraction) for name in ("a", "b")],
        demands=[needs(name, wanted(100), wanted(32 * MIB)) for name in ("a", "b")],
    )
    grows = pod_demand("grows", containers=[container()], demands=[needs("app", wanted(100), wanted(192 * MIB))])
    cool = Constraint(shrink=KeptReason.COOL_DOWN, grow=KeptReason.COOL_DOWN)
    held = 128 * MIB - 1  # both together, as the scheduler rounds them up
    full = node(
        tenant, grows, memory=held + 192 * MIB, constraints={tenant.pod.uid: cool}, bounds=BoundsOptions()
    ).plan()
    assert full.is_sound, full.notes
    assert [(step.ref.name, change.after) for step in full.steps for change in step.changes] == [("grows", 192 * MIB)]
