"""``python -m tests.bench`` keeps what was measured, whatever ends it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import __main__ as bench


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "build" / "bench.json"
    monkeypatch.setattr(bench, "RESULT", file)
    monkeypatch.setattr(bench, "why_not", lambda: None)
    return file


def three_runs_then(error: BaseException) -> Iterator[dict[str, float]]:
    for runs in (1.0, 2.0, 3.0):
        yield {"reaction_runs": runs, "reaction_p99_seconds": 5.0}
    raise error


def kept(file: Path) -> dict[str, float]:
    figures: dict[str, float] = json.loads(file.read_text())
    return figures


def test_failing_part_leaves_its_figures_so_far_and_lets_the_next_be_measured(
    result: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(bench.PARTS, "reaction", lambda: three_runs_then(RuntimeError("an odd run")))
    monkeypatch.setitem(bench.PARTS, "plan", lambda: iter([{"plan_ms_110": 4.0}]))

    assert bench.main(["reaction", "plan"]) == 1

    figures = kept(result)
    assert (figures["reaction_runs"], figures["plan_ms_110"]) == (3.0, 4.0)
    assert {"others_cpu_percent_of_machine_reaction", "steal_percent_of_machine_plan"} <= figures.keys()
    shown = capsys.readouterr()
    assert "goal at most 2: MISSED" in shown.out
    assert "plan: others took" in shown.out
    assert shown.err.endswith("goals missed: 1; failed: reaction\n")


def test_interrupted_part_leaves_its_figures_and_those_of_parts_before(
    result: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result.parent.mkdir()
    result.write_text('{"plan_ms_110": 4.0, "reaction_runs": 50.0}')
    monkeypatch.setitem(bench.PARTS, "reaction", lambda: three_runs_then(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        bench.main(["reaction"])

    assert (kept(result)["reaction_runs"], kept(result)["plan_ms_110"]) == (3.0, 4.0)


def test_unknown_part_measures_nothing(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["what"]) == 2

    assert not result.exists()
    assert "no part what" in capsys.readouterr().err
