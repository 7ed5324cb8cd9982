"""Evicts who may go: tokens first, then the API server, then what came of it, so that a kill in between leaks nothing.

Webhook. Made in mode enforce only. Tokens are taken in one transaction over all replicas. The API server judges
disruption budgets and holds the pod's uid as a precondition, so that no successor of the same name ever goes.

A replica that is killed between its tokens and the answer leaves an eviction behind that was begun. It counts as made
until somebody looks at the pod: gone, it was made; still there, it was not, and the tokens are back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from agent.core.eviction.budget import EvictionState, Replicas, Spent, back_off_seconds, budget_ruling
from agent.core.eviction.options import ArbiterOptions
from agent.core.eviction.proposal import Reason, Ruling
from agent.kube.calls.eviction import EvictionAnswer, EvictionKind, evict
from agent.kube.client.api import Api
from agent.webhook.eviction.reads import read_pod
from agent.webhook.store.evictions import BackOff, EvictionRecord, EvictionStore, EvictionWish
from agent.webhook.store.shapes import StoreAway

log = logging.getLogger(__name__)

EVICT_SECONDS: Final = 5.0
"""An agent waits. What is not answered by then may be done all the same, and is looked at later."""
SETTLE_SPACING_SECONDS: Final = 5.0
_BUDGETS: Final = frozenset({EvictionKind.BUDGET, EvictionKind.SEVERAL_BUDGETS, EvictionKind.BROKEN_BUDGET})
_SOON: Final[Mapping[EvictionKind, Reason]] = {
    EvictionKind.STALE_BUDGET: Reason.DISRUPTION_BUDGET,
    EvictionKind.CONTENDED: Reason.DISRUPTION_BUDGET,
    EvictionKind.THROTTLED: Reason.API_AWAY,
    EvictionKind.UNAVAILABLE: Reason.API_AWAY,
}
"""What passes by itself."""


class Evictions:
    """Evicts; see the module's docstring. Any thread."""

    def __init__(
        self,
        *,
        api: Api,
        store: EvictionStore,
        options: ArbiterOptions,
        doubt: Callable[[], Ruling | None],
        wall_now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the parts; ``doubt`` says why nobody may go at the moment, a pause above all, None = somebody may."""
        self._api, self._store, self._options, self._doubt = api, store, options, doubt
        self._wall_now, self._clock = wall_now, clock
        self._lock = threading.Lock()
        self._settle_due_seconds = clock()

    def evict(self, wish: EvictionWish, replicas: Replicas) -> Ruling:
        """Evict a pod if the budgets of the cluster have room for it, and say what came of it."""
        options, began = self._options, self._clock()
        try:
            spent = self._store.begin(
                wish,
                lambda spent: budget_ruling(spent, replicas, options),
                missing_seconds=options.replacement_seconds,
                now_unix_seconds=self._wall_now(),
            )
        except StoreAway as error:
            return Ruling(reason=Reason.STORE_AWAY, detail=str(error))
        if isinstance(spent, Ruling):
            return spent
        begun_unix_seconds = spent.now_unix_seconds
        ruling = self._doubt() or self._lateness(began)
        if ruling is not None:
            self._put_down(wish, EvictionState.VOID, ruling, begun_unix_seconds=begun_unix_seconds)
            return ruling
        answer = evict(self._api, wish.ref, timeout_seconds=EVICT_SECONDS)
        state, ruling, back_off = self._outcome(answer, spent, began)
        log.info(
            "eviction asked for",
            extra={
                "pod": str(wish.ref),
                "uid": wish.ref.uid,
                "node": wish.node,
                "workload": f"{wish.workload.kind}/{wish.workload.name}",
                "reason": wish.want.value,
                "answer": answer.kind.value,
                "detail": answer.message,
            },
        )
        if state is not EvictionState.BEGUN:
            self._put_down(wish, state, ruling, begun_unix_seconds=begun_unix_seconds, back_off=back_off)
        return ruling

    def settle_old(self) -> None:
        """Check pods whose eviction was begun and never settled; every few seconds at most. Never raises."""
        with self._lock:
            if self._clock() < self._settle_due_seconds:
                return
            self._settle_due_seconds = self._clock() + SETTLE_SPACING_SECONDS
        patience = self._options.unanswered_seconds
        try:
            now = self._store.now(self._wall_now())
            for record in self._store.unsettled(now - patience, now + patience):
                self._settle(record)
        except StoreAway as error:
            log.debug("evictions that were begun are not looked into", extra={"cause": str(error)})

    def _lateness(self, began_seconds: float) -> Ruling | None:
        if self._clock() - began_seconds <= self._options.unanswered_seconds / 2:
            return None
        # This replica stood still: by now another one may take the eviction for abandoned.
        return Ruling(reason=Reason.OUT_OF_TIME, detail="propose it again")

    def _outcome(
        self, answer: EvictionAnswer, spent: Spent, began_seconds: float
    ) -> tuple[EvictionState, Ruling, BackOff | None]:
        kind, said = answer.kind, answer.message
        if kind is EvictionKind.ACCEPTED:
            return EvictionState.EVICTED, Ruling(reason=Reason.EVICTED, detail=""), None
        if kind is EvictionKind.UNKNOWN:
            detail = f"no answer that says whether it was evicted: {said}"
            return EvictionState.BEGUN, Ruling(reason=Reason.UNDER_WAY, detail=detail), None
        if kind in (EvictionKind.GONE, EvictionKind.REPLACED):
            return EvictionState.VOID, Ruling(reason=Reason.GONE, detail=said), None
        asked = answer.retry_after_seconds
        if kind in _SOON:  # nothing that the workload could do better: no doubling
            seconds, refusals, reason = asked or self._options.refused_back_off_seconds, spent.refusals, _SOON[kind]
        else:
            seconds = back_off_seconds(spent.refusals, self._options, asked_seconds=asked)
            refusals = spent.refusals + 1
            reason = Reason.DISRUPTION_BUDGET if kind in _BUDGETS else Reason.FORBIDDEN
        now = spent.now_unix_seconds + self._clock() - began_seconds
        back_off = BackOff(refusals=refusals, until_unix_seconds=now + seconds)
        return EvictionState.REFUSED, Ruling(reason=reason, detail=said), back_off

    def _put_down(
        self,
        wish: EvictionWish,
        state: EvictionState,
        ruling: Ruling,
        *,
        begun_unix_seconds: float,
        back_off: BackOff | None = None,
    ) -> None:
        try:
            self._store.settle(
                wish.ref.uid,
                wish.workload,
                state,
                str(ruling),
                begun_unix_seconds=begun_unix_seconds,
                now_unix_seconds=self._wall_now(),
                back_off=back_off,
            )
        except StoreAway as error:
            # It stays begun, which counts as made; what it was is seen from the pod later.
            log.warning("the end of an eviction is not kept", extra={"pod": str(wish.ref), "cause": str(error)})

    def _settle(self, record: EvictionRecord) -> None:
        pod = read_pod(self._api, record.ref)
        if isinstance(pod, Ruling) and pod.reason is not Reason.GONE:
            return  # not known: it goes on counting as made
        is_gone = isinstance(pod, Ruling) or pod.uid != record.ref.uid or pod.is_terminating
        state = EvictionState.EVICTED if is_gone else EvictionState.VOID
        detail = "found gone" if is_gone else "begun, and nobody evicted it"
        log.warning(
            "an eviction was begun and never settled",
            extra={"pod": str(record.ref), "uid": record.ref.uid, "outcome": state.value},
        )
        self._store.settle(
            record.ref.uid,
            record.workload,
            state,
            detail,
            begun_unix_seconds=record.requested_unix_seconds,
            now_unix_seconds=self._wall_now(),
        )
