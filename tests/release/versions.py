"""Where the version stands besides pyproject.toml, its one home: the chart twice and the changelog's newest heading."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import yaml

HOME = "pyproject.toml"


def told_versions(root: Path) -> dict[str, str]:
    """Return the version by the place that tells it.

    Raises:
        ValueError: The changelog has no heading of a version.
    """
    chart = yaml.safe_load((root / "charts" / "plimsoll" / "Chart.yaml").read_text())
    heading = re.search(r"^## (\S+) \((?:unreleased|\d{4}-\d\d-\d\d)\)$", (root / "CHANGELOG.md").read_text(), re.M)
    if heading is None:
        raise ValueError("CHANGELOG.md: no heading such as `## 1.2.3 (unreleased)` or `## 1.2.3 (2026-11-23)`")
    return {
        HOME: tomllib.loads((root / HOME).read_text())["project"]["version"],
        "charts/plimsoll/Chart.yaml version": chart["version"],
        "charts/plimsoll/Chart.yaml appVersion": chart["appVersion"],
        "CHANGELOG.md": heading[1],
    }


def disagreements(versions: Mapping[str, str]) -> list[str]:
    """Return a line for each place that tells another version than pyproject.toml."""
    return [
        f"{place} says {version}, {HOME} {versions[HOME]}"
        for place, version in versions.items()
        if version != versions[HOME]
    ]
