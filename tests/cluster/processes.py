"""Programs of the tests' cluster as children: they end with the tests, and say why when they fail."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.dying import dying_with_us

READY_SECONDS: Final = 120.0
"""Far above the five seconds that a start takes: two cores may be shared with a compiler."""
STOP_SECONDS: Final = 5.0
"""What a program gets to end by itself. The API server would wait for up to a minute for open requests."""
TAIL_LINES: Final = 12
_PORTS: Final = range(20_000, 30_000)
"""Below those that connections are given by themselves, 32768 on."""
_TAKEN: Final[set[int]] = set()
"""By this process, in which a lock of its own holds up nobody."""


class ClusterError(Exception):
    """Part of the cluster does not run; the message carries the end of its log."""


def freeze(child: subprocess.Popen[bytes]) -> None:
    """Stop a child by SIGSTOP, and wait until the last of its threads stands still.

    The signal only asks: a thread on another CPU goes on for a moment, and may answer once more.
    """
    child.send_signal(signal.SIGSTOP)
    if child.returncode is None:
        # WNOWAIT leaves to Popen what it waits for; an end is looked for too, as one that has ended never stops.
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


class Process:
    """One program with its log in a file; started at once, and killed by the kernel when its starter dies.

    "Starter" is the thread that called, see ``dying``.
    """

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as out:
            self._child = subprocess.Popen(
                dying_with_us(*command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # keeps Ctrl-C for pytest, which then stops everything in the right order
            )

    @property
    def pid(self) -> int:
        """The process id; meaningless after ``stop``."""
        return self._child.pid

    def is_running(self) -> bool:
        """Return whether it has not ended; paused counts as running."""
        return self._child.poll() is None

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        freeze(self._child)

    def resume(self) -> None:
        """Let a paused one go on."""
        self._child.send_signal(signal.SIGCONT)

    def stop(self, *, kill: bool = False, seconds: float = STOP_SECONDS) -> None:
        """End it and wait; by SIGKILL at once, or when it takes longer."""
        if self.is_running():
            self._child.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            self.resume()  # a paused one would not see the signal
            try:
                self._child.wait(seconds)
            except subprocess.TimeoutExpired:
                self._child.kill()
        self._child.wait()

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
        """Wait for a condition that this program brings about.

        Raises:
            ClusterError: The program ended, or the condition does not come.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if not self.is_running():
                raise ClusterError(f"{self.name} ended with {self._child.returncode} before {what}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ClusterError(f"{self.name}: not within {seconds:.0f} s: {what}\n{self.tail()}")
            time.sleep(0.05)

    def tail(self) -> str:
        """Return the end of the log."""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join((f"{self.log}:", *(f"  {line}" for line in lines)))


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    """Wait for a condition; on a busy machine half a minute was too short for some.

    It is asked for fifty times a second at first, ten times after two seconds: each question costs whoever is asked.

    Raises:
        TimeoutError: It does not come.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        if waited > seconds:
            msg = f"not within {seconds:.0f} s: {what}"
            raise TimeoutError(msg)
        time.sleep(min(max(0.02, waited / 20), 0.1))


def free_ports(count: int, address: str) -> list[int]:
    """Find ports that nobody listens on, and that no other process that calls this will be given while this one lives.

    A port that is merely free may be gone before its program listens: to another worker of the tests, or, of those that
    the kernel gives to who asks for any, to any connection. So they are taken from below those, each under a lock.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    ports: list[int] = []
    while len(ports) < count:
        port = secrets.choice(_PORTS)
        if port in _TAKEN or not _lock(port):
            continue
        _TAKEN.add(port)
        with socket.socket(family, socket.SOCK_STREAM) as tried, contextlib.suppress(OSError):
            tried.bind((address, port))
            ports.append(port)
    return ports


def _lock(port: int) -> bool:
    """Lock a port until this process ends: one byte of a file that stays empty; False = another process has it."""
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@functools.cache
def _locks() -> int:
    """Open the file of locks, once: a second descriptor of it, once closed, would take all locks along."""
    return os.open(Path(tempfile.gettempdir(), "plimsoll-test-ports"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
