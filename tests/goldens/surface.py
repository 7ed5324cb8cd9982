"""The part that is kept with the tests: names and forms that users build on, in seconds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.goldens.cases import VERBS, all_cases
from tests.goldens.command import Tree
from tests.goldens.live import agent_page, metric_lines, webhook_pages
from tests.goldens.offline import write_cases
from tests.goldens.written import enumerations, own_names

_FIELDS: Final = (
    *("top-json", "recommend-json", "plan-json", "events-json", "why-json", "replay-json", "audit-json"),
    *("simulate-json", "workload-json", "workloads-json", "policy-json", "buffers-json"),
)
"""The offline cases whose JSON fields are kept."""
_HELPS: Final = tuple(f"help-{verb}" for verb in VERBS)


def surface_of(tree: Tree) -> dict[str, str]:
    """Return the surface of a tree: file names with their text."""
    with TemporaryDirectory(prefix="surface-") as folder, ThreadPoolExecutor(2) as pool:
        scratch = Path(folder)
        agent = pool.submit(agent_page, tree, scratch / "agent")
        webhook = pool.submit(webhook_pages, tree, scratch / "webhook")
        out = scratch / "out"
        out.mkdir()
        chosen = frozenset({*_FIELDS, *_HELPS, "settings", "settings-webhook"})
        write_cases(tree, out, scratch / "cases", [case for case in all_cases() if case.name in chosen])
        document, page = webhook.result()
        return {
            "settings-agent.txt": (out / "settings.txt").read_text(encoding="utf-8"),
            "settings-webhook.txt": (out / "settings-webhook.txt").read_text(encoding="utf-8"),
            "fields.txt": "".join(_fields(out)),
            "flags.txt": "".join(_flags(out)),
            "metrics-agent.txt": _families(agent.result()),
            "metrics-webhook.txt": _families(page),
            "openapi.json": json.dumps(json.loads(document), indent=1, sort_keys=True) + "\n",
            "words.txt": enumerations(tree.root),
            "names.txt": own_names(tree.root),
        }


def _families(page: str) -> str:
    """Leave out the series: which there are in the first seconds is chance."""
    return "".join(f"{line}\n" for line in metric_lines(page).splitlines() if line.startswith("family "))


def _fields(out: Path) -> Iterator[str]:
    for name in _FIELDS:
        text = (out / f"{name}.fields").read_text(encoding="utf-8")
        yield from (f"{name} {line}\n" for line in text.splitlines())


def _flags(out: Path) -> Iterator[str]:
    for name in _HELPS:
        text = (out / f"{name}.txt").read_text(encoding="utf-8")
        for flag in sorted(set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", text))):
            yield f"{name.removeprefix('help-')} {flag}\n"


def write_surface(tree: Tree, folder: Path) -> None:
    """Write the surface of a tree into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in surface_of(tree).items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"goldens: {folder} is the surface of {tree.root} now")
