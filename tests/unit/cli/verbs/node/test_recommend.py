from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from agent.cli.main import main
from agent.node.files.documents import RECOMMENDATIONS, SNAPSHOT
from agent.sensing.state_file import read_boot_id
from tests.control_sockets import answering
from tests.recommendations import mixed_node
from tests.snapshots import snapshot
from tests.unit.node.offline.test_state_directory import pods_file, write_state

pytestmark = pytest.mark.usefixtures("long_since_boot")


class Verbs:
    """An agent that recommends what it is told to."""

    answer: Mapping[str, object] = RECOMMENDATIONS.to_json(mixed_node())
    node = "worker-7"
    told: Mapping[str, object] = {}
    """Of itself, to ``ping``."""

    def ping(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        return self.told

    def recommend(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        assert not arguments
        return self.answer

    def snapshot(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        return SNAPSHOT.to_json(replace(snapshot(), node=replace(snapshot().node, name=self.node)))


@pytest.fixture
def verbs() -> Verbs:
    return Verbs()


@pytest.fixture
def agent(tmp_path: Path, verbs: Verbs) -> Iterator[Path]:
    path = tmp_path / "agent.sock"
    answers = {"ping": verbs.ping, "recommend": verbs.recommend, "snapshot": verbs.snapshot}
    with answering(path, answers):
        yield path


def recommend(*words: str) -> int:
    return main(["recommend", *words])


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of an error that is bad input."""
    with pytest.raises(SystemExit) as caught:
        recommend(*words)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


# Output


def test_table_is_drawn_for_a_pipe_without_escapes(agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("--socket", str(agent), "--width", "120") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("plimsoll worker-7  requests by policy cruise")
    assert "\x1b" not in out
    assert max(len(line) for line in out.splitlines()) <= 120


def test_json_and_yaml_hold_what_passes_the_filters(agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("--socket", str(agent), "-o", "json", "-n", "shop", "--pod", "cache-*") == 0
    answer = RECOMMENDATIONS.from_json(json.loads(capsys.readouterr().out))
    assert [item.identity.pod for item in answer.items] == ["cache-0"]
    assert answer.min_span_seconds == 600.0
    assert recommend("--socket", str(agent), "-o", "yaml", "--filter", "young") == 0
    assert [item["identity"]["pod"] for item in yaml.safe_load(capsys.readouterr().out)["items"]] == ["young-5"]


def test_csv_and_html_are_written(agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("--socket", str(agent), "-o", "csv", "--sort", "name", "--reverse") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(mixed_node().items)
    assert "web-7d9c5b8f4-zzzzz" in lines[1]  # shop, web and zzzzz are the last of their kind
    assert recommend("--socket", str(agent), "-o", "html") == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")


def test_patches_are_on_stdout_and_what_is_left_out_on_stderr(agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("--socket", str(agent), "-o", "patch") == 0
    out, err = capsys.readouterr()
    assert sum(line.startswith("kubectl patch pod ") for line in out.splitlines()) == 3
    assert all(line.startswith("plimsoll recommend: left out, ") for line in err.splitlines())
    assert "jobs/young-5/app CPU" in err


def test_a_filter_that_lets_nothing_pass_is_said_and_is_0(agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("--socket", str(agent), "-n", "nowhere") == 0
    assert "nothing passes the filter 'ns=nowhere': 0 of 8" in capsys.readouterr().out
    assert recommend("--socket", str(agent), "-n", "nowhere", "-o", "csv") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert err == "plimsoll recommend: nothing passes the filter 'ns=nowhere': 0 of 8\n"


# No answer


def test_no_agent_at_the_named_socket_is_1_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("--socket", str(tmp_path / "none.sock")) == 1
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert "none.sock" in line


def test_an_agent_of_another_release_is_1_and_one_line(
    agent: Path, verbs: Verbs, capsys: pytest.CaptureFixture[str]
) -> None:
    verbs.answer = {**verbs.answer, "version": 99}
    assert recommend("--socket", str(agent)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "recommendations.version: 99 is not 1" in line


def test_no_state_to_answer_from_is_1_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("--state-dir", str(tmp_path), "--policy", "vpa") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path) in line


# Bad input


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--policy", "best"), ("recommend.policy: 'best' is not allowed", "cruise, vpa, crane, plimsoll")),
        (("--vpa-target-cpu-percentile", "3"), ("vpa.targetCpuPercentile: '3'", "from 0 to 1")),
        (("--vpa-targetcpu", "0.9"), ("--vpa-targetcpu", "--vpa-target-cpu-percentile")),
        (("-o", "xml"), ("'xml'", "table")),
        (("--sort", "size"), ("'size'", "severity")),
        (("--filter", "color=red"), ("'color=red' has an unknown key", "ns=")),
        (("--width", "3"), ("'3' is not allowed; allowed: a whole number from 20 on",)),
    ],
)
def test_bad_input_is_one_line_that_says_what_is_allowed(
    words: tuple[str, ...], parts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    line = error_of(capsys, *words)
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({}, "of another release; allowed: the plimsoll command of that release"),
        ({"settings": {"state": {"directory": None}}, "directory": "/"}, "keeps its state in memory only"),
        ({"settings": {"state": {"directory": "/none"}}, "directory": "/"}, "/none"),
    ],
)
def test_another_policy_is_tried_on_the_state_that_the_agent_tells(
    agent: Path, verbs: Verbs, capsys: pytest.CaptureFixture[str], told: dict[str, object], reason: str
) -> None:
    verbs.told = told
    assert recommend("--socket", str(agent), "--policy", "vpa") == 1
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert reason in line


def test_the_policy_that_the_agent_has_anyway_is_asked_of_the_agent(
    agent: Path, verbs: Verbs, capsys: pytest.CaptureFixture[str]
) -> None:
    """It knows the names of pods; its state files do not."""
    verbs.told = {"settings": {"state": {"directory": None}, "recommend": {"policy": "vpa"}}, "directory": "/"}
    assert recommend("--socket", str(agent), "--policy", "vpa") == 0
    assert capsys.readouterr().err == ""
    assert recommend("--socket", str(agent), "--policy", "vpa", "--set", "vpa.targetCpuPercentile=0.5") == 1
    assert "keeps its state in memory only" in capsys.readouterr().err


def test_state_files_without_names_say_where_they_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {"LANG": "C.UTF-8"})
    pods = pods_file(tmp_path)
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic(), pods=pods)
    assert recommend("--state-dir", str(tmp_path), "--policy", "vpa") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "plimsoll recommend: the state files have no names and no requests of pods, which vpa and crane need; allowed: "
        "--pods FILE (kubectl get pods -A -o json)"
    )
    assert recommend("--state-dir", str(tmp_path), "--policy", "vpa", "--pods", str(pods)) == 0
    assert capsys.readouterr().err == ""


# Money

HEADER = "EndTimestamp,InstanceID,Region,AssetClass,InstanceIDField,InstanceType,MarketPriceHourly,Version"


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """worker-7 has 4 cores and 8 GiB, 4 x 0.031611 + 8 x 0.004237 = 0.16034 an hour by the list; here it is twice that.

    So a core costs 0.063222 an hour, a GiB 0.008474. A container of 500m and 256Mi: 0.031611 + 0.0021185 = 0.0337295,
    x 730 = 24.622535.
    """
    file = tmp_path / "prices.csv"
    file.write_text(f"{HEADER}\n,worker-7,,node,metadata.name,,0.32068,1\n")
    return file


def test_money_is_in_table_json_yaml_and_csv(agent: Path, prices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--socket", str(agent), "--prices", str(prices))
    assert recommend(*words, "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["prices"] == {
        "currency": "USD",
        "month_hours": "730",
        "node_month": "234.0964",  # 0.32068 x 730
        "is_list_price": False,
        "list_price_note": "",
    }
    by_name = {(unit["identity"]["pod"], unit["identity"]["container"]): unit["money"] for unit in document["items"]}
    # 40m instead of 500m, 64Mi instead of 256Mi: 0.46 x 0.063222 + 0.1875 x 0.008474 = 0.030670995, x 730
    assert by_name["web-7d9c5b8f4-x2x9k", "istio-proxy"] == {
        "cost_month": "24.622535",
        "possible_month": "22.38982635",
        "needed_month": "0",
    }
    # 650m instead of 500m: 0.15 x 0.063222 x 730
    assert by_name["web-7d9c5b8f4-zzzzz", "app"]["needed_month"] == "6.922809"
    # What is withheld counts as it is.
    assert by_name["resize-28871235-zz8lp", "worker"] == {
        "cost_month": "24.622535",
        "possible_month": "0",
        "needed_month": "0",
    }
    assert recommend(*words, "-o", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == document
    assert recommend(*words, "-o", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [Decimal(row["cost_month"]) for row in rows] == [
        Decimal(unit["money"]["cost_month"]).quantize(Decimal("0.000001")) for unit in document["items"]
    ]
    assert {(row["currency"], row["is_list_price"]) for row in rows} == {("USD", "false")}
    assert recommend(*words, "--width", "200") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "USD a month of 730 hours, by what is requested now; the node costs 234.10" in lines[2]
    [proxy] = [line for line in lines if "istio-proxy" in line]
    assert "24.62" in proxy
    assert "22.39" in proxy
    assert "*" not in proxy


def test_a_node_that_the_sheet_does_not_name_has_list_prices_and_says_so(
    agent: Path, prices: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices.write_text(prices.read_text().replace("worker-7", "worker-8"))
    words = ("--socket", str(agent), "--prices", str(prices))
    assert recommend(*words, "--width", "200") == 0
    out = capsys.readouterr().out
    assert "* = list price (OpenCost's reference), not your bill: the sheet does not name this node" in out
    [proxy] = [line for line in out.splitlines() if "istio-proxy" in line]
    assert "12.31*" in proxy
    assert recommend(*words, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["prices"]["is_list_price"]


def test_without_prices_nothing_is_said_of_money(agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recommend("--socket", str(agent), "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert "prices" not in document
    assert all("money" not in item for item in document["items"])


def test_prices_that_cannot_be_meant_are_one_line(
    agent: Path, verbs: Verbs, prices: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--socket", str(agent), "--prices", str(prices))
    for output in ("html", "patch"):
        assert f"--prices is not in -o {output}; allowed: table, json, yaml, csv" in error_of(
            capsys, *words, "-o", output
        )
    verbs.node = "worker-9"
    assert recommend(*words) == 1
    assert "the agent is of node worker-9, and what is recommended of node worker-7" in capsys.readouterr().err
    prices.write_text("a,b\n")
    assert "recommend: --prices prices.csv line 1: the columns are not those of OpenCost" in error_of(capsys, *words)
