from __future__ import annotations

from dataclasses import replace

from agent.core.cluster.pod import ContainerKind
from agent.core.numbers.units import MIB
from agent.core.plan.pod_facts import PodFactsCache
from tests.planning import amounts, container, pod_demand, requirements


def test_a_pod_is_read_once_and_again_when_it_is_another_object() -> None:
    cache = PodFactsCache()
    pod = pod_demand("a").pod
    (first,) = cache.facts_of([pod])
    assert cache.facts_of([pod])[0] is first
    grown = replace(pod, containers=(container(cpu=300, memory=MIB),))
    (second,) = cache.facts_of([grown])
    assert (first.counted, second.counted) == ((100, 64 * MIB), (300, MIB))


def test_a_pod_that_is_gone_is_forgotten() -> None:
    cache = PodFactsCache()
    pod, other = pod_demand("a").pod, pod_demand("b").pod
    first = cache.facts_of([pod, other])
    cache.facts_of([other])
    again = cache.facts_of([pod, other])
    assert again[0] is not first[0]
    assert again[1] is first[1]


def test_what_runs_on_is_read_in_the_spec_s_order_and_init_containers_as_floors() -> None:
    pod = pod_demand(
        containers=[
            container("log", kind=ContainerKind.SIDECAR, cpu=40, cpu_limit=80, restarts_for_cpu=True),
            container("setup", kind=ContainerKind.INIT, cpu=250, memory=MIB),
            container("app", memory=MIB, memory_limit=2 * MIB, restarts_for_memory=True),
        ],
        pod={"overhead": amounts(10), "resources": requirements(cpu_limit=900)},
    ).pod
    (facts,) = PodFactsCache().facts_of([pod])
    assert [tuple(part) for part in facts.cpu.containers] == [
        ("log", ContainerKind.SIDECAR, 40, 80, True, 40),
        ("app", ContainerKind.REGULAR, None, None, False, None),
    ]
    assert [part[2:] for part in facts.memory.containers] == [(None, None, False, None), (MIB, 2 * MIB, True, MIB)]
    assert (facts.cpu.stages, facts.cpu.overhead, facts.cpu.is_pod_level) == (((250, 1),), 10, True)
    assert (facts.memory.stages, facts.memory.overhead, facts.memory.is_pod_level) == (((MIB, 1),), 0, False)
