"""Which image each row of the history runs, and since when: hours of another image tell less of the one that runs now.

Node. A row stands for the containers of a workload on this node: the image of its newest pod counts, so that a rollout
half done is one change and not many. It is saved beside the history each hour and at the end; an agent that was killed
learns of a change anew from the pods.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import numpy as np

from agent.core.numbers.arrays import Rows
from agent.node.history.file import HistoryError, HistoryFile
from agent.node.history.policy_state import Array

log = logging.getLogger(__name__)

STATE_NAME: Final = "images"
_HASH: Final = "image_hash"
_SINCE: Final = "since_unix_seconds"
_CHANGED: Final = "is_changed"


class RowImages:
    """The image of each row of the history, and when it changed. The caller holds the learner's locks."""

    def __init__(self, history: HistoryFile) -> None:
        self._history = history
        self._hash = np.zeros(history.rows, dtype=np.int64)
        self._since = np.zeros(history.rows)
        """When the first pod was created that ran it; Unix seconds, 0 = no image is known of the row."""
        self._is_changed = np.zeros(history.rows, dtype=np.bool_)
        """It ran another one before."""
        self._is_saved = True
        self._load()

    def see(self, row: int, image_hash: int, created_unix_seconds: float) -> bool:
        """Record the image of a container by the creation of its pod; True = it is another than that of older pods."""
        if created_unix_seconds <= self._since[row]:
            return False
        is_known = bool(self._since[row])
        if is_known and image_hash == self._hash[row]:
            return False
        self._hash[row], self._since[row], self._is_changed[row] = image_hash, created_unix_seconds, is_known
        self._is_saved = False
        return is_known

    def changes(self) -> Iterator[tuple[int, float]]:
        """Yield the rows that ran another image before, each with the Unix seconds since when it is the present one."""
        for row in np.flatnonzero(self._is_changed).tolist():
            yield row, float(self._since[row])

    def take_rows(self, rows: int, reused: Rows) -> None:
        """Make room for so many rows, and forget those that came to stand for others."""
        more = max(rows - self._hash.size, 0)
        self._hash, self._since = np.pad(self._hash, (0, more)), np.pad(self._since, (0, more))
        self._is_changed = np.pad(self._is_changed, (0, more))
        self._hash[reused], self._since[reused], self._is_changed[reused] = 0, 0.0, False

    def save(self) -> None:
        """Keep it, where there is news."""
        if self._is_saved or not self._history.is_writable:
            return
        arrays: dict[str, Array] = {_HASH: self._hash, _SINCE: self._since, _CHANGED: self._is_changed}
        try:
            self._history.save_state(STATE_NAME, arrays)
        except HistoryError as error:
            log.warning("images are not kept", extra={"cause": str(error)})
        else:
            self._is_saved = True

    def _load(self) -> None:
        saved = self._history.load_state(STATE_NAME)
        if isinstance(saved, str):
            log.debug("no image is remembered", extra={"cause": saved})
            return
        try:
            for mine, name in ((self._hash, _HASH), (self._since, _SINCE), (self._is_changed, _CHANGED)):
                mine[saved.rows] = saved.arrays[name][saved.saved_rows]
        except (KeyError, IndexError, ValueError) as error:  # whole, but of another version
            log.warning("no image is remembered", extra={"cause": str(error)})
            self.take_rows(0, np.arange(self._hash.size, dtype=np.intp))
