"""Nodes at random with one arbitrarily odd pod: what a tenant writes, and what statuses may say. For tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

from agent.core.cluster.pod import (
    CPU,
    MEMORY,
    RESIZE_PENDING,
    Container,
    ContainerKind,
    ContainerStatus,
    Pod,
    PodCondition,
    Reported,
    Requirements,
)
from agent.core.cluster.qos import computed_qos_class
from agent.core.numbers.units import MIB, NANOS_PER_MILLI, NANOS_PER_UNIT
from agent.core.orders.order import Mode
from agent.core.plan.needs.demand import ContainerDemand, Demand, PodDemand
from agent.core.resize.status import RESIZE_IN_PROGRESS
from tests.planning import Situation, amounts, pod_demand, situation_of

ODD: Final = "odd"
_CPU_AMOUNTS: Final = (0, 1, 10, 100, 400, 5_000, 1_000_000, 2**53 + 1, 2**62)
_MEMORY_AMOUNTS: Final = (0, 1, MIB, 40 * MIB + 1, 2**33, 2**43, 2**53 + 1, 2**62)


def odd_situation(seed: int) -> Situation:
    """Return a node at random, with one more pod that is odd; its uid is ``uid-odd``."""
    random = Random(seed)
    situation = situation_of(seed)
    return replace(situation, demands=(*situation.demands, odd_demand(random)))


def odd_demand(random: Random) -> PodDemand:
    """Return a pod in which anything may be: amounts, annotations, conditions, statuses, gaps."""
    containers = [_container(random, f"c{place}", ContainerKind.REGULAR) for place in range(random.randint(1, 3))]
    if random.random() < 0.3:
        kind = random.choice([ContainerKind.INIT, ContainerKind.SIDECAR])
        containers.insert(0, _container(random, "i0", kind))
    demand = pod_demand(
        ODD,
        containers=containers,
        demands=[
            ContainerDemand(name=spec.name, kind=spec.kind, cpu=_demand(random, 600), memory=_demand(random, 60 * MIB))
            for spec in containers
            if spec.kind is not ContainerKind.INIT and random.random() < 0.8
        ],
        kind=random.choice(["Deployment", "StatefulSet", "DaemonSet"]),
        order={
            "mode": random.choice([Mode.ENFORCE, Mode.ENFORCE, Mode.ENFORCE, Mode.OFF]),
            "min_cpu_millicores": random.choice([None, 0, 0, 1]),
            "min_memory_bytes": random.choice([None, 0, 0, MIB]),
            "max_cpu_millicores": random.choice([None, None, 1, 2**40]),
            "max_memory_bytes": random.choice([None, None, MIB, 2**60]),
            "is_guaranteed_allowed": True,
        },
    )
    return replace(demand, pod=_odd(random, demand.pod))


def _odd(random: Random, pod: Pod) -> Pod:
    if random.random() < 0.25:
        floor = {
            name: sum(spec.resources.requests.get(name, 0) for spec in pod.sized_containers()) for name in (CPU, MEMORY)
        }
        pod = replace(pod, resources=Requirements(requests=floor if random.random() < 0.7 else {CPU: floor[CPU]}))
    statuses = tuple(
        ContainerStatus(
            name=spec.name, allocated=_reported(random, spec), actual=Reported(requests=_reported(random, spec))
        )
        for spec in pod.sized_containers()
        if random.random() < 0.8
    )
    conditions = []
    if random.random() < 0.7:
        reason = random.choice(["Infeasible", "Infeasible", "Deferred", None, "Other"])
        status = random.choice(["True", "True", "False"])
        conditions.append(PodCondition(type=RESIZE_PENDING, status=status, reason=reason))
    if random.random() < 0.3:
        conditions.append(PodCondition(type=RESIZE_IN_PROGRESS, status="True", reason=random.choice([None, "Error"])))
    return replace(
        pod,
        phase=random.choice(["Running", "Running", "Pending", None]),
        statuses=statuses,
        conditions=tuple(conditions),
        allocated=random.choice([None, amounts(random.choice(_CPU_AMOUNTS), random.choice(_MEMORY_AMOUNTS))]),
        actual=random.choice([None, Reported(), Reported(requests=amounts(random.choice(_CPU_AMOUNTS)))]),
        recorded_qos=random.choice([None, computed_qos_class(pod), computed_qos_class(pod)]),
        overhead=random.choice([{}, {}, amounts(10, MIB)]),
    )


def _reported(random: Random, container: Container) -> Mapping[str, int] | None:
    """Return what a status may say of a container: all it asks for, something else, half of it, nothing."""
    shape = random.randrange(4)
    if shape == 0:
        return None
    if shape == 1:
        return dict(container.resources.requests)
    if shape == 2:
        return {name: amount // 2 for name, amount in container.resources.requests.items()}
    return amounts(random.choice([0, 10, 100, 400]), random.choice([None, MIB, 40 * MIB]))


def _container(random: Random, name: str, kind: ContainerKind) -> Container:
    cpu, memory = _amount(random, _CPU_AMOUNTS), _amount(random, _MEMORY_AMOUNTS)
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    for resource, amount, nanos in ((CPU, cpu, NANOS_PER_MILLI), (MEMORY, memory, NANOS_PER_UNIT)):
        if amount is None:
            continue
        requests[resource] = amount * nanos
        limited = random.randrange(3)
        if limited:
            limits[resource] = requests[resource] * limited
    return Container(name=name, kind=kind, resources=Requirements(requests=requests, limits=limits))


def _amount(random: Random, some: tuple[int, ...]) -> int | None:
    return None if random.random() < 0.1 else random.choice(some)


def _demand(random: Random, most: int) -> Demand | None:
    if random.random() < 0.25:
        return None
    base = random.choice([0, 1, random.randint(0, most)])
    return Demand(
        base=base,
        peak=base + random.choice([0, random.randint(0, most)]),
        limit=random.choice([None, random.randint(0, most)]),
        in_use=random.choice([None, random.randint(0, most)]),
        is_upward_only=random.random() < 0.2,
        is_urgent=random.random() < 0.1,
    )
