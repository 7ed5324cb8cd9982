"""The dashboards' JSON: what Grafana takes, nothing that is bound to one place, a word of advice on each panel."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest

from tests.monitoring.rule_files import CHART, DASHBOARD_FILES, dashboard

SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
BUILT_IN: Final = {"__rate_interval", "__interval", "__range", "datasource"}
each = pytest.mark.parametrize("file", DASHBOARD_FILES, ids=lambda file: file.stem)


def panels(file: Path) -> list[dict[str, Any]]:
    return [panel for panel in dashboard(file)["panels"] if panel["type"] != "row"]


def test_there_are_three_and_each_has_its_own_name() -> None:
    assert [file.stem for file in DASHBOARD_FILES] == ["fleet", "node", "workload"]
    assert len({dashboard(file)["uid"] for file in DASHBOARD_FILES}) == 3


def test_the_picture_is_small_and_stays_out_of_the_release() -> None:
    picture = CHART / "node-dashboard.png"
    assert 10_000 < picture.stat().st_size < 150_000
    assert "*.png" in (CHART / ".helmignore").read_text(encoding="utf-8").splitlines()


@each
def test_ids_are_unique_and_panels_do_not_overlap(file: Path) -> None:
    panel_list = dashboard(file)["panels"]
    assert len({panel["id"] for panel in panel_list}) == len(panel_list) > 8
    places = [panel["gridPos"] for panel in panel_list]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for place, other in combinations(places, 2):
        apart = (
            place["x"] + place["w"] <= other["x"]
            or other["x"] + other["w"] <= place["x"]
            or place["y"] + place["h"] <= other["y"]
            or other["y"] + other["h"] <= place["y"]
        )
        assert apart, (place, other)


@each
def test_the_data_source_is_chosen_and_never_named(file: Path) -> None:
    document = dashboard(file)
    assert document["templating"]["list"][0]["type"] == "datasource"
    for panel in panels(file):
        assert panel["datasource"] == SOURCE
        assert all(target["datasource"] == SOURCE for target in panel["targets"])
    assert all(annotation["datasource"] == SOURCE for annotation in document["annotations"]["list"])


@each
def test_every_panel_has_a_title_a_unit_and_says_what_to_make_of_it(file: Path) -> None:
    titles = [panel["title"] for panel in panels(file)]
    assert len(set(titles)) == len(titles)
    for panel in panels(file):
        assert panel["description"].endswith("."), panel["title"]
        assert panel["targets"], panel["title"]
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["type"] == "table" or defaults["unit"], panel["title"]


@each
def test_units_fit_the_names_of_what_is_shown(file: Path) -> None:
    for panel in panels(file):
        unit = panel["fieldConfig"]["defaults"].get("unit")
        for target in panel["targets"] if panel["type"] != "table" else ():
            expr = target["expr"]
            if "plimsoll_price_" in expr:
                assert unit == "short", panel["title"]  # money: the legend says of which currency
            elif re.search(r"_bytes\b", expr):
                assert unit == "bytes", panel["title"]
            elif re.search(r"_ratio\{", expr) or re.search(r"rate\(plimsoll_container_cpu_\w+_seconds_total", expr):
                assert unit in ("percentunit", "short"), panel["title"]  # short: a count of those over a threshold
            elif re.search(r"_seconds(_bucket|:p99_5m)?\b", expr) and "count(" not in expr and "86400" not in expr:
                assert unit == "s", panel["title"]
            elif "_cores" in expr:
                assert unit == "short", panel["title"]


@each
def test_variables_that_are_used_are_there_and_the_other_way_round(file: Path) -> None:
    document = dashboard(file)
    declared = {variable["name"] for variable in document["templating"]["list"]}
    text = file.read_text(encoding="utf-8")
    used = set(re.findall(r"\$\{?([A-Za-z_]+)", text)) - {"__all"}
    assert used - BUILT_IN <= declared
    assert declared <= used


@each
def test_queries_stay_within_the_chosen_clusters_and_job_names_are_nobodys(file: Path) -> None:
    for panel in panels(file):
        for target in panel["targets"]:
            if "ALERTS" not in target["expr"]:
                assert 'cluster=~"$cluster"' in target["expr"], panel["title"]
            assert not re.search(r"\bjob\s*=", target["expr"]), panel["title"]
