"""Runs ``plimsoll`` of any tree as people do, with the clock stopped, and writes down what it says."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.goldens.places import NOW_UNIX_SECONDS

_STOPPED_CLOCK: Final = f"""import time
time.time = lambda: {NOW_UNIX_SECONDS}.25
"""
"""As a ``sitecustomize``: ages and dates of an answer over fixed files are then the same at any time."""
_TIMEOUT_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout, and the interpreter that has what it depends on."""

    root: Path
    python: Path

    def command(self) -> list[str]:
        """Return what stands before a verb."""
        return [str(self.python), "-m", "agent"]

    def environment(self, folder: Path, *, stops_clock: bool = True, **more: str) -> dict[str, str]:
        """Return a small environment, the same on any machine; the tree's own modules come first."""
        paths = [str(self.root)]
        if stops_clock:
            shim = folder / "stopped"
            shim.mkdir(exist_ok=True)
            (shim / "sitecustomize.py").write_text(_STOPPED_CLOCK, encoding="utf-8")
            paths.insert(0, str(shim))
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "120",
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONSAFEPATH": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "NODE_NAME": "worker-7",
            **more,
        }

    def run(
        self, words: Iterable[str], folder: Path, *, stops_clock: bool = True, stdin: str = "", **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one command in a folder."""
        return subprocess.run(
            [*self.command(), *words],
            cwd=folder,
            env=self.environment(folder, stops_clock=stops_clock, **more),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )

    def script(self, code: str, folder: Path) -> str:
        """Return what a piece of Python prints in this tree."""
        done = subprocess.run(
            [str(self.python), "-c", code],
            cwd=self.root,
            env=self.environment(folder, stops_clock=False),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
        return done.stdout


def tree_of(root: Path, python: Path | None = None) -> Tree:
    """Return the tree at a folder, with its own interpreter unless another is named.

    Raises:
        SystemExit: The interpreter loads the agent of another tree.
    """
    chosen = python or (root / ".venv/bin/python")
    tree = Tree(root.resolve(), chosen.absolute())
    place = tree.script("import agent; print(agent.__file__)", Path.cwd()).strip()
    if not place.startswith(f"{tree.root}/"):
        sys.exit(f"goldens: {chosen} loads {place}, which is not below {tree.root}")
    return tree


def normalised(text: str, folder: Path, tree: Tree) -> str:
    """Replace what differs from run to run: folders, ports, this machine's name, processes."""
    for path, name in ((str(folder.resolve()), "$WORK"), (str(folder), "$WORK"), (str(tree.root), "$TREE")):
        text = text.replace(path, name)
    text = re.sub(r"(127\.0\.0\.1|port=?)([:=]\s*)\d{4,5}\b", r"\1\2$PORT", text)
    text = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "$HOST", text)
    text = re.sub(r"\bprocess \d+\b", "process $PID", text)
    text = re.sub(r" at 0x[0-9a-f]+", " at $ADDRESS", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def told(
    words: Iterable[str],
    done: subprocess.CompletedProcess[str],
    folder: Path,
    tree: Tree,
    *,
    asked: Iterable[str] = (),
    files: Iterable[Path] = (),
) -> str:
    """Write down one command: what was asked, the exit code, both streams, and the files it left."""
    parts = [f"$ plimsoll {' '.join(words)}", f"exit code {done.returncode}"]
    parts += [f"asked {question}" for question in asked]
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        if text:
            parts += [f"--- {name}", text.rstrip("\n")]
    for file in files:
        parts += [f"--- file {file.name}", _content(file)]
    return normalised("\n".join(parts) + "\n", folder, tree)


def _content(file: Path) -> str:
    if not file.exists():
        return "(not there)"
    content = file.read_bytes()
    if file.suffix in (".html", ".svg", ".json", ".csv"):
        return content.decode().rstrip("\n")
    return f"sha256 {hashlib.sha256(content).hexdigest()}"


def field_paths(document: Any, place: str = "") -> dict[str, set[str]]:
    """Return each field of a JSON document by its path, with the types of its values; ``[]`` is any item of a list."""
    kinds_by_path: dict[str, set[str]] = {}

    def walk(value: Any, at: str) -> None:
        if isinstance(value, Mapping):
            kinds_by_path.setdefault(at or ".", set()).add("object")
            for key, inner in value.items():
                walk(inner, f"{at}.{key}")
        elif isinstance(value, list):
            kinds_by_path.setdefault(at or ".", set()).add("list")
            for inner in value:
                walk(inner, f"{at}[]")
        else:
            kinds_by_path.setdefault(at, set()).add(_type_of(value))

    walk(document, place)
    return kinds_by_path


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return {int: "number", float: "number", str: "string"}.get(type(value), type(value).__name__)


def path_lines(document: Any) -> str:
    """Return the paths of a document as lines, sorted."""
    kinds_by_path = field_paths(document)
    return "".join(f"{path} {'|'.join(sorted(kinds))}\n" for path, kinds in sorted(kinds_by_path.items()))


def json_of(text: str) -> Any:
    """Read JSON, or say what is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return {"no JSON": text[:200]}
