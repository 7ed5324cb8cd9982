from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from agent.core.orders.policy_options import PolicyName
from tests.bench import policies


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLIMSOLL_TRACES", str(tmp_path))
    monkeypatch.setattr(policies, "README", tmp_path / "README.md")
    tables = f"{policies.BEGIN}\nold\n{policies.END}\nbetween\n{policies.NODE_BEGIN}\nold\n{policies.NODE_END}"
    (tmp_path / "README.md").write_text(f"before\n{tables}\nafter\n", encoding="utf-8")
    return tmp_path


def write_cpu(directory: Path, name: str, start: str, *percents: float) -> None:
    folder = directory / "cpu"
    folder.mkdir(exist_ok=True)
    day, hour = start.split()
    rows = [f"{day} {hour}:{5 * index:02}:00,{percent}" for index, percent in enumerate(percents)]
    (folder / f"{name}.csv").write_text("\n".join(["timestamp,value", *rows]) + "\n", encoding="utf-8")


def write_memory(directory: Path, *rows: str) -> None:
    folder = directory / "memory"
    folder.mkdir(exist_ok=True)
    with gzip.open(folder / "genai_serving_2026_subset.csv.gz", "wt", encoding="utf-8") as stream:
        stream.write("\n".join(["timestamp,container,memory_ratio", *rows]) + "\n")


def test_main_without_traces_says_so_in_one_line_and_gives_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLIMSOLL_TRACES", str(tmp_path / "none"))
    assert policies.main() == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        f"bench-policies: no real traces in {tmp_path / 'none'}; PLIMSOLL_TRACES names another directory"
    ]


def test_main_runs_all_policies_and_writes_the_tables(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(policies, "RESULT", directory / "build" / "table.md")
    write_cpu(directory, "ec2_cpu_utilization_aa", "2014-02-14 14", *[50.0] * 12)
    write_cpu(directory, "cpu_utilization_bb", "2014-05-14 01", *[10.0] * 12)
    write_memory(directory, *[f"{1662858720 + 57 * index},one,0.5" for index in range(30)])
    monkeypatch.setattr(policies, "_WARM_DAY_SECONDS", 0.0)
    monkeypatch.setattr(policies, "_WARM_MEMORY_SECONDS", 0.0)
    assert policies.main() == 0
    output = capsys.readouterr().out
    text = (directory / "build" / "table.md").read_text(encoding="utf-8")
    nodes = output.removeprefix(text)
    assert len(nodes) < len(output)
    assert [line.split(" | ")[1] for line in nodes.splitlines() if line.startswith("| of equal means | ")] == [
        *(f"`{name}`" for name in PolicyName),
        "`plimsoll`, largest spike",
    ]
    for name in PolicyName:
        # A line in each of three tables: CPU, the node, memory.
        assert sum(line.startswith(f"| `{name}` | ") for line in text.splitlines()) == 3
    tables = f"{policies.BEGIN}\n{text}\n{policies.END}\nbetween"
    page = f"before\n{tables}\n{policies.NODE_BEGIN}\n{nodes}\n{policies.NODE_END}\nafter\n"
    assert (directory / "README.md").read_text(encoding="utf-8") == page
    with (directory / "build" / "table.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    # Two cadences x three reactions of two series, their sum and the node twice; two cadences of memory.
    assert len(rows) == len(PolicyName) * (6 * 5 + 2 * 3)
    assert {row["reaction_seconds"] for row in rows} == {"", "2.0", "60.0"}
    assert {row["decision_interval_seconds"] for row in rows} == {"60.0", "3600.0"}
    assert "| ec2_aa |" in text
    assert "| bb |" in text
    assert "100 % taken as 4 cores" in text
    assert "100 % taken as 8 GiB" in text


def test_cpu_trace_moves_series_by_whole_weeks_and_holds_five_minute_rows(directory: Path) -> None:
    write_cpu(directory, "a", "2014-02-14 14", 50.0, 25.0)
    write_cpu(directory, "b", "2014-05-14 01", 10.0)  # 88 days and 11 hours later: 12 weeks, 4 days and 11 hours
    trace = policies.cpu_trace(directory)
    later = (4 * 24 + 11) * 60
    assert trace.containers == ("a", "b")
    # 100 % is 4 cores: 50 % are 2000 millicores.
    assert trace.cpu_millicores[:10, 0].tolist() == [2000.0] * 5 + [1000.0] * 5
    assert trace.cpu_millicores[later, 1] == 400.0
    assert not trace.has_cpu[later - 1, 1]


@pytest.mark.parametrize("content", ["", "timestamp,value\n", "time,value\n1,2\n", "timestamp,value\n2014-02-14,x\n"])
def test_main_with_a_broken_trace_names_the_file(
    directory: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (directory / "cpu").mkdir()
    (directory / "cpu" / "broken.csv").write_text(content, encoding="utf-8")
    assert policies.main() == 2
    assert "broken.csv" in capsys.readouterr().err


def test_main_without_one_of_the_two_kinds_gives_2(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policies.main() == 2
    assert "no CPU traces" in capsys.readouterr().err
    write_cpu(directory, "a", "2014-02-14 14", 50.0)
    assert policies.main() == 2
    assert "no memory trace" in capsys.readouterr().err


def test_main_with_broken_memory_names_the_file(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cpu(directory, "a", "2014-02-14 14", 50.0)
    write_memory(directory, "1662858720,one,much")
    assert policies.main() == 2
    assert "genai_serving_2026_subset.csv.gz" in capsys.readouterr().err
    write_memory(directory, "1662858720,one,-1")
    assert policies.main() == 2
    assert "genai_serving_2026_subset.csv.gz" in capsys.readouterr().err


def test_main_without_the_marks_says_so_before_the_work(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cpu(directory, "a", "2014-02-14 14", 50.0)
    write_memory(directory, "1662858720,one,0.5")
    (directory / "README.md").write_text("no marks\n", encoding="utf-8")
    assert policies.main() == 2
    assert "no marks <!-- bench-policies" in capsys.readouterr().err
