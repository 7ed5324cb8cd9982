"""Too little memory for what a container reads again and again, so that the kernel says so by pressure; and who reads.

Run as a script, the reader: FILE MEMORY_CGROUP CGROUP. The memory controller of the machines that run this may be v1's:
the limit is there then, and the pressure is counted where it always is, in the v2 cgroup and in /proc/pressure/memory.
That a limit of v2 holds a container back is seen in ``make e2e``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

V1_MEMORY: Final = Path("/sys/fs/cgroup/memory")
MIB: Final = 1 << 20
LIMIT_MIB: Final = 24
READ_MIB: Final = 40
PAUSE_SECONDS: Final = 0.3
"""Between two passes through the file: it is to wait for memory now and then, not to take the machine."""
NODE_PRESSURE: Final = Path("/proc/pressure/memory")


def why_not() -> str | None:
    """Return why memory cannot be made short here; None = it can."""
    if not (V1_MEMORY / "memory.limit_in_bytes").is_file():
        return "no memory controller of cgroup v1 here: memory pressure is in make e2e"
    return None if NODE_PRESSURE.is_file() else "this kernel tells no pressure"


def waited_usec(file: Path) -> int:
    """Return the total of ``some`` in a pressure file."""
    return int(file.read_text(encoding="ascii").split("\n")[0].rpartition("total=")[2])


@contextlib.contextmanager
def memory_hog(container: Path, scratch: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Have a reader in a container (its v2 cgroup) that has too little memory, inside the block."""
    group = V1_MEMORY / f"plimsoll-soak-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(f"{LIMIT_MIB}M", encoding="ascii")
        command = ["nice", "-n", "19", sys.executable, "-S", "-E", __file__, str(scratch), str(group), str(container)]
        reader = subprocess.Popen(command, stdin=subprocess.PIPE)  # its end of the pipe closes when we end
        try:
            yield reader
        finally:
            reader.kill()
            reader.wait()
    finally:
        scratch.unlink(missing_ok=True)
        _remove(group)


def _remove(group: Path) -> None:
    deadline = time.monotonic() + 10.0
    while True:
        try:
            return group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main() -> None:
    """Read until killed, or until who started this has gone."""
    file, *groups = map(Path, sys.argv[1:])
    for group in groups:
        (group / "cgroup.procs").write_text("0", encoding="ascii")
    os.set_blocking(0, False)
    with file.open("wb") as content:  # its pages are charged to who makes them
        for _ in range(READ_MIB):
            content.write(os.urandom(MIB))
        content.flush()
        os.fsync(content.fileno())
    while not _is_alone():
        with file.open("rb", buffering=0) as content:
            while content.read(MIB):
                pass
        time.sleep(PAUSE_SECONDS)


def _is_alone() -> bool:
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:
        return False


if __name__ == "__main__":
    main()
