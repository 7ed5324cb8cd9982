"""The cold set-up: told before it begins, and only what is missing is made."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.tools import Progress, Tool, make_missing, minutes, tools

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass
class Bench:
    """Tools that are there or not, and a clock that each of them moves."""

    there: set[str]
    now: float = 0.0
    made: list[str] = field(default_factory=list)

    def tool(self, name: str, seconds: int) -> Tool:
        def make(_progress: Progress) -> None:
            self.now += seconds
            self.made.append(name)

        return Tool(name=name, seconds=seconds, is_there=lambda: name in self.there, make=make)


def test_only_what_is_missing_is_made_and_told_with_what_is_left() -> None:
    bench = Bench({"kubectl"})
    said: list[str] = []
    wanted = [bench.tool("etcd", 60), bench.tool("kubectl", 40), bench.tool("kube-apiserver", 320)]
    make_missing(wanted, said.append, clock=lambda: bench.now)
    assert bench.made == ["etcd", "kube-apiserver"]
    assert said == [
        "missing: etcd, kube-apiserver; about 6 minutes on two cores, once",
        "1/2 etcd: about 1 minute, 6 minutes for all that is left",
        "1/2 etcd: done in 60 s",
        "2/2 kube-apiserver: about 5 minutes, 5 minutes for all that is left",
        "2/2 kube-apiserver: done in 320 s",
    ]


def test_where_all_is_there_nothing_is_said() -> None:
    bench, said = Bench({"etcd"}), list[str]()
    make_missing([bench.tool("etcd", 60)], said.append)
    assert (bench.made, said) == ([], [])


def test_times_are_told_in_words() -> None:
    assert [minutes(seconds) for seconds in (5, 25, 60, 100, 640)] == [
        "some seconds",
        "half a minute",
        "1 minute",
        "2 minutes",
        "11 minutes",
    ]


def test_every_tool_has_a_name_and_an_estimate() -> None:
    names = [tool.name for tool in tools()]
    assert len(set(names)) == len(names)
    assert all(tool.seconds > 0 for tool in tools())


# .ci/python, with a Python of which one thing is amiss, for somebody who may install nothing.


def script(file: Path, text: str) -> Path:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def set_up(folder: Path, amiss: str) -> subprocess.CompletedProcess[str]:
    tools_folder = folder / "tools"
    tools_folder.mkdir(exist_ok=True)
    script(tools_folder / "id", "echo 1000")
    script(tools_folder / "sudo", "exit 1")
    python = script(folder / "python", f'{amiss}\nexec {sys.executable} "$@"')
    return subprocess.run(
        [REPOSITORY / ".ci/python", folder / "venv", python],
        env={"PATH": f"{tools_folder}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_what_makes_an_environment_nothing_is_begun(tmp_path: Path) -> None:
    done = set_up(tmp_path, """case "$*" in *ensurepip* | *-m\\ venv*) exit 1 ;; esac""")
    assert done.returncode == 2
    assert "plimsoll: missing packages; run: sudo apt-get install python3-venv" in done.stderr
    assert "going on" not in done.stderr
    assert not (tmp_path / "venv").exists()


def test_an_environment_that_was_half_made_is_made_the_next_time(tmp_path: Path) -> None:
    """Its bin/python is what make looks for, and ensurepip comes after that."""
    half = 'case "$*" in *-m\\ venv*) mkdir -p "$3/bin"; touch "$3/bin/python"; exit 1 ;; esac'
    done = set_up(tmp_path, half)
    assert done.returncode == 2
    assert not (tmp_path / "venv/bin/python").exists()
    assert set_up(tmp_path, "").returncode == 0
    assert subprocess.run([tmp_path / "venv/bin/python", "-m", "pip", "--version"], check=False).returncode == 0
