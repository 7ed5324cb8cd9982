"""What callers asked of the API server, read from its audit log: the witness of "it wrote nothing"."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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
    """HTTP status of the answer."""
    uri: str
    body: Json | None
    """What was sent, where audit_policy.yaml keeps it."""
    node: str | None
    """The node that the caller's token names."""
    user_agent: str

    @property
    def is_write(self) -> bool:
        """Tell whether it would change something stored; a refused one counts, a dry run and a question do not."""
        return self.verb in WRITES and self.resource not in QUESTIONS and not self.is_dry_run

    @property
    def is_dry_run(self) -> bool:
        """Tell whether the server was asked to store nothing."""
        return "dryRun=All" in self.uri

    def __str__(self) -> str:
        """Give ``patch pods/resize shop/web 200``."""
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return " ".join(part for part in (self.verb, self.resource or self.uri, where, str(self.code)) if part)


class AuditLog:
    """The log from a moment on: what was there at construction is left out.

    A caller's own call is there when its answer has been read. Of others' calls the effect may be seen a moment before
    the line: wait for the lines (``processes.wait_for``).
    """

    def __init__(self, file: Path, *, from_start: bool = False) -> None:
        self._file = file
        self._offset = 0 if from_start or not file.exists() else file.stat().st_size

    def calls(self, user: str | None = None) -> list[Call]:
        """Give every call, by one user or by all, in the order of their ends.

        A watch is there when it began (the server writes it then) and not again at its end.
        """
        return [call for call in self._read() if user is None or call.user == user]

    def writes(self, user: str | None = None, *, refused: bool = True) -> list[Call]:
        """Give the calls that would change something, with or without those that were refused."""
        return [call for call in self.calls(user) if call.is_write and (refused or call.code < 400)]

    def count(self, user: str | None = None) -> Counter[str]:
        """Count the calls by verb and resource: ``{"list pods": 1, "watch pods": 2}``."""
        return Counter(f"{call.verb} {call.resource}".strip() for call in self.calls(user))

    def _read(self) -> Iterator[Call]:
        if not self._file.exists():
            return
        with self._file.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # being written just now
                event = json.loads(line)
                is_watch = event["verb"] == "watch"
                if (
                    event["stage"] == ("ResponseStarted" if is_watch else "ResponseComplete")
                    or event["stage"] == "Panic"
                ):
                    yield to_call(event)


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
        uri=event["requestURI"],
        body=body if isinstance(body, dict) else None,
        node=node[0] if node else None,
        user_agent=event.get("userAgent", ""),
    )
