"""``plimsoll simulate`` on a real terminal: the bar is drawn, and Ctrl-C leaves nothing behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MINUTES, CONTAINERS = 5760, 100


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four days of a hundred containers: many seconds of work, if nobody ends it."""
    path = tmp_path_factory.mktemp("traces") / "long.csv"
    with path.open("w") as stream:
        stream.write("time,container,cpu_millicores,memory_bytes\n")
        for minute in range(MINUTES):
            stream.writelines(
                f"{1_700_006_400 + 60 * minute},c{index},{100 + (minute * 7 + index) % 50},{(index + 1) << 20}\n"
                for index in range(CONTAINERS)
            )
    return path


def read_until(descriptor: int, what: bytes) -> bytes:
    """Read a terminal until something stands there, or nobody writes to it any more."""
    seen = b""
    while what not in seen:
        try:
            piece = os.read(descriptor, 4096)
        except OSError:  # as Linux says that the other side is closed
            break
        if not piece:
            break
        seen += piece
    return seen


def processes_of(pgid: int) -> list[str]:
    """List the processes of a group that are no zombies."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            if int(stat[2]) == pgid and stat[0] != "Z":
                pids.append(entry.name)
    return pids


def test_ctrl_c_wipes_the_bar_and_ends_every_process_with_130(trace: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "agent", "simulate", str(trace)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        seen = read_until(ours, b"simulating long.csv [")
        assert b"simulating long.csv [" in seen
        os.killpg(process.pid, signal.SIGINT)
        seen += read_until(ours, b"\0")
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        os.close(ours)
    assert process.returncode == 130
    assert out == b""
    assert seen.endswith(b"\r\x1b[K")
    assert b"Traceback" not in seen
    assert processes_of(process.pid) == []
