"""The store's sketches and its place in the log, as of one moment. Webhook."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from sqlalchemy import Connection, LargeBinary, bindparam, cast, func, select

from agent.webhook.store.database.tables import counters, sketches
from agent.webhook.store.hour_heads import KeptHeads
from agent.webhook.store.shapes import SketchHeads, StoredSketch
from agent.webhook.store.statements import OLDEST_HOUR, SKETCHES_OF

PIECE: Final = 500
"""Whole sketches written or read with one statement."""
_Item = TypeVar("_Item")

_SKETCHES: Final = select(sketches.c.key, sketches.c.unix_hour, sketches.c.payload).where(
    sketches.c.unix_hour >= bindparam("b_since")
)
_NEWEST_HOUR: Final = select(func.max(sketches.c.unix_hour))
_NEXT_HOUR: Final = _NEWEST_HOUR.where(sketches.c.unix_hour < bindparam("b_before"))
_BEGINNINGS: Final = (
    select(sketches.c.key, func.substr(sketches.c.payload, 1, bindparam("b_length")).label("beginning"))
    .where(sketches.c.unix_hour == bindparam("b_hour"))
    .order_by(sketches.c.key)
)
_SEPARATOR: Final = "\n"
_HOUR: Final = _BEGINNINGS.subquery()
_JOINED_ON_FILE: Final = select(
    func.count().label("sketches"),
    func.group_concat(_HOUR.c.key, _SEPARATOR).label("names"),
    func.group_concat(func.hex(_HOUR.c.beginning), "").label("joined"),
)
_JOINED_ON_SERVER: Final = select(
    func.count().label("sketches"),
    func.string_agg(_HOUR.c.key, _SEPARATOR).label("names"),
    func.string_agg(_HOUR.c.beginning, cast(b"", LargeBinary)).label("joined"),
)


class StoreSnapshot:
    """The sketches of one moment. For one thread, and as long as the transaction is open in which it was taken."""

    def __init__(self, connection: Connection, since_unix_hour: int) -> None:
        """Take a connection in a transaction that sees one moment."""
        self._connection = connection
        self._since_unix_hour = since_unix_hour
        self._kept: Final = KeptHeads(connection)
        self.folded_through: Final = self._kept.folded_through
        """Reports up to this id are in the sketches; tail from here."""
        self.sketches: Final = self._sketches()
        """All of them, in no order, read in pieces."""
        self._names = ""
        self._keys: list[str] = []
        """Of the hour that was read last."""

    def close(self) -> None:
        """Read no more."""
        self.sketches.close()

    def _sketches(self) -> Generator[StoredSketch, None, None]:
        in_pieces = self._connection.execution_options(yield_per=PIECE)
        with in_pieces.execute(_SKETCHES, {"b_since": self._since_unix_hour}) as rows:
            for row in rows:
                yield StoredSketch(key=row.key, unix_hour=row.unix_hour, payload=bytes(row.payload))

    def beginnings(self, length: int) -> Iterator[SketchHeads]:
        """Read the first bytes of all sketches, the newest hour first; far cheaper than reading them whole.

        As they were folded: what was imported or forgotten since may be in them or not, and stands in the log.
        """
        hour: int | None = self._connection.execute(_NEWEST_HOUR).scalar()
        while hour is not None and hour >= self._since_unix_hour:
            kept_heads = self._kept.read(hour, length) if hour in self._kept.hours else None
            heads = kept_heads or self.beginnings_at(hour, length)
            if heads.keys:
                yield heads
            hour = self._hour_before(hour)

    def _hour_before(self, hour: int) -> int | None:
        if hour - 1 in self._kept.hours:
            return hour - 1
        previous_hour: int | None = self._connection.execute(_NEXT_HOUR, {"b_before": hour}).scalar()
        return previous_hour

    def hour_without_heads(self, before_unix_hour: int) -> int | None:
        """Return the newest hour before one whose heads are not kept, back to the oldest; None = all of them are."""
        oldest: int | None = self._connection.execute(OLDEST_HOUR).scalar()
        if oldest is None:
            return None
        hours = range(before_unix_hour - 1, max(oldest, self._since_unix_hour) - 1, -1)
        return next((hour for hour in hours if hour not in self._kept.hours), None)

    def beginnings_at(self, hour: int, length: int) -> SketchHeads:
        """Read the first bytes of the sketches of one hour."""
        return self._joined(hour, length) or self._one_by_one(hour, length)

    def _joined(self, hour: int, length: int) -> SketchHeads | None:
        """Let the database sum up an hour, far quicker than rows come one by one; None = it is not plain."""
        is_file = self._connection.dialect.name == "sqlite"
        statement = _JOINED_ON_FILE if is_file else _JOINED_ON_SERVER
        row = self._connection.execute(statement, {"b_hour": hour, "b_length": length}).mappings().one()
        names: str = row["names"] or ""
        joined = bytes.fromhex(row["joined"] or "") if is_file else bytes(row["joined"] or b"")
        keys = self._keys if names == self._names else names.split(_SEPARATOR)
        count: int = row["sketches"]
        if len(keys) != count or len(joined) != count * length:
            return None  # a key with a separator in it, or a sketch that is too short
        self._names, self._keys = names, keys
        return SketchHeads(hour, keys, joined)

    def _one_by_one(self, hour: int, length: int) -> SketchHeads:
        rows = self._connection.execute(_BEGINNINGS, {"b_hour": hour, "b_length": length}).all()
        # SQLite gives NULL for the beginning of nothing.
        joined = b"".join(bytes(row.beginning or b"").ljust(length, b"\0") for row in rows)
        return SketchHeads(hour, [row.key for row in rows], joined)

    def sketches_of(self, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterator[StoredSketch]:
        """Read the sketches of these keys at these hours whole, as far as there are any, in no order."""
        return sketches_of(self._connection, keys, unix_hours)


def sketches_of(connection: Connection, keys: Iterable[str], unix_hours: Iterable[int]) -> Iterator[StoredSketch]:
    """Read the sketches of these keys at these hours, as far as there are any, in no order."""
    hours = sorted(set(unix_hours))
    for piece in pieces(set(keys), PIECE):
        for row in connection.execute(SKETCHES_OF, {"b_keys": piece, "b_hours": hours}):
            yield StoredSketch(key=row.key, unix_hour=row.unix_hour, payload=bytes(row.payload))


def counter(connection: Connection, name: str) -> int:
    """Read one of the counters."""
    value: int = connection.execute(select(counters.c.value).where(counters.c.name == name)).scalar_one()
    return value


def pieces(items: Iterable[_Item], size: int) -> Iterator[Sequence[_Item]]:
    """Cut into lists of at most so many."""
    iterator = iter(items)
    while piece := list(itertools.islice(iterator, size)):
        yield piece
