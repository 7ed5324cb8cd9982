"""The order in which `make test` gives files to its workers."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import SECONDS, SHARED, group_of, seconds_of

ROOT = Path(__file__).resolve().parents[2]


def test_every_group_with_a_figure_is_there() -> None:
    assert [group for group in (*SECONDS, *SHARED) if not (ROOT / group).exists()] == []


def test_a_shared_folder_is_one_group_and_any_other_file_is_its_own() -> None:
    assert group_of("tests/image/test_image.py::test_a[x::y]") == "tests/image/"
    assert group_of("tests/kernel/test_kill.py::test_a[x::y]") == "tests/kernel/test_kill.py"
    assert seconds_of("tests/image/") > seconds_of("tests/cluster/test_demo.py") > seconds_of("tests/none.py") == 0
