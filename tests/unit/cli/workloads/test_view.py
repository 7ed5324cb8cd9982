"""What applies to a workload, as lines: how many pods of it run, in words."""

from __future__ import annotations

from typing import Any

import pytest

from agent.cli.text.spans import UNICODE, line_text
from agent.cli.workloads.view import notes, policy_lines
from agent.webhook.queries.explanation import explanation_of
from agent.webhook.queries.workload_bodies import AppliesBody, BoundBody, FromBody, WorkloadBody

NOWHERE = FromBody(value=None, source="default")


def workload(**fields: Any) -> WorkloadBody:
    """Return one to which nothing applies but what is given."""
    known: dict[str, Any] = {
        **dict.fromkeys(("mode", "policy", "pause"), NOWHERE),
        **dict.fromkeys(("cpu_frozen_for", "memory_frozen_for", "left_alone_for", "stop_shrinking_seconds")),
        **{"replicas": None, "bounds": [], "annotations": {}, "rules_fault": None},
    }
    return WorkloadBody(
        namespace="shop",
        kind="Deployment",
        name="web",
        history_seconds=60.0,
        newest_age_seconds=1.0,
        applies=AppliesBody(**{**known, **fields}),
        containers=[],
    )


def rows(**fields: Any) -> dict[str, str]:
    """Return label -> the rest of the line."""
    body = workload(**fields)
    lines = [line_text(line).split(maxsplit=1) for line in policy_lines(body, width=100, glyphs=UNICODE)]
    return {label: rest.strip() for label, rest in (line for line in lines if len(line) == 2)}


@pytest.mark.parametrize(("replicas", "told"), [(None, "not known"), (0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_policy_tells_how_many_pods_run(replicas: int | None, told: str) -> None:
    by_label = rows(replicas=replicas)
    assert by_label["running"] == told
    assert "replicas" not in by_label  # that is what is wished for, and nobody asked for it here


def test_policy_tells_for_how_long_nothing_shrinks() -> None:
    assert "shrinking" not in rows()
    assert rows(stop_shrinking_seconds=7200.0)["shrinking"].startswith("not for 2h00m ")


def test_policy_tells_what_the_profile_sets_and_what_wins_over_it() -> None:
    assert "profile" not in rows()
    own = BoundBody(name="plan.fitRule", value="shared", source="setting")
    by_label = rows(profile=[BoundBody(name="cruise.neighbourHours", value="0", source="profile document"), own])
    assert by_label["profile"] == "cruise.neighbourHours 0 profile document"
    assert by_label["plan.fitRule"] == "shared setting"


def test_policy_tells_windows_one_by_one_and_who_said_them() -> None:
    assert "windows" not in rows()
    text = "shrink: Europe/Berlin 0 22 * * * for 6h; evict, restart: 0 3 * * sat for 4h;"
    lines = [
        line_text(line)
        for line in policy_lines(
            workload(windows=FromBody(value=text, source="VPA shop/web")), width=100, glyphs=UNICODE
        )
    ]
    place = next(number for number, line in enumerate(lines) if line.split()[0] == "windows")
    assert lines[place].split(maxsplit=1)[1] == "shrink: Europe/Berlin 0 22 * * * for 6h VPA shop/web"
    assert lines[place + 1].strip() == "evict, restart: 0 3 * * sat for 4h"
    assert rows(windows=FromBody(value=None, source="VPA shop/web: 'x' is not allowed"))["windows"].startswith("-")


def test_what_is_kept_of_an_hpas_target_stands_in_the_place_of_the_freeze() -> None:
    sentence = "70 % of 500m CPU is kept: the target is 117 %"
    both: dict[str, Any] = {
        "cpu_frozen_for": "HPA shop/web",
        "memory_frozen_for": "HPA shop/web",
        "cpu_preserved": sentence,
    }
    assert rows(**both)["HPA"] == f"CPU followed     {sentence} (HPA shop/web)"
    assert rows(**both)["memory"] == "frozen    HPA shop/web"
    body = workload(**both)
    assert list(notes(body)) == [
        f"CPU is sized, and HPA shop/web follows: {sentence}",
        "memory is not changed: HPA shop/web scales on it",
    ]
    words = [step.words for step in explanation_of(body) if step.step == "autoscaler"]
    assert words == [f"CPU is sized, and HPA shop/web follows: {sentence}", "memory is left to HPA shop/web"]


def test_what_an_hpas_target_means_after_the_change_stands_below_what_it_holds() -> None:
    body = workload(cpu_frozen_for="HorizontalPodAutoscaler shop/web")
    body.hpa_advice = ["HorizontalPodAutoscaler shop/web: 70 % of 500m CPU is 350m; at 300m the equal target is 117 %"]
    of_app = workload(memory_frozen_for="HPA", memory_frozen_containers=["app"])
    assert list(notes(of_app)) == ["memory of app is not changed: HPA scales on it"]
    assert rows(memory_frozen_for="HPA", memory_frozen_containers=["app"])["memory"] == "of app frozen HPA"
    assert list(notes(body)) == [
        "CPU is not changed: HorizontalPodAutoscaler shop/web scales on it",
        *body.hpa_advice,
    ]
