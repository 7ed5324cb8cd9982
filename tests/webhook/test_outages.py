"""The webhook as it is put together, also where its database goes while it runs; nobody is asked but the database."""

from __future__ import annotations

import gc
import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from agent.core.history.reports.rollup import Setback
from agent.webhook.assembly import Webhook
from agent.webhook.settings import WebhookSettings
from agent.webhook.store.shapes import ForgetWish, StoreAway
from agent.webhook.workloads import tailer
from tests.webhook.open_store import new_file
from tests.webhook.reports import new_report
from tests.webhook.test_tailing import append
from tests.webhook.workload_reports import WEB, report, row


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Webhook]:
    """One replica on a file, not running: its turns are taken by hand."""
    kubeconfig = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    settings = WebhookSettings()
    frozen = gc.get_freeze_count()
    replica = Webhook(
        replace(
            settings,
            database=replace(settings.database, url=new_file(tmp_path / "plimsoll.db")),
            cluster=replace(settings.cluster, kubeconfig=tmp_path / "kubeconfig"),
            listening=replace(settings.listening, address="127.0.0.1", port=0),
        )
    )
    yield replica
    replica.close()
    if not frozen:
        gc.unfreeze()


def is_up(webhook: Webhook) -> bool:
    """Return what the critical alert goes by."""
    return "\nplimsoll_store_up 1.0\n" in webhook.metrics.page().body.decode()


def test_a_database_that_takes_nothing_more_is_told_by_its_series(webhook: Webhook) -> None:
    """A full volume lets read: reports are refused, and nothing else would tell."""
    webhook._follow()
    store = webhook._store

    def limit(connection: sqlite3.Connection, _entry: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")

    store.close()
    event.listen(store._engine.engine, "connect", limit)
    with pytest.raises(StoreAway, match="database or disk is full"):
        store.append(new_report(1, payload_bytes=300_000))
    webhook._follow()
    assert not is_up(webhook)
    event.remove(store._engine.engine, "connect", limit)
    store.close()
    store.append(new_report(1))
    assert is_up(webhook)


def test_a_database_that_goes_while_the_webhook_runs_is_told_by_its_series(webhook: Webhook, tmp_path: Path) -> None:
    webhook._follow()
    assert is_up(webhook)
    (tmp_path / "plimsoll.db").rename(tmp_path / "aside")
    for _ in range(2):
        assert not webhook._follow()
        assert not is_up(webhook)
        assert webhook.index.is_loaded, "memory answers meanwhile"
    (tmp_path / "aside").rename(tmp_path / "plimsoll.db")
    webhook._store._engine._away = None  # the second for which nobody tries again is over
    webhook._follow()
    assert is_up(webhook)


def test_what_a_later_piece_of_the_log_forgets_is_not_written_down_before(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailer, "PIECE_REPORTS", 1)
    store, now = webhook._store, time.time()
    store.prepare()
    append(store, report(replace(row(), setback=Setback(age_seconds=10.0, reason="restarts: 2"))), now)
    store.forget(ForgetWish(asked_by="tests", workload=WEB), now_unix_seconds=now)
    while webhook._follow():
        pass
    assert store.setbacks() == []
    append(store, report(replace(row(), setback=Setback(age_seconds=0.0, reason="restarts: 3")), sequence=2), now)
    while webhook._follow():
        pass
    assert [setback.reason for setback in store.setbacks()] == ["restarts: 3"]
