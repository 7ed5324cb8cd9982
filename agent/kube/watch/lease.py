"""Who leads: one of several replicas, by a Lease of coordination.k8s.io. No policy: what a leader does is others' part.

A holder writes its Lease anew every two seconds. Who wants it takes it once nothing was written to it for the Lease's
duration, counted on the own clock from when the last writing was *seen*: the times inside the Lease are for people, and
clocks that differ between machines change nothing. A holder counts from before it *sent* its last writing that was
answered, and gives up earlier, so it has stopped before anybody else may begin.
"""

from __future__ import annotations

import contextlib
import logging
import random as system_random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from agent.kube.client.api import Api
from agent.kube.client.errors import ApiError, KubeError
from agent.kube.client.paths import LEASES, namespaced_path
from agent.kube.objects.json_reader import ConvertError, Reader, micro_time
from agent.turns import Turns

log = logging.getLogger(__name__)

JITTER_RATIO: Final = 0.2
"""Added to each wait, so that replicas that were started together do not ask together."""
LONGEST_DURATION_SECONDS: Final = 3600.0
"""A Lease that states more (a slip of somebody's hand) is believed no longer than this."""
STOP_SECONDS: Final = 3.0
"""For giving the Lease back; if that fails, the others wait for its duration."""
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """How long a Lease holds; the defaults are those of Kubernetes' own controllers."""

    duration_seconds: int = 15
    """Others wait for so long after the last writing that they saw."""
    renew_within_seconds: float = 10.0
    """A holder that was not answered for so long has lost it. Less than the duration."""
    retry_seconds: float = 2.0
    """Between two writings, and between two looks of those who wait."""

    def __post_init__(self) -> None:
        if not 0 < self.retry_seconds * (1 + JITTER_RATIO) < self.renew_within_seconds < self.duration_seconds:
            msg = (
                f"lease: retry {self.retry_seconds} s, renew within {self.renew_within_seconds} s, duration "
                f"{self.duration_seconds} s is not allowed (each must be less than the next)"
            )
            raise ValueError(msg)


def steady_seconds() -> float:
    """Return a clock that no one sets and that goes on while the machine is suspended: others go on meanwhile too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What a Lease says; two that are equal were not written in between, as far as holders go."""

    holder: str
    """Empty = given back."""
    duration_seconds: float
    acquired: str | None
    renewed: str | None
    transitions: int


class LeaderLease:
    """One replica's part in the election; ``is_leader`` is for any thread."""

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = steady_seconds,
        wall_clock: Callable[[], float] = time.time,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        """Store the arguments; nothing is asked yet.

        Args:
            identity: Of this replica; no two may have the same.
            random: Gives 0..1; spreads waits.

        Raises:
            ValueError: The identity is empty.
        """
        if not identity:
            raise ValueError("lease: the identity is empty")
        self.identity: Final = identity
        self.timing: Final = timing if timing is not None else LeaseTiming()
        self._api = api
        self._namespace, self._name = namespace, name
        self._collection = namespaced_path(namespace, "leases", group=LEASES)
        self.on_change: Callable[[bool], None] | None = None
        """Called from the election's thread with what ``is_leader`` has become; quick, and set before ``start``. When
        the Lease runs out unanswered ``is_leader`` is False at once, and this is called within a retry."""
        self._clock, self._wall_clock, self._random = clock, wall_clock, random
        self._call_seconds = max(self.timing.renew_within_seconds / 3, 0.1)
        self._turns = Turns("lease", self._turn, failed=self._failed, last=self._release)
        self._held_until_seconds: float | None = None
        """On the clock; None = not held."""
        self._told = False
        self._document: Mapping[str, object] | None = None
        """The Lease as this replica last wrote it: what the next writing builds on."""
        self._observed: _Record | None = None
        self._observed_seconds = 0.0
        self._trouble: str | None = None

    # -- what others ask -------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Return whether this replica leads at this moment; False before anybody else may."""
        until = self._held_until_seconds
        return until is not None and self._clock() < until

    @property
    def holder(self) -> str | None:
        """Return who held the Lease when it was last seen; None = nobody, or it was not seen yet."""
        observed = self._observed
        return observed.holder or None if observed is not None else None

    @property
    def trouble(self) -> str | None:
        """Return why the last try failed; None = it did not. To find another in the lead is no trouble."""
        return self._trouble

    def start(self) -> None:
        """Start the election's thread."""
        self._turns.start()

    def stop(self) -> None:
        """End, and release the Lease if it is held; takes `STOP_SECONDS` at most."""
        self._turns.stop()
        self._turns.join(STOP_SECONDS)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _turn(self) -> float:
        self.attempt()
        return self._wait_seconds()

    def _failed(self, _error: Exception) -> float:
        log.exception("election failed", extra={"lease": self._name})
        self._document = None
        self._fail("a fault of this program, see its log")
        self._tell()
        return self._wait_seconds()

    def _wait_seconds(self) -> float:
        return self.timing.retry_seconds * (1 + JITTER_RATIO * self._random())

    def attempt(self) -> None:
        """Try once to renew the Lease or to take it; the thread does nothing else."""
        try:
            if not self._try():
                self._document = None
                self._try()  # somebody else wrote in between: seen anew, it is theirs or still ours
            self._trouble = None
        except (KubeError, ConvertError) as error:
            self._document = None
            self._fail(str(error))
        self._tell()

    def _try(self) -> bool:
        """Write the Lease if it may be written; False = it changed between reading and writing."""
        document = self._document if self.is_leader else None
        if document is None:
            document = self._read()
        if document is None:
            return self._write("POST", self._collection, {}, None)
        record = self._observe(document)
        if record.holder not in ("", self.identity):
            self._held_until_seconds = None
            if self._clock() - self._observed_seconds < record.duration_seconds:
                return True
        return self._write("PUT", f"{self._collection}/{self._name}", document, record)

    def _read(self) -> Mapping[str, object] | None:
        try:
            answer = self._api.call("GET", f"{self._collection}/{self._name}", timeout_seconds=self._call_seconds)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return _mapping(answer)

    def _observe(self, document: Mapping[str, object]) -> _Record:
        record = _record_of(document, self.timing)
        if record != self._observed:
            self._observed, self._observed_seconds = record, self._clock()
        return record

    def _write(self, method: str, path: str, document: Mapping[str, object], record: _Record | None) -> bool:
        sent_seconds = self._clock()
        try:
            answer = self._api.call(
                method, path, body=self._body(document, record, self.identity), timeout_seconds=self._call_seconds
            )
        except ApiError as error:
            if error.status == _CONFLICT:
                return False
            raise
        self._document = _mapping(answer)
        self._observe(self._document)
        self._held_until_seconds = sent_seconds + self.timing.renew_within_seconds
        return True

    def _body(self, document: Mapping[str, object], record: _Record | None, holder: str) -> dict[str, object]:
        """Make the Lease to write; what others keep in it stays."""
        now = micro_time(self._wall_clock())
        is_new = record is None or record.holder != self.identity
        transitions = record.transitions if record is not None else 0
        metadata = {key: value for key, value in _part(document, "metadata").items() if key != "managedFields"}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, "name": self._name, "namespace": self._namespace},
            "spec": {
                **_part(document, "spec"),
                "holderIdentity": holder,
                "leaseDurationSeconds": self.timing.duration_seconds if holder else 1,
                "renewTime": now,
                **({"acquireTime": now} if is_new else {}),
                "leaseTransitions": transitions + 1 if is_new and record is not None else transitions,
            },
        }

    def _release(self) -> None:
        """Release the Lease, so that the next leader need not wait; nothing is led any more before that is sent."""
        document, was_leader = self._document, self.is_leader
        self._held_until_seconds = None
        self._tell()
        if document is None or not was_leader:
            return
        with contextlib.suppress(KubeError, ConvertError):
            body = self._body(document, _record_of(document, self.timing), "")
            path = f"{self._collection}/{self._name}"
            self._api.call("PUT", path, body=body, timeout_seconds=self._call_seconds)

    def _fail(self, cause: str) -> None:
        if self._trouble is None:
            log.warning("the election does not get through", extra={"lease": self._name, "cause": cause})
        self._trouble = cause

    def _tell(self) -> None:
        is_leader = self.is_leader
        if is_leader == self._told:
            return
        self._told = is_leader
        log.info("leading" if is_leader else "no longer leading", extra={"lease": self._name, "who": self.identity})
        if self.on_change is None:
            return
        try:
            self.on_change(is_leader)
        except Exception:  # whoever listens must not end the election
            log.exception("a change of leader was not taken", extra={"lease": self._name})


def _record_of(document: Mapping[str, object], timing: LeaseTiming) -> _Record:
    spec = Reader(document, "lease").child("spec")
    stated = spec.whole("leaseDurationSeconds")
    duration = float(timing.duration_seconds if stated is None or stated < 0 else stated)
    return _Record(
        holder=spec.text("holderIdentity") or "",
        duration_seconds=min(duration, LONGEST_DURATION_SECONDS),
        acquired=spec.text("acquireTime"),
        renewed=spec.text("renewTime"),
        transitions=spec.whole("leaseTransitions") or 0,
    )


def _mapping(document: object) -> Mapping[str, object]:
    if not isinstance(document, Mapping) or not all(isinstance(key, str) for key in document):
        msg = "lease: the server's answer is not an object"
        raise ConvertError(msg)
    return document


def _part(document: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}
