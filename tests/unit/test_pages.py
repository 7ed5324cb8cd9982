"""The READMEs and the page on sizing: every link leads somewhere, every path and every target of make is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest

REPOSITORY: Final = Path(__file__).resolve().parents[2]
USERS: Final = REPOSITORY / "README.md"
OPERATORS: Final = REPOSITORY / "charts/plimsoll/README.md"
DEVELOPERS: Final = REPOSITORY / "agent/README.md"
PAGES: Final = (USERS, OPERATORS, DEVELOPERS)
SIZING: Final = REPOSITORY / "charts/plimsoll/SIZING.md"
WORDS_A_MINUTE: Final = 250
HALLS: Final = ("core", "node", "webhook", "cli")
IDS: Final = [str(page.relative_to(REPOSITORY)) for page in PAGES]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, SIZING], ids=[*IDS, SIZING.name])
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    assert links
    for link in links:
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_of_users_is_read_in_a_quarter_of_an_hour() -> None:
    assert len(USERS.read_text(encoding="utf-8").split()) <= 15 * WORDS_A_MINUTE


def test_each_readme_leads_to_the_other_two() -> None:
    for page in PAGES:
        links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        assert set(PAGES) - {page} <= {(page.parent / link).resolve() for link in links}, page


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_target_of_make_is_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.M))
    named = set(re.findall(r"(?:`|^)make ([a-z][a-z0-9-]*)", page.read_text(encoding="utf-8"), re.M))
    assert named
    assert named <= targets


def test_every_path_that_developers_are_sent_to_is_there() -> None:
    text = DEVELOPERS.read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:agent|native|tests)/[\w./]*)`", text))
    assert len(paths) > 15
    assert [path for path in sorted(paths) if not (REPOSITORY / path).exists()] == []


@pytest.mark.parametrize("hall", HALLS)
def test_the_tables_have_every_room_and_no_other(hall: str) -> None:
    named = set(
        re.findall(rf"`{hall}/(\w+(?:\.py)?)`", DEVELOPERS.read_text(encoding="utf-8").partition("## Rooms")[2])
    )
    directory = REPOSITORY / "agent" / hall
    rooms = {path.parent.name for path in directory.glob("*/__init__.py")}
    assert rooms <= named
    assert [name for name in sorted(named) if not (directory / name).exists()] == []
