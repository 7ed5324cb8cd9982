"""What nodes are told: whom it concerns, that it is whole, and that its ETag stays while nothing of weight changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from agent.core.autoscalers.preserved_target import PreservedTarget
from agent.core.autoscalers.vpa_orders import VpaOrders, VpaSurroundings, vpa_orders
from agent.core.cluster.facts import ClusterRule, ClusterRules, FrozenAxes, PodPlace
from agent.core.cluster.hpa import UtilizationTarget
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import ContainerDirective, WorkloadDirective
from agent.core.history.reports.directive_json import LONGEST_TEXT, directives_from_json, directives_to_json
from agent.core.orders.policy_options import CruiseOptions
from agent.webhook.cluster.facts import ClusterFacts
from agent.webhook.reports.directives import MOST_BYTES, STOP_STEP_SECONDS, Director, NotKnownYet, rounded_up
from agent.webhook.workloads.index import WorkloadIndex
from tests.directives import WEB, peaks
from tests.vpas import vpa

API = Workload(namespace="shop", kind="StatefulSet", name="api")
LOG = Workload(namespace="ops", kind="DaemonSet", name="log")
NOW = datetime(2026, 1, 28, 12, 0, tzinfo=UTC).timestamp()
DAY = 86_400.0


@dataclass
class Facts(ClusterFacts):
    """A cluster whose pods all run on node-a unless told."""

    is_complete: bool = True
    places: dict[str, list[Workload]] = field(default_factory=lambda: {"node-a": [WEB, API, WEB]})
    axes: dict[Workload, FrozenAxes] = field(default_factory=dict)
    targets: dict[Workload, tuple[UtilizationTarget, ...]] = field(default_factory=dict)
    kept: dict[Resource, PreservedTarget] = field(default_factory=dict)
    vpas: dict[Workload, VpaOrders] = field(default_factory=dict)
    alone: dict[Workload, str] = field(default_factory=dict)
    known: ClusterRules = field(default_factory=ClusterRules)
    counts: dict[Workload, int] = field(default_factory=dict)

    def pods_on(self, node: str) -> tuple[PodPlace, ...]:
        return tuple(
            PodPlace(
                uid=f"u{number}",
                namespace=workload.namespace,
                name=f"p{number}",
                node=node,
                workload=workload,
                is_running=True,
                is_terminating=False,
            )
            for number, workload in enumerate(self.places.get(node, []))
        )

    def scaled_by(self, workload: Workload) -> FrozenAxes:
        return self.axes.get(workload, FrozenAxes())

    def preserved(self, workload: Workload) -> Mapping[Resource, PreservedTarget]:
        return self.kept

    def hpa_targets(self, workload: Workload) -> tuple[UtilizationTarget, ...]:
        return self.targets.get(workload, ())

    def vpa_orders(self, workload: Workload) -> VpaOrders | None:
        return self.vpas.get(workload)

    def left_alone_for(self, workload: Workload) -> str | None:
        return self.alone.get(workload)

    def rules(self) -> ClusterRules:
        return self.known

    def replicas(self, workload: Workload) -> int | None:
        return self.counts.get(workload)


@dataclass
class Histories(WorkloadIndex):
    """Peaks by workload; each call says for which node it asked."""

    is_loaded: bool = True
    containers: dict[Workload, tuple[ContainerDirective, ...]] = field(default_factory=dict)
    kills: dict[Workload, float] = field(default_factory=dict)
    reported: dict[str, tuple[Workload, ...]] = field(default_factory=dict)
    asked: list[tuple[Workload, str]] = field(default_factory=list)

    def directives_of(
        self,
        workloads: Sequence[Workload],
        *,
        node: str,
        now_unix_seconds: float,
        pause: Callable[[], None] = lambda: None,
    ) -> list[tuple[ContainerDirective, ...]]:
        pause()
        self.asked += [(workload, node) for workload in workloads]
        return [self.containers.get(workload, ()) for workload in workloads]

    def newest_kill(self, workload: Workload) -> float | None:
        return self.kills.get(workload)

    def workloads_on(self, node: str) -> tuple[Workload, ...]:
        return self.reported.get(node, ())


@dataclass
class Room:
    facts: Facts = field(default_factory=Facts)
    histories: Histories = field(default_factory=Histories)

    def tell(self, node: str = "node-a", at: float = 0.0) -> tuple[WorkloadDirective, ...]:
        return Director(self.facts, self.histories).directives_of(node, NOW + at).workloads

    def etag(self, node: str = "node-a", at: float = 0.0) -> str:
        return Director(self.facts, self.histories).directives_of(node, NOW + at).etag


def test_a_node_is_told_of_its_own_workloads_once_and_in_order() -> None:
    room = Room()
    room.histories.reported = {"node-a": (LOG,), "node-b": (API,)}
    assert [directive.workload for directive in room.tell()] == [LOG, WEB, API]
    assert set(room.histories.asked) == {(LOG, "node-a"), (WEB, "node-a"), (API, "node-a")}
    assert [directive.workload for directive in room.tell("node-b")] == [API]
    assert room.tell("nowhere") == ()


def test_what_is_kept_of_a_target_is_told_beside_the_freeze_which_holds_for_who_does_not_know_of_it() -> None:
    room, hpa = Room(), "HorizontalPodAutoscaler shop/web"
    room.facts.axes = {WEB: FrozenAxes(cpu_for=hpa, memory_for=hpa)}
    room.facts.kept = {
        Resource.CPU: PreservedTarget(
            resource=Resource.CPU, percent=70, request=500, unsized_request=500, written_percent=117
        )
    }
    directive = Director(room.facts, room.histories).directive_of(WEB, NOW)
    assert (directive.cpu_frozen_for, directive.memory_frozen_for) == (hpa, hpa)
    assert (directive.cpu_preserved, directive.memory_preserved) == (
        "70 % of 500m CPU is kept: the target is 117 %",
        None,
    )
    whole = Director(room.facts, room.histories, freezes_axes=False).directive_of(WEB, NOW)
    assert (whole.cpu_frozen_for, whole.cpu_preserved) == (hpa, None)


def test_where_an_axis_may_not_be_frozen_alone_nodes_leave_the_whole_workload() -> None:
    room = Room()
    hpa = "HorizontalPodAutoscaler shop/web"
    for axes in (FrozenAxes(cpu_for=hpa), FrozenAxes(memory_for=hpa)):
        room.facts.axes = {WEB: axes}
        directive = Director(room.facts, room.histories, freezes_axes=False).directive_of(WEB, NOW)
        assert (directive.cpu_frozen_for, directive.memory_frozen_for) == (hpa, hpa)
        other = Director(room.facts, room.histories, freezes_axes=False).directive_of(API, NOW)
        assert (other.cpu_frozen_for, other.memory_frozen_for) == (None, None)
        alone = Director(room.facts, room.histories).directive_of(WEB, NOW)
        assert (alone.cpu_frozen_for, alone.memory_frozen_for) == (axes.cpu_for, axes.memory_for)


def test_everything_that_is_known_is_told_and_survives_the_wire() -> None:
    room = Room()
    room.facts.axes = {WEB: FrozenAxes(cpu_for="HorizontalPodAutoscaler shop/web", memory_for=None)}
    room.facts.alone = {API: "VerticalPodAutoscaler shop/api"}
    room.facts.known = ClusterRules(
        pause_reason="upgrade", rules=(ClusterRule(kind="Deployment", mode="enforce", policy="vpa"),)
    )
    room.facts.counts = {WEB: 3}
    room.histories.containers = {WEB: (peaks("b", oom_memory_bytes=123_456), peaks("a", hours={1: (1234, 5678)}))}
    room.histories.kills = {API: NOW - 3600.0}
    directives = Director(room.facts, room.histories).directives_of("node-a", NOW)
    web, api = directives.workloads
    assert directives.pause_reason == "upgrade"
    assert (web.mode, web.policy, web.replicas) == ("enforce", "vpa", 3)
    assert (web.cpu_frozen_for, web.memory_frozen_for) == ("HorizontalPodAutoscaler shop/web", None)
    assert [container.container for container in web.containers] == ["a", "b"]
    # Rounded up, three digits.
    assert (web.containers[0].cpu_hour_peaks_millicores[1], web.containers[1].oom_memory_bytes) == (1240, 124_000)
    assert (api.mode, api.left_alone_for) == (None, "VerticalPodAutoscaler shop/api")
    assert api.stop_shrinking_seconds == DAY - 3600.0
    text = json.dumps(directives_to_json(directives))
    assert directives_from_json(json.loads(text), etag=directives.etag) == directives


def test_what_an_object_orders_is_told_and_kills_count_as_it_says() -> None:
    room = Room()
    policies = [{"containerName": "b", "mode": "Auto", "oomBumpUpRatio": "2"}]
    room.facts.vpas = {
        WEB: vpa_orders(vpa("Initial", resourcePolicy={"containerPolicies": policies}), VpaSurroundings()),
        API: vpa_orders(replace(vpa("InPlace"), is_managed=True), VpaSurroundings()),
    }
    room.histories.containers = {WEB: (peaks("a", oom_memory_bytes=100), peaks("b", oom_memory_bytes=100))}
    before = room.etag()
    directives = Director(room.facts, room.histories).directives_of("node-a", NOW)
    web, api = directives.workloads
    assert web.autoscaler is not None
    assert (web.autoscaler.name, web.autoscaler.mode, web.autoscaler.eviction_ranking) == (
        "VPA shop/web",
        "recommend",
        None,
    )
    assert '"oomBumpUpRatio":"2"' in (web.autoscaler.container_policies or "")
    assert [container.oom_memory_bytes for container in web.containers] == [100, 200]
    assert api.autoscaler is None
    assert directives_from_json(directives_to_json(directives), etag=directives.etag) == directives
    room.facts.vpas = {WEB: vpa_orders(vpa("InPlace"), VpaSurroundings())}
    without = room.etag()
    assert without != before
    windows = "deny: UTC 0 7 * * * for 1h"
    room.facts.vpas = {WEB: vpa_orders(replace(vpa("InPlace"), windows=windows), VpaSurroundings())}
    (web, _) = room.tell()
    assert web.autoscaler is not None
    assert web.autoscaler.windows == windows
    assert room.etag() != without


def test_while_the_cluster_or_the_history_is_half_read_nothing_is_told() -> None:
    for room in (Room(Facts(is_complete=False)), Room(histories=Histories(is_loaded=False))):
        with pytest.raises(NotKnownYet):
            room.tell()


def test_a_pause_without_a_reason_is_one_and_a_long_one_is_cut() -> None:
    def reason(text: str | None) -> str | None:
        room = Room(Facts(known=ClusterRules(pause_reason=text)))
        return Director(room.facts, room.histories).directives_of("node-a", NOW).pause_reason

    assert (reason(None), reason(" "), reason("x" * 5000)) == (None, "no reason given", "x" * LONGEST_TEXT)


@pytest.mark.parametrize(
    ("amount", "rounded"), [(0, 0), (7, 7), (999, 999), (1000, 1000), (1001, 1010), (123_456, 124_000), (9991, 10_000)]
)
def test_amounts_are_rounded_up_to_three_digits(amount: int, rounded: int) -> None:
    assert rounded_up(amount) == rounded


def test_the_etag_stays_from_minute_to_minute_and_over_small_peaks() -> None:
    room = Room()
    room.histories.containers = {WEB: (peaks(hours={12: (1231, 40_010_000)}, cpu_peak_millicores=1231),)}
    room.histories.kills = {API: NOW - 3600.0}
    first = room.etag()
    assert room.etag(at=60.0) == room.etag(at=7200.0) == first
    room.histories.containers = {WEB: (peaks(hours={12: (1238, 40_090_000)}, cpu_peak_millicores=1240),)}
    room.histories.kills = {API: NOW - 3600.0 + 30.0}
    later = room.etag()
    assert later != first  # the stop of shrinking ends in another ten minutes
    room.histories.kills = {API: NOW - 3600.0 - STOP_STEP_SECONDS + 30.0}
    assert room.etag() == first


def test_the_etag_changes_with_anything_that_changes_what_is_done() -> None:
    seen = {Room().etag()}

    def changed(room: Room, at: float = 0.0) -> None:
        before = len(seen)
        seen.add(room.etag(at=at))
        assert len(seen) == before + 1

    changed(Room(Facts(axes={WEB: FrozenAxes(cpu_for="HPA")})))
    changed(Room(Facts(axes={WEB: FrozenAxes(memory_for="HPA")})))
    changed(Room(Facts(axes={WEB: FrozenAxes(cpu_for="HPA", cpu_containers=("app",))})))
    target = UtilizationTarget(holder="HPA", resource=Resource.CPU, percent=70)
    changed(Room(Facts(targets={WEB: (target,)})))
    changed(Room(Facts(targets={WEB: (replace(target, percent=71),)})))
    changed(Room(Facts(alone={WEB: "VPA"})))
    changed(Room(Facts(counts={WEB: 1})))
    changed(Room(Facts(known=ClusterRules(pause_reason="x"))))
    changed(Room(Facts(known=ClusterRules(rules=(ClusterRule(mode="off"),)))))
    changed(Room(Facts(known=ClusterRules(rules=(ClusterRule(policy="vpa"),)))))
    changed(Room(Facts(places={"node-a": [WEB]})))
    changed(Room(histories=Histories(containers={WEB: (peaks(hours={1: (1, 1)}),)})))
    changed(Room(histories=Histories(containers={WEB: (peaks(hours={2: (1, 1)}),)})))
    changed(Room(histories=Histories(containers={WEB: (peaks(oom_memory_bytes=1),)})))
    killed = Room(histories=Histories(kills={WEB: NOW}))
    changed(killed)
    assert killed.etag(at=DAY + STOP_STEP_SECONDS) == Room().etag()  # it is over


def test_a_stop_of_shrinking_counts_from_the_kill_and_can_be_switched_off() -> None:
    room = Room(histories=Histories(kills={WEB: NOW - DAY + 60.0}))
    (web, _) = room.tell()
    assert web.stop_shrinking_seconds == STOP_STEP_SECONDS  # a minute is left, to the next ten
    off = Director(room.facts, room.histories, stop_shrinking_seconds=0.0).directives_of("node-a", NOW)
    assert off.workloads[0].stop_shrinking_seconds is None
    old = replace(room.histories, kills={WEB: NOW - DAY - STOP_STEP_SECONDS})
    assert Director(room.facts, old).directives_of("node-a", NOW).workloads[0].stop_shrinking_seconds is None


def test_a_person_is_told_what_a_node_without_a_history_would_be() -> None:
    room = Room()
    room.histories.containers = {WEB: (peaks(oom_memory_bytes=5),)}
    directive = Director(room.facts, room.histories).directive_of(WEB, NOW)
    assert directive.containers[0].oom_memory_bytes == 5


def test_the_real_index_is_such_a_history() -> None:
    from agent.core.recommender.registry import PolicyOptions
    from agent.settings import Settings
    from agent.webhook.workloads.index import WorkloadIndex
    from agent.webhook.workloads.shapes import IndexOptions

    options: PolicyOptions = Settings()
    assert options.cruise == CruiseOptions()
    index = WorkloadIndex(IndexOptions(), options)
    with pytest.raises(NotKnownYet):
        Director(Facts(), index).directives_of("node-a", NOW)
    index.loaded()
    assert [directive.workload for directive in Director(Facts(), index).directives_of("node-a", NOW).workloads] == [
        WEB,
        API,
    ]


def test_an_answer_stays_within_what_an_agent_reads_and_holds_all_that_restrains() -> None:
    many = tuple(
        ContainerDirective(
            container=f"c{number}",
            cpu_peak_millicores=10**9,
            memory_peak_bytes=10**13,
            cpu_hour_peaks_millicores=(10**9,) * 24,
            memory_hour_peaks_bytes=(10**13,) * 24,
            oom_memory_bytes=10**13,
        )
        for number in range(300)
    )
    names = [Workload(namespace="shop", kind="Deployment", name=f"w{number:03d}") for number in range(100)]
    facts = Facts(places={"node-a": names}, axes={name: FrozenAxes(cpu_for="HPA") for name in names})
    director = Director(facts, Histories(containers=dict.fromkeys(names, many)))
    directives = director.directives_of("node-a", NOW)
    text = json.dumps(directives_to_json(directives))
    assert len(text) <= MOST_BYTES
    assert directives_from_json(json.loads(text), etag=directives.etag).workloads == directives.workloads
    assert [(directive.workload, directive.cpu_frozen_for) for directive in directives.workloads] == [
        (name, "HPA") for name in names
    ]
    counts = [len(directive.containers) for directive in directives.workloads]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (200, 0)
    assert director.left_out == 100 * 300 - sum(counts)
