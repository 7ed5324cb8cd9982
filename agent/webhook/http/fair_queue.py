"""Work that takes long, in a few threads beside the event loop; who takes turns. Webhook.

Who sends much waits behind himself: the next to begin is of the address that has waited longest for its turn. Answers
for people are made one at a time.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

THREADS: Final = 2
MOST_SECONDS: Final = 1.0
"""Of work that may wait or be under way at once; an API server waits two seconds for an answer."""
MOST_SECONDS_OF_ONE: Final = 0.5
"""The same, of one address."""


class Full(Exception):  # noqa: N818
    """Too much work waits."""


@dataclass(slots=True)
class _Job:
    begun: asyncio.Future[None]
    """Set when it may begin."""
    seconds: float


class FairQueue:
    """Long work that waits for a thread, one queue per address. Used by the event loop alone."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="review")
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        """By address; whose turn is next stands first."""
        self._seconds: dict[str, float] = {}
        """Of each address, waiting and under way."""
        self._under_way = 0

    @property
    def seconds(self) -> float:
        """Seconds of work that wait or are under way."""
        return sum(self._seconds.values())

    async def take(self, address: str, seconds: float, work: Callable[[bytes, str], bytes], body: bytes) -> bytes:
        """Run a piece of work, of so many seconds, in a thread when it is the address' turn.

        Raises:
            Full: Too much waits, of this address or of all; one piece is always taken, however long.
        """
        own = self._seconds.get(address, 0.0)
        if self._seconds and (own + seconds > MOST_SECONDS_OF_ONE or self.seconds + seconds > MOST_SECONDS):
            raise Full
        self._seconds[address] = own + seconds
        job = _Job(asyncio.get_running_loop().create_future(), seconds)
        self._waiting.setdefault(address, deque()).append(job)
        self._begin()
        try:
            await job.begun
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, body, address)
        finally:
            self._ended(address, job)

    def close(self) -> None:
        """End the threads, when nothing is answered any more."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self) -> None:
        while self._under_way < THREADS and self._waiting:
            address, jobs = self._waiting.popitem(last=False)
            job = jobs.popleft()
            if jobs:
                self._waiting[address] = jobs
            if not job.begun.cancelled():
                self._under_way += 1
                job.begun.set_result(None)

    def _ended(self, address: str, job: _Job) -> None:
        self._seconds[address] -= job.seconds
        if self._seconds[address] < 1e-9:
            del self._seconds[address]
        if job.begun.done() and not job.begun.cancelled():
            self._under_way -= 1
        self._begin()


LINE_SECONDS: Final = 0.5
"""An answer waits for the one before at most so long: that one may wait itself, for a database or an API server."""


class AnswerLine:
    """Long answers one at a time, in the order in which they were asked for. Used by the event loop alone.

    The loop answers admissions, and each thread that works beside it takes turns with it at the interpreter's lock: of
    four, admissions have a fifth of a core. So five viewers, whose pages ask at the same moment, held admissions up for
    half a second.
    """

    def __init__(self, patience_seconds: float = LINE_SECONDS) -> None:
        self._patience_seconds = patience_seconds
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn, which ends with the block; or for so long that it begins all the same."""
        has_turn = True
        try:
            async with asyncio.timeout(self._patience_seconds):
                await self._lock.acquire()
        except TimeoutError:
            has_turn = False
        try:
            yield
        finally:
            if has_turn:
                self._lock.release()
