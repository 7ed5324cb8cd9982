"""``plimsoll why`` as a command: over an agent's state files, and over a socket."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.cli.main import main
from agent.node.files.documents import WHYS
from agent.node.sockets.control import ControlError, Verb
from agent.sensing.state_file import read_boot_id
from tests.control_sockets import answering
from tests.unit.node.offline.test_state_directory import pods_file, write_state

pytestmark = pytest.mark.usefixtures("long_since_boot")

NAME = "shop/web/app"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The options that name a state of ten minutes at 100m and 32 MiB with peaks of 300m and 48 MiB."""
    monkeypatch.setattr(os, "environ", {"LANG": "C.UTF-8", "COLUMNS": "100"})
    pods = pods_file(tmp_path)
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic(), pods=pods)
    return ("--state-dir", str(tmp_path), "--pods", str(pods), "--set", "recommend.minSpanSeconds=60")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["why", *words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["why", *words])
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_page_of_a_container(state: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    page = told(capsys, NAME, *state)
    assert page.startswith("shop/web/app\n")
    assert "workload StatefulSet shop/db   policy plimsoll" in page
    # The largest minute of the last hour is the request.
    cpu = next(line for line in page.splitlines() if line.startswith("CPU  "))
    assert cpu.split()[:5] == ["CPU", "250m", "300m", "add", "50m"]
    for title in ("DATA", "MEMORY", "PEAKS BY HOUR", "STEPS, CPU", "STEPS, Memory", "WHAT WOULD CHANGE IT"):
        assert f"\n{title}" in page
    assert "usage, mean" not in page


@pytest.mark.parametrize("policy", ["cruise", "vpa", "crane", "plimsoll"])
def test_another_policy_is_asked_by_its_name(
    state: tuple[str, ...], capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    assert f"policy {policy} " in told(capsys, NAME, *state, "--policy", policy)


def test_options_of_policies_and_bounds_are_flags(state: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    page = told(
        capsys,
        NAME,
        *state,
        "--policy",
        "cruise",
        "--bounds-max-cpu-millicores",
        "200",
        "--cruise-neighbour-hours",
        "0",
    )
    assert "request lowered to the most allowed" in page
    assert "largest at this hour of the day, 7 days" in page


def test_plot_is_drawn_within_the_width(state: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    page = told(capsys, NAME, *state, "--plot", "--since", "2h", "--width", "70")
    assert "usage, mean" in page
    assert "recommended 300m" in page
    assert max(map(len, page.splitlines())) <= 70


def test_json_is_the_document_and_has_the_minutes_when_they_are_asked_for(
    state: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (item,) = WHYS.from_json(json.loads(told(capsys, NAME, *state, "-o", "json"))).items
    assert item.recommendation.cpu_millicores.request == 300
    assert item.trail is None
    (item,) = WHYS.from_json(json.loads(told(capsys, NAME, *state, "-o", "json", "--since", "20m"))).items
    assert item.trail is not None
    assert len(item.trail.cpu_usage_millicores) == 20


@pytest.mark.slow
def test_png_is_written_beside_the_page(
    state: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    assert "shop/web/app" in told(capsys, NAME, *state, "--png", str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_png_of_no_minute_is_no_answer(
    state: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("agent.cli.text.png_plots.plots_of", lambda _: ())
    assert main(["why", NAME, *state, "--png", str(tmp_path / "a.png")]) == 1
    assert "no minute measured in this time, nothing to draw" in capsys.readouterr().err
    assert not (tmp_path / "a.png").exists()


def test_an_unknown_name_tells_those_there_are(state: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "wep", *state) == "plimsoll why: nothing is called wep; allowed: shop/web/app\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--policy", "best"), "'best' is no policy; allowed: cruise, vpa, crane, plimsoll"),
        (("--policy", "vpa,crane"), "'vpa,crane' names several; allowed: one policy"),
        (("--since", "8d"), "'8d' is not allowed; allowed: from 1m to 7d ago"),
        (("--since", "1s"), "'1s' is not allowed; allowed: from 1m to 7d ago"),
        (("--since", "soon"), "'soon' is not a time; allowed: now"),
        (("--width", "59"), "'59' is not allowed; allowed: a whole number from 60 to 1000"),
        (("--width", "²"), "'²' is not allowed"),
        (("--plot", "-o", "json"), "--plot with -o json: a plot is not JSON"),
        (("--png", "a.gif"), "--png a.gif: a picture is a PNG"),
        (("--vpa-target", "1"), "unrecognized arguments: --vpa-target 1; allowed: --vpa-target-cpu-percentile"),
        (("--set", "vpa.targetCpuPercentile=2"), "vpa.targetCpuPercentile"),
    ],
)
def test_bad_input_is_one_line_that_says_what_is_allowed(
    state: tuple[str, ...], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, NAME, *state, *words)


def test_no_agent_and_no_state_is_no_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["why", NAME, "--socket", str(tmp_path / "none.sock")]) == 1
    assert "there is no such socket" in capsys.readouterr().err
    assert main(["why", NAME, "--state-dir", str(tmp_path)]) == 1
    assert "rings: No such file" in capsys.readouterr().err


def refuse(_: Mapping[str, object]) -> Mapping[str, object]:
    raise ControlError("why: nothing is called wep; allowed: shop/web/app")


def break_down(_: Mapping[str, object]) -> Mapping[str, object]:
    raise RuntimeError("secret")


def nothing(_: Mapping[str, object]) -> Mapping[str, object]:
    return {}


@pytest.mark.parametrize(
    ("why", "code", "message"),
    [
        (refuse, 2, "plimsoll why: nothing is called wep; allowed: shop/web/app\n"),
        (break_down, 1, "why: the agent failed on this request; see its log\n"),
        (nothing, 1, "explanations.format: None is not 'plimsoll-explanations'\n"),
    ],
)
def test_an_agent_that_knows_no_such_name_is_told_apart_from_one_that_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, why: Verb, code: int, message: str
) -> None:
    socket = tmp_path / "agent.sock"
    with answering(socket, {"ping": nothing, "why": why}):
        try:
            status = main(["why", "wep", "--socket", str(socket)])
        except SystemExit as error:
            status = int(str(error.code))
    assert status == code
    assert capsys.readouterr().err.endswith(message)


@pytest.mark.slow
def test_a_picture_that_cannot_be_written_is_a_failure_after_the_page(
    state: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / f".a.png.{os.getpid()}").mkdir()  # where it would be written first
    assert main(["why", NAME, *state, "--png", str(tmp_path / "a.png")]) == 3
    captured = capsys.readouterr()
    assert captured.out.startswith("shop/web/app\n")
    assert captured.err == f"plimsoll why: --png {tmp_path}/a.png: File exists\n"
    assert not (tmp_path / "a.png").exists()
