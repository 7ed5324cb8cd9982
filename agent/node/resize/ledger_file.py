"""The ledger of acting on disk: what is under way and what was refused must not be forgotten over a restart. Node.

Kept before each resize is sent, so that an agent that dies between the two knows of it. A file that is damaged is set
aside: its resizes are then seen in the pods, and what is lost are cool-downs and refusals.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Final

from agent.core.numbers.document_text import decoded, json_value
from agent.core.orders.plan_options import ActOptions
from agent.core.resize.ledger import Ledger
from agent.core.resize.record import LedgerState
from agent.named_file import DOCUMENT_MOST_BYTES, read_named
from agent.node.files.atomic_write import replace_file
from agent.node.files.documents import Document, DocumentFormatError

log = logging.getLogger(__name__)

FILE_NAME: Final = "ledger"
_LEDGER: Final = Document(LedgerState, "ledger", 2)


class LedgerFile:
    """Reads and keeps; see the module's docstring. Not for several threads at once."""

    def __init__(
        self,
        path: Path | None,  # The file; None = memory only
    ) -> None:
        self._path = path
        self._kept: LedgerState | None = None
        self.fault: str | None = None
        """Why the newest state is not on disk; None = it is, or is not meant to be."""

    def read(self, act: ActOptions, *, now_seconds: float) -> Ledger:
        """Begin a ledger with what was kept."""
        return Ledger(act, self._read(), now_seconds=now_seconds)

    def _read(self) -> LedgerState:
        if self._path is None:
            return LedgerState()
        try:
            return _LEDGER.from_json(json_value(decoded(read_named(self._path, most_bytes=DOCUMENT_MOST_BYTES))))
        except FileNotFoundError:
            return LedgerState()
        except (OSError, ValueError, RecursionError, DocumentFormatError) as error:
            aside = self._path.with_name(f"{self._path.name}.damaged")
            log.warning("the ledger is not understood, beginning anew", extra={"cause": str(error), "kept": str(aside)})
            try:
                self._path.replace(aside)
            except OSError as failure:
                log.warning("the damaged ledger stays where it is", extra={"cause": str(failure)})
            return LedgerState()

    def keep(self, ledger: Ledger) -> bool:
        """Write what has changed since the last time; False = the disk does not take it (said once)."""
        if self._path is None:
            return True
        state = ledger.kept()
        if state == self._kept and self.fault is None:
            return True
        try:
            replace_file(self._path, json.dumps(_LEDGER.to_json(state), separators=(",", ":")).encode())
        except OSError as error:
            if self.fault is None:
                log.warning("the ledger is not kept", extra={"cause": str(error)})
            self.fault = f"{self._path}: {error.strerror or error}"
            return False
        self._kept, self.fault = state, None
        return True
