"""A terminal that is lent is put back, whatever ends it and however often."""

from __future__ import annotations

import os
import pty
import signal
import sys
import termios
from collections.abc import Iterator
from typing import Any

import pytest

from agent.cli.client.raw_terminal import raw_terminal


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A pseudo-terminal as standard input and output."""
    master, slave = pty.openpty()
    with open(slave, "rb") as keys, open(os.dup(slave), "w") as screen:
        monkeypatch.setattr(sys, "stdin", keys)
        monkeypatch.setattr(sys, "stdout", screen)
        # As those of before: what comes too late must not end all tests.
        handlers = {number: signal.signal(number, _take) for number in (signal.SIGTERM, signal.SIGHUP)}
        yield slave
        for number, handler in handlers.items():
            signal.signal(number, handler)
        monkeypatch.undo()
    os.close(master)


def _take(_number: int, _frame: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize("first", [signal.SIGTERM, None], ids=["after a signal", "after the command's end"])
def test_a_signal_on_the_way_out_does_not_stop_the_terminal_from_being_put_back(
    lent: int, monkeypatch: pytest.MonkeyPatch, first: signal.Signals | None
) -> None:
    before = termios.tcgetattr(lent)
    put_back = termios.tcsetattr

    def interrupted(*arguments: Any) -> None:
        signal.raise_signal(signal.SIGHUP)
        put_back(*arguments)

    def use() -> int | str | None:
        try:
            with raw_terminal():
                assert termios.tcgetattr(lent) != before
                monkeypatch.setattr(termios, "tcsetattr", interrupted)
                if first is not None:
                    signal.raise_signal(first)
        except SystemExit as ended:
            return ended.code
        return None

    assert use() == (None if first is None else 128 + first)
    assert termios.tcgetattr(lent) == before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == [_take, _take]
