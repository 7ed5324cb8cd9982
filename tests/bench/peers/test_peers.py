"""The comparison on a few real cgroups, for two seconds: that it runs, not what comes out; and its page."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.bench.peers import __main__ as bench
from tests.bench.peers import candidates, comparison, table
from tests.bench.peers.comparison import Measured, Terms
from tests.kernel.cgroups import why_not

TERMS = Terms(
    count=4, warm_up_seconds=0.0, window_seconds=2.0, scraped_seconds=0.5, preads="", cadvisor=None, below=None
)
PREADS = Measured(
    count=4,
    name="preads",
    cpu_percent_of_core=0.5,
    cpu_percent_of_core_scraped=None,
    page_kib=None,
    rss_mib=1.5,
    rss_anon_mib=0.25,
    sweeps_per_second=None,
    age_median_seconds=None,
    age_oldest_seconds=None,
    others_percent_of_machine=0.0,
    steal_percent_of_machine=0.0,
    is_load_worthless=False,
)
AGENT = Measured(
    count=4,
    name="plimsoll",
    cpu_percent_of_core=2.0,
    cpu_percent_of_core_scraped=2.25,
    page_kib=24.4,
    rss_mib=55.0,
    rss_anon_mib=35.0,
    sweeps_per_second=1.0,
    age_median_seconds=0.5,
    age_oldest_seconds=0.97,
    others_percent_of_machine=20.0,
    steal_percent_of_machine=0.0,
    is_load_worthless=True,
)


@pytest.mark.kernel
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_compare_on_four_containers_measures_all_and_tells_of_one_that_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(candidates, "QUESTIONS", 1)
    source, program = Path(__file__).parents[1] / "preads.c", tmp_path / "preads"
    subprocess.run(["cc", "-o", str(program), str(source)], check=True)
    out = tmp_path / "measured.jsonl"
    terms = {name: getattr(TERMS, name) for name in TERMS.__slots__}

    comparison.compare(Terms(**{**terms, "preads": str(program), "below": "/bin/false"}), out)

    measured = [Measured(**json.loads(line)) for line in out.read_text().splitlines()]
    assert [peer.name for peer in measured] == ["preads", "plimsoll", "plain Python"]
    assert all(peer.cpu_percent_of_core > 0 and peer.rss_mib > peer.rss_anon_mib > 0 for peer in measured)
    agent = measured[1]
    assert agent.page_kib is not None
    assert agent.age_oldest_seconds is not None
    assert "peers: left out: below, 1 s: " in capsys.readouterr().out


def test_row_has_the_ratio_to_the_floor_and_says_when_the_machine_was_busy() -> None:
    # 2.0 % over 0.5 % is four times the floor
    assert table.row(AGENT, [PREADS, AGENT]) == (
        "| 4 | plimsoll | 2 (worthless: busy machine) | 4.0 | 2.25 | 24 | 55.0 (35.0) | 1.00 | 0.5 (1.0) |"
    )
    assert table.row(PREADS, [PREADS, AGENT]) == "| 4 | preads | 0.5 | 1.0 |  |  | 1.5 (0.2) |  |  |"


def test_row_without_a_floor_has_no_ratio() -> None:
    assert "| 2 (worthless: busy machine) |  | 2.25 |" in table.row(AGENT, [AGENT])


def test_cadvisor_ages_are_those_of_the_trees_containers_the_newest_cpu_of_each() -> None:
    page = "\n".join(
        [
            "# TYPE container_cpu_usage_seconds_total counter",
            'container_cpu_usage_seconds_total{cpu="cpu0",id="/t/kubepods/a",image=""} 1.5 70000',
            'container_cpu_usage_seconds_total{cpu="cpu1",id="/t/kubepods/a",image=""} 1.5 75000',
            'container_cpu_usage_seconds_total{cpu="total",id="/t/kubepods/b",image=""} 1.5 40500',
            'container_cpu_usage_seconds_total{cpu="total",id="/system.slice"} 1.5 1000',
            'container_memory_usage_bytes{id="/t/kubepods/a"} 5 1000',
        ]
    )

    # At 100 s: a was read at 75 s, b at 40.5 s
    assert candidates.cadvisor_ages(page, "/t/kubepods/", 100.0) == [25.0, 59.5]


@pytest.mark.parametrize("words", [("--count", "0"), ("--window", "-3"), ("--cadvisor", "/nope"), ("--out", "{kept}")])
def test_bad_input_is_one_line_and_removes_nothing(
    words: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine"
    file.write_text("mine\n")
    monkeypatch.setattr("sys.argv", ["peers", *(word.format(kept=tmp_path) for word in words)])
    try:
        code: object = bench.main()
    except SystemExit as left:
        code = left.code
    assert code == 2
    assert capsys.readouterr().err.splitlines()[-1].split(":")[-1].strip()
    assert file.read_text() == "mine\n"
