"""The CapacityBuffer controller: keeps the status of every buffer true. Webhook; only the leading replica writes.

One thread takes namespaces from a queue that the watches fill. Where the cluster has no CapacityBuffers, or none is
made, it waits and asks nothing. Where another controller writes their status, it steps back (``buffers.mode``).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agent.core.buffers.buffer import PLACEHOLDER_PODS, Buffer
from agent.kube.calls.scale import ScalableKinds
from agent.kube.client.api import Api
from agent.kube.client.errors import KubeError
from agent.kube.objects.json_reader import ConvertError
from agent.kube.watch.reflector import WatchPace
from agent.turns import TurnCounts, Turns
from agent.webhook.buffers.counted_api import CountedApi
from agent.webhook.buffers.dedicated_pods import DedicatedPods
from agent.webhook.buffers.dry_run import DryRun
from agent.webhook.buffers.namespace_pass import (
    AgainError,
    LostLeadError,
    NamespacePasses,
    NamespaceVerdict,
    NamespaceView,
    WriteTerms,
)
from agent.webhook.buffers.options import BufferMode, BufferOptions
from agent.webhook.buffers.placeholders import Placeholders
from agent.webhook.buffers.queue import NamespaceQueue
from agent.webhook.buffers.resolver import Resolver, reference_of
from agent.webhook.buffers.schedules import Schedules
from agent.webhook.buffers.seams import Sizer, WritePermission
from agent.webhook.buffers.seen_buffer import SeenBuffer
from agent.webhook.buffers.watches import BufferWatches, Reference
from agent.webhook.buffers.writer import BufferWriter, OthersStatusError
from agent.webhook.clocks import REAL_CLOCKS, Clocks

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 0.5
"""How long a wait for work is at most: then what watches and leads is looked at."""
UNHEARD_SECONDS: Final = 30.0
"""Scalable objects of a kind that may not be watched are read again after so many seconds."""
RESYNC_SPREAD: Final = 0.1
STOP_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStanding:
    """Whether this replica's controller acts, and if not, why."""

    mode: BufferMode
    is_leader: bool
    is_served: bool
    """The cluster is known to have CapacityBuffers, or not, and all was read."""
    pause_reason: str | None
    """Why nothing is written anywhere; None = it is not so."""
    contested_by: str | None
    """Which other controller writes statuses, and where that was seen; None = none does."""
    troubles: tuple[str, ...]
    has_dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Collaborators:
    """Whom the controller asks."""

    sizer: Sizer | None
    """Sizes chunks as admission would; None = the annotation that asks for it has no effect."""
    activities: Schedules
    keeper: Placeholders
    """Keeps room by pods of ours; one thread of the leader has it do so."""


class BufferController:
    """The controller of one replica."""

    def __init__(
        self,
        api: Api,
        *,
        options: BufferOptions,
        permission: WritePermission,
        instance: str,
        collaborators: Collaborators,
        pace: WatchPace | None = None,
        clocks: Clocks = REAL_CLOCKS,
        counts: TurnCounts | None = None,
    ) -> None:
        """Prepare; nothing is asked yet. ``instance`` is this replica's name, for Events."""
        self.options: Final = options
        self.api: Final = CountedApi(api)
        self.results: Final[Counter[str]] = Counter()
        """Looks at namespaces, by how they came out."""
        clock, random = clocks.monotonic, clocks.random
        self._permission = permission
        self._clock, self._random = clock, random
        self._turns: Final = Turns("buffers", self._turn, failed=self._failed, counts=counts)
        self._keeper: Final = collaborators.keeper
        self._queue = NamespaceQueue(clock=clock, random=random)
        self.watches: Final = BufferWatches(
            self.api,
            on_change=self.wake,
            on_reference=self._ring,
            pace=pace,
            ask_seconds=options.ask_seconds,
            clocks=clocks,
        )
        self._dry_run = DryRun(self.api, is_wanted=options.dry_run, clock=clock)
        self._resolver = Resolver(
            self.api,
            kinds=ScalableKinds(self.api, clock=clock),
            dry_run=self._dry_run,
            sizer=collaborators.sizer,
            template_seen=self.watches.templates.named,
            clock=clock,
        )
        self._writer = BufferWriter(
            self.api, version=lambda: self.watches.version, instance=instance, wall_clock=clocks.wall
        )
        self._dedicated = DedicatedPods(self.api, on_change=self.wake, pace=pace, clocks=clocks)
        self._passes = NamespacePasses(
            watches=self.watches,
            resolver=self._resolver,
            writer=self._writer,
            keeper=self._keeper,
            activities=collaborators.activities,
            dedicated=self._dedicated,
            terms=WriteTerms(
                lambda: permission.is_given() and not self._turns.is_stopping, takes_over=options.mode is BufferMode.ON
            ),
            clocks=clocks,
        )
        self.counts: Final = self._passes.counts
        self._leads = False
        self._paused: str | None = None
        self._views: dict[str, NamespaceView] = {}
        self._faults: dict[str, str] = {}
        """By namespace: why the last look at it failed."""
        self._periods: dict[str, tuple[float, float]] = {}
        """By namespace: when the last full look began, and when the next one is due."""
        self._unheard_due: dict[str, float] = {}
        self._contested_by: str | None = None
        self._refer_due_seconds = 0.0

    # -- what others ask -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, in threads of its own; does nothing in mode off."""
        if self.options.mode is BufferMode.OFF:
            return
        self.watches.start()
        self._keeper.start(self.wake)
        self._turns.start()

    def stop(self) -> None:
        """End; what is being written is written."""
        self._turns.stop()
        self._queue.close()
        if self.options.mode is not BufferMode.OFF:
            self._turns.join(STOP_SECONDS)  # first: its turn begins and ends watches
            self.watches.stop()
            self._keeper.stop()
            self._dedicated.stop()

    def wake(self, namespace: str) -> None:
        """Schedule a namespace soon; for any thread."""
        if self.watches.buffers.find(namespace) or namespace in self._views:
            self._queue.wake(namespace)

    def standing(self) -> ControllerStanding:
        """Return whether it acts, and if not, why."""
        return ControllerStanding(
            mode=self.options.mode,
            is_leader=self._permission.is_leader(),
            is_served=self.watches.has_looked,
            pause_reason=None if self.options.mode is BufferMode.OFF else self._permission.pause_reason(),
            contested_by=self._contested_by,
            troubles=self.watches.troubles(),
            has_dry_run=self.options.dry_run and self._dry_run.has_right,
        )

    def seen(self) -> tuple[SeenBuffer, ...]:
        """Return all buffers, by namespace and name."""
        buffers = self.watches.buffers
        entries = [entry for namespace in buffers.namespaces() for entry in buffers.find(namespace)]
        return tuple(sorted(entries, key=lambda entry: (entry.buffer.namespace, entry.buffer.name)))

    def view(self, namespace: str) -> NamespaceView | None:
        """Return what the last look at a namespace came to; None = this replica has not looked, or does not lead."""
        return self._views.get(namespace)

    def views(self) -> tuple[NamespaceView, ...]:
        """Return all of them."""
        return tuple(self._views.values())

    def fault(self, namespace: str) -> str | None:
        """Return why the last look at a namespace failed; None = it did not."""
        return self._faults.get(namespace)

    def is_fought(self) -> bool:
        """Return whether another controller writes a status anew each time it is taken over."""
        return self._passes.is_fought

    def waiting(self) -> int:
        """Count the namespaces that are to be looked at some time."""
        return len(self._queue)

    def faults(self) -> int:
        """Count the namespaces of which the last look failed."""
        return len(self._faults)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _failed(self, _: Exception) -> float:
        log.exception("buffers failed")
        return IDLE_SECONDS

    def _turn(self) -> float:
        self.watches.follow_buffers()
        self._follow_lead()
        if not self._leads or self._is_paused():
            return IDLE_SECONDS
        now = self._clock()
        if now >= self._refer_due_seconds:
            self._refer_due_seconds = now + IDLE_SECONDS
            seen = self.seen()
            self._follow_references([entry.buffer for entry in seen])
            self._follow_others(seen)
        if not self.watches.has_looked or (self.watches.buffers.count() and not self.watches.is_listed):
            return IDLE_SECONDS / 10
        namespace = self._queue.take(IDLE_SECONDS)
        if namespace is not None:
            self._take(namespace)
        return 0.0

    def _follow_lead(self) -> None:
        is_leader = self._permission.is_leader()
        if is_leader == self._leads:
            return
        self._leads = is_leader
        self._contested_by = None
        self._refer_due_seconds = 0.0
        self._passes.clear()
        self._resolver.clear()
        self._keeper.clear()
        self._dedicated.keep_only(())
        self._views.clear()
        self._faults.clear()
        self._periods.clear()
        if is_leader:
            for namespace in self.watches.buffers.namespaces():
                self._queue.wake(namespace)

    def _is_paused(self) -> bool:
        """Return whether all stands still; afterwards all is looked at."""
        was_paused, self._paused = self._paused, self._permission.pause_reason()
        if was_paused is not None and self._paused is None:
            for namespace in self.watches.buffers.namespaces():
                self._queue.wake(namespace)
        return self._paused is not None

    def _follow_references(self, buffers: Sequence[Buffer]) -> None:
        self.watches.refer(self._resolver.keep_only(buffers))
        self._dedicated.keep_only(buffers)
        self._writer.forget(frozenset(buffer.uid for buffer in buffers))

    def _follow_others(self, seen: Sequence[SeenBuffer]) -> None:
        may_step_back = self.options.mode is BufferMode.AUTO
        entry = next((entry for entry in seen if entry.is_contested), None) if may_step_back else None
        by = None if entry is None else f"{entry.others[0]} (of {entry.buffer.namespace}/{entry.buffer.name})"
        if (by is None) != (self._contested_by is None):
            if by is not None:
                log.warning(
                    "another controller writes the status of buffers: stepping back (buffers.mode on takes over)",
                    extra={"who": by},
                )
            else:
                log.info("no other controller writes the status of CapacityBuffers: going on")
            for namespace in self.watches.buffers.namespaces():
                self._queue.wake(namespace)
        self._contested_by = by

    def _take(self, namespace: str) -> None:
        try:
            looked = self._look(namespace)
        except LostLeadError:
            self._queue.wake(namespace)
            return
        except OthersStatusError as error:
            log.info("a status is written by another controller", extra={"namespace": namespace, "cause": str(error)})
            self._refer_due_seconds = 0.0  # the watch shows it in a moment
            self._queue.retry(namespace)
            return
        except (KubeError, ConvertError, AgainError) as error:
            self.results["failed"] += 1
            seconds = self._queue.retry(namespace)
            if namespace not in self._faults:
                log.warning(
                    "buffers of a namespace not looked after; tried again",
                    extra={"namespace": namespace, "cause": str(error), "seconds": round(seconds, 1)},
                )
            self._faults[namespace] = str(error)
            return
        except Exception:
            self.results["error"] += 1
            self._faults[namespace] = "a fault of this program, see its log"
            self._queue.retry(namespace)
            raise
        self._faults.pop(namespace, None)
        if looked is None:
            self._queue.forget(namespace)
            if self._mine(namespace):  # made while the last ones were looked after, and its wake-up is forgotten too
                self._queue.wake(namespace)
            return
        self._views[namespace] = looked.view
        if looked.requeue:
            self.results["requeued"] += 1
            self._queue.retry(namespace)
        else:
            self.results["done"] += 1
            self._queue.succeeded(namespace)
        self._plan(namespace, looked)

    def _look(self, namespace: str) -> NamespaceVerdict | None:
        buffers = self._mine(namespace)
        if not buffers:
            self._passes.forget(namespace)
            self._views.pop(namespace, None)
            self._periods.pop(namespace, None)
            self._unheard_due.pop(namespace, None)
            return None
        now = self._clock()
        if namespace not in self._periods or now >= self._periods[namespace][1]:
            resync = self.options.resync_seconds * (1 - RESYNC_SPREAD + 2 * RESYNC_SPREAD * self._random())
            self._periods[namespace] = (now, now + resync)
        if now >= self._unheard_due.get(namespace, now):
            for reference in self._unheard(buffers):
                self._resolver.changed(reference, None)
        return self._passes.look(namespace, buffers, period_seconds=self._periods[namespace][0])

    def _plan(self, namespace: str, looked: NamespaceVerdict) -> None:
        """Schedule another pass though nothing changes: by its schedule, by the clock."""
        now = self._clock()
        self._queue.later(namespace, max(self._periods[namespace][1] - now, 0.0))
        if looked.again_seconds is not None:
            self._queue.later(namespace, looked.again_seconds)
        if any(True for _ in self._unheard(self._mine(namespace))):
            self._unheard_due[namespace] = now + UNHEARD_SECONDS
            self._queue.later(namespace, UNHEARD_SECONDS)

    def _mine(self, namespace: str) -> list[Buffer]:
        """Return the buffers to look after: all of them, or those of our own strategy, where somebody else does."""
        buffers = [entry.buffer for entry in self.watches.buffers.find(namespace)]
        if self._contested_by is None:
            return buffers
        return [buffer for buffer in buffers if buffer.strategy == PLACEHOLDER_PODS]

    def _unheard(self, buffers: list[Buffer]) -> list[Reference]:
        references = {reference for reference in map(reference_of, buffers) if reference is not None}
        return [reference for reference in references if not self.watches.hears(reference[0], reference[1])]

    def _ring(self, reference: Reference, version: str | None) -> None:
        if self._resolver.changed(reference, version):
            self.wake(reference[2].partition("/")[0])
