"""The vectors pass, and the runner notices when they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import entry_points
from tests.conformance.__main__ import main
from tests.conformance.comparison import Tolerance, ToleranceError, is_as_expected
from tests.conformance.entry_points import UNREACHED, is_reached
from tests.conformance.runner import Outcome, read_vectors, run
from tests.conformance.suites import SUITES

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
KUBELET = VECTORS / "kubelet_cgroups.json"
CRUISE = VECTORS / "cruisekube.json"


LONG = {"capacity_buffer", "crane", "vpa"}
"""Files that take seconds."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else [], id=path.stem)
        for path in sorted(VECTORS.glob("*.json"))
    ],
)
def test_vectors_all_pass_optional_ones_too(path: Path) -> None:
    vectors = read_vectors(path)
    results = list(run(vectors, vectors.functions - vectors.suite.later))
    assert results
    assert [result.report for result in results if result.outcome is not Outcome.PASSED] == []


def test_no_function_is_known_as_unreached_that_a_verb_reaches() -> None:
    assert [place for place in UNREACHED if is_reached(place)] == []


def test_a_function_that_no_verb_reaches_fails_its_first_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_points, "UNREACHED", {})
    (first, *others) = run(read_vectors(CRUISE), {"predict_peak"})
    assert first.outcome is Outcome.FAILED
    assert "goes through agent.core.recommender.cruise.peak:predict_peak, which no verb reaches" in first.report
    assert {result.outcome for result in others} == {Outcome.PASSED}


def test_the_entry_points_of_a_function_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--entry-points", "--functions", "milli_cpu_to_shares", str(KUBELET)]) == 0
    assert capsys.readouterr().out.startswith(
        "milli_cpu_to_shares: agent.core.machine.cpu_knobs:millicores_to_shares\n"
    )
    assert main(["--entry-points", "--functions", "predict_peak", str(CRUISE)]) == 0
    lines = capsys.readouterr().out.splitlines()
    astray = next(line for line in lines if "agent.core.recommender.cruise.peak:predict_peak" in line)
    assert "(no verb reaches it: " in astray


def test_a_function_left_for_later_is_not_built_yet() -> None:
    for suite in SUITES:
        assert not suite.later & set(suite.adapters)


def vector_file(tmp_path: Path, *cases: dict[str, Any], name: str = "some.json", **fields: Any) -> str:
    path = tmp_path / name
    path.write_text(json.dumps({"source": "", "cases": list(cases), **fields}), encoding="utf-8")
    return str(path)


def shares(milli: Any, expected: Any, **fields: Any) -> dict[str, Any]:
    return {"id": f"s-{milli}", "input": {"fn": "milli_cpu_to_shares", "milli": milli}, "expected": expected, **fields}


def test_a_wrong_expectation_fails_and_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = vector_file(tmp_path, shares(100, {"shares": 102}), shares(1000, {"shares": 1000}))
    assert main([path]) == 1
    assert capsys.readouterr().out.splitlines() == [
        'FAIL s-1000 (milli_cpu_to_shares): expected {"shares": 1000}, got {"shares": 1024}',
        "1 passed, 1 failed, 0 skipped",
    ]


@pytest.mark.parametrize("case_index", range(0, 146, 7))
def test_every_seventh_case_fails_when_its_expectation_is_bent(
    case_index: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(KUBELET.read_text(encoding="utf-8"))
    case = document["cases"][case_index]
    key = next(iter(case["expected"]))
    case["expected"][key] = "bent"
    assert main([vector_file(tmp_path, case)]) == 1
    assert capsys.readouterr().out.startswith(f"FAIL {case['id']} ")


def test_a_function_that_raises_fails_its_case_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = vector_file(tmp_path, shares("x", {"shares": 2}), shares(0, {"shares": 2}))
    assert main([path]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("FAIL s-x (milli_cpu_to_shares): expected")
    assert "TypeError" in first
    assert last == "1 passed, 1 failed, 0 skipped"


def test_a_function_that_is_not_built_fails_unless_optional(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = {"id": "u", "input": {"fn": "later"}, "expected": {}}
    assert main([vector_file(tmp_path, {**unknown, "optional": True})]) == 0
    assert capsys.readouterr().out == "0 passed, 0 failed, 1 skipped\n"
    assert main([vector_file(tmp_path, unknown)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAIL u (later): expected {}, got nothing: the function is not built",
        "0 passed, 1 failed, 0 skipped",
    ]


def test_functions_limits_the_run_over_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = vector_file(tmp_path, shares(0, {"shares": 5}))
    assert main(["--functions", "quota_to_milli_cpu,psi_waiting_rate", str(KUBELET), path]) == 0
    assert capsys.readouterr().out == "8 passed, 0 failed, 0 skipped\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--functions", "nonsense", str(KUBELET)], "--functions: nonsense: in none of these files ("),
        (["/nowhere.json"], "/nowhere.json: cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(message)
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize("text", ["{", "[]", '{"cases": {}}', '{"cases": [{}]}', '{"cases": [{"input": {"fn": "a"}}]}'])
def test_a_file_of_another_shape_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text, encoding="utf-8")
    assert main([str(path)]) == 2


@pytest.mark.parametrize("marks", [{"source": "kubelet"}, {"functions": {"memory_high": ""}}, {"name": KUBELET.name}])
def test_a_file_is_known_by_functions_source_or_name(marks: dict[str, Any], tmp_path: Path) -> None:
    path = vector_file(tmp_path, {"id": "u", "input": {"fn": "later"}, "expected": {}}, **marks)
    assert read_vectors(Path(path)).suite.stem == "kubelet_cgroups"
    assert read_vectors(Path(vector_file(tmp_path))).suite.stem == ""


@pytest.mark.parametrize(
    ("expected", "got", "tolerance", "verdict"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, 0, True),
        ({"a": 1}, {"b": 2}, 0, False),
        ({"a": None}, {"a": None}, 0, True),
        ({"a": None}, {"a": 0}, 0, False),
        ({"a": None}, {}, 0, False),
        ({"a": None}, {"a": {"b": None}}, 0, True),
        ({"a": None}, {"a": {"b": 0}}, 0, False),
        ({"a": None}, {"a": {}}, 0, False),
        ({"a_starts_with": "not"}, {"a": "not ready"}, 0, True),
        ({"a_starts_with": "not"}, {"a": "ready"}, 0, False),
        ({"a_starts_with": "not"}, {"a": None}, 0, False),
        ({"a_starts_with": "not"}, {"a_starts_with": "not ready"}, 0, False),
        ({"error": True}, {"error": "some words"}, 0, True),
        ({"error": True}, {"error": ""}, 0, False),
        ({"error": True}, {"replicas": 0}, 0, False),
        ({"error": "one"}, {"error": "other"}, 0, False),
        ({"a": True}, {"a": 1}, 0, False),
        ({"a": 1}, {"a": True}, 0, False),
        ({"a": 1}, {"a": 1.0}, 0, True),
        ({"a": "1"}, {"a": 1}, 0, False),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, 0, True),
        ({"a": {"b": 1}}, {"a": None}, 0, False),
        ({"a": {}}, {"a": None}, 0, True),
        ([1, {"a": 2}], [1, {"a": 2, "b": 3}], 0, True),
        ([1], [1, 2], 0, False),
        ([1], 1, 0, False),
        ({"a": 0.3}, {"a": 0.1 + 0.2}, 0, False),
        ({"a": 0.3}, {"a": 0.1 + 0.2}, 1e-9, True),
        ({"a": 100}, {"a": 101}, {"rel": 0.01}, True),
        ({"a": 100}, {"a": 102}, {"rel": 0.01, "abs": 1}, False),
        ({"a": 100}, {"a": 102}, {"rel": 0.01, "abs": 2}, True),
    ],
)
def test_is_as_expected_compares_what_is_listed(expected: Any, got: Any, tolerance: Any, verdict: bool) -> None:
    assert is_as_expected(expected, got, Tolerance.of(tolerance)) is verdict


@pytest.mark.parametrize("tolerance", ["0", True, -1, {"absolute": 1}, {"abs": "1"}])
def test_a_tolerance_of_another_form_fails_the_case(
    tolerance: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ToleranceError):
        Tolerance.of(tolerance)
    assert main([vector_file(tmp_path, shares(0, {"shares": 2}, tolerance=tolerance))]) == 1
    assert "tolerance" in capsys.readouterr().out
