"""List and watch of one kind of object: what the API server knows, kept in step, through cuts and outages.

A thread of its own lists once, then watches from there. A watch that ends or breaks goes on from the newest
resourceVersion seen; only where the server no longer has that (410) it lists anew. While the server is away the last
good state stays and its age grows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

from agent.kube.client.api import JSON, Api, Stream
from agent.kube.client.errors import GATEWAY_TIMEOUT, GONE, ApiError, KubeError, TooLong, Unreachable, error_of_status
from agent.kube.objects.list_stream import ListError, ListHead, lenient_value, read_list
from agent.kube.watch.watched_objects import Gathering, ReflectedObjects, compare_versions
from agent.turns import Turns

log = logging.getLogger(__name__)

T = TypeVar("T")

FROM_ANY_CACHE: Final = "0"
"""The resourceVersion of a first list: what the server has at hand, without asking etcd."""
LONGEST_EVENT_BYTES: Final = 16 << 20
"""etcd takes objects of 1.5 MB; what is far longer is no event."""
FEWER_OBJECTS: Final = 4
"""Where a page of a list is too long to be held, the next one asks for so many times fewer objects."""
FEWER_OF_ALL: Final = 20
"""Objects of the first page where a list that comes at once was too long: so many of 1.5 MB can be held."""
LEAST_PATIENCE_SECONDS: Final = 1.0
LEAST_SILENCE_SECONDS: Final = 30.0
"""Each silence of each node costs the server a list from its cache."""
SILENCE_RATIO: Final = 5 / 6
"""Of the age that is too old: what is left is for the list."""
TRIAL_RATIO: Final = 5 / 6
"""A watch that may be silent for less than this share of ``silence_seconds`` may end before its first bookmark."""
TOO_LARGE_VERSION: Final = "ResourceVersionTooLarge"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPace:
    """How often and how patiently the server is asked; ``pace_within`` makes one for a bound on the age."""

    start_spread_seconds: float = 2.0
    """The first list comes after 0 to this: a rollout starts many agents at once."""
    first_wait_seconds: float = 0.5
    """Wait after a first failure; doubled by each further one, and spread over half to one and a half of it."""
    longest_wait_seconds: float = 30.0
    longest_asked_wait_seconds: float = 300.0
    """The server's own Retry-After is followed up to this."""
    watch_seconds: tuple[float, float] = (240.0, 480.0)
    """A watch is asked to end after something between these, so that connections move on to other servers."""
    silence_seconds: float = 150.0
    """A server that was not heard for so long is asked for a list, over however many watches that was.

    A watch that is merely open is no sign of life: the server answers with its head at once, and then with nothing. A
    quiet one brings its first bookmark after 60 to 122 s, then one each 60 s, and one a second or two before its own
    end (measured, 1.37). So one watch after the other leaves it unheard for 124 s at most, and one that is cut off and
    begun anew would for 60 + 122 s; the list comes before that.
    """
    list_timeout_seconds: float = 30.0
    shortest_watch_seconds: float = 1.0
    """A watch that ended sooner, with nothing in it, counts as a failure: or else it would be asked for in a loop."""


def pace_within(stale_seconds: float) -> WatchPace:
    """Return the pace that confirms what is known more often than each so many seconds, as far as that is cheap.

    Args:
        stale_seconds: From this age on what is known is not acted by. Below `LEAST_SILENCE_SECONDS` it is reached on a
            cluster where nothing happens.
    """
    usual = WatchPace()
    seconds = max(min(usual.silence_seconds, stale_seconds * SILENCE_RATIO), LEAST_SILENCE_SECONDS)
    return replace(usual, silence_seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSource(Generic[T]):
    """What is watched."""

    name: str
    """For threads and log lines: ``pods``."""
    path: str
    read: Callable[[object], T]
    """Makes a value of an object's JSON; raises ConvertError."""
    is_same: Callable[[T, T], bool]
    """Whether two values are the same to those who use them."""
    query: Mapping[str, str] = field(default_factory=dict)
    accept_list: str = JSON
    accept_watch: str = JSON
    page_objects: int | None = None
    """Lists come in pages of so many objects, so that a list of all pods of a large cluster is never in memory as a
    whole; None = at once, as long as that can be held. Servers make pages of the newest state only, so this is for few
    clients."""


@dataclass(slots=True)
class WatchCounts:
    """What happened since the start; for metrics."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    expired: int = 0
    """The server no longer had the resourceVersion (410)."""
    failures: int = 0


class _Anew(Exception):  # noqa: N818  no error: a turn of the loop
    """Only a new list can help."""

    def __init__(self, cause: str, *, is_expired: bool) -> None:
        super().__init__(cause)
        self.is_expired = is_expired


class Reflector(Generic[T]):
    """Keeps the objects of one source in step with the server."""

    def __init__(
        self,
        api: Api,
        source: WatchSource[T],
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
        on_news: Callable[[], None],
        on_connect: Callable[[], None] | None = None,
        pace: WatchPace | None = None,
        kept: ReflectedObjects[T] | None = None,
    ) -> None:
        """Store the arguments; nothing is asked yet.

        Args:
            on_news: Called from the watching thread after something changed for those who use it.
            on_connect: Called from the watching thread before each list and each watch.
            kept: Where the objects are kept; None = as values of ``source.read``, by name.
        """
        self.kept: Final = kept if kept is not None else ReflectedObjects(source.read, source.is_same)
        self.counts: Final = WatchCounts()
        self._api = api
        self._source = source
        self._clock = clock
        self._random = random
        self._on_news = on_news
        self._on_connect = on_connect
        self._pace = pace if pace is not None else WatchPace()
        self._turns = Turns(f"watch-{source.name}", self._turn, failed=self._failed)
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._version: str | None = None
        """From where a watch goes on; None = nothing was listed yet."""
        self._must_list = True
        self._must_list_newest = False
        self._heard_seconds: float | None = None
        self._trouble: str | None = None
        self._failures_in_a_row = 0

    # -- what others ask -------------------------------------------------------------------------------------------

    @property
    def is_listed(self) -> bool:
        """Return whether all has been read at least once."""
        return self._version is not None

    @property
    def age_seconds(self) -> float | None:
        """How long ago the server was last heard (a list, an event, a bookmark); None = never."""
        heard = self._heard_seconds
        return None if heard is None else max(self._clock() - heard, 0.0)

    @property
    def trouble(self) -> str | None:
        """Why the server is not being heard; None = it is."""
        return self._trouble

    def list_newest(self) -> None:
        """Ask at the next list for the newest state, not for what a server's cache has; before ``start``."""
        self._must_list_newest = True

    def start(self) -> None:
        """Start the thread."""
        self._turns.start(self._random() * self._pace.start_spread_seconds)

    def stop(self) -> None:
        """Ask the thread to end; ``join`` waits."""
        self._turns.stop()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()

    def join(self, timeout_seconds: float) -> bool:
        """Wait until the thread has ended; False = it hangs in a connection and dies with the process."""
        return self._turns.join(timeout_seconds)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _turn(self) -> float:
        """List if need be, and watch until the watch ends; return the seconds to wait then."""
        asked_seconds = None
        try:
            if self._on_connect is not None:
                self._on_connect()
            if self._must_list or self._audible_seconds() <= 0.0:
                self._list()
            self._watch()
        except _Anew as turn:
            self._must_list = True
            if turn.is_expired:
                self.counts.expired += 1
                log.info("listing anew", extra={"watch": self._source.name, "cause": str(turn)})
                if not self._failures_in_a_row:
                    self._failures_in_a_row = 1  # a second one in a row waits
                    return 0.0
            cause = str(turn)
        except ApiError as error:
            cause, asked_seconds = str(error), error.retry_after_seconds
        except KubeError as error:
            cause = str(error)
        else:
            return 0.0
        return self._back_off(cause, asked_seconds)

    def _failed(self, _error: Exception) -> float:
        log.exception("watch failed", extra={"watch": self._source.name})
        self._must_list = True
        return self._back_off("a fault of this program, see its log", None)

    def _back_off(self, cause: str, asked_seconds: float | None) -> float:
        if self._turns.is_stopping:
            return 0.0
        self._fail(cause)
        return self._wait_seconds(asked_seconds)

    def _fail(self, cause: str) -> None:
        self.counts.failures += 1
        self._failures_in_a_row += 1
        if self._trouble is None:
            log.warning("the API server is not heard; the last state stays", extra=self._extra(cause))
        self._trouble = cause

    def _extra(self, cause: str) -> dict[str, object]:
        return {"watch": self._source.name, "cause": cause}

    def _wait_seconds(self, asked_seconds: float | None) -> float:
        pace = self._pace
        doubled = pace.first_wait_seconds * 2.0 ** min(self._failures_in_a_row - 1, 16)
        wait = min(doubled, pace.longest_wait_seconds) * (0.5 + self._random())
        return wait if asked_seconds is None else max(wait, min(asked_seconds, pace.longest_asked_wait_seconds))

    def _audible_seconds(self) -> float:
        """Return for how long the server may go on saying nothing."""
        return self._pace.silence_seconds - (self.age_seconds or 0.0)

    def _hear(self) -> None:
        self._heard_seconds = self._clock()
        self._recover()

    def _recover(self) -> None:
        if self._trouble is not None:
            log.info("the API server is heard again", extra={"watch": self._source.name})
            self._trouble = None

    # -- list ------------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        page_objects = self._source.page_objects
        while not self._turns.is_stopping:
            try:
                self._list_objects(page_objects)
            except TooLong as error:
                if page_objects == 1:
                    raise
                page_objects = FEWER_OF_ALL if page_objects is None else max(page_objects // FEWER_OBJECTS, 1)
                log.warning("listing anew, in smaller pages", extra=self._extra(str(error)))
            else:
                return

    def _list_objects(self, page_objects: int | None) -> None:
        query = dict(self._source.query)
        # Not older than what is known: another server's cache may be behind. Nothing stated = the newest state.
        is_newest = self._must_list_newest or page_objects is not None
        if not is_newest:
            query["resourceVersion"] = self._version or FROM_ANY_CACHE
        if page_objects is not None:
            query["limit"] = str(page_objects)
        gathering = self.kept.gather()
        head = self._list_page(query, gathering)
        while head.next_page is not None and not self._turns.is_stopping:
            is_newest = self._must_list_newest  # all pages are of the moment of the first
            head = self._list_page({**query, "continue": head.next_page}, gathering)
        if head.version is None:
            raise Unreachable(f"GET {self._source.path}: the list has no resourceVersion")
        if self._turns.is_stopping:
            return
        has_news = gathering.finish(now_seconds=self._clock(), is_newest=is_newest)
        is_first = self._version is None
        self._version = head.version
        self._must_list = self._must_list_newest = False
        self.counts.lists += 1
        self._hear()
        if has_news or is_first:
            self._on_news()

    def _list_page(self, query: Mapping[str, str], gathering: Gathering) -> ListHead:
        try:
            stream = self._open(query, self._source.accept_list, self._pace.list_timeout_seconds)
            try:
                text = b"".join(stream)
            finally:
                self._close(stream)
            return read_list(text, gathering.take)
        except ApiError as error:
            if query.get("resourceVersion", FROM_ANY_CACHE) != FROM_ANY_CACHE and _is_unknown_version(error):
                self._must_list_newest = True
            raise
        except ListError as error:
            raise Unreachable(f"GET {self._source.path}: {error}") from error

    # -- watch -----------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        shortest, longest = self._pace.watch_seconds
        seconds = shortest + self._random() * (longest - shortest)
        query = {
            **self._source.query,
            "watch": "true",
            "resourceVersion": self._version or "",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(int(seconds), 1)),
        }
        patience_seconds = max(self._audible_seconds(), LEAST_PATIENCE_SECONDS)
        is_on_trial = patience_seconds < TRIAL_RATIO * self._pace.silence_seconds
        try:
            stream = self._open(query, self._source.accept_watch, patience_seconds)
        except ApiError as error:
            if error.status == GONE:
                raise _Anew(str(error), is_expired=True) from error
            raise
        self.counts.watches += 1
        begun_seconds, events = self._clock(), self.counts.events
        self._recover()
        try:
            for line in stream:
                if self._turns.is_stopping:
                    return
                if not line.endswith(b"\n"):
                    break  # cut off: the server sends it again to the next watch
                self._take_line(line)
                if is_on_trial:
                    return  # it is heard: the next watch may be silent for as long as one may
        except TooLong as error:
            raise _Anew(str(error), is_expired=False) from error
        except Unreachable as error:
            if self._audible_seconds() > 0.0:
                raise
            log.info("listing, as the watch says nothing", extra=self._extra(str(error)))
            return
        finally:
            self._close(stream)
        is_idle = self.counts.events == events
        if is_idle and self._clock() - begun_seconds < self._pace.shortest_watch_seconds:
            raise Unreachable(f"GET {self._source.path}: the watch ended at once")
        self._failures_in_a_row = 0

    def _take_line(self, line: bytes) -> None:
        if not line.strip():
            return
        kind, document = _parse_event(self._source.path, line)
        self._hear()
        self.counts.events += 1
        if kind == "ERROR":
            error = error_of_status(f"GET {self._source.path}", document)
            if error.status == GONE:
                raise _Anew(str(error), is_expired=True)
            raise error
        self._failures_in_a_row = 0
        metadata = document.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
        if kind == "BOOKMARK":
            order = compare_versions(version if isinstance(version, str) else None, self._version)
            if order is not None and order < 0:
                # The server's data were put back from a backup: what it will number next, this watch has passed.
                self._must_list_newest = True
                raise _Anew("the server's resourceVersions have gone back", is_expired=True)
        elif kind in ("ADDED", "MODIFIED", "DELETED"):
            entry = self.kept.entry(document)
            changed = self.kept.remove(entry) if kind == "DELETED" else self.kept.put(entry, now_seconds=self._clock())
            if isinstance(version, str) and version:
                self._version = version
            if changed:
                self._on_news()
            return
        if isinstance(version, str) and version:
            self._version = version

    # -- the stream, which stop() may close ------------------------------------------------------------------------

    def _open(self, query: Mapping[str, str], accept: str, timeout_seconds: float) -> Stream:
        stream = self._api.stream(self._source.path, query=query, accept=accept, timeout_seconds=timeout_seconds)
        with self._lock:
            self._stream = stream
        if self._turns.is_stopping:
            stream.close()
        return stream

    def _close(self, stream: Stream) -> None:
        with self._lock:
            self._stream = None
        stream.close()


def _parse_event(path: str, line: bytes) -> tuple[str, Mapping[object, object]]:
    """Parse a line of a watch; what a malformed line has lost, only a list can tell."""
    event: object = None
    if len(line) <= LONGEST_EVENT_BYTES:
        try:
            event = lenient_value(line)
        except (ValueError, RecursionError):
            event = None
    if isinstance(event, Mapping):
        kind, document = event.get("type"), event.get("object")
        if isinstance(kind, str) and isinstance(document, Mapping):
            return kind, document
    raise _Anew(f"GET {path}: a line of the watch is not an event", is_expired=False)


def _is_unknown_version(error: ApiError) -> bool:
    """Return whether a list failed because the server does not have, or does not yet have, the version asked for."""
    if error.status == GONE:
        return True
    too_large = any(cause.reason == TOO_LARGE_VERSION for cause in error.causes)
    return error.status == GATEWAY_TIMEOUT and (too_large or "too large resource version" in error.message.lower())
