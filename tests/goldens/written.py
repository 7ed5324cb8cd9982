"""What is written in a tree's own files: names and reasons in the code, and the chart as Helm renders it."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_KEY: Final = re.compile(r"\b[a-z0-9.-]*plimsoll(?:\.dev|-[a-z]+)?/[a-z0-9._/-]+|\bplimsoll\.dev\b")
_CHARTS: Final[dict[str, tuple[str, ...]]] = {
    "default": (),
    "enforce": ("mode=enforce", "settings.plan.replanSeconds=10", "evictions.enabled=true"),
    "alone": ("webhook.enabled=false",),
    "postgres": ("webhook.replicas=3", "webhook.postgresql.existingSecret=db", "webhook.forgetter.enabled=true"),
    "monitoring": ("monitoring.podMonitor.enabled=true", "monitoring.serviceMonitor.enabled=true"),
    "namespace": ("namespace.create=true", "agent.state.hostPath=", "agent.port=9999"),
    "enforced-nodes": ("mode=enforce", "enforceNodes.pool=a"),
    "kept": ("webhook.persistence.enabled=true",),
    "wrong": ("colour=red", "agent.port=x"),
    "contradicting": ("enforceNodes.pool=a",),
    "unfit-database": ("webhook.replicas=3",),
}
"""Values by name; those that the chart refuses are told with its words."""


_FOR: Final = (
    *("--kube-version", "1.37.0"),
    *("--api-versions", "monitoring.coreos.com/v1/ServiceMonitor,monitoring.coreos.com/v1/PodMonitor"),
)


def _parsed(root: Path, word: str = "") -> Iterator[ast.Module]:
    """Parse the files in which a word stands, in whichever case."""
    for path in sorted((root / "agent").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if word in text.lower():
            yield ast.parse(text)


def enumerations(root: Path) -> str:
    """Give the words of each enumeration, a line each, without its name or place: they are keys, reasons and labels."""
    lines = set()
    for module in _parsed(root, "strenum"):
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("StrEnum") for base in node.bases):
                words = [
                    item.value.value
                    for item in node.body
                    if isinstance(item, ast.Assign)
                    and isinstance(item.value, ast.Constant)
                    and isinstance(item.value.value, str)
                ]
                lines.add(" | ".join(words))
    return "\n".join(sorted(lines)) + "\n"


def own_names(root: Path) -> str:
    """Return the annotations, labels, taints, formats and other names of the product's own that the code holds."""
    names: set[str] = set()
    for module in _parsed(root, "plimsoll"):
        for node in ast.walk(module):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if text.startswith(("plimsoll", "PLIMSOLL")) and " " not in text and len(text) < 80:
                    names.add(text)
                names.update(_KEY.findall(text))
    return "\n".join(sorted(names)) + "\n"


def strings(root: Path) -> str:
    """Give every sentence and word in the code that is no docstring: what a program can say. For people to compare."""
    literals: set[str] = set()
    for module in _parsed(root):
        docstrings = {
            id(node.value)
            for node in ast.walk(module)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        parts = (node for node in ast.walk(module) if isinstance(node, ast.Constant) and id(node) not in docstrings)
        literals.update(repr(node.value) for node in parts if isinstance(node.value, str) and node.value.strip())
    return "\n".join(sorted(literals)) + "\n"


def helm_of(home: Path) -> Path | None:
    """Return the project's Helm, where it was built."""
    return next(iter(sorted((home / ".cache/plimsoll/cluster").glob("helm-*/helm"))), None)


def write_charts(root: Path, out: Path, helm: Path) -> None:
    """Write down the chart with several values, and what it refuses."""
    for name, values in _CHARTS.items():
        given = [word for value in values for word in ("--set", value)]
        done = subprocess.run(
            [str(helm), "template", "plimsoll", str(root / "charts/plimsoll"), "-n=plimsoll", *_FOR, *given],
            capture_output=True,
            text=True,
            check=False,
        )
        text = f"{' '.join(values)}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
        (out / f"chart-{name}.yaml").write_text(text.replace(str(root), "$TREE"), encoding="utf-8")


def write_written(root: Path, out: Path) -> None:
    """Write all that is read from files."""
    for name, text in (("words", enumerations(root)), ("names", own_names(root)), ("strings", strings(root))):
        (out / f"code-{name}.txt").write_text(text, encoding="utf-8")
    helm = helm_of(Path.home())
    if helm is not None:
        write_charts(root, out, helm)
