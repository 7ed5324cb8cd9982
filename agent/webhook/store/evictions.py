"""What the store keeps of evictions: whom, when, and how far. Webhook.

Each call is one transaction that has the arbiter's tables to itself, over all replicas: what is counted in it is still
so when it commits. The tokens that are out are the rows of a window (``core.arbiter_budget``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, case, delete, func, insert, or_, select, update

from agent.core.cluster.pod import PodRef
from agent.core.cluster.workload import Workload
from agent.core.eviction.budget import HOUR_SECONDS, MINUTE_SECONDS, EvictionState, Spent
from agent.core.eviction.proposal import Ruling, Want
from agent.webhook.store.database.tables import eviction_back_offs, evictions
from agent.webhook.store.store import Store

KEPT_SECONDS: Final = 7 * 86_400.0
"""A settled eviction is remembered for so long; no uid is ever used again, and no window is longer than a day."""
MOST_UNSETTLED: Final = 50
"""Looked into at a time."""
_HOLDING: Final = tuple(state.value for state in EvictionState if state.holds_tokens)

Judge = Callable[[Spent], Ruling | None]
"""Says what speaks against one more eviction; None = nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionWish:
    """Who is to be evicted."""

    ref: PodRef
    workload: Workload
    node: str
    want: Want
    needed: str = ""
    """What the node says of it, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRecord:
    """One eviction that was begun."""

    ref: PodRef
    workload: Workload
    node: str
    want: Want
    state: EvictionState
    requested_unix_seconds: float
    done_unix_seconds: float | None
    """When it was settled; None = it is not."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """For how long a workload is left alone."""

    refusals: int
    """In a row, this one included."""
    until_unix_seconds: float


class EvictionStore:
    """The arbiter's part of the store; any thread. Every method may raise ``StoreAway``: then nothing was changed."""

    def __init__(self, store: Store, *, clock: Callable[[Connection], float] | None = None) -> None:
        """Take the parts.

        Args:
            clock: Unix seconds by the one clock that all replicas share, as ``store_clock`` gives them: clocks of
                replicas that differ would let more through than the budgets. None = what callers say of the time.
        """
        self._store, self._clock = store, clock

    def now(self, given_unix_seconds: float) -> float:
        """Return the time that evictions are kept by, where the store has no clock that given by the caller's."""
        if self._clock is None:
            return given_unix_seconds
        with self._store.reading() as connection:
            return self._clock(connection)

    def _time(self, connection: Connection, given_unix_seconds: float) -> float:
        return given_unix_seconds if self._clock is None else self._clock(connection)

    def begin(
        self, wish: EvictionWish, judge: Judge, *, missing_seconds: float, now_unix_seconds: float
    ) -> Ruling | Spent:
        """Take the tokens for one eviction, or none of them.

        Args:
            judge: Decides, by what was done up to this very moment.
            missing_seconds: For how long an evicted pod counts as missing.

        Returns:
            Why not, and nothing was taken; or what had been spent before: then the eviction is begun, and ``settle``
            has to follow.
        """
        with self._store.transaction() as connection:
            now_unix_seconds = self._time(connection, now_unix_seconds)
            spent = _spent(connection, wish, missing_seconds, now_unix_seconds)
            ruling = judge(spent)
            if ruling is not None:
                return ruling
            _forget_old(connection, now_unix_seconds)
            values = {
                "requested_unix_seconds": now_unix_seconds,
                "node": wish.node,
                "reason": wish.want.value,
                "state": EvictionState.BEGUN.value,
                "detail": wish.needed,
                "done_unix_seconds": None,
            }
            if spent.state is not None:
                connection.execute(update(evictions).where(evictions.c.pod_uid == wish.ref.uid).values(values))
            else:
                connection.execute(
                    insert(evictions).values(
                        **values,
                        namespace=wish.ref.namespace,
                        workload_kind=wish.workload.kind,
                        workload_name=wish.workload.name,
                        pod=wish.ref.name,
                        pod_uid=wish.ref.uid,
                    )
                )
            return spent

    def settle(
        self,
        pod_uid: str,
        workload: Workload,
        state: EvictionState,
        detail: str,
        *,
        begun_unix_seconds: float,
        now_unix_seconds: float,
        back_off: BackOff | None = None,
    ) -> None:
        """Record what came of an eviction. One that was made stays made, whatever is said of it later.

        Args:
            state: What came of it.
            begun_unix_seconds: Of which try it speaks: where another one was begun meanwhile, only that the pod was
                evicted is put down.
            detail: One line for people.
            back_off: Leave the workload alone for some time; None = no reason to, and an eviction that was made ends
                any back-off.
        """
        final_state = EvictionState.EVICTED
        clauses = [evictions.c.pod_uid == pod_uid, evictions.c.state != final_state.value]
        if state is not final_state:
            clauses.append(evictions.c.requested_unix_seconds == begun_unix_seconds)
        with self._store.transaction() as connection:
            done = self._time(connection, now_unix_seconds)
            connection.execute(
                update(evictions).where(and_(*clauses)).values(state=state.value, detail=detail, done_unix_seconds=done)
            )
            if back_off is not None or state is final_state:
                connection.execute(delete(eviction_back_offs).where(_back_off_of(workload)))
            if back_off is not None:
                connection.execute(
                    insert(eviction_back_offs).values(
                        namespace=workload.namespace,
                        workload_kind=workload.kind,
                        workload_name=workload.name,
                        refusals=back_off.refusals,
                        until_unix_seconds=back_off.until_unix_seconds,
                    )
                )

    def unsettled(self, before_unix_seconds: float, after_unix_seconds: float) -> list[EvictionRecord]:
        """Return evictions that were begun before a time and never settled: their replica was killed.

        Later ones may still be under way, but for those that seem to be of the future: a clock was wrong.
        """
        is_old = or_(
            evictions.c.requested_unix_seconds < before_unix_seconds,
            evictions.c.requested_unix_seconds > after_unix_seconds,
        )
        is_begun = evictions.c.state == EvictionState.BEGUN.value
        with self._store.reading() as connection:
            return _read(connection, is_begun, is_old, most=MOST_UNSETTLED)

    def newest(self, most: int) -> list[EvictionRecord]:
        """Return the evictions begun last, newest first."""
        with self._store.reading() as connection:
            return _read(connection, most=most)


def _spent(connection: Connection, wish: EvictionWish, missing_seconds: float, now_unix_seconds: float) -> Spent:
    begun = evictions.c.requested_unix_seconds

    def count(seconds: float, *which: ColumnElement[bool]) -> ColumnElement[int]:
        # Those of the future, after a clock was wrong, count too: rather none than too many.
        return func.coalesce(func.sum(case((and_(begun > now_unix_seconds - seconds, *which), 1), else_=0)), 0)

    in_namespace = evictions.c.namespace == wish.ref.namespace
    of_workload = _of_workload(wish.workload)
    counts = connection.execute(
        select(
            count(MINUTE_SECONDS),
            count(MINUTE_SECONDS, in_namespace),
            count(HOUR_SECONDS, evictions.c.node == wish.node),
            count(HOUR_SECONDS, of_workload),
            count(missing_seconds, of_workload),
        ).where(
            begun > now_unix_seconds - max(HOUR_SECONDS, missing_seconds),
            evictions.c.state.in_(_HOLDING),
        )
    ).one()
    own = connection.execute(select(evictions.c.state).where(evictions.c.pod_uid == wish.ref.uid)).scalar()
    back_off = connection.execute(
        select(eviction_back_offs.c.refusals, eviction_back_offs.c.until_unix_seconds).where(
            _back_off_of(wish.workload)
        )
    ).one_or_none()
    return Spent(
        now_unix_seconds=now_unix_seconds,
        cluster_minute=counts[0],
        namespace_minute=counts[1],
        node_hour=counts[2],
        workload_hour=counts[3],
        workload_missing=counts[4],
        state=None if own is None else EvictionState(own),
        refusals=0 if back_off is None else back_off.refusals,
        back_off_until_unix_seconds=None if back_off is None else back_off.until_unix_seconds,
    )


def _forget_old(connection: Connection, now_unix_seconds: float) -> None:
    """Forget what no budget asks for any more, and what a clock that was wrong put far into the future."""
    begun, until = evictions.c.requested_unix_seconds, eviction_back_offs.c.until_unix_seconds
    for column, table in ((begun, evictions), (until, eviction_back_offs)):
        is_far = or_(column < now_unix_seconds - KEPT_SECONDS, column > now_unix_seconds + KEPT_SECONDS)
        connection.execute(delete(table).where(is_far))


def _of_workload(workload: Workload) -> ColumnElement[bool]:
    return and_(
        evictions.c.namespace == workload.namespace,
        evictions.c.workload_kind == workload.kind,
        evictions.c.workload_name == workload.name,
    )


def _back_off_of(workload: Workload) -> ColumnElement[bool]:
    return and_(
        eviction_back_offs.c.namespace == workload.namespace,
        eviction_back_offs.c.workload_kind == workload.kind,
        eviction_back_offs.c.workload_name == workload.name,
    )


def _read(connection: Connection, *which: ColumnElement[bool], most: int) -> list[EvictionRecord]:
    newest = (evictions.c.requested_unix_seconds.desc(), evictions.c.id.desc())
    rows = connection.execute(select(evictions).where(*which).order_by(*newest).limit(most))
    return [_record(row) for row in rows.mappings()]


def _record(row: RowMapping) -> EvictionRecord:
    return EvictionRecord(
        ref=PodRef(namespace=row["namespace"], name=row["pod"], uid=row["pod_uid"]),
        workload=Workload(namespace=row["namespace"], kind=row["workload_kind"], name=row["workload_name"]),
        node=row["node"],
        want=Want(row["reason"]),
        state=EvictionState(row["state"]),
        requested_unix_seconds=row["requested_unix_seconds"],
        done_unix_seconds=row["done_unix_seconds"],
        detail=row["detail"],
    )
