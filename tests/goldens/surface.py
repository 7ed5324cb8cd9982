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
    *("simulate-json", "workload-json", "workloads-json", "policy-json", "buffers-json", "workloads-worst-json"),
    *("cost-json", "cluster-events-json", "report-json", "migrate-json", "admission-enforced-json"),
)
"""The offline cases whose JSON fields are kept."""
_BODIES: Final = {
    "buffers": "agent.webhook.queries.buffer_bodies:BuffersBody",
    "cost": "agent.webhook.queries.cost_bodies:CostBody",
    "events --cluster": "agent.webhook.queries.events:EventsBody",
    "migrate vpa": "agent.cli.workloads.migrate_view:MigratingBody[]",
    "policy": "agent.webhook.queries.workload_bodies:AppliesBody",
    "report --weekly": "agent.cli.workloads.weekly:WeeklyBody",
    "workloads": "agent.webhook.queries.workload_bodies:WorkloadLineBody[]",
    "workloads WORKLOAD": "agent.webhook.queries.workload_bodies:WorkloadBody",
}
"""Types that verbs write out as they are with ``-o json``; with [] a list of them. Schemas of these are kept."""
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
            "schemas.json": _schemas(tree, scratch),
            "words.txt": enumerations(tree.root),
            "names.txt": own_names(tree.root),
        }


def _schemas(tree: Tree, folder: Path) -> str:
    """Return a JSON Schema by verb; what several have in common stands once, under ``$defs``."""
    code = f"""
import importlib, json, msgspec
kinds = []
for place in {list(_BODIES.values())!r}:
    module, _, name = place.removesuffix("[]").partition(":")
    kind = getattr(importlib.import_module(module), name)
    kinds.append(list[kind] if place.endswith("[]") else kind)
verbs, shared = msgspec.json.schema_components(kinds, ref_template="#/$defs/{{name}}")
print(json.dumps({{"$defs": shared, "verbs": dict(zip({list(_BODIES)!r}, verbs))}}, indent=1, sort_keys=True))
"""
    return tree.script(code, folder)


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
