"""What the node remembers for sizing: each minute goes into the history of seven days and into the policy's state.

Node. The control thread teaches; any thread may ask for answers, under the same short lock. It calls core and holds no
rule.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from agent.core.cluster.pod_index import Belonging
from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.cluster.workload import Workload
from agent.core.history.minute.key import HistoryKey, history_key
from agent.core.history.minute.minutes import KIB, Minutes, OutOfMemory, as_kept, merge_rows
from agent.core.numbers.arrays import Floats, Ints, Rows
from agent.core.orders.policy_options import PolicyName
from agent.core.recommender.policy import Policy
from agent.core.recommender.registry import PolicyOptions, make
from agent.core.window.minute_row import minute_table
from agent.core.window.ring_rows import MINUTE_ROW, Has
from agent.node.history.clock import MINUTE_SECONDS, HistoryClock
from agent.node.history.file import HistoryError, HistoryFile, HistoryFull
from agent.node.history.images import RowImages

log = logging.getLogger(__name__)

SAVE_SECONDS: Final = 3600.0
"""Between two savings of a state that minutes alone do not give back."""
FEW_PLACES: Final = 64
"""Units remembered beside twice those that are there."""
MAX_KILLS: Final = 1000
"""Out-of-memory kills that wait for the next minute at most; the oldest go first."""
_OPTIONS: Final = "options"
_LAST_KILL: Final = "last_kill_unix_seconds"
_NO_OPTIONS: Final = np.zeros(0, dtype=np.uint8)

Row = NDArray[np.void]


class NamedPods(Protocol):
    """A pod source, as far as sizing asks."""

    def belonging(self, identity: UnitIdentity) -> Belonging:
        """Find the workload of a named container."""


class RowFollower(Protocol):
    """Who keeps something by row beside the policies, and hears of each minute that is learnt."""

    def take_rows(self, rows: int, reused: Rows) -> None:
        """Make room for so many rows, and forget those that came to stand for others; quick, any thread."""
        ...

    def judge(self, unix_minute: int, monotonic_minute: int, placed_rows: Sequence[tuple[Place, Row]]) -> None:
        """Add a minute: units with rows, and their MINUTE_ROW rows of shape ``(1,)``; the teaching thread."""
        ...

    def save(self) -> None:
        """Keep what minutes alone do not give back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a unit stands in the history and in its workload."""

    identity: UnitIdentity
    belonging: Belonging
    row: int


def is_sized(identity: UnitIdentity) -> bool:
    """Return whether a unit is worth a recommendation: all but a pod's pause container."""
    return identity.kind is not UnitKind.SANDBOX


class Learner:
    """Keeps policies and their history together; see the module's docstring.

    One policy is the node's; others learn beside it as soon as a pod's annotation asks for them (``require``). A
    history that is open for reading only is learnt from, not written.
    """

    def __init__(
        self, *, history: HistoryFile, policy: PolicyName, options: PolicyOptions, pods: NamedPods, clock: HistoryClock
    ) -> None:
        self.history: Final = history
        self.clock: Final = clock
        self.lock: Final = threading.Lock()
        """Held while the policy learns or answers: a millisecond or two for a full node."""
        self._options, self._pods = options, pods
        self._name: Final = policy
        self.policy: Policy = make(policy, options, history.rows + 1)
        """The node's own. Hold ``lock`` while using it. The last row is nobody's and knows nothing."""
        self._others: dict[PolicyName, Policy] = {}
        self._placing: Final = threading.Lock()
        """Held while rows are given; taken before ``lock``. Whoever has both sees as many rows here as there."""
        self._places: dict[str, Place] = {}
        self._rows: dict[HistoryKey, int] = dict(history.keys())
        self._images: Final = RowImages(history)
        self._kills: deque[tuple[UnitIdentity, OutOfMemory]] = deque(maxlen=MAX_KILLS)
        self._unsettled: deque[tuple[int, OutOfMemory]] = deque(maxlen=MAX_KILLS)
        """Rows and kills learnt before the minute in which they happened."""
        self._last_kill_unix_seconds = 0.0
        """Of the kills that are settled."""
        self._saved_monotonic = time.monotonic()
        self.follower: RowFollower | None = None
        """Set before the threads start."""
        self._is_restoring = False
        self.is_restored = False
        """The policy knows the history. Until then, and when it could not be read, it asks for too little."""

    # -- asking ----------------------------------------------------------------------------------------------------

    def place_of(self, identity: UnitIdentity) -> Place:
        """Return a unit's place; a unit that is new gets a row, if the history has one to give and may be written.

        While the history is being learnt nobody new gets one: it could be a row whose minutes are still to come.
        """
        known = self._places.get(identity.cgroup_path)
        if known is not None and known.identity == identity:
            return known
        belonging = self._pods.belonging(identity)
        with self._placing:
            place = Place(identity=identity, belonging=belonging, row=self._row_of(identity, belonging))
            if place.row < self.history.rows:  # nobody's row is asked for again: there may be one by then
                self._places[identity.cgroup_path] = place
                self._see_image(place)
        return place

    def workload_of(self, identity: UnitIdentity) -> Workload | None:
        """Return whose container a unit is, and give it no row; None = not known, or it has no pod."""
        return self._pods.belonging(identity).workload

    def _see_image(self, place: Place) -> None:
        """Pass to the policies an image that is new to a row."""
        image_hash, created = place.belonging.image_hash, place.belonging.pod_created_unix_seconds
        if image_hash is None or created is None or not self._images.see(place.row, image_hash, created):
            return
        log.info("another image", extra={"container": str(history_key(place.identity, place.belonging.workload))})
        with self.lock:
            for policy in self._policies():
                policy.record_image(place.row, created)

    def _row_of(self, identity: UnitIdentity, belonging: Belonging) -> int:
        key = history_key(identity, belonging.workload)
        row = self._rows.get(key)
        if row is None and self.history.is_writable and not self._is_restoring:
            try:
                row = self.history.row_of(key)
            except HistoryFull as error:
                log.debug("no row in the history", extra={"cause": str(error)})
            else:
                self._take_over(key, row)
        return self.history.rows if row is None else row

    def _take_over(self, key: HistoryKey, row: int) -> None:
        reused = self.history.take_reused()
        lost = set(reused.tolist())
        if lost:
            self._rows = {other: other_row for other, other_row in self._rows.items() if other_row not in lost}
            self._places = {path: place for path, place in self._places.items() if place.row not in lost}
        self._rows[key] = row
        self._unsettled = deque(
            ((kill_row, kill) for kill_row, kill in self._unsettled if kill_row not in lost), maxlen=MAX_KILLS
        )
        with self.lock:
            for policy in self._policies():
                policy.grow(self.history.rows + 1)
                if lost:
                    policy.forget(reused)
            self._images.take_rows(self.history.rows, reused)
            if self.follower is not None:
                self.follower.take_rows(self.history.rows, reused)

    # -- learning --------------------------------------------------------------------------------------------------

    def restore(self, is_stopping: Callable[[], bool]) -> None:
        """Let the policy learn what was kept: its own state where there is one, then the minutes since.

        Takes about a second for a full node.

        Args:
            is_stopping: Asked between two minutes.
        """
        self._is_restoring = True
        try:
            self.is_restored = self._restore(is_stopping)
        finally:
            self._is_restoring = False

    def _restore(self, is_stopping: Callable[[], bool]) -> bool:
        """Do it; False = not to the end."""
        newest = self._load()
        kills = deque(kill for kill in self.history.kills() if kill[1].unix_seconds > self._last_kill_unix_seconds)
        return self._teach(self.policy, 0 if newest is None else newest + 1, kills, is_stopping)

    def _teach(
        self,
        policy: Policy,
        first_unix_minute: int,
        kills: deque[tuple[int, OutOfMemory]],
        is_stopping: Callable[[], bool],
    ) -> bool:
        """Let a policy learn the history from a minute on; False = not to the end."""
        with self._placing, self.lock:
            for row, since_unix_seconds in self._images.changes():
                policy.record_image(row, since_unix_seconds)
        for minutes in self.history.stream(first_unix_minute):
            if is_stopping():
                return False
            with self.lock:
                while kills and kills[0][1].unix_seconds < minutes.unix_minute * MINUTE_SECONDS:
                    policy.record_oom(*kills.popleft())
                policy.fold(widened(minutes, policy.rows))
        with self.lock:
            for row, kill in kills:
                policy.record_oom(row, kill)
        return True

    def require(self, names: Iterable[PolicyName], is_stopping: Callable[[], bool]) -> None:
        """Let policies learn beside the node's own, and forget those that nobody asks for any more.

        Only the thread that teaches may call it. A new one takes the history in as a restart would, but keeps no state
        of its own beside it: ``vpa`` then knows seven days, not more.

        Args:
            names: Those asked for; the node's own may be among them.
            is_stopping: Asked between two minutes.
        """
        wanted = set(names) - {self._name}
        with self._placing, self.lock:
            self._others = {name: policy for name, policy in self._others.items() if name in wanted}
        for name in sorted(wanted - set(self._others)):
            with self._placing:
                self._is_restoring = True  # nobody new gets a row meanwhile
                policy = make(name, self._options, self.history.rows + 1)
            try:
                if not self._teach(policy, 0, deque(self.history.kills()), is_stopping):
                    return
                with self._placing, self.lock:
                    self._others[name] = policy
            finally:
                self._is_restoring = False

    def policy_of(self, name: PolicyName) -> Policy:
        """Return the policy that a pod asks for; one that knows nothing while it has not learnt. Hold ``lock``."""
        if name is self._name:
            return self.policy
        return self._others.get(name) or make(name, self._options, self.history.rows + 1)

    def _policies(self) -> tuple[Policy, ...]:
        return (self.policy, *self._others.values())

    def learn(self, written: Sequence[tuple[UnitIdentity, Row]]) -> None:
        """Take minute rows over, whichever minutes they are of.

        Args:
            written: Units with MINUTE_ROW rows of shape ``(1,)``, a unit's oldest first.
        """
        self.clock.observe()
        by_minute: dict[int, list[tuple[Place, Row]]] = defaultdict(list)
        for identity, row in written:
            if is_sized(identity):
                by_minute[int(row["monotonic_minute"][0])].append((self.place_of(identity), row))
        with self._placing:
            nobody = self.history.rows
            self._forget_places({identity.cgroup_path for identity, _ in written})
            places = self._places
        for minute in sorted(by_minute):
            # Not those without a row, nor those whose row a newcomer has just been given.
            placed_rows = [
                (place, figures)
                for place, figures in by_minute[minute]
                if places.get(place.identity.cgroup_path) is place
            ]
            by_row = [(place.row, figures) for place, figures in placed_rows]
            minutes = as_kept(to_minutes(self.clock.unix_minute(minute), by_row, rows=nobody))
            if self.history.append(minutes):  # what the history refuses came before: it is not learnt twice
                with self.lock:
                    for policy in self._policies():
                        policy.fold(widened(minutes, policy.rows))
                if self.follower is not None:
                    self.follower.judge(minutes.unix_minute, minute, placed_rows)
        self.learn_kills()  # none waits here, unless one before it failed
        self._settle_kills()
        if time.monotonic() - self._saved_monotonic >= SAVE_SECONDS:
            self.save()

    def _settle_kills(self) -> None:
        """Learn kills again whose minute is learnt by now.

        They are learnt at once, but usage comes first: what a policy makes of a kill may depend on what was used in
        its minute, and is to be the same after a restart. A kill within one minute learnt twice counts once.
        """
        newest = self.history.newest_unix_minute
        if newest is None:
            return
        end_unix_seconds = (newest + 1) * MINUTE_SECONDS
        with self._placing, self.lock:
            for row, kill in [
                unsettled for unsettled in self._unsettled if unsettled[1].unix_seconds < end_unix_seconds
            ]:
                self._unsettled.remove((row, kill))
                for policy in self._policies():
                    policy.record_oom(row, kill)
                self._last_kill_unix_seconds = max(self._last_kill_unix_seconds, kill.unix_seconds)

    def _forget_places(self, present_paths: set[str]) -> None:
        """Forget units that are gone, now and then: each new pod, even each restart, has a path of its own."""
        if len(self._places) > FEW_PLACES + 2 * len(present_paths):
            self._places = {path: place for path, place in self._places.items() if path in present_paths}

    def killed(self, identity: UnitIdentity, kill: OutOfMemory) -> None:
        """Leave an out-of-memory kill for ``learn_kills``; called by the sampling thread, never waits."""
        self._kills.append((identity, kill))

    def learn_kills(self) -> None:
        """Take over what was killed since the last call."""
        while self._kills:
            self._learn_kill(*self._kills.popleft())

    def _learn_kill(self, identity: UnitIdentity, kill: OutOfMemory) -> None:
        row = self.place_of(identity).row
        if row == self.history.rows:
            return
        self.history.record_oom(row, kill)
        with self._placing, self.lock:
            for policy in self._policies():
                policy.record_oom(row, kill)
            self._unsettled.append((row, kill))

    # -- state that minutes alone do not give back -----------------------------------------------------------------

    def save(self) -> None:
        """Keep images, the state of the follower, and that of a policy that remembers longer than the history does."""
        self._saved_monotonic = time.monotonic()
        with self._placing:
            self._images.save()
        if self.follower is not None:
            self.follower.save()
        if self._name is not PolicyName.VPA or not self.is_restored or not self.history.is_writable:
            return
        from agent.core.recommender.vpa.policy import VpaPolicy

        with self.lock:
            arrays = self.policy.to_arrays() if isinstance(self.policy, VpaPolicy) else {}
        try:
            last_kill = np.array([self._last_kill_unix_seconds])
            self.history.save_state(self._name, {**arrays, _OPTIONS: self._options_code(), _LAST_KILL: last_kill})
        except HistoryError as error:
            log.warning("the policy's state is not kept", extra={"cause": str(error)})

    def _load(self) -> int | None:
        """Take the saved state over; give the newest minute that it has learnt, None = there is no such state."""
        if self._name is not PolicyName.VPA:
            return None
        from agent.core.recommender.vpa.policy import VpaPolicy

        saved = self.history.load_state(self._name)  # until all is restored, no row comes to stand for another
        if isinstance(saved, str):
            log.info("the policy learns from the history alone", extra={"cause": saved})
            return None
        if not np.array_equal(saved.arrays.get(_OPTIONS, _NO_OPTIONS), self._options_code()):
            log.info("the policy learns from the history alone", extra={"cause": "its options have changed"})
            return None
        if not np.array_equal(saved.saved_rows, saved.rows):
            log.info("the policy learns from the history alone", extra={"cause": "rows have moved"})
            return None
        own: dict[str, Floats | Ints] = {
            name: array.astype(np.float64) if array.dtype.kind == "f" else array.astype(np.int64)
            for name, array in saved.arrays.items()
            if name not in (_OPTIONS, _LAST_KILL)
        }
        try:
            policy = VpaPolicy.from_arrays(self._options.vpa, own)
            last_kill_unix_seconds = float(saved.arrays[_LAST_KILL].astype(np.float64)[0])
        except (KeyError, ValueError) as error:  # whole, but of another version
            log.warning("the policy learns from the history alone", extra={"cause": str(error)})
            return None
        # What was saved of rows that have come to stand for others since is theirs no more.
        is_saved = np.zeros(policy.rows, dtype=np.bool_)
        is_saved[saved.saved_rows[saved.saved_rows < policy.rows]] = True
        policy.forget(np.flatnonzero(~is_saved))
        with self._placing, self.lock:
            policy.grow(self.history.rows + 1)
            self.policy = policy
            self._last_kill_unix_seconds = last_kill_unix_seconds
        return saved.newest_unix_minute

    def _options_code(self) -> NDArray[np.uint8]:
        return np.frombuffer(repr(self._options.vpa).encode(), dtype=np.uint8)


def widened(minutes: Minutes, rows: int) -> Minutes:
    """Return the minute with so many rows; what is added is not known."""
    missing = rows - minutes.has_cpu.size
    if missing <= 0:
        return minutes
    amounts: Mapping[str, NDArray[np.float64]] = {
        name: np.concatenate((values, np.zeros(missing)))
        for name, values in (
            ("usage", minutes.cpu_usage_millicores),
            ("peak", minutes.cpu_peak_millicores),
            ("memory", minutes.working_set_bytes),
        )
    }
    nothing = np.zeros(missing, dtype=np.bool_)
    return Minutes(
        unix_minute=minutes.unix_minute,
        cpu_usage_millicores=amounts["usage"],
        cpu_peak_millicores=amounts["peak"],
        has_cpu=np.concatenate((minutes.has_cpu, nothing)),
        working_set_bytes=amounts["memory"],
        has_memory=np.concatenate((minutes.has_memory, nothing)),
    )


def to_minutes(unix_minute: int, by_row: Sequence[tuple[int, Row]], *, rows: int) -> Minutes:
    """Bring the minute rows of one minute into arrays.

    Args:
        by_row: History row and MINUTE_ROW of shape ``(1,)``.
    """
    table = minute_table(row for _, row in by_row) if by_row else np.zeros(0, dtype=MINUTE_ROW)
    usage = table["cpu_mean_millicores"].astype(np.float64)
    return merge_rows(
        unix_minute,
        np.array([row for row, _ in by_row], dtype=np.intp),
        cpu_usage_millicores=usage,
        cpu_peak_millicores=np.maximum(table["cpu_peak_millicores"].astype(np.float64), usage),
        has_cpu=table["coverage_255"] > 0,
        working_set_bytes=table["working_set_peak_kib"].astype(np.float64) * KIB,
        has_memory=(table["has"] & int(Has.MEMORY_STAT)) > 0,
        count=rows,
    )
