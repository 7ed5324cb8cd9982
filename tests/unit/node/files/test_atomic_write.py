from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agent.node.files.atomic_write import replace_file


def test_content_is_replaced_whole_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"a longer content of before")
    path.chmod(0o644)
    replace_file(path, b"new ", memoryview(b"content"))
    assert path.read_bytes() == b"new content"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["kept"]


def test_what_a_crash_left_aside_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "kept.new").write_bytes(b"half of one, and longer than the whole")
    replace_file(tmp_path / "kept", b"whole")
    assert (tmp_path / "kept").read_bytes() == b"whole"
    assert os.listdir(tmp_path) == ["kept"]


def test_disk_that_is_full_leaves_the_old_content_and_nothing_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)  # a real full disk needs a file system of its own, and root
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"after")
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["kept"]


@pytest.mark.parametrize("hindrance", ["no directory", "a directory aside", "a directory in its place"])
def test_what_cannot_be_written_is_an_oserror(tmp_path: Path, hindrance: str) -> None:
    path = tmp_path / "kept"
    if hindrance == "no directory":
        path = tmp_path / "absent" / "kept"
    elif hindrance == "a directory aside":
        (tmp_path / "kept.new").mkdir()
    else:
        path.mkdir()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(OSError, match="kept"):
        replace_file(path, b"content")
    assert sorted(os.listdir(tmp_path)) == before
