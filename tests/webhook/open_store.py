"""A store, opened at once: what the webhook does in steps, as it also begins while its database is away."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from agent.webhook.store.database.engine import StorePatience
from agent.webhook.store.store import Store

PATIENT: Final = StorePatience(connect_seconds=60, lock_seconds=60.0, statement_seconds=60.0)
"""A busy machine keeps a test waiting for longer than a store's usual patience; who tests patience brings its own."""


def open_store(url: str, *, patience: StorePatience = PATIENT) -> Store:
    """Open the store, made or migrated first where that is needed.

    Raises:
        StoreAway, SchemaTooNew, StoreUnusable: As ``Store.prepare``.
    """
    store = Store(url, patience=patience)
    try:
        store.prepare()
    except BaseException:
        store.close()
        raise
    return store


def this_hour() -> int:
    """Return the hour since 1970: what migrations write depends on it, so that an older copy would be another store."""
    return int(time.time()) // 3600


def new_file(path: Path) -> str:
    """Put the file of an empty store at a path, as the migrations leave it; return its URL."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(_migrated(this_hour()))
    return f"sqlite:///{path}"


@functools.cache
def _migrated(hour: int) -> bytes:
    """Make a file in this hour: migrations for each test are half of what tests of the store cost."""
    del hour
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plimsoll.db"
        open_store(f"sqlite:///{file}").close()
        assert [*Path(folder).iterdir()] == [file]  # nothing is left beside it that belongs to it
        return file.read_bytes()
