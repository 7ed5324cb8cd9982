"""A server that changes the versions of CapacityBuffers; tests/cluster/test_buffers_replicas.py has a real one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

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
        self.good_lists: dict[str, int] = {}
        """By version, how many lists are answered before all fail; without an entry all are."""
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
        if not answer.is_watch and self.good_lists.get(version) == 0:
            raise ApiError(f"GET {path}: conversion webhook for CapacityBuffer failed", status=500)
        if not answer.is_watch and version in self.good_lists:
            self.good_lists[version] -= 1
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


@contextmanager
def watching(server: Server, changes: list[str]) -> Iterator[BufferWatches]:
    """Ask for a version a hundred times a second and more."""
    watches = BufferWatches(
        server,
        on_change=changes.append,
        on_reference=lambda _, __: None,
        pace=WatchPace(start_spread_seconds=0.0, first_wait_seconds=0.01, longest_wait_seconds=0.01),
        ask_seconds=0.005,
    )
    watches.start()
    try:
        yield watches
    finally:
        watches.stop()


def asked_again(server: Server, *, times: int = 5) -> None:
    """Wait until it was asked so many times more which kinds there are."""
    calls = len(server.calls) + times * len(server.served)
    wait_for(lambda: len(server.calls) >= calls, "it is asked again")


def test_buffers_are_read_in_another_version_where_the_server_drops_theirs_and_none_is_lost() -> None:
    server = Server("v1alpha1")
    changes: list[str] = []
    with watching(server, changes) as watches:
        wait_for(lambda: server.open_watches() == ["v1alpha1"], "the older version is watched")
        server.served = ("v1alpha1", "v1beta1")
        wait_for(lambda: server.open_watches() == ["v1beta1"], "the better version is watched")
        server.served = ("v1alpha1",)
        wait_for(lambda: server.open_watches() == ["v1alpha1"], "the older version is watched again")
        assert watches.has_looked
        assert (watches.version, server.lists, watches.troubles()) == (
            "v1alpha1",
            ["v1alpha1", "v1beta1", "v1beta1", "v1alpha1"],  # of the better one first to see whether it can be listed
            (),
        )
        assert server.from_versions == ["0", None, None, None]  # a cache that is behind may have fewer than are known
        assert (watches.buffers.count(), changes) == (1, ["shop"])
        server.served = ()
        wait_for(lambda: not watches.buffers.count(), "they are gone with the kind")
        assert watches.has_looked


def test_buffers_are_read_in_the_version_of_before_while_lists_of_the_better_one_fail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("v1alpha1")
    with watching(server, []) as watches:
        wait_for(lambda: server.open_watches() == ["v1alpha1"], "the older version is watched")
        server.good_lists["v1beta1"] = 0
        server.served = ("v1alpha1", "v1beta1")
        asked_again(server)
        assert (watches.has_looked, watches.version, server.open_watches()) == (True, "v1alpha1", ["v1alpha1"])
        assert (watches.buffers.count(), watches.troubles(), len(server.watches)) == (1, (), 1)
        told = [record for record in caplog.records if "version" in record.__dict__]
        assert [(record.levelname, record.__dict__["version"]) for record in told] == [("WARNING", "v1beta1")]
        assert "conversion webhook for CapacityBuffer failed" in told[0].__dict__["cause"]
        del server.good_lists["v1beta1"]
        wait_for(lambda: server.open_watches() == ["v1beta1"], "the better version is watched once it can be listed")


@pytest.mark.parametrize("good", [0, 1])
def test_buffers_are_read_in_an_older_version_where_lists_of_the_better_one_fail_from_the_start(good: int) -> None:
    server = Server("v1alpha1", "v1beta1")
    server.good_lists["v1beta1"] = good
    with watching(server, []) as watches:
        wait_for(lambda: server.open_watches() == ["v1alpha1"], "the older version is watched")
        asked_again(server)
        assert (watches.has_looked, watches.buffers.count(), watches.troubles()) == (True, 1, ())
        assert server.open_watches() == ["v1alpha1"]


def test_buffers_that_cannot_be_listed_in_any_version_are_told_and_listed_when_they_can_be() -> None:
    server = Server("v1alpha1", "v1beta1")
    server.good_lists |= {"v1alpha1": 0, "v1beta1": 0}
    with watching(server, []) as watches:
        wait_for(lambda: watches.troubles() != (), "the trouble is told")
        assert not watches.has_looked
        server.good_lists.clear()
        wait_for(lambda: server.open_watches() == ["v1beta1"], "the better version is watched")
