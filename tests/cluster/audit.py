"""What callers asked of the API server, read from its audit log: the witness of "it wrote nothing"."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from tests.cluster.api import Json

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
QUESTIONS: Final = frozenset(
    {
        "tokenreviews",
        "subjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "localsubjectaccessreviews",
        "selfsubjectreviews",
    }
)
"""Asked by `create`, but nothing is stored."""
UNANSWERED_SECONDS: Final = 10.0
"""So long the line of a write that has come is waited for: a server that is frozen or was killed never writes it."""
_TAIL_BYTES: Final = 1 << 20
"""Before a log's beginning; what was under way then came not before that."""
_RECEIVED: Final = "RequestReceived"
_BEGINNING: Final = b'{"kind":"Event",'
_GIVEN_UP: Final[set[str]] = set()
"""Ids of writes whose line was waited for in vain: nobody waits for them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, as the server finished it."""

    user: str
    verb: str
    resource: str
    """For instance ``pods/resize``; empty for paths that are no resources."""
    namespace: str
    name: str
    code: int
    """HTTP status of the answer; 0 = none is noted."""
    is_denied: bool
    """The caller has no right to it. Admission answers 403 as well, for instance while a new quota is not counted."""
    uri: str
    body: Json | None
    """What was sent, where audit_policy.yaml keeps it."""
    node: str | None
    """The node that the caller's token names."""
    user_agent: str
    received_unix_seconds: float
    """When it came, by the server's clock."""

    @property
    def is_write(self) -> bool:
        """Return whether it would change something stored; a refused one counts, a dry run and a question do not."""
        return self.verb in WRITES and self.resource not in QUESTIONS and not self.is_dry_run

    @property
    def is_dry_run(self) -> bool:
        """Return whether the server was asked to store nothing."""
        return "dryRun=All" in self.uri

    def __str__(self) -> str:
        """Return ``patch pods/resize shop/web 200``."""
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return " ".join(part for part in (self.verb, self.resource or self.uri, where, str(self.code)) if part)


class AuditLog:
    """The log from a moment on: what was there at construction is left out.

    A caller's own call is there when its answer has been read. The effect of somebody else's write may be seen a moment
    before its line; but the server notes a write when it comes, before it is done, and so the lines of all that have
    come are waited for, both here and in ``calls``. Of others' reads no line is waited for.
    """

    def __init__(self, file: Path, *, from_start: bool = False) -> None:
        self._file = file
        self._offset = 0
        if not from_start and file.exists():
            self._await_lines(max(0, file.stat().st_size - _TAIL_BYTES))
            self._offset = self._end()

    def calls(self, user: str | None = None) -> list[Call]:
        """Return every call, by one user or by all, in the order of their ends.

        A watch is there when it began (the server writes it then) and not again at its end.
        """
        self._await_lines(self._offset)
        return [call for call in self._read() if user is None or call.user == user]

    def writes(self, user: str | None = None, *, refused: bool = True) -> list[Call]:
        """Return the calls that would change something, with or without those that were refused."""
        return [call for call in self.calls(user) if call.is_write and (refused or call.code < 400)]

    def unanswered(self) -> list[Call]:
        """Return the writes that came and of which no answer is noted: the server was killed, or still has them."""
        self._await_lines(self._offset)
        return [to_call(event) for event in self._received(self._offset).values()]

    def count(self, user: str | None = None) -> Counter[str]:
        """Count the calls by verb and resource: ``{"list pods": 1, "watch pods": 2}``."""
        return Counter(f"{call.verb} {call.resource}".strip() for call in self.calls(user))

    def _await_lines(self, offset: int) -> None:
        """Wait until what has come by now is answered, and stands in the log."""
        deadline = time.monotonic() + UNANSWERED_SECONDS
        waiting = self._unanswered(offset) - _GIVEN_UP
        while waiting and time.monotonic() < deadline:
            time.sleep(0.01)
            waiting &= self._unanswered(offset)
        _GIVEN_UP.update(waiting)

    def _unanswered(self, offset: int) -> set[str]:
        return set(self._received(offset))

    def _received(self, offset: int) -> dict[str, Json]:
        """Return the writes that have come, and of which there is no other line yet, by id."""
        received: dict[str, Json] = {}
        for event in self._events(offset):
            if event["stage"] == _RECEIVED:
                received[event["auditID"]] = event
            else:
                received.pop(event["auditID"], None)
        return received

    def _read(self) -> Iterator[Call]:
        for event in self._events(self._offset):
            is_watch = event["verb"] == "watch"
            if event["stage"] == ("ResponseStarted" if is_watch else "ResponseComplete") or event["stage"] == "Panic":
                yield to_call(event)

    def _events(self, offset: int) -> Iterator[Json]:
        """Give the lines from an offset on; one that begins before it is left out."""
        if not self._file.exists():
            return
        with self._file.open("rb") as log:
            if offset:
                log.seek(offset - 1)
                log.readline()  # only a newline where a line begins at the offset
            for line in log:
                if not line.endswith(b"\n"):
                    return  # being written just now
                event = _event_of(line)
                if event is not None:
                    yield event

    def _end(self) -> int:
        """Return where the last whole line ends."""
        with self._file.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(0, size - _TAIL_BYTES))
            tail = log.read(size - log.tell())
        return size - len(tail) + tail.rfind(b"\n") + 1


def _event_of(line: bytes) -> Json | None:
    """Read a line; None = it is not understood. A server that is killed leaves one cut, and the next goes on in it."""
    for text in (line, line[max(0, line.rfind(_BEGINNING)) :]):
        try:
            return dict(json.loads(text))
        except ValueError:
            continue
    return None


def to_call(event: Json) -> Call:
    """Read one event of audit.k8s.io/v1."""
    reference = event.get("objectRef") or {}
    body = event.get("requestObject")
    node = (event["user"].get("extra") or {}).get("authentication.kubernetes.io/node-name")
    return Call(
        user=event["user"].get("username", ""),
        verb=event["verb"],
        resource="/".join(part for part in (reference.get("resource"), reference.get("subresource")) if part),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        is_denied=(event.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid",
        uri=event["requestURI"],
        body=body if isinstance(body, dict) else None,
        node=node[0] if node else None,
        user_agent=event.get("userAgent", ""),
        received_unix_seconds=datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
    )
