from __future__ import annotations

from typing import Any

import pytest

from agent.core.machine.checkup import Check, FeatureState
from agent.core.machine.cluster_checkup import ClusterStatus, MissingRight, judge_cluster


def facts(**fields: Any) -> ClusterStatus:
    """An agent in good standing."""
    known: dict[str, Any] = {
        "node": "worker-7",
        "server": "https://10.0.0.1",
        "server_version": "v1.37.1",
        "kubelet_version": "v1.37.1",
        "age_seconds": 3.0,
        "stale_seconds": 60.0,
        "is_complete": True,
        "has_node": True,
        "pods": 12,
        "unreadable_pods": (),
        "missing_rights": (),
        "node_claim": "worker-7",
        "is_claim_required": True,
        "can_resize": True,
        "gate_reasons": (),
        "orders": (),
        "is_paused": False,
    }
    return ClusterStatus(**{**known, **fields})


def bad(status: ClusterStatus) -> list[Check]:
    return [check for check in judge_cluster(status) if check.verdict is not FeatureState.OK]


def test_good_standing_is_four_lines_without_consequence() -> None:
    checks = judge_cluster(facts())
    assert [check.name for check in checks] == ["API server", "rights", "node claim", "versions"]
    assert {check.verdict for check in checks} == {FeatureState.OK}
    assert {(check.consequence, check.mend) for check in checks} == {("", "")}
    assert checks[0].found == "https://10.0.0.1 v1.37.1, heard 3 s ago; 12 pods of node worker-7"


def test_directives_are_judged_only_where_a_webhook_is_named() -> None:
    def judged(**fields: Any) -> Check:
        checks = judge_cluster(facts(is_webhook_expected=True, directives_stale_seconds=86_400.0, **fields))
        (check,) = [check for check in checks if check.name == "directives"]
        return check

    fresh = judged(directives_age_seconds=240.0)
    assert (fresh.verdict, fresh.found) == (FeatureState.OK, "the webhook told what holds 240 s ago")
    never = judged(directives_age_seconds=None)
    assert (never.verdict, never.found) == (FeatureState.DEGRADED, "the webhook has told nothing yet")
    old = judged(directives_age_seconds=90_000.0)
    assert (old.verdict, old.found) == (FeatureState.DEGRADED, "the webhook was last heard 25 h ago")


def test_a_pause_of_the_cluster_is_not_mended_at_the_node() -> None:
    (check,) = bad(facts(orders=("paused",), is_paused=True, cluster_pause="upgrade"))
    assert check.mend.startswith("take the pause out of the ConfigMap")
    (own,) = bad(facts(orders=("paused",), is_paused=True))
    assert own.mend == "plimsoll resume"


@pytest.mark.parametrize(
    ("fields", "name", "found"),
    [
        ({"age_seconds": None, "is_complete": False}, "API server", "no answer yet"),
        ({"is_complete": False}, "API server", "not all has been read yet"),
        ({"age_seconds": 61.0}, "API server", "heard 61 s ago"),
        ({"has_node": False}, "node object", "there is no node worker-7"),
        ({"unreadable_pods": ("a/b: x",)}, "pods", "not understood: a/b: x"),
        ({"unreadable_pods": tuple("abcde")}, "pods", "a; b; c; and 2 more"),
        ({"node_claim": None}, "node claim", "the token names no node"),
        ({"node_claim": "worker-8"}, "node claim", "the token names worker-8, not worker-7"),
        ({"can_resize": False, "gate_reasons": ("too old",)}, "versions", "kubelet v1.37.1; too old"),
        (
            {"can_resize": False, "server_version": None, "kubelet_version": None},
            "versions",
            "API server not known, kubelet not known",
        ),
        ({"is_paused": True, "orders": ("paused", "2 pods are pinned")}, "orders", "paused; 2 pods are pinned"),
    ],
)
def test_each_fault_is_one_line_with_consequence_and_mending(fields: dict[str, Any], name: str, found: str) -> None:
    (check,) = bad(facts(**fields))
    assert check.name == name
    assert check.verdict is FeatureState.DEGRADED
    assert found in check.found
    assert check.consequence
    assert check.mend


def test_every_missing_right_is_named() -> None:
    missing = tuple(MissingRight(right=f"patch {kind}", consequence=f"no {kind}") for kind in ("pods/resize", "nodes"))
    checks = bad(facts(missing_rights=missing))
    assert [(check.found, check.consequence) for check in checks] == [
        ("not allowed: patch pods/resize", "no pods/resize"),
        ("not allowed: patch nodes", "no nodes"),
    ]


def test_what_is_no_fault_is_told_all_the_same() -> None:
    status = facts(
        node_claim=None,
        is_claim_required=False,
        gate_reasons=("no resize of pod-level resources: too old",),
        orders=("1 pod is pinned",),
    )
    assert bad(status) == []
    texts = {check.name: check.found for check in judge_cluster(status)}
    assert texts["node claim"] == "the token names no node; not required"
    assert "no resize of pod-level" in texts["versions"]
    assert texts["orders"] == "1 pod is pinned"


def test_no_node_is_no_news_before_everything_was_read() -> None:
    assert [check.name for check in bad(facts(has_node=False, is_complete=False))] == ["API server"]
