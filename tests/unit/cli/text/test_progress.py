"""The bar: nothing off a terminal, nothing for what is quick, and gone at the end."""

from __future__ import annotations

import io

import pytest

from agent.cli.text.progress import Progress, progress


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar_on_a_terminal_shows_share_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    now = 100.0
    screen = Screen()
    bar = Progress(screen, "reading a.csv", clock=lambda: now)
    bar.show(0.1)
    assert screen.getvalue() == ""  # quick until now
    now = 101.0
    bar.show(0.25)
    # A quarter in a second: three seconds are left; 6 of 24 cells.
    assert screen.getvalue() == "\r\x1b[Kreading a.csv [" + "#" * 6 + "." * 18 + "]  25%  3s left"
    now = 101.05
    bar.show(0.3)
    assert screen.getvalue().count("\r") == 1  # drawn a moment ago
    bar.wipe()
    bar.wipe()
    assert screen.getvalue().endswith("left\r\x1b[K")


def test_bar_says_nothing_of_the_time_left_at_the_start_and_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    now = 0.0
    screen = Screen()
    bar = Progress(screen, "reading a-long-name.csv", clock=lambda: now)
    now = 1.0
    bar.show(0.01)
    drawn = screen.getvalue().removeprefix("\r\x1b[K")
    assert (drawn.startswith("reading a-long-name.csv ["), len(drawn), "left" in drawn) == (True, 29, False)


def test_bar_off_a_terminal_is_silent() -> None:
    now = 0.0
    stream = io.StringIO()
    bar = Progress(stream, "reading", clock=lambda: now)
    now = 9.0
    bar.show(0.5)
    bar.wipe()
    assert stream.getvalue() == ""


def test_bar_is_gone_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.cli.text.progress._PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("agent.cli.text.progress._BETWEEN_SECONDS", 0.0)
    screen = Screen()

    def fail() -> None:
        with progress(screen, "reading") as bar:
            bar.show(0.5)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert screen.getvalue().endswith("\r\x1b[K")
