"""Real cgroups for tests: made, filled with loads and always removed again.

Everything lies in one directory of its own, `<cgroup2 mount>/plimsoll-test-<pid>-<random>`; paths given to a
`CgroupTree` are relative to that directory, unless a method says otherwise. What a run that was killed left behind is
removed by the next one: a tree is locked as long as its process lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from tests.dying import dying_with_us

LOADS: Final[dict[str, tuple[str, ...]]] = {
    # The CPU time limit is a net: a test that is killed leaves no loop behind. Where the scheduler weighs sessions
    # (autogroups), loads weigh little: they contend with each other as before, and not with the servers under test.
    "busy": ("sh", "-c", "{ echo 10 >/proc/self/autogroup; } 2>/dev/null; ulimit -t 120; while :; do :; done"),
    "sleep": ("sleep", "600"),
}
REMOVE_SECONDS: Final = 60.0
"""How long members may take to die before removal is an error; a killed process is gone in milliseconds."""

_NAME: Final = re.compile(r"plimsoll-test-(\d+)-(?:probe-)?[0-9a-f]{8}")


def cgroup2_mount() -> Path | None:
    """Where cgroup v2 is mounted: /sys/fs/cgroup/unified on a hybrid machine, /sys/fs/cgroup on a pure one."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    return None


def why_not() -> str | None:
    """Why real cgroups cannot be made here; None when they can."""
    mount = cgroup2_mount()
    if mount is None:
        return "no cgroup v2 mount"
    if os.geteuid() != 0:
        return "real cgroups need root"
    probe = mount / f"plimsoll-test-{os.getpid()}-probe-{secrets.token_hex(4)}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        return f"no cgroup can be made under {mount}: {error.strerror}"
    return None


class CgroupTree:
    """A context manager that owns one directory of real cgroups and the processes it put there."""

    def __init__(self, mount: Path | None = None) -> None:
        hierarchy = mount or cgroup2_mount()
        if hierarchy is None:
            msg = "no cgroup v2 mount on this machine"
            raise RuntimeError(msg)
        self.mount = hierarchy
        self.name = f"plimsoll-test-{os.getpid()}-{secrets.token_hex(4)}"
        self.base = hierarchy / self.name
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lock: int | None = None

    def __enter__(self) -> Self:
        _remove_dead_once(self.mount)
        self.base.mkdir()
        self._lock = _locked(self.base)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove_all()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def absolute(self, path: str = "") -> Path:
        """The directory of a path of this tree."""
        return self.base / path if path else self.base

    def relative(self, path: str = "") -> str:
        """The path below the cgroup root, without a leading slash: what samplers and rings take."""
        return f"{self.name}/{path}" if path else self.name

    def make(self, path: str) -> Path:
        """Make a cgroup and its missing parents; one that is there already is fine."""
        directory = self.absolute(path)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def inode(self, path: str = "") -> int:
        """The inode by which a cgroup is told from its namesakes."""
        return self.absolute(path).stat().st_ino

    def write(self, path: str, file: str, text: str) -> None:
        """Write a control file, for example `write("a", "cpu.max", "20000 100000")`."""
        (self.absolute(path) / file).write_text(text, encoding="ascii")

    def spawn(self, path: str, load: str | Sequence[str] = "sleep") -> subprocess.Popen[bytes]:
        """Start a load inside a cgroup; it is a member before its program begins.

        Args:
            path: Of the cgroup; made when it is not there.
            load: `busy` (one core), `sleep`, or an argument list.
        """
        directory = self.make(path)
        argv = LOADS[load] if isinstance(load, str) else tuple(load)
        # The shell waits until it is a member, then becomes the program: no memory, no CPU time is charged elsewhere.
        process = subprocess.Popen(
            dying_with_us("sh", "-c", 'read -r _ && exec "$@" </dev/null', "load", *argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._processes.append(process)
        (directory / "cgroup.procs").write_text(str(process.pid), encoding="ascii")
        if process.stdin is not None:
            process.stdin.write(b"go\n")
            process.stdin.close()
        return process

    def kill(self, path: str = "") -> None:
        """Kill all members below a path, reap those started here and wait until the kernel calls it empty."""
        directory = self.absolute(path)
        switch = directory / "cgroup.kill"
        if switch.exists():
            switch.write_text("1", encoding="ascii")
        else:  # before kernel 5.14
            for procs in [directory / "cgroup.procs", *directory.rglob("cgroup.procs")]:
                for pid in procs.read_text(encoding="ascii").split():
                    os.kill(int(pid), signal.SIGKILL)
        self._wait_empty(directory)
        self._processes = [process for process in self._processes if process.poll() is None]

    def remove(self, path: str) -> None:
        """Kill the members below a path and remove it with everything in it."""
        self.kill(path)
        self._remove_directories(self.absolute(path))

    def remove_all(self) -> None:
        """Kill all, remove all; fine when there is nothing."""
        if self.base.is_dir():
            self.kill()
            self._remove_directories(self.base)
        for process in self._processes:
            process.kill()
            process.wait(REMOVE_SECONDS)
        self._processes = []

    def freeze(self, path: str) -> None:
        """Stop all members, so that counters stand still; returns once the kernel says frozen."""
        self.write(path, "cgroup.freeze", "1")
        self._wait_event(self.absolute(path), "frozen", "1")

    def thaw(self, path: str) -> None:
        self.write(path, "cgroup.freeze", "0")
        self._wait_event(self.absolute(path), "frozen", "0")

    @staticmethod
    def _remove_directories(top: Path) -> None:
        for directory, _, _ in os.walk(top, topdown=False):
            deadline = time.monotonic() + REMOVE_SECONDS
            while True:
                try:
                    Path(directory).rmdir()
                except FileNotFoundError:
                    pass
                except OSError:
                    # The kernel may hold a group for a moment after its last member died.
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.005)
                    continue
                break

    def _wait_empty(self, directory: Path) -> None:
        self._wait_event(directory, "populated", "0", reap=True)

    def _wait_event(self, directory: Path, key: str, wanted: str, *, reap: bool = False) -> None:
        """Wait for a value in cgroup.events; the kernel wakes the poll at each change."""
        deadline = time.monotonic() + REMOVE_SECONDS
        with (directory / "cgroup.events").open("rb", buffering=0) as events:
            poller = select.poll()
            poller.register(events, select.POLLPRI)
            while True:
                if reap:
                    for process in self._processes:
                        process.poll()
                values = dict(line.split() for line in os.pread(events.fileno(), 4096, 0).decode().splitlines())
                if values.get(key) == wanted:
                    return
                if time.monotonic() > deadline:
                    msg = f"{directory}: {key} is {values.get(key)}, not {wanted}, after {REMOVE_SECONDS} s"
                    raise TimeoutError(msg)
                poller.poll(100)


def remove_dead_trees(mount: Path) -> list[str]:
    """Kill what runs in the trees of runs that are no more, and remove them; give their names.

    A tree whose process lives is left alone, so is one that is locked: its process may be of another container that
    has the same mount, and is not seen here. One that cannot be removed is left to the next run.
    """
    removed = []
    for base in mount.glob("plimsoll-test-*"):
        name = _NAME.fullmatch(base.name)
        if name is None or _is_alive(int(name[1]), base):
            continue
        with contextlib.suppress(OSError):  # another run was quicker, or something holds on
            lock = _locked(base)
            try:
                dead = CgroupTree(mount)
                dead.name, dead.base = base.name, base
                dead.remove_all()
            finally:
                os.close(lock)
            removed.append(base.name)
    return removed


@functools.cache
def _remove_dead_once(mount: Path) -> None:
    remove_dead_trees(mount)


def _is_alive(pid: int, base: Path) -> bool:
    """Return whether a tree's process lives; one that began after the tree was made has only the same number."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= base.stat().st_mtime
    except (psutil.NoSuchProcess, FileNotFoundError):
        return False


def _locked(directory: Path) -> int:
    """Lock a directory until the descriptor is closed, or its process ends.

    Raises:
        BlockingIOError: Another process has the lock.
        OSError: The directory is gone.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
