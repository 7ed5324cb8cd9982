"""The API server as the CapacityBuffer controller asks it: every call counted by verb and resource. Webhook."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Final, Unpack

from agent.kube.client.api import Api, CallOptions, Stream, StreamOptions
from agent.kube.client.errors import KubeError

_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class CountedApi:
    """An ``Api`` that counts; for any thread."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._errors: Counter[tuple[str, str]] = Counter()

    def call(self, method: str, path: str, **options: Unpack[CallOptions]) -> object:
        """Ask once; see ``Api``."""
        with self._counted(_VERBS.get(method, method.lower()), path):
            return self._api.call(method, path, **options)

    def stream(self, path: str, **options: Unpack[StreamOptions]) -> Stream:
        """Begin to read an answer of many lines; see ``Api``."""
        with self._counted("list", path):
            return self._api.stream(path, **options)

    @contextlib.contextmanager
    def _counted(self, verb: str, path: str) -> Iterator[None]:
        label = (verb, resource_of(path))
        with self._lock:
            self._calls[label] += 1
        try:
            yield
        except KubeError:
            with self._lock:
                self._errors[label] += 1
            raise

    def calls(self) -> dict[tuple[str, str], int]:
        """Return how often what was asked: verb, resource."""
        with self._lock:
            return dict(self._calls)

    def errors(self) -> dict[tuple[str, str], int]:
        """Return how often the answer was no, or none came."""
        with self._lock:
            return dict(self._errors)


def resource_of(path: str) -> str:
    """Return the resource that a path is about: ``capacitybuffers/status``; of discovery, ``discovery``."""
    parts = path.strip("/").split("/")
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return "discovery"
    return f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]
