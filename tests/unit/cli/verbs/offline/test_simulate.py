"""The verb as a person calls it."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main

START = 1_700_006_400
HEAD = "time,container,cpu_millicores,memory_bytes\n"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.settings.keys import keys

    for spec in keys().values():
        monkeypatch.delenv(spec.variable, raising=False)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two hours of two containers; one steps from 100m to 400m after 90 minutes."""
    path = tmp_path / "web.csv"
    rows = [
        f"{START + 60 * minute},{name},{400 if name == 'shop/web/app' and minute >= 90 else 100},{200 << 20}\n"
        for minute in range(120)
        for name in ("shop/web/app", "shop/<b>&/app")
    ]
    path.write_text(HEAD + "".join(rows))
    return path


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["simulate", *words, "-o", "json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", *words])
    assert ended.value.code == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert said.out == ""
    return line


def test_table_has_a_column_for_each_policy_and_the_trace_s_span(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(trace), "--policy", "cruise,vpa"]) == 0

    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == str(trace)
    assert lines[1].startswith("2023-11-15 00:00 to 2023-11-15 02:00 UTC (2h00m), 2 containers; minutes known: 240 of")
    assert ["cruise", "vpa"] in [line.split() for line in lines]
    # Ten minutes of each of two containers pass before there is an answer.
    assert sum(re.fullmatch(r"  unsized, minutes +20 +20", line) is not None for line in lines) == 2
    assert any(re.fullmatch(r"  met while sized +1 +1", line) for line in lines)
    assert max(map(len, lines[1:])) <= 100
    assert any("memory limit where the policy names none: 1 x request" in line for line in lines)
    assert said.err == ""


@pytest.mark.slow
def test_all_policies_are_compared_unless_told(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = answer(capsys, str(trace))["traces"]
    assert [policy["policy"] for policy in entry["policies"]] == ["cruise", "vpa", "crane", "plimsoll"]


def test_json_has_the_figures_with_units_in_their_names(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, str(trace), "--policy", "cruise", "--cpu-request", "1", "--memory-request", "400Mi")

    (entry,) = said["traces"]
    assert (entry["trace"], entry["start_unix_seconds"], entry["span_seconds"]) == (str(trace), START, 7200.0)
    assert (entry["containers"], entry["known_cpu_minutes"], entry["known_memory_minutes"]) == (2, 240, 240)
    (policy,) = entry["policies"]
    assert policy["cpu"]["unsized_minutes"] == 0
    # Of use there are 210 minutes at 100m and 30 at 400m: 33,000 millicore-minutes are 0.55 core-hours.
    assert policy["cpu"]["used_core_hours"] == pytest.approx(0.55)
    assert policy["memory"]["used_gib_hours"] == pytest.approx(2 * 2 * 200 / 1024)
    assert policy["steps"]["steps"] == policy["steps"]["covered"] == 1
    # The percentile of ten minutes and the last hour's peak: one decision after the step's first minute.
    assert policy["steps"]["reaction_median_seconds"] == 60.0
    worst = policy["worst"]["most_cpu_missing"]
    assert [container["container"] for container in worst] == ["shop/web/app"]
    assert worst[0]["cpu"]["missing_core_hours"] == pytest.approx(0.3 / 60)
    assert said["rules"]["cpu_request_millicores"] == 1000
    assert said["all"] == [{key: value for key, value in policy.items() if key not in ("worst", "series")}]


def test_several_traces_are_told_one_by_one_and_in_sum(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "cpu.csv"
    other.write_text("time,container,cpu_millicores\n" + "".join(f"{60 * minute},a,50\n" for minute in range(60)))

    said = answer(capsys, str(trace), str(other), "--policy", "vpa")
    (both,) = said["all"]
    assert both["containers"] == 3
    assert both["span_seconds"] == 7200.0 + 3600.0
    assert both["cpu"]["known_minutes"] == 240 + 60
    assert said["traces"][1]["notes"] == ["it tells of no memory"]

    assert main(["simulate", str(trace), str(other), "--policy", "vpa"]) == 0
    out = capsys.readouterr().out
    assert "note: it tells of no memory" in out
    assert "all 2 traces" in out
    # What the second trace does not tell of has no lines: memory stands in the first table and in the sum.
    assert [line for line in out.splitlines() if line in ("CPU", "Memory")] == ["CPU", "Memory", "CPU", "CPU", "Memory"]


def test_options_of_a_policy_reach_it(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def requested(*words: str) -> float:
        (policy,) = answer(capsys, str(trace), "--policy", "vpa", *words)["all"]
        figure: float = policy["cpu"]["requested_core_hours"]
        return figure

    assert requested("--vpa-recommendation-margin-fraction", "1") > 1.5 * requested()
    assert requested("--set", "bounds.minCpuMillicores=5000") == pytest.approx(5 * 220 / 60)


def test_rules_are_heard(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--decision-interval", "600", "--cool-down", "0", "--memory-limit-ratio", "1.5")
    rules = answer(capsys, str(trace), "--policy", "vpa", *words, "--set", "recommend.minSpanSeconds=0")["rules"]
    assert (rules["decision_interval_seconds"], rules["cool_down_seconds"]) == (600.0, 0.0)
    assert (rules["memory_limit_ratio"], rules["min_span_seconds"]) == (1.5, 0.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "krr"), "'krr' is no policy; allowed: cruise, vpa, crane, plimsoll"),
        (("--vpa-target-percentile", "1"), "--vpa-target-percentile 1; allowed: --vpa-target-cpu-percentile, "),
        (("--polcy", "vpa"), "--polcy vpa; allowed: --policy"),
        (("--vpa-target-cpu-percentile", "x"), "vpa.targetCpuPercentile: 'x' is not allowed; allowed: a number"),
        (("--set", "vpa.foo=1"), "command line: vpa.foo: unknown key"),
        (("--cpu-request", "much"), "'much' is not allowed; allowed: a quantity above 0 such as 250m"),
        (("--cpu-request", "0"), "'0' is not allowed"),
        (("--memory-request", "-1Gi"), "'-1Gi' is not allowed"),
        (("--memory-limit-ratio", "0.5"), "'0.5' is not allowed; allowed: a number from 1 to 100"),
        (("--memory-limit-ratio", "nan"), "'nan' is not allowed"),
        (("--decision-interval", "90s"), "'90s' is not allowed; allowed: whole minutes from 60 s"),
        (("--decision-interval", "25h"), "'25h' is not allowed; allowed: whole minutes from 60 s"),
        (
            ("--decision-interval", "90"),
            "'90' is not allowed; allowed: whole minutes from 60 s to 1 day such as 60, 5m or 1h",
        ),
        (("--reaction", "2d"), "'2d' is not allowed; allowed: 0 s to 1 day such as 2s, 60s, 1m or 60, or never"),
        (("--reaction", "25h"), "'25h' is not allowed; allowed: 0 s to 1 day"),
        (("--reaction", "-1"), "'-1' is not allowed; allowed: 0 s to 1 day"),
        (("--reaction", "s"), "'s' is not allowed; allowed: 0 s to 1 day"),
        (("--warm-up", "nan"), "'nan' is not allowed; allowed: 0 s to 7 days such as 300"),
        (("--shrink-ratio", "1.1"), "'1.1' is not allowed; allowed: a number from 0 to 1"),
        (("--decision-interval", "soon"), "'soon' is not allowed"),
        (("--cool-down", "-1"), "'-1' is not allowed; allowed: 0 s to 7 days such as 300"),
        (("--html", "/no/such/page.html"), "--html /no/such/page.html: no such directory"),
        (("--csv", "/no/such/rows.csv"), "--csv /no/such/rows.csv: no such directory"),
        (("-o", "yaml"), "'yaml' is not allowed"),
    ],
)
def test_wrong_option_is_one_line_with_what_is_allowed(
    trace: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert said in refused(capsys, str(trace), *(f"{words[0]}={words[1]}",) if words[1][0] == "-" else words)


@pytest.mark.parametrize(
    ("text", "seconds"), [("never", None), ("2s", 2.0), ("90", 90.0), ("1m", 60.0), ("0.5h", 1800.0), ("0", 0.0)]
)
def test_reaction_is_a_duration_or_never(
    trace: Path, capsys: pytest.CaptureFixture[str], text: str, seconds: float | None
) -> None:
    rules = answer(capsys, str(trace), "--policy", "vpa", "--reaction", text)["rules"]
    assert rules["reaction_seconds"] == seconds


def test_reaction_warm_up_and_calm_falls_are_heard_and_told(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--policy", "plimsoll", "--cpu-request", "200m", "--warm-up", "1200", "--decision-interval", "row")
    calm = ("--shrink-interval", "3600", "--shrink-after-growth", "10800", "--shrink-ratio", "0.3")
    (policy,) = answer(capsys, str(trace), *words, "--reaction", "15s", *calm)["all"]
    # Of two containers' two hours the first twenty minutes each are not judged. The step to 400m meets a request far
    # below: a quarter of its first minute is short, by what is told; then the request is 400m.
    assert policy["cpu"]["known_minutes"] == 200
    assert policy["cpu"]["under_requested_minutes"] == 0.25
    assert policy["cpu"]["changes_per_day"] == pytest.approx(policy["cpu"]["resizes"] * 1440 / 200)
    assert policy["cpu"]["deficit_of_used_ratio"] == pytest.approx(
        policy["cpu"]["missing_core_hours"] / policy["cpu"]["used_core_hours"]
    )
    assert policy["node"]["cpu"]["known_minutes"] == policy["node"]["planned_cpu"]["known_minutes"] == 100
    assert "resizes" not in policy["node"]["planned_cpu"]

    assert main(["simulate", str(trace), *words, "--reaction", "15s", *calm]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "rules: a decision at the end of each row, no change of less than 5.0%, of 10m or of 16.0MiB, rises" in out
    assert "a container that is short of CPU gets what it uses after 15 s, where the policy asks" in out
    assert "asks for less for that reason, CPU falls once each 3600 s, by 30% or more" in out
    assert "not sooner than 10800 s after such a growth, each container's first 20m00s not judged; requests" in out


def test_calm_falls_are_those_of_the_settings_unless_told(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = answer(capsys, str(trace), "--policy", "plimsoll", "--shrink-ratio", "0.1")["rules"]
    figures = [rules[f"shrink_{name}"] for name in ("interval_seconds", "after_growth_seconds", "ratio")]
    assert figures == [3600.0, 10_800.0, 0.1]


@pytest.mark.slow
def test_series_are_told_one_by_one(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = answer(capsys, str(trace), "--policy", "cruise,vpa")["traces"]
    series = entry["policies"][0]["series"]
    assert [each["container"] for each in series] == ["shop/web/app", "shop/<b>&/app"]
    assert series[1]["cpu"]["under_requested_ratio"] == 0.0
    assert series[1]["memory"]["slack_of_used_ratio"] >= 0.0
    assert [policy["undominated"] for policy in entry["policies"]].count(True) >= 1

    assert main(["simulate", str(trace), "--policy", "cruise,vpa"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("CPU of each container")
    assert lines[at + 1].split() == ["slack", "risk", "deficit", "changes", "a", "day"]
    # The one that used most comes first, with a line per policy.
    assert [line.split()[0] for line in lines[at + 2 : at + 6]] == ["shop/web/app", "vpa", "shop/<b>&/app", "vpa"]
    assert any(line.startswith("no other policy here has both less slack and less deficit") for line in lines)


@pytest.mark.slow
def test_csv_has_a_row_for_each_container_the_sum_and_the_node(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "cpu.csv"
    other.write_text("time,container,cpu_millicores\n" + "".join(f"{60 * minute},=a,50\n" for minute in range(60)))
    path = tmp_path / "rows.csv"
    words = ("--policy", "vpa,crane", "--csv", str(path), "--reaction", "2s")
    assert main(["simulate", str(trace), str(other), *words]) == 0
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    # Two policies x (two containers, sum and node, each of CPU and memory; one container's CPU, sum and node; all's sum
    # and node of both; and what a plan would set aside of CPU, for each trace and for all).
    assert len(rows) == 2 * (4 * 2 + 3 + 2 * 2 + 3)
    assert {row["scope"] for row in rows} == {"container", "sum", "node", "node_planned"}
    planned = [row for row in rows if row["scope"] == "node_planned"]
    assert {(row["resource"], row["changes_per_day"], row["resizes"]) for row in planned} == {("cpu", "", "")}
    assert all(float(row["used"]) > 0 for row in planned)
    assert {row["container"] for row in rows} == {"", "shop/web/app", "shop/<b>&/app", "'=a"}
    assert {row["trace"] for row in rows} == {str(trace), str(other), ""}
    assert {(row["reaction_seconds"], row["decision_interval_seconds"]) for row in rows} == {("2.0", "60.0")}
    sized = next(row for row in rows if row["scope"] == "sum" and row["resource"] == "cpu")
    assert float(sized["slack_of_used_ratio"]) == pytest.approx(float(sized["slack"]) / float(sized["used"]))
    capsys.readouterr()


def test_no_trace_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "TRACE" in refused(capsys)


def test_wrong_trace_is_one_line_with_row_and_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(HEAD + "1,a,1,1\n61,a,-1,1\n")
    line = refused(capsys, str(path))
    assert line.startswith(
        f"plimsoll simulate: {path}: row 2 (line 3): column cpu_millicores: -1 is negative; allowed:"
    )


def test_page_that_cannot_be_written_is_told(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", str(trace), "--policy", "vpa", "--html", str(tmp_path)])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err == f"plimsoll simulate: --html {tmp_path}: is not a regular file; allowed: a file, or a new name\n"


def test_failed_simulation_is_told(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.cli.simulate import runs as simulating

    def fail(*_: Any, **__: Any) -> Any:
        raise simulating.SimulationError("the process of policy vpa ended with code -9 and no outcome")

    monkeypatch.setattr(simulating, "simulate_policies", fail)
    assert main(["simulate", str(trace)]) == 3
    assert capsys.readouterr().err.startswith("plimsoll simulate: the process of policy vpa ended with code -9")


class _Page(HTMLParser):
    """Checks that every tag is closed in its turn, and collects what the page names."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if tag != "p" or "p" in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
def test_page_stands_alone_and_has_table_bars_and_plots(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.html"
    assert main(["simulate", str(trace), str(trace), "--policy", "cruise,vpa", "--html", str(path)]) == 0
    assert "Memory" in capsys.readouterr().out  # the table is printed as well

    page = _Page()
    page.feed(path.read_text())
    assert page.open == []
    assert "All 2 traces" in page.text
    assert "shop/web/app: CPU, the most slack" in page.text
    # The comparison of all and of each trace, with each of which go two tables of its containers.
    assert page.tags.count("table") == 3 + 2 * 2
    assert page.text.count("CPU: slack against deficit") == 2 * 3  # heading and the picture's name
    assert page.tags.count("circle") == 2 * 3
    # Two bar charts in each of three parts, and plots: all of them pictures with a name.
    assert page.tags.count("svg") > 6
    outside = [value for name, value in page.attributes if name in ("src", "href") and not str(value).startswith("#")]
    assert outside == []
    names = [value for name, value in page.attributes if name == "id"]
    assert len(names) == len(set(names))
    assert {value for name, value in page.attributes if name == "href"} <= {f"#{name}" for name in names}


def test_page_spells_names_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, report = tmp_path / "a.csv", tmp_path / "a.html"
    path.write_text("time,container,cpu_millicores\n" + "".join(f"{60 * minute},<i>&,50\n" for minute in range(30)))
    assert main(["simulate", str(path), "--policy", "vpa", "--html", str(report)]) == 0
    text = report.read_text()
    assert "<i>" not in text
    assert "&lt;i&gt;&amp;: CPU, the most slack" in text
    assert "memory, the most" not in text  # the trace tells of none
