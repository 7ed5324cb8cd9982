"""Boots the guest once per kernel variant and reports every test that ran inside as a test of its own here."""

from __future__ import annotations

import ast
import os
import platform
from pathlib import Path
from typing import Final

import pytest

from tests.guest.go_load import ensure_go_load
from tests.guest.kernel import GuestError, GuestKernel, ensure
from tests.guest.machine import EXCHANGE, REPOSITORY, Variant, booted, python_command
from tests.guest.report import InnerRun, parse_report

pytestmark = [
    pytest.mark.guest,
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the guest is an x86_64 machine"),
]

PAYLOAD: Final = Path(__file__).with_name("payload")
SERIES_VARIABLE: Final = "GUEST_KERNEL"
"""In the environment, and of ``make guest``: another kernel than the usual one, one of ``kernel.SERIES``."""
KEPT: Final = REPOSITORY / "build" / "test"
"""Where ``make test`` keeps what its steps print; what was printed inside, with each test's seconds, goes there too."""
ALONE: Final = {Variant.NO_PSI: ("test_without_psi.py",), Variant.NO_MEMORY: ("test_without_memory.py",)}
"""Files that run under one variant only; all others run under FULL."""


def payload_files(variant: Variant) -> list[Path]:
    """Return the files that run under a variant."""
    if variant in ALONE:
        return [PAYLOAD / name for name in ALONE[variant]]
    alone = {name for names in ALONE.values() for name in names}
    return [file for file in sorted(PAYLOAD.glob("test_*.py")) if file.name not in alone]


def inner_tests() -> list[tuple[Variant, str]]:
    """Return (variant, ``file::test``) of the payload, from its source: importing it belongs to the guest."""
    return [
        (variant, f"{file.stem}::{node.name}")
        for variant in Variant
        for file in payload_files(variant)
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def run_inside(kernel: GuestKernel, variant: Variant) -> InnerRun:
    """Boot the variant and run its files; a guest that fails gives a run in which no test ran."""
    files = [str(file.relative_to(REPOSITORY)) for file in payload_files(variant)]
    report = EXCHANGE / "report.xml"
    # -s: measured figures are printed as they come and belong into the output.
    options = ("-v", "-s", "-p", "no:cacheprovider", "--tb=short", "--durations=60", f"--junitxml={report}")
    # Without tests/conftest.py: hypothesis, which no inner test needs, takes longer to load there than pytest itself.
    lean = ("--confcutdir", str(PAYLOAD.relative_to(REPOSITORY)))
    try:
        with booted(kernel, python_command("-m", "pytest", *options, *lean, *files), variant=variant) as run:
            seconds = f"boot {run.boot_seconds:.1f} s, all {run.total_seconds:.1f} s"
            output = f"guest {variant.name}: {seconds}, exit code {run.exit_code}\n{run.output}"
            if KEPT.is_dir():
                (KEPT / f"guest-{variant.name}.log").write_text(output, encoding="utf-8")
            inside = run.exchange / report.name
            return parse_report(inside.read_text(encoding="utf-8") if inside.is_file() else "", output)
    except GuestError as error:
        return InnerRun(output=str(error))


@pytest.fixture(scope="session")
def inner_runs() -> dict[Variant, InnerRun]:
    """Runs made so far: each variant boots when its first test asks for it."""
    return {}


def run_of(variant: Variant, inner_runs: dict[Variant, InnerRun]) -> InnerRun:
    """Return the run of a variant; boots it if it has not been."""
    if variant not in inner_runs:
        if variant not in ALONE:
            ensure_go_load(print)
        inner_runs[variant] = run_inside(ensure(print, series=os.environ.get(SERIES_VARIABLE)), variant)
        print(inner_runs[variant].output)
    return inner_runs[variant]


@pytest.mark.parametrize(("variant", "name"), inner_tests(), ids=lambda value: getattr(value, "name", value))
def test_in_guest(variant: Variant, name: str, inner_runs: dict[Variant, InnerRun]) -> None:
    run = run_of(variant, inner_runs)
    if name not in run.ran:
        pytest.fail(f"{name} did not run in the guest:\n{run.output}", pytrace=False)
    if name in run.failures:
        pytest.fail(f"{run.failures[name]}\n{run.output}", pytrace=False)


@pytest.mark.parametrize("variant", list(Variant), ids=lambda variant: variant.name)
def test_nothing_ran_in_the_guest_that_is_not_reported_here(
    variant: Variant, inner_runs: dict[Variant, InnerRun]
) -> None:
    # A file that cannot be imported, or a test in a class, which `inner_tests` does not look for.
    assert run_of(variant, inner_runs).ran == {name for of, name in inner_tests() if of is variant}


def test_no_payload_file_is_left_out() -> None:
    assert {name for names in ALONE.values() for name in names} <= {file.name for file in PAYLOAD.glob("test_*.py")}
    assert {variant for variant, _ in inner_tests()} == set(Variant)
