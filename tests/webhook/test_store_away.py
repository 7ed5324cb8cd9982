"""A database that is away: said at once, in one line, without its password; and used again when it is back."""

from __future__ import annotations

import contextlib
import logging
import socket
import sqlite3
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, exc

from agent.webhook.store.database.engine import StoreEngine, StorePatience
from agent.webhook.store.database.place import to_place
from agent.webhook.store.shapes import StoreAway, StoreUnusable
from agent.webhook.store.store import Store
from tests.webhook.open_store import PATIENT, open_store
from tests.webhook.postgres import PASSWORD, PostgresServer
from tests.webhook.reports import new_report

SOON = StorePatience(connect_seconds=60, lock_seconds=0.2, statement_seconds=60.0, retry_seconds=0.0)
"""Patient but where another one holds what is wanted."""


def refuses_writes(store: Store) -> bool:
    """Ask anew each time."""
    return store.refuses_writes


@pytest.fixture
def restartable(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """The server, running again afterwards whatever a test did to it."""
    yield postgres
    postgres.stop(kill=True)
    postgres.start()


@pytest.fixture
def remote(restartable: PostgresServer) -> Iterator[Store]:
    """A store on it, over TCP and with a password."""
    opened = open_store(restartable.tcp_url(restartable.new_database()), patience=SOON)
    yield opened
    opened.close()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "crashed"])
def test_server_that_comes_back_is_used_again(restartable: PostgresServer, remote: Store, kill: bool) -> None:
    assert [remote.append(new_report(sequence)).id for sequence in (1, 2)] == [1, 2]
    restartable.stop(kill=kill)
    for call in (
        lambda: remote.append(new_report(3)),
        lambda: remote.tail(0, 1),
        remote.nodes,
        remote.size_bytes,
        lambda: list(remote.sketches(0)),
        lambda: remote.fold(1, [], 0, base_id=0),
    ):
        with pytest.raises(StoreAway, match="is away: ") as caught:
            call()
        assert "\n" not in str(caught.value)
    restartable.start()
    assert remote.append(new_report(2)).repeated, "what was acknowledged is there"
    assert not remote.append(new_report(3)).repeated
    assert len(remote.tail(0, 10)) == 3


def test_restart_that_nobody_noticed_disturbs_nothing(restartable: PostgresServer, remote: Store) -> None:
    remote.append(new_report(1))
    restartable.stop()
    restartable.start()
    assert remote.append(new_report(2)).id == 2, "at the first try, though its connection is dead"


def test_start_while_the_server_is_away_and_later(restartable: PostgresServer) -> None:
    url = restartable.tcp_url(restartable.new_database())
    restartable.stop()
    with pytest.raises(StoreAway, match="Connection refused"):
        open_store(url)
    store = Store(url, patience=SOON)
    with pytest.raises(StoreAway):
        store.prepare()
    restartable.start()
    store.prepare()
    assert store.append(new_report(1)).id == 1
    store.close()


def test_connection_cut_in_the_middle_of_an_append_writes_nothing(postgres: PostgresServer) -> None:
    url = postgres.url(postgres.new_database())
    store = open_store(url)

    @event.listens_for(store._engine.engine, "before_cursor_execute")
    def cut(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT INTO reports"):
            postgres.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'plimsoll-webhook' AND datname = current_database()",
                url.partition("?")[0].rpartition("/")[2],
            )

    with pytest.raises(StoreAway, match="terminating connection"):
        store.append(new_report(1))
    event.remove(store._engine.engine, "before_cursor_execute", cut)
    assert store.last_id() == 0
    assert store.nodes() == []
    assert not store.append(new_report(1)).repeated
    store.close()


def test_server_that_answers_nothing_is_given_up(restartable: PostgresServer) -> None:
    restartable.freeze()
    engine = StoreEngine(restartable.tcp_url(), patience=StorePatience(connect_seconds=2), is_prepared=True)
    try:
        with pytest.raises(StoreAway, match="connection timeout expired"), engine.reading():
            pass
    finally:
        restartable.thaw()
    engine.close()


def test_statement_that_takes_too_long_is_given_up(postgres: PostgresServer) -> None:
    engine = StoreEngine(
        postgres.url(), patience=StorePatience(connect_seconds=60, statement_seconds=1.0), is_prepared=True
    )
    with pytest.raises(StoreAway, match="statement timeout"), engine.reading() as connection:
        connection.exec_driver_sql("SELECT pg_sleep(60)")
    engine.close()


def test_statements_of_a_fold_have_longer(postgres: PostgresServer) -> None:
    # Told and not tried: with a second for others, a busy machine lets the one that asks for longer run out of it.
    engine = StoreEngine(postgres.url(), patience=replace(PATIENT, long_statement_seconds=90.0), is_prepared=True)
    for is_long, told in ((False, "1min"), (True, "90s"), (False, "1min")):
        with engine.reading(is_long=is_long) as connection:
            assert connection.exec_driver_sql("SHOW statement_timeout").scalar_one() == told
    engine.close()


def test_after_a_refusal_nobody_tries_for_a_moment() -> None:
    """Thousands of nodes report while it is away: their threads do not all wait for it."""
    tries: list[int] = []
    now = [0.0]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def turn_away() -> None:
            with contextlib.suppress(OSError):
                while True:
                    caller, _ = listener.accept()
                    tries.append(1)
                    caller.close()

        doorman = threading.Thread(target=turn_away, daemon=True)
        doorman.start()
        engine = StoreEngine(
            f"postgresql://u@127.0.0.1:{listener.getsockname()[1]}/d?sslmode=disable&gssencmode=disable",
            patience=StorePatience(connect_seconds=60, retry_seconds=1.0),
            is_prepared=True,
            monotonic_seconds=lambda: now[0],
        )
        for seconds, tried in ((100.0, 1), (100.5, 1), (100.9, 1), (101.1, 2)):
            now[0] = seconds
            with pytest.raises(StoreAway, match="closed the connection unexpectedly"), engine.reading():
                pass
            assert len(tries) == tried
        engine.close()
        listener.shutdown(socket.SHUT_RDWR)
        doorman.join()


def test_read_only_server_is_away(postgres: PostgresServer) -> None:
    """As after a fail-over, when the old primary is a standby."""
    database = postgres.new_database()
    open_store(postgres.url(database)).close()
    postgres.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    store = open_store(postgres.url(database))
    with pytest.raises(StoreAway, match="read-only transaction"):
        store.append(new_report(1))
    assert store.tail(0, 1) == []
    assert refuses_writes(store)
    postgres.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = off")
    store.close()
    assert store.append(new_report(1)).id == 1
    assert not refuses_writes(store)
    store.close()


def test_commits_wait_for_the_disk_whatever_the_server_says(postgres: PostgresServer) -> None:
    database = postgres.new_database()
    for said, wanted in (("off", "on"), ("remote_apply", "remote_apply")):
        postgres.execute(f"ALTER DATABASE {database} SET synchronous_commit = {said}")
        engine = StoreEngine(postgres.url(database), patience=PATIENT, is_prepared=True)
        with engine.reading() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == wanted
        engine.close()


@pytest.mark.parametrize("database", ["postgres", "nowhere"])
def test_password_is_in_no_error_and_no_log(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture, database: str
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "geheim:/@1"  # noqa: S105
    with pytest.raises(StoreAway) as caught:
        open_store(postgres.tcp_url(database, password=secret))
    text = "".join(traceback.format_exception(caught.value)) + caplog.text
    for word in (secret, "geheim", "geheim%3A"):
        assert word not in text
    assert f"127.0.0.1:{postgres.port}/{database} is away: " in str(caught.value)


def test_place_says_where_and_not_the_password(postgres: PostgresServer) -> None:
    store = Store(postgres.tcp_url())
    assert store.place == f"postgresql://plimsoll@127.0.0.1:{postgres.port}/postgres"
    for text in (repr(store), repr(store._engine.place), repr(store._engine.engine), str(store._engine.engine.url)):
        assert PASSWORD not in text
        assert "sesame" not in text


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:geheim%zz@h/d",
        "postgresql://u:gehe@im@h/d",
        "postgresql://u:gehe/im@h/d",
        "postgresql://u:gehe#im@h/d",
        "postgresql://u:p@h:geheim/d",
        "postgresql://u:geheim@h/d?nonsense=1",
        "mysql://u:geheim@h/d",
        "u:geheim@h://d",
        "",
        ":memory:",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///a.db?mode=ro",
    ],
)
def test_url_that_is_none_is_refused_in_one_line_that_shows_no_password(url: str) -> None:
    with pytest.raises(StoreUnusable) as caught:
        to_place(url)
    text = "".join(traceback.format_exception(caught.value)).partition("StoreUnusable")[2]
    assert "gehe" not in text
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgres://u:p@h/d", "postgresql://u@h/d"),
        ("postgresql:///d?host=/run/pg&port=77&user=u&password=p", "postgresql://u@/run/pg:77/d"),
        ("postgresql://u:p@one:1,two:2/d?target_session_attrs=read-write", "postgresql://u@one,two:1,2/d"),
        ("postgresql://", "postgresql://"),
    ],
)
def test_urls_as_postgresql_takes_them(url: str, name: str) -> None:
    assert str(to_place(url)) == name


def test_file_that_somebody_else_writes_is_busy_and_then_not(tmp_path: Path) -> None:
    path = tmp_path / "plimsoll.db"
    store = open_store(str(path), patience=SOON)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreAway, match="is away: database is locked"):
        store.append(new_report(1))
    assert not refuses_writes(store), "for a moment"
    assert store.tail(0, 1) == [], "reading goes on"
    other.execute("ROLLBACK")
    other.close()
    assert store.append(new_report(1)).id == 1
    store.close()


def test_threads_wait_for_their_turn_to_write(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "plimsoll.db"), patience=SOON)
    held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with store.transaction():
            held.set()
            is_over.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with pytest.raises(StoreAway, match=r"is busy: no turn to write within 0\.2 s"):
        store.append(new_report(1))
    is_over.set()
    holder.join()
    assert store.append(new_report(1)).id == 1
    store.close()


def test_file_that_is_removed_takes_no_more_reports(tmp_path: Path) -> None:
    """What is written to a removed file is acknowledged and lost."""
    path, aside = tmp_path / "plimsoll.db", tmp_path / "aside"
    aside.mkdir()
    store = open_store(str(path), patience=SOON)
    store.append(new_report(1))
    store.append(new_report(2))
    files = [file for file in tmp_path.iterdir() if file.is_file()]
    for file in files:
        file.rename(aside / file.name)
    with pytest.raises(StoreAway, match="unable to open database file"):
        store.append(new_report(3))
    assert not path.exists(), "no empty database in its place"
    for file in files:
        (aside / file.name).rename(file)
    assert store.append(new_report(2)).repeated
    assert not store.append(new_report(3)).repeated
    store.close()


def test_full_disk_is_away_until_there_is_room(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "plimsoll.db"), patience=SOON)
    store.close()

    def limit(connection: sqlite3.Connection, _entry: object) -> None:
        connection.execute("PRAGMA max_page_count = 40")

    event.listen(store._engine.engine, "connect", limit)
    with pytest.raises(StoreAway, match="database or disk is full"):
        store.append(new_report(1, payload_bytes=300_000))
    assert store.tail(0, 1) == []
    assert refuses_writes(store), "which to read does not tell"
    event.remove(store._engine.engine, "connect", limit)
    store.close()
    assert store.append(new_report(1, payload_bytes=300_000)).id == 1
    assert not refuses_writes(store)
    store.close()


def test_a_file_that_may_only_be_read_is_away(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "plimsoll.db"))

    def read_only(connection: sqlite3.Connection, _entry: object) -> None:
        connection.execute("PRAGMA query_only = on")

    store.close()
    event.listen(store._engine.engine, "connect", read_only)
    with pytest.raises(StoreAway, match="readonly database"):
        store.append(new_report(1))
    assert refuses_writes(store)
    event.remove(store._engine.engine, "connect", read_only)
    store.close()
    assert store.append(new_report(1)).id == 1
    assert not refuses_writes(store)
    store.close()


def test_fault_of_ours_is_not_taken_for_a_database_that_is_away(store: Store) -> None:
    with pytest.raises(exc.DBAPIError, match="nonsense"), store.transaction() as connection:
        connection.exec_driver_sql("SELECT nonsense FROM counters")
    assert store.append(new_report(1)).id == 1


def test_tables_that_somebody_took_away_are_a_database_that_is_away(store: Store) -> None:
    with store.transaction() as connection:
        connection.exec_driver_sql("ALTER TABLE counters RENAME TO aside")
    with pytest.raises(StoreAway, match="counters"):
        store.append(new_report(1))
    with store._engine.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE aside RENAME TO counters")
    assert store.append(new_report(1)).id == 1


def test_connections_are_bounded(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "plimsoll.db"), patience=SOON)
    with contextlib.ExitStack() as held:
        for _ in range(8):
            held.enter_context(store.snapshot(0))
        with pytest.raises(StoreAway, match="all connections are in use"):
            store.nodes()
    assert store.nodes() == []
    store.close()
