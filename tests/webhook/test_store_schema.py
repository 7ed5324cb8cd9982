"""How a store comes to be: made, migrated, refused; however many begin together."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, inspect, text

from agent.webhook.store.database import schema as store_schema
from agent.webhook.store.database import tables
from agent.webhook.store.database.engine import StoreEngine
from agent.webhook.store.database.place import SqlitePlace
from agent.webhook.store.records.decisions import DecisionChoice
from agent.webhook.store.shapes import SchemaTooNew, StoreAway, StoreUnusable
from agent.webhook.store.store import Store
from tests.webhook.open_store import PATIENT, open_store
from tests.webhook.postgres import PostgresServer
from tests.webhook.replica import Replica
from tests.webhook.reports import new_report


@pytest.fixture
def store(bare_url: str) -> Iterator[Store]:
    """A store whose tables its own migrations made."""
    opened = open_store(bare_url)
    yield opened
    opened.close()


@contextmanager
def engine(url: str) -> Iterator[StoreEngine]:
    opened = StoreEngine(url, patience=PATIENT, is_prepared=True)
    yield opened
    opened.close()


def execute(url: str, statement: str) -> None:
    with engine(url) as opened, opened.writing() as connection:
        connection.execute(text(statement))


def table_names(url: str) -> set[str]:
    with engine(url) as opened, opened.reading() as connection:
        return set(inspect(connection).get_table_names())


def make_first_schema(url: str) -> None:
    with engine(url) as opened:
        store_schema.prepare(opened, schema="0001")


def test_migrations_make_the_tables_that_statements_name(store: Store, bare_url: str) -> None:
    with engine(bare_url) as opened, opened.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": store_schema.VERSION_TABLE})
        assert compare_metadata(context, tables.metadata) == []


def test_newest_migration_is_the_schema_looked_for() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(store_schema.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [store_schema.SCHEMA]


def old_replica(url: str) -> Store:
    """A store that found its tables there when it began."""
    old = Store(url, patience=PATIENT)
    old._engine.is_prepared = True
    return old


def test_store_of_the_first_schema_is_taken_over_with_its_reports(bare_url: str) -> None:
    make_first_schema(bare_url)
    old = old_replica(bare_url)
    old.append(new_report(1))
    old.append(new_report(3))
    old.close()
    assert "evictions" not in table_names(bare_url)

    store = open_store(bare_url)
    assert [report.id for report in store.tail(0, 10)] == [1, 2]
    assert store.append(new_report(3)).repeated
    assert store.append(new_report(2)).id == 3
    with store.transaction() as connection:
        assert connection.execute(text("SELECT count(*) FROM evictions")).scalar_one() == 0
    store.close()


def test_store_of_the_schema_before_keeps_its_data_and_gets_decisions_and_a_ledger(bare_url: str) -> None:
    with engine(bare_url) as opened:
        store_schema.prepare(opened, schema="0007")
    old = old_replica(bare_url)
    old.append(new_report(1))
    execute(
        bare_url,
        "INSERT INTO setbacks (namespace, workload_kind, workload_name, what, at_unix_seconds, share, reason)"
        " VALUES ('shop', 'Deployment', 'web', 'shrink', 5, '', 'slow')",
    )
    execute(bare_url, "INSERT INTO sketches (unix_hour, key, payload) VALUES (7, 'shop/Deployment/web/app/c/2', 'x')")
    old.close()
    assert {"decisions", "ledger_hours"} & table_names(bare_url) == set()

    store = open_store(bare_url)
    assert {"decisions", "decision_logs", "ledger_workloads", "ledger_hours", "ledger_days"} <= table_names(bare_url)
    assert store.append(new_report(1)).repeated
    assert store.ledger_through() == 0
    assert store.oldest_sketch_hour() == 7
    with store.reading() as connection:
        assert connection.execute(text("SELECT reason FROM setbacks")).scalar_one() == "slow"
    assert store.decisions(DecisionChoice(), 10) == []
    store.close()


def test_old_replica_goes_on_beside_the_new_schema(bare_url: str) -> None:
    """Replicas are replaced one after the other."""
    make_first_schema(bare_url)
    old = old_replica(bare_url)
    old.append(new_report(1))
    new = open_store(bare_url)
    old.append(new_report(2))
    assert len(new.tail(0, 10)) == 2
    old.close()
    new.close()


def test_migration_that_breaks_leaves_the_old_schema(bare_url: str) -> None:
    make_first_schema(bare_url)
    with engine(bare_url) as opened:

        @event.listens_for(opened.engine, "before_cursor_execute")
        def break_late(_connection: object, _cursor: object, statement: str, *_: Any) -> None:
            if "UPDATE plimsoll_schema" in statement:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store_schema.prepare(opened)
    assert "evictions" not in table_names(bare_url), "tables are made in the transaction too"
    open_store(bare_url).close()
    assert "evictions" in table_names(bare_url)


def test_newer_schema_is_refused_and_left_alone(bare_url: str) -> None:
    store = open_store(bare_url)
    store.append(new_report(1))
    store.close()
    execute(bare_url, "UPDATE plimsoll_schema SET version_num = '0099'")
    with pytest.raises(
        SchemaTooNew, match=f"has schema 0099, this Plimsoll knows {store_schema.SCHEMA} and older"
    ) as caught:
        open_store(bare_url)
    assert (caught.value.found, caught.value.known) == ("0099", store_schema.SCHEMA)
    assert "\n" not in str(caught.value)
    with engine(bare_url) as opened, opened.reading() as connection:
        assert connection.execute(text("SELECT version_num FROM plimsoll_schema")).scalar_one() == "0099"
        assert connection.execute(text("SELECT count(*) FROM reports")).scalar_one() == 1


def test_unknown_schema_is_refused(bare_url: str) -> None:
    open_store(bare_url).close()
    execute(bare_url, "UPDATE plimsoll_schema SET version_num = 'abc'")
    with pytest.raises(StoreUnusable, match="unknown schema 'abc'"):
        open_store(bare_url)


@pytest.mark.parametrize("begun_with", ["nothing", "the first schema"])
def test_replicas_that_start_together_prepare_it_once(bare_url: str, begun_with: str) -> None:
    if begun_with == "the first schema":
        make_first_schema(bare_url)
    replicas = Replica(bare_url, "open", "--together", "4")
    replicas.await_line("ready")
    replicas.begin()
    assert replicas.end() == (0, ["done"] * 4, "")
    assert tables.metadata.tables.keys() <= table_names(bare_url)
    with engine(bare_url) as opened, opened.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM plimsoll_schema")).scalar_one() == 1
        assert connection.execute(text("SELECT count(*) FROM counters")).scalar_one() == 7


def test_start_on_a_prepared_store_loads_nothing_that_it_does_not_use(store: Store, bare_url: str) -> None:
    """The 9 MB of alembic, and the 8 of the other database's driver, would stay in memory for good."""
    code = (
        "import json, sys; import agent.webhook.assembly; from tests.webhook.open_store import open_store;"
        f"open_store({bare_url!r}); print(json.dumps([name in sys.modules for name in ('alembic', 'psycopg')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == [False, bare_url.startswith("postgresql")]


def test_file_is_its_owners_alone_and_keeps_each_commit(tmp_path: Path) -> None:
    path = tmp_path / "plimsoll.db"
    old = os.umask(0)
    try:
        store = open_store(str(path))
    finally:
        os.umask(old)
    store.append(new_report(1))
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"plimsoll.db": 0o600, "plimsoll.db-wal": 0o600, "plimsoll.db-shm": 0o600}
    with store.reading() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar_one() == 2, "FULL"
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
    store.close()


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_file_is_named_by_a_path_or_a_url(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a % b#c.db"
    store = open_store(form.format(path))
    assert store.place == str(path)
    assert path.exists()
    store.close()


def test_path_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("one.db", "sqlite:///two.db"):
        open_store(url).close()
    assert {path.name for path in tmp_path.iterdir()} >= {"one.db", "two.db"}


def test_file_in_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=f"there is no directory {tmp_path}/none"):
        open_store(str(tmp_path / "none" / "plimsoll.db"))
    assert list(tmp_path.iterdir()) == []


def test_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="is a directory; name a file in it"):
        open_store(str(tmp_path))


def test_directory_where_nothing_can_be_written_is_refused() -> None:
    # Not even root makes files in sysfs.
    with pytest.raises(StoreUnusable, match=r"database /sys/plimsoll\.db cannot be made: Permission denied"):
        open_store("/sys/plimsoll.db")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize(
    ("directory_mode", "file_mode", "said"),
    [(0o555, 0o666, "is not writable"), (0o777, 0o444, "may not be read and written"), (0o555, None, "cannot be made")],
)
def test_rights_that_are_missing_are_named(
    tmp_path_factory: pytest.TempPathFactory, directory_mode: int, file_mode: int | None, said: str
) -> None:
    directory = tmp_path_factory.mktemp("rights")
    path = directory / "plimsoll.db"
    if file_mode is not None:
        open_store(str(path)).close()
        path.chmod(file_mode)
    directory.chmod(directory_mode)
    # As somebody else in a child of its own; what it opens has been loaded before it changes.
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.chdir(directory)  # above it, pytest's directories are root's alone
            os.setresuid(65534, 65534, 65534)
            try:
                store_schema._make_file(SqlitePlace(path=Path("plimsoll.db")))
            except StoreUnusable as error:
                status = 0 if said in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_text_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Buy milk, and much of it, so that this is longer than a header of a hundred bytes.\n" * 20)
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match=r"notes\.txt is no SQLite file"):
        open_store(str(path))
    assert path.read_bytes() == before


def test_sqlite_file_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE reports (id INTEGER)")
    connection.close()
    with pytest.raises(StoreUnusable, match="is an SQLite file of another program"):
        open_store(str(path))
    assert table_names(f"sqlite:///{path}") == {"reports"}


def test_database_of_another_program_is_refused_and_left_alone(postgres: PostgresServer) -> None:
    url = postgres.url(postgres.new_database())
    execute(url, "CREATE TABLE reports (id INTEGER)")
    with pytest.raises(StoreUnusable, match=r"has tables of something else \(reports\): give Plimsoll its own"):
        open_store(url)
    assert table_names(url) == {"reports"}


def test_tables_of_others_with_other_names_do_not_matter(postgres: PostgresServer) -> None:
    url = postgres.url(postgres.new_database())
    execute(url, "CREATE TABLE alembic_version (version_num TEXT)")
    open_store(url).close()
    assert {"alembic_version", "plimsoll_schema"} <= table_names(url)


def test_role_that_may_make_no_tables_is_refused(postgres: PostgresServer) -> None:
    database = postgres.new_database()
    postgres.execute("CREATE ROLE weak LOGIN")
    postgres.execute("REVOKE CREATE ON SCHEMA public FROM public", database)
    with pytest.raises(StoreUnusable, match="cannot be set up: permission denied for schema public"):
        open_store(postgres.url(database, user="weak"))


def test_database_that_does_not_exist_is_named(postgres: PostgresServer) -> None:
    with pytest.raises(StoreAway, match='database "nowhere" does not exist'):
        open_store(postgres.url("nowhere"))
