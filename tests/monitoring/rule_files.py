"""The chart's rules and dashboards, read for tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import yaml_texts

CHART: Final = Path(__file__).parents[2] / "charts" / "plimsoll"
RUNBOOK: Final = CHART / "RUNBOOK.md"
RULE_FILES: Final = tuple(sorted((CHART / "files" / "rules").glob("*.yaml")))
DASHBOARD_FILES: Final = tuple(sorted((CHART / "files" / "dashboards").glob("*.json")))


def rules() -> list[dict[str, Any]]:
    """Return all rules of all files as they are written."""
    return [
        rule
        for file in RULE_FILES
        for group in yaml_texts.load(file.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    ]


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerts by name; a name that is used twice fails."""
    alert_rules = [rule for rule in rules() if "alert" in rule]
    by_name = {rule["alert"]: rule for rule in alert_rules}
    assert len(by_name) == len(alert_rules)
    return by_name


def runbook_section(alert: str) -> str:
    """Return what the runbook says of an alert."""
    _, _, rest = RUNBOOK.read_text(encoding="utf-8").partition(f"## {alert}\n")
    return rest.partition("\n## ")[0]


def readme_section() -> str:
    """Return what the chart's README says of alerts and dashboards."""
    _, _, rest = (CHART / "README.md").read_text(encoding="utf-8").partition("\n## Alerts and dashboards\n")
    return rest.partition("\n## ")[0]


def dashboard(file: Path) -> dict[str, Any]:
    """Read one dashboard."""
    read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query of a dashboard."""

    dashboard: str
    panel: str
    """Its title, or ``$name`` of a variable, or ``@name`` of an annotation."""
    expr: str
    legend: str = ""

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.panel}: {self.expr}"


def panel_queries(file: Path) -> Iterator[Query]:
    """Give what the panels and annotations of a dashboard ask."""
    document = dashboard(file)
    for panel in document["panels"]:
        for target in panel.get("targets", ()):
            yield Query(dashboard=file.stem, panel=panel["title"], expr=target["expr"], legend=target["legendFormat"])
    for annotation in document["annotations"]["list"]:
        yield Query(dashboard=file.stem, panel=f"@{annotation['name']}", expr=annotation["expr"])


def substituted(expr: str, values: Mapping[str, str]) -> str:
    """Put a dashboard's variables in; the longest names first, as one may begin another."""
    for name in sorted(values, key=len, reverse=True):
        expr = expr.replace(f"${name}", values[name])
    return expr
