"""Files that somebody named: what is no file is told and never waited for; pipes handed over open are read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent.named_file import called, is_missing, open_named, read_named


def reason(path: Path | str, most_bytes: int = 1 << 20, *, takes_pipe: bool = True) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its reason is what is looked at
        read_named(Path(path), most_bytes=most_bytes, takes_pipe=takes_pipe)
    return caught.value.strerror or ""


def test_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    file = tmp_path / "pods.json"
    file.write_bytes(b"x" * 4096)
    link = tmp_path / "link"
    link.symlink_to(file)
    assert read_named(file, most_bytes=4096) == read_named(link, most_bytes=4096) == b"x" * 4096
    assert reason(file, 4095) == "larger than 3 KiB, which is the most that is read"
    file.write_bytes(b"")
    assert read_named(file, most_bytes=0) == b""


def test_file_of_many_gigabytes_is_refused_by_its_size(tmp_path: Path) -> None:
    """A sparse file; were it read, the block would not fit into memory."""
    file = tmp_path / "large"
    file.touch()
    os.truncate(file, 1 << 42)
    assert reason(file) == "larger than 1 MiB, which is the most that is read"


def test_file_of_proc_whose_size_is_nought_is_read() -> None:
    assert read_named(Path("/proc/self/status"), most_bytes=1 << 16).startswith(b"Name:")


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    fifo, bound, loop = tmp_path / "fifo", tmp_path / "socket", tmp_path / "loop"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(bound))
        assert reason(bound) == "is a socket; allowed: a file"
    assert reason(fifo) == "is a FIFO; allowed: a file, or - for standard input"
    assert reason(tmp_path) == "Is a directory"
    assert reason("/dev/zero") == reason("/dev/full") == "is a device; allowed: a file"
    assert reason(loop) == "Too many levels of symbolic links"
    assert reason(tmp_path / "none") == "No such file or directory"
    assert reason(tmp_path / "nul\0") == "its name has a NUL in it"
    assert reason(tmp_path / ("n" * 300)) == "File name too long"
    assert read_named(Path("/dev/null"), most_bytes=1) == b""


def test_only_what_is_known_not_to_be_there_is_missing(tmp_path: Path) -> None:
    file, loop = tmp_path / "file", tmp_path / "loop"
    file.touch()
    loop.symlink_to(loop)
    assert [is_missing(path) for path in (file, tmp_path, loop, tmp_path / "nul\0", tmp_path / ("n" * 300))] == [
        False
    ] * 5
    assert is_missing(tmp_path / "none")
    assert is_missing(file / "beyond")


def test_file_of_somebody_else_is_told(tmp_path: Path) -> None:
    file = tmp_path / "closed"
    file.write_text("{}")
    file.chmod(0)
    within = tmp_path / "within"
    within.mkdir(0o700)
    code = f"from agent.named_file import *; assert not is_missing(Path({str(within / 'file')!r}))\n"
    code += f"read_named(Path({str(file)!r}), most_bytes=9)"
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run([*nobody, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Permission denied" in done.stderr


def test_pipe_that_was_handed_over_open_is_read_and_bounded() -> None:
    """As bash gives ``<(kubectl get pods)``: the writer may come later than the reader."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(b"[" * 200_000)

    writer = threading.Thread(target=write)
    writer.start()
    content = read_named(Path(f"/dev/fd/{reading}"), most_bytes=1 << 20)
    writer.join()
    assert content == b"[" * 200_000
    os.close(reading)


def test_pipe_that_never_ends_is_read_up_to_its_bound() -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 4096)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as endless:
        assert endless.stdout is not None
        pipe = Path(f"/proc/self/fd/{endless.stdout.fileno()}")
        assert reason(pipe) == "larger than 1 MiB, which is the most that is read"
        endless.kill()


def test_pipe_is_refused_where_a_file_must_be_and_a_device_even_as_standard_input() -> None:
    reading, writing = os.pipe()
    assert "is a FIFO" in reason(f"/dev/fd/{reading}", takes_pipe=False)
    os.close(reading)
    os.close(writing)
    with Path("/dev/zero").open("rb") as zero:
        assert "is a device" in reason(f"/dev/fd/{zero.fileno()}")


def test_terminal_that_is_standard_input_is_read() -> None:
    leader, terminal = os.openpty()
    os.write(leader, b"{}\n\x04")
    with open_named(Path(f"/dev/fd/{terminal}"), takes_pipe=True) as file:
        assert file.readline() == b"{}\n"
    os.close(leader)
    os.close(terminal)


def test_called_says_which_file() -> None:
    assert called(Path("/data/pods.json")) == "pods.json"
    for path in ("/dev/stdin", "/dev/fd/63", ".", "..", "/"):
        assert called(Path(path)) == path
