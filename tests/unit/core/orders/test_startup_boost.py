from __future__ import annotations

from typing import Any

import pytest

from agent.core.cluster.facts import ClusterRule, ClusterRules
from agent.core.cluster.workload import Workload
from agent.core.history.reports.directive import WorkloadDirective
from agent.core.orders import annotations as names
from agent.core.orders.annotations import ValueNotAllowed, startup_boost_from
from agent.core.orders.cluster_rules import read_rules, rule_of
from agent.core.orders.order import Mode, OrderSource
from agent.core.orders.startup_boost import StartupBoost, parse_startup_boost
from agent.core.plan.needs.directives import NodeDirectives
from tests.unit.core.orders.test_resolution import orders

WEB = Workload(namespace="shop", kind="Deployment", name="web")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("factor 3", {"factor": 3.0}),
        (
            "factor 3 for 60s after ready; at most 4",
            {"factor": 3.0, "after_ready_seconds": 60.0, "most_millicores": 4000},
        ),
        ("add 500m for 30s after ready", {"added_millicores": 500, "after_ready_seconds": 30.0}),
        (
            " factor  1.5 ; limit: keep;  give up after 5m",
            {"factor": 1.5, "is_limit_kept": True, "timeout_seconds": 300.0},
        ),
        ("factor 2; request: keep", {"factor": 2.0, "is_request_kept": True}),
        ("factor 2; containers: app, worker app", {"factor": 2.0, "containers": ("app", "worker")}),
        ("add 1m for 0s after ready", {"added_millicores": 1}),
        ("add 1 for 1h after ready", {"added_millicores": 1000, "after_ready_seconds": 3600.0}),
        ("auto", {"is_learnt": True, "after_ready_seconds": 60.0}),
        ("auto for 0s after ready", {"is_learnt": True}),
        (
            "auto for 90s after ready; at most 2; request: keep",
            {"is_learnt": True, "after_ready_seconds": 90.0, "most_millicores": 2000, "is_request_kept": True},
        ),
    ],
)
def test_an_order_is_read_and_written_as_what_reads_the_same(text: str, fields: dict[str, Any]) -> None:
    boost = startup_boost_from(text)
    assert boost == StartupBoost(**fields)
    assert parse_startup_boost(str(boost)) == boost


@pytest.mark.parametrize(
    ("learnt", "most", "boosted"),
    [
        (None, None, 200),  # nothing is known yet
        (299, None, 200),  # less than half as much again: not worth it
        (300, None, 300),
        (1700, None, 1700),
        (1700, 1000, 1000),
        (50, None, 200),
    ],
)
def test_a_learnt_boost_is_what_earlier_starts_used_where_that_is_worth_it(
    learnt: int | None, most: int | None, boosted: int
) -> None:
    assert StartupBoost(is_learnt=True, most_millicores=most).boosted_millicores(200, learnt) == boosted


def test_off_is_no_boost() -> None:
    assert startup_boost_from("off") is None


def test_containers_may_be_named() -> None:
    assert StartupBoost().concerns("app")
    assert [StartupBoost(containers=("app",)).concerns(name) for name in ("app", "log")] == [True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'': factor 3, add 500m, auto or off"),
        ("auto 3", "'auto 3': factor 3, add 500m, auto or off"),
        ("3x", "'3x': factor 3, add 500m, auto or off"),
        ("factor 3 for 60s", "'factor 3 for 60s': factor 3"),
        ("factor 0.5", "'0.5': a number from 1 to 100"),
        ("factor 101", "'101': a number from 1 to 100"),
        ("factor x", "'x': a number from 1 to 100"),
        ("add 0", "'0': CPU such as 500m or 4, more than 0"),
        ("add much", "'much': CPU such as 500m or 4"),
        ("factor 2; at most 0", "'0': CPU such as"),
        ("factor 2 for soon after ready", "'soon': 0s to 1h"),
        ("factor 2 for 61m after ready", "'61m': 0s to 1h"),
        ("factor 2; give up after 0s", "'0s': 1s to 1h"),
        ("off; at most 4", "'off': factor 3, add 500m, auto or off"),
        ("factor 2; at mst 4", "'at mst 4': at most 4, request: keep, limit: keep, containers:"),
        ("factor 2; at most 4; at most 5", "'at most 5': each part once"),
        ("factor 2; containers: App", "'containers: App': at most 4"),
        ("factor 2; request: keep; limit: keep", "request: keep and limit: keep leave nothing to boost"),
        ("factor 2;" + " " * 200, "209 characters, of at most 200"),
    ],
)
def test_what_is_not_understood_is_named_on_one_line(text: str, said: str) -> None:
    with pytest.raises(ValueNotAllowed) as refused:
        startup_boost_from(text)
    assert str(refused.value).startswith(said)
    assert "allowed: off, or such as factor 3 for 60s after ready" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_pods_order_wins_over_its_namespaces_and_that_over_a_rule() -> None:
    rule = {names.STARTUP_BOOST: "factor 2"}
    assert orders(rule=rule).startup_boost == StartupBoost(factor=2.0)
    assert orders(rule=rule).startup_boost_source is OrderSource.CLUSTER
    both = orders({names.STARTUP_BOOST: "off"}, {names.STARTUP_BOOST: "factor 3"}, rule=rule)
    assert (both.startup_boost, both.startup_boost_source) == (None, OrderSource.POD)
    assert orders().startup_boost is None


def test_an_order_that_is_not_understood_makes_the_pod_off() -> None:
    pod_orders = orders({names.STARTUP_BOOST: "fctor 3"}, mode=Mode.ENFORCE)
    assert (pod_orders.mode, pod_orders.startup_boost) == (Mode.OFF, None)
    assert str(pod_orders.faults[0]).startswith(
        "pod annotation plimsoll.dev/startup-boost: 'fctor 3' is not allowed ('fctor 3': factor 3, add 500m"
    )


def test_the_clusters_rules_may_order_a_boost_and_nothing_else() -> None:
    rules = read_rules({"rules": "- {namespace: shop, startupBoost: factor 3}\n- {startupBoost: off}"}, last_good=None)
    assert rules.rules == (
        ClusterRule(namespace="shop", startup_boost="factor 3"),
        ClusterRule(startup_boost="off"),
    )
    assert rule_of(rules, WEB) == {names.STARTUP_BOOST: "factor 3"}
    faulty = read_rules({"rules": "- {startupBoost: factor 0}"}, last_good=ClusterRules())
    assert faulty.fault is not None
    assert faulty.fault.startswith("rules[0].startupBoost: 'factor 0' is not allowed ('0': a number from 1 to 100")


def test_a_node_is_told_of_the_rule() -> None:
    directives = NodeDirectives(by_workload={WEB: WorkloadDirective(workload=WEB, startup_boost="factor 3")})
    assert directives.rule(WEB) == {names.STARTUP_BOOST: "factor 3"}
