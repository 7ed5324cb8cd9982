"""The real screen in a real terminal: keys are sent to it inside tmux, and the pane is read back."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed: no terminal to draw on"),
]

REPOSITORY = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
"""For a loaded machine; a condition that holds is seen within 50 ms."""


class Pane:
    """One tmux server with one pane of its own."""

    def __init__(self) -> None:
        self._server = f"plimsoll-{uuid.uuid4().hex[:8]}"

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._server, "-f", "/dev/null", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def start(
        self,
        *arguments: str,
        width: int = 100,
        height: int = 30,
        environment: str = "",
        program: str = "tests.terminal.fake_top",
    ) -> None:
        script = f"{environment} {sys.executable} -m {program} {' '.join(arguments)}; echo code $?"
        size = ["-x", str(width), "-y", str(height)]
        # the shell stays after the program's end, so that what it leaves behind can be read
        self.tmux("new-session", "-d", *size, "-c", str(REPOSITORY), f"export LC_ALL=C.UTF-8; {script}; exec sleep 60")

    def text(self, *, escapes: bool = False) -> str:
        return self.tmux("capture-pane", "-p", *(["-e"] if escapes else []))

    def send(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def wait(self, holds: Callable[[str], object], *, escapes: bool = False) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        text = ""
        while time.monotonic() < deadline:
            text = self.text(escapes=escapes)
            with contextlib.suppress(AssertionError, IndexError):  # of a picture that is only half drawn
                if holds(text):
                    return text
            time.sleep(0.05)
        pytest.fail(f"the pane never came to it:\n{text}")

    def see(self, *parts: str) -> str:
        return self.wait(lambda text: all(part in text for part in parts))

    def miss(self, part: str) -> str:
        return self.wait(lambda text: part not in text)

    def child(self) -> int:
        """Return the process that draws."""
        shell = self.tmux("list-panes", "-F", "#{pane_pid}").strip()
        answer = subprocess.run(["pgrep", "-P", shell], check=True, capture_output=True, text=True)
        return int(answer.stdout.split()[0])

    def kill(self) -> None:
        subprocess.run(["tmux", "-L", self._server, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def pane() -> Iterator[Pane]:
    tmux_pane = Pane()
    yield tmux_pane
    tmux_pane.kill()


def rows(text: str) -> list[str]:
    """The names in the table, in order."""
    lines = text.splitlines()
    first = next((index for index, line in enumerate(lines) if line.startswith("NAME")), len(lines)) + 1
    names: list[str] = []
    for line in lines[first:]:
        if not line.strip() or line.startswith("red "):
            break
        names.append(line.split()[0])
    return names


def ticks(text: str) -> int:
    match = re.search(r"ticking \s+\S*\s+(70\d\d)m", text) or re.search(r"\b(70\d\d)m", text)
    assert match is not None
    return int(match.group(1))


def test_live_table_moves_sorts_filters_and_leaves(pane: Pane) -> None:
    pane.start()
    first = ticks(pane.wait(ticks))
    pane.wait(lambda text: ticks(text) > first)  # it lives
    pane.send("n")
    pane.wait(lambda text: "NAME↓" in text and rows(text)[-1] != "ticking")
    pane.send("n")
    pane.see("NAME↑")
    pane.send("m")
    pane.wait(lambda text: "WSET↓" in text and rows(text)[0] == "postgres-0")
    pane.send("w")
    pane.wait(lambda text: "WAIT↓" in text and rows(text)[0].startswith("web-"))
    pane.send("t")
    pane.wait(lambda text: "THROT↓" in text and rows(text)[0].startswith("batch-"))
    pane.send("S")
    pane.see("THROT↑")
    pane.send("/")
    pane.see("filter: _")
    pane.send("n", "s", "=", "d", "a", "t", "a")
    pane.wait(lambda text: sorted(rows(text)) == ["cache-0", "postgres-0"])
    pane.send("Enter")
    pane.see("filter ns=data")
    pane.send("Escape")
    pane.wait(lambda text: "filter ns=" not in text and len(rows(text)) > 5)
    pane.send("q")
    pane.see("left with 0")


def test_a_wrong_filter_is_said_and_can_be_mended_or_left(pane: Pane) -> None:
    pane.start(width=160)
    pane.see("ticking")
    pane.send("/", "a", "=", "b", "Enter")
    clock = pane.see("unknown key; allowed").split()[2]
    pane.wait(lambda text: text.split()[2] != clock)  # the next picture is drawn
    pane.see("unknown key; allowed")
    pane.send("BSpace", "BSpace", "BSpace", "r", "e", "d", "i", "s", "Enter")
    pane.wait(lambda text: rows(text) == ["cache-0"])
    pane.send("/", "x", "Escape")
    pane.wait(lambda text: "filter redis" in text and rows(text) == ["cache-0"])


def test_zoom_goes_to_the_container_and_back(pane: Pane) -> None:
    pane.start(height=36, width=80)  # in 24 lines there is room for all figures, and none for the trail below them
    pane.see("ticking")
    pane.send("Down", "Down", "Enter")
    pane.wait(lambda text: "» default/web-" in text and rows(text) == ["app", "istio-proxy"])
    pane.send("Down", "Enter")
    pane.see("» istio-proxy", "throttled periods", "lifetime peak", "/kubepods/burstable/poduid-default-web-", "gaps")
    pane.see("CPU TRAIL")
    pane.send("BSpace")
    pane.wait(lambda text: "NAME" in text and rows(text) == ["app", "istio-proxy"])
    pane.send("Escape")
    pane.wait(lambda text: "NAME" in text and "ticking" in text)
    pane.send("e")
    pane.see("  istio-proxy")


def test_pause_stands_still_steps_in_time_and_goes_on(pane: Pane) -> None:
    pane.start()
    pane.see("ticking")
    pane.send("p")
    stopped = ticks(pane.wait(lambda text: "PAUSED" in text and ticks(text)))
    pane.wait(lambda text: re.search(r"PAUSED \S+ (?:[1-9]\.\d|\d\d)s ago", text))  # pictures would have come meanwhile
    pane.wait(lambda text: ticks(text) == stopped)  # it only grows: one that had gone on would not come back to it
    # Each step has its own range: it tells ten seconds, a minute and ten, however late the key comes after the pause.
    pane.send("Left")
    pane.wait(lambda text: re.search(r"past-[1-5]\ds", text))
    pane.send("[")
    pane.wait(lambda text: re.search(r"past-(?:[7-9]\d|1[01]\d)s", text))
    pane.send("{")
    pane.wait(lambda text: re.search(r"past-(?:6[789]|7[01])\ds", text))
    pane.send("}", "]", "Right")
    pane.wait(lambda text: re.search(r"past-[1-5]?\ds", text) or ("PAUSED" in text and "past-" not in text))
    pane.send("Space")
    pane.miss("PAUSED")
    pane.wait(lambda text: ticks(text) > stopped)


def test_stepping_back_pauses_by_itself(pane: Pane) -> None:
    pane.start()
    pane.see("ticking")
    pane.send("Left")
    pane.wait(lambda text: "PAUSED" in text and "past-1" in text)


def test_help_opens_and_any_key_closes_it(pane: Pane) -> None:
    pane.start()
    pane.see("ticking")
    pane.send("?")
    pane.see("PSI some")
    pane.send("q")
    pane.see("ticking")  # q closed the help, not the program


def test_resizing_redraws_from_large_to_tiny_and_back(pane: Pane) -> None:
    pane.start(width=160, height=45)
    pane.see("NAMESPACE")
    pane.tmux("resize-window", "-x", "60", "-y", "15")
    pane.wait(lambda text: "NAMESPACE" not in text and "NAME" in text and len(text.splitlines()) == 15)
    pane.tmux("resize-window", "-x", "5", "-y", "2")
    pane.wait(lambda text: len(text.splitlines()) == 2)
    pane.tmux("resize-window", "-x", "160", "-y", "45")
    pane.see("NAMESPACE")


def test_selection_reaches_the_last_row_and_scrolls(pane: Pane) -> None:
    pane.start(height=20)
    pane.see("ticking")
    pane.send("End")
    pane.wait(lambda text: rows(text)[-1] == "young-5")
    pane.send("Home")
    pane.wait(lambda text: rows(text)[0] == "ticking")
    pane.send("NPage")
    pane.wait(lambda text: "ticking" not in rows(text) or len(rows(text)) > 3)


def test_red_is_drawn_in_colour_and_not_with_no_color(pane: Pane) -> None:
    pane.start()
    pane.wait(lambda text: re.search(r"\x1b\[(?:\d+;)*31m[^\n]*61%", text), escapes=True)


@pytest.mark.parametrize("way", ["flag", "environment"])
def test_without_colour_hot_figures_are_marked(pane: Pane, way: str) -> None:
    if way == "flag":
        pane.start("--no-color")
    else:
        pane.start(environment="NO_COLOR=1")
    pane.see("!61%")
    assert not re.search(r"\x1b\[(?:\d+;)*3[1-7]m", pane.text(escapes=True))


def test_a_lost_agent_is_said_while_the_last_picture_stays(pane: Pane) -> None:
    pane.start("--fails", width=120)
    pane.see("the socket is left over", "ticking")
    pane.wait(lambda text: re.search(r"\d\ds ago|[2-9]\.\ds ago", text))  # and grows old


def test_ctrl_c_puts_the_terminal_back(pane: Pane) -> None:
    pane.start()
    pane.see("ticking")
    pane.send("C-c")
    text = pane.see("left with 0")
    assert "ticking" not in text  # the alternate screen is gone


def test_sigterm_puts_the_terminal_back(pane: Pane) -> None:
    pane.start()
    pane.see("ticking")
    os.kill(pane.child(), signal.SIGTERM)
    assert "ticking" not in pane.see("code 143")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_whole_agent_on_a_screen_ends_by_signals(pane: Pane, number: signal.Signals, code: int) -> None:
    pane.start(*("run", "--port", "0", "--socket", "none", "--state-dir", "none"), program="agent")
    pane.see("q quit")
    os.kill(pane.child(), number)
    assert "q quit" not in pane.see(f"code {code}")


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_tables(pane: Pane) -> None:
    pane.start(environment="TERM=dumb", width=120, height=60)
    text = pane.see("plimsoll worker-7")
    assert "q quit" not in text
