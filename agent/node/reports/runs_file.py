"""Runs that are not told yet, on disk while the agent is down or the webhook away. Node.

They mean something within one boot: their ends are moments of a clock that begins with it. A file of another boot, or
one that is not understood, is passed over: what is lost are some runs of Jobs.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agent.core.history.workloads.job_run import JobRun
from agent.core.numbers.document_text import decoded, json_value
from agent.core.numbers.later_field import LATER
from agent.named_file import DOCUMENT_MOST_BYTES, is_missing, read_named
from agent.node.files.atomic_write import replace_file
from agent.node.files.documents import Document, DocumentFormatError

log = logging.getLogger(__name__)

FILE_NAME: Final = "runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRun:
    """A run that is to be told; its age grows until then."""

    pod: str
    pod_uid: str
    ended_ns: int
    """CLOCK_MONOTONIC."""
    row: JobRun
    is_start: bool = field(default=False, metadata=LATER)
    """It is the start of a pod that goes on running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRuns:
    """All of them, oldest first."""

    boot_id: str
    runs: tuple[WaitingRun, ...] = ()


_RUNS: Final = Document(WaitingRuns, "runs", 1)


class RunsFile:
    """Reads and keeps; see the module's docstring. Not for several threads at once."""

    def __init__(
        self,
        path: Path | None,  # None = memory only
        boot_id: str,
    ) -> None:
        self._path, self._boot_id = path, boot_id
        self._has_any = path is not None and not is_missing(path)

    def read(self) -> tuple[WaitingRun, ...]:
        """Return what was kept in this boot."""
        if self._path is None or not self._has_any:
            return ()
        try:
            waiting_runs = _RUNS.from_json(json_value(decoded(read_named(self._path, most_bytes=DOCUMENT_MOST_BYTES))))
        except (OSError, ValueError, RecursionError, DocumentFormatError) as error:
            log.warning("runs that were not told are not understood", extra={"cause": str(error)})
            return ()
        return waiting_runs.runs if waiting_runs.boot_id == self._boot_id else ()

    def keep(self, runs: tuple[WaitingRun, ...]) -> None:
        """Replace what was kept; none = no file."""
        if self._path is None or not (runs or self._has_any):
            return
        try:
            if runs:
                document = _RUNS.to_json(WaitingRuns(boot_id=self._boot_id, runs=runs))
                replace_file(self._path, json.dumps(document, separators=(",", ":")).encode())
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("runs that are not told yet are not kept", extra={"cause": str(error)})
            return
        self._has_any = bool(runs)
