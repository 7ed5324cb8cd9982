"""The store's sketches into the rows of the index, a few thousand at a time. Webhook."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import numpy as np

from agent.core.workload_keys import parse_key
from agent.webhook.sketches import is_readable, read_heads
from agent.webhook.store_shapes import StoredSketch
from agent.webhook.workload_entries import Entries
from agent.webhook.workload_rows import RowTable

_LOAD_PIECE: Final = 4096


class SketchLoad:
    """One reading of all sketches; they replace what the rows knew of their hours."""

    def __init__(self, entries: Entries, lock: threading.Lock, *, sized_kinds: Collection[str]) -> None:
        """Begin.

        Args:
            entries: Where they go.
            lock: Held for one piece at a time.
            sized_kinds: Of owners whose sketches are taken: what still runs of the others is reported again.
        """
        self._entries, self._lock, self._sized_kinds = entries, lock, sized_kinds
        self._rows_of_keys: dict[str, tuple[RowTable, int] | None] = {}

    def run(self, sketches: Iterable[StoredSketch], *, on_piece: Iterator[None] | None) -> int:
        """Take all; give how many could not be read. See ``WorkloadIndex.load``."""
        bad = 0
        piece: list[StoredSketch] = []
        for sketch in sketches:
            piece.append(sketch)
            if len(piece) == _LOAD_PIECE:
                bad += self._take(piece)
                piece = []
                if on_piece is not None:
                    next(on_piece, None)
        bad += self._take(piece)
        with self._lock:
            bad += self._entries.by_class.end_load()
            bad += self._entries.by_node.end_load()
        return bad

    def _take(self, piece: list[StoredSketch]) -> int:
        whole = len(piece)
        piece = [sketch for sketch in piece if is_readable(sketch.payload)]
        payloads = [sketch.payload for sketch in piece]
        heads = read_heads(payloads)
        entries = self._entries
        with self._lock:
            for unix_hour in sorted({sketch.unix_hour for sketch in piece}):
                entries.open_hour(unix_hour)
            for table in (entries.by_class, entries.by_node):
                indices: list[int] = []
                rows: list[int] = []
                for index, sketch in enumerate(piece):
                    place = self._place_of(sketch.key)
                    if place is not None and place[0] is table:
                        indices.append(index)
                        rows.append(place[1])
                if indices:
                    hours = np.array([piece[index].unix_hour for index in indices], dtype=np.int64)
                    table.load(
                        np.array(rows, dtype=np.intp),
                        hours,
                        heads[indices],
                        [payloads[index] for index in indices],
                        entries.numbers,
                    )
        return whole - len(piece)

    def _place_of(self, text: str) -> tuple[RowTable, int] | None:
        if text not in self._rows_of_keys:
            key = parse_key(text)
            is_sized = key.workload.kind in self._sized_kinds
            self._rows_of_keys[text] = self._entries.row_of(key) if is_sized else None
        return self._rows_of_keys[text]
