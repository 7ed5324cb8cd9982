"""Flags that stand for settings: what wins over what, and what is refused."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from agent.cli.options.settings_options import (
    CGROUP_OPTIONS,
    SAMPLING_OPTIONS,
    SERVING_OPTIONS,
    add_options,
    fail,
    overrides_from,
    settings_from,
)
from agent.settings.keys import keys


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser, CGROUP_OPTIONS, SAMPLING_OPTIONS, SERVING_OPTIONS)
    return parser.parse_args(words)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in keys().values():
        monkeypatch.delenv(spec.variable, raising=False)


def test_every_flag_stands_for_a_setting_that_exists() -> None:
    for option in (*CGROUP_OPTIONS, *SAMPLING_OPTIONS, *SERVING_OPTIONS):
        assert option.key in keys()


def test_overrides_hold_what_was_said_and_nothing_else() -> None:
    assert overrides_from(parsed()) == {}
    assert overrides_from(parsed("--port", "0", "--set", "windows.percentile=0.9")) == {
        "serving.port": "0",
        "windows.percentile": "0.9",
    }


def test_a_value_may_hold_an_equals_sign_and_the_last_of_two_counts() -> None:
    words = ("--set", "nodeName=a=b", "--set", "serving.port=1", "--set", "serving.port=2")
    assert overrides_from(parsed(*words)) == {"nodeName": "a=b", "serving.port": "2"}


def test_a_flag_wins_over_set_and_set_over_environment_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("serving: {port: 1001}\n")
    words = ["--settings", str(file)]
    assert settings_from(parsed(*words)).serving.port == 1001
    monkeypatch.setenv(keys()["serving.port"].variable, "1002")
    assert settings_from(parsed(*words)).serving.port == 1002
    words += ["--set", "serving.port=1003"]
    assert settings_from(parsed(*words)).serving.port == 1003
    words += ["--port", "1004"]
    assert settings_from(parsed(*words)).serving.port == 1004


def test_what_a_verb_insists_on_gives_way_to_the_command_line_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(keys()["serving.port"].variable, "1002")
    assert settings_from(parsed(), serving__port=7).serving.port == 7
    assert settings_from(parsed("--port", "1004"), serving__port=7).serving.port == 1004


def test_none_switches_socket_and_state_off() -> None:
    settings = settings_from(parsed("--socket", "none", "--state-dir", "none"))
    assert settings.serving.socket is None
    assert settings.state.directory is None


def test_set_without_equals_sign_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        overrides_from(parsed("--set", "serving.port"))
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "serving.port" in line
    assert "KEY=VALUE" in line


def test_fail_says_its_line_and_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fail("what: where; allowed: this")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "plimsoll: what: where; allowed: this\n"


def test_what_is_wrong_with_a_verb_begins_as_all_its_lines_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fail("plan: where: no; allowed: this")
    assert capsys.readouterr().err == "plimsoll plan: where: no; allowed: this\n"
