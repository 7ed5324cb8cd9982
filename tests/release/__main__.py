"""``make release-check``: what would be released installs and runs where no tree is.

An sdist is made of what git has of the tree, a wheel of that sdist alone, and the wheel is installed into an empty
virtual environment of each Python from 3.11 on that is here, with the locked versions of what it needs; there
``plimsoll`` runs outside the tree. Exit code 0: all of it did, and all places tell one version; 1: something did not.
``--keep DIR`` keeps sdist and wheel.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.release import krew
from tests.release.versions import HOME, disagreements, told_versions

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / ".ci" / "requirements-dev.txt"
MINORS: Final = (11, 12, 13, 14)
WHEEL: Final = re.compile(r"plimsoll-(?P<version>[^-]+)-cp311-abi3-linux_\w+\.whl")
"""One for all later Pythons: the compiled sampler keeps to the limited API."""
COMMANDS: Final = (
    ("--version",),
    ("run", "--help"),
    ("agent", "--help"),
    ("webhook", "--help"),
    ("settings",),
)
NATIVE: Final = "from agent.sensing._sampler import lib; print(lib.PL_OK)"


class ReleaseError(Exception):
    """Something that a release must have is not so; one line, and the words of the program that said so."""


def main() -> int:
    """Check all."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="put sdist and wheel there")
    parser.add_argument(
        "--krew", metavar="URL", help="with --keep: put krew's archive there too, and the manifest for it at this URL"
    )
    parser.add_argument("--python", nargs="+", type=Path, metavar="PATH", help="interpreters (default: those found)")
    arguments = parser.parse_args()
    versions = told_versions(ROOT)
    faults = disagreements(versions)
    try:
        with tempfile.TemporaryDirectory(prefix="plimsoll-release-") as name:
            folder = Path(name)
            sdist = make_sdist(folder)
            wheel = make_wheel(sdist, folder)
            match = WHEEL.fullmatch(wheel.name)
            if match is None or match["version"] != versions[HOME]:
                faults.append(f"the wheel is called {wheel.name}")
            for python in arguments.python or pythons():
                check_install(python, wheel, folder, versions[HOME])
            if arguments.keep is not None:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                for file in (sdist, wheel):
                    print(f"release: kept {shutil.copy(file, arguments.keep)}")
                if arguments.krew is not None:
                    packed = krew.archive(versions[HOME], ROOT)
                    (arguments.keep / arguments.krew.rpartition("/")[2]).write_bytes(packed)
                    (arguments.keep / f"{krew.NAME}.yaml").write_text(
                        krew.manifest(versions[HOME], arguments.krew, packed)
                    )
                    print(f"release: kept krew's archive and {krew.NAME}.yaml")
    except (ReleaseError, OSError) as error:
        faults.append(str(error))
    for fault in faults:
        print(f"release: {fault}", file=sys.stderr)
    print(f"release: {versions[HOME]}: {f'{len(faults)} faults' if faults else 'all well'}")
    return 1 if faults else 0


def make_sdist(folder: Path) -> Path:
    """Make the sdist of what git has, so that nothing which only lies about is in it."""
    tree, out = folder / "tree", folder / "sdist"
    tree.mkdir()
    archive = folder / "tree.tar"
    # A stash is a commit of the tree as it is; nothing is put aside, and a clean tree has none.
    commit = _run(["git", "stash", "create"], ROOT).strip() or "HEAD"
    _run(["git", "archive", "-o", str(archive), commit], ROOT)
    _run(["tar", "-xf", str(archive), "-C", str(tree)], folder)
    out.mkdir()
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(out)!r})"
    _run([sys.executable, "-c", build], tree)
    return _only(out, "*.tar.gz")


def make_wheel(sdist: Path, folder: Path) -> Path:
    """Make the wheel of the sdist, which so has all that the build needs; setuptools and cffi are the locked ones."""
    out = folder / "wheel"
    options = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    _run([sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(out), str(sdist)], folder)
    return _only(out, "*.whl")


def pythons() -> Iterator[Path]:
    """Yield an interpreter of each minor version that is here and can make environments; this one's is always."""
    for minor in MINORS:
        if sys.version_info[1] == minor:
            yield Path(sys.executable)
            continue
        # pyenv's shims are there for versions that are switched off, so they are looked for beside them, too.
        versions = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))
        named = shutil.which(f"python3.{minor}")
        for python in [*([] if named is None else [Path(named)]), *versions]:
            if _answers(python, minor):
                yield python
                break
        else:
            print(f"release: no Python 3.{minor} here: not checked", flush=True)


def _answers(python: Path, minor: int) -> bool:
    code = f"import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, {minor}))"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def check_install(python: Path, wheel: Path, folder: Path, version: str) -> None:
    """Install the wheel into an empty environment and run it outside the tree."""
    environment = Path(tempfile.mkdtemp(prefix="environment-", dir=folder))
    _run([str(python), "-m", "venv", str(environment)], folder)
    inside = environment / "bin" / "python"
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(locked_pins(LOCK.read_text())) + "\n")
    options = ("--only-binary", ":all:", "--disable-pip-version-check", "--quiet", "-c", str(constraints))
    _run([str(inside), "-m", "pip", "install", *options, f"{wheel}[webhook]"], folder)
    for words in COMMANDS:
        said = _run([str(environment / "bin" / "plimsoll"), *words], folder)
        if words == ("--version",) and version not in said:
            raise ReleaseError(f"{python}: plimsoll --version says {said.strip()!r}, not {version}")
    _run([str(inside), "-c", NATIVE], folder)
    print(f"release: {_run([str(inside), '-V'], folder).strip()}: installed, runs, sampler in C", flush=True)


def locked_pins(text: str) -> list[str]:
    """Return the lines ``name==version`` of a file of requirements as constraints: no hashes and no extras."""
    pins = (re.sub(r"\[.*?\]", "", line.removesuffix("\\").strip()) for line in text.splitlines())
    return [pin for pin in pins if re.match(r"[\w.-]+==", pin)]


def _only(folder: Path, pattern: str) -> Path:
    files = list(folder.glob(pattern))
    if len(files) != 1:
        raise ReleaseError(f"{folder}: {len(files)} files {pattern}, not one")
    return files[0]


def _run(command: Sequence[str], folder: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)}: exit code {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
