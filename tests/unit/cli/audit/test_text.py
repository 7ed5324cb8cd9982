from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agent.cli.audit.text import Heading, audit_json, audit_lines, target_text
from agent.cli.text.spans import Tone, display_width, line_text
from agent.core.cluster.pod import Partition, QosClass
from agent.core.machine.audit_report import AuditReport, Finding, FindingSubject, StaleOomScore
from agent.core.machine.cgroup_files import CgroupLevel, LiveCgroup, Unlimited
from agent.core.machine.comparison import State, Target, Weights
from agent.core.machine.cpu_knobs import CpuMax
from agent.core.machine.oom_score import OomScore

HEADING = Heading(node=None, pods=1, pods_file="pods.json", mount="/m", kubepods_path=None, driver=None, notes=("n",))
LONG = "/kubepods.slice/" + "x" * 200 + "/end"
POD = FindingSubject(level=CgroupLevel.POD, path=LONG, qos=QosClass.BURSTABLE, pod_uid="u", namespace="shop", pod="web")


def report(*findings: Finding, **more: Any) -> AuditReport:
    return AuditReport(**{"findings": findings, "sandboxes": (), "strangers": (), **more})


def finding(
    file: str = "memory.max", state: State = State.EQUAL, subject: FindingSubject = POD, **fields: Any
) -> Finding:
    return Finding(subject=subject, file=file, state=state, **fields)


def texts(said: AuditReport, *, width: int | None = None, show_all: bool = False) -> list[str]:
    return [line_text(line) for line in audit_lines(said, HEADING, width=width, show_all=show_all)]


@pytest.mark.parametrize(("pods", "told"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_the_heading_counts_pods(pods: int, told: str) -> None:
    lines = audit_lines(report(finding()), replace(HEADING, pods=pods), width=None, show_all=False)
    assert line_text(lines[0]) == f"{told} of pods.json, all nodes, /m, no kubepods"


def test_paths_are_cut_at_their_start_to_the_terminals_width() -> None:
    stranger = LiveCgroup(path=LONG, level=CgroupLevel.POD, readings={})

    lines = texts(report(finding(), strangers=(stranger,)), width=100)

    assert max(map(display_width, lines)) <= 100
    assert any(line.startswith("shop/web (Burstable)  …") and line.endswith("x/end") for line in lines)


def test_paths_in_a_pipe_are_whole() -> None:
    assert any(LONG in line for line in texts(report(finding())))


def test_drifted_and_missing_are_hot_and_marked_unknown_is_not() -> None:
    said = report(*(finding(state=state) for state in State))

    lines = audit_lines(said, HEADING, width=None, show_all=True)
    tones = {line_text(line)[:4]: line[0].tone for line in lines if "memory.max" in line_text(line)}

    assert tones == {"    ": Tone.PLAIN, "  ! ": Tone.HOT, "  ? ": Tone.NOTE}


def test_a_name_cannot_steer_the_terminal() -> None:
    subject = FindingSubject(level=CgroupLevel.POD, pod_uid="u", namespace="shop", pod="web\x1b[2J")

    assert not any("\x1b" in line for line in texts(report(finding(subject=subject))))


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        (FindingSubject(level=CgroupLevel.KUBEPODS), "kubepods  no cgroup"),
        (FindingSubject(level=CgroupLevel.PARTITION, partition=Partition.SYSTEM), "partition system  no cgroup"),
        (
            FindingSubject(level=CgroupLevel.TIER, partition=Partition.SYSTEM, qos=QosClass.BEST_EFFORT),
            "tier system/besteffort  no cgroup",
        ),
        (FindingSubject(level=CgroupLevel.CONTAINER, pod_uid="u", container="app"), "  container app  no id"),
    ],
)
def test_titles(subject: FindingSubject, title: str) -> None:
    assert title in texts(report(finding(subject=subject)))


@pytest.mark.parametrize(
    ("file", "target", "text"),
    [
        ("cpu.weight", Weights(shares=1024, takes_quadratic=True), "39 or 100"),
        ("cpu.weight", Weights(shares=2, takes_quadratic=True), "1"),
        ("cpu.weight", Weights(shares=1024, takes_quadratic=False), "39"),
        ("cpu.max", CpuMax(quota_usec=None, period_usec=100_000), "max"),
        ("memory.max", 0, "0B"),
        ("memory.max", Unlimited.MAX, "max"),
        ("hugetlb.2MB.max", 4 << 20, "4.00MiB"),
        ("memory.oom.group", 1, "1"),
        ("memory.max", None, "-"),
        ("cgroup", None, "none"),
        ("parent", "kubepods/burstable", "kubepods/burstable"),
    ],
)
def test_values_for_people(file: str, target: Target | str | None, text: str) -> None:
    assert target_text(file, target) == text


@pytest.mark.parametrize(
    ("file", "difference", "text"),
    [
        ("cpu.max", 300.0, "+300m"),
        ("cpu.max", -12.5, "-12m"),
        ("cpu.max", 0.0, "other period"),
        ("memory.max", -4096, "-4.00KiB"),
        ("cpu.weight", 5, "+5"),
    ],
)
def test_differences_for_people(file: str, difference: float, text: str) -> None:
    lines = texts(report(finding(file, State.DRIFTED, difference=difference)))

    assert any(line.endswith(f" {text}") for line in lines)


def test_json_of_an_empty_report_is_json() -> None:
    said = json.loads(json.dumps(audit_json(report(), HEADING)))

    assert said["summary"] == {"equal": 0, "drifted": 0, "not_there": 0, "unknown": 0}
    assert said["findings"] == []


def test_names_of_what_is_equal_are_folded() -> None:
    said = report(*(finding(f"hugetlb.{size}MB.max") for size in range(1, 20)))

    lines = texts(said)

    assert sum(line.count("hugetlb.") for line in lines) == 19
    assert max(len(line) for line in lines if "hugetlb" in line) <= 100


def test_scores_of_before_a_resize_stand_beside_the_findings() -> None:
    subject = replace(POD, level=CgroupLevel.CONTAINER, container="app")
    said = report(finding(), oom_scores=(StaleOomScore(subject=subject, score=OomScore(found=500, after_restart=875)),))
    assert "  shop/web app  500, a restart gives 875" in texts(said)
    (score,) = audit_json(said, HEADING)["oom_scores"]  # type: ignore[misc]
    assert (score["container"], score["found_oom_score_adj"], score["after_restart_oom_score_adj"]) == ("app", 500, 875)  # type: ignore[call-overload, index]
    assert said.is_clean
