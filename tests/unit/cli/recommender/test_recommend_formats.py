from __future__ import annotations

import csv
import io
import json
import shlex
from dataclasses import replace

import yaml

from agent.cli.recommender.recommend_formats import (
    CSV_HEADER,
    csv_text,
    json_text,
    left_out_lines,
    patch_text,
    yaml_text,
)
from agent.core.cluster.unit import UnitResources
from agent.core.recommender.recommendation import Bound, Recommendations
from agent.node.files.documents import RECOMMENDATIONS
from tests.recommendations import KEEP, MI, mixed_node, node, recommendation, service, young


def csv_rows(answer: Recommendations) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(answer))))


def test_json_and_yaml_are_the_document_and_ascii() -> None:
    for document in (json.loads(json_text(mixed_node())), yaml.safe_load(yaml_text(mixed_node()))):
        assert RECOMMENDATIONS.from_json(document) == mixed_node()
    assert json_text(mixed_node()).isascii()
    assert yaml_text(node(recommendation("caf\udce9\x1b"))).isascii()


# CSV


def test_csv_has_a_row_per_container_and_units_in_its_names() -> None:
    rows = csv_rows(mixed_node())
    assert len(rows) == len(mixed_node().items)
    assert len(set(CSV_HEADER)) == len(CSV_HEADER)
    row = next(row for row in rows if row["container"] == "istio-proxy")
    assert row["cpu_request_millicores"] == "500"
    assert row["cpu_recommended_request_millicores"] == "40"
    assert (row["cpu_to_add_millicores"], row["cpu_to_free_millicores"]) == ("0", "460")
    assert row["memory_to_free_bytes"] == str(192 * MI)
    assert (row["cpu_severity"], row["memory_bounds"]) == ("large_saving", "in_use")
    assert (row["workload_kind"], row["workload_name"], row["policy"]) == ("Deployment", "web", "cruise")
    assert (row["cpu_readings"], row["history_minutes"]) == ("601", "2880")


def test_csv_cell_of_what_is_withheld_is_empty_with_its_reason() -> None:
    (row,) = csv_rows(node(young()))
    assert row["cpu_recommended_request_millicores"] == row["cpu_to_add_millicores"] == ""
    assert (row["cpu_withheld"], row["cpu_reason"]) == ("too_young", "too young: 45s of 10m00s")


def test_csv_carries_all_bounds_and_further_figures() -> None:
    fields = {"bounds": (Bound.MIN, Bound.ROUNDED), "extra": {"cpu_upper_bound_millicores": 900.5}}
    (row,) = csv_rows(node(recommendation(cpu_fields=fields)))
    assert row["cpu_bounds"] == "min rounded"
    assert row["extra"] == "cpu_upper_bound_millicores=900.5"


def test_csv_of_a_service_has_no_names_of_pods_and_hostile_ones_stay_one_row() -> None:
    (row,) = csv_rows(node(service()))
    assert (row["namespace"], row["workload_kind"], row["container_kind"]) == ("", "", "")
    (row,) = csv_rows(node(recommendation('we,b"x', "a\nb\x1b[2J")))
    assert (row["pod"], row["container"]) == ('we,b"x', "a\\x0ab\\x1b[2J")


# kubectl


def test_patch_is_a_shell_script_with_a_comment_for_each_pod() -> None:
    lines = patch_text(mixed_node()).splitlines()
    assert lines[0] == "# worker-7, policy cruise, 2026-11-21T10:00:00Z; kubectl 1.32 or newer"
    comments = [line for line in lines[1:] if line.startswith("#")]
    assert comments == [
        "# shop/web-7d9c5b8f4-x2x9k: istio-proxy CPU 500m to 40m, memory 256MiB to 64.0MiB",
        "# shop/web-7d9c5b8f4-zzzzz: app CPU 500m to 650m",
        "# shop/cache-0: redis memory 128MiB to 300MiB, memory limit 256MiB to 600MiB",
    ]
    commands = [shlex.split(line) for line in lines if not line.startswith("#")]
    assert [words[:4] for words in commands] == [
        ["kubectl", "patch", "pod", name] for name in ("web-7d9c5b8f4-x2x9k", "web-7d9c5b8f4-zzzzz", "cache-0")
    ]
    # 300 x 1,048,576 and 600 x 1,048,576
    assert json.loads(commands[2][-1])["spec"]["containers"] == [
        {
            "name": "redis",
            "resources": {"requests": {"memory": "314572800"}, "limits": {"memory": "629145600"}},
        }
    ]


def test_patch_of_nothing_is_a_harmless_script() -> None:
    lines = patch_text(node(young(), recommendation(cpu=KEEP, memory=KEEP))).splitlines()
    assert lines[1:] == ["# nothing to resize"]


def test_a_name_with_a_newline_cannot_leave_its_comment() -> None:
    text = patch_text(node(recommendation("x\nrm -rf /", "a\nreboot"), node="n\nreboot"))
    assert len([line for line in text.splitlines() if line.startswith("#")]) == 2
    # what is no comment is one command: its newlines stand within quotes
    assert shlex.split(text, comments=True)[3] == "x\nrm -rf /"
    assert shlex.split(text, comments=True).count("kubectl") == 1


def test_what_is_left_out_is_said_by_reason_with_some_names() -> None:
    lines = left_out_lines(mixed_node())
    assert lines == [
        "left out, too young: less than 10m00s of readings: jobs/young-5/app CPU, jobs/young-5/app memory",
        "left out, stale: no reading for 1m00s: jobs/resize-28871235-zz8lp/worker CPU",
        "left out, gaps: too few readings in its window: jobs/resize-28871235-zz8lp/worker memory",
        "left out, no request yet: a resize cannot add the first: jobs/bare/app CPU, jobs/bare/app memory",
        "left out, no pod source names it (--pods FILE does): /system.slice/ssh.service CPU",
        "left out, no signal from this kernel: /system.slice/ssh.service memory",
    ]


def test_many_left_out_are_counted() -> None:
    (line,) = left_out_lines(node(*(young(f"p{index}", seconds=float(index)) for index in range(9))))
    assert line.endswith("and 13 more")  # 9 containers of 2 resources, 5 of them named


def test_a_static_pod_is_left_out_with_its_reason() -> None:
    advice = recommendation(resources=UnitResources(cpu_request_millicores=500), memory=KEEP)
    static = replace(advice, identity=replace(advice.identity, pod_uid="0123456789abcdef0123456789abcdef"))
    assert any("a static pod" in line for line in left_out_lines(node(static)))
