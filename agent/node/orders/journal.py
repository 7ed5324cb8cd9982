"""The decision log: the newest thousand in memory, and in a file that survives kill -9.

Node. The file holds JSON lines, one per decision; a line with a sequence number that stood before is a newer wording of
the same decision (it was said again). It is bounded: full, it becomes the older file, and the older one goes. A last
line that was torn is dropped. A disk that takes nothing is said once, and nothing but ``sync`` waits for it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from agent.core.cluster.pod import PodRef
from agent.core.plan.pod_change import Change
from agent.core.resize.decision import Action, Decision, Outcome
from agent.named_file import DOCUMENT_MOST_BYTES, read_named
from agent.node.files.atomic_write import sync
from agent.node.files.documents import DECISION, DocumentFormatError
from agent.node.sockets.control import asker

log = logging.getLogger(__name__)

FILE_NAME: Final = "decisions"
MAX_BYTES: Final = 1 << 20
"""Of each of the two files."""
MOST: Final = 1000
"""Decisions kept in memory, and read back at a start."""
MOST_DETAIL: Final = 1000
"""Characters, about as many as an Event has room for: what a detail quotes may come from a pod's owner."""
SAME_SECONDS: Final = 600.0
"""Said again within this time, a decision is the same one."""
WRITE_SECONDS: Final = 60.0
"""Between two writes of a decision that is said again and again."""
_DONE: Final = (Outcome.ACCEPTED, Outcome.APPLIED, Outcome.REVERTED, Outcome.DONE)
"""What has changed something: the same again is a decision of its own unless it changed the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """Which decisions are asked for; the default is all."""

    pod: str | None = None
    """Name, namespace/name or uid; ``*`` allowed; case never counts."""
    namespace: str | None = None
    """Of the pod; ``*`` allowed; what is about the node has none."""
    actions: frozenset[Action] = frozenset()
    """Empty = all."""
    outcomes: frozenset[Outcome] = frozenset()
    since_unix_seconds: float | None = None

    def holds(self, decision: Decision) -> bool:
        """Return whether a decision is asked for."""
        if self.actions and decision.action not in self.actions:
            return False
        if self.outcomes and decision.outcome not in self.outcomes:
            return False
        if self.since_unix_seconds is not None and decision.unix_seconds < self.since_unix_seconds:
            return False
        ref = decision.pod
        if self.namespace is not None and (ref is None or not _matches(ref.namespace, self.namespace)):
            return False
        return self.pod is None or (ref is not None and _is_called(self.pod, ref))


def _is_called(pattern: str, ref: PodRef) -> bool:
    return any(_matches(name, pattern) for name in (ref.name, str(ref), ref.uid))


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name.lower(), pattern.lower())


_Key = tuple[Action, str, str]


@dataclass(slots=True)
class _Entry:
    decision: Decision
    written_unix_seconds: float | None
    """When this wording, or one before it, was last written; None = never."""
    is_dirty: bool
    told: int
    """The number of the change that made this wording; rises by one with each, over all decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalNews:
    """What the decision log has that somebody who follows it has not heard."""

    decisions: tuple[Decision, ...]
    """Those changed first in front."""
    through: int
    """What to ask from the next time."""


class Journal:
    """The decision log of a running agent. Every method may be called from any thread."""

    def __init__(
        self,
        path: Path | None,  # The file; the older one stands beside it with ``.1`` at its end. None = memory only.
        *,
        max_bytes: int = MAX_BYTES,
        most: int = MOST,  # Decisions kept in memory
    ) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._most = most
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        """By sequence number, the one said last at the end."""
        self._latest: dict[_Key, int] = {}
        """The newest decision of each pod and action: what a new one is compared with."""
        self._next_sequence = 1
        self._changes = 0
        self._file: _File | None = None
        self._fault: str | None = None
        if path is not None:
            self._read_back(path)
            self._file = _File(path, max_bytes)

    @property
    def fault(self) -> str | None:
        """Return why decisions are kept in memory only at the moment; None = they are not."""
        return self._fault

    def add(
        self,
        *,
        unix_seconds: float,
        action: Action,
        outcome: Outcome,
        reason: str,
        detail: str = "",
        pod: PodRef | None = None,
        workload: str | None = None,
        changes: tuple[Change, ...] = (),
        seconds: float | None = None,
    ) -> Decision:
        """Record a decision; never raises for the disk's sake. The arguments are fields of ``Decision``.

        The newest decision about the same pod and of the same action, when outcome and reason are the same and it is
        ten minutes old at most, is said again instead: it counts one more, and takes the new time and wording. What
        has changed something is the same only where it changed the same, a notice only where it says the same.

        Returns:
            The decision as it stands in the log.
        """
        with self._lock:
            fresh = Decision(
                sequence=self._next_sequence,
                unix_seconds=unix_seconds,
                action=action,
                outcome=outcome,
                reason=reason,
                detail=detail[:MOST_DETAIL],
                pod=pod,
                workload=workload,
                changes=changes,
                seconds=seconds,
                by=asker(),
            )
            latest = self._entries.get(self._latest.get(_key(fresh), 0))
            if latest is not None and _is_again(latest.decision, fresh):
                return self._say_again(latest, fresh)
            if latest is not None and latest.is_dirty:
                self._write((latest,))  # its last count: it will not be said again
            entry = _Entry(fresh, None, True, self._changed())
            self._next_sequence += 1
            self._put(entry)
            self._write((entry,))
            return fresh

    def newest(self, limit: int | None = None, choice: DecisionFilter | None = None) -> tuple[Decision, ...]:
        """Return decisions, newest first: what was said last stands in front."""
        with self._lock:
            decisions = [entry.decision for entry in reversed(self._entries.values())]
        chosen = decisions if choice is None else [decision for decision in decisions if choice.holds(decision)]
        return tuple(chosen[:limit])

    @property
    def last_sequence(self) -> int:
        """Return the newest decision's number, of all ever put down here; 0 = none."""
        with self._lock:
            return self._next_sequence - 1

    def kept_after(self, sequence: int) -> tuple[int, ...]:
        """Return the numbers of the decisions in memory that are above one."""
        with self._lock:
            return tuple(number for number in self._entries if number > sequence)

    def news(self, after: int, limit: int) -> JournalNews:
        """Return what changed after what ``through`` said, 0 = all that is kept; at most so many."""
        with self._lock:
            # The one said last stands at the end, so both orders are one.
            changed = [entry for entry in self._entries.values() if entry.told > after][:limit]
        return JournalNews(
            decisions=tuple(entry.decision for entry in changed), through=changed[-1].told if changed else after
        )

    def flush(self) -> None:
        """Write counts that are newer in memory than in the file."""
        with self._lock:
            self._write(entry for entry in tuple(self._entries.values()) if entry.is_dirty)

    def sync(self) -> bool:
        """Wait until the disk has every decision of before the call; other calls do not wait for it.

        Returns:
            Whether it has; False = some are in memory only, and a restart would give their numbers to others. True
            where memory is all there is: then the log ends with the process.
        """
        if self._path is None:
            return True
        with self._lock:
            if self._file is None or self._fault is not None:
                return False
        try:
            for file in _files(self._path):
                with contextlib.suppress(FileNotFoundError, PermissionError):  # then this log has not written it
                    sync(file)
            sync(self._path.parent)
        except OSError as error:
            with self._lock:
                self._failed(self._path, error)
            return False
        return True

    def close(self) -> None:
        """Write what is left and let go of the file; nothing is kept on disk after that."""
        self.flush()
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _read_back(self, path: Path) -> None:
        lines: list[bytes] = []
        for file in _files(path):
            try:
                lines = _lines(file) + lines
            except OSError as error:  # what the other has is kept: numbers must not begin anew
                log.warning("decision log cannot be read", extra={"path": str(file), "reason": error.strerror})
        decisions, newest, unreadable = _decoded(lines, self._most)
        self._next_sequence = newest + 1
        for decision in reversed(decisions):
            self._put(_Entry(decision, decision.unix_seconds, False, self._changed()))
        if unreadable:
            log.warning("lines of the decision log are not understood", extra={"path": str(path), "lines": unreadable})

    def _changed(self) -> int:
        self._changes += 1
        return self._changes

    def _say_again(self, entry: _Entry, fresh: Decision) -> Decision:
        old, entry.told = entry.decision, self._changed()
        entry.decision = replace(fresh, sequence=old.sequence, repeats=old.repeats + 1)
        entry.is_dirty = True
        self._entries.move_to_end(old.sequence)
        written = entry.written_unix_seconds
        if written is None or not 0 <= fresh.unix_seconds - written < WRITE_SECONDS:
            self._write((entry,))
        return entry.decision

    def _put(self, entry: _Entry) -> None:
        self._entries[entry.decision.sequence] = entry
        self._latest[_key(entry.decision)] = entry.decision.sequence
        while len(self._entries) > self._most:
            sequence, gone = self._entries.popitem(last=False)
            if gone.is_dirty:
                self._write((gone,))
            if self._latest.get(_key(gone.decision)) == sequence:
                del self._latest[_key(gone.decision)]

    def _write(self, entries: Iterable[_Entry]) -> None:
        """Append them; a disk that fails is said once, and what it did not take is tried again with the next one."""
        if self._file is None:
            return
        try:
            self._append(self._file, entries)
            if self._fault is not None:
                self._fault = None
                self._append(self._file, tuple(entry for entry in self._entries.values() if entry.is_dirty))
                log.warning("decision log is written again", extra={"path": str(self._file.path)})
        except OSError as error:
            self._failed(self._file.path, error)

    def _failed(self, path: Path, error: OSError) -> None:
        reason = error.strerror or str(error)
        if self._fault is None:
            log.warning("decision log cannot be written", extra={"path": str(path), "reason": reason})
        self._fault = f"the decision log {path} cannot be written ({reason}): kept in memory only"

    @staticmethod
    def _append(file: _File, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            file.append(_line(entry.decision))
            entry.is_dirty, entry.written_unix_seconds = False, entry.decision.unix_seconds


def read_journal(path: Path) -> tuple[Decision, ...]:
    """Read the file of an agent, running or not, and change nothing.

    Returns:
        All decisions, newest first; empty where there is no file.

    Raises:
        OSError: A file is there and cannot be read.
    """
    newer, older = (_lines(file) for file in _files(path))
    decisions, _, _ = _decoded(older + newer, None)
    return tuple(decisions)


def _key(decision: Decision) -> _Key:
    what = decision.detail if decision.action is Action.NOTICE else ""
    return decision.action, "" if decision.pod is None else decision.pod.uid, what


def _is_again(old: Decision, new: Decision) -> bool:
    return (
        (old.outcome, old.reason, old.pod) == (new.outcome, new.reason, new.pod)
        and (new.outcome not in _DONE or (old.changes == new.changes and not _is_of_a_person(new)))
        and abs(new.unix_seconds - old.unix_seconds) <= SAME_SECONDS
    )


def _is_of_a_person(decision: Decision) -> bool:
    """Return whether somebody asked for it: each time is an event of its own."""
    return decision.action in (Action.PAUSE, Action.RESUME, Action.PIN, Action.UNPIN, Action.RESTORE)


# The file


def _line(decision: Decision) -> bytes:
    return json.dumps(DECISION.to_json(decision), separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _files(path: Path) -> tuple[Path, Path]:
    """Return both files, the newer one first: exchanged between the two readings, it is read twice, not missed."""
    return path, _older(path)


def _lines(file: Path) -> list[bytes]:
    """Return the whole lines of a file, none where it is missing; what follows the last newline was torn."""
    with contextlib.suppress(FileNotFoundError):
        return read_named(file, most_bytes=DOCUMENT_MOST_BYTES).split(b"\n")[:-1]
    return []


def _decoded(lines: list[bytes], most: int | None) -> tuple[list[Decision], int, int]:
    """Return decisions, newest first, the highest sequence number, and how many lines are not understood."""
    records: dict[int, Decision] = {}
    newest = unreadable = 0
    for line, content in _parsed(reversed(lines)):
        sequence = content.get("sequence") if isinstance(content, dict) else None
        if not isinstance(sequence, int) or sequence in records:
            unreadable += line != b"" and not isinstance(sequence, int)
            continue
        newest = max(newest, sequence)
        if most is None or len(records) < most:
            try:
                records[sequence] = DECISION.from_json(content)
            except DocumentFormatError:
                unreadable += 1
    # A count that was written late stands behind what was said after it.
    decisions = sorted(records.values(), key=lambda decision: (decision.unix_seconds, decision.sequence), reverse=True)
    return decisions, newest, unreadable


def _parsed(lines: Iterable[bytes]) -> Iterator[tuple[bytes, object]]:
    for line in lines:
        content: object = None
        with contextlib.suppress(ValueError, RecursionError):
            content = json.loads(line)
        yield line, content


class _File:
    """Lines appended to a file that is exchanged when it is full. Opened when first written."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._fd: int | None = None
        self._size = 0

    def append(self, line: bytes) -> None:
        """Append a line, all of it or nothing; to a new file where somebody has taken the old one away or cut it."""
        if self._fd is not None and not self._is_in_place(self._fd):
            self.close()
        fd = self._opened()
        if self._size and self._size + len(line) > self._max_bytes:
            self.path.replace(_older(self.path))
            self.close()
            fd = self._opened()
        try:
            written = os.write(fd, line)
            if written < len(line):
                os.write(fd, line[written:])  # a full disk takes a part first, and says why only now
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, self._size)
            self.close()
            raise
        self._size += len(line)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _is_in_place(self, fd: int) -> bool:
        """Return whether the file is still the one of its name, and as long as it was left."""
        status = os.fstat(fd)
        try:
            named = self.path.stat()
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == (status.st_dev, status.st_ino) and status.st_size == self._size

    def _opened(self) -> int:
        if self._fd is None:
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._size = _without_torn_line(fd)
            except OSError:
                os.close(fd)
                raise
            self._fd = fd
        return self._fd


def _without_torn_line(fd: int) -> int:
    """Cut off what follows the last newline: kill -9 came in the middle; give the size."""
    size = os.fstat(fd).st_size
    whole = size
    while whole:
        block = min(whole, 1 << 16)
        at = os.pread(fd, block, whole - block).rfind(b"\n")
        if at >= 0:
            whole += at + 1 - block
            break
        whole -= block
    if whole < size:
        os.ftruncate(fd, whole)
    return whole
