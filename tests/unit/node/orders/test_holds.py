from __future__ import annotations

import errno
import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.node.files.steady_clock import BootClock
from agent.node.orders.holds import Holds
from tests.plans import ref
from tests.pods import container, make_pod

NOW = 1_700_000_000.0
HOUR = 3600.0


def reopened(path: Path, at: float = 0.0) -> Holds:
    return Holds(path, now_unix_seconds=NOW + at)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holds"


@pytest.fixture
def holds(path: Path) -> Holds:
    return reopened(path)


def pod(uid: str = "uid-web", cpu: str = "500m") -> Any:
    return make_pod(container("app", {"cpu": cpu, "memory": "64Mi"}), metadata={"uid": uid, "name": uid})


# Pause


def test_nothing_is_held_at_first(holds: Holds, path: Path) -> None:
    assert not holds.is_paused(NOW)
    assert holds.pinned(NOW) == frozenset()
    assert holds.notes(NOW) == ()
    assert not path.exists()


def test_a_pause_without_end_outlives_the_agent(holds: Holds, path: Path) -> None:
    assert holds.pause(None, now_unix_seconds=NOW) is None
    assert holds.is_paused(NOW)
    assert reopened(path).is_paused(NOW + 1e9)
    assert "plimsoll resume" in holds.notes(NOW)[0]


def test_a_pause_with_an_end_ends_by_the_wall_clock(holds: Holds, path: Path) -> None:
    holds.pause(NOW + HOUR, now_unix_seconds=NOW)
    for copy in (holds, reopened(path)):
        assert copy.is_paused(NOW + HOUR - 0.1)
        assert not copy.is_paused(NOW + HOUR)


def test_a_pause_in_the_place_of_another_keeps_its_beginning(holds: Holds) -> None:
    holds.pause(NOW + HOUR, now_unix_seconds=NOW)
    before = holds.pause(None, now_unix_seconds=NOW + 60)
    assert before is not None
    assert before.until_unix_seconds == NOW + HOUR
    pause = holds.paused(NOW + 2 * HOUR)
    assert pause is not None
    assert pause.since_unix_seconds == NOW


def test_resume_ends_it_for_good(holds: Holds, path: Path) -> None:
    assert holds.resume(now_unix_seconds=NOW) is None
    holds.pause(None, now_unix_seconds=NOW)
    assert holds.resume(now_unix_seconds=NOW + 1) is not None
    assert not holds.is_paused(NOW + 1)
    assert not reopened(path).is_paused(NOW + 1)


# Pins


def test_pins_hold_one_pod_each_and_outlive_the_agent(holds: Holds, path: Path) -> None:
    assert holds.pin(ref("a"), None, now_unix_seconds=NOW) is None
    assert holds.pin(ref("b"), NOW + HOUR, now_unix_seconds=NOW) is None
    assert holds.pin(ref("a"), NOW + 2 * HOUR, now_unix_seconds=NOW + 5) is not None
    for copy in (holds, reopened(path)):
        assert copy.pinned(NOW) == {"uid-shop-a", "uid-shop-b"}
        assert copy.pinned(NOW + HOUR) == {"uid-shop-a"}
        assert copy.pinned(NOW + 2 * HOUR) == frozenset()
    assert [pin.since_unix_seconds for pin in holds.pins(NOW) if pin.ref == ref("a")] == [NOW]
    assert "2 pods are pinned" in holds.notes(NOW)[0]
    assert holds.unpin("uid-shop-a", now_unix_seconds=NOW) is not None
    assert holds.unpin("uid-shop-a", now_unix_seconds=NOW) is None
    assert reopened(path).pinned(NOW) == {"uid-shop-b"}


# A wall clock that jumps


class Machine:
    """One that has been up for a while, and whose wall clock says what it likes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.boot_id = "first"
        self.since_boot = 5000.0

    def agent(self) -> Holds:
        return Holds(self.path, now_unix_seconds=NOW, boot=BootClock(self.boot_id, lambda: self.since_boot))


def test_a_wall_clock_that_jumps_ahead_ends_no_order(path: Path) -> None:
    machine = Machine(path)
    holds = machine.agent()
    holds.pause(NOW + HOUR, now_unix_seconds=NOW)
    holds.pin(ref("a"), NOW + HOUR, now_unix_seconds=NOW)
    machine.since_boot += 60.0
    for copy in (holds, machine.agent()):  # a restart of the agent changes nothing
        assert copy.expire(now_unix_seconds=NOW + 2 * HOUR) == (None, ())
        assert copy.is_paused(NOW + 2 * HOUR)
        assert copy.pinned(NOW + 2 * HOUR) == {"uid-shop-a"}
        assert copy.is_paused(NOW + 60.0)  # the clock is put right again
    machine.since_boot += HOUR - 60.0
    assert holds.is_paused(NOW + HOUR - 1.0)  # a wall clock that is behind: both must be past
    assert not holds.is_paused(NOW + HOUR)
    pause, pins = holds.expire(now_unix_seconds=NOW + HOUR)
    assert pause is not None
    assert [pin.ref for pin in pins] == [ref("a")]


def test_after_the_machine_was_started_anew_the_wall_clock_is_all_there_is(path: Path) -> None:
    machine = Machine(path)
    machine.agent().pause(NOW + HOUR, now_unix_seconds=NOW)
    machine.boot_id, machine.since_boot = "second", 10.0
    assert machine.agent().is_paused(NOW + HOUR - 1.0)
    assert not machine.agent().is_paused(NOW + HOUR)


def test_without_a_time_since_boot_the_wall_clock_is_all_there_is(path: Path) -> None:
    Machine(path).agent().pause(NOW + HOUR, now_unix_seconds=NOW)
    assert not reopened(path).is_paused(NOW + HOUR)


# Originals


def test_the_first_original_stays(holds: Holds, path: Path) -> None:
    assert holds.original("uid-web") is None
    assert holds.keep_original(pod(cpu="500m"), now_unix_seconds=NOW)
    assert holds.keep_original(pod(cpu="200m"), now_unix_seconds=NOW + 9)
    for copy in (holds, reopened(path)):
        original = copy.original("uid-web")
        assert original is not None
        assert original.kept_unix_seconds == NOW
        assert original.amounts[0].cpu_request_millicores == 500
        assert original.amounts[0].memory_request_bytes == 64 << 20


def test_originals_of_several_pods_are_kept_at_once(holds: Holds, path: Path) -> None:
    holds.keep_original(pod("uid-a", "1"), now_unix_seconds=NOW)
    assert holds.keep_originals((pod("uid-a", "2"), pod("uid-b", "2")), now_unix_seconds=NOW)
    originals = [reopened(path).original(uid) for uid in ("uid-a", "uid-b")]
    assert [original.amounts[0].cpu_request_millicores for original in originals if original is not None] == [
        1000,
        2000,
    ]


def test_what_is_gone_is_forgotten_and_the_rest_is_not(holds: Holds, path: Path) -> None:
    for uid in ("uid-a", "uid-b"):
        holds.keep_original(pod(uid), now_unix_seconds=NOW)
    holds.pin(ref("a"), None, now_unix_seconds=NOW)
    holds.pause(None, now_unix_seconds=NOW)
    holds.forget_gone({"uid-b"})
    for copy in (holds, reopened(path)):
        assert copy.original("uid-a") is None
        assert copy.original("uid-b") is not None
        assert copy.pins(NOW) == ()
        assert copy.is_paused(NOW)


def test_forgetting_nobody_writes_nothing(holds: Holds, path: Path) -> None:
    holds.pin(ref("a"), None, now_unix_seconds=NOW)
    before = path.stat().st_mtime_ns
    holds.forget_gone({"uid-shop-a"})
    assert path.stat().st_mtime_ns == before


def test_expire_gives_what_has_ended_once(holds: Holds, path: Path) -> None:
    holds.pause(NOW + 10, now_unix_seconds=NOW)
    holds.pin(ref("a"), NOW + 10, now_unix_seconds=NOW)
    holds.pin(ref("b"), NOW + 20, now_unix_seconds=NOW)
    assert holds.expire(now_unix_seconds=NOW + 9) == (None, ())
    pause, pins = holds.expire(now_unix_seconds=NOW + 10)
    assert pause is not None
    assert [pin.ref for pin in pins] == [ref("a")]
    assert holds.expire(now_unix_seconds=NOW + 10) == (None, ())
    assert [pin["ref"]["name"] for pin in json.loads(path.read_text())["pins"]] == ["b"]


# Damage


def _cut(text: str) -> str:
    return text[: len(text) // 2]


@pytest.mark.parametrize(
    "damage",
    [
        _cut,
        lambda text: "",
        lambda text: "\x00" * len(text),
        lambda text: "[]",
        lambda text: text.replace('"version": 1', '"version": 2'),
        lambda text: text.replace('"until_unix_seconds": null', '"until_unix_seconds": "never"'),
        lambda text: text.replace('"originals"', '"origins"'),
    ],
)
def test_a_damaged_file_is_a_pause_that_stays(
    holds: Holds, path: Path, damage: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    holds.pin(ref("a"), None, now_unix_seconds=NOW)
    content = damage(path.read_text())
    path.write_text(content)
    with caplog.at_level(logging.ERROR):
        damaged = reopened(path)
    assert damaged.is_paused(NOW + 1e9)
    assert [record.message for record in caplog.records] == ["holds are damaged: this node is paused"]
    (note,) = damaged.notes(NOW)
    assert "not understood" in note
    assert "kept as holds.damaged" in note
    assert "\n" not in note
    assert path.with_name("holds.damaged").read_text() == content
    assert reopened(path).is_paused(NOW)  # also after the next restart
    damaged.pin(ref("b"), None, now_unix_seconds=NOW)
    assert reopened(path).is_paused(NOW)  # and after an order that made the file whole again
    damaged.resume(now_unix_seconds=NOW)
    assert not reopened(path).is_paused(NOW)


def test_a_damaged_file_that_cannot_be_copied_is_a_pause_all_the_same(path: Path) -> None:
    path.write_text("{")
    path.with_name("holds.damaged").mkdir()
    holds = reopened(path)
    assert holds.is_paused(NOW)
    assert "no copy can be made" in holds.notes(NOW)[0]


def test_a_file_that_cannot_be_read_is_a_pause(path: Path) -> None:
    path.mkdir()
    holds = reopened(path)
    assert holds.is_paused(NOW)
    assert f"{path} cannot be read" in holds.notes(NOW)[0]


def test_a_file_that_could_not_be_read_is_kept_by_the_first_order(
    holds: Holds, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds.keep_original(pod(), now_unix_seconds=NOW)
    content = path.read_text()

    def refused(*_: object, **__: object) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))  # root has written it

    with monkeypatch.context() as patched:
        patched.setattr("agent.node.orders.holds.read_named", refused)
        unread = reopened(path)
        assert reopened(path).is_paused(NOW)
        with monkeypatch.context() as full:
            full.setattr("agent.node.orders.holds.replace_file", refused)
            unread.pin(ref("a"), None, now_unix_seconds=NOW)
        assert reopened(path).is_paused(NOW)  # a disk that refuses the order leaves it where it is
    assert path.read_text() == content
    unread.resume(now_unix_seconds=NOW)
    assert unread.fault is None
    assert path.with_name("holds.damaged").read_text() == content
    assert not reopened(path).is_paused(NOW)
    unread.pin(ref("b"), None, now_unix_seconds=NOW)
    assert path.with_name("holds.damaged").read_text() == content


def test_a_file_that_could_not_be_read_is_there_until_another_takes_its_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text("{")
    path.with_name("holds.damaged").write_text("of an earlier time")

    def refused(*_: object, **__: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    class PowerCut(BaseException):
        """Nothing runs after it, neither what is tried on an OSError."""

    def cut(*_: object) -> None:
        raise PowerCut

    with monkeypatch.context() as patched:
        patched.setattr("agent.node.orders.holds.read_named", refused)
        unread = reopened(path)
    with monkeypatch.context() as patched:
        patched.setattr("agent.node.orders.holds.replace_file", cut)
        with pytest.raises(PowerCut):
            unread.pin(ref("a"), None, now_unix_seconds=NOW)
    assert reopened(path).is_paused(NOW)
    assert path.with_name("holds.damaged").read_text() == "{"


def test_a_directory_in_the_place_of_the_file_is_moved_aside_by_the_first_order(path: Path) -> None:
    path.mkdir()
    reopened(path).resume(now_unix_seconds=NOW)
    assert path.with_name("holds.damaged").is_dir()
    assert not reopened(path).is_paused(NOW)


def test_a_file_that_was_taken_away_meanwhile_leaves_what_is_aside(path: Path) -> None:
    path.mkdir()
    unread = reopened(path)
    path.rmdir()
    path.with_name("holds.damaged").write_text("of an earlier time")
    unread.resume(now_unix_seconds=NOW)
    assert unread.fault is None
    assert path.with_name("holds.damaged").read_text() == "of an earlier time"


def test_a_file_that_was_half_written_aside_does_not_matter(holds: Holds, path: Path) -> None:
    holds.pause(None, now_unix_seconds=NOW)
    path.with_name("holds.new").write_text('{"format": "plim')  # killed before the rename
    assert reopened(path).is_paused(NOW)
    holds.resume(now_unix_seconds=NOW)
    assert not path.with_name("holds.new").exists()


# A disk that takes nothing


def test_an_order_holds_even_where_the_disk_refuses_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "state"
    holds = reopened(directory / "holds")  # there is no such directory
    with caplog.at_level(logging.WARNING):
        holds.pause(None, now_unix_seconds=NOW)
        holds.pin(ref("a"), None, now_unix_seconds=NOW)
    assert holds.is_paused(NOW)
    assert [record.message for record in caplog.records] == ["holds cannot be kept"]
    assert "a restart of the agent forgets" in str(holds.fault)
    assert str(holds.fault) in holds.notes(NOW)
    assert not holds.keep_original(pod(), now_unix_seconds=NOW)
    assert not holds.keep_original(pod(), now_unix_seconds=NOW)
    directory.mkdir()
    assert holds.keep_original(pod(), now_unix_seconds=NOW)  # tried again, with everything that was not taken
    assert holds.fault is None
    after = reopened(directory / "holds")
    assert after.is_paused(NOW)
    assert after.pinned(NOW) == {"uid-shop-a"}
    assert after.original("uid-web") is not None


def test_memory_only_keeps_as_long_as_it_lives() -> None:
    holds = Holds(None, now_unix_seconds=NOW)
    assert holds.keep_original(pod(), now_unix_seconds=NOW)
    holds.pause(None, now_unix_seconds=NOW)
    assert holds.is_paused(NOW)
    assert holds.fault is None


# Threads


def test_threads_lose_no_order(holds: Holds, path: Path) -> None:
    def work(worker: int) -> None:
        for turn in range(10):
            holds.pin(ref(f"{worker}-{turn}"), None, now_unix_seconds=NOW)
            holds.is_paused(NOW)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reopened(path).pinned(NOW)) == 40
