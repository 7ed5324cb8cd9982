"""What the cluster's rules order for a workload. Core, pure. The webhook and ``plimsoll policy`` read them by this."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from agent.core.cluster.facts import ClusterRule, ClusterRules
from agent.core.cluster.workload import Workload
from agent.core.orders import annotations as names


def rule_of(rules: ClusterRules, workload: Workload) -> Mapping[str, str]:
    """Give what the rules order, by the annotation that would order the same; ``orders_of`` takes it so.

    The first rule that fits wins, each of mode and policy by itself. A value is not looked at: who reads it says so.
    """
    ordered: dict[str, str] = {}
    for rule in rules.rules:
        if not _fits(rule, workload):
            continue
        for key, value in ((names.MODE, rule.mode), (names.POLICY, rule.policy)):
            if value is not None:
                ordered.setdefault(key, value)
    return ordered


def _fits(rule: ClusterRule, workload: Workload) -> bool:
    return (
        _matches(rule.namespace, workload.namespace)
        and rule.kind in (None, workload.kind)
        and _matches(rule.name, workload.name)
    )


def _matches(pattern: str | None, name: str) -> bool:
    return pattern is None or fnmatchcase(name, pattern)
