"""What dead runs left goes, what a living one has stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.soak.leftovers import sweep


def test_only_what_is_left_of_dead_runs_goes(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    for name in (f"plimsoll-soak-{ended.pid}-abc", f"plimsoll-soak-{os.getpid()}-abc", "plimsoll-soak-mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    assert sweep([tmp_path]) == [f"plimsoll-soak-{ended.pid}-abc"]
    assert {left.name for left in tmp_path.iterdir()} == {
        f"plimsoll-soak-{os.getpid()}-abc",
        "plimsoll-soak-mine",
        "other",
    }
