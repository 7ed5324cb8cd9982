"""Who may be resized and how far, and where what was written of a pod is found again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.core.orders.annotations import ORIGINAL_RESOURCES
from tests.cluster.api import Json
from tests.soak.matching import Patch
from tests.soak.roles import HERE, document
from tests.soak.rules import Born, born, broken_rules, differing, kept_originals, lost_original, not_restored

PATCH = Patch(
    pod="soak/bounded-1",
    uid="u-1",
    amounts=frozenset({("app", "cpu", "request", 120)}),
    code=200,
    node=HERE,
    unix_seconds=1.0,
)


def made(role: str = "bounded", *, cpu: str | None = None, annotations: dict[str, str] | None = None) -> Json:
    pod = document(f"{role}-1", role)
    pod["metadata"] |= {"namespace": "soak", "uid": "u-1"}
    pod["metadata"]["annotations"].update(annotations or {})
    if cpu is not None:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return pod


def pods(role: str = "bounded") -> dict[str, Born]:
    return {"u-1": born(role, document(f"{role}-1", role), made(role))}


def test_a_resize_within_the_orders_is_fine_and_so_is_the_way_back() -> None:
    assert broken_rules([PATCH, replace(PATCH, amounts=frozenset({("app", "cpu", "request", 200)}))], pods()) == []


@pytest.mark.parametrize(
    ("role", "changes", "words"),
    [
        ("bounded", {"amounts": frozenset({("app", "cpu", "request", 151)})}, "allowed are 90m to 150m"),
        ("bounded", {"node": "another"}, "a token that names node another"),
        ("bounded", {"uid": "u-9"}, "nobody created such a pod"),
        ("stranger", {}, "runs on soak-other-node"),
        ("system", {}, "a pod of role system may not be"),
        ("guaranteed", {"code": 403}, "a pod of role guaranteed may not be"),
    ],
)
def test_what_should_not_be_resized_is_told(role: str, changes: dict[str, Any], words: str) -> None:
    (fault,) = broken_rules([replace(PATCH, **changes)], pods(role))
    assert words in fault


def test_what_the_webhook_sized_is_given_back_when_a_person_asks_and_nothing_else_is() -> None:
    written = born("job", document("job-1", "job"), made("job", annotations={ORIGINAL_RESOURCES: "{}"}))
    back = replace(PATCH, amounts=frozenset(amount for amount in written.written if amount[2] == "request"))
    assert back.amounts
    assert broken_rules([back], {"u-1": written}, restored_unix=1.0) == []
    faults = ["soak/bounded-1: resized, and a pod of role job may not be"]
    assert broken_rules([back], {"u-1": written}, restored_unix=1.5) == faults
    assert broken_rules([back], {"u-1": written}) == faults
    assert broken_rules([back], {"u-1": replace(written, was_sized=False)}, restored_unix=1.0) == faults
    assert broken_rules([PATCH], {"u-1": written}, restored_unix=1.0)[0] == faults[0]


def holds(cpu_millicores: int) -> dict[str, Any]:
    amounts = {
        "container": "app",
        "cpu_request_millicores": cpu_millicores,
        "cpu_limit_millicores": None,
        "memory_request_bytes": 64 << 20,
        "memory_limit_bytes": None,
    }
    return {"originals": [{"ref": {"uid": "u-1"}, "amounts": [amounts]}]}


def test_what_was_written_stands_in_the_pod_in_its_annotation_or_in_the_agents_file() -> None:
    (pod,) = pods().values()
    assert lost_original(pod, made(), {}) is None
    assert lost_original(pod, made(cpu="120m"), kept_originals(holds(200))) is None
    original = {"containers": {"app": {"requests": {"cpu": "200m", "memory": "67108864"}, "limits": {}}}}
    annotation = {"plimsoll.dev/original-resources": json.dumps(original)}
    assert lost_original(pod, made(cpu="120m", annotations=annotation), {}) is None
    assert born("bounded", document("bounded-1", "bounded"), made(annotations=annotation)).was_sized


def test_an_original_that_is_gone_or_another_is_told() -> None:
    (pod,) = pods().values()
    assert "kept nowhere" in str(lost_original(pod, made(cpu="120m"), {}))
    assert "not what was written" in str(lost_original(pod, made(cpu="120m"), kept_originals(holds(120))))
    original = {"containers": {"app": {"requests": {"cpu": "120m"}}}}
    other = made(cpu="120m", annotations={"plimsoll.dev/original-resources": json.dumps(original)})
    assert "annotation tells of other amounts" in str(lost_original(pod, other, kept_originals(holds(200))))


def test_a_pod_that_has_all_it_had_is_restored() -> None:
    (pod,) = pods().values()
    assert not_restored(pod, made(cpu="0.2")) is None
    assert not_restored(pod, made(cpu="120m")) == "soak/bounded-1: app cpu request 120 in place of 200"


def test_limits_count_where_they_were_written_and_still_stand() -> None:
    written, stated = (("app", "cpu", "limit", 800), ("app", "cpu", "request", 200)), ("app", "cpu", "request", 200)
    raised = ("app", "cpu", "limit", 12_000)
    assert differing(frozenset(written), frozenset({stated})) == []
    assert differing(frozenset({stated}), frozenset({stated, raised})) == []
    assert differing(frozenset(written), frozenset({stated, raised})) == ["app cpu limit 12000 in place of 800"]
    assert differing(frozenset(written), frozenset()) == ["app cpu request None in place of 200"]
