"""The command itself: verbs, help, what is wrong on one line, a reader that leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cli.main import main
from agent.cli.verb_table import VERBS

REPOSITORY = Path(__file__).parents[3]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run what must be refused; give the one line it said."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def test_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    from agent.version import installed_version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"plimsoll {installed_version()}\n"


def test_help_lists_every_verb_and_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    for name, verb in VERBS.items():
        assert f"{name} {' '.join(verb.summary.split())}" in out


def test_no_verb_is_bad_input_answered_with_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "verbs" in capsys.readouterr().out


def test_unknown_verb_is_one_line_that_names_it_and_the_allowed_ones(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "tpo")
    assert "tpo" in line
    assert all(verb in line for verb in VERBS)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("agent", "--no-such"), "--no-such"),
        (("--no-such", "agent"), "--no-such"),
        (("agent", "--no-such\nsecond line"), "--no-such second line"),
        (("agent", "--por", "1"), "--por"),  # no abbreviations: they would change meaning with the next flag
        (("agent", "stray"), "stray"),
        (("agent", "--port"), "--port"),
        (("doctor", "-o", "xml"), "xml"),
        (("settings", "--set", "nonsense"), "nonsense"),
        (("settings", "--set", "no.such=1"), "no.such"),
        (("settings", "--port", "eighty"), "serving.port"),
        (("settings", "--port", "70000"), "65535"),
        (("settings", "--settings=--"), "--settings"),
        (("settings", "--settings", "/plimsoll/not/there.yaml"), "/plimsoll/not/there.yaml"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], named: str
) -> None:
    assert named in refused(capsys, *words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("plan", "-o", "yaml"), "plimsoll plan: argument -o/--output: 'yaml' is not allowed; allowed: table, json, "),
        (("tpo",), "plimsoll: argument VERB: 'tpo' is not allowed; allowed: run, agent, top, "),
    ],
)
def test_a_wrong_choice_is_told_in_the_words_of_all_others(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    line = refused(capsys, *words)
    assert line.startswith(told)
    assert "choose from" not in line


def test_several_wrong_settings_are_all_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["settings", "--set", "no.such=1", "--port", "eighty"])
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "no.such" in "".join(said)
    assert "serving.port" in "".join(said)


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert f"plimsoll {verb}" in capsys.readouterr().out


def test_only_the_verb_asked_for_is_loaded() -> None:
    script = (
        "import sys; from agent.cli.main import main\n"
        "try: main(['settings', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'psutil', 'prometheus_client', 'yaml', 'curses'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_reader_that_left_is_no_fault() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)  # as if head had gone already
    try:
        done = subprocess.run(
            [sys.executable, "-m", "agent", "settings"],
            cwd=REPOSITORY,
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_flag_of_a_verb_points_to_the_verbs_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert "see plimsoll agent --help" in refused(capsys, "agent", "--for", "3")


@pytest.mark.parametrize("text", ["inf", "abc", "0", "-1", "nan"])
def test_a_wrong_span_is_told_with_what_is_allowed(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "run", f"--for={text}")
    assert text in line
    assert "seconds above 0" in line


def test_a_demo_refuses_what_it_cannot_honour(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--cgroup-root, --pods with --demo" in refused(
        capsys, "run", "--demo", "--pods", "x", "--cgroup-root", "/kubelet"
    )


def test_a_disk_that_is_full_below_stdout_is_one_line_and_exit_3() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "agent", "settings"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=REPOSITORY,
        )
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("plimsoll settings: ")
    assert "No space left" in line


def test_a_closed_stdout_is_one_line_and_exit_3() -> None:
    shell = ["sh", "-c", f"exec {sys.executable} -m agent settings >&-"]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
