"""A terminal that goes away, with a signal or without: what was drawn on it ends, and cleans up.

The terminal is real: a pseudo-terminal whose other end is closed, as by a terminal emulator that crashed or by sshd.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.dying import dying_with_us
from tests.kernel.agents import wait_for
from tests.kernel.cgroups import cgroup2_mount, why_not

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
"""For a loaded machine; what ends at all ends within a second."""
HUNG_UP = 128 + signal.SIGHUP


class Pty:
    """A program on a pseudo-terminal of its own."""

    def __init__(self, words: Sequence[str], *, how: str, directory: Path, stdin: int | None = None) -> None:
        self.master, slave = pty.openpty()
        # Not controlling: no signal comes when it hangs up, as below setsid.
        take = None if how == "no signal" else _take(is_ignored=how == "ignored")
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "TMPDIR": str(directory)}
        self.process = subprocess.Popen(
            dying_with_us(sys.executable, "-m", *words),
            stdin=slave if stdin is None else stdin,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=take,
            cwd=REPOSITORY,
            env=environment,
        )
        os.close(slave)
        self._text = b""
        self._closing = os.pipe()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        import select

        while True:
            ready, _, _ = select.select([self.master, self._closing[0]], [], [])
            if self._closing[0] in ready:
                return
            try:
                self._text += os.read(self.master, 65536)
            except OSError:
                return  # the program has ended

    def see(self, text: bytes) -> None:
        wait_for(lambda: text in self._text or self.process.poll() is not None, f"{text!r} is drawn", seconds=60.0)
        assert text in self._text, self._text[-2000:]

    def hang_up(self) -> None:
        """Close the other end, and nothing else of it is open."""
        os.write(self._closing[1], b".")
        self._reader.join()
        os.close(self.master)

    def code(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            self.hang_up()
        for descriptor in self._closing:
            os.close(descriptor)


def _take(*, is_ignored: bool) -> Callable[[], None]:
    def take() -> None:
        if is_ignored:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        fcntl.ioctl(1, termios.TIOCSCTTY, 0)

    return take


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Pty]]:
    started: list[Pty] = []

    def begin(*words: str, how: str = "no signal", stdin: int | None = None) -> Pty:
        started.append(Pty(words, how=how, directory=tmp_path, stdin=stdin))
        return started[-1]

    yield begin
    for terminal in started:
        terminal.end()


HOW = pytest.mark.parametrize("how", ["signal", "no signal", "ignored"])


@HOW
def test_top_ends_with_its_terminal(start: Callable[..., Pty], how: str) -> None:
    top = start("tests.terminal.fake_top", how=how)
    top.see(b"ticking")
    top.hang_up()
    assert top.code() == HUNG_UP


def test_a_signal_that_comes_after_the_hang_up_changes_nothing(start: Callable[..., Pty]) -> None:
    """The kernel wakes who reads from the terminal before it sends SIGHUP: in between top may be on its way out."""
    top = start("tests.terminal.fake_top", "--late-signal")
    top.see(b"ticking")
    top.hang_up()
    assert top.code() == HUNG_UP


@HOW
@pytest.mark.parametrize("has_keys", [True, False])
@pytest.mark.kernel
@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_a_demo_ends_with_its_terminal_and_leaves_nothing(
    start: Callable[..., Pty], tmp_path: Path, how: str, has_keys: bool
) -> None:
    """Without keys, standard input at its end, there is no screen: one table follows another."""
    mount = cgroup2_mount()
    assert mount is not None
    with open(os.devnull) as nothing:
        demo = start(
            *("agent", "run", "--demo", "--port", "0", "--socket", str(tmp_path / "agent.sock")),
            how=how,
            stdin=None if has_keys else nothing.fileno(),
        )
    demo.see(b"contended")
    trees = list(mount.glob(f"plimsoll-demo-{demo.process.pid}-*"))
    assert trees
    demo.hang_up()
    assert demo.code() == HUNG_UP
    assert not any(tree.exists() for tree in trees)
    assert not list(tmp_path.glob("plimsoll-demo-*"))
