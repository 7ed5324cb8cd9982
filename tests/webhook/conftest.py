"""Fixtures of the webhook's tests: a PostgreSQL server per session, a store of each kind per test; no terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.webhook.store.store import Store
from tests.webhook.open_store import new_file, open_store, this_hour
from tests.webhook.postgres import PostgresServer, postgres_server

for name in ("COLUMNS", "LINES"):  # pytest-xdist tells its workers of a narrow one
    os.environ.pop(name, None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The session's server; databases by ``new_database``."""
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def bare_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where nothing is yet: a path without a file, or an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'plimsoll.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture(scope="session")
def migrated() -> dict[int, str]:
    """Databases of the session's server to copy, by the hour they were made in."""
    return {}


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path, migrated: dict[int, str]) -> str:
    """Where an empty store is, a copy of what the migrations made; `test_store_schema` begins with nothing."""
    if request.param == "sqlite":
        return new_file(tmp_path / "plimsoll.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    hour = this_hour()
    if hour not in migrated:
        migrated[hour] = server.new_database()
        open_store(server.url(migrated[hour])).close()
    return server.url(server.new_database(migrated[hour]))


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store of each kind."""
    opened = open_store(store_url)
    yield opened
    opened.close()
