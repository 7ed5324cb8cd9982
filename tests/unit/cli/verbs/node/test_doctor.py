"""`plimsoll doctor`: how it is laid out, and what its exit code says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.cli.main import main
from agent.cli.verbs.node.doctor import EXIT_CODES, format_checks
from agent.core.machine.checkup import Check, FeatureState, MachineFacts
from agent.sensing import features
from agent.sensing.discovery import UnitScope
from tests.unit.core.machine.test_checkup import GOOD

OK = Check(name="cgroups", verdict=FeatureState.OK, found="pure v2")
BAD = Check(
    name="memory controller", verdict=FeatureState.DEGRADED, found="on v1", consequence="no figures", mend="boot v2"
)


def test_format_lines_up_verdict_name_and_finding_and_puts_the_mending_below() -> None:
    assert format_checks((OK, BAD)).splitlines() == [
        "OK        cgroups            pure v2",
        "degraded  memory controller  on v1",
        "                             so:   no figures",
        "                             mend: boot v2",
        "",
        "1 OK, 1 degraded, 0 broken",
    ]


def test_exit_codes_differ_from_that_of_bad_input() -> None:
    assert set(EXIT_CODES) == set(FeatureState)
    assert len(set(EXIT_CODES.values())) == len(FeatureState)
    assert 2 not in EXIT_CODES.values()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A machine whose facts a test sets; what was asked about it is kept."""
    state: dict[str, object] = {"facts": GOOD}

    def read_facts(**asked: object) -> MachineFacts:
        state["asked"] = asked
        facts = state["facts"]
        assert isinstance(facts, MachineFacts)
        return facts

    monkeypatch.setattr(features, "read_facts", read_facts)
    return state


@pytest.mark.parametrize(
    ("facts", "code", "last"),
    [
        (GOOD, 0, "0 degraded, 0 broken"),
        (replace(GOOD, native_sampler="not built"), 1, "1 degraded, 0 broken"),
        (replace(GOOD, native_sampler="not built", unreadable=("/x",)), 3, "1 degraded, 1 broken"),
    ],
)
def test_exit_code_says_the_worst(
    machine: dict[str, object], capsys: pytest.CaptureFixture[str], facts: MachineFacts, code: int, last: str
) -> None:
    machine["facts"] = facts
    assert main(["doctor"]) == code
    assert capsys.readouterr().out.splitlines()[-1].endswith(last)


def test_json_holds_the_same(machine: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    machine["facts"] = replace(GOOD, inotify_watches=5)
    assert main(["doctor", "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["worst"] == "degraded"
    (inotify,) = [check for check in document["checks"] if check["verdict"] != "OK"]
    assert inotify["name"] == "inotify"
    assert inotify["mend"].startswith("sysctl")


def test_options_reach_the_check_up(machine: dict[str, object]) -> None:
    main(["doctor", "--scope", "machine", "--cgroup-root", "/x", "--state-dir", "none"])
    asked = machine["asked"]
    assert isinstance(asked, dict)
    assert (asked["scope"], asked["cgroup_root"], asked["state_directory"]) == (UnitScope.MACHINE, "/x", None)


def test_mount_that_is_none_is_one_line_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--cgroup-mount", str(tmp_path)])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path) in line
