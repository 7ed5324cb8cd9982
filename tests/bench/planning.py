"""What a plan costs: a node full of pods with two containers each, demands to checked steps; CPU time."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from random import Random

from agent.core.cluster.pod import ContainerStatus
from agent.core.numbers.units import MIB
from agent.core.orders.policy_options import BoundsOptions
from agent.core.plan.needs.demand import Demand, PodDemand
from agent.core.plan.pod_facts import PodFactsCache
from tests.planning import Situation, container, needs, node, pod_demand, wanted

_ROUNDS = 40


def _pod(number: int, random: Random) -> PodDemand:
    """Return a pod as a kubelet reports it; requests are what people write, demands what such pods use."""
    containers = []
    demands = []
    statuses = []
    for name in ("app", "proxy"):
        cpu, memory = random.choice([50, 100, 250, 500]), random.choice([64, 128, 256, 512]) * MIB
        containers.append(container(name, cpu=cpu, memory=memory, memory_limit=2 * memory))
        statuses.append(ContainerStatus(name=name, allocated=containers[-1].resources.requests))
        cpu_base, memory_base = int(cpu * random.uniform(0.1, 1.1)), int(memory * random.uniform(0.3, 1.1))
        demands.append(
            needs(
                name,
                wanted(cpu_base, int(cpu_base * random.uniform(1, 3))),
                wanted(
                    memory_base,
                    int(memory_base * random.uniform(1, 1.6)),
                    limit=int(3 * memory_base),
                    in_use=int(memory_base * 1.2),
                ),
            )
        )
    return pod_demand(f"pod-{number:04}", containers=containers, demands=demands, pod={"statuses": tuple(statuses)})


def _situation(pods: int) -> Situation:
    random = Random(pods)
    bounds = BoundsOptions()
    return node(
        *(_pod(number, random) for number in range(pods)), cpu=pods * 700, memory=pods * 1024 * MIB, bounds=bounds
    )


def _cpu_ms(situation: Situation) -> float:
    """Return the median over rounds; the collector runs between them, as it does between an agent's turns.

    What is read of pods is kept between them, as an agent does: a pod that has not changed is the same object.
    """
    state, taken, cache = situation.state, [], PodFactsCache()
    situation.plan_of(state, cache)
    for _ in range(_ROUNDS):
        gc.collect()
        gc.disable()
        begun = time.process_time_ns()
        situation.plan_of(state, cache)
        taken.append((time.process_time_ns() - begun) / 1e6)
        gc.enable()
    return sorted(taken)[len(taken) // 2]


def _drifted(settled: Situation) -> Situation:
    """Return a settled node some minutes later: what is needed has moved by up to 15 %."""
    random = Random(1)

    def moved(demand: Demand | None) -> Demand | None:
        if demand is None:
            return None
        by = random.uniform(0.85, 1.15)
        return replace(demand, base=int(demand.base * by), peak=int(demand.peak * by))

    return replace(
        settled,
        demands=tuple(
            replace(
                pod,
                containers=tuple(
                    replace(each, cpu=moved(each.cpu), memory=moved(each.memory)) for each in pod.containers
                ),
            )
            for pod in settled.demands
        ),
    )


def measure() -> dict[str, float]:
    """Measure a node's usual turn (a settled node whose needs have drifted), and its first (nearly all has to move)."""
    figures: dict[str, float] = {}
    for pods in (110, 250):
        first = _situation(pods)
        usual = _drifted(first.after(first.plan().steps))
        figures[f"plan_ms_{pods}"] = round(_cpu_ms(usual), 2)
        figures[f"plan_steps_{pods}"] = float(len(usual.plan().steps))
        figures[f"plan_first_ms_{pods}"] = round(_cpu_ms(first), 2)
        figures[f"plan_first_steps_{pods}"] = float(len(first.plan().steps))
    return figures


if __name__ == "__main__":
    for key, figure in measure().items():
        print(f"{key} {figure}")
