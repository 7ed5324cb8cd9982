from __future__ import annotations

from pathlib import Path

import pytest

from tests.release.__main__ import locked_pins
from tests.release.versions import disagreements, told_versions

ROOT = Path(__file__).parents[2]


def tree(root: Path, *, heading: str = "## 1.2.3 (unreleased)", chart: str = "1.2.3", app: str = "1.2.3") -> Path:
    """Make what a release's version stands in."""
    (root / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (root / "charts" / "plimsoll").mkdir(parents=True)
    (root / "charts" / "plimsoll" / "Chart.yaml").write_text(f'version: {chart}\nappVersion: "{app}"\n')
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n\nText.\n")
    return root


def test_this_tree_tells_one_version() -> None:
    assert disagreements(told_versions(ROOT)) == []


@pytest.mark.parametrize("heading", ["## 1.2.3 (unreleased)", "## 1.2.3 (2026-11-23)"])
def test_newest_heading_is_the_changelogs_version(heading: str, tmp_path: Path) -> None:
    assert disagreements(told_versions(tree(tmp_path, heading=heading))) == []


def test_each_place_that_is_behind_has_its_line(tmp_path: Path) -> None:
    versions = told_versions(tree(tmp_path, heading="## 1.2.2 (unreleased)", chart="1.2.1", app="1.2.0"))

    assert disagreements(versions) == [
        "charts/plimsoll/Chart.yaml version says 1.2.1, pyproject.toml 1.2.3",
        "charts/plimsoll/Chart.yaml appVersion says 1.2.0, pyproject.toml 1.2.3",
        "CHANGELOG.md says 1.2.2, pyproject.toml 1.2.3",
    ]


def test_changelog_without_a_heading_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no heading"):
        told_versions(tree(tmp_path, heading="## Next"))


def test_locked_pins_keep_markers_and_leave_out_hashes_extras_and_comments() -> None:
    text = """# Made by uv
alembic==1.20.1 \\
    --hash=sha256:aa
psycopg[binary]==3.3.9 ; implementation_name != 'pypy' \\
    --hash=sha256:bb
    # via plimsoll
"""

    assert locked_pins(text) == ["alembic==1.20.1", "psycopg==3.3.9 ; implementation_name != 'pypy'"]
