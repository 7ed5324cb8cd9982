from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from agent.core.resize.ledger import Ledger
from agent.node.resize.ledger_file import LedgerFile
from tests.ledgers import ACT, Desk, FakePod, step


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def busy() -> Desk:
    """A ledger with all there is: a shrink taken back, a bar, a refusal, a resize under way."""
    desk = Desk(FakePod(name="web"), FakePod(name="api"))
    desk.resize(memory=128)
    desk.ledger.killed(desk.fake.uid, "app", desk.now)
    desk.ledger.sent(step(desk.fakes[1], cpu=900), desk.fakes[1].pod, desk.now)
    return desk


def test_what_is_kept_is_read_back_whole(path: Path) -> None:
    desk = busy()
    assert LedgerFile(path).keep(desk.ledger)
    again = LedgerFile(path).read(ACT, now_seconds=desk.now)
    state = desk.ledger.kept()
    assert again.kept() == state
    assert state.bars
    assert len(state.pods) == 2


def test_what_an_earlier_version_kept_is_read_without_what_it_did_not_know(path: Path) -> None:
    desk = busy()
    LedgerFile(path).keep(desk.ledger)
    document = json.loads(path.read_bytes())
    for pod in document["pods"]:
        del pod["cpu_fell_seconds"], pod["cpu_grown_seconds"], pod["below"]
    path.write_text(json.dumps(document))
    assert LedgerFile(path).read(ACT, now_seconds=desk.now).kept() == desk.ledger.kept()


def test_nothing_yet_is_an_empty_ledger_without_a_word(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert LedgerFile(path).read(ACT, now_seconds=1.0).kept() == Ledger(ACT, now_seconds=1.0).kept()
    assert not caplog.records
    assert not path.exists()


def test_without_a_directory_memory_is_all_there_is() -> None:
    file = LedgerFile(None)
    ledger = file.read(ACT, now_seconds=1.0)
    assert file.keep(ledger)
    assert file.fault is None


def test_what_has_not_changed_is_not_written_again(path: Path) -> None:
    desk, file = busy(), LedgerFile(path)
    file.keep(desk.ledger)
    first = path.stat().st_ino
    assert file.keep(desk.ledger)
    assert path.stat().st_ino == first
    desk.send(step(desk.fake, memory=512))
    file.keep(desk.ledger)
    assert path.stat().st_ino != first or json.loads(path.read_bytes())["pods"][0]["flight"] is not None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b'{"format": "plimsoll-ledger"}',
        b'{"format": "plimsoll-holds", "version": 1}',
        b"[" * 100_000,
    ],
)
def test_damaged_file_is_set_aside_and_a_new_one_begun(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(content)
    file = LedgerFile(path)
    ledger = file.read(ACT, now_seconds=1.0)
    assert ledger.kept() == Ledger(ACT, now_seconds=1.0).kept()
    assert path.with_name("ledger.damaged").read_bytes() == content
    assert [record.message for record in caplog.records] == ["the ledger is not understood, beginning anew"]
    desk = busy()
    assert file.keep(desk.ledger)
    assert LedgerFile(path).read(ACT, now_seconds=desk.now).kept() == desk.ledger.kept()


def test_file_that_was_cut_anywhere_is_never_half_believed(path: Path) -> None:
    desk = busy()
    LedgerFile(path).keep(desk.ledger)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        assert LedgerFile(path).read(ACT, now_seconds=desk.now).kept() == Ledger(ACT, now_seconds=1.0).kept()


def test_file_that_can_neither_be_read_nor_set_aside_stays(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.mkdir()
    path.with_name("ledger.damaged").write_text("of another time")
    assert LedgerFile(path).read(ACT, now_seconds=1.0).kept().pods == ()
    assert [record.message for record in caplog.records] == [
        "the ledger is not understood, beginning anew",
        "the damaged ledger stays where it is",
    ]


def test_disk_that_takes_nothing_is_said_once_and_tried_again(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    desk, file = busy(), LedgerFile(path)
    hindrance = path.with_name("ledger.new")
    hindrance.mkdir()
    with caplog.at_level(logging.WARNING):
        assert [file.keep(desk.ledger), file.keep(desk.ledger)] == [False, False]
    assert len(caplog.records) == 1
    assert str(path) in str(file.fault)
    hindrance.rmdir()
    assert file.keep(desk.ledger)
    assert file.fault is None
    assert LedgerFile(path).read(ACT, now_seconds=desk.now).kept() == desk.ledger.kept()
