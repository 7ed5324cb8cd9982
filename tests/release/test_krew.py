"""krew's archive and manifest: what krew asks of them, and that the launcher hands everything on."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from agent.version import installed_version
from tests.archives import extract_all
from tests.release.krew import PROGRAM, archive, faults, manifest

ROOT = Path(__file__).parents[2]
URL = "https://example.com/plimsoll-krew-1.2.3.tar.gz"


def test_a_manifest_is_what_krew_takes_and_names_this_very_archive() -> None:
    content = archive("1.2.3", ROOT)
    assert archive("1.2.3", ROOT) == content
    document = yaml.safe_load(manifest("1.2.3", URL, content))
    assert faults(document) == []
    (platform,) = document["spec"]["platforms"]
    assert platform["sha256"] == hashlib.sha256(content).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(content)) as packed:
        names = set(packed.getnames())
    assert {file["from"] for file in platform["files"]} == names == {PROGRAM, "LICENSE"}
    assert document["spec"]["version"] == "v1.2.3"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("apiVersion",), "v1"),
        (("kind",), "Plugins"),
        (("metadata", "name"), "a b"),
        (("spec", "version"), "1.2.3"),
        (("spec", "shortDescription"), "two\nlines"),
        (("spec", "platforms"), []),
        (("spec", "platforms", 0, "uri"), "http://x"),
        (("spec", "platforms", 0, "sha256"), "0"),
        (("spec", "platforms", 0, "bin"), ""),
        (("spec", "platforms", 0, "files"), []),
        (("spec", "platforms", 0, "selector"), {"matchLabels": {"cpu": "x"}}),
    ],
)
def test_what_krew_refuses_is_found(path: tuple[str | int, ...], value: object) -> None:
    document = yaml.safe_load(manifest("1.2.3", URL, b"x"))
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    (fault,) = faults(document)
    assert str(path[-1]) in fault


@pytest.mark.parametrize(("runner", "words"), [("uvx", "--quiet --from"), ("pipx", "run --spec")])
def test_the_launcher_hands_all_on_to_the_same_version(tmp_path: Path, runner: str, words: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive(installed_version(), ROOT))) as packed:
        extract_all(packed, tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    launcher = ["/bin/sh", str(tmp_path / PROGRAM), "why", "shop/web", "--context", "a b"]
    environment = {**os.environ, "PATH": str(tools)}
    done = subprocess.run(launcher, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "neither uv nor pipx is on the PATH" in done.stderr
    (tools / runner).write_text('#!/bin/sh\nprintf "%s|" "$@"\nexit 7\n')
    (tools / runner).chmod(0o755)
    done = subprocess.run(launcher, env=environment, capture_output=True, text=True, check=False)
    package = f"plimsoll[webhook]=={installed_version()}"
    expected = [*words.split(), package, PROGRAM, "why", "shop/web", "--context", "a b", ""]
    assert (done.returncode, done.stdout.split("|")) == (7, expected)
    assert os.access(tmp_path / PROGRAM, os.X_OK)
