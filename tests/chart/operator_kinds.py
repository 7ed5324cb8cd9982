"""``python -m tests.chart.operator_kinds``: the kinds of other people's operators that the chart makes objects of.

Their CustomResourceDefinitions come from the public Go module proxy, pinned by version and by Go's own checksum of the
module, and are kept in the cache of the tests' cluster. What is there is used without Go.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import yaml_texts
from tests.cluster.binaries import BinaryError, Progress, cache_root, one_builder_at_a_time
from tests.cluster.toolchain import ToolchainError, find_go

NEEDED_GO: Final = (1, 22)
"""Any that can fetch a module will do: nothing is compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """Where definitions come from."""

    path: str
    version: str
    sum: str
    """``h1:`` as go.sum has it."""
    files: tuple[str, ...]
    """In the module."""
    needed_go: tuple[int, ...] = NEEDED_GO

    def place(self, file: str) -> Path:
        """Return the place of a file in the cache; need not exist."""
        return cache_root() / f"definitions-{self.path.rpartition('/')[2]}-{self.version}" / Path(file).name


MODULES: Final = (
    Module(
        path="github.com/prometheus-operator/prometheus-operator",
        version="v0.85.0",
        sum="h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        files=tuple(
            f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
            for kind in ("podmonitors", "prometheusrules", "servicemonitors")
        ),
    ),
    Module(
        path="github.com/cert-manager/cert-manager",
        version="v1.21.2",
        sum="h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        files=("deploy/crds/cert-manager.io_certificates.yaml",),
    ),
)


def are_there() -> bool:
    """Return whether all definitions are in the cache."""
    return all(module.place(file).is_file() for module in MODULES for file in module.files)


def ensure_definitions(progress: Progress = lambda _line: None) -> list[dict[str, Any]]:
    """Return the definitions, fetched where they are not there yet.

    Raises:
        BinaryError: There is no Go, or the proxy does not give the module, or gives another one.
    """
    return [definition for module in MODULES for definition in definitions_of(module, progress)]


def definitions_of(module: Module, progress: Progress = lambda _line: None) -> list[dict[str, Any]]:
    """Return the definitions of one module, fetched where they are not there yet.

    Raises:
        BinaryError: As ``ensure_definitions``.
    """
    target = module.place(module.files[0]).parent
    with one_builder_at_a_time(target, progress):
        if not target.is_dir():
            progress(f"fetching the definitions of {module.path} {module.version}")
            fetch(module, target, progress)
    return [yaml_texts.load(module.place(file).read_text(encoding="utf-8")) for file in module.files]


def fetch(module: Module, target: Path, progress: Progress) -> None:
    """Fetch a module, and keep its definitions in a folder that is there only when it is whole."""
    try:
        go = find_go(module.needed_go, cache_root(), progress)
    except ToolchainError as error:
        raise BinaryError(str(error)) from error
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=target.parent) as unfinished:
        # -modcacherw: Go makes its cache read-only, and then nobody could remove it.
        ours = {
            "GOMODCACHE": f"{unfinished}/modules",
            "GOFLAGS": "-modcacherw",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }
        words = [str(go), "mod", "download", "-json", f"{module.path}@{module.version}"]
        done = subprocess.run(
            words, env={**os.environ, **ours}, cwd=unfinished, capture_output=True, text=True, check=False
        )
        answer = json.loads(done.stdout or "{}")
        if done.returncode != 0 or "Dir" not in answer:
            raise BinaryError(f"cluster: {module.path}@{module.version}: {answer.get('Error') or done.stderr.strip()}")
        if answer["Sum"] != module.sum:
            raise BinaryError(f"cluster: {module.path}@{module.version} is {answer['Sum']} and not {module.sum}")
        folder = Path(unfinished) / "made"
        folder.mkdir()
        for file in module.files:
            shutil.copyfile(Path(answer["Dir"]) / file, folder / Path(file).name)
        folder.rename(target)


def main() -> int:
    """Fetch them; 1 when they cannot be had."""
    try:
        ensure_definitions(lambda line: print(f"cluster: {line}", flush=True))
    except BinaryError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
