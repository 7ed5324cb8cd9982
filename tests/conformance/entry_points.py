"""Which function of the product a kind of vector goes through, and whether a verb reaches that function.

What an adapter calls is seen while it runs a case. What a verb reaches is read from the source of ``agent``: from the
verbs on (the agent and the webhook are two of them), over every name that a reached definition uses. A method is
reached where its class is and its name is used; so a function that is called nowhere is not, and no more is promised.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final

UNREACHED: Final[Mapping[str, str]] = {
    "agent.core.numbers.histogram:Histograms.references": "checkpoints are read; nothing of Plimsoll writes them",
    "agent.core.recommender.cruise.peak:merge_series": "the agent merges minutes as they come, see tests of cruise",
    "agent.core.recommender.cruise.peak:predict_peak": "the policy's rule for one series; test_policy compares them",
    "agent.core.recommender.rounding:memory_text": "the text of a VerticalPodAutoscaler, which a later part writes",
    "agent.core.recommender.vpa.checkpoint:save": "checkpoints are read; nothing of Plimsoll writes them",
    "agent.core.recommender.vpa.limit_range:": "admission has ranges of its own, for all containers of a pod at once",
    "agent.core.recommender.vpa.oom_observation:request_at_oom": "VPA's rule; the agent's own, heed, knows more",
}
"""Functions, or the beginnings of their places, that vectors go through and no verb reaches; and why they stay."""

NOT_PLIMSOLLS: Final[Mapping[str, str]] = {
    "update_priority": "who is resized first is the plan's word: what shrinks, then what grows (core/plan); who goes "
    "where a node has no room, the ranking's",
    "update_selection": "an agent resizes whenever its plan changes by enough (bounds.smallestChange*), at any age of "
    "a pod but its first hour; a kill raises at once",
    "lower_recommendation": "after an infeasible resize core/resize/constraint remembers each amount that was refused, "
    "container by container, and asks for less of that one",
    "disruption_budget": "a resize takes no pod down, so none is rationed by replicas; evictions go by the share of "
    "available replicas (core/eviction/budget), minReplicas of an object and disruption budgets",
    "in_place_decision": "nobody is evicted for a resize that hangs: the column InPlace, by core/resize/flight and "
    "ledger, whose waits are their own; evictions are proposed where a node has no room, and for nothing else",
}
"""Functions of VPA's updater that vectors, all of them optional, are about, and why Plimsoll does otherwise."""

_ROOT: Final = Path(__file__).parents[2]
_AGENT: Final = str(_ROOT / "agent") + "/"
_TESTS: Final = str(_ROOT / "tests") + "/"
_VERBS: Final = "agent.cli.verbs."
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def entry_points(run: Callable[[], object]) -> frozenset[str]:
    """Return the functions of agent/ that tests call while this runs, as ``module:Class.method``.

    What it raises is passed over: a case may be about an error.
    """
    called: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        before = frame.f_back
        if event != "call" or before is None or not before.f_code.co_filename.startswith(_TESTS):
            return
        code = frame.f_code
        if code.co_filename.startswith(_AGENT) and "<" not in code.co_qualname:
            called.add(f"{_module_of(Path(code.co_filename))}:{code.co_qualname}")

    outer = sys.getprofile()
    sys.setprofile(note)
    try:
        with contextlib.suppress(Exception):
            run()
    finally:
        sys.setprofile(outer)
    return frozenset(called)


def unreached(called: Iterable[str]) -> list[str]:
    """Return those of these functions that no verb reaches, but for the ones known of."""
    return sorted(place for place in called if place not in _reached() and known_reason(place) is None)


def known_reason(entry_point: str) -> str | None:
    """Return why it is known that no verb reaches a function; None = it is not known."""
    return next((reason for place, reason in UNREACHED.items() if entry_point.startswith(place)), None)


def is_reached(entry_point: str) -> bool:
    """Return whether a verb reaches a function, or one whose name begins so."""
    return any(place.startswith(entry_point) for place in _reached())


def _module_of(path: Path) -> str:
    parts = path.relative_to(_ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class _Uses:
    """The names and attributes that a definition uses; an attribute with the name it is one of, else with ``""``.

    What stands for a name that is imported, wherever in the file, is written into ``imported``.
    """

    def __init__(self, nodes: Iterable[ast.AST], imported: dict[str, tuple[str, str]]) -> None:
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        waiting = list(nodes)
        # Over millions of nodes: ast.walk takes three times as long.
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Name):
                self.names.add(node.id)
                continue
            if isinstance(node, ast.Attribute):
                self.attributes.add((getattr(node.value, "id", ""), node.attr))
            elif isinstance(node, ast.ImportFrom):
                imported |= {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}
            for field in node._fields:
                value = getattr(node, field)
                if isinstance(value, list):
                    waiting += [part for part in value if isinstance(part, ast.AST)]
                elif isinstance(value, ast.AST) and value._fields:
                    waiting.append(value)


class _Module:
    """What the definitions of one file use, and what its imported names stand for."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.imported: dict[str, tuple[str, str]] = {}
        self.definitions: dict[str, _Uses] = {}
        """By name, ``""`` = the file itself; a class stands for its body without its methods."""
        rest: list[ast.AST] = []
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                methods = [part for part in node.body if isinstance(part, _FUNCTIONS)]
                self._define(node.name, [part for part in ast.iter_child_nodes(node) if part not in methods])
                for method in methods:
                    self._define(f"{node.name}.{method.name}", [method])
            elif isinstance(node, _FUNCTIONS):
                self._define(node.name, [node])
            else:
                rest.append(node)
        self._define("", rest)

    def _define(self, name: str, nodes: Iterable[ast.AST]) -> None:
        self.definitions[name] = _Uses(nodes, self.imported)


class _Walk:
    """From the verbs over all that they use."""

    def __init__(self, modules: dict[str, _Module]) -> None:
        self._modules = modules
        self._used_attributes: set[str] = set()
        self._unused_methods: dict[str, list[tuple[str, str]]] = {}
        """Methods of reached classes whose name was not met yet."""
        self._waiting: list[tuple[str, str]] = []
        self.reached: set[tuple[str, str]] = set()

    def go(self, roots: Iterator[tuple[str, str]]) -> None:
        self._waiting += roots
        while self._waiting:
            module, name = self._waiting.pop()
            if (module, name) in self.reached:
                continue
            if name not in self._modules[module].definitions:
                self._add_name(self._modules[module], name)  # passed on by a package's __init__
            else:
                self.reached.add((module, name))
                self._waiting.append((module, ""))
                self._add_methods(module, name)
                self._add_names(self._modules[module], self._modules[module].definitions[name])

    def _add_methods(self, module: str, name: str) -> None:
        for method in self._modules[module].definitions:
            owner, _, attribute = method.partition(".")
            if not attribute or owner != name:
                continue
            if attribute.startswith("__") or attribute in self._used_attributes:
                self._waiting.append((module, method))
            else:
                self._unused_methods.setdefault(attribute, []).append((module, method))

    def _add_names(self, module: _Module, uses: _Uses) -> None:
        for name in uses.names:
            self._add_name(module, name)
        for of, attribute in uses.attributes:
            self._used_attributes.add(attribute)
            self._waiting += self._unused_methods.pop(attribute, ())
            package, name = module.imported.get(of, ("", ""))
            if f"{package}.{name}" in self._modules:
                self._waiting.append((f"{package}.{name}", attribute))

    def _add_name(self, module: _Module, name: str) -> None:
        if name in module.definitions:
            self._waiting.append((module.name, name))
        elif name in module.imported and module.imported[name][0] in self._modules:
            self._waiting.append(module.imported[name])


@cache
def _reached() -> frozenset[str]:
    modules = {}
    for path in (_ROOT / "agent").rglob("*.py"):
        name = _module_of(path)
        modules[name] = _Module(name, ast.parse(path.read_text(encoding="utf-8")))
    walk = _Walk(modules)
    verbs = [module for name, module in modules.items() if name.startswith(_VERBS)]
    walk.go((verb.name, name) for verb in verbs for name in verb.definitions)
    return frozenset(f"{module}:{name}" for module, name in walk.reached)
