from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from agent.cli.text.png_plots import NothingToDraw, PictureError, check_picture, draw_picture
from agent.core.cluster.unit import UnitResources
from agent.core.resize.why import Whys
from tests.explanations import explanation, trail
from tests.subjects import subject

LIMITED = explanation(subject(resources=UnitResources(cpu_request_millicores=100, cpu_limit_millicores=9000)))
ONE = Whys(items=(explanation(),))
BOTH = Whys(items=(explanation(), LIMITED))


def size_of(png: bytes) -> tuple[int, int]:
    """Read width and height from the header of a PNG."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


@pytest.mark.slow
def test_a_picture_has_a_strip_of_charts_per_container(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_picture(BOTH, tmp_path / "both.png")
    draw_picture(ONE, tmp_path / "one.png")
    wide, tall = size_of((tmp_path / "one.png").read_bytes())
    # 11 inches, and 3 + 1.3 + 3 high, at 110 dots each
    assert (wide, tall) == (1210, 803)
    assert size_of((tmp_path / "both.png").read_bytes()) == (1210, 1606)
    assert sorted(os.listdir(tmp_path)) == ["both.png", "one.png"]


@pytest.mark.slow
def test_a_picture_of_a_week_with_gaps_is_drawn_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    minutes = 7 * 1440
    holed = tuple(None if 3000 < minute < 4000 else 50.0 for minute in range(minutes))
    item = explanation(trail=trail(minutes, cpu_usage_millicores=holed, cpu_peak_millicores=holed))
    draw_picture(Whys(items=(item,)), tmp_path / "week.png")
    assert (tmp_path / "week.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_picture_replaces_a_file_and_follows_a_link(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target, link = tmp_path / "real.png", tmp_path / "link.png"
    target.write_bytes(b"old")
    link.symlink_to(target)
    check_picture(link)
    draw_picture(ONE, link)
    assert link.is_symlink()
    assert size_of(target.read_bytes())
    assert sorted(os.listdir(tmp_path)) == ["link.png", "real.png"]


def test_a_picture_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "a.png"
    target.write_bytes(b"old")
    # what would be written beside it is in the way
    (tmp_path / f".a.png.{os.getpid()}").mkdir()
    with pytest.raises(PictureError, match=r"a\.png: File exists"):
        draw_picture(ONE, target)
    assert target.read_bytes() == b"old"


def test_a_picture_that_cannot_take_its_place_leaves_nothing_beside_it(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "a.png").mkdir()  # since it was checked
    with pytest.raises(PictureError, match=r"a\.png: Is a directory"):
        draw_picture(ONE, tmp_path / "a.png")
    assert os.listdir(tmp_path) == ["a.png"]


def test_nothing_measured_is_no_picture(tmp_path: Path) -> None:
    with pytest.raises(NothingToDraw, match=r"no minute measured in this time, nothing to draw"):
        draw_picture(Whys(items=(explanation(trail=None),)), tmp_path / "a.png")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.jpg", r"a\.jpg: a picture is a PNG; allowed: a name that ends in \.png"),
        ("none/a.png", "no such directory; allowed: a file in an existing directory"),
        ("dir.png", "is not a regular file; allowed: a file, or a new name"),
        ("x" * 300 + ".png", "File name too long"),
    ],
)
def test_check_picture_refuses_what_could_not_be_written(tmp_path: Path, name: str, message: str) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "dir.png").mkdir()
    with pytest.raises(PictureError, match=message):
        check_picture(tmp_path / name)


def test_without_matplotlib_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        PictureError, match=r"pictures need matplotlib; install it: pip install 'plimsoll\[pictures\]'$"
    ):
        check_picture(tmp_path / "a.png")
