from __future__ import annotations

from agent.core.cluster.facts import ClusterRule, ClusterRules
from agent.core.cluster.workload import Workload
from agent.core.orders import annotations as names
from agent.core.orders.cluster_rules import rule_of

WEB = Workload(namespace="shop", kind="Deployment", name="web-7")


def test_the_first_rule_that_fits_wins_field_by_field() -> None:
    rules = ClusterRules(
        rules=(
            ClusterRule(namespace="team-*", mode="off"),
            ClusterRule(kind="StatefulSet", mode="off"),
            ClusterRule(name="api*", mode="off"),
            ClusterRule(namespace="sh?p", kind="Deployment", name="web-*", policy="vpa"),
            ClusterRule(mode="enforce", policy="crane"),
            ClusterRule(mode="recommend"),
        )
    )
    assert rule_of(rules, WEB) == {names.POLICY: "vpa", names.MODE: "enforce"}
    assert rule_of(ClusterRules(), WEB) == {}


def test_patterns_know_large_letters_from_small_ones() -> None:
    assert rule_of(ClusterRules(rules=(ClusterRule(namespace="SHOP", mode="off"),)), WEB) == {}
