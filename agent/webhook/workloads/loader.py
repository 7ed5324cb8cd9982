"""The store's sketches into the rows of the index, a few thousand at a time. Webhook.

Of most sketches only the heads are read: a fortnight of 20,000 containers has seven million. Whole ones are read of
each row's newest hour, whose histograms the index keeps, and of hours with kills.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np

from agent.core.history.workloads.hour_sketch import HourSketch
from agent.core.history.workloads.sketch_key import parse_key
from agent.core.numbers.arrays import Ints
from agent.webhook.store.entries.sketch_bytes import HEAD_BYTES, BadSketchError, Heads, are_readable, decode, read_heads
from agent.webhook.store.shapes import SketchHeads, StoredSketch
from agent.webhook.workloads.entries import Entries

_PIECE: Final = 8192
"""Heads that are taken up at once, in some three milliseconds."""
_WHOLE_PIECE: Final = 256
_NO_PLACE: Final = -1


class LoadedSketches(Protocol):
    """The store's sketches, as far as a load needs them; of one moment."""

    def beginnings(self, length: int) -> Iterator[SketchHeads]:
        """Read the first bytes of all sketches."""

    def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterator[StoredSketch]:
        """Read the sketches of these keys at these hours whole."""


class _Places(dict[str, int]):
    """Where a key's sketches go: twice the row, and one more in the table by node; `_NO_PLACE` = nowhere."""

    def __init__(self, entries: Entries, sized_kinds: Collection[str]) -> None:
        super().__init__()
        self._entries, self._sized_kinds = entries, sized_kinds

    def __missing__(self, text: str) -> int:
        key = parse_key(text)
        location = self._entries.row_of(key) if key.workload.kind in self._sized_kinds else None
        self[text] = place = _NO_PLACE if location is None else 2 * location[1] + (location[0] is self._entries.by_node)
        return place


class SketchLoad:
    """One reading of all sketches; they replace what the rows knew of their hours."""

    def __init__(self, entries: Entries, lock: threading.Lock, *, sized_kinds: Collection[str]) -> None:
        """Begin; sketches are taken of owners of ``sized_kinds``: what still runs of the others is reported again."""
        self._entries, self._lock = entries, lock
        self._places = _Places(entries, sized_kinds)
        self._known_keys: Sequence[str] = ()
        self._known_places: Ints = np.zeros(0, dtype=np.int64)

    def run(self, sketches: LoadedSketches, *, on_piece: Iterator[None] | None) -> int:
        """Load all; return how many could not be read. See ``WorkloadIndex.load``."""
        with self._lock:
            self._entries.by_class.begin_load()
            self._entries.by_node.begin_load()
        bad = 0
        for hour in sketches.beginnings(HEAD_BYTES):
            heads, places = read_heads(hour.joined), self._places_of(hour.keys)
            is_good = are_readable(heads)
            bad += heads.size - int(is_good.sum())
            places = np.where(is_good, places, _NO_PLACE)
            for first in range(0, heads.size, _PIECE):
                piece = slice(first, first + _PIECE)
                self._take(hour.unix_hour, places[piece], heads[piece])
                if on_piece is not None:
                    next(on_piece, None)
        for unix_hour, keys in self._wanted().items():
            whole: list[StoredSketch] = []
            for sketch in sketches.sketches_of(keys, (unix_hour,)):
                whole.append(sketch)
                if len(whole) == _WHOLE_PIECE:
                    bad += self._take_whole(whole)
                    whole = []
                    if on_piece is not None:
                        next(on_piece, None)
            bad += self._take_whole(whole)
        return bad

    def _places_of(self, keys: Sequence[str]) -> Ints:
        """Return where an hour's sketches go; most hours have the keys of the one before."""
        if keys is not self._known_keys:
            known = self._places
            places: list[int] = []
            for first in range(0, len(keys), _PIECE):
                with self._lock:
                    places += [known[key] for key in keys[first : first + _PIECE]]
            self._known_keys, self._known_places = keys, np.array(places, dtype=np.int64)
        return self._known_places

    def _take(self, unix_hour: int, places: Ints, heads: Heads) -> None:
        entries = self._entries
        with self._lock:
            entries.open_hour(unix_hour)
            for table, is_by_node in ((entries.by_class, 0), (entries.by_node, 1)):
                chosen = (places != _NO_PLACE) & (places % 2 == is_by_node)
                if chosen.any():
                    table.load((places[chosen] // 2).astype(np.intp), unix_hour, heads[chosen], entries.numbers)

    def _wanted(self) -> dict[int, list[str]]:
        keys = {place: key for key, place in self._places.items() if place != _NO_PLACE}
        wanted: dict[int, list[str]] = defaultdict(list)
        with self._lock:
            for table, is_by_node in ((self._entries.by_class, 0), (self._entries.by_node, 1)):
                for unix_hour, rows in table.wanted().items():
                    wanted[unix_hour] += [keys[2 * row + is_by_node] for row in rows]
        return wanted

    def _take_whole(self, piece: Sequence[StoredSketch]) -> int:
        read: list[tuple[int, int, HourSketch]] = []
        for stored in piece:
            try:
                sketch = decode(stored.payload, stored.unix_hour)
            except BadSketchError:
                continue
            read.append((self._places[stored.key], stored.unix_hour, sketch))
        with self._lock:
            for place, unix_hour, sketch in read:
                table = self._entries.by_node if place % 2 else self._entries.by_class
                table.load_whole(place // 2, unix_hour, sketch, self._entries.numbers)
        return len(piece) - len(read)
