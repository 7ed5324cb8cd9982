"""Whatever rules, dashboards, runbook and READMEs call a series by, the program has it, and with that label."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.monitoring.families import TARGET_LABELS, families
from tests.monitoring.rule_files import CHART, DASHBOARD_FILES, RUNBOOK, dashboard, panel_queries, rules

SERIES: Final = re.compile(
    r"(?<![\w:/.-])((?:plimsoll_|process_)[a-z0-9_]*[a-z0-9]|plimsoll:\w+:\w+)\b(?:\{([^}]*)\})?"
)
MATCHER: Final = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPING: Final = re.compile(r"\b(?:by|on|ignoring|without|group_left|group_right) ?\(([^)]*)\)")
LEGEND: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
README: Final = CHART.parents[1] / "README.md"


@pytest.fixture(scope="module")
def known() -> Mapping[str, set[str]]:
    recorded = {rule["record"]: set[str]() for rule in rules() if "record" in rule}
    return {**families(), **recorded}


def named_in(text: str) -> Iterator[tuple[str, set[str]]]:
    """Give the series of a text, each with the labels that it is selected by."""
    for name, selector in SERIES.findall(text):
        yield name, set(MATCHER.findall(selector))


def test_rules_select_series_and_labels_that_are_there(known: Mapping[str, set[str]]) -> None:
    selections = [(rule["expr"], name, labels) for rule in rules() for name, labels in named_in(rule["expr"])]
    assert len(selections) > 60
    for expr, name, labels in selections:
        assert name in known, expr
        assert labels <= known[name], expr


def test_dashboards_select_series_and_labels_that_are_there(known: Mapping[str, set[str]]) -> None:
    selections = [
        (str(query), name, labels)
        for file in DASHBOARD_FILES
        for query in panel_queries(file)
        for name, labels in named_in(query.expr)
    ]
    assert len(selections) > 100
    for query, name, labels in selections:
        assert name in known, query
        if ":" not in name:
            assert labels <= known[name] | TARGET_LABELS, query


def test_what_is_grouped_by_and_shown_in_legends_is_a_label_of_the_series(known: Mapping[str, set[str]]) -> None:
    queries = [query for file in DASHBOARD_FILES for query in panel_queries(file)]
    rows = [(query.expr, query.legend) for query in queries] + [(rule["expr"], "") for rule in rules()]
    count = 0
    for expr, legend in rows:
        named = [name for name, _ in named_in(expr)]
        if any(":" in name for name in named):
            continue  # labels of what is recorded are those of its own expression
        wanted = {label.strip() for labels in GROUPING.findall(expr) for label in labels.split(",")} - {""}
        wanted |= set(LEGEND.findall(legend))
        there = set().union(TARGET_LABELS, {"le", "quantile"}, *(known[name] for name in named))
        assert wanted <= there, (expr, legend, wanted - there)
        count += len(wanted)
    assert count > 100


def test_variables_ask_for_series_and_labels_that_are_there(known: Mapping[str, set[str]]) -> None:
    for file in DASHBOARD_FILES:
        for variable in dashboard(file)["templating"]["list"]:
            if variable["type"] != "query":
                continue
            asked = re.fullmatch(r"label_values\((\w+)(?:\{(.*)\})?, (\w+)\)", variable["query"]["query"])
            assert asked is not None, variable["name"]
            name, selector, label = asked.groups()
            assert {label, *MATCHER.findall(selector or "")} <= known[name] | TARGET_LABELS, variable["name"]


@pytest.mark.parametrize(
    "page",
    [RUNBOOK, CHART / "README.md", CHART / "SIZING.md", README],
    ids=lambda page: page.parent.name + "/" + page.name,
)
def test_pages_name_series_that_are_there(known: Mapping[str, set[str]], page: Path) -> None:
    for name, labels in named_in(page.read_text(encoding="utf-8")):
        # A page may name a family without `_total`, or a stem that several begin with.
        assert name in known or any(series.startswith(name) for series in known), name
        assert labels <= known.get(name, labels) | TARGET_LABELS, name
