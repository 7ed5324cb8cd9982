"""Both groups of a workload of which a share is enforced, as ``workloads`` and ``policy`` show them."""

from __future__ import annotations

from agent.cli.text.spans import ASCII, line_text
from agent.cli.workloads.view import policy_lines, workload_lines
from agent.webhook.queries.workload_bodies import AppliesBody, FromBody, GroupBody, ShareBody, WorkloadBody

FROM = FromBody(value="enforce", source="setting act.mode")


def group(*, enforced: bool, waiting: float | None) -> GroupBody:
    return GroupBody(
        enforced=enforced,
        pods=2 if enforced else 18,
        container_seconds=600.0,
        restarts=3 if enforced else 0,
        kills=0,
        unready_ratio=0.0,
        waiting_ratio=waiting,
        throttled_ratio=0.0125,
    )


def workload() -> WorkloadBody:
    applies = AppliesBody(
        mode=FROM,
        policy=FROM,
        pause=FromBody(value=None, source="ConfigMap plimsoll/plimsoll"),
        cpu_frozen_for=None,
        memory_frozen_for=None,
        left_alone_for=None,
        stop_shrinking_seconds=7200.0,
        stop_shrinking_for="a pod fared worse after a shrink: restarts",
        replicas=20,
        bounds=[],
        annotations={},
        rules_fault=None,
        share=FromBody(value="10 %", source="Namespace shop, annotation plimsoll.dev/enforce-share"),
        share_taken_back="10 %",
        share_taken_back_for="its pods fared worse: restarts",
    )
    groups = [group(enforced=True, waiting=0.305), group(enforced=False, waiting=None)]
    return WorkloadBody(
        namespace="shop",
        kind="Deployment",
        name="web",
        history_seconds=86_400.0,
        newest_age_seconds=30.0,
        applies=applies,
        containers=[],
        share=ShareBody(share="10 %", window_seconds=900.0, groups=groups),
    )


def test_both_groups_stand_side_by_side_with_what_was_taken_back() -> None:
    lines = [line_text(line).rstrip() for line in workload_lines(workload(), width=120, glyphs=ASCII)]
    assert lines[2:] == [
        "enforced share 10 % (Namespace shop, annotation plimsoll.dev/enforce-share)",
        "the enforced share of 10 % is taken back: its pods fared worse: restarts; order another share to go on",
        "only grows for another 2h00m: a pod fared worse after a shrink: restarts",
        "",
        "enforced share of 10 %, the last 15m00s",
        "                        pods         kills      restarts     not Ready waits for CPU     throttled",
        "      enforced             2             0             3          0.0%         30.5%          1.2%",
        "        others            18             0             0          0.0%             -          1.2%",
    ]


def test_policy_says_who_orders_the_share_and_that_it_is_taken_back() -> None:
    lines = [line_text(line).split() for line in policy_lines(workload(), width=160, glyphs=ASCII)]
    assert ["share", "10", "%", "Namespace", "shop,", "annotation", "plimsoll.dev/enforce-share"] in lines
    assert ["taken", "back", "share", "10", "%", "its", "pods", "fared", "worse:", "restarts"] in lines
    (shrinking,) = [line for line in lines if "shrinking" in line]
    assert " ".join(shrinking).endswith("a pod fared worse after a shrink: restarts")
