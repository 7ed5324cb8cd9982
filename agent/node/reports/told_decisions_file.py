"""How far the decision log has been told to the webhook, on disk between two starts. Node.

A file that is not understood is passed over: then the log that is kept is told again under a new name, as another log.
"""

from __future__ import annotations

import json
import logging
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.core.numbers.document_text import decoded, json_value
from agent.named_file import DOCUMENT_MOST_BYTES, is_missing, read_named
from agent.node.files.atomic_write import replace_file
from agent.node.files.documents import Document, DocumentFormatError

log = logging.getLogger(__name__)

FILE_NAME: Final = "told-decisions"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldDecisions:
    """How far it has come."""

    incarnation: str
    """Of the log: a UUID."""
    sequence: int = 0
    """The highest number that the webhook has taken."""
    dropped: int = 0
    """Decisions that went before they could be told."""


_TOLD: Final = Document(ToldDecisions, "told_decisions", 1)


class ToldDecisionsFile:
    """Reads and keeps; not for several threads at once."""

    def __init__(self, path: Path | None) -> None:
        """Begin; None = memory only."""
        self._path = path

    def read(self, *, last_sequence: int) -> ToldDecisions:
        """Return how far the log has been told; a log whose numbers begin anew is another one."""
        progress = None
        if self._path is not None and not is_missing(self._path):
            try:
                progress = _TOLD.from_json(json_value(decoded(read_named(self._path, most_bytes=DOCUMENT_MOST_BYTES))))
            except (OSError, ValueError, RecursionError, DocumentFormatError) as error:
                log.warning("how far decisions were told is not understood", extra={"cause": str(error)})
        if progress is None or progress.sequence > last_sequence:
            return ToldDecisions(incarnation=str(uuid.uuid4()))
        return progress

    def keep(self, progress: ToldDecisions) -> None:
        """Replace what was kept."""
        if self._path is None:
            return
        try:
            replace_file(self._path, json.dumps(_TOLD.to_json(progress), separators=(",", ":")).encode())
        except OSError as error:
            log.warning("how far decisions were told is not kept", extra={"cause": str(error)})
