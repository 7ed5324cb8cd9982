"""A server that changes the versions of CapacityBuffers; tests/cluster/test_buffers_replicas.py has a real one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping

from agent.kube.client.api import JSON, Stream
from agent.kube.client.errors import ApiError
from agent.kube.watch.reflector import WatchPace
from agent.webhook.buffers.watches import BufferWatches
from tests.cluster.processes import wait_for
from tests.fake_api import Call, FakeApi

GROUP = "/apis/autoscaling.x-k8s.io"
BUFFER = {
    "metadata": {"namespace": "shop", "name": "room", "uid": "u", "resourceVersion": "7"},
    "spec": {"podTemplateRef": {"name": "small"}, "replicas": 1},
}
LIST = {"kind": "CapacityBufferList", "metadata": {"resourceVersion": "10"}, "items": [BUFFER]}


class Answer:
    """Gives a list; a watch is silent until it is closed."""

    def __init__(self, *, is_watch: bool) -> None:
        self.is_watch = is_watch
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        if self.is_watch:
            self.closed.wait()
        else:
            yield json.dumps(LIST).encode()

    def close(self) -> None:
        self.closed.set()


class Server(FakeApi):
    """Has one buffer, in the versions that it serves."""

    def __init__(self, *served: str) -> None:
        super().__init__()
        self.served = served
        self.lists: list[str] = []
        self.from_versions: list[str | None] = []
        self.watches: list[tuple[str, Answer]] = []

    def answer(self, call: Call) -> object:
        self._check(call.path)
        return {"resources": [{"name": "capacitybuffers"}]}

    def stream(  # type: ignore[override]  # as the real one's
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        timeout_seconds: float | None = None,
    ) -> Stream:
        version = self._check(path)
        answer = Answer(is_watch="watch" in (query or {}))
        if not answer.is_watch:
            self.from_versions.append((query or {}).get("resourceVersion"))
        if answer.is_watch:
            self.watches.append((version, answer))
        else:
            self.lists.append(version)
        return answer

    def open_watches(self) -> list[str]:
        return [version for version, answer in self.watches if not answer.closed.is_set()]

    def _check(self, path: str) -> str:
        version = path.removeprefix(f"{GROUP}/").partition("/")[0]
        if version not in self.served:
            raise ApiError(f"GET {path}", status=404)
        return version


def test_buffers_are_read_in_another_version_where_the_server_drops_theirs_and_none_is_lost() -> None:
    server = Server("v1alpha1")
    changes: list[str] = []
    watches = BufferWatches(
        server,
        on_change=changes.append,
        on_reference=lambda _, __: None,
        pace=WatchPace(start_spread_seconds=0.0),
        ask_seconds=0.005,
    )
    watches.start()
    try:
        wait_for(lambda: server.open_watches() == ["v1alpha1"], "the older version is watched")
        server.served = ("v1alpha1", "v1beta1")
        wait_for(lambda: server.open_watches() == ["v1beta1"], "the better version is watched")
        server.served = ("v1alpha1",)
        wait_for(lambda: server.open_watches() == ["v1alpha1"], "the older version is watched again")
        assert watches.has_looked
        assert (watches.version, server.lists, watches.troubles()) == (
            "v1alpha1",
            ["v1alpha1", "v1beta1", "v1alpha1"],
            (),
        )
        assert server.from_versions == ["0", None, None]  # a cache that is behind may have fewer than are known
        assert (watches.buffers.count(), changes) == (1, ["shop"])
        server.served = ()
        wait_for(lambda: not watches.buffers.count(), "they are gone with the kind")
        assert watches.has_looked
    finally:
        watches.stop()
