"""tests/bench/preads.c, what the benchmark compares with, reads what it is told to."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.native.compiling import ROOT, compile_c, run


@pytest.fixture
def preads(tmp_path: Path) -> str:
    return str(compile_c("gcc", ROOT / "tests" / "bench" / "preads.c", tmp_path / "preads", ["-O2"]))


@pytest.mark.parametrize("options", [[], ["--open-each"]])
def test_preads_reads_every_file_that_is_there_in_every_round(preads: str, options: list[str], tmp_path: Path) -> None:
    for name in ("a", "b/c"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "cpu.stat").write_text("usage_usec 5\n", encoding="ascii")  # 13 bytes
    (tmp_path / "a" / "memory.current").write_text("12345\n", encoding="ascii")  # 6 bytes
    (tmp_path / "list").write_text("a\nb/c\n", encoding="ascii")
    said = json.loads(run([preads, str(tmp_path), str(tmp_path / "list"), "7", *options]))
    assert (said["groups"], said["rounds"], said["open_each"]) == (2, 7, bool(options))
    assert said["bytes"] == 7 * (13 + 13 + 6)
    assert 0 < said["min_ns"] <= said["median_ns"]


@pytest.mark.parametrize("arguments", [[], ["/", "list", "0"], ["/", "list", "1", "--what"]])
def test_preads_refuses_wrong_arguments(preads: str, arguments: list[str]) -> None:
    done = subprocess.run([preads, *arguments], capture_output=True, check=False)
    assert done.returncode == 2


def test_preads_each_second_waits_between_rounds_and_not_before_the_first(preads: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cpu.stat").write_text("usage_usec 5\n", encoding="ascii")
    (tmp_path / "list").write_text("a\n", encoding="ascii")
    began = time.monotonic()
    said = json.loads(run([preads, str(tmp_path), str(tmp_path / "list"), "2", "--each-second"]))
    assert time.monotonic() - began >= 1.0  # at least: one pause between two rounds
    assert said["bytes"] == 2 * 13
