"""What goes into the store and comes out of it, and what may be wrong with it. Webhook; plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agent.core.cluster.workload import Workload

SEQUENCE_MAX: Final = 2**63 - 1
"""Sequence numbers are kept in 64 signed bits."""


class StoreError(Exception):
    """The store cannot do what it was asked; the text is one line for a person, without any password."""


class StoreAway(StoreError):  # noqa: N818 - a state of the world, named as one
    """The database does not answer, is full, locked or read-only: for now. Nothing was acknowledged; ask again."""


class StoreUnusable(StoreError):  # noqa: N818
    """What was named is no place for a store: a mistake in the settings, or a database of something else."""


class SchemaTooNew(StoreError):  # noqa: N818
    """A newer Plimsoll made or changed the database; this one must leave it alone."""

    def __init__(self, *, place: str, found: str, known: str) -> None:
        super().__init__(
            f"{place} has schema {found}, this Plimsoll knows {known} and older: start the newer Plimsoll again"
        )
        self.found: Final = found
        self.known: Final = known


class LogFolded(StoreError):  # noqa: N818
    """Reports after the one asked for are in the sketches already and gone from the log: load a snapshot again."""

    def __init__(self, *, after_id: int, folded_through: int) -> None:
        super().__init__(f"reports {after_id + 1} to {folded_through} are folded and no longer in the log")
        self.folded_through: Final = folded_through


class LogCutBack(StoreError):  # noqa: N818
    """The log ends before the report asked for: the database was lost or put back to what it was; load it again."""

    def __init__(self, *, after_id: int, last_id: int) -> None:
        super().__init__(f"the log ends at report {last_id}, and report {after_id} was read from it before")
        self.last_id: Final = last_id


class FoldRaced(StoreError):  # noqa: N818
    """Somebody else folded, or had something forgotten, in the meantime; nothing was changed."""

    def __init__(self, *, base_id: int, folded_through: int) -> None:
        super().__init__(f"a fold from report {base_id} on finds the log folded through {folded_through}")
        self.folded_through: Final = folded_through


class PodsRaced(StoreError):  # noqa: N818
    """Another report of the node was kept since its pods were read; nothing was changed. Read them again."""

    def __init__(self, *, node: str) -> None:
        super().__init__(f"another replica takes a report of node {node}")


WRONG_CLOCK_SECONDS: Final = 300.0
"""A report from further ahead was taken by a clock that was wrong."""


@dataclass(frozen=True, slots=True)
class PodsRead:
    """The pods of a node as they were read; None = there were none."""

    pods: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReport:
    """A report as it is to be kept."""

    node: str
    incarnation: str
    """Of the node's queue."""
    sequence: int
    """1 to SEQUENCE_MAX."""
    lost_reports: int
    """By the node's own count, since the incarnation began."""
    received_unix_seconds: float
    rows: int
    payload: bytes
    """The accepted rows, encoded; opaque here."""
    pods: bytes | None = None
    """The pods of these rows, encoded; opaque here. None = what is known of the node's pods stays as it is."""
    builds_on: PodsRead | None = None
    """What ``pods`` was made of, which must still stand there; None = whatever stands there."""

    def __post_init__(self) -> None:
        if not 1 <= self.sequence <= SEQUENCE_MAX:
            raise ValueError(f"sequence {self.sequence} is not within 1 and {SEQUENCE_MAX}")
        if not 0 <= self.lost_reports <= SEQUENCE_MAX:
            raise ValueError(f"lost reports {self.lost_reports} are not within 0 and {SEQUENCE_MAX}")
        for name in (self.node, self.incarnation):
            # PostgreSQL keeps no NUL in a text, SQLite would.
            if not name or "\0" in name:
                raise ValueError(f"{name!r} is no name of a node or an incarnation")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOutcome:
    """What became of a report."""

    id: int | None
    """Its place in the log, rising with each; None = a repeat, nothing was written."""
    missing_reports: int
    """Of the incarnation, not here (yet), between its first and its last."""
    lost_reports: int
    """Of the incarnation, dropped by the node before anybody took them: its own count."""

    @property
    def repeated(self) -> bool:
        """Whether it had been taken before."""
        return self.id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedReport:
    """A report in the log."""

    id: int
    node: str
    received_unix_seconds: float
    payload: bytes

    def believed_unix_seconds(self, now_unix_seconds: float) -> float:
        """Return when it was received as far as that can be: none comes from the future.

        A replica whose clock was wrong would otherwise put it into hours to come, in whose slots past ones stand.
        """
        received = self.received_unix_seconds
        return now_unix_seconds if received > now_unix_seconds + WRONG_CLOCK_SECONDS else received


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMark:
    """How far a node's reports have come: its latest incarnation."""

    node: str
    incarnation: str
    since_unix_seconds: float
    """First report of the node, of any incarnation still remembered."""
    last_received_unix_seconds: float
    highest_sequence: int
    reports: int
    """Taken, of this incarnation."""
    missing_reports: int
    lost_reports: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSketch:
    """What one hour holds of one key; both opaque here but for their order."""

    key: str
    """Without NUL."""
    unix_hour: int
    """Hours since 1970."""
    payload: bytes


class SketchHeads(NamedTuple):
    """The first bytes of all sketches of one hour."""

    unix_hour: int
    keys: Sequence[str]
    """In order. Hours with the same keys have the same object, where they are read one after the other."""
    joined: bytes
    """So many bytes of each, in the order of the keys; a shorter sketch has zeros behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDay:
    """In which hours of a day a node had a part in which sketches."""

    unix_day: int
    """Days since 1970."""
    node: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetWish:
    """What is to be forgotten: a workload, or what one node reported."""

    asked_by: str
    workload: Workload | None = None
    node: str | None = None
    since_unix_hour: int = 0
    """Of a node: hours before stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What went, or would go."""

    id: int | None
    """The entry's place in the log; None = nothing was done, it was only looked."""
    hours: dict[str, set[int]]
    """By the key of a history: its hours."""
    rows: int
    """Sketches of the database."""
    reports: int
    """Of the node, in the log and not folded yet."""
    is_known: bool
    """Whether the database knows anything of what was named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOutcome:
    """What became of hours that were imported."""

    id: int | None
    """The entry's place in the log; None = all of them stood there already, nothing was written."""
    changed: int
    """Hours written."""


def plain_text(text: str) -> str:
    """Return a text in which nothing steers a terminal, and that any database takes."""
    return "".join(character if character.isprintable() else " " for character in text)
