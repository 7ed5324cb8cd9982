"""Traces as files of every kind: what is read, and what is said of a wrong one."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.simulate import trace_files
from agent.cli.simulate.trace_files import TraceFileError, load_trace
from agent.core.recommender.simulation.trace import TraceSet

HEAD = "time,container,cpu_millicores,memory_bytes\n"
START = 1_700_006_400


def write(directory: Path, name: str, content: str | bytes) -> Path:
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def cpu(trace: TraceSet, container: str = "a") -> list[float | None]:
    place = trace.containers.index(container)
    values, has = trace.cpu_millicores[:, place].tolist(), trace.has_cpu[:, place].tolist()
    return [value if there else None for value, there in zip(values, has, strict=True)]


CSV = HEAD + "".join(
    f"{START + 60 * minute},{name},{minute}.5,{minute * 100}\n" for minute in range(4) for name in "ab"
)
PACKED = gzip.compress(CSV.encode(), mtime=0)
"""It names test cases, which must be called the same in each process that runs them: the time is left out."""
OBJECTS: list[dict[str, Any]] = [
    {"time": START + 60 * minute, "container": name, "cpu_millicores": minute + 0.5, "memory_bytes": minute * 100}
    for minute in range(4)
    for name in "ab"
]


def parquet(path: Path, **columns: Any) -> Path:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.fixture(params=["a.csv", "a.CSV", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet"])
def same_trace(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """One trace in every kind of file."""
    name: str = request.param
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
        return parquet(tmp_path / name, **{key: [row[key] for row in OBJECTS] for key in OBJECTS[0]})
    text = CSV if "csv" in name.lower() else "".join(json.dumps(row) + "\n" for row in OBJECTS)
    return write(tmp_path, name, gzip.compress(text.encode()) if name.endswith(".gz") else text)


def test_every_kind_of_file_gives_the_same_trace(same_trace: Path) -> None:
    progress: list[float] = []
    trace = load_trace(same_trace, on_progress=progress.append)

    assert (trace.name, trace.containers) == (same_trace.name, ("a", "b"))
    assert (trace.start_unix_minute, trace.minutes) == (START // 60, 4)
    assert cpu(trace, "a") == cpu(trace, "b") == [0.5, 1.5, 2.5, 3.5]
    assert trace.memory_bytes[:, 1].tolist() == [0.0, 100.0, 200.0, 300.0]
    assert (trace.notes, trace.psi) == ((), None)
    assert progress[-1] == 1.0


@pytest.mark.parametrize("block", [40, 100, 1 << 20])
def test_csv_is_read_the_same_in_blocks_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(trace_files, "_BLOCK_CHARACTERS", block)
    # The second block is read the quick way, the third has a gap and is read with care.
    text = CSV + f"{START + 240},a,,5\n{START + 300},a,7.5,\n"
    trace = load_trace(write(tmp_path, "a.csv", text.rstrip("\n")))

    assert cpu(trace) == [0.5, 1.5, 2.5, 3.5, None, 7.5]
    assert trace.has_memory[:, 0].tolist() == [True] * 5 + [False]


@pytest.mark.parametrize(
    ("times", "minutes"),
    [
        (("2024-01-01 00:00:00", "2024-01-01T00:01:00Z", "2024-01-01T01:02:00+01:00"), 3),
        (("2024-01-01", "2024-01-01T00:01", "2024-01-01T00:02:30.5"), 3),
        (("0", "60.5", "1.2e2"), 3),
    ],
)
def test_times_are_unix_seconds_or_iso_8601(tmp_path: Path, times: tuple[str, ...], minutes: int) -> None:
    rows = "".join(f"{time},a,{place}\n" for place, time in enumerate(times))
    trace = load_trace(write(tmp_path, "a.csv", "time,container,cpu_millicores\n" + rows))
    assert (cpu(trace), trace.minutes) == ([0.0, 1.0, 2.0], minutes)
    assert trace.start_unix_minute == (28_401_120 if "2024" in times[0] else 0)


def test_iso_times_are_read_in_every_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "_BLOCK_CHARACTERS", 60)
    rows = "".join(f"2024-01-01T00:{minute:02d}:00Z,a,{minute}\n" for minute in range(30))
    trace = load_trace(write(tmp_path, "a.csv", "time,container,cpu_millicores\n" + rows))
    assert cpu(trace) == [float(minute) for minute in range(30)]


def test_quoted_names_crlf_bom_and_empty_lines_at_the_end_are_fine(tmp_path: Path) -> None:
    text = f'\ufefftime,container,cpu_millicores\r\n{START},"a, ""b""",1\r\n{START + 60},"a, ""b""",2\r\n\r\n  \r\n'
    trace = load_trace(write(tmp_path, "a.csv", text))
    assert (trace.containers, cpu(trace, 'a, "b"')) == (('a, "b"',), [1.0, 2.0])


def test_other_columns_are_passed_over_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "_BLOCK_CHARACTERS", 60)
    rows = "".join(f"{START + 60 * minute},,a,{minute},x y\n" for minute in range(9))
    trace = load_trace(write(tmp_path, "a.csv", "time,node,container,cpu_millicores,\n" + rows))
    assert cpu(trace) == [float(minute) for minute in range(9)]
    assert "columns not used: 'node', ''" in trace.notes


def test_line_wider_than_usual_is_read_with_care(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "_BLOCK_CHARACTERS", 700)
    name = "x" * 300
    rows = "".join(f"{START + 60 * minute},{name},{minute}\n" for minute in range(9))
    trace = load_trace(write(tmp_path, "a.csv", "time,container,cpu_millicores\n" + rows))
    assert cpu(trace, name) == [float(minute) for minute in range(9)]


def test_null_and_absent_names_in_json_are_gaps(tmp_path: Path) -> None:
    rows = [
        {"time": START, "container": "a", "cpu_millicores": 1, "psi": 0.5, "zone": "x"},
        {"time": START + 60, "container": "a", "cpu_millicores": None, "memory_bytes": 3},
        {"time": START + 120, "container": "a", "memory_bytes": 4},
    ]
    trace = load_trace(write(tmp_path, "a.jsonl", "\n".join(json.dumps(row) for row in rows)))
    assert cpu(trace) == [1.0, None, None]
    assert trace.has_memory[:, 0].tolist() == [False, True, True]
    assert trace.notes == ("columns not used: 'zone'",)


def test_iso_times_in_json(tmp_path: Path) -> None:
    rows = [{"time": f"2024-01-01T00:0{minute}:00Z", "container": "a", "cpu_millicores": 1} for minute in range(3)]
    trace = load_trace(write(tmp_path, "a.jsonl", "\n".join(json.dumps(row) for row in rows)))
    assert (trace.start_unix_minute, trace.minutes) == (28_401_120, 3)


BAD_CSV: dict[str, tuple[str | bytes, str]] = {
    "column cpu_millicores and memory_bytes": (
        "time,container\n1,a\n",
        "cpu_millicores and memory_bytes are both missing",
    ),
    "time": ("container,cpu_millicores\n", "column time is missing; allowed: time, container, cpu_millicores"),
    "timestamp": ("timestamp,container,cpu_millicores\n", "column time is missing (is it 'timestamp'?)"),
    "container": ("time,pod,cpu_millicores\n", "column container is missing (is it 'pod'?)"),
    "cores": ("time,container,cpu_cores\n", "column 'cpu_cores': its unit is not known; allowed: cpu_millicores"),
    "mib": (
        HEAD.strip() + ",memory_mib\n",
        "column 'memory_mib': its unit is not known; allowed: memory_bytes",
    ),
    "twice": ("time,time,container,cpu_millicores\n", "column 'time' appears twice; allowed: once"),
    "empty": ("", "it has no rows"),
    "header only": (HEAD, "it has no rows"),
    "open header": ('time,"container\n', "the first line is no CSV header: unexpected end of data"),
    "negative": (HEAD + "1,a,1,1\n61,a,-1,1\n", "row 2 (line 3): column cpu_millicores: -1 is negative"),
    "nan": (HEAD + "1,a,nan,1\n", "row 1 (line 2): column cpu_millicores: nan is not finite"),
    "inf": (HEAD + "1,a,1,inf\n", "row 1 (line 2): column memory_bytes: inf is not finite"),
    "milli": (
        HEAD + "1,a,1,1\n61,a,250m,1\n",
        "row 2 (line 3): column cpu_millicores: '250m' has a unit",
    ),
    "mi": (HEAD + "1,a,1,12Mi\n", "row 1 (line 2): column memory_bytes: '12Mi' has a unit; allowed: bytes, as plain"),
    "duplicate": (HEAD + "1,a,1,1\n1,a,2,2\n", "row 2 (line 3): column time: 1 stands twice for container 'a'"),
    "order": (HEAD + "100,a,1,1\n200,b,1,1\n50,a,1,1\n", "row 3 (line 4): column time: 50 comes after 100"),
    "ms": (
        HEAD + f"{START},a,1,1\n{START}000,a,1,1\n",
        "row 2 (line 3): column time: 1700006400000 is in milli",
    ),
    "iso then unix": (
        HEAD + "2024-01-01,a,1,1\n5,a,1,1\n",
        "row 2 (line 3): column time: '5' is a number",
    ),
    "unix then iso": (HEAD + "5,a,1,1\n2024-01-01,a,1,1\n", "row 2 (line 3): column time: '2024-01-01' is no number"),
    "no time": (HEAD + "5,a,1,1\n,a,1,1\n", "row 2 (line 3): column time: it is empty"),
    "no such time": (HEAD + "2024-13-01,a,1,1\n", "row 1 (line 2): column time: '2024-13-01' is no time"),
    "short": (HEAD + "1,a,1,1\n2,a,1\n", "row 2 (line 3): column memory_bytes: the line has 3 values; allowed: 4"),
    "long": (HEAD + "1,a,1,1\n2,a,1,1,1\n", "row 2 (line 3): column memory_bytes: the line has 5 values; allowed: 4"),
    "blank": (HEAD + "1,a,1,1\n\n61,a,1,1\n", "row 2 (line 3): column time: the line is empty"),
    "no name": (HEAD + "1,,1,1\n", "row 1 (line 2): column container: '' is empty"),
    "open quote": (HEAD + '1,a,1,1\n1,"b,1,1\n61,a,1,1\n', "row 2 (line 3): column time: the line is no CSV"),
    "two lines": (HEAD + '1,"a\nb",1,1\n', "row 1 (line 2): column container: a value goes over the end of the line"),
    "escape": (HEAD + "1,a\x1b[2J,1,1\n", "row 1 (line 2): column container: 'a\\x1b[2J' has characters"),
    "python number": (HEAD + "1,a,1_000,1\n", "row 1 (line 2): column cpu_millicores: '1_000' is no number"),
    "spaces": (HEAD + "1,a, ,1\n", "row 1 (line 2): column cpu_millicores: ' ' is no number"),
    "percent": ("time,container,cpu_millicores,psi\n1,a,1,50\n", "row 1 (line 2): column psi: 50 is too large"),
    "the first fault": (HEAD + "1,a,-1,1\n61,a,x,1\n", "row 1 (line 2): column cpu_millicores: -1 is negative"),
    "the first fault, other column": (HEAD + "1,a,1,x\n61,a,x,1\n", "row 1 (line 2): column memory_bytes: 'x' is no"),
    "years": (HEAD + "1,a,1,1\n1700000000,a,1,1\n", "row 2 (line 3): column time: 1700000000 lies years away"),
    "not UTF-8": (b"time,container,cpu_millicores\n1,\xff,1\n", "not UTF-8 text: invalid start byte"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_wrong_csv_is_told_by_file_row_column_and_rule(tmp_path: Path, case: str) -> None:
    content, said = BAD_CSV[case]
    path = write(tmp_path, "bad.csv", content)
    with pytest.raises(TraceFileError) as error:
        load_trace(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_row_of_an_error_counts_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "_BLOCK_CHARACTERS", 50)
    rows = [f"{START + 60 * minute},a,1,1" for minute in range(20)]
    rows[17] = f"{START + 60 * 17},a,1,-5"
    with pytest.raises(TraceFileError, match=r"row 18 \(line 19\): column memory_bytes: -5 is negative"):
        load_trace(write(tmp_path, "a.csv", HEAD + "\n".join(rows)))


BAD_JSON = {
    "cut": ("{", "row 1 (line 1): column time: the line is no JSON; allowed: one object a line"),
    "a list": ("[]", "row 1 (line 1): column time: the line is no JSON object"),
    "no container": ('{"time":1}', "row 1 (line 1): column container: it is absent; allowed: text"),
    "number as container": ('{"time":1,"container":5,"cpu_millicores":1}', "column container: 5 is of another kind"),
    "no amounts": ('{"time":1,"container":"a"}', "columns cpu_millicores and memory_bytes are both missing"),
    "cores": ('{"time":1,"container":"a","cpu_cores":1}', "column 'cpu_cores': its unit is not known"),
    "unit": ('{"time":1,"container":"a","cpu_millicores":"250m"}', "column cpu_millicores: '250m' has a unit"),
    "text": ('{"time":1,"container":"a","cpu_millicores":"x"}', "column cpu_millicores: 'x' is no number"),
    "bool": ('{"time":1,"container":"a","cpu_millicores":true}', "column cpu_millicores: true is of another kind"),
    "nan": ('{"time":1,"container":"a","cpu_millicores":NaN}', "column cpu_millicores: nan is not finite"),
    "huge": ('{"time":1,"container":"a","cpu_millicores":1' + "0" * 400 + "}", "cpu_millicores: inf is not finite"),
    "beyond floats": ('{"time":1,"container":"a","cpu_millicores":1e999}', "cpu_millicores: inf is not finite"),
    "deep": ('{"time":' + "[" * 100_000 + "]" * 100_000 + "}", "row 1 (line 1): column time: the line is no JSON"),
    "two values": ('{"time":1} {}', "row 1 (line 1): column time: the line is no JSON"),
    "no time": ('{"container":"a","cpu_millicores":1}', "column time: it is absent; allowed: Unix seconds"),
    "bool as time": ('{"time":true,"container":"a","cpu_millicores":1}', "column time: true is of another kind"),
    "mixed times": (
        '{"time":1,"container":"a","cpu_millicores":1}\n{"time":"2024-01-01","container":"a","cpu_millicores":1}',
        "row 2 (line 2): column time: '2024-01-01' is text; allowed: Unix seconds, as in the first row",
    ),
    "blank": (
        '{"time":1,"container":"a","cpu_millicores":1}\n\n{"time":61,"container":"a","cpu_millicores":1}',
        "row 2 (line 2): column time: the line is no JSON",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_JSON)
def test_wrong_json_lines_are_told_by_file_row_column_and_rule(tmp_path: Path, case: str) -> None:
    content, said = BAD_JSON[case]
    path = write(tmp_path, "bad.jsonl", content + "\n")
    with pytest.raises(TraceFileError) as error:
        load_trace(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)


def test_parquet_takes_timestamps_dictionaries_and_text(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    milliseconds = pyarrow.array([START * 1000, START * 1000 + 60_000], pyarrow.timestamp("ms"))
    names = pyarrow.array(["a", "a"]).dictionary_encode()
    trace = load_trace(parquet(tmp_path / "a.parquet", time=milliseconds, container=names, cpu_millicores=[1, None]))
    assert (cpu(trace), trace.start_unix_minute) == ([1.0, None], START // 60)

    texts = ["2024-01-01T00:00Z", "2024-01-01T00:01Z"]
    other = load_trace(
        parquet(tmp_path / "b.parquet", time=texts, container=["a", "a"], memory_bytes=[1, 2], zone=[1, 2])
    )
    assert other.memory_bytes[:, 0].tolist() == [1.0, 2.0]
    assert "columns not used: 'zone'" in other.notes


def test_parquet_takes_whole_numbers_that_no_float_holds_as_near_as_one_comes(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    trace = load_trace(parquet(tmp_path / "a.parquet", time=[1, 61], container=["a", "a"], memory_bytes=[1, 2**53 + 1]))
    assert trace.memory_bytes[:, 0].tolist() == [1.0, 2.0**53]


BAD_PARQUET: dict[str, tuple[dict[str, Any], str]] = {
    "null time": ({"time": [1, None]}, "row 2: column time: it is null"),
    "bool as time": (
        {"time": [True, False]},
        "row 1: column time: its kind is bool; allowed: timestamp, ",
    ),
    "null container": ({"container": ["a", None]}, "row 2: column container: it is null; allowed: text"),
    "number as container": ({"container": [1, 2]}, "row 1: column container: its kind is int64; allowed: text"),
    "text as amount": (
        {"cpu_millicores": ["1", "2m"]},
        "row 1: column cpu_millicores: its kind is string; allowed",
    ),
    "nan": ({"cpu_millicores": [1.0, float("nan")]}, "row 2: column cpu_millicores: nan is not finite"),
    "negative": ({"cpu_millicores": [1, -1]}, "row 2: column cpu_millicores: -1 is negative"),
    "nanoseconds": (
        {"time": [START * 10**9 + 1, START * 10**9 + 2]},
        "row 1: column time: 1.7000064e+18 is in milliseconds or finer; allowed: Unix seconds",
    ),
    "duplicate": ({"time": [1, 1]}, "row 2: column time: 1 stands twice"),
    "cores": ({"cpu_cores": [1, 1]}, "column 'cpu_cores': its unit is not known"),
}


@pytest.mark.parametrize("case", BAD_PARQUET)
def test_wrong_parquet_is_told_by_file_row_column_and_rule(tmp_path: Path, case: str) -> None:
    pytest.importorskip("pyarrow")
    wrong, said = BAD_PARQUET[case]
    columns = {"time": [1, 61], "container": ["a", "a"], "cpu_millicores": [1, 2], **wrong}
    path = parquet(tmp_path / "bad.parquet", **columns)
    with pytest.raises(TraceFileError) as error:
        load_trace(path)
    assert str(error.value).startswith(f"{path}: {said}")


def test_damaged_parquet_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(TraceFileError, match="not Parquet: "):
        load_trace(write(tmp_path, "a.parquet", "hello"))
    whole = parquet(tmp_path / "b.parquet", time=[1, 61], container=["a", "a"], cpu_millicores=[1, 2]).read_bytes()
    with pytest.raises(TraceFileError, match=r"b.parquet: (damaged|not Parquet): ") as error:
        load_trace(write(tmp_path, "b.parquet", whole[:40] + b"\xff" * 60 + whole[100:]))
    assert len(str(error.value).splitlines()) == 1


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(TraceFileError, match=r"pip install 'plimsoll\[traces\]'"):
        load_trace(write(tmp_path, "a.parquet", ""))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", "", "its name does not tell its format; allowed: .csv, .csv.gz, .jsonl, .jsonl.gz, .parquet"),
        ("a.csv.gz", "hello", "damaged gzip: Not a gzipped file"),
        ("b.csv.gz", PACKED[:40], "damaged gzip: Compressed file ended"),
        ("c.csv.gz", PACKED[:20] + b"\0" * 40, "damaged gzip: "),
    ],
)
def test_file_that_is_no_trace_is_one_line(tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    with pytest.raises(TraceFileError) as error:
        load_trace(write(tmp_path, name, content))
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_file_that_is_not_there_and_a_directory_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match="cannot be read: No such file or directory"):
        load_trace(tmp_path / "no.csv")
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(TraceFileError, match="cannot be read: Is a directory"):
        load_trace(tmp_path / "dir.csv")


def test_line_without_end_is_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "_BLOCK_CHARACTERS", 100)
    with pytest.raises(TraceFileError, match="a line is longer than 100 characters"):
        load_trace(write(tmp_path, "a.csv", HEAD + "x" * 250))


@given(st.binary(max_size=300), st.sampled_from(["csv", "jsonl", "csv.gz"]))
def test_any_bytes_are_a_trace_or_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes, kind: str) -> None:
    path = write(tmp_path_factory.getbasetemp(), f"any.{kind}", content)
    said = f"{path}: a line"
    try:
        load_trace(path)
    except TraceFileError as error:
        said = str(error)
    assert said.startswith(f"{path}: ")
    assert said.isprintable()


def test_quick_and_careful_ways_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(7)
    rows = [
        f"{START + 60 * minute}, c {name},{random.lognormal(0, 5):.6g},{random.integers(1 << 40)}"
        for minute in range(40)
        for name in "xyz"
    ]
    path = write(tmp_path, "a.csv", HEAD + "\n".join(rows))
    careful = load_trace(path)  # one block, the first, which is always read with care
    monkeypatch.setattr(trace_files, "_BLOCK_CHARACTERS", 300)
    quick = load_trace(path)
    assert quick.containers == careful.containers == (" c x", " c y", " c z")
    assert np.array_equal(quick.cpu_millicores, careful.cpu_millicores)
    assert np.array_equal(quick.memory_bytes, careful.memory_bytes)
