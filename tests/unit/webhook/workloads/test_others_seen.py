"""What the other nodes saw of many containers at once, held against what each node said."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np

from agent.core.cluster.workload import DAEMON_SET_KIND, Workload
from agent.core.history.minute.minute_codec import Codes
from agent.core.history.reports.directive import HOURS
from agent.core.history.workloads.node_claims import Most, NodeClaim
from agent.core.history.workloads.node_peaks import code_of
from agent.core.history.workloads.peak_rings import CPU, LEADER_PLANES, MEMORY, RING_HOURS, add_leader
from agent.webhook.workloads.estimates import NO_KILLS, RememberedKills, bytes_of, millicores_of
from agent.webhook.workloads.others_seen import SeenContainer, others_saw

WEB = Workload(namespace="shop", kind="Deployment", name="web")
DNS = Workload(namespace="shop", kind=DAEMON_SET_KIND, name="dns")
NODE = 3
ALL = np.ones(RING_HOURS, dtype=np.bool_)

Said = dict[tuple[int, int], dict[int, int]]
"""By resource and slot: the largest code of each node."""


def unbounded(_workload: Workload, _container: str, _cpu: NodeClaim, _memory: NodeClaim) -> Most:
    return Most()


def row_of(lots: random.Random, said: Said) -> Codes:
    planes = np.zeros((LEADER_PLANES, RING_HOURS), dtype=np.uint16)
    for _ in range(lots.randrange(40)):
        resource, slot = lots.choice((CPU, MEMORY)), lots.randrange(RING_HOURS)
        code, node = lots.randrange(1, 9000), lots.randrange(1, 5)
        add_leader(planes, resource, slot, code, node)
        said[resource, slot][node] = max(said[resource, slot].get(node, 0), code)
    return planes


def seen_of(lots: random.Random, number: int, rows: int) -> SeenContainer:
    imported = None
    if not rows or lots.random() < 0.3:
        imported = np.array([[lots.randrange(9000)] * RING_HOURS] * 2, dtype=np.uint16)
    return SeenContainer(
        workload=lots.choice((WEB, DNS)), container=f"c{number}", cpus=(4,) * rows, kills=NO_KILLS, imported=imported
    )


def expected(said: Said, imported: Codes | None, resource: int, slots: list[int]) -> list[int]:
    hours = [0] * HOURS
    for slot in slots:
        nodes = said.get((resource, slot), {})
        code = max((code for node, code in nodes.items() if node != NODE), default=0)
        if not nodes and imported is not None:
            code = int(imported[resource, slot])
        hours[slot % HOURS] = max(hours[slot % HOURS], code)
    return hours


def test_each_container_gets_the_largest_of_all_nodes_but_one_by_hour_of_the_day() -> None:
    lots = random.Random(11)
    for classes in ([1] * 20, [lots.randrange(4) for _ in range(20)]):
        every: list[Said] = [defaultdict(dict) for _ in classes]
        planes = np.stack([row_of(lots, said) for said, rows in zip(every, classes, strict=True) for _ in range(rows)])
        seen = [seen_of(lots, number, rows) for number, rows in enumerate(classes)]
        week = ALL.copy()
        week[lots.sample(range(RING_HOURS), 24)] = False
        before, slots = planes.copy(), np.flatnonzero(week).tolist()
        directives = others_saw(seen, planes, node=NODE, week=week, bounds=unbounded)
        assert (planes == before).all()  # they may be shared
        for container, directive, said in zip(seen, directives, every, strict=True):
            cpu, memory = (expected(said, container.imported, resource, slots) for resource in (CPU, MEMORY))
            assert (directive is not None) == any(cpu + memory)
            if directive is not None:
                assert directive.container == container.container
                assert directive.cpu_peak_millicores == millicores_of(max(cpu))
                assert directive.memory_peak_bytes == bytes_of(max(memory))
                assert directive.cpu_hour_peaks_millicores == (tuple(map(millicores_of, cpu)) if any(cpu) else ())
                assert directive.memory_hour_peaks_bytes == (tuple(map(bytes_of, memory)) if any(memory) else ())


def test_values_and_kills_count_up_to_their_bounds_and_claims_are_those_of_the_leaders() -> None:
    planes = np.zeros((2, LEADER_PLANES, RING_HOURS), dtype=np.uint16)
    add_leader(planes[0], CPU, 5, 900, 7)
    add_leader(planes[0], CPU, 6, 500, 8)
    add_leader(planes[1], MEMORY, 5, 800, 9)
    asked: list[tuple[str, NodeClaim, NodeClaim]] = []

    def bounds(_workload: Workload, container: str, cpu: NodeClaim, memory: NodeClaim) -> Most:
        asked.append((container, cpu, memory))
        return Most(cpu=600, memory=code_of(300), kill_most_kib=300)

    seen = [
        SeenContainer(workload=WEB, container="a", cpus=(4,), kills=NO_KILLS),
        SeenContainer(workload=WEB, container="b", cpus=(4,), kills=RememberedKills(agents=((1 << 30, 9), (5, 9)))),
    ]
    first, second = others_saw(seen, planes, node=NODE, week=ALL, bounds=bounds)
    assert asked == [("a", NodeClaim(900, 500, 7), NodeClaim()), ("b", NodeClaim(), NodeClaim(800, 0, 9))]
    assert first is not None
    assert second is not None
    assert (first.cpu_peak_millicores, first.oom_memory_bytes) == (millicores_of(600), None)
    assert (second.memory_peak_bytes, second.oom_memory_bytes) == (300 << 10, 300 << 10)
