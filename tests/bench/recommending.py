"""What a whole node's recommendations cost: live rings and a week of history to answers; CPU time."""

from __future__ import annotations

import time

import numpy as np

from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.history.minute.minutes import Minutes
from agent.core.orders.policy_options import PolicyName
from agent.node.history.clock import HistoryClock
from agent.node.history.file import HistoryFile
from agent.node.history.learner import Learner, widened
from agent.node.recommender.decider import Decider
from agent.node.sampling.heartbeat import SweepHeartbeat
from agent.node.sampling.observer import Observer
from agent.node.sampling.pods_file import NoPods
from agent.node.sampling.unit_table import UnitTable, WatchedUnit
from agent.node.sampling.window_settings import window_policy
from agent.sensing.machine import Machine
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry
from agent.sensing.window_reader import open_window_reader
from agent.settings import Settings
from tests.bench.windows import made_up_rings

NS = 1_000_000_000
WEEK_MINUTES = 7 * 1440
MIB = 1 << 20


class Node:
    """A node of so many containers whose rings and history are full."""

    def __init__(self, containers: int, policy: PolicyName) -> None:
        settings = Settings()
        self.settings = settings
        self.rings = RingFile.open(None, RingGeometry(max_slots=containers), boot_id="bench")
        self.units = UnitTable()
        now_ns = 0
        for number in range(containers):
            path = f"kubepods.slice/kubepods-burstable.slice/pod{number}/container"
            slot = self.rings.attach(path, number + 1, now_monotonic_ns=1)
            raw, memory = made_up_rings(number)
            for row in raw:
                self.rings.append_raw(slot, row)
            for row in memory:
                self.rings.append_memory(slot, row)
            now_ns = max(now_ns, int(raw["monotonic_ns"][-1]))
            identity = UnitIdentity(
                cgroup_path=f"/{path}", kind=UnitKind.CONTAINER, pod_uid=f"u{number}", container_id="c"
            )
            resources = UnitResources(cpu_request_millicores=500, memory_request_bytes=256 * MIB)
            self.units.put(WatchedUnit(slot=slot, inode=number + 1, identity=identity, resources=resources))
        history = HistoryFile.open(None, max_rows=containers)
        self.clock = HistoryClock(
            newest_unix_minute=None, wall=lambda: 1.8e9 + now_ns / NS, monotonic_ns=lambda: now_ns
        )
        self.learner = Learner(history=history, policy=policy, options=settings, pods=NoPods(), clock=self.clock)
        for unit in self.units.all():
            self.learner.place_of(unit.identity)
        random = np.random.default_rng(1)
        newest = int(self.clock.now() // 60) - 1
        for minute in range(newest - WEEK_MINUTES, newest):
            figures = random.lognormal(5, 0.5, history.rows)
            known = np.ones(history.rows, dtype=np.bool_)
            minutes = Minutes(
                unix_minute=minute,
                cpu_usage_millicores=figures,
                cpu_peak_millicores=figures * 1.2,
                has_cpu=known,
                working_set_bytes=np.floor(figures * MIB),
                has_memory=known,
            )
            history.append(minutes)
            self.learner.policy.fold(widened(minutes, self.learner.policy.rows))
        machine = Machine("bench")
        self.observer = Observer(
            rings=self.rings,
            units=self.units,
            machine=machine,
            heartbeat=SweepHeartbeat(1.0, slow_interval_seconds=10.0, sampler_name="native"),
            windows=window_policy(settings, capacity_millicores=8000),
            source="bench",
            clock_ns=lambda: now_ns,
            sums=open_window_reader(self.rings),
        )
        self.decider = Decider(settings=settings, learner=self.learner, node="bench", source="bench")

    def recommend(self) -> int:
        """Take all windows and recommend; give how many got an answer."""
        answers = self.decider.decide(self.observer.statuses(self.units.all()))
        return sum(item.cpu_millicores.request is not None for item in answers.items)


def measure() -> dict[str, float]:
    """Measure; keys as in build/bench.json."""
    figures: dict[str, float] = {}
    for containers in (250, 1000):
        for policy in PolicyName:
            node = Node(containers, policy)
            assert node.recommend() == containers
            times = []
            for _ in range(7):
                before = time.process_time()
                node.recommend()
                times.append((time.process_time() - before) * 1e3)
            suffix = "" if policy is PolicyName.CRUISE else f"_{policy}"
            figures[f"recommend_cpu_ms_{containers}{suffix}"] = round(sorted(times)[3], 2)
    return figures
