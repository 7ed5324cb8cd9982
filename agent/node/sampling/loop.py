"""The sampling thread: sweeps on absolute deadlines, follows cgroups that come and go, keeps the fast lane.

Node. It owns the sampler, the discovery and the memory events; nobody else calls them. It decides nothing: when a sweep
is due and what counts as rising contention are rules of ``core.window.sweep_pace``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from agent.core.window.sweep_pace import ContentionPolicy, Pace, after_sweep, next_on_grid
from agent.node.sampling.fast_lane import FastLane
from agent.node.sampling.heartbeat import SweepHeartbeat
from agent.node.sampling.listener import Listener
from agent.node.sampling.watched_cgroups import WatchedCgroups
from agent.sensing.discovery import Changes
from agent.sensing.memory_events import MemoryEvents
from agent.sensing.sampler_contract import QuietLane, SweepResult
from agent.turns import Turns

log = logging.getLogger(__name__)

FULL_RELIST_EACH: Final = 20
"""One re-list in so many lists everything: 10 minutes at the usual 30 s. The others compare link counts."""
FAILED_SECONDS: Final = 0.1
"""After a turn that failed: a fault that repeats at once must not spin."""


class MemoryListener(Protocol):
    """Who hears who may be short of memory; called on the sampling thread, so it must be quick."""

    def held(self, cgroup_path: str) -> None:
        """A cgroup's tasks were held back at its memory.high."""

    @property
    def is_memory_quiet(self) -> bool:
        """Return whether nobody is looked for, so that quiet readings of the fast lane need not be told."""

    def look_at_memory(self, *, is_waited_for: bool) -> None:
        """The fast lane was read; whether tasks of some pod waited for memory since it was read before.

        Not told of quiet readings while ``is_memory_quiet``.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingPolicy:
    """How often what is read; seconds."""

    interval_seconds: float
    slow_interval_seconds: float
    fast_lane_hz: float
    """0 = no fast lane."""
    relist_seconds: float
    retry_absent_seconds: float
    sweep_budget_seconds: float
    max_event_files: int | None = None
    """Descriptors for memory.events at most, which the sampler's budget does not know of; None = no bound."""
    contention: ContentionPolicy = field(default_factory=ContentionPolicy)


class SamplingLoop:
    """Takes the turns of the thread ``sampling``."""

    def __init__(
        self,
        *,
        watched: WatchedCgroups,  # It and its parts are this thread's from now on; ``close`` closes them
        policy: SamplingPolicy,
        listener: Listener,
        memory: MemoryListener | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,  # CLOCK_MONOTONIC; with ``wait`` the seam for tests
        cpu_ns: Callable[[], int] = time.thread_time_ns,  # CPU time of the thread that takes the turns
        # Waits for descriptors, for this many seconds at most
        wait: Callable[[select.epoll, float], list[tuple[int, int]]] = select.epoll.poll,
    ) -> None:
        self._watched, self._policy, self._listener, self._memory = watched, policy, listener, memory
        self._sampler, self._discovery, self._units = watched.sampler, watched.discovery, watched.units
        self._clock_ns, self._cpu_ns, self._wait = clock_ns, cpu_ns, wait
        self.heartbeat = SweepHeartbeat(
            policy.interval_seconds,
            slow_interval_seconds=policy.slow_interval_seconds,
            sampler_name=watched.sampler.name,
        )
        self.turns: Final = Turns("sampling", self.turn, failed=self._failed)
        self._has_names_news = False
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._epoll = select.epoll(flags=select.EPOLL_CLOEXEC)
        self._epoll.register(self._wake_read, select.EPOLLIN)
        self._lane = FastLane(watched.sampler, hz=policy.fast_lane_hz, policy=policy.contention)
        self._is_closed = False
        self._waking = threading.RLock()  # a signal handler may wake while its own thread does, or closes
        self._pace = Pace(
            base_interval_ns=int(policy.interval_seconds * 1e9),
            budget_ns=int(policy.sweep_budget_seconds * 1e9),
            due_ns=0,
        )
        self._set_deadlines()

    def _set_deadlines(self) -> None:
        """Begin all grids now: the first sweep, a slow one, is due at once."""
        now_ns = self._clock_ns()
        self._pace = replace(self._pace, due_ns=now_ns)
        self._slow_due_ns = now_ns
        self._lane.begin(now_ns)
        self._relist_due_ns = now_ns + int(self._policy.relist_seconds * 1e9)
        self._compared = 0
        self._retry_due_ns = now_ns + int(self._policy.retry_absent_seconds * 1e9)
        self._retries_pods = False  # due, and waiting for the slow tick, at which alone pods are read

    # -- life ------------------------------------------------------------------------------------------------------

    @property
    def refused(self) -> int:
        """How many cgroups should be watched and cannot be for now; any thread may ask."""
        return self._watched.refused

    def start(self) -> None:
        """Find what is there and begin to watch it; then the loop may run."""
        try:
            events = self._watched.events = MemoryEvents(self._watched.mount, max_files=self._policy.max_event_files)
            self._epoll.register(events.fileno(), select.EPOLLIN)
        except OSError as error:
            log.warning("memory.events cannot be polled", extra={"cause": str(error)})
        changes = self._discovery.relist("start")
        self._watched.free_gone()
        self._apply(changes)
        self._follow_inotify()
        self._set_deadlines()  # opening hundreds of cgroups took a while: the first sweep is not late for that

    def _follow_inotify(self) -> None:
        """Wait on discovery's descriptor; it closes it when watches run out and opens another when they are back."""
        inotify = self._discovery.fileno()
        if inotify is not None:
            with contextlib.suppress(FileExistsError):  # registered already; a closed one left the epoll by itself
                self._epoll.register(inotify, select.EPOLLIN)

    def _failed(self, error: Exception) -> float:
        self._listener.failed(error)
        return FAILED_SECONDS

    def stop(self) -> None:
        """Ask the loop to end; safe from any thread and from a signal handler."""
        self.turns.stop()
        self._wake()

    def renew_names(self) -> None:
        """Ask the loop to take over what the pod source knows by now; safe from any thread."""
        self._has_names_news = True
        self._wake()

    def _wake(self) -> None:
        with self._waking:
            if self._is_closed:  # the pipe's number may be another file's by now
                return
            try:
                os.write(self._wake_write, b"x")
            except OSError:
                log.debug("the wake pipe is full: the loop wakes anyway")

    def close(self) -> None:
        """Close all descriptors; after the loop has ended. A second call is fine."""
        with self._waking:  # who wakes meanwhile, on a thread that nobody waits for, has the pipe until it is done
            if self._is_closed:
                return
            self._is_closed = True
        if self._watched.events is not None:
            self._watched.events.close()
        self._epoll.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        self._sampler.close()
        self._discovery.close()
        if self._watched.ends is not None:
            self._watched.ends.close()

    # -- one turn --------------------------------------------------------------------------------------------------

    def turn(self) -> float:
        """Wait for the next thing due and do all that is due; the wait is for descriptors too, so none follows."""
        now_ns = self._clock_ns()
        due_ns = min(self._pace.due_ns, self._lane.due_ns)
        if due_ns > now_ns:
            quiet = self._quiet_lanes()
            if quiet:
                risen = self._lane.wait(quiet, self._epoll.fileno(), until_ns=self._pace.due_ns)
                if risen is not None:  # told before anything else can fail: it is told once
                    self._lanes_read(risen, is_sweep_due=False)
                due_ns = now_ns  # the wait is over
            ready = self._wait(self._epoll, (due_ns - now_ns) / 1e9)
            if self.turns.is_stopping:
                return 0.0
            if ready:
                self._serve_descriptors({fd for fd, _ in ready})
            now_ns = self._clock_ns()
        is_due = now_ns >= self._pace.due_ns
        if now_ns >= self._lane.due_ns:
            self._lanes_read(self._lane.read(now_ns), is_sweep_due=is_due)
        if is_due:
            self._sweep_due()
            # A full one takes tens of milliseconds on a full node. Right after a sweep it makes none late.
            if now_ns >= self._relist_due_ns:
                self._relist()
        return 0.0

    def _quiet_lanes(self) -> Sequence[QuietLane]:
        """Return the lanes, if readings in which nothing is up are of use to nobody; empty = they are."""
        ends, memory = self._watched.ends, self._memory
        if (ends is not None and ends.has_young) or not (memory is None or memory.is_memory_quiet):
            return ()
        return self._lane.quiet()

    def _lanes_read(self, risen: tuple[str, ...], *, is_sweep_due: bool) -> None:
        """Do what follows from a reading of the fast lane; ``risen`` are the lanes on which contention rose.

        The sweep that is due now is as good as an early one: what it reads is compared from the rise on.
        """
        if self._watched.ends is not None:
            self._watched.ends.look()
        if risen:
            self._listener.contention(risen)
        if risen and not is_sweep_due:
            result = self._sweep(is_slow=False, is_retry=False)
            self._listener.swept(result, lateness_seconds=None)
        if self._memory is not None:
            self._memory.look_at_memory(is_waited_for=self._lane.is_memory_waited_for)

    def _serve_descriptors(self, ready: set[int]) -> None:
        if self._wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
        if self._has_names_news:
            self._has_names_news = False
            self._watched.rename()
        events = self._watched.events
        if events is not None and events.fileno() in ready:
            self._tell_kills()
        inotify = self._discovery.fileno()
        if inotify is not None and inotify in ready:
            self._apply(self._discovery.poll())

    def _tell_kills(self) -> None:
        if self._watched.events is not None:
            for kill in self._watched.events.drain():
                self._listener.killed(kill)
            self._tell_held(self._watched.events)

    def _tell_held(self, events: MemoryEvents) -> None:
        for path in events.take_held():
            if self._memory is not None:
                self._memory.held(path)

    def _sweep_due(self) -> None:
        started_ns = self._clock_ns()
        lateness_seconds = max(0.0, (started_ns - self._pace.due_ns) / 1e9)
        is_slow = started_ns >= self._slow_due_ns
        is_retry = started_ns >= self._retry_due_ns
        self._retries_pods |= is_retry
        cpu_ns = self._cpu_ns()
        result = self._sweep(is_slow=is_slow, is_retry=is_retry)
        # What it cost, not how long it took: where others run too a sweep waits, and that is when it matters most.
        cost_ns = self._cpu_ns() - cpu_ns
        slow_ns = int(self._policy.slow_interval_seconds * 1e9)
        if is_slow:
            self._slow_due_ns = next_on_grid(self._slow_due_ns, slow_ns, started_ns)
            self._watched.sweep_pods(retry_absent=self._retries_pods)
            self._retries_pods = False
            if self._watched.events is not None:
                for kill in self._watched.poll_events():
                    self._listener.killed(kill)
                self._tell_held(self._watched.events)
        if is_retry:
            retry_ns = int(self._policy.retry_absent_seconds * 1e9)
            self._retry_due_ns = next_on_grid(self._retry_due_ns, retry_ns, started_ns)
            self._watched.read_limits()
            self._watched.watch_events()
        self._pace, skipped = after_sweep(self._pace, now_ns=self._clock_ns(), cost_ns=cost_ns)
        self.heartbeat.beat(
            result,
            lateness_seconds,
            overran=cost_ns > self._pace.budget_ns,
            interval_seconds=self._pace.interval_ns / 1e9,
        )
        self._listener.swept(result, lateness_seconds=lateness_seconds)
        for reason, count in skipped.items():
            self._listener.skipped(reason, count)

    def _sweep(self, *, is_slow: bool, is_retry: bool) -> SweepResult:
        if self._watched.ends is not None:
            self._watched.ends.look()
        result = self._sampler.sweep(slow=is_slow, retry_absent=is_retry)
        for slot in result.gone:
            unit = self._units.in_slot(slot)
            if unit is not None:
                self._watched.forget(unit.identity.cgroup_path)
        if result.gone:
            self._tell_kills()
        return result

    # -- what is watched -------------------------------------------------------------------------------------------

    def _relist(self) -> None:
        relist_ns = int(self._policy.relist_seconds * 1e9)
        self._relist_due_ns = next_on_grid(self._relist_due_ns, relist_ns, self._clock_ns())
        self._watched.rename()
        self._compared = (self._compared + 1) % FULL_RELIST_EACH
        if self._compared:
            # A sweep has just been: what it found gone is no unit of the table any more.
            read = {unit.identity.cgroup_path: unit.inode for unit in self._units.all()}
            self._apply(self._discovery.compare("periodic", read=read))
        else:
            self._apply(self._discovery.relist("periodic"))
        self._follow_inotify()
        self._watched.free_gone()
        self._watched.watch_missing()

    def _apply(self, changes: Changes) -> None:
        self._watched.apply(changes)
        if changes.vanished:
            self._tell_kills()  # a kill may be why they vanished
        if changes or changes.trigger:
            self._lane.follow(self._discovery.kubepods_root)
        if changes.appeared or changes.vanished or changes.trigger:
            self._listener.changed(changes)
