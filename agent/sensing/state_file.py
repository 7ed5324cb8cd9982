"""The state file as a file: its header, its lock, and what becomes of one that cannot be gone on with.

Sensing. `RingGeometry` says where everything lies; `open_locked` gives a descriptor of a file that is valid for this
program, this geometry and this boot, and holds its lock. What is inside the slots is the business of rings.py.
`hold_file` does the same for any other file of the state directory.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from agent.core.window.ring_rows import MEMORY_ROW, MINUTE_ROW, SAMPLE, SLOT_HEADER

FORMAT_VERSION: Final = 2
MAGIC: Final = b"PLMSRING"
FILE_HEADER_BYTES: Final = 4096
OWNER_OFFSET: Final = 2048
"""Who holds the file: outside the checksum, since each start rewrites it."""

_FILE_HEADER: Final = struct.Struct("<8sI4I3IQ3I64s")
"""Magic, version, 4 lengths, 3 row sizes, stride, 3 offsets, boot id; its CRC-32 follows."""
_CHECKSUM: Final = struct.Struct("<I")
_OWNER: Final = struct.Struct("<II512s")
"""Pid, bytes of the command line, the command line."""


class RingError(Exception):
    """The state file cannot be used; the family of this boundary."""


class StateInUse(RingError):  # noqa: N818 - a state of the world, named as one
    """Another agent holds the state file; the message names it."""


class RingsFull(RingError):  # noqa: N818
    """No slot, or no disk space for one, is left: this cgroup cannot be watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingGeometry:
    """How many slots, how long their rings, and from that where everything lies; lengths in rows."""

    max_slots: int = 1000
    """Cgroups at most; 110 pods is the kubelet's default limit, so 1,000 containers is nine each."""
    raw_length: int = 704
    """1 Hz samples: the 10-minute window, a 60 s rate before it, and a margin."""
    memory_length: int = 186
    """10 s rows: the 30-minute memory window and a margin."""
    minute_length: int = 1444
    """Minutes: a day and a margin."""

    def __post_init__(self) -> None:
        for name in ("max_slots", "raw_length", "memory_length", "minute_length"):
            value: int = getattr(self, name)
            # A view never holds the row being written, so a ring shorter than 2 could show nothing.
            lowest = 1 if name == "max_slots" else 2
            if not lowest <= value < 2**20:
                msg = f"ring geometry: {name} is {value}, allowed are {lowest} to {2**20 - 1}"
                raise ValueError(msg)

    @property
    def raw_offset(self) -> int:
        """From a slot's start to its raw samples; bytes."""
        return SLOT_HEADER.itemsize

    @property
    def memory_offset(self) -> int:
        """From a slot's start to its memory rows; bytes."""
        return self.raw_offset + self.raw_length * SAMPLE.itemsize

    @property
    def minute_offset(self) -> int:
        """From a slot's start to its minute rows; bytes."""
        return self.memory_offset + self.memory_length * MEMORY_ROW.itemsize

    @property
    def slot_stride(self) -> int:
        """From one slot to the next; bytes. All row sizes are multiples of 8, so every offset is one."""
        return self.minute_offset + self.minute_length * MINUTE_ROW.itemsize

    @property
    def first_slot_offset(self) -> int:
        """From the start of the memory to slot 0; bytes."""
        return FILE_HEADER_BYTES

    @property
    def file_bytes(self) -> int:
        """The whole file; sparse, so that slots never used cost nothing."""
        return self.first_slot_offset + self.max_slots * self.slot_stride


def read_boot_id(path: Path = Path("/proc/sys/kernel/random/boot_id")) -> str:
    """Read the kernel's name for this boot."""
    return path.read_text(encoding="ascii").strip()


def file_header(geometry: RingGeometry, boot_id: str) -> bytes:
    """Return the header of a file of this geometry, begun in this boot; its owner is not filled in."""
    fixed = _FILE_HEADER.pack(
        MAGIC,
        FORMAT_VERSION,
        *_lengths(geometry),
        SAMPLE.itemsize,
        MEMORY_ROW.itemsize,
        MINUTE_ROW.itemsize,
        geometry.slot_stride,
        geometry.raw_offset,
        geometry.memory_offset,
        geometry.minute_offset,
        boot_id.encode("ascii"),
    )
    return (fixed + _CHECKSUM.pack(zlib.crc32(fixed))).ljust(FILE_HEADER_BYTES, b"\0")


def _lengths(geometry: RingGeometry) -> tuple[int, int, int, int]:
    return geometry.max_slots, geometry.raw_length, geometry.memory_length, geometry.minute_length


def read_header(header: bytes, size: int) -> tuple[RingGeometry, str] | str:
    """Return geometry and boot id of a state file, or the reason why it is not one of ours."""
    if len(header) < FILE_HEADER_BYTES:
        return f"truncated: {size} bytes, the header alone has {FILE_HEADER_BYTES}"
    magic, version, slots, raw, memory, minute, *layout, boot_id = _FILE_HEADER.unpack_from(header)
    if magic != MAGIC:
        return f"not a state file: it begins with {magic!r}, not {MAGIC!r}"
    if version != FORMAT_VERSION:  # before the checksum, which another version may have elsewhere
        return f"version {version}, this program reads {FORMAT_VERSION}"
    expected = zlib.crc32(header[: _FILE_HEADER.size])
    (checksum,) = _CHECKSUM.unpack_from(header, _FILE_HEADER.size)
    if checksum != expected:
        return f"bad checksum of the header: {checksum:#010x}, its content gives {expected:#010x}"
    try:
        geometry = RingGeometry(max_slots=slots, raw_length=raw, memory_length=memory, minute_length=minute)
    except ValueError as error:
        return str(error)
    text = boot_id.rstrip(b"\0").decode("ascii", "replace")
    own = _FILE_HEADER.unpack(file_header(geometry, text)[: _FILE_HEADER.size])
    if own[6:-1] != tuple(layout):
        return f"row sizes or offsets {layout}, this program has {list(own[6:-1])}"
    if size != geometry.file_bytes:
        return f"truncated: {size} bytes, its geometry needs {geometry.file_bytes}"
    return geometry, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """Why a file in the state directory cannot be gone on with."""

    reason: str
    is_previous_boot: bool = False
    """Whole, but of an earlier boot: only the last such file is kept."""


def open_locked(path: Path, geometry: RingGeometry, boot_id: str) -> tuple[int, Path | None, str | None]:
    """Open and lock a file that is valid for us, setting aside what is not; return it, what was set aside, why.

    Of files set aside the last is kept alone: they lie in memory, up to 0.1 MB for each container.
    """

    def begin(fd: int) -> None:
        os.ftruncate(fd, geometry.file_bytes)
        os.pwrite(fd, file_header(geometry, boot_id), 0)

    def judge(header: bytes, size: int) -> Unfit | None:
        header_fields = read_header(header, size)
        if isinstance(header_fields, str):
            return Unfit(reason=header_fields)
        if header_fields[0] != geometry:
            had, wanted = _lengths(header_fields[0]), _lengths(geometry)
            return Unfit(reason=f"geometry {had} (slots, raw, memory, minute rows), this program is set to {wanted}")
        if header_fields[1] != boot_id:
            boots = f"written in boot {header_fields[1]}, this is boot {boot_id}"
            reason = f"{boots}: its counters and times mean nothing any more"
            return Unfit(reason=reason, is_previous_boot=True)
        return None

    fd, aside, reason = hold_file(path, what="state file", begin=begin, judge=judge)
    if aside is not None:
        for older in path.parent.glob(f"{path.name}.set-aside-*"):
            if older != aside:
                older.unlink(missing_ok=True)
    return fd, aside, reason


def hold_file(
    path: Path, *, what: str, begin: Callable[[int], None], judge: Callable[[bytes, int], Unfit | None]
) -> tuple[int, Path | None, str | None]:
    """Open and lock a file of the state directory, or begin it; one that cannot be gone on with is set aside.

    Args:
        begin: Writes length and header of a new file, the header last and whole.
        judge: Tells from the first `FILE_HEADER_BYTES` and the size whether a file can be gone on with.

    Returns:
        The descriptor, locked; what was set aside, and why.

    Raises:
        StateInUse: Another process holds it, by the owner it wrote at `OWNER_OFFSET`.
        OSError: It cannot be opened, locked, written or renamed.
    """
    aside: Path | None = None
    reason: str | None = None
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with ExitStack() as closed:
            closed.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                msg = f"{what} {path} is in use by {_owner(fd)}: stop that agent, or give this one another file"
                raise StateInUse(msg) from error
            status = os.fstat(fd)
            if not _is_at(path, status):
                continue  # renamed between open and lock: it is another agent's business now
            header = os.pread(fd, FILE_HEADER_BYTES, 0)
            if status.st_blocks == 0 and not header.strip(b"\0"):
                # Nothing was ever written: new, or its maker was killed before the header, which comes last and whole.
                begin(fd)
                os.fsync(fd)
                closed.pop_all()
                return fd, aside, reason
            unfit = judge(header, status.st_size)
            if unfit is None:
                closed.pop_all()
                return fd, aside, reason
            reason = unfit.reason
            suffix = "previous-boot" if unfit.is_previous_boot else f"set-aside-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
            aside = _rename(path, f"{path.name}.{suffix}", replace=unfit.is_previous_boot)


def _is_at(path: Path, status: os.stat_result) -> bool:
    try:
        now = path.stat()
    except FileNotFoundError:
        return False
    return (now.st_ino, now.st_dev) == (status.st_ino, status.st_dev)


def _rename(path: Path, name: str, *, replace: bool) -> Path:
    """Rename within the directory; unless `replace`, to a name that is not taken."""
    target = path.with_name(name)
    count = 0
    while not replace and target.exists():
        count += 1
        target = path.with_name(f"{name}-{count}")
    path.rename(target)
    return target


def _command_line(pid: int) -> str:
    """Return the command line of a process in one line; empty when it cannot be seen, as from another pid namespace."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").split()
    except OSError:
        return ""
    return b" ".join(words).decode("utf-8", "replace")


def _owner(fd: int) -> str:
    """Name who holds a state file: pid and command line, as far as they can be known."""
    text = os.pread(fd, _OWNER.size, OWNER_OFFSET)
    if len(text) < _OWNER.size:
        return "another process, which is just beginning it"
    pid, length, command = _OWNER.unpack(text)
    if pid == 0:
        return "another process, which is just beginning it"
    # What it wrote itself counts more than /proc: the pid may belong to another pid namespace.
    written = command[:length].decode("utf-8", "replace")
    return f"pid {pid} ({written or _command_line(pid) or 'command unknown'})"


def owner_record() -> bytes:
    """Return what belongs at `OWNER_OFFSET` while this process holds the file."""
    command = _command_line(os.getpid()).encode("utf-8", "replace")[:512]
    return _OWNER.pack(os.getpid(), len(command), command)
