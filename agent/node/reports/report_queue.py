"""Reports that wait to be sent: a bounded queue on disk that outlives restarts, kill -9 and a webhook that is away.

Node. One thread uses it; any may ask for its figures. Each report is one file, written aside and renamed. The number of
the newest report is that of the newest file or, where that has been sent, what the file ``numbering`` says: it is
written before the newest file goes, so that no number is given twice. What no disk takes is kept in memory, under an
incarnation that ends with the process.
"""

from __future__ import annotations

import logging
import uuid
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.named_file import DOCUMENT_MOST_BYTES, read_named
from agent.node.files.atomic_write import replace_file
from agent.node.files.steady_clock import BootClock, BootMoment
from agent.node.reports.report_files import (
    NUMBERING_NAME,
    SUFFIX,
    Numbering,
    header_line,
    numbering_text,
    read_header,
    read_numbering,
)

log = logging.getLogger(__name__)

DIRECTORY_NAME: Final = "reports"
DAY_SECONDS: Final = 86_400.0
OLDEST_SECONDS: Final = 13.5 * DAY_SECONDS
"""The receiver keeps 14 days and refuses what is older."""
MAX_REPORTS: Final = 4096
"""14 days of five minutes; small reports would otherwise be many, and each costs some memory."""
MEMORY_BYTES: Final = 2 << 20
"""What is kept in memory at most, where there is no disk or it is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """The report that is to be sent next."""

    incarnation: str
    sequence: int
    kept: str
    """Text of ``core.rollup_text.kept_text``."""
    end_age_seconds: float
    """Now."""
    lost_reports: int
    """Of its incarnation, up to now."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _WaitingReport:
    numbering: Numbering
    sequence: int
    end: BootMoment
    end_unix_seconds: float
    size_bytes: int
    path: Path | None
    packed: bytes | None = None
    """Where there is no file."""


class ReportQueue:
    """Keeps reports in the order in which they were made; see the module's docstring."""

    def __init__(
        self,
        # Of the queue alone, made if need be; None = in memory. One that cannot be used is said in
        # ``fault``, and memory takes its place.
        directory: Path | None,
        *,
        max_bytes: int,
        boot: BootClock,  # Tells how old a report of this boot is, whatever is done to the wall clock
        wall_now: Callable[[], float],  # UTC seconds: the only clock that knows of reports of an earlier boot
    ) -> None:
        self._directory, self._boot, self._wall_now = directory, boot, wall_now
        self._max_bytes = max_bytes
        self._waiting: deque[_WaitingReport] = deque()
        self._sent_newest: Path | None = None
        """A file that has been sent, and stays as the newest number could not be written."""
        self._kept = Numbering(incarnation=str(uuid.uuid4()))
        """Of reports on disk."""
        self._passing = Numbering(incarnation=str(uuid.uuid4()))
        """Of reports in memory."""
        self.newest_end: BootMoment | None = None
        """When the interval of the newest report ended; None = not known."""
        self.size_bytes = 0
        self.fault: str | None = None
        """Why the directory cannot be written; None = it can."""
        if directory is not None:
            self._take_up(directory)

    @property
    def reports(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    @property
    def lost(self) -> int:
        """Return how many will never be sent again and were not taken."""
        return self._kept.lost + self._passing.lost

    # -- making ----------------------------------------------------------------------------------------------------

    def add(self, text_of: Callable[[str, int], str], *, end: BootMoment, end_unix_seconds: float) -> None:
        """Append a report.

        Args:
            text_of: Gives its text, of incarnation and sequence number.
            end: When its interval ended.
            end_unix_seconds: The same by the wall clock, which is used after a reboot.
        """
        self.newest_end = end
        new = self._on_disk(text_of, end, end_unix_seconds) or self._in_memory(text_of, end, end_unix_seconds)
        self._waiting.append(new)
        self.size_bytes += new.size_bytes
        self._keep_bounds()

    def _on_disk(
        self, text_of: Callable[[str, int], str], end: BootMoment, unix_seconds: float
    ) -> _WaitingReport | None:
        """Write a report's file; None = it cannot be."""
        if self._directory is None:
            return None
        sequence = self._kept.sequence + 1
        first_line = header_line(self._kept.incarnation, sequence, end, unix_seconds)
        packed = _packed(text_of(self._kept.incarnation, sequence))
        path = self._directory / f"{sequence:012d}{SUFFIX}"
        if not self._attempt(lambda: replace_file(path, first_line, packed)):
            if all(waiting.path != path for waiting in self._waiting):
                with suppress(OSError):  # it may be there all the same, and memory now has it under another name
                    path.unlink(missing_ok=True)
            return None
        self._kept.sequence = sequence
        if self._sent_newest is not None:  # a newer file has its number and more
            with suppress(OSError):
                self._sent_newest.unlink(missing_ok=True)
            self._sent_newest = None
        return _WaitingReport(
            numbering=self._kept,
            sequence=sequence,
            end=end,
            end_unix_seconds=unix_seconds,
            size_bytes=len(first_line) + len(packed),
            path=path,
        )

    def _in_memory(self, text_of: Callable[[str, int], str], end: BootMoment, unix_seconds: float) -> _WaitingReport:
        self._passing.sequence += 1
        packed = _packed(text_of(self._passing.incarnation, self._passing.sequence))
        return _WaitingReport(
            numbering=self._passing,
            sequence=self._passing.sequence,
            end=end,
            end_unix_seconds=unix_seconds,
            size_bytes=len(packed),
            path=None,
            packed=packed,
        )

    def _keep_bounds(self) -> None:
        """Drop the oldest while there are too many or too much of them."""
        while self._waiting and (self.size_bytes > self._max_bytes or len(self._waiting) > MAX_REPORTS):
            self._lose(self._waiting[0])
        in_memory = [report for report in self._waiting if report.packed is not None]
        excess_bytes = sum(report.size_bytes for report in in_memory) - MEMORY_BYTES
        for report in in_memory:
            if excess_bytes <= 0:
                break
            excess_bytes -= report.size_bytes
            self._lose(report)

    # -- sending ---------------------------------------------------------------------------------------------------

    def oldest(self) -> Outgoing | None:
        """Return the report that is to be sent next; those too old to be taken, or damaged, are dropped before it."""
        while self._waiting:
            first = self._waiting[0]
            age_seconds = self._age_seconds(first)
            text = _read(first) if age_seconds <= OLDEST_SECONDS else None
            if text is not None:
                return Outgoing(
                    incarnation=first.numbering.incarnation,
                    sequence=first.sequence,
                    kept=text,
                    end_age_seconds=age_seconds,
                    lost_reports=first.numbering.lost,
                )
            log.warning(
                "a report is dropped unsent",
                extra={
                    "sequence": first.sequence,
                    "reason": "damaged" if age_seconds <= OLDEST_SECONDS else f"{age_seconds / DAY_SECONDS:.0f} d old",
                },
            )
            self._lose(first)
        return None

    def taken(self, outgoing: Outgoing) -> None:
        """Drop a report that the webhook has."""
        for report in self._named(outgoing):
            self._remove(report)

    def refused(self, outgoing: Outgoing) -> None:
        """Drop a report that the webhook will never take."""
        for report in self._named(outgoing):
            self._lose(report)

    def _named(self, outgoing: Outgoing) -> list[_WaitingReport]:
        name = (outgoing.incarnation, outgoing.sequence)
        return [report for report in self._waiting if (report.numbering.incarnation, report.sequence) == name]

    def _lose(self, report: _WaitingReport) -> None:
        report.numbering.lost += 1
        self._remove(report)
        if report.numbering is self._kept:
            self._save_numbering()

    def _age_seconds(self, report: _WaitingReport) -> float:
        """Return how long ago a report's interval ended.

        Of this boot it is exact. Of an earlier one the wall clock tells, but it is at least as long as this boot.
        """
        seconds = self._boot.seconds_since(report.end)
        if seconds is not None:
            return max(seconds, 0.0)
        return max(self._wall_now() - report.end_unix_seconds, self._boot.uptime_seconds())

    def _remove(self, report: _WaitingReport) -> None:
        self._waiting.remove(report)
        self.size_bytes -= report.size_bytes
        if report.path is None:
            return
        if report.numbering is self._kept and report.sequence == self._kept.sequence and not self._save_numbering():
            self._sent_newest = report.path  # its name holds the newest number
            return
        with suppress(OSError):  # found again at the next start, sent again, and known by its number
            report.path.unlink(missing_ok=True)

    # -- the directory ---------------------------------------------------------------------------------------------

    def _save_numbering(self) -> bool:
        """Write the newest number and what else no report's file tells; False = it cannot be written."""
        if self._directory is None:
            return True
        path = self._directory / NUMBERING_NAME
        content = numbering_text(self._kept, self.newest_end)
        return self._attempt(lambda: replace_file(path, content))

    def _attempt(self, write: Callable[[], None]) -> bool:
        """Write something; of failures in a row the first is logged."""
        try:
            write()
        except OSError as error:
            if self.fault is None:
                log.warning("reports cannot be kept on disk", extra={"path": str(self._directory), "cause": str(error)})
            self.fault = f"reports cannot be kept in {self._directory}: {error.strerror}"
            return False
        if self.fault is not None:
            log.info("reports are kept on disk again", extra={"path": str(self._directory)})
        self.fault = None
        return True

    def _take_up(self, directory: Path) -> None:
        """Read what is there."""
        if not self._attempt(lambda: directory.mkdir(mode=0o700, parents=True, exist_ok=True)):
            return
        numbering = read_numbering(directory / NUMBERING_NAME)
        if numbering is not None:
            self._kept, self.newest_end = numbering
        damaged = 0
        others: dict[str, Numbering] = {}
        for path in sorted(directory.glob(f"*{SUFFIX}"), reverse=True):
            header = read_header(path)
            if header is None:
                damaged += 1
                with suppress(OSError):
                    path.unlink()
                continue
            if numbering is None and not self._waiting:
                self._kept.incarnation = header.incarnation
            is_own = header.incarnation == self._kept.incarnation
            if is_own and header.sequence > self._kept.sequence:
                self._kept.sequence, self.newest_end = header.sequence, header.end
            other = Numbering(incarnation=header.incarnation)
            self._waiting.appendleft(
                _WaitingReport(
                    numbering=self._kept if is_own else others.setdefault(header.incarnation, other),
                    sequence=header.sequence,
                    end=header.end,
                    end_unix_seconds=header.end_unix_seconds,
                    size_bytes=header.size_bytes,
                    path=path,
                )
            )
            self.size_bytes += header.size_bytes
        if damaged:
            log.warning("reports are damaged and dropped", extra={"path": str(directory), "reports": damaged})
            self._kept.lost += damaged
            self._save_numbering()
        self._keep_bounds()


def _packed(text: str) -> bytes:
    return zlib.compress(text.encode(), 6)


def _read(report: _WaitingReport) -> str | None:
    """Return the text of a report; None = it is not whole."""
    packed = report.packed
    try:
        if packed is None:
            stored = b"" if report.path is None else read_named(report.path, most_bytes=DOCUMENT_MOST_BYTES)
            packed = stored.partition(b"\n")[2]
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(packed, DOCUMENT_MOST_BYTES)
        return text.decode() if unpacking.eof else None
    except (OSError, zlib.error, UnicodeDecodeError):
        return None
