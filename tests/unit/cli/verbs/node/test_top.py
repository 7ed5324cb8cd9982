from __future__ import annotations

import argparse
import io
import socket
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from agent.cli.main import main
from agent.cli.text.spans import ASCII, UNICODE
from agent.cli.top.screen import live_table
from agent.cli.top.sources import SourceError
from agent.cli.top.terminal import LiveOptions, find_terminal, print_page, write_text
from agent.cli.top.view import SortKey, ViewState
from agent.cli.verbs.node import top
from agent.cli.words.units import unit_name
from agent.core.window.snapshot import Snapshot
from tests.snapshots import busy_node, container, cpu_window, service, snapshot, whole


class OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SystemExit(message)


def parsed(*words: str) -> argparse.Namespace:
    parser = OneLineParser()
    top.add_arguments(parser)
    return parser.parse_args(words)


class FakeStdout(io.TextIOWrapper):
    def __init__(self, encoding: str, *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


# Arguments


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--at", "soon"), "'soon' is not a time; allowed: now, "),
        (("--at", "2d ago"), "'2d ago' is too long ago; allowed: up to 24h"),
        (("--at", "2020-01-01"), "'2020-01-01' is too long ago"),
        (("--sort", "size"), "invalid choice: 'size'"),
        (("-o", "xml"), "invalid choice: 'xml'"),
        (("--limit", "-1"), "'-1' is not allowed; allowed: a whole number, 0 = all"),
        (("--limit", "many"), "'many' is not allowed"),
        (("--interval", "0"), "'0' is not allowed; allowed: seconds from 0.1 to 3600"),
        (("--interval", "nan"), "'nan' is not allowed"),
        (("--width", "3"), "'3' is not allowed; allowed: a whole number from 20 on"),
    ],
)
def test_a_wrong_argument_is_said_with_what_is_allowed(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(SystemExit, match=r".") as caught:
        parsed(*words)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_filter_ends_with_code_2_before_anything_is_opened(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        top.run(parsed("--filter", "colour=red"))
    assert caught.value.code == 2
    assert "unknown key" in capsys.readouterr().err


def test_the_socket_is_told_of_as_the_one_that_is_asked() -> None:
    parser = argparse.ArgumentParser()
    top.add_arguments(parser)
    [socket_option] = [action for action in parser._actions if "--socket" in action.option_strings]
    assert socket_option.help is not None
    assert "of the agent" in socket_option.help


def test_namespace_and_pod_join_the_filter() -> None:
    state = top.view_state_from(parsed("-n", "data", "--pod", "cache-*", "--filter", "red", "--sort", "name"))
    assert (state.filter_text, state.sort, state.is_expanded) == ("red ns=data pod=cache-*", SortKey.NAME, True)
    assert not top.view_state_from(parsed("--pods-only")).is_expanded


def test_live_options_carry_the_view() -> None:
    options = top.live_options_from(parsed("--no-color", "--width", "90", "--limit", "5", "--reverse"))
    assert (options.use_colour, options.width, options.limit, options.state.is_reversed) == (False, 90, 5, True)


def test_records_are_filtered_sorted_and_limited() -> None:
    node = snapshot(
        container(name="small", cpu=cpu_window(1.0)),
        container(name="unknown", cpu=cpu_window(None)),
        container(name="large", cpu=cpu_window(9.0)),
        service(),
    )
    chosen = top.chosen_units(node, ViewState(filter_text="ns=default"), limit=0)
    assert [unit_name(unit.identity) for unit in chosen] == ["large", "small", "unknown"]
    assert len(top.chosen_units(node, ViewState(), limit=2)) == 2


def test_records_of_one_pod_name_no_other() -> None:
    node = snapshot(container("web-1"), container("web-2"), service(), pods=(whole("web-1"), whole("web-2")))
    part = top.chosen_part(node, ViewState(filter_text="pod=web-1"), limit=0)
    assert ([unit.identity.pod for unit in part.units], [pod.whole.identity.pod for pod in part.pods]) == (
        ["web-1"],
        ["web-1"],
    )
    assert top.chosen_part(node, ViewState(), limit=0).pods == node.pods


# Where output goes


@pytest.mark.parametrize(
    ("environment", "use_colour", "is_terminal", "has_colour"),
    [
        ({"TERM": "xterm"}, True, True, True),
        ({"TERM": "xterm"}, False, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True, True),  # no-color.org: empty is not set
        ({"TERM": "dumb"}, True, True, False),
        ({}, True, True, False),
        ({"TERM": "xterm"}, True, False, False),
    ],
)
def test_colour_only_on_a_terminal_that_has_it_and_is_wanted(
    environment: dict[str, str], use_colour: bool, is_terminal: bool, has_colour: bool
) -> None:
    with FakeStdout("utf-8", is_terminal=is_terminal) as stdout:
        assert find_terminal(stdout, environment, use_colour=use_colour).has_colour is has_colour


def test_signs_are_ascii_where_the_encoding_is_not_utf_8() -> None:
    for encoding, glyphs in (("utf-8", UNICODE), ("ascii", ASCII), ("latin-1", ASCII)):
        with FakeStdout(encoding, is_terminal=False) as stdout:
            assert find_terminal(stdout, {}, use_colour=True).glyphs is glyphs


def test_a_name_that_stdout_cannot_encode_is_spelt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeStdout("ascii", is_terminal=False) as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        write_text("容\n")
        stdout.flush()
        written = stdout.buffer
        assert isinstance(written, io.BytesIO)
        assert written.getvalue() == b"\\u5bb9\n"
        monkeypatch.undo()


class Endless:
    """A stop event that is set after some waits; keeps what it was asked to wait."""

    def __init__(self, rounds: int) -> None:
        self.waits: list[float] = []
        self._rounds = rounds

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return len(self.waits) >= self._rounds

    def is_set(self) -> bool:
        return False


def test_without_a_terminal_a_table_comes_each_interval_and_a_lost_agent_does_not_end_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[float] = []

    def take(at_age_seconds: float) -> Snapshot:
        asked.append(at_age_seconds)
        if len(asked) == 2:
            raise SourceError("away")
        return busy_node()

    stop = Endless(3)
    options = LiveOptions(plain_interval_seconds=7.0, stop=stop)  # type: ignore[arg-type]
    assert live_table(take, options) == 0
    assert stop.waits == [7.0, 7.0, 7.0]
    out = capsys.readouterr().out
    assert out.count("plimsoll worker-7") == 3
    assert "\x1b" not in out


def test_the_first_snapshot_failing_is_the_callers_to_say() -> None:
    def take(_at_age_seconds: float) -> Snapshot:
        raise SourceError("no agent")

    with pytest.raises(SourceError, match="no agent"):
        live_table(take, LiveOptions())


def test_a_printed_page_has_the_asked_for_width(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeStdout("utf-8", is_terminal=False) as stdout:
        terminal = find_terminal(stdout, {}, use_colour=True)
    print_page(busy_node(), ViewState(), LiveOptions(width=60), terminal)
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 60


def test_an_agent_that_refuses_is_one_line_and_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(1)
        answering = threading.Thread(target=lambda: listener.accept()[0].close())  # says nothing and goes
        answering.start()
        code = main(["top", "--once", "--socket", str(path)])
        answering.join()
    assert code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line


def test_options_that_only_own_sampling_can_honour_are_refused_when_an_agent_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("agent.node.sockets.control.request", lambda *_: {"version": "1"})
    with pytest.raises(SystemExit) as ended:
        main(["top", "--once", "--socket", "/run/x.sock", "--pods", "pods.json"])
    assert ended.value.code == 2
    assert "--pods: the running agent answers" in capsys.readouterr().err
