"""The heads of all sketches of an hour in one row, for hours that are over: a start reads them alone. Webhook.

A fortnight of 20,000 containers is 4 GB of sketches, whose heads are scattered over every page of it, and 200 MB of
heads. They are kept by the leader, and are true as of a fold: each fold drops those of the hours that it changes. What
is imported or forgotten changes sketches too, and is heeded by the fold that takes its entry from the log; who reads
the heads before meets that entry in the log behind them. A replica of a release before this table drops nothing when it
folds, which is seen by a counter that it does not move: then none of the heads is believed, and all are dropped.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

import msgspec
from sqlalchemy import Connection, bindparam, delete, exists, insert, select, update

from agent.webhook.store.database.tables import FOLDED_THROUGH, HEADS_THROUGH, counters, reports, sketch_heads
from agent.webhook.store.shapes import SketchHeads

_names_encoder: Final = msgspec.msgpack.Encoder()
_names_decoder: Final = msgspec.msgpack.Decoder(list[str])
_QUICKEST: Final = 1
"""Of zlib's levels."""
_COUNTERS: Final = select(counters.c.name, counters.c.value).where(counters.c.name.in_((FOLDED_THROUGH, HEADS_THROUGH)))
_HOURS: Final = select(sketch_heads.c.unix_hour)
_READ: Final = select(sketch_heads.c.names, sketch_heads.c.joined).where(
    sketch_heads.c.unix_hour == bindparam("b_hour")
)
_LOCK: Final = (
    update(counters)
    .where(counters.c.name == FOLDED_THROUGH, counters.c.value == bindparam("b_base"))
    .values(value=counters.c.value)
)
_MOVE: Final = update(counters).where(counters.c.name == HEADS_THROUGH).values(value=bindparam("b_through"))
_MOVE_IF_TRUE: Final = _MOVE.where(counters.c.value == bindparam("b_base"))
_THESE: Final = delete(sketch_heads).where(sketch_heads.c.unix_hour.in_(bindparam("b_hours", expanding=True)))
_OLD: Final = delete(sketch_heads).where(sketch_heads.c.unix_hour < bindparam("b_before"))
_IS_ORDERED: Final = select(exists().where(reports.c.id <= bindparam("b_through"), reports.c.incarnation == ""))
"""Whether something was imported or forgotten by what is folded: such entries are of no incarnation."""


class KeptHeads:
    """The rows of one moment; for one thread, as long as its transaction is open."""

    def __init__(self, connection: Connection) -> None:
        """Look which hours there are."""
        self._connection = connection
        values = {row.name: row.value for row in connection.execute(_COUNTERS)}
        self.folded_through: Final[int] = values[FOLDED_THROUGH]
        is_true = values.get(HEADS_THROUGH) == self.folded_through
        self.hours: Final[frozenset[int]] = frozenset(connection.scalars(_HOURS)) if is_true else frozenset()
        self._names = b""
        self._keys: list[str] = []
        """Of the hour that was read last."""

    def read(self, hour: int, length: int) -> SketchHeads | None:
        """Read one of the hours; None = it is not there, not readable, or its heads are of another length."""
        row = self._connection.execute(_READ, {"b_hour": hour}).one_or_none()
        if row is None:
            return None
        names, joined = bytes(row.names), bytes(row.joined)
        if names != self._names:
            try:
                self._keys = _names_decoder.decode(zlib.decompress(names))
            except (zlib.error, msgspec.DecodeError):
                return None  # the sketches themselves tell
            self._names = names
        return SketchHeads(hour, self._keys, joined) if len(joined) == length * len(self._keys) else None


def keep(connection: Connection, heads: SketchHeads, base_id: int) -> bool:
    """Write an hour's row, of sketches as they were folded through ``base_id``; False = another fold came between.

    In a transaction that writes.
    """
    if connection.execute(_LOCK, {"b_base": base_id}).rowcount != 1:
        return False
    if connection.execute(_MOVE_IF_TRUE, {"b_base": base_id, "b_through": base_id}).rowcount != 1:
        connection.execute(delete(sketch_heads))
        connection.execute(_MOVE, {"b_through": base_id})
    names = zlib.compress(_names_encoder.encode(heads.keys), _QUICKEST)
    connection.execute(_THESE, {"b_hours": [heads.unix_hour]})
    connection.execute(insert(sketch_heads), {"unix_hour": heads.unix_hour, "names": names, "joined": heads.joined})
    return True


def drop(
    connection: Connection, hours: Iterable[int], drop_before_unix_hour: int, *, base_id: int, through_id: int
) -> None:
    """Drop what a fold makes untrue, before the log that it folds is gone; in its transaction.

    Args:
        hours: Those of the sketches that it changed.
        drop_before_unix_hour: Earlier sketches go.
        base_id: Where the log was folded to before.
        through_id: Where it is now.
    """
    if connection.execute(_IS_ORDERED, {"b_through": through_id}).scalar_one():
        connection.execute(delete(sketch_heads))
    else:
        connection.execute(_THESE, {"b_hours": sorted(hours)})
        connection.execute(_OLD, {"b_before": drop_before_unix_hour})
    # Stays behind where it was behind.
    connection.execute(_MOVE_IF_TRUE, {"b_base": base_id, "b_through": through_id})
