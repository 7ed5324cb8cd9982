"""The pause of the whole cluster: what the kubelet mounts, and what the webhook told, are one answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.core.orders.cluster_rules import LONGEST_PAUSE, UNSTATED_PAUSE
from agent.node.cluster.pause import ClusterPause


class Mounted:
    """A ConfigMap as a kubelet mounts it: keys are links through ``..data``, which is replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.versions = folder, 0
        folder.mkdir()

    @property
    def file(self) -> Path:
        return self.folder / "pause"

    def put(self, text: str | None) -> None:
        self.versions += 1
        version = self.folder / f"..{self.versions}"
        version.mkdir()
        if text is not None:
            (version / "pause").write_text(text)
        (self.folder / "..new").symlink_to(version.name)
        os.rename(self.folder / "..new", self.folder / "..data")
        if text is None:
            self.file.unlink(missing_ok=True)
        elif not self.file.is_symlink():
            self.file.symlink_to("..data/pause")


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path / "cluster")


def of_file(file: Path | None) -> str | None:
    return ClusterPause(file, told=lambda: None).reason()


def test_it_is_paused_as_long_as_the_mounted_key_says_so(mounted: Mounted) -> None:
    found = []
    for text in (None, "incident 12", "true", " FALSE\n", "two\nlines", "", "again", None):
        mounted.put(text)
        found.append(of_file(mounted.file))
    assert found == [None, "incident 12", UNSTATED_PAUSE, None, "two lines", None, "again", None]


def test_either_witness_is_enough(mounted: Mounted) -> None:
    told: list[str | None] = [None]
    both = ClusterPause(mounted.file, told=lambda: told[0])
    assert both.reason() is None
    told[0] = "told"
    assert both.reason() == "told"
    mounted.put("mounted")
    assert both.reason() == "mounted"
    told[0] = None
    assert both.reason() == "mounted"
    mounted.put(None)
    assert both.reason() is None


def test_without_a_file_only_the_webhook_tells() -> None:
    assert of_file(None) is None
    assert ClusterPause(None, told=lambda: "told").reason() == "told"


def test_what_cannot_be_read_may_be_a_pause(mounted: Mounted, tmp_path: Path) -> None:
    assert of_file(tmp_path / "unmounted" / "pause") == (
        f"whether it is cannot be read: No such file or directory: {tmp_path}/unmounted/pause"
    )
    mounted.file.mkdir()
    assert of_file(mounted.file) == f"whether it is cannot be read: Is a directory: {mounted.file}"


def test_odd_bytes_and_endless_reasons_are_a_pause_with_a_short_reason(mounted: Mounted) -> None:
    mounted.put("x" * (1 << 20))
    assert of_file(mounted.file) == "x" * LONGEST_PAUSE
    mounted.put("")
    (mounted.folder / "..data" / "pause").write_bytes(b"\xff\xfe upgrade")
    assert of_file(mounted.file) == "\ufffd\ufffd upgrade"
