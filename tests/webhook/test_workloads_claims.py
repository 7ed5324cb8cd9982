"""What one node alone claims of a workload, and what of it counts: for new pods, for other nodes, under each policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from agent.core.admission.estimate import Estimate
from agent.core.cluster.facts import NodeAmounts, WrittenContainer
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import Report
from agent.core.orders.policy_options import PolicyName
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.store.entries.report_payload import encode_report
from agent.webhook.store.shapes import NewReport
from agent.webhook.store.store import Store
from agent.webhook.workloads.folder import Folder, FoldOptions
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.rebuilder import Rebuilder, RebuildOptions
from agent.webhook.workloads.shapes import IndexOptions
from agent.webhook.workloads.tailer import Tailer
from tests.webhook.test_workloads import Policies
from tests.webhook.workload_reports import DNS, HOUR, LARGE, MIB, NOON, WEB, report, row

EVENING = NOON + 4 * HOUR
LIAR = "node-liar"


@dataclass
class Cluster(ClusterFacts):
    """Nodes and templates as a test wants them."""

    amounts: NodeAmounts | None = None
    containers: dict[str, WrittenContainer] = field(default_factory=dict)

    def largest_allocatable(self) -> NodeAmounts | None:
        return self.amounts

    def written(self, workload: Workload) -> Mapping[str, WrittenContainer]:
        return self.containers


def index_of(*taken: tuple[float, Report], cluster: Cluster | None = None) -> WorkloadIndex:
    index = WorkloadIndex(IndexOptions(), Policies(), cluster=cluster or Cluster())
    for received, node_report in taken:
        index.take(node_report, received)
    index.loaded()
    return index


def known(index: WorkloadIndex, workload: Workload = WEB, policy: PolicyName = PolicyName.CRUISE) -> Estimate:
    answer = index.estimate(workload, "app", policy=policy, node=None, node_class=None, now_unix_seconds=EVENING + HOUR)
    assert isinstance(answer, Estimate)
    return answer


HONEST = (NOON, report(row(cpu=100.0, memory=50.0 * MIB)))
LIE = (
    EVENING,
    report(row(cpu=9000.0, memory=9000.0 * MIB, kills=[(1.0, 9000 * MIB)], pod="liar"), node=LIAR, node_class=LARGE),
)


@pytest.mark.parametrize("is_first", [True, False])
def test_one_lie_counts_four_times_what_the_other_saw(is_first: bool) -> None:
    index = index_of(*((LIE, HONEST) if is_first else (HONEST, LIE)))
    size = known(index)
    assert (size.cpu_request_millicores, size.cpu_max_millicores) == (400, 400)
    assert (size.memory_request_bytes, size.memory_max_bytes, size.oom_memory_bytes) == (200 * MIB,) * 3
    assert (size.cpu_base_millicores, size.memory_base_bytes) == (400, 200 * MIB)
    for node in ("node-a", "node-z"):
        (directive,) = index.directive_of(WEB, node=node, now_unix_seconds=EVENING)
        assert (directive.cpu_peak_millicores, directive.memory_peak_bytes, directive.oom_memory_bytes) == (
            400,
            200 * MIB,
            200 * MIB,
        )
        assert max(peak or 0 for peak in directive.cpu_hour_peaks_millicores) == 400


def test_a_workload_on_one_node_is_sized_by_its_word() -> None:
    assert known(index_of(LIE)).cpu_max_millicores == 9000
    largest = Cluster(amounts=NodeAmounts(cpu_millicores=3800, memory_bytes=4000 * MIB))
    size = known(index_of(LIE, cluster=largest))
    assert (size.cpu_max_millicores, size.memory_max_bytes, size.oom_memory_bytes) == (3800, 4000 * MIB, 4000 * MIB)


def test_beside_an_idle_replica_a_busy_one_is_believed_up_to_what_was_written() -> None:
    written = WrittenContainer(
        name="app", cpu_request_millicores=2000, memory_request_bytes=512 * MIB, memory_limit_bytes=1024 * MIB
    )
    idle = (NOON, report(row(cpu=2.0, memory=3.0 * MIB)))
    size = known(index_of(idle, LIE, cluster=Cluster(containers={"app": written})))
    assert (size.cpu_max_millicores, size.memory_max_bytes, size.oom_memory_bytes) == (2000, 512 * MIB, 1024 * MIB)
    assert known(index_of(idle, LIE)).cpu_max_millicores == 8


def test_what_one_node_alone_told_of_memory_is_told_beside_what_counts() -> None:
    size = known(index_of(HONEST, LIE))
    assert (size.memory_max_bytes, size.memory_alone_bytes) == (200 * MIB, 9000 * MIB)
    for alone in (index_of(LIE), index_of(HONEST)):
        assert known(alone).memory_alone_bytes is None


def test_a_daemon_sets_nodes_of_other_sizes_bound_it_in_proportion() -> None:
    index = index_of(
        (NOON, report(row(DNS, cpu=10.0))), (NOON, report(row(DNS, cpu=9000.0), node=LIAR, node_class=LARGE))
    )
    assert known(index, DNS).cpu_max_millicores == 10 * 8 * 4
    (directive,) = index.directive_of(DNS, node="node-a", now_unix_seconds=EVENING)
    assert directive.cpu_peak_millicores == 10 * 8 * 4


@pytest.mark.parametrize("policy", [PolicyName.VPA, PolicyName.CRANE, PolicyName.PLIMSOLL])
def test_under_other_policies_too(store: Store, policy: PolicyName) -> None:
    for hour in range(26):
        received = NOON - (25 - hour) * HOUR
        for number, (node, used) in enumerate((("node-a", 100.0), (LIAR, 9000.0))):
            node_report = report(
                row(cpu=[used] * 300, memory=[used / 2 * MIB] * 30, kills=[(1.0, 9000 * MIB)] * number, pod=node),
                node=node,
                sequence=hour + 1,
            )
            entry = NewReport(
                node=node,
                incarnation="one",
                sequence=hour + 1,
                lost_reports=0,
                received_unix_seconds=received,
                rows=1,
                payload=encode_report(node_report),
            )
            store.append(entry)
    now = NOON + 60.0
    Folder(store, FoldOptions(log_seconds=0.0)).fold_once(True, now_unix_seconds=now)
    index = WorkloadIndex(IndexOptions(), Policies(), cluster=Cluster())
    tailer = Tailer(store, index)
    while tailer.advance(now):
        pass
    index.require({WEB: policy}, now_unix_seconds=now)
    assert Rebuilder(store, index, Policies(), RebuildOptions()).rebuild(now) == 1
    size = known(index, policy=policy)
    # Each policy has margins of its own over what it saw: 44 % at most, and 100 MiB where there was a kill.
    assert 100 <= (size.cpu_request_millicores or 0) <= 400 * 1.44
    assert (size.memory_request_bytes or 0) <= (200 + 100) * MIB * 1.44


def test_of_a_workload_two_hundred_containers_are_kept_and_told_and_the_others_counted() -> None:
    rows = [row(container=f"c{number}", cpu=None) for number in range(2000)]
    index = index_of(*((NOON, report(*rows, sequence=sequence)) for sequence in range(3)))
    size = index.size()
    assert (size.containers, size.rows, size.containers_left_out) == (200, 200, 3 * 1800)
    directives = index.directive_of(WEB, node="node-b", now_unix_seconds=NOON)
    assert len(directives) == 200
    assert [directive.container for directive in directives] == sorted(directive.container for directive in directives)
    assert index.expire(NOON + 15 * 24 * HOUR) == 1
