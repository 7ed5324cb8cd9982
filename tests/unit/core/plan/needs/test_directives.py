from __future__ import annotations

from typing import Any

import pytest

from agent.core.cluster.hpa import UtilizationTarget
from agent.core.cluster.resource import Resource
from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import AutoscalerDirective
from agent.core.orders import annotations as names
from agent.core.orders.enforce_share import EnforceShare
from agent.core.plan.needs.demand import ReservedReason
from agent.core.plan.needs.directives import (
    NOTHING_TOLD,
    PEAKS_BELIEVED_SECONDS,
    PRESERVED_SECONDS,
    STALE_SECONDS,
)
from tests.directives import WEB, directed, directive, peaks

OTHER = Workload(namespace="shop", kind="Deployment", name="api")
HPA = "HorizontalPodAutoscaler shop/web"


def test_nothing_told_restrains_nobody() -> None:
    assert not NOTHING_TOLD.is_stale
    assert NOTHING_TOLD.pause_reason is None
    for directives in (NOTHING_TOLD, directed(directive(OTHER, mode="off", left_alone_for="VPA"))):
        assert directives.rule(WEB) == {}
        assert (directives.reserved(WEB), directives.frozen(WEB), directives.is_shrink_barred(WEB)) == (
            None,
            frozenset(),
            False,
        )
        assert (directives.replicas(WEB), directives.elsewhere(WEB, "app"), directives.sentences(WEB)) == (
            None,
            None,
            (),
        )


def test_a_workload_of_which_nothing_weighty_is_said() -> None:
    directives = directed(directive())
    assert (directives.rule(WEB), directives.reserved(WEB), directives.frozen(WEB), directives.sentences(WEB)) == (
        {},
        None,
        frozenset(),
        (),
    )
    assert directives.elsewhere(None, "app") is None


def test_both_axes_frozen_reserve_the_pod_and_one_does_not() -> None:
    cpu, both = directive(cpu_frozen_for=HPA), directive(cpu_frozen_for=HPA, memory_frozen_for=HPA)
    assert (directed(cpu).reserved(WEB), directed(cpu).frozen(WEB)) == (None, frozenset({Resource.CPU}))
    assert (directed(both).reserved(WEB), directed(both).frozen(WEB)) == (ReservedReason.HPA, frozenset(Resource))
    alone = directive(left_alone_for="VerticalPodAutoscaler shop/web", cpu_frozen_for=HPA, memory_frozen_for=HPA)
    assert directed(alone).reserved(WEB) is ReservedReason.VPA


def test_requests_whose_hpa_follows_are_free_as_long_as_that_is_said() -> None:
    words = "70 % of 500m CPU is kept: the target is 117 %"
    said = directive(cpu_frozen_for=HPA, memory_frozen_for=HPA, cpu_preserved=words)
    directives = directed(said)
    assert (directives.reserved(WEB), directives.frozen(WEB)) == (None, frozenset({Resource.MEMORY}))
    assert directives.sentences(WEB) == (
        f"CPU requests sized: {HPA} scales by them, and {words}",
        f"memory requests kept: {HPA} scales by them",
    )
    old = directed(said, age=PRESERVED_SECONDS + 1)
    assert (old.reserved(WEB), old.frozen(WEB)) == (ReservedReason.HPA, frozenset(Resource))


def test_a_container_whose_requests_an_hpa_divides_by_leaves_the_pod_free() -> None:
    fields: dict[str, Any] = {"cpu_frozen_containers": ("app",), "memory_frozen_containers": ("app", "proxy")}
    directives = directed(directive(cpu_frozen_for=HPA, memory_frozen_for=HPA, **fields))
    assert (directives.reserved(WEB), directives.frozen(WEB)) == (None, frozenset(Resource))
    axes = directives.frozen_axes(WEB)
    assert [(axes.holds(resource, "app"), axes.holds(resource, "proxy")) for resource in Resource] == [
        (True, False),
        (True, True),
    ]
    assert directives.sentences(WEB) == (
        f"CPU requests of app kept: {HPA} scales by them",
        f"memory requests of app, proxy kept: {HPA} scales by them",
    )


def test_the_targets_of_autoscalers_are_those_of_the_workload() -> None:
    target = UtilizationTarget(holder=HPA, resource=Resource.CPU, percent=70)
    directives = directed(directive(cpu_frozen_for=HPA, hpa_targets=(target,)))
    assert (directives.hpa_targets(WEB), directives.hpa_targets(OTHER)) == ((target,), ())


def test_a_stop_of_shrinking_ends_by_its_own_time_since_it_was_told() -> None:
    stop = directive(stop_shrinking_seconds=3600.0)
    assert directed(stop, told_seconds=600.0).shrink_barred_seconds(WEB) == 3000.0
    assert not directed(stop, told_seconds=3600.0).is_shrink_barred(WEB)
    # Said again or not: it goes on counting down from when these words came.
    assert directed(stop, told_seconds=3000.0, age=0.0).is_shrink_barred(WEB)


def test_what_lets_lapses_after_a_day_and_what_restrains_stays() -> None:
    old = STALE_SECONDS + 1
    enforce = directive(mode="enforce", policy="vpa")
    assert directed(enforce, age=STALE_SECONDS).rule(WEB) == {names.MODE: "enforce", names.POLICY: "vpa"}
    assert directed(enforce, age=old).rule(WEB) == {names.POLICY: "vpa"}
    assert directed(directive(mode="off"), age=old).rule(WEB) == {names.MODE: "off"}
    stays = directed(directive(cpu_frozen_for=HPA, left_alone_for="VPA"), age=30 * 86_400.0, pause="upgrade")
    assert (stays.is_stale, stays.pause_reason) == (True, "upgrade")
    assert (stays.reserved(WEB), stays.frozen(WEB)) == (ReservedReason.VPA, frozenset({Resource.CPU}))


def test_an_autoscalers_object_orders_as_annotations_would_and_its_enforce_lapses_too() -> None:
    policies = '[{"containerName":"app","mode":"Off"}]'
    vpa = AutoscalerDirective(
        name="VPA shop/web",
        mode="enforce",
        eviction_ranking="no-eviction",
        container_policies=policies,
        startup_boost="add 100m",
        windows="shrink: UTC 0 22 * * * for 6h",
    )
    rest = {
        names.EVICTION_RANKING: "no-eviction",
        names.CONTAINER_POLICIES: policies,
        names.STARTUP_BOOST: "add 100m",
        names.WINDOWS: "shrink: UTC 0 22 * * * for 6h",
    }
    new, old = directed(directive(autoscaler=vpa)), directed(directive(autoscaler=vpa), age=STALE_SECONDS + 1)
    assert new.autoscaler(WEB) == {names.MODE: "enforce", **rest}
    assert old.autoscaler(WEB) == rest
    ordered = (
        "VPA shop/web orders container policies, mode enforce, ranking no-eviction, startup boost add 100m, windows"
    )
    assert new.sentences(WEB) == (ordered,)
    assert old.sentences(WEB) == (ordered, "its mode enforce no longer counts: not said for a day")
    silent = directed(directive(autoscaler=AutoscalerDirective(name="VPA shop/web")))
    assert (silent.autoscaler(WEB), silent.sentences(WEB)) == ({}, ())
    assert directed(directive(OTHER)).autoscaler(WEB) == NOTHING_TOLD.autoscaler(WEB) == {}


def test_peaks_of_other_nodes_are_believed_for_the_week_they_are_of() -> None:
    app = peaks(oom_memory_bytes=5)
    web_directive = directive(replicas=4, containers=(peaks("proxy"), app))
    assert directed(web_directive, age=PEAKS_BELIEVED_SECONDS).elsewhere(WEB, "app") == app
    assert directed(web_directive).elsewhere(WEB, "gone") is None
    late = directed(web_directive, age=PEAKS_BELIEVED_SECONDS + 1)
    assert late.elsewhere(WEB, "app") is None
    assert late.replicas(WEB) == 4


@pytest.mark.parametrize(
    ("fields", "age", "sentence"),
    [
        ({"left_alone_for": "VerticalPodAutoscaler shop/web"}, 0.0, "left alone: VerticalPodAutoscaler shop/web sets"),
        ({"cpu_frozen_for": HPA}, 0.0, f"CPU requests kept: {HPA} scales by them"),
        ({"memory_frozen_for": HPA}, 0.0, f"memory requests kept: {HPA} scales by them"),
        ({"stop_shrinking_seconds": 9000.0}, 0.0, "only upward for another 2.5 h: an out-of-memory kill"),
        ({"stop_shrinking_seconds": 20.0}, 0.0, "only upward for another 1 min"),
        ({"mode": "protect"}, STALE_SECONDS + 1, "mode protect of the cluster's rules no longer counts"),
        ({"mode": "enforce"}, STALE_SECONDS + 1, "mode enforce of the cluster's rules no longer counts"),
    ],
)
def test_each_thing_told_has_its_sentence(fields: dict[str, Any], age: float, sentence: str) -> None:
    (text,) = directed(directive(**fields), age=age).sentences(WEB)
    assert text.startswith(sentence)


def test_of_two_for_one_workload_the_first_counts() -> None:
    assert directed(directive(replicas=1), directive(replicas=2)).replicas(WEB) == 1


def test_a_share_that_is_taken_back_reserves_whoever_it_is_ordered_for() -> None:
    directives = directed(directive(share_taken_back="10 %", share_taken_back_for="more restarts: 4 of 2 pods"))
    assert directives.reserved(WEB, EnforceShare(1000)) is ReservedReason.SHARE_TAKEN_BACK
    assert directives.reserved(WEB, EnforceShare(2000)) is None, "a person's new word"
    assert directives.reserved(WEB) is None
    assert directives.sentences(WEB) == ("the enforced share of 10 % is taken back: more restarts: 4 of 2 pods",)
    (sentence,) = directed(directive(share_taken_back="10 %")).sentences(WEB)
    assert sentence == "the enforced share of 10 % is taken back: its pods fared worse than the others"
    assert NOTHING_TOLD.share_taken_back(WEB) is None


def test_why_a_workload_only_grows_is_told_where_it_was_no_kill() -> None:
    directives = directed(directive(stop_shrinking_seconds=7200.0, stop_shrinking_for="more throttling after a shrink"))
    assert directives.sentences(WEB) == ("only upward for another 2.0 h: more throttling after a shrink",)


def test_windows_are_told_as_the_annotation_would_say_them() -> None:
    text = "evict: UTC 0 22 * * * for 4h"
    assert directed(directive(windows=text)).rule(WEB)["plimsoll.dev/windows"] == text
    # They restrain: they hold however long the webhook is silent.
    assert directed(directive(windows=text), age=STALE_SECONDS + 1).rule(WEB)["plimsoll.dev/windows"] == text
