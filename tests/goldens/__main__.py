"""``python -m tests.goldens write DIR [--tree ROOT]``, ``compare BEFORE AFTER``, ``accept``: see ``--help``."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.goldens.cases import all_cases
from tests.goldens.command import Tree, tree_of
from tests.goldens.live import write_agent, write_webhook
from tests.goldens.offline import write_cases
from tests.goldens.places import SURFACE
from tests.goldens.surface import write_surface
from tests.goldens.written import write_written

ROOT = Path(__file__).parents[2]
_SHOWN_LINES = 40


def write(tree: Tree, out: Path, only: str) -> None:
    """Write all outputs of a tree into a folder that is new or empty."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        sys.exit(f"goldens: {out} is not empty; remove it first")
    with TemporaryDirectory(prefix="goldens-") as scratch:
        if not only:
            write_written(tree.root, out)
            write_webhook(tree, out, Path(scratch))
            write_agent(tree, out, Path(scratch))
        write_cases(tree, out, Path(scratch), [case for case in all_cases() if only in case.name])
    print(f"goldens: {len(list(out.iterdir()))} files in {out}")


def compare(before: Path, after: Path, lines: int) -> int:
    """Print each difference; give 1 where there is one."""
    names = sorted({path.name for folder in (before, after) for path in folder.iterdir()})
    differing = 0
    for name in names:
        old, new = _lines(before / name), _lines(after / name)
        if old == new:
            continue
        differing += 1
        diff = list(difflib.unified_diff(old, new, f"before/{name}", f"after/{name}", lineterm="", n=1))
        print("\n".join(diff[:lines] if lines else diff))
        if lines and len(diff) > lines:
            print(f"... {len(diff) - lines} lines more; --lines 0 shows all")
    print(f"goldens: {differing} of {len(names)} files differ")
    return int(differing > 0)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else ["(no such file)"]


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.goldens", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    writing = verbs.add_parser("write", help="write all outputs of a tree into a new folder (minutes)")
    writing.add_argument("folder", type=Path)
    writing.add_argument("--only", default="", metavar="PART", help="offline cases with this in their names alone")
    comparing = verbs.add_parser("compare", help="tell each difference of two folders; exit code 1 where there is one")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--lines", type=int, default=_SHOWN_LINES, help="of one file at most; 0 = all")
    accepting = verbs.add_parser("accept", help=f"take the tree's surface for the wanted one: {SURFACE}")
    for command in (writing, accepting):
        command.add_argument("--tree", type=Path, default=ROOT, help="a checkout (default: this one)")
        command.add_argument("--python", type=Path, help="the interpreter (default: .venv/bin/python of the checkout)")
    given = parser.parse_args()
    if given.verb == "compare":
        return compare(given.before, given.after, given.lines)
    tree = tree_of(given.tree, given.python)
    if given.verb == "write":
        write(tree, given.folder, given.only)
    else:
        write_surface(tree, SURFACE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
