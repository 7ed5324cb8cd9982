"""Runs the cases of vector files and counts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tests.conformance.comparison import Tolerance, ToleranceError, is_as_expected
from tests.conformance.entry_points import entry_points, unreached
from tests.conformance.suites import Suite, suite_of


class VectorFileError(ValueError):
    """A vector file that cannot be run; the message is one line."""


class Outcome(Enum):
    """How a case came out."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case, run."""

    case_id: str
    function: str
    outcome: Outcome
    report: str = ""
    """For people, when failed: id, expected, got."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFile:
    """A vector file, read."""

    path: Path
    suite: Suite
    cases: tuple[Mapping[str, Any], ...]

    @property
    def functions(self) -> set[str]:
        return {case["input"]["fn"] for case in self.cases} | set(self.suite.adapters)


def read_vectors(path: Path) -> VectorFile:
    """Read a vector file.

    Raises:
        VectorFileError: It cannot be read or has not the shape of shared/vectors.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise VectorFileError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise VectorFileError(f"{path}: not JSON: {error}") from error
    cases = document.get("cases") if isinstance(document, dict) else None
    if not isinstance(cases, list):
        raise VectorFileError(f"{path}: no list 'cases' (the shape of shared/vectors/*.json is allowed)")
    for index, case in enumerate(cases):
        shape = case if isinstance(case, dict) else {}
        inputs = shape.get("input")
        if not isinstance(inputs, dict) or not isinstance(inputs.get("fn"), str) or "expected" not in shape:
            raise VectorFileError(f"{path}: cases[{index}]: input.fn or expected is missing")
    return VectorFile(path=path, suite=suite_of(path, document), cases=tuple(cases))


def run(vectors: VectorFile, functions: Collection[str] | None = None) -> Iterator[Result]:
    """Run the cases of a file.

    The first case of each function fails where it goes through a function of agent/ that no verb reaches: then the
    vectors would prove what nobody runs.

    Args:
        vectors: The file.
        functions: Only these; None = all.
    """
    seen: set[str] = set()
    for index, case in enumerate(vectors.cases):
        function = case["input"]["fn"]
        if functions is not None and function not in functions:
            continue
        case_id = str(case.get("id", f"cases[{index}]"))
        astray = unreached(case_entry_points(case, vectors.suite)) if function not in seen else []
        seen.add(function)
        if astray:
            report = f"{case_id} ({function}): goes through {', '.join(astray)}, which no verb reaches"
            yield Result(case_id=case_id, function=function, outcome=Outcome.FAILED, report=report)
        else:
            yield _run_case(case_id, function, case, vectors.suite)


def case_entry_points(case: Mapping[str, Any], suite: Suite) -> frozenset[str]:
    """Return the functions of agent/ that a case goes through, as ``module:function``; none where none is built."""
    adapter = suite.adapters.get(case["input"]["fn"])
    return frozenset() if adapter is None else entry_points(lambda: adapter(_inputs(case)))


def _inputs(case: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in case["input"].items() if key != "fn"}


def _run_case(case_id: str, function: str, case: Mapping[str, Any], suite: Suite) -> Result:
    expected = case["expected"]

    def failed(got: str) -> Result:
        report = f"{case_id} ({function}): expected {_shown(expected)}, got {got}"
        return Result(case_id=case_id, function=function, outcome=Outcome.FAILED, report=report)

    adapter = suite.adapters.get(function)
    if adapter is None:
        if case.get("optional") is True:
            return Result(case_id=case_id, function=function, outcome=Outcome.SKIPPED)
        return failed("nothing: the function is not built")
    try:
        tolerance = Tolerance.of(case.get("tolerance", suite.tolerances.get(function, 0)))
    except ToleranceError as error:
        return failed(f"nothing: {error}")
    try:
        got = adapter(_inputs(case))
    except Exception as error:  # noqa: BLE001  # whatever breaks, it is this case's failure and the next one runs
        return failed(f"{type(error).__name__}: {error}")
    if is_as_expected(expected, got, tolerance):
        return Result(case_id=case_id, function=function, outcome=Outcome.PASSED)
    return failed(_shown(got))


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
