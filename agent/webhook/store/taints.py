"""Who was granted the overload taint lately, shared by all replicas. Webhook; statements only, the rule is core's."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, delete, insert, or_, select

from agent.core.eviction.taint_cap import TaintRuling
from agent.webhook.store.database.tables import taint_grants
from agent.webhook.store.store import Store

Judge = Callable[[frozenset[str]], TaintRuling]
"""Says by who else was granted it whether one more node may be."""


class TaintStore:
    """Grants of taints; any thread. Every method may raise ``StoreAway``: then nothing was changed."""

    def __init__(self, store: Store, *, now: Callable[[Connection], float]) -> None:
        """Store the parts; ``now`` returns Unix seconds by the one clock that all replicas share."""
        self._store, self._now = store, now

    def grant(self, node: str, judge: Judge, *, held_seconds: float) -> TaintRuling:
        """Grant a node a place for so long, or not, as ``judge`` decides; one after the other over all replicas."""
        with self._store.transaction() as connection:
            now = self._now(connection)
            until, granted = taint_grants.c.until_unix_seconds, taint_grants.c.granted_unix_seconds
            # One that seems to be of the future was written by a clock that was wrong, and would stay for long.
            connection.execute(delete(taint_grants).where(or_(until <= now, granted > now + held_seconds)))
            ruling = judge(frozenset(connection.execute(select(taint_grants.c.node)).scalars()))
            if ruling.is_granted:
                connection.execute(delete(taint_grants).where(taint_grants.c.node == node))
                connection.execute(
                    insert(taint_grants).values(
                        node=node, granted_unix_seconds=now, until_unix_seconds=now + held_seconds
                    )
                )
            return ruling
