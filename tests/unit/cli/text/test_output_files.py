"""Files that a person named: refused before the work, whole after it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agent.cli.text.output_files import OutputError, check_output, put_output


def test_a_free_name_and_a_file_are_fine(tmp_path: Path) -> None:
    check_output(tmp_path / "free")
    (tmp_path / "file").write_text("old")
    check_output(tmp_path / "file")


@pytest.mark.parametrize("name", ["pipe", ".", "none/file", "loop"])
def test_what_cannot_be_is_refused_with_its_name(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OutputError, match=str(tmp_path)):
        check_output(tmp_path / name)


def test_put_replaces_the_target_of_a_link_and_leaves_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    put_output(tmp_path / "link", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_put_that_fails_says_so_and_leaves_what_was_there(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file or directory"):
        put_output(tmp_path / "none" / "file", b"new")
    os.mkfifo(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
