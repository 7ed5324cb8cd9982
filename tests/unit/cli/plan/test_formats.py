from __future__ import annotations

import csv
import io
import json
import shlex
from typing import Any

from agent.cli.plan.formats import CSV_HEADER, command_of, csv_text, json_text, left_out_line, patch_text
from agent.core.plan.plan import Plan
from agent.node.files.documents import PLAN
from tests.plans import MI, change, container, mixed_plan, plan, pod, share, step


def rows_of(answer: Plan) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(answer))))


def test_json_is_the_document_of_the_socket() -> None:
    assert PLAN.from_json(json.loads(json_text(mixed_plan()))) == mixed_plan()
    assert json_text(mixed_plan()).isascii()


def test_csv_has_a_line_for_each_container_budget_and_pod_without() -> None:
    rows = rows_of(mixed_plan())
    assert tuple(rows[0]) == CSV_HEADER
    assert [(row["pod"], row["container"]) for row in rows] == [
        ("coredns-5", ""),
        ("etcd-worker-7", ""),
        ("kube-proxy", ""),
        ("advised-1", ""),
        ("cache-0", "redis"),
        ("gone-1", "app"),
        ("web-7d9c5b8f4-x2x9k", "app"),
        ("web-7d9c5b8f4-x2x9k", "istio-proxy"),
        ("budget-1", ""),
        ("budget-1", "a"),
        ("budget-1", "b"),
    ]


def test_csv_cells_are_plain_numbers_and_empty_where_there_is_none() -> None:
    (row,) = rows_of(plan(pod("web", container(cpu=share(100, 300, 500, limit=900, limit_applied=4000), memory=None))))
    assert (row["cpu_base_millicores"], row["cpu_peak_millicores"], row["cpu_spike_millicores"]) == (
        "100",
        "300",
        "200",
    )
    assert (row["cpu_final_millicores"], row["cpu_request_millicores"]) == ("200", "500")
    assert (row["cpu_limit_millicores"], row["cpu_limit_applied_millicores"]) == ("900", "4000")
    assert (row["memory_base_bytes"], row["memory_request_bytes"], row["cpu_kept"]) == ("", "", "")
    assert (row["pod_memory_counted_bytes"], row["reserved"]) == (str(256 * MI), "")


def test_csv_cannot_steer_a_terminal() -> None:
    assert "\x1b" not in csv_text(plan(pod("a\x1b[31m", container("\x1b"))))


def test_patches_are_in_the_order_of_the_steps_with_what_they_change() -> None:
    lines = patch_text(mixed_plan()).splitlines()
    assert lines[0].startswith("# plan of worker-7, 2026-11-21T10:00:00Z; kubectl 1.32")
    assert "before a step that grows, wait" in lines[1]
    assert lines[2] == "# 1. shrink shop/web-7d9c5b8f4-x2x9k: app CPU 500m to 200m (share of the node's spike)"
    commands = [line for line in lines if line.startswith("kubectl patch pod ")]
    assert [shlex.split(line)[3] for line in commands] == [
        "web-7d9c5b8f4-x2x9k",
        "cache-0",
        "budget-1",
        "web-7d9c5b8f4-x2x9k",
    ]


def test_a_command_is_one_that_a_shell_reads_back() -> None:
    words = shlex.split(command_of(step("it's", change(500, 250, "a b"), namespace="n")))
    assert words[:8] == ["kubectl", "patch", "pod", "it's", "--namespace", "n", "--subresource", "resize"]
    body: dict[str, Any] = json.loads(words[words.index("--patch") + 1])
    assert body["metadata"] == {"uid": "uid-n-it's"}
    assert body["spec"] == {"containers": [{"name": "a b", "resources": {"requests": {"cpu": "250m"}}}]}


def test_nothing_to_do_is_a_script_that_does_nothing() -> None:
    assert patch_text(plan()).splitlines()[1:] == ["# nothing to resize"]


def test_comments_hold_on_one_line() -> None:
    text = patch_text(plan(steps=(step("a", reason="x\nkubectl delete node --all"),)))
    assert all(line.startswith(("#", "kubectl patch pod ")) for line in text.splitlines())


def test_what_patches_do_not_do_is_said() -> None:
    assert left_out_line(mixed_plan()) == "left out, proposed evictions: shop/gone-1"
    assert left_out_line(plan()) is None
    many = plan(evictions=mixed_plan().evictions * 8)
    assert (left_out_line(many) or "").endswith(" and 3 more")
