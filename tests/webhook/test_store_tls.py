"""A connection to PostgreSQL that others on the network may read or forge is told, by the connection as it is."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from agent.webhook.store.database.engine import StoreEngine
from agent.webhook.store.shapes import StoreAway
from tests.webhook.open_store import PATIENT, open_store
from tests.webhook.postgres import PostgresServer, postgres_server

WORDS = "database connection is open to others on the network"


@pytest.fixture(scope="module")
def with_tls() -> Iterator[PostgresServer]:
    with postgres_server(has_tls=True) as server:
        yield server


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [line.__dict__ for line in caplog.records if line.getMessage() == WORDS and line.levelno == logging.WARNING]


def used(url: str) -> None:
    store = open_store(url)
    try:
        with store.reading(), store.reading(), store.transaction():  # three connections
            store.last_id()
    finally:
        store.close()


def test_without_tls_it_is_said_once_with_what_to_set(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    database = postgres.new_database()
    used(postgres.tcp_url(database))
    (warning,) = warnings_of(caplog)
    assert warning["cause"] == "it is not encrypted"
    assert warning["mend"] == "sslmode=verify-full in its URL"
    assert str(warning["database"]).endswith(f"@127.0.0.1:{postgres.port}/{database}")
    assert "sesame" not in str(warning)


def test_a_unix_socket_needs_none(postgres: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    used(postgres.url(postgres.new_database()))
    assert warnings_of(caplog) == []


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ("sslmode=verify-full&sslrootcert={authority}", None),
        ("sslmode=verify-ca&sslrootcert={authority}", None),
        ("sslmode=require", "sslmode=require looks at no certificate of the server's"),
        ("", "sslmode=prefer looks at no certificate of the server's"),
        ("sslmode=disable", "it is not encrypted"),
    ],
)
def test_with_tls_it_goes_by_what_the_connection_has(
    with_tls: PostgresServer, caplog: pytest.LogCaptureFixture, options: str, cause: str | None
) -> None:
    url = f"{with_tls.tcp_url(with_tls.new_database())}?{options.format(authority=with_tls.authority)}"
    used(url)
    assert [warning["cause"] for warning in warnings_of(caplog)] == ([] if cause is None else [cause])


def test_a_server_that_others_stand_in_for_is_not_spoken_to(with_tls: PostgresServer) -> None:
    url = with_tls.tcp_url(with_tls.new_database())
    with pytest.raises(StoreAway, match=r"certificate|root.crt"):
        open_store(f"{url}?sslmode=verify-full")  # whose authority nobody knows


def test_it_is_said_again_when_tls_is_lost(with_tls: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    """As when somebody takes the server's place and offers none: libpq goes on without."""
    engine = StoreEngine(with_tls.tcp_url(with_tls.new_database()), patience=PATIENT, is_prepared=True)
    try:
        for _ in range(2):
            with engine.reading():
                pass
            engine.close()
        with_tls.stop()
        tls, with_tls._tls = with_tls._tls, ()
        with_tls.start()
        with engine.reading():
            pass
    finally:
        engine.close()
        with_tls.stop()
        with_tls._tls = tls
        with_tls.start()
    causes = [str(warning["cause"]) for warning in warnings_of(caplog)]
    assert causes == ["sslmode=prefer looks at no certificate of the server's", "it is not encrypted"]
