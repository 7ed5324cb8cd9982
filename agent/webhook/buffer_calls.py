"""The API server as the CapacityBuffer controller asks it: every call counted by verb and resource. Webhook."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final

from agent.kube.api import JSON, Api, Stream
from agent.kube.errors import KubeError

_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class CountedApi:
    """An ``Api`` that counts; for any thread."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._errors: Counter[tuple[str, str]] = Counter()

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
        """Ask once; see ``Api``."""
        label = (_VERBS.get(method, method.lower()), resource_of(path))
        with self._lock:
            self._calls[label] += 1
        try:
            return self._api.call(
                method, path, query=query, body=body, content_type=content_type, timeout_seconds=timeout_seconds
            )
        except KubeError:
            with self._lock:
                self._errors[label] += 1
            raise

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        timeout_seconds: float | None = None,
    ) -> Stream:
        """Begin to read an answer of many lines; see ``Api``."""
        label = ("list", resource_of(path))
        with self._lock:
            self._calls[label] += 1
        try:
            return self._api.stream(path, query=query, accept=accept, timeout_seconds=timeout_seconds)
        except KubeError:
            with self._lock:
                self._errors[label] += 1
            raise

    def calls(self) -> dict[tuple[str, str], int]:
        """Give how often what was asked: verb, resource."""
        with self._lock:
            return dict(self._calls)

    def errors(self) -> dict[tuple[str, str], int]:
        """Give how often the answer was no, or none came."""
        with self._lock:
            return dict(self._errors)


def resource_of(path: str) -> str:
    """Give the resource that a path is about: ``capacitybuffers/status``; of discovery, ``discovery``."""
    parts = path.strip("/").split("/")
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return "discovery"
    return f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]
