"""The index of workloads: what is learnt, and what is answered from it."""

import random
import threading
import tracemalloc
from dataclasses import dataclass, field

import pytest

from agent.core.admission.estimate import Estimate, EstimateSource, NoEstimate
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeClass, Report
from agent.core.orders.policy_options import CraneOptions, CruiseOptions, PolicyName, SizingOptions, VpaOptions
from agent.webhook.workloads.estimates import PolicyAnswer
from agent.webhook.workloads.index import WorkloadIndex
from agent.webhook.workloads.policy_demand import AskedPolicies, Place
from agent.webhook.workloads.shapes import IndexOptions
from tests.webhook.workload_reports import DNS, HOUR, LARGE, MIB, NOON, SMALL, WEB, report, row

DAY = 24 * HOUR
EVENING = NOON + 4 * HOUR
Told = dict[Place, PolicyAnswer]


@dataclass(frozen=True)
class Policies:
    cruise: CruiseOptions = field(default_factory=CruiseOptions)
    vpa: VpaOptions = field(default_factory=VpaOptions)
    crane: CraneOptions = field(default_factory=CraneOptions)
    sizing: SizingOptions = field(default_factory=SizingOptions)


def index_of(*taken: tuple[float, Report], options: IndexOptions | None = None) -> WorkloadIndex:
    index = WorkloadIndex(options or IndexOptions(), Policies())
    for received, node_report in taken:
        index.take(node_report, received)
    index.loaded()
    return index


def estimate(
    index: WorkloadIndex,
    workload: Workload = WEB,
    container: str = "app",
    *,
    policy: PolicyName = PolicyName.CRUISE,
    node: str | None = None,
    node_class: NodeClass | None = None,
    now: float = EVENING,
) -> Estimate | NoEstimate:
    return index.estimate(workload, container, policy=policy, node=node, node_class=node_class, now_unix_seconds=now)


def known(index: WorkloadIndex, *args: str, **kwargs: object) -> Estimate:
    answer = estimate(index, **kwargs)  # type: ignore[arg-type]
    assert isinstance(answer, Estimate), answer
    return answer


# -- estimates ------------------------------------------------------------------------------------------------------


def test_the_request_is_the_predicted_peak_and_the_maximum_that_of_seven_days() -> None:
    # Four hours ago, at noon, 900m; an hour ago 200m, now 100m. Noon is not one of this hour's neighbours.
    index = index_of(
        (NOON + 600, report(row(cpu=900.0, memory=300.0 * MIB))),
        (EVENING - HOUR, report(row(cpu=200.0, memory=100.0 * MIB))),
        (EVENING, report(row(cpu=[50.0] * 9 + [100.0], memory=90.0 * MIB))),
    )
    answer = known(index)
    assert (answer.cpu_request_millicores, answer.cpu_max_millicores) == (200, 900)
    assert (answer.memory_request_bytes, answer.memory_max_bytes) == (100 * MIB, 300 * MIB)
    assert (answer.source, answer.policy) == (EstimateSource.WORKLOAD, PolicyName.CRUISE)
    assert answer.history_seconds == EVENING - NOON - 300
    assert (answer.newest_age_seconds, answer.pods) == (0.0, 1)
    assert answer.oom_memory_bytes is None


def test_the_same_hour_of_the_days_before_is_predicted_and_nothing_older_than_seven_days() -> None:
    index = index_of(
        (EVENING - 7 * DAY - HOUR, report(row(cpu=950.0))),  # the hour from 14 to 15: no neighbour
        (EVENING - 7 * DAY + 600, report(row(cpu=700.0))),
        (EVENING - 2 * DAY + HOUR, report(row(cpu=400.0))),
        (EVENING, report(row(cpu=100.0))),
    )
    answer = known(index, now=EVENING + 600)
    assert (answer.cpu_request_millicores, answer.cpu_max_millicores) == (700, 700)


def test_the_base_is_the_p75_of_all_pods_in_the_newest_hour() -> None:
    index = index_of(
        (EVENING - HOUR, report(row(cpu=[900.0] * 50))),
        (EVENING, report(row(cpu=[10.0] * 10, memory=[float(MIB)] * 10, pod="idle"))),
        (EVENING, report(row(cpu=[100.0] * 10, memory=[50.0 * MIB] * 10, pod="busy"), node="node-b", node_class=LARGE)),
    )
    answer = known(index)
    assert (answer.cpu_base_millicores, answer.memory_base_bytes) == (100, 50 * MIB)
    assert answer.pods == 2


def test_pressure_adjusted_samples_are_taken_where_there_are_any() -> None:
    index = index_of((NOON, report(row(cpu=100.0, adjusted=150.0))), (EVENING, report(row(cpu=100.0, adjusted=130.0))))
    answer = known(index)
    assert (answer.cpu_request_millicores, answer.cpu_max_millicores, answer.cpu_base_millicores) == (130, 150, 130)


def test_what_no_pod_reported_is_not_known() -> None:
    index = index_of((NOON, report(row(cpu=None))), (EVENING, report(row(cpu=None))))
    answer = known(index)
    assert answer.cpu_request_millicores is answer.cpu_max_millicores is answer.cpu_base_millicores is None
    assert answer.memory_request_bytes == 64 * MIB


def test_why_there_is_no_estimate() -> None:
    index = index_of((NOON, report(row())))
    assert estimate(index, Workload(namespace="shop", kind="Deployment", name="x")) is NoEstimate.UNKNOWN_WORKLOAD
    assert estimate(index, container="x") is NoEstimate.UNKNOWN_CONTAINER
    assert estimate(index, now=NOON - 300 + 3599) is NoEstimate.TOO_YOUNG
    assert isinstance(estimate(index, now=NOON - 300 + 3600), Estimate)
    unloaded = WorkloadIndex(IndexOptions(), Policies())
    unloaded.take(report(row()), NOON)
    assert estimate(unloaded) is NoEstimate.NOT_LOADED


def test_history_that_is_all_older_than_seven_days_is_none() -> None:
    assert estimate(index_of((NOON, report(row()))), now=NOON + 7 * DAY) is NoEstimate.TOO_YOUNG


def daemon_set(*extra: tuple[float, Report]) -> WorkloadIndex:
    return index_of(
        (NOON, report(row(DNS, cpu=10.0), node="node-a")),
        (NOON, report(row(DNS, cpu=40.0), node="node-b")),
        (NOON, report(row(DNS, cpu=300.0), node="node-c", node_class=LARGE)),
        *extra,
    )


def test_a_daemon_sets_pod_is_sized_by_its_node_else_by_its_class_else_by_all() -> None:
    index = daemon_set((EVENING - 100, report(row(DNS, cpu=20.0), node="node-new", node_class=SMALL)))
    now = NOON + HOUR
    sizes = {
        name: known(index, workload=DNS, node=name, node_class=node_class, now=EVENING)
        for name, node_class in (("node-a", SMALL), ("node-c", LARGE), ("node-new", SMALL), ("node-x", None))
    }
    assert {name: (size.source.value, size.cpu_max_millicores) for name, size in sizes.items()} == {
        "node-a": ("node", 10),
        "node-c": ("node", 300),
        "node-new": ("node_class", 40),  # its own history is a few minutes old
        "node-x": ("workload", 300),
    }
    assert known(index, workload=DNS, node="node-x", node_class=LARGE, now=now).cpu_max_millicores == 300


def test_a_deployment_has_no_history_by_node() -> None:
    index = index_of((NOON, report(row(cpu=10.0))))
    assert known(index, node="node-a", node_class=SMALL, now=EVENING).source is EstimateSource.NODE_CLASS
    assert index.size().node_rows == 0


def test_kills_of_seven_days_count_by_the_largest() -> None:
    index = index_of(
        (EVENING - 8 * DAY, report(row(kills=[(1.0, 900 * MIB)]))),
        (EVENING - 6 * DAY, report(row(kills=[(1.0, 300 * MIB), (2.0, None)]))),
        (EVENING, report(row(kills=[(10.0, 200 * MIB)]))),
    )
    assert known(index).oom_memory_bytes == 300 * MIB
    assert index.newest_kill(WEB) == EVENING - 10
    assert index.newest_kill(DNS) is None


def test_a_kill_without_a_figure_is_a_kill() -> None:
    index = index_of((NOON, report(row(kills=[(1.0, None)]))))
    assert known(index, now=EVENING).oom_memory_bytes is None
    assert index.newest_kill(WEB) == NOON - 1


# -- other policies -------------------------------------------------------------------------------------------------


def test_another_policy_is_not_answered_before_it_was_worked_out_and_asking_has_it_done() -> None:
    index = index_of((NOON, report(row(), row(container="proxy"))))
    assert estimate(index, policy=PolicyName.VPA) is NoEstimate.NOT_LOADED
    assert due(index) == [(PolicyName.VPA, WEB)]
    by_place: Told = {("app", None): PolicyAnswer(cpu_request_millicores=77, memory_request_bytes=None)}
    index.answer(PolicyName.VPA, WEB, by_place, now_unix_seconds=EVENING)
    answer = known(index, policy=PolicyName.VPA)
    assert (answer.policy, answer.cpu_request_millicores, answer.memory_request_bytes) == (PolicyName.VPA, 77, None)
    assert answer.cpu_max_millicores == 100
    assert estimate(index, container="proxy", policy=PolicyName.VPA) is NoEstimate.NOT_LOADED
    assert estimate(index, policy=PolicyName.CRANE) is NoEstimate.NOT_LOADED


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("policy", PolicyName)
def test_a_young_workload_is_young_under_every_policy(policy: PolicyName, *, is_ordered: bool) -> None:
    index = index_of((NOON, report(row())))
    answer = index.estimate(
        WEB, "app", policy=policy, node=None, node_class=None, now_unix_seconds=NOON, is_ordered=is_ordered
    )
    assert answer is NoEstimate.TOO_YOUNG


def due(index: WorkloadIndex, now: float = EVENING) -> list[tuple[PolicyName, Workload]]:
    return index.due(3600.0, now)


def test_what_is_required_is_due_until_it_is_not_and_cruise_needs_no_asking() -> None:
    index = index_of((NOON, report(row(), row(DNS))))
    index.require({WEB: PolicyName.CRANE, DNS: PolicyName.CRUISE}, now_unix_seconds=EVENING)
    assert due(index) == [(PolicyName.CRANE, WEB)]
    index.require({WEB: PolicyName.VPA, DNS: PolicyName.VPA}, now_unix_seconds=EVENING)
    assert set(due(index)) == {(PolicyName.VPA, WEB), (PolicyName.VPA, DNS)}
    index.expire(NOON + 15 * DAY)
    index.require({WEB: PolicyName.VPA, DNS: PolicyName.VPA}, now_unix_seconds=EVENING)
    assert due(index) == []


def test_what_is_too_young_to_be_sized_is_not_required_yet() -> None:
    index = index_of((NOON, report(row())))
    index.require({WEB: PolicyName.VPA}, now_unix_seconds=NOON + 3000)
    assert due(index) == []
    index.require({WEB: PolicyName.VPA}, now_unix_seconds=NOON + 3600)
    assert due(index) == [(PolicyName.VPA, WEB)]


def test_what_somebody_asked_about_stays_for_a_week() -> None:
    index = index_of((NOON, report(row())))
    estimate(index, policy=PolicyName.VPA)
    index.require({}, now_unix_seconds=EVENING + 7 * DAY - 1)
    assert due(index) == [(PolicyName.VPA, WEB)]
    index.require({}, now_unix_seconds=EVENING + 7 * DAY)
    assert due(index) == []


def test_what_somebody_waits_for_comes_first_and_then_what_was_done_longest_ago() -> None:
    workloads = [Workload(namespace="shop", kind="Deployment", name=name) for name in ("old", "older", "new", "waited")]
    index = index_of((NOON, report(*map(row, workloads))))
    index.require(dict.fromkeys(workloads, PolicyName.VPA), now_unix_seconds=EVENING)
    by_place: Told = {("app", None): PolicyAnswer(cpu_request_millicores=77, memory_request_bytes=None)}
    index.answer(PolicyName.VPA, workloads[0], by_place, now_unix_seconds=EVENING - 3700)
    index.answer(PolicyName.VPA, workloads[1], by_place, now_unix_seconds=EVENING - 3800)
    estimate(index, workloads[3], policy=PolicyName.VPA)
    assert [workload.name for _, workload in due(index)] == ["waited", "new", "older", "old"]
    assert (index.preparation().required, index.preparation().done, index.preparation().waiting) == (4, 2, 2)
    # What was answered lately is not due; what could not be answered is, five minutes later.
    answered: list[Told | None] = [by_place, by_place, {}, None]
    for workload, answers in zip(workloads, answered, strict=True):
        index.answer(PolicyName.VPA, workload, answers, now_unix_seconds=EVENING)
    assert [len(due(index, EVENING + seconds)) for seconds in (299, 300, 3599, 3600)] == [0, 2, 2, 4]


def test_answers_of_twenty_thousand_containers_take_little_memory() -> None:
    asked = AskedPolicies()
    workloads = [Workload(namespace="shop", kind="Deployment", name=f"web-{number}") for number in range(10_000)]
    tracemalloc.start()
    try:
        for number, workload in enumerate(workloads):
            asked.require(PolicyName.VPA, workload)
            by_place: Told = {
                (name, None): PolicyAnswer(
                    cpu_request_millicores=1000 + number, memory_request_bytes=300 * MIB + number
                )
                for name in ("app", "proxy")
            }
            asked.take(PolicyName.VPA, workload, by_place, EVENING)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 8 * MIB


# -- directives -----------------------------------------------------------------------------------------------------


def test_directives_hold_the_peaks_of_other_nodes() -> None:
    index = index_of(
        (NOON, report(row(cpu=100.0, memory=50.0 * MIB), node="node-a")),
        (NOON, report(row(cpu=300.0, memory=40.0 * MIB), node="node-b", node_class=LARGE)),
        (EVENING, report(row(cpu=200.0, memory=None), node="node-c")),
    )
    peaks = {
        node: index.directive_of(WEB, node=node, now_unix_seconds=EVENING)[0]
        for node in ("node-a", "node-b", "node-c", "node-x")
    }
    assert {node: directive.cpu_peak_millicores for node, directive in peaks.items()} == {
        "node-a": 300, "node-b": 200, "node-c": 300, "node-x": 300,
    }  # fmt: skip
    assert peaks["node-a"].memory_peak_bytes == 40 * MIB
    hours = peaks["node-b"].cpu_hour_peaks_millicores
    # The intervals that ended at 12:00 and at 16:00 have their middle in the hours before.
    assert {hour: peak for hour, peak in enumerate(hours) if peak is not None} == {11: 100, 15: 200}
    assert len(hours) == 24


def test_hour_peaks_are_the_largest_of_seven_days() -> None:
    index = index_of(
        (NOON - 8 * DAY, report(row(cpu=900.0), node="node-b")),
        (NOON - 3 * DAY, report(row(cpu=500.0), node="node-b")),
        (NOON, report(row(cpu=300.0), node="node-b")),
    )
    (directive,) = index.directive_of(WEB, node="node-a", now_unix_seconds=NOON)
    assert directive.cpu_hour_peaks_millicores[11] == directive.cpu_peak_millicores == 500


def test_nothing_known_of_other_nodes_is_no_directive_but_kills_are_told_to_all() -> None:
    index = index_of((NOON, report(row(kills=[(1.0, 70 * MIB)]), row(container="proxy"))))
    (directive,) = index.directive_of(WEB, node="node-a", now_unix_seconds=NOON)
    assert (directive.container, directive.oom_memory_bytes) == ("app", 70 * MIB)
    assert directive.cpu_peak_millicores is directive.memory_peak_bytes is None
    assert directive.cpu_hour_peaks_millicores == directive.memory_hour_peaks_bytes == ()
    assert index.directive_of(DNS, node="node-a", now_unix_seconds=NOON) == ()
    both = index.directive_of(WEB, node="node-b", now_unix_seconds=NOON)
    assert [entry.container for entry in both] == ["app", "proxy"]


# -- order ----------------------------------------------------------------------------------------------------------


def reports_at_random(seed: int) -> list[tuple[float, Report]]:
    chance = random.Random(seed)
    reports: list[tuple[float, Report]] = []
    for sequence in range(120):
        node = chance.randrange(6)
        rows = [
            row(
                workload,
                chance.choice(["app", "proxy"]),
                cpu=[chance.uniform(1, 900) for _ in range(5)],
                memory=[chance.uniform(1, 900) * MIB for _ in range(2)],
                pod=f"pod-{chance.randrange(12)}",
                kills=[(5.0, chance.randrange(MIB))] if chance.random() < 0.05 else (),
            )
            for workload in (WEB, DNS)
        ]
        reports.append(
            (
                NOON + chance.uniform(0, 10 * DAY),
                report(*rows, node=f"node-{node}", node_class=(SMALL, LARGE)[node % 2], sequence=sequence),
            )
        )
    return reports


def answers_of(index: WorkloadIndex, now: float) -> list[object]:
    """Ask everything: histories, directives, estimates, workloads; then what is known since the start alone."""
    return [
        [index.merged(workload) for workload in (WEB, DNS)],
        [index.directive_of(WEB, node=f"node-{node}", now_unix_seconds=now) for node in range(7)],
        [
            estimate(index, workload, container, node=f"node-{node}", node_class=SMALL, now=now)
            for workload in (WEB, DNS)
            for container in ("app", "proxy")
            for node in range(7)
        ],
        index.workloads(),
        index.nodes(),
        [index.workloads_on(f"node-{node}") for node in range(7)],
    ]


@pytest.mark.parametrize("seed", range(5))
def test_answers_do_not_depend_on_the_order_of_reports(seed: int) -> None:
    reports = reports_at_random(seed)
    shuffled = list(reports)
    random.Random(seed + 100).shuffle(shuffled)
    now = NOON + 10 * DAY
    index, other = index_of(*reports), index_of(*shuffled)
    assert answers_of(index, now) == answers_of(other, now)


# -- what there is --------------------------------------------------------------------------------------------------


def test_merged_history_tells_hours_classes_and_nodes() -> None:
    index = daemon_set((NOON + HOUR, report(row(DNS, cpu=90.0, kills=[(7.0, MIB)]), node="node-a")))
    merged = index.merged(DNS)
    assert merged is not None
    (container,) = merged.containers
    assert [(history.node_class, history.cpu_base_millicores) for history in container.classes] == [
        (SMALL, 90),
        (LARGE, 300),
    ]
    assert [history.node for history in container.nodes] == ["node-a", "node-b", "node-c"]
    assert [(hour.hour_unix_seconds, hour.cpu_millicores) for hour in container.hours] == [
        (NOON - HOUR, 300.0), (NOON, 90.0),
    ]  # fmt: skip
    (kills,) = container.nodes[0].kills
    assert (kills.newest_unix_seconds, kills.largest_bytes, kills.count) == (NOON + HOUR - 7, MIB, 1)
    assert (merged.first_unix_seconds, merged.last_unix_seconds) == (NOON - 300, NOON + HOUR)
    assert index.merged(WEB) is None


def test_nodes_and_their_workloads_are_those_of_the_newest_report() -> None:
    index = index_of(
        (NOON, report(row(DNS), row(WEB), sequence=2)),
        (NOON - 300, report(row(WEB), sequence=1, node_class=LARGE)),
    )
    (node,) = index.nodes()
    assert (node.name, node.node_class, node.workloads) == ("node-a", SMALL, 2)
    assert (node.first_unix_seconds, node.last_unix_seconds) == (NOON - 600, NOON)
    assert index.workloads_on("node-a") == (DNS, WEB)
    assert index.workloads_on("node-b") == ()
    assert [line.workload for line in index.workloads()] == [DNS, WEB]


def test_rows_beyond_the_limit_are_counted_and_the_others_go_on() -> None:
    options = IndexOptions(max_rows=2, max_node_rows=1)
    index = index_of(
        (NOON, report(row(), row(container="proxy"), row(container="third"))),
        (EVENING, report(row(cpu=300.0))),
        options=options,
    )
    size = index.size()
    assert (size.rows, size.rows_without_room, size.containers, size.workloads) == (2, 1, 3, 1)
    assert known(index).cpu_request_millicores == 300
    assert estimate(index, container="third") is NoEstimate.TOO_YOUNG
    nodes = index_of((NOON, report(row(DNS), node="node-a")), (NOON, report(row(DNS), node="node-b")), options=options)
    assert (nodes.size().node_rows, nodes.size().rows_without_room) == (1, 1)


def test_what_is_not_reported_for_fourteen_days_is_forgotten_and_its_rows_serve_others() -> None:
    options = IndexOptions(max_rows=1, max_node_rows=1)
    index = index_of((NOON, report(row(DNS, cpu=900.0, kills=[(1.0, MIB)]))), options=options)
    assert index.expire(NOON + 14 * DAY) == 0
    assert index.expire(NOON + 14 * DAY + 1) == 1
    assert (index.workloads(), index.nodes(), index.size().rows, index.size().node_rows) == ((), (), 0, 0)
    later = NOON + 14 * DAY + 1
    index.take(report(row(DNS, cpu=5.0), node="node-z"), later)
    index.take(report(row(DNS, cpu=5.0), node="node-z"), later + HOUR)
    answer = known(index, workload=DNS, node="node-z", now=later + HOUR)
    assert (answer.cpu_max_millicores, answer.oom_memory_bytes, answer.pods) == (5, None, 1)


def test_a_workload_that_comes_back_after_a_week_is_young_again() -> None:
    back = NOON + 8 * DAY + 300
    index = index_of((NOON - HOUR, report(row(cpu=900.0))), (back, report(row(cpu=50.0))))
    assert estimate(index, now=back + 60) is NoEstimate.TOO_YOUNG
    assert known(index, now=back + HOUR).cpu_request_millicores == 50


def test_a_kill_of_a_daemon_set_counts_on_all_nodes() -> None:
    index = index_of(
        (NOON, report(row(DNS), node="node-a")), (NOON, report(row(DNS, kills=[(1.0, 250 * MIB)]), node="node-b"))
    )
    there = known(index, workload=DNS, node="node-a", node_class=SMALL)
    assert (there.source, there.oom_memory_bytes) == (EstimateSource.NODE, 250 * MIB)
    index = index_of(
        (NOON, report(row(), node="node-a")),
        (NOON, report(row(kills=[(1.0, 250 * MIB)]), node="node-b", node_class=LARGE)),
    )
    there = known(index, node="node-a", node_class=SMALL)
    assert (there.source, there.oom_memory_bytes) == (EstimateSource.NODE_CLASS, 250 * MIB)


def runs_of_a_job(*, count: int, every_seconds: float) -> list[tuple[float, Report]]:
    return [
        (
            NOON + number * every_seconds,
            report(row(Workload(namespace="shop", kind="Job", name=f"backup-{number}"), pod=f"backup-{number}")),
        )
        for number in range(count)
    ]


def test_runs_of_jobs_are_forgotten_soon_and_take_no_room_from_what_is_sized() -> None:
    index = index_of(*runs_of_a_job(count=3, every_seconds=60.0), options=IndexOptions(max_rows=3))
    assert index.expire(NOON + HOUR) == 0, "the last report of the first run is an hour old, not more"
    assert index.expire(NOON + 121 + HOUR) == 3
    assert index.size().rows == 0
    index.take(report(row(cpu=300.0)), NOON + 121 + HOUR)
    assert known(index, now=NOON + 121 + 2 * HOUR).cpu_request_millicores == 300


def test_kinds_that_are_sized_by_the_settings_are_kept_and_others_are_not() -> None:
    web = Workload(namespace="shop", kind="Rollout", name="web")
    for kinds, gone in (({"Rollout"}, 0), ({"Deployment"}, 1)):
        index = WorkloadIndex(IndexOptions(), Policies(), sized_kinds=kinds)
        index.take(report(row(web)), NOON)
        assert index.expire(NOON + HOUR + 1) == gone


def test_a_node_that_stays_away_is_forgotten_while_its_daemon_set_goes_on() -> None:
    index = daemon_set((NOON + 15 * DAY, report(row(DNS, cpu=20.0), node="node-b")))
    assert index.expire(NOON + 15 * DAY) == 0
    merged = index.merged(DNS)
    assert merged is not None
    assert [history.node for history in merged.containers[0].nodes] == ["node-b"]
    assert [history.node_class for history in merged.containers[0].classes] == [SMALL]
    assert [node.name for node in index.nodes()] == ["node-b"]


def test_a_report_older_than_the_rings_counts_for_the_age_alone() -> None:
    index = index_of((NOON, report(row(cpu=100.0))), (NOON, report(row(cpu=900.0, kills=[(1.0, MIB)]), age=9.0 * DAY)))
    answer = known(index, now=NOON)
    assert (answer.cpu_max_millicores, answer.history_seconds, answer.oom_memory_bytes) == (100, 9 * DAY + 300, None)


# -- threads and room -----------------------------------------------------------------------------------------------


def test_answers_given_while_others_learn_are_of_some_moment_in_between() -> None:
    index = index_of((NOON - HOUR, report(row(cpu=100.0))))
    wrong: list[object] = []
    is_done = threading.Event()

    def ask() -> None:
        while not is_done.is_set():
            answer = estimate(index, now=NOON)
            index.merged(WEB), index.workloads(), index.nodes(), index.size(), index.expire(NOON)
            if not isinstance(answer, Estimate) or not 100 <= (answer.cpu_request_millicores or 0) <= 400:
                wrong.append(answer)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for sequence in range(300):
        rows = [row(cpu=100.0 + sequence, pod=f"pod-{sequence}"), row(DNS, container=f"c-{sequence % 40}")]
        index.take(report(*rows, node=f"node-{sequence % 7}", sequence=sequence), NOON)
    is_done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert known(index, now=NOON).cpu_request_millicores == 399


def test_a_container_takes_less_than_three_kilobytes() -> None:
    count = 3000
    workloads = [Workload(namespace="shop", kind="Deployment", name=f"web-{number}") for number in range(count)]
    cpu = [50.0 * 1.05**step for step in range(25)]
    reports = [
        report(*(row(web, cpu=cpu, pod=f"{web.name}-{node}") for web in workloads), node=f"node-{node}", sequence=node)
        for node in range(4)
    ]
    index = WorkloadIndex(IndexOptions(), Policies())
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for node_report in reports:
        index.take(node_report, NOON)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert index.size().array_bytes == 3072 * 6 * 192 * 2  # three chunks of 1024 rows
    # The reports live in the test: of their names the index has taken over some, 200 bytes a workload at most.
    assert (after - before) / count <= 3500
