"""The pause of the whole cluster: what a watch hears, the kubelet mounts, and the webhook told, are one answer.

The watch on a real server is tests/cluster/test_cluster_pause.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from agent.core.orders.cluster_rules import LONGEST_PAUSE, UNSTATED_PAUSE
from agent.kube.client.errors import Unreachable
from agent.kube.watch.reflector import WatchPace
from agent.node.cluster.pause import OUTDATED_SECONDS, ClusterPause, PauseWatch
from tests.unit.node.cluster.test_view import FakeStream, HeldUp, await_

QUICK = WatchPace(start_spread_seconds=0.0, first_wait_seconds=0.01, shortest_watch_seconds=0.0)


class Mounted:
    """A ConfigMap as a kubelet mounts it: keys are links through ``..data``, which is replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.versions = folder, 0
        folder.mkdir()

    @property
    def file(self) -> Path:
        return self.folder / "pause"

    def put(self, text: str | None) -> None:
        self.versions += 1
        version = self.folder / f"..{self.versions}"
        version.mkdir()
        if text is not None:
            (version / "pause").write_text(text)
        (self.folder / "..new").symlink_to(version.name)
        os.rename(self.folder / "..new", self.folder / "..data")
        if text is None:
            self.file.unlink(missing_ok=True)
        elif not self.file.is_symlink():
            self.file.symlink_to("..data/pause")


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path / "cluster")


def of_file(file: Path | None) -> str | None:
    return ClusterPause(file, told=lambda: None).reason()


def test_it_is_paused_as_long_as_the_mounted_key_says_so(mounted: Mounted) -> None:
    reasons = []
    for text in (None, "incident 12", "true", " FALSE\n", "two\nlines", "", "again", None):
        mounted.put(text)
        reasons.append(of_file(mounted.file))
    assert reasons == [None, "incident 12", UNSTATED_PAUSE, None, "two lines", None, "again", None]


def test_either_witness_is_enough(mounted: Mounted) -> None:
    reasons: list[str | None] = [None]
    both = ClusterPause(mounted.file, told=lambda: reasons[0])
    assert both.reason() is None
    reasons[0] = "told"
    assert both.reason() == "told"
    mounted.put("mounted")
    assert both.reason() == "mounted"
    reasons[0] = None
    assert both.reason() == "mounted"
    mounted.put(None)
    assert both.reason() is None


def test_without_a_file_only_the_webhook_tells() -> None:
    assert of_file(None) is None
    assert ClusterPause(None, told=lambda: "told").reason() == "told"


def test_what_cannot_be_read_may_be_a_pause(mounted: Mounted, tmp_path: Path) -> None:
    assert of_file(tmp_path / "unmounted" / "pause") == (
        f"whether it is cannot be read: No such file or directory: {tmp_path}/unmounted/pause"
    )
    mounted.file.mkdir()
    assert of_file(mounted.file) == f"whether it is cannot be read: Is a directory: {mounted.file}"


def test_odd_bytes_and_endless_reasons_are_a_pause_with_a_short_reason(mounted: Mounted) -> None:
    mounted.put("x" * (1 << 20))
    assert of_file(mounted.file) == "x" * LONGEST_PAUSE
    mounted.put("")
    (mounted.folder / "..data" / "pause").write_bytes(b"\xff\xfe upgrade")
    assert of_file(mounted.file) == "\ufffd\ufffd upgrade"


# The watch beside them


class Told(FakeStream):
    """A watch of which the test says what comes, and that then ends or is held."""

    def __init__(self, events: SimpleQueue[bytes | None]) -> None:
        super().__init__()
        self._events = events

    def __iter__(self) -> Iterator[bytes]:
        while (event := self._events.get()) is not None:
            yield event

    def close(self) -> None:
        super().close()
        self._events.put(None)


class Server:
    """One ConfigMap, watched."""

    def __init__(self, pause: str | None = None) -> None:
        self.pause, self.version = pause, 10
        self.is_away = False
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self._watch: SimpleQueue[bytes | None] = SimpleQueue()

    def call(self, method: str, path: str, **_: object) -> object:
        raise AssertionError((method, path))

    def stream(self, path: str, *, query: Mapping[str, str] | None = None, **_: object) -> FakeStream:
        self.asked.append((path, query or {}))
        if self.is_away:
            raise Unreachable("away")
        if query is not None and "watch" in query:
            self._watch = SimpleQueue()
            return Told(self._watch)
        items = [self.document()]
        listed = {"kind": "ConfigMapList", "metadata": {"resourceVersion": str(self.version)}, "items": items}
        return FakeStream(json.dumps(listed).encode())

    def document(self) -> dict[str, Any]:
        data = {"rules": "[]"} if self.pause is None else {"pause": self.pause}
        metadata = {"name": "plimsoll", "namespace": "plimsoll", "uid": "u", "resourceVersion": str(self.version)}
        return {"kind": "ConfigMap", "metadata": metadata, "data": data}

    def put(self, pause: str | None, kind: str = "MODIFIED") -> None:
        self.pause, self.version = pause, self.version + 1
        self._watch.put(json.dumps({"type": kind, "object": self.document()}).encode() + b"\n")

    def cut(self) -> None:
        self.is_away = True
        self._watch.put(None)


class Room:
    """A watch on such a server, and the two other witnesses."""

    def __init__(self, server: Server, file: Path | None) -> None:
        self.server, self.file = server, file
        self.seconds, self.news = 1000.0, 0
        self.heard: str | None = None
        self.told: str | None = None
        self.watch = PauseWatch(
            server, "plimsoll/plimsoll", clock=lambda: self.seconds, random=lambda: 0.0, on_news=self._hear, pace=QUICK
        )
        self.pause = ClusterPause(file, told=lambda: self.told, watch=self.watch)

    def _hear(self) -> None:
        self.heard = self.watch.reason()
        self.news += 1

    def hears(self, reason: str | None) -> None:
        await_(lambda: self.heard == reason)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    (tmp_path / "cluster").mkdir()
    new_room = Room(Server(), tmp_path / "cluster" / "pause")
    new_room.watch.reflector.start()
    await_(lambda: new_room.watch.counts.watches > 0)
    yield new_room
    new_room.watch.reflector.stop()
    assert new_room.watch.reflector.join(60.0)


def test_a_pause_is_heard_by_the_watch_alone_and_so_is_its_end(room: Room) -> None:
    assert room.pause.reason() is None
    room.server.put("incident 12")
    room.hears("incident 12")
    assert room.pause.reason() == "incident 12"
    room.server.put(" False ")
    room.hears(None)
    assert room.pause.reason() is None
    await_(lambda: room.news == 2)
    room.server.put(None)  # something else of it changed, and nobody is woken for that
    room.server.put("true")
    room.hears(UNSTATED_PAUSE)
    await_(lambda: room.news == 3)
    room.server.put(None, "DELETED")
    room.hears(None)
    assert room.pause.reason() is None


def test_it_asks_for_the_one_object_and_for_no_other(room: Room) -> None:
    assert {path for path, _ in room.server.asked} == {"/api/v1/namespaces/plimsoll/configmaps"}
    assert {query["fieldSelector"] for _, query in room.server.asked} == {"metadata.name=plimsoll"}


def test_a_pause_whose_end_was_heard_is_not_believed_of_those_who_hear_it_later(room: Room) -> None:
    assert room.file is not None
    room.server.put("incident")
    room.hears("incident")
    room.file.write_text("incident")  # the kubelet has brought it, and the webhook told of it ...
    room.told = "incident"
    room.server.put(None)
    room.hears(None)
    assert room.pause.reason() is None  # ... and neither has heard yet that it is over
    room.told = "rules are not understood"
    assert room.pause.reason() == "rules are not understood"
    room.told = None
    room.file.write_text("another")
    assert room.pause.reason() == "another"  # which the watch never heard of: it may be deaf
    room.file.write_text("incident")
    room.server.put("incident")  # once more
    room.hears("incident")
    assert room.pause.reason() == "incident"


def test_an_end_that_was_heard_long_ago_says_nothing_of_a_pause_of_now(room: Room) -> None:
    room.server.put("incident")
    room.hears("incident")
    room.server.put(None)
    room.hears(None)
    room.told = "incident"
    assert room.pause.reason() is None
    room.seconds += OUTDATED_SECONDS + 1
    room.server.put(None)  # it is heard, and nothing has changed
    await_(lambda: room.watch.is_heard)
    assert room.pause.reason() == "incident"


def test_while_the_server_is_away_the_others_count(room: Room) -> None:
    assert room.file is not None
    room.server.put("incident")
    room.hears("incident")
    room.server.put(None)
    room.hears(None)
    room.file.write_text("incident")
    room.server.cut()
    await_(lambda: room.watch.trouble is not None)
    assert room.pause.reason() == "incident"  # it may have been put there again
    room.file.unlink()
    assert room.pause.reason() is None
    room.file.write_text("new")
    assert room.pause.reason() == "new"


def test_a_pause_that_was_heard_stays_while_the_server_is_away_until_the_file_must_know(room: Room) -> None:
    room.server.put("incident")
    room.hears("incident")
    room.server.cut()
    await_(lambda: room.watch.trouble is not None)
    assert room.pause.reason() == "incident"  # the kubelet may not have brought it yet
    room.seconds += OUTDATED_SECONDS + 1
    assert room.pause.reason() is None


def test_without_a_file_what_was_never_heard_may_be_a_pause() -> None:
    room = Room(Server(), None)
    assert room.pause.reason() == "whether it is was not heard yet: the ConfigMap is being read"
    room.server.is_away = True
    room.watch.reflector.start()
    await_(lambda: room.watch.trouble is not None)
    assert room.pause.reason() == "whether it is was not heard yet: away"
    room.server.is_away = False
    await_(lambda: room.watch.counts.watches > 0)  # what is put between the list and the watch reaches nobody
    assert room.pause.reason() is None
    room.server.put("incident")
    room.hears("incident")
    room.seconds += OUTDATED_SECONDS + 1
    assert room.pause.reason() == "incident"  # there is nobody else to ask
    room.watch.reflector.stop()


def test_a_config_map_that_is_not_understood_may_be_a_pause() -> None:
    room = Room(Server(), None)
    room.server.document = lambda: {"metadata": {"name": "plimsoll", "namespace": "plimsoll"}, "data": [1]}  # type: ignore[method-assign]
    room.watch.reflector.start()
    await_(lambda: room.watch.is_listed)
    assert (room.pause.reason() or "").startswith("whether it is cannot be read: plimsoll/plimsoll: ")
    room.watch.reflector.stop()


def test_a_pause_that_is_spoilt_while_it_is_read_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(Server("upgrade"), None)
    kept = room.watch.reflector.kept
    paused = room.server.document()
    kept.put(kept.entry(paused), now_seconds=0.0)
    spoilt = kept.entry({**paused, "data": [1]})
    monkeypatch.setattr(kept, "_lock", HeldUp(lambda: kept.put(spoilt, now_seconds=0.0)))
    assert room.watch.reason() == "upgrade"
    assert (room.watch.reason() or "").startswith("whether it is cannot be read: plimsoll/plimsoll: ")
