"""The webhook as it is put together, whose database goes while it runs; nobody is asked but the database."""

from __future__ import annotations

import gc
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from agent.webhook.assembly import Webhook
from agent.webhook.settings import WebhookSettings
from agent.webhook.store.shapes import StoreAway
from tests.webhook.open_store import new_file
from tests.webhook.reports import new_report


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
