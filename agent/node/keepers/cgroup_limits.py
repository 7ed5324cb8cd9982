"""Limits that the agent itself writes into cgroups: written, read back, remembered on disk, taken back.

Node. What was written is remembered before it is written, so that it can be undone whatever happens between. Only what
still stands as it was written is undone: a value that somebody else has written since is theirs.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from agent.core.machine.cgroup_files import Amount
from agent.core.machine.pod_limits import amount_line, is_in_force
from agent.core.numbers.document_text import decoded, json_value
from agent.named_file import DOCUMENT_MOST_BYTES, read_named
from agent.node.files.atomic_write import replace_file
from agent.node.files.documents import Document, DocumentFormatError
from agent.sensing.cgroup_text import parse_u64
from agent.sensing.kubelet_tree import parse_amount, read_cgroup_file

log = logging.getLogger(__name__)

FILE_NAME: Final = "cgroup-limits"
MEMORY_CURRENT: Final = "memory.current"
MOST_REMEMBERED: Final = 4096
"""Files of which is remembered what was last written: more than a node's pods have between two audits."""


class LimitOwner(StrEnum):
    """Which part of the agent a limit belongs to."""

    POD_LIMITS = "pod-limits"
    QOS_RESERVE = "qos-reserve"
    MEMORY_LOW = "memory-low"


class CgroupWriteError(Exception):
    """A limit that could not be written, or that the kernel did not keep; one line: file and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLimit:
    """One file that the agent has written, or was about to write."""

    owner: LimitOwner
    cgroup_path: str
    """Relative to the mount, with a leading slash."""
    inode: int
    """Of the cgroup's directory: another one under the same path is another cgroup."""
    file: str
    line: str
    """What was written, without the newline."""

    @property
    def amount(self) -> Amount | None:
        """Return what was written as a value; None = a later version wrote something unknown."""
        return parse_amount(self.file, f"{self.line}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLimits:
    """The content of the file."""

    limits: tuple[WrittenLimit, ...] = ()


_WRITTEN: Final = Document(WrittenLimits, FILE_NAME, 1)
_PAGE_BYTES: Final = resource.getpagesize()


class CgroupLimits:
    """The agent's own limits below one mount. One thread uses it."""

    def __init__(
        self,
        mount: Path,
        path: Path | None,  # Where it is remembered; None = in memory only, and an agent that restarts undoes nothing
    ) -> None:
        self._mount, self._path = mount, path
        self._written: dict[tuple[str, str], WrittenLimit] = {}
        self._last_lines: dict[tuple[str, str], str] = {}
        """What was last written into a file, what was put back among it; by path and file, of this run."""
        self.fault: str | None = None
        """Why what is written cannot be remembered; nothing is written then. None = it can."""
        if path is not None:
            self._read_back(path)

    def written(self, owner: LimitOwner) -> tuple[WrittenLimit, ...]:
        """Return what a part of the agent has written and not taken back, as far as the cgroups are still there."""
        gone = [key for key, limit in self._written.items() if self._inode(limit.cgroup_path) != limit.inode]
        for key in gone:
            del self._written[key]
        if gone:
            self._remember()
        return tuple(limit for limit in self._written.values() if limit.owner is owner)

    def is_ours(self, cgroup_path: str, file: str) -> bool:
        """Return whether a file still holds what the agent wrote."""
        limit = self._written.get((cgroup_path, file))
        if limit is None or limit.inode != self._inode(cgroup_path) or limit.amount is None:
            return False
        return is_in_force(limit.amount, self.read(cgroup_path, file), _PAGE_BYTES)

    def was_last_written(self, cgroup_path: str, file: str, amount: Amount) -> bool:
        """Return whether an amount in a file is what this run of the agent wrote there last; any thread may ask."""
        line = self._last_lines.get((cgroup_path, file))
        written = None if line is None else parse_amount(file, f"{line}\n")
        return written is not None and is_in_force(written, amount, _PAGE_BYTES)

    def is_in_force(self, cgroup_path: str, file: str, amount: Amount) -> bool:
        """Return whether a file holds an amount, whoever wrote it; memory is kept as whole pages."""
        return is_in_force(amount, self.read(cgroup_path, file), _PAGE_BYTES)

    def read(self, cgroup_path: str, file: str) -> Amount | None:
        """Return what a file says; None = it is not there, or not understood."""
        return read_cgroup_file(self._directory(cgroup_path), file, None).amount

    def in_use_bytes(self, cgroup_path: str) -> int | None:
        """Return memory.current; None = it cannot be read."""
        try:
            return parse_u64((self._directory(cgroup_path) / MEMORY_CURRENT).read_bytes().strip())
        except OSError:
            return None

    def put(self, owner: LimitOwner, cgroup_path: str, file: str, amount: Amount) -> bool:
        """Put a limit in force.

        Returns:
            True = it was written; False = it stood there already.

        Raises:
            CgroupWriteError: It cannot be remembered or written, or the kernel shows something else afterwards.
        """
        if is_in_force(amount, self.read(cgroup_path, file), _PAGE_BYTES):
            return False
        inode = self._inode(cgroup_path)
        if inode is None:
            raise CgroupWriteError(f"{cgroup_path}: the cgroup is gone")
        key, before = (cgroup_path, file), self._written.get((cgroup_path, file))
        self._written[key] = WrittenLimit(
            owner=owner, cgroup_path=cgroup_path, inode=inode, file=file, line=amount_line(amount)
        )
        if self._written[key] != before or self.fault is not None:
            self._remember()
        if self.fault is not None:
            self._put_back(key, before)
            raise CgroupWriteError(self.fault)
        try:
            self._write(cgroup_path, file, amount)
        except CgroupWriteError:
            # What stood there before stands there still.
            self._put_back(key, before)
            self._remember()
            raise
        reading = self.read(cgroup_path, file)
        if not is_in_force(amount, reading, _PAGE_BYTES):
            raise CgroupWriteError(f"{cgroup_path}/{file}: wrote {amount_line(amount)}, the kernel shows {reading}")
        return True

    def take_back(self, limit: WrittenLimit, amount: Amount) -> bool:
        """Undo a limit, and forget it.

        Args:
            limit: From ``written``.
            amount: What would be there without the agent.

        Returns:
            True = undone; False = somebody else has written there since, which stays.

        Raises:
            CgroupWriteError: It cannot be written; it is still remembered.
        """
        is_ours = self.is_ours(limit.cgroup_path, limit.file)
        if is_ours:
            self._write(limit.cgroup_path, limit.file, amount)
        self._written.pop((limit.cgroup_path, limit.file), None)
        self._remember()
        return is_ours

    # -- files -----------------------------------------------------------------------------------------------------

    def _directory(self, cgroup_path: str) -> Path:
        return Path(f"{self._mount}{cgroup_path}")

    def _inode(self, cgroup_path: str) -> int | None:
        try:
            return self._directory(cgroup_path).stat().st_ino
        except OSError:
            return None

    def _write(self, cgroup_path: str, file: str, amount: Amount) -> None:
        line = amount_line(amount)
        if len(self._last_lines) >= MOST_REMEMBERED:
            self._last_lines.pop(next(iter(self._last_lines)))
        self._last_lines[cgroup_path, file] = line
        try:
            # Not `write_text`: it would make a file that is not there.
            descriptor = os.open(self._directory(cgroup_path) / file, os.O_WRONLY | os.O_CLOEXEC | os.O_TRUNC)
            try:
                os.write(descriptor, line.encode("ascii") + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise CgroupWriteError(f"{cgroup_path}/{file}: cannot write {line}: {error.strerror}") from error

    def _put_back(self, key: tuple[str, str], before: WrittenLimit | None) -> None:
        if before is None:
            self._written.pop(key, None)
        else:
            self._written[key] = before

    def _remember(self) -> None:
        """Replace the file as a whole."""
        if self._path is None:
            return
        content = json.dumps(_WRITTEN.to_json(WrittenLimits(limits=tuple(self._written.values()))))
        try:
            replace_file(self._path, content.encode("ascii"))
        except OSError as error:
            fault = f"{self._path} cannot be written ({error.strerror}): cgroups are left as they are"
            if self.fault is None:
                log.warning("limits cannot be remembered", extra={"path": str(self._path), "reason": error.strerror})
            self.fault = fault
        else:
            self.fault = None

    def _read_back(self, path: Path) -> None:
        try:
            written_limits = _WRITTEN.from_json(json_value(decoded(read_named(path, most_bytes=DOCUMENT_MOST_BYTES))))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError, DocumentFormatError) as error:
            # What stands in it cannot be undone any more; what is written from now on can.
            reason = " ".join(str(error).split())[:200]
            log.warning("limits written before are not known", extra={"path": str(path), "reason": reason})
            with contextlib.suppress(OSError):
                path.replace(path.with_name(f"{path.name}.damaged"))
            return
        self._written = {(limit.cgroup_path, limit.file): limit for limit in written_limits.limits}
