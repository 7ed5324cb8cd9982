"""The verb ``replay``: what is in a recording, and questions to it; and recordings as traces."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.cli.main import main
from agent.cli.simulate.trace_files import TraceFileError, load_trace
from agent.core.recommender.simulation import fine_rows
from agent.node.files.documents import RECOMMENDATIONS, WHYS
from agent.node.offline.recording import Recording
from agent.node.offline.recording_contents import CONTENTS
from agent.sensing.ring_file import RingFile
from agent.sensing.state_file import RingGeometry, read_boot_id
from tests.unit.node.history.test_learner import BOOT_UNIX_SECONDS, MIB
from tests.unit.node.offline.test_replay import record
from tests.unit.node.offline.test_state_directory import PATH, pods_file, settings, write_state
from tests.window_rows import minute

pytestmark = pytest.mark.usefixtures("long_since_boot")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording of ten minutes of one container at 100 m, with a history whose peaks are 300 m and 48 MiB."""
    pods = pods_file(tmp_path)
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic() - 60, pods=pods)
    words = ["record", "--state-dir", str(tmp_path), "--pods", str(pods), "-o", str(tmp_path / "r.plimsoll")]
    assert main(words) == 0
    return tmp_path / "r.plimsoll"


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["replay", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["replay", *words])
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


def test_a_file_alone_tells_what_is_in_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, str(file))
    assert re.search(r"span .* UTC, 10m", text)
    assert "1 units, 601 samples, one each 1 s" in text
    assert "gaps     none" in text
    assert re.search(r"history  1 keys, 10 minutes from 20\d\d-\d\d-\d\d \d\d:\d\d:00, 0 out-of-memory kills", text)
    assert re.search(r"shop/web/app .* 601 +1 +0 +61 +1 +there", text)
    contents = CONTENTS.from_json(json.loads(answer(capsys, str(file), "-o", "json")))
    assert (contents.samples, contents.units[0].name) == (601, "shop/web/app")


def test_recommend_answers_at_the_end_and_at_a_moment(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    young = ("--set", "recommend.minSpanSeconds=60")
    text = answer(capsys, str(file), "recommend", *young)
    assert "r.plimsoll" in text
    assert re.search(r"app .* 250m +!300m add 50m ", text)
    advice = RECOMMENDATIONS.from_json(json.loads(answer(capsys, str(file), "recommend", "-o", "json", *young)))
    assert advice.items[0].cpu_millicores.proposed == 300.0
    assert advice.items[0].basis.cpu_readings == 600
    with Recording(file) as recording:
        moment = datetime.fromtimestamp(recording.manifest.ended_unix_seconds - 200, UTC).isoformat()
    for words in (
        ("--at", "200s ago", "recommend", "-o", "json"),
        ("recommend", "--at", "200s ago", "-o", "json"),
        ("--at", moment, "recommend", "-o", "json"),
    ):
        then = RECOMMENDATIONS.from_json(json.loads(answer(capsys, str(file), *words, *young)))
        assert then.items[0].basis.cpu_readings in (400, 401)
        assert "windows are shorter" in then.notes[0]


def test_another_policy_and_its_options_are_tried(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (str(file), "recommend", "-o", "json", "--policy", "crane", "--set", "recommend.minSpanSeconds=60")
    usual = RECOMMENDATIONS.from_json(json.loads(answer(capsys, *words)))
    wide = RECOMMENDATIONS.from_json(json.loads(answer(capsys, *words, "--crane-cpu-request-margin-fraction", "1.0")))
    assert usual.policy == "crane"
    assert wide.items[0].cpu_millicores.request > usual.items[0].cpu_millicores.request  # type: ignore[operator]


def test_why_explains_one_unit(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "web" in answer(capsys, str(file), "why", "web/app", "--set", "recommend.minSpanSeconds=60")
    whys = WHYS.from_json(json.loads(answer(capsys, str(file), "why", "web", "-o", "json")))
    assert whys.items[0].recommendation.identity.container == "app"
    assert "nothing is called nobody" in refused(capsys, str(file), "why", "nobody")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--at", "1m ago"), "--at goes with a question; allowed: recommend, why"),
        (("-o", "json", "recommend"), "-o is given before recommend; allowed: after it"),
        (("--at", "noon", "recommend"), "'noon' is not a time"),
        (("--at", "2h ago", "recommend"), "lies outside its readings; allowed: "),
        (("--at", "2100-01-01T00:00:00Z", "recommend"), "in the future"),
        (("recommend", "--state-dir", "/tmp"), "state.directory is for an agent only"),
        (("recommend", "--policy", "best"), "allowed: cruise, vpa, crane, plimsoll"),
        (("recommend", "--crane-cpu-marg", "1"), "allowed: "),
        (("forecast",), "is not allowed; allowed: "),
    ],
)
def test_what_cannot_be_is_said_on_one_line(
    file: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    assert reason in refused(capsys, str(file), *words)


@pytest.mark.parametrize("question", [(), ("recommend",)])
def test_a_file_that_is_no_recording_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: tuple[str, ...]
) -> None:
    (tmp_path / "x.plimsoll").write_text("no")
    assert "not a recording of plimsoll" in refused(capsys, str(tmp_path / "x.plimsoll"), *question)


# As traces


def test_a_recording_is_a_trace_of_its_minutes_and_of_the_history_before(tmp_path: Path) -> None:
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic() - 60, pods=pods_file(tmp_path))
    with RingFile.open(tmp_path / "rings", RingGeometry(max_slots=2), boot_id=read_boot_id()) as rings:
        slot = rings.retained()[PATH]
        newest = int(rings.minutes(slot, 1).joined()["monotonic_minute"][0])
        rings.append_minute(slot, minute(newest + 2, 40.0, peak=90.0, set_peak_kib=2048, waiting=51))
        rings.append_minute(slot, minute(newest + 3, 9.0, coverage=0, has=0))
    chosen = settings(tmp_path, pods=tmp_path / "pods.json")
    trace = load_trace(record(tmp_path, chosen, wall=lambda: BOOT_UNIX_SECONDS + time.monotonic()))
    assert trace.containers == ("shop/web/app",)
    # Nine minutes of the history, the minute of both (the row counts), one without anything, and two rows.
    assert trace.has_cpu[:, 0].tolist() == [True] * 10 + [False, True, False]
    assert trace.cpu_millicores[:, 0].tolist() == [100.0] * 10 + [0.0, 40.0, 0.0]
    assert trace.cpu_peak_millicores is not None
    assert trace.cpu_peak_millicores[:, 0].tolist() == [300.0] * 10 + [0.0, 90.0, 0.0]
    assert trace.psi is not None
    assert trace.psi[:, 0].tolist() == pytest.approx([0.0] * 11 + [51 / 255, 0.0])
    assert trace.memory_bytes[:, 0].tolist() == [48.0 * MIB] * 9 + [0.0, 0.0, 2.0 * MIB, 0.0]
    assert trace.pod_containers is not None
    assert trace.pod_containers.tolist() == [1]
    assert "waiting is not known of them" in trace.notes[0]
    assert np.isfinite(trace.memory_bytes).all()


def test_a_recording_is_simulated(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["simulate", str(file), "--policy", "cruise", "-o", "json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["traces"][0]["known_cpu_minutes"] == 10


def test_a_recording_is_judged_second_by_second(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = load_trace(file)
    assert trace.fine is not None
    assert trace.rows_per_minute == 60
    # A steady 100 m, in the seconds of the readings as in the minutes of the history before them.
    known = trace.fine.cpu_millicores[trace.fine.has_cpu]
    assert known.size > 9 * 60
    assert known.tolist() == pytest.approx([100.0] * known.size, rel=1e-3)

    monkeypatch.setattr(fine_rows, "MAX_FINE_CELLS", 10)
    coarse = load_trace(file)
    assert coarse.fine is None
    assert "rows of 1 s are judged as minutes" in coarse.notes[-1]


def test_a_recording_without_a_whole_minute_is_no_trace(tmp_path: Path) -> None:
    write_state(tmp_path, boot_id=read_boot_id(), newest_seconds=time.monotonic() - 60)
    (tmp_path / "history").unlink()
    with RingFile.open(tmp_path / "rings", RingGeometry(max_slots=2), boot_id=read_boot_id()) as rings:
        slot = rings.retained()[PATH]
        rows = rings.raw(slot).joined()
        rings.release(slot)
        again = rings.attach(PATH, 8, now_monotonic_ns=1)
        for each in rows[-20:]:
            rings.append_raw(again, each)
    assert main(["record", "--state-dir", str(tmp_path), "-o", str(tmp_path / "r.plimsoll")]) == 0
    with pytest.raises(TraceFileError, match=r"recording .*: no whole minute in it"):
        load_trace(tmp_path / "r.plimsoll")


def test_what_is_no_recording_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "x.plimsoll").write_text("no")
    with pytest.raises(TraceFileError, match="not a recording of plimsoll"):
        load_trace(tmp_path / "x.plimsoll")
