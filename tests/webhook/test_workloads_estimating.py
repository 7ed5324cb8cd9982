"""Policies other than cruise, worked out from the store's sketches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest

from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.cluster.workload import Workload
from agent.core.history.minute.minutes import Minutes
from agent.core.history.reports.rollup import NodeClass
from agent.core.history.workloads.hour_sketch import HourSketch, ReportInterval
from agent.core.history.workloads.sketch_minutes import unfold
from agent.core.numbers.arrays import Floats
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.policy import Present
from agent.core.recommender.registry import make
from agent.webhook.store.shapes import StoreAway, StoredSketch
from agent.webhook.store.store import Store
from agent.webhook.workloads.folder import Folder
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.rebuilder import Rebuilder, RebuildOptions
from tests.generated_traces import RECIPES, START_UNIX_MINUTE, load
from tests.webhook.test_tailing import AT_ONCE, append, follow, replica
from tests.webhook.test_workloads import Policies
from tests.webhook.workload_reports import DNS, HOUR, LARGE, MIB, NOON, SMALL, WEB, report, row

POLICIES = Policies()


def rebuilder(store: Store, index: WorkloadIndex) -> Rebuilder:
    return Rebuilder(store, index, POLICIES, RebuildOptions())


def asked(
    index: WorkloadIndex, policy: PolicyName, now: float, workload: Workload = WEB, container: str = "app"
) -> Estimate | NoEstimate:
    return index.estimate(workload, container, policy=policy, node=None, node_class=None, now_unix_seconds=now)


def worked_out(worker: Rebuilder, now: float) -> int:
    """Work out all that is due; how many workloads."""
    total = 0
    while count := worker.rebuild(now):
        total += count
    return total


def day_of_reports(store: Store) -> float:
    """Two replicas on nodes of two classes, a report an hour for a day: 100m and 300m, 300 and 200 MiB."""
    sequence = 0
    for hour in range(24):
        for node, node_class, cpu, memory in (("node-a", SMALL, 100.0, 300.0), ("node-b", LARGE, 300.0, 200.0)):
            sequence += 1
            rows = row(cpu=[cpu] * 300, memory=memory * MIB, pod=f"web-{node}"), row(container="proxy", cpu=1.0)
            append(store, report(*rows, node=node, node_class=node_class, sequence=sequence), NOON + hour * HOUR)
    now = NOON + 23.0 * HOUR
    Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=now)
    return now


def answering(store: Store) -> tuple[float, WorkloadIndex]:
    """An index that knows that day, and has its answers under vpa worked out; the moment, too."""
    now = day_of_reports(store)
    index, tailer = replica(store)
    follow(tailer, now)
    index.require({WEB: PolicyName.VPA}, now_unix_seconds=now)
    rebuilder(store, index).rebuild(now)
    return now, index


def test_an_answer_is_there_once_it_was_worked_out_for_what_was_asked(store: Store) -> None:
    now = day_of_reports(store)
    index, tailer = replica(store)
    follow(tailer, now)
    worker = rebuilder(store, index)
    assert worker.rebuild(now) == 0
    assert asked(index, PolicyName.VPA, now) is NoEstimate.NOT_LOADED
    assert worker.rebuild(now) == 1
    answer = asked(index, PolicyName.VPA, now)
    assert isinstance(answer, Estimate)
    assert (answer.policy, answer.source, answer.pods) == (PolicyName.VPA, EstimateSource.WORKLOAD, 2)
    # Half of all samples are at 300m: the P90 is there, its bucket ends 5 % above at most, plus the margin of 15 %.
    assert answer.cpu_request_millicores is not None
    assert 300 * 1.15 <= answer.cpu_request_millicores <= 300 * 1.15 * 1.11
    assert answer.memory_request_bytes is not None
    assert 300 * 1.15 <= answer.memory_request_bytes / MIB <= 300 * 1.15 * 1.06
    # Two containers share the pod's least CPU of 25m, cut off as the original does.
    proxy = asked(index, PolicyName.VPA, now, container="proxy")
    assert isinstance(proxy, Estimate)
    assert proxy.cpu_request_millicores == 12
    assert asked(index, PolicyName.CRANE, now) is NoEstimate.NOT_LOADED


def test_it_is_worked_out_again_when_it_is_old_and_not_before(store: Store) -> None:
    now = day_of_reports(store)
    index, tailer = replica(store)
    follow(tailer, now)
    worker = rebuilder(store, index)
    asked(index, PolicyName.CRANE, now)
    asked(index, PolicyName.PLIMSOLL, now)
    assert [worked_out(worker, now + later) for later in (0, 3599, 3600)] == [2, 0, 2]
    assert isinstance(asked(index, PolicyName.PLIMSOLL, now), Estimate)


def test_cruise_stands_in_for_plimsoll_until_it_is_worked_out_and_for_a_nodes_own_history(store: Store) -> None:
    for hour in range(24):
        for number, (node, node_class, cpu) in enumerate((("node-a", SMALL, 100.0), ("node-b", LARGE, 600.0))):
            rows = row(DNS, cpu=[cpu] * 300, memory=cpu * MIB, pod=f"dns-{node}")
            sequence = 2 * hour + number
            append(store, report(rows, node=node, node_class=node_class, sequence=sequence), NOON + hour * HOUR)
    now = NOON + 23.0 * HOUR
    Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=now)
    index, tailer = replica(store)
    follow(tailer, now)

    def estimated(node: str | None) -> tuple[PolicyName, PolicyName | None, EstimateSource]:
        estimate = index.estimate(
            DNS, "app", policy=PolicyName.PLIMSOLL, node=node, node_class=SMALL, now_unix_seconds=now
        )
        assert isinstance(estimate, Estimate)
        return estimate.policy, estimate.stands_in_for, estimate.source

    cruise, plimsoll = PolicyName.CRUISE, PolicyName.PLIMSOLL
    assert estimated(None) == estimated("node-new") == (cruise, plimsoll, EstimateSource.NODE_CLASS)
    assert worked_out(rebuilder(store, index), now) == 1
    assert estimated(None) == estimated("node-new") == (plimsoll, None, EstimateSource.NODE_CLASS)
    assert estimated("node-a") == (cruise, plimsoll, EstimateSource.NODE)


class Hours:
    """A store without sketches, which keeps the hours it is asked for."""

    def __init__(self) -> None:
        self.days: list[int] = []

    def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterable[StoredSketch]:
        self.days.append(len(list(unix_hours)) // 24)
        return ()


def test_only_what_a_policy_remembers_is_read(store: Store) -> None:
    now = day_of_reports(store)
    index, tailer = replica(store)
    follow(tailer, now)
    hours = Hours()
    worker = Rebuilder(hours, index, POLICIES, RebuildOptions())  # type: ignore[arg-type]
    for policy in (PolicyName.VPA, PolicyName.PLIMSOLL):
        asked(index, policy, now)
        worker.rebuild(now)
    assert hours.days == [14, 7]


def test_kills_count_in_it(store: Store) -> None:
    append(store, report(row(memory=100.0 * MIB, kills=[(1.0, 900 * MIB)])), NOON)
    Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=NOON)
    index, tailer = replica(store)
    follow(tailer, NOON)
    index.require({WEB: PolicyName.VPA}, now_unix_seconds=NOON + HOUR)
    rebuilder(store, index).rebuild(NOON + HOUR)
    answer = asked(index, PolicyName.VPA, NOON + HOUR)
    assert isinstance(answer, Estimate)
    assert answer.memory_request_bytes is not None
    assert answer.memory_request_bytes >= 1000 * MIB


def test_without_a_readable_sketch_there_is_no_answer(store: Store) -> None:
    append(store, report(row()), NOON)
    index, tailer = replica(store)
    follow(tailer, NOON)
    index.require({WEB: PolicyName.VPA}, now_unix_seconds=NOON + HOUR)
    worker = rebuilder(store, index)
    assert worker.rebuild(NOON + HOUR) == 1
    assert asked(index, PolicyName.VPA, NOON + HOUR) is NoEstimate.NOT_LOADED
    (key,) = index.places(WEB)
    store.fold(1, [StoredSketch(key=str(key), unix_hour=NOON // HOUR - 1, payload=b"\x01nonsense")], 0, base_id=0)
    assert worker.rebuild(NOON + 2 * HOUR) == 1
    assert asked(index, PolicyName.VPA, NOON + HOUR) is NoEstimate.NOT_LOADED


class Away:
    def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterable[StoredSketch]:
        raise StoreAway("database away")


def test_with_the_store_away_what_was_answered_stays(store: Store) -> None:
    now, index = answering(store)
    before = asked(index, PolicyName.VPA, now)
    away = Rebuilder(Away(), index, POLICIES, RebuildOptions())  # type: ignore[arg-type]
    assert away.rebuild(now + 3600.0) == 0
    assert index.due(3600.0, now + 3600.0) == [(PolicyName.VPA, WEB)]
    assert asked(index, PolicyName.VPA, now) == before


class Broken:
    def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterable[StoredSketch]:
        raise RuntimeError("a fault in here")


def test_what_fails_waits_so_that_others_come_and_what_was_answered_stays(store: Store) -> None:
    now, index = answering(store)
    before = asked(index, PolicyName.VPA, now)
    assert isinstance(before, Estimate)
    with pytest.raises(RuntimeError, match="a fault in here"):
        Rebuilder(Broken(), index, POLICIES, RebuildOptions()).rebuild(now + 3600.0)  # type: ignore[arg-type]
    assert index.due(3600.0, now + 3600.0) == []
    assert asked(index, PolicyName.VPA, now) == before


def test_of_a_daemon_set_there_is_an_answer_for_each_class_of_nodes(store: Store) -> None:
    for hour in range(24):
        for number, (node, node_class, cpu) in enumerate((("node-a", SMALL, 100.0), ("node-b", LARGE, 600.0))):
            rows = row(DNS, cpu=[cpu] * 300, memory=cpu * MIB, pod=f"dns-{node}"), row(DNS, container="proxy", cpu=1.0)
            append(
                store, report(*rows, node=node, node_class=node_class, sequence=2 * hour + number), NOON + hour * HOUR
            )
    now = NOON + 23.0 * HOUR
    Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=now)
    index, tailer = replica(store)
    follow(tailer, now)
    index.require({DNS: PolicyName.VPA}, now_unix_seconds=now)
    assert rebuilder(store, index).rebuild(now) == 1
    estimates: dict[NodeClass | None, Estimate] = {}
    for place in (SMALL, LARGE, None):
        answer = index.estimate(
            DNS, "app", policy=PolicyName.VPA, node="node-a", node_class=place, now_unix_seconds=now
        )
        assert isinstance(answer, Estimate)
        estimates[place] = answer
    assert [estimate.source for estimate in estimates.values()] == [
        EstimateSource.NODE_CLASS,
        EstimateSource.NODE_CLASS,
        EstimateSource.WORKLOAD,
    ]
    small, large, everywhere = (estimate.cpu_request_millicores or 0 for estimate in estimates.values())
    assert 100 * 1.15 <= small <= 100 * 1.15 * 1.11
    assert 600 * 1.15 <= large <= 600 * 1.15 * 1.11
    assert everywhere == large
    assert (estimates[SMALL].memory_max_bytes, estimates[LARGE].memory_max_bytes) == (100 * MIB, 600 * MIB)
    # Two containers share the pod's least CPU of 25m, whatever the number of classes.
    proxy = asked(index, PolicyName.VPA, now, DNS, "proxy")
    assert isinstance(proxy, Estimate)
    assert proxy.cpu_request_millicores == 12


@pytest.mark.parametrize("policy", PolicyName)
def test_a_daemon_sets_pod_on_a_new_node_starts_from_its_class_under_every_policy(
    store: Store, policy: PolicyName
) -> None:
    for hour in range(24):
        for number, (node, node_class, cpu) in enumerate((("node-a", SMALL, 100.0), ("node-b", LARGE, 600.0))):
            rows = row(DNS, cpu=[cpu] * 300, memory=cpu * MIB, pod=f"dns-{node}")
            append(
                store, report(rows, node=node, node_class=node_class, sequence=2 * hour + number), NOON + hour * HOUR
            )
    now = NOON + 23.0 * HOUR
    Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=now)
    index, tailer = replica(store)
    follow(tailer, now)
    index.require({DNS: policy}, now_unix_seconds=now)
    rebuilder(store, index).rebuild(now)
    requests = []
    for place in (SMALL, LARGE):
        answer = index.estimate(DNS, "app", policy=policy, node="node-new", node_class=place, now_unix_seconds=now)
        assert isinstance(answer, Estimate)
        assert answer.source is EstimateSource.NODE_CLASS
        requests.append(answer.cpu_request_millicores or 0)
    small, large = requests
    assert 100 <= small < 300
    assert large >= 600


def test_many_are_worked_out_in_batches(store: Store) -> None:
    workloads = [Workload(namespace="shop", kind="Deployment", name=f"web-{number}") for number in range(130)]
    rows = [row(workload, cpu=[float(100 + number)] * 20) for number, workload in enumerate(workloads)]
    append(store, report(*rows), NOON)
    Folder(store, AT_ONCE).fold_once(True, now_unix_seconds=NOON)
    index, tailer = replica(store)
    follow(tailer, NOON)
    index.require(dict.fromkeys(workloads, PolicyName.CRANE), now_unix_seconds=NOON + HOUR)
    worker = rebuilder(store, index)
    assert [worker.rebuild(NOON + HOUR) for _ in range(4)] == [64, 64, 2, 0]
    answers = [asked(index, PolicyName.CRANE, NOON + HOUR, workload) for workload in workloads]
    sizes = [answer.cpu_request_millicores for answer in answers if isinstance(answer, Estimate)]
    assert len(sizes) == 130
    assert sizes[0] == 229  # 100m lie in Crane's bucket of 0.1 to 0.2 cores; plus 15 %, cut off
    assert None not in sizes


# How far answers from sketches are from those from the real minutes; the docstring of the module quotes this.
LARGEST_CPU_ERROR = {PolicyName.VPA: 0.12, PolicyName.CRANE: 0.0, PolicyName.PLIMSOLL: 0.01, PolicyName.CRUISE: 0.001}
DAYS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The same days of the generated loads minute by minute: as they were, and as they come out of sketches."""

    cpu: Floats
    memory: Floats
    real: list[Minutes]
    rebuilt: list[Minutes]


@pytest.fixture(scope="module")
def told() -> Told:
    loads = [load(recipe, days=DAYS) for recipe in RECIPES]
    count, minutes = len(loads), loads[0].cpu_millicores.size
    cpu = np.stack([pod.cpu_millicores for pod in loads], axis=1)
    adjusted = np.stack([pod.cpu_millicores * (1.0 if pod.psi is None else 1.0 + pod.psi) for pod in loads], axis=1)
    memory = np.stack([pod.memory_bytes for pod in loads], axis=1)
    everywhere = np.ones(count, dtype=np.bool_)
    real = [
        Minutes(
            unix_minute=START_UNIX_MINUTE + minute,
            cpu_usage_millicores=cpu[minute],
            cpu_peak_millicores=adjusted[minute],
            has_cpu=everywhere,
            working_set_bytes=memory[minute],
            has_memory=everywhere,
        )
        for minute in range(minutes)
    ]
    rebuilt = []
    for first in range(0, minutes, 60):
        hour = (START_UNIX_MINUTE + first) // 60
        sketches = {index: HourSketch() for index in range(count)}
        for start in range(first, first + 60, 5):
            seconds = (START_UNIX_MINUTE + start) * 60
            interval = ReportInterval(start_unix_seconds=seconds, end_unix_seconds=seconds + 300, unix_hour=hour)
            five = slice(start, start + 5)
            for index, sketch in sketches.items():
                seen = row(cpu=cpu[five, index], adjusted=adjusted[five, index], memory=memory[five, index])  # type: ignore[arg-type]
                sketch.add(seen, interval, 1)
        unfolded = unfold(hour, sketches, count)
        rebuilt += [unfolded.minute(minute) for minute in range(60)]
    return Told(cpu=cpu, memory=memory, real=real, rebuilt=rebuilt)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGEST_CPU_ERROR)
def test_answers_from_sketches_are_near_those_from_minutes(name: PolicyName, told: Told) -> None:
    cpu, memory = told.cpu, told.memory
    minutes, count = cpu.shape
    everywhere = np.ones(count, dtype=np.bool_)
    real, rebuilt = make(name, POLICIES, count), make(name, POLICIES, count)
    for policy, days in ((real, told.real), (rebuilt, told.rebuilt)):
        for minute in days:
            policy.fold(minute)
    present = Present(
        cpu_base_millicores=cpu[-10:].mean(axis=0),
        has_cpu=everywhere,
        memory_base_bytes=memory[-10:].max(axis=0),
        has_memory=everywhere,
        pod_containers=np.ones(count, dtype=np.int64),
        wants_whole_cores=~everywhere,
    )
    now = (START_UNIX_MINUTE + minutes) * 60.0
    expected, answer = (policy.recommend(np.arange(count), present, now_unix_seconds=now) for policy in (real, rebuilt))
    cpu_error = np.abs(answer.cpu_request_millicores / expected.cpu_request_millicores - 1.0)
    memory_error = np.abs(answer.memory_request_bytes / expected.memory_request_bytes - 1.0)
    assert cpu_error.max() <= LARGEST_CPU_ERROR[name]
    assert np.median(cpu_error) <= 0.025
    assert memory_error.max() <= 0.001
