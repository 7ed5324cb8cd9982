"""Recommendations and explanations from learner and windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agent.core.cluster.hpa import UtilizationTarget
from agent.core.cluster.pod import ContainerKind
from agent.core.cluster.pod_index import Belonging
from agent.core.cluster.resource import Resource
from agent.core.cluster.unit import UnitIdentity, UnitKind, UnitResources
from agent.core.orders.order import Mode, Orders, OrderSource, Ranking
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.credit import Credit
from agent.core.recommender.recommendation import Withheld
from agent.core.window.snapshot import ColdFile, UnitStatus
from agent.node.history.file import HistoryFile, RowMinutes
from agent.node.history.learner import Learner, Place
from agent.node.recommender.decider import Decider, DecisionSources, in_short, to_hours, to_trail
from agent.node.recommender.evaluation import to_measured
from agent.settings import ColdFileChoice, MemorySettings, Settings, load_settings
from tests.directives import directed, directive
from tests.policy_rows import make_present
from tests.snapshots import container, memory_window, service
from tests.unit.node.history.test_learner import BOOT_UNIX_SECONDS, FIRST_MINUTE, MIB, Clocks, Pods, learner, row, unit
from tests.window_rows import minute

SETTINGS = Settings()


@pytest.fixture
def found() -> Learner:
    clocks = Clocks()
    clocks.monotonic_seconds = (FIRST_MINUTE + 20) * 60.0
    node_learner = learner(HistoryFile.open(None, max_rows=64), clocks)
    for number in range(20):
        node_learner.learn([(unit("a"), row(FIRST_MINUTE + number, cpu=100.0, peak=400.0, memory_mib=64))])
    return node_learner


def decider(node_learner: Learner) -> Decider:
    return Decider(settings=SETTINGS, learner=node_learner, node="n1", source="agent")


def status(name: str = "a", **fields: Any) -> UnitStatus:
    return replace(container(name, "app"), **{"identity": unit(name), **fields})


def test_decide_recommends_from_window_and_history(found: Learner) -> None:
    answer = decider(found).decide([status()], ["a note"])
    assert (answer.node, answer.source, answer.policy, answer.notes) == ("n1", "agent", "plimsoll", ("a note",))
    (item,) = answer.items
    # The largest demand of the last hour.
    assert item.cpu_millicores.proposed == 400.0
    assert item.basis.history_minutes == 20
    assert item.basis.history_span_seconds == 19 * 60
    short = in_short(item, 600.0)
    assert (short.policy, short.cpu_request_millicores) == ("plimsoll", item.cpu_millicores.request)


def test_a_listing_has_the_containers_of_a_pod_in_the_order_of_its_spec(
    found: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    # They are watched in the order in which their directories were found; a resize must name them in the spec's.
    second_identity, other = (replace(unit(name), pod_uid="uid-web", container=name) for name in ("second", "first"))
    places = {"first": 0, "second": 1}
    known = found.place_of

    def place_of(identity: UnitIdentity) -> Place:
        place = known(identity)
        return replace(place, belonging=Belonging(container_place=places[identity.container or ""]))

    monkeypatch.setattr(found, "place_of", place_of)
    answer = decider(found).listing([status(identity=second_identity), status(identity=other)], ["a note"])
    assert [item.identity.container for item in answer.items] == ["first", "second"]
    assert answer.notes == ("a note",)


def test_decide_lowers_nothing_before_the_history_is_learnt(found: Learner) -> None:
    for number in range(20, 70):
        found.learn([(unit("a"), row(FIRST_MINUTE + number, cpu=100.0, peak=400.0, memory_mib=64))])
    history = found.history
    clocks = Clocks()
    clocks.monotonic_seconds = (FIRST_MINUTE + 70) * 60.0
    restarted = learner(history, clocks)
    generous = status(resources=UnitResources(cpu_request_millicores=4000, memory_request_bytes=4096 * MIB))
    (item,) = decider(restarted).decide([generous]).items
    assert (item.cpu_millicores.request, item.memory_bytes.request) == (4000, 4096 * MIB)
    restarted.restore(lambda: False)
    (item,) = decider(restarted).decide([generous]).items
    assert item.cpu_millicores.request == 400


@pytest.mark.parametrize(("limit_mib", "keeps"), [(None, True), (512, True), (256, False)])
def test_cold_file_cache_is_left_out_of_a_subject_and_its_limit_is_kept(
    found: Learner, limit_mib: int | None, keeps: bool
) -> None:
    settings = Settings(memory=MemorySettings(cold_file=ColdFileChoice.EXCLUDE))
    node_decider = Decider(settings=settings, learner=found, node="n1", source="agent")
    cold = ColdFile(
        total_bytes=40 * MIB, active_bytes=30 * MIB, refaulted_bytes=0, window_seconds=1800.0, is_left_out=keeps
    )
    resources = UnitResources(
        memory_request_bytes=256 * MIB, memory_limit_bytes=None if limit_mib is None else limit_mib * MIB
    )
    seen = status(memory=memory_window(100 * MIB, cold_file=cold), resources=resources)
    (subject,) = node_decider.subjects([seen])
    in_use_bytes = (70 if keeps else 100) * MIB
    assert (subject.memory.working_set_bytes, subject.keeps_memory_limit) == (in_use_bytes, keeps)
    assert subject.memory.current_bytes == 120 * MIB
    identity = replace(seen.identity, pod_uid="u", container="app")
    measured = to_measured([replace(seen, identity=identity)], {})
    assert (measured.working_set_bytes, measured.memory_current_bytes) == (
        {("u", "app"): in_use_bytes},
        {("u", "app"): 120 * MIB},
    )
    (explanation,) = node_decider.explain([seen]).items
    assert explanation.memory.working_set_bytes == 100 * MIB  # as it was measured
    (reported,) = decider(found).subjects([seen])
    assert not reported.keeps_memory_limit


def test_decide_leaves_pause_containers_out_and_services_in(found: Learner) -> None:
    pause = replace(container("a", "app"), identity=unit("pause", kind=UnitKind.SANDBOX))
    answer = decider(found).decide([pause, service("/system.slice/nginx.service")])
    assert [item.identity.cgroup_path for item in answer.items] == ["/system.slice/nginx.service"]


def test_decide_what_is_too_young_is_withheld_with_that_reason(found: Learner) -> None:
    young = status("new", memory=replace(memory_window(), span_seconds=50.0))
    (item,) = decider(found).decide([young]).items
    assert item.memory_bytes.withheld is Withheld.TOO_YOUNG
    assert in_short(item, 600.0).memory_withheld == "too_young"


def test_explain_tells_steps_hours_and_trail(found: Learner) -> None:
    rows = minute(FIRST_MINUTE + 19, 100.0, peak=400.0, waiting=51)
    explanations = decider(found).explain(
        [status()],
        trail_seconds=3600.0,
        minutes_of=lambda _: rows,
        notes=("a note",),
    )
    (item,) = explanations.items
    assert item.steps
    assert item.recommendation.cpu_millicores.proposed == 400.0
    # All twenty minutes lie in at most two UTC hours.
    assert {hour.cpu_millicores for hour in item.hours} == {400.0}
    assert {hour.working_set_bytes for hour in item.hours} == {64.0 * MIB}
    assert item.trail is not None
    assert len(item.trail.cpu_usage_millicores) == 60
    assert item.trail.cpu_usage_millicores[-20:] == (100.0,) * 20
    assert item.trail.cpu_usage_millicores[:40] == (None,) * 40
    # 51 of 255 is a fifth.
    assert item.trail.waiting_ratio[-1] == pytest.approx(0.2)
    assert item.trail.waiting_ratio[-2] is None


def test_explain_tells_what_the_profile_sets(found: Learner) -> None:
    settings = load_settings(None, environment={}, overrides={"profile": "document", "plan.fitRule": "shared"})
    node_decider = Decider(settings=settings, learner=found, node="n1", source="agent")
    (item,) = node_decider.explain([status()], notes=("a note",)).items
    assert item.notes == (
        "a note",
        "profile document: recommend.policy cruise, plan.headroom spike, cruise.neighbourHours 0, "
        "windows.rateWindowSeconds 300, "
        "overload.pressureCounts false, overload.releaseLoadPerCpu 1; setting: plan.fitRule shared",
    )
    assert decider(found).explain([status()]).items[0].notes == ()


def test_explain_without_history_has_no_hours_and_no_trail_unless_asked(found: Learner) -> None:
    with_room = [status(str(number)) for number in range(64)]
    decider(found).decide(with_room)
    # All rows have owners with data or are new ones; a unit beyond them has none.
    (item,) = decider(found).explain([status("b")]).items
    assert (item.hours, item.trail, item.kills) == ((), None, ())


def test_to_hours_keeps_cpu_and_memory_apart() -> None:
    minutes = RowMinutes(
        unix_minutes=np.array([60, 61, 120]),
        cpu_usage_millicores=np.array([1.0, 1.0, 1.0]),
        cpu_peak_millicores=np.array([5.0, 7.0, 9.0]),
        has_cpu=np.array([True, True, False]),
        working_set_bytes=np.array([10.0, 20.0, 30.0]),
        has_memory=np.array([False, True, True]),
    )
    hours = to_hours(minutes)
    assert [(hour.hour_unix_seconds, hour.cpu_millicores, hour.working_set_bytes) for hour in hours] == [
        (3600, 7.0, 20.0),
        (7200, None, 30.0),
    ]


def test_to_trail_of_nothing_is_all_unknown() -> None:
    trail = to_trail(None, {}, now=float(BOOT_UNIX_SECONDS), seconds=120)
    assert trail.cpu_usage_millicores == trail.working_set_bytes == (None, None)
    assert trail.start_unix_seconds == BOOT_UNIX_SECONDS - 120


def ordered(policy: PolicyName, min_cpu_millicores: int | None = None) -> Orders:
    source = OrderSource.POD
    return Orders(
        mode=Mode.ENFORCE,
        mode_source=source,
        policy=policy,
        policy_source=source,
        ranking=Ranking.LOW,
        ranking_source=source,
        min_cpu_millicores=min_cpu_millicores,
    )


def test_decide_a_pod_has_the_policy_and_the_bounds_that_it_orders(found: Learner) -> None:
    orders = {"b": ordered(PolicyName.VPA), "c": ordered(PolicyName.PLIMSOLL, min_cpu_millicores=700)}
    node_decider = Decider(
        settings=SETTINGS,
        learner=found,
        node="n1",
        source="agent",
        sources=DecisionSources(orders_of=lambda identity: orders.get(identity.pod_uid or "")),
    )
    for number in range(60):
        found.learn(
            [
                (unit(name), row(FIRST_MINUTE + 20 + number, cpu=100.0, peak=400.0, memory_mib=64))
                for name in ("a", "b", "c")
            ]
        )
    unlearnt = {item.identity.pod_uid: item for item in node_decider.decide([status("b"), status("a")]).items}
    assert unlearnt["b"].cpu_millicores.withheld is Withheld.NO_DATA  # nobody has let vpa learn yet
    found.restore(lambda: False)
    found.require([PolicyName.VPA, PolicyName.PLIMSOLL], lambda: False)
    items = node_decider.decide([status("b"), status("a"), status("c")]).items
    assert [(item.identity.pod_uid, item.policy) for item in items] == [
        ("b", "vpa"),
        ("a", "plimsoll"),
        ("c", "plimsoll"),
    ]
    assert items[0].cpu_millicores.request is not None
    assert items[1].cpu_millicores.request == 400
    assert items[2].cpu_millicores.request == 700
    (explanation,) = node_decider.explain([status("c")]).items
    assert explanation.recommendation.cpu_millicores.request == 700


def test_decide_and_explain_ask_for_the_price_of_the_credit_that_the_newest_plan_gives(found: Learner) -> None:
    credits = {"a": Credit.GRANTED, "b": Credit.NO_ROOM}
    node_decider = Decider(
        settings=SETTINGS,
        learner=found,
        node="n1",
        source="agent",
        sources=DecisionSources(
            orders_of=lambda _: ordered(PolicyName.PLIMSOLL),
            credit_of=lambda identity: credits.get(identity.pod_uid or ""),
        ),
    )
    found.restore(lambda: False)
    found.require([PolicyName.PLIMSOLL], lambda: False)
    items = node_decider.decide([status("a"), status("b"), status("c")]).items
    assert [item.cpu_millicores.has_credit for item in items] == [True, False, False]
    with_credit, without, unsaid = node_decider.explain([status("a"), status("b"), status("c")]).items
    assert with_credit.recommendation.cpu_millicores.has_credit
    assert "saved by credit" in {step.what for step in with_credit.steps}
    (reason,) = (step for step in without.steps if step.what == "no credit for seconds")
    assert reason.note == "the node keeps no room to answer with"
    assert not any("credit" in step.what for step in unsaid.steps)


def test_decide_and_explain_tell_what_an_hpas_target_means_for_the_whole_pod() -> None:
    class TwoContainers(Pods):
        def belonging(self, identity: UnitIdentity) -> Belonging:
            return replace(super().belonging(identity), pod_containers=2, container_kind=ContainerKind.REGULAR)

    clocks = Clocks()
    clocks.monotonic_seconds = (FIRST_MINUTE + 20) * 60.0
    node_learner = learner(HistoryFile.open(None, max_rows=64), clocks, pods=TwoContainers())
    node_learner.restore(lambda: False)
    app, proxy = (
        replace(unit("a", "shop"), cgroup_path=f"/kubepods/a/{name}", container=name) for name in ("app", "proxy")
    )
    for number in range(20):
        minutes = row(FIRST_MINUTE + number, cpu=100.0, peak=400.0, memory_mib=64)
        node_learner.learn([(app, minutes), (proxy, minutes)])
    target = UtilizationTarget(holder="HPA", resource=Resource.CPU, percent=70)
    node_decider = Decider(
        settings=SETTINGS,
        learner=node_learner,
        node="n1",
        source="agent",
        sources=DecisionSources(directed=lambda: directed(directive(hpa_targets=(target,)))),
    )
    resources = UnitResources(cpu_request_millicores=200)
    both = [status(identity=identity, resources=resources) for identity in (app, proxy)]
    items = node_decider.decide(both).items
    assert [item.cpu_millicores.request for item in items] == [400, 400]
    # 70 x 400 / 800 = 35
    sentences = ("HPA: 70 % of 400m CPU of 2 containers is 280m; at 800m the equal target is 35 %",)
    assert [item.hpa_advice for item in items] == [sentences] * 2
    (explanation,) = node_decider.explain(both[:1], beside=both[1:]).items
    assert explanation.recommendation.hpa_advice == sentences
    (alone,) = node_decider.explain(both[:1]).items
    assert alone.recommendation.hpa_advice == ()


def test_require_what_learnt_beside_equals_what_was_the_nodes_own(found: Learner) -> None:
    found.require([PolicyName.CRANE], lambda: False)
    found.learn([(unit("a"), row(FIRST_MINUTE + 20, cpu=150.0, peak=500.0, memory_mib=96))])
    own = Learner(
        history=found.history,
        policy=PolicyName.CRANE,
        options=SETTINGS,
        pods=Pods(),
        clock=found.clock,
    )
    own.restore(lambda: False)
    rows = np.array([found.place_of(unit("a")).row], dtype=np.intp)
    present, now = make_present([50.0], [1.0 * MIB]), found.clock.now()
    beside = found.policy_of(PolicyName.CRANE).recommend(rows, present, now_unix_seconds=now)
    alone = own.policy.recommend(rows, present, now_unix_seconds=now)
    assert beside.cpu_request_millicores.tolist() == alone.cpu_request_millicores.tolist()
    found.require([], lambda: False)
    forgotten = found.policy_of(PolicyName.CRANE).recommend(rows, present, now_unix_seconds=now)
    assert not forgotten.has_cpu.any()


def test_require_a_stop_leaves_a_policy_unlearnt_and_rows_free_to_give(found: Learner) -> None:
    found.require([PolicyName.CRANE], lambda: True)
    assert found.place_of(unit("fresh")).row < found.history.rows
    assert found.policy_of(PolicyName.CRANE).rows == found.history.rows + 1
