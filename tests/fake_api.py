"""An API server that is a function: answers that no real one gives on demand; tests/cluster has the real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.kube.client.api import JSON, Stream


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it was made."""

    method: str
    path: str
    query: Mapping[str, str] | None
    body: Any
    content_type: str
    timeout_seconds: float | None


class FakeApi:
    """Keeps what it was asked, and answers by ``answer``: given, or of a subclass."""

    def __init__(self, answer: Callable[[Call], object] | None = None) -> None:
        self._answer = answer
        self.calls: list[Call] = []

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object | None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
    ) -> object:
        self.calls.append(Call(method, path, query, body, content_type, timeout_seconds))
        return self.answer(self.calls[-1])

    def answer(self, call: Call) -> object:
        assert self._answer is not None
        return self._answer(call)

    def stream(self, path: str, **_: object) -> Stream:
        raise AssertionError(path)


class Lines(list[bytes]):
    """The lines of an answer that is streamed."""

    def close(self) -> None:
        self.clear()


def raising(error: Exception) -> Callable[[Call], object]:
    def answer(_: Call) -> object:
        raise error

    return answer


def in_turn(*answers: object) -> Callable[[Call], object]:
    """Return one answer after the other; an exception is raised."""
    left = list(answers)

    def answer(_: Call) -> object:
        reply = left.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    return answer
