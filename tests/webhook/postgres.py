"""A real PostgreSQL server of the Debian package, in a directory of its own; for the tests and the bench.

The server refuses to be root: as root it is started as ``postgres``, else as ``nobody``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg

from tests.cluster.processes import free_ports, freeze

USER: Final = "plimsoll"
PASSWORD: Final = "open:sesame/@"  # noqa: S105
"""Of USER, asked for over TCP; with all that a URL has to quote."""
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0


class PostgresError(Exception):
    """The server is not here or does not run; the text says what to do or ends with its log."""


def postgres_programs() -> Path:
    """Return the folder of initdb and postgres; Debian keeps them out of the PATH.

    Raises:
        PostgresError: There is none.
    """
    paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    in_path = shutil.which("initdb")
    if paths:
        return paths[-1].parent
    if in_path:
        return Path(in_path).parent
    raise PostgresError("no PostgreSQL server here: .ci/tools, or apt-get install postgresql")


class PostgresServer:
    """One server; stopped with the process that started it, at the latest."""

    def __init__(self, directory: Path, *, is_durable: bool = False, has_tls: bool = False) -> None:
        self._programs = postgres_programs()
        self._directory = directory
        self._is_durable = is_durable
        self._names = itertools.count(1)
        self._child: subprocess.Popen[bytes] | None = None
        self.port = free_ports(1, "127.0.0.1")[0]
        self.log = directory / "log"
        if os.geteuid() == 0:
            account = _account()
            os.chown(directory, account.pw_uid, account.pw_gid)
        secret = directory / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run(
            *("initdb", "--pgdata", directory / "data", "--username", USER, "--pwfile", secret, "--no-sync"),
            *("--encoding", "UTF8", "--no-locale", "--auth-local", "trust", "--auth-host", "scram-sha-256"),
        )
        self._tls = self._certified() if has_tls else ()
        self.start()

    @property
    def authority(self) -> Path:
        """Of its certificate, which names 127.0.0.1 and localhost; of a server with TLS."""
        return self._directory / "server.crt"

    def _certified(self) -> tuple[str, ...]:
        """Return it a certificate of its own; give the options with which it takes TLS, and takes it without, too."""
        key = self._directory / "server.key"
        self._run_plain(
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(self.authority)),
        )
        key.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(key, _account().pw_uid, _account().pw_gid)
        return ("-c", "ssl=on", "-c", f"ssl_cert_file={self.authority}", "-c", f"ssl_key_file={key}")

    def url(self, database: str = "postgres", *, user: str = USER) -> str:
        """Return a database's URL over the unix socket, which asks for no password."""
        return f"postgresql:///{database}?host={quote(str(self._directory), safe='')}&port={self.port}&user={user}"

    def tcp_url(self, database: str = "postgres", *, password: str = PASSWORD) -> str:
        """Return a database's URL over TCP, password and all."""
        return f"postgresql://{USER}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """Make an empty database, or a copy of another to which nobody is connected, and give its name."""
        name = f"test_{next(self._names)}"
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
            except psycopg.errors.ObjectInUse:  # who has just left the template is still ending
                if time.monotonic() > until:
                    raise
            else:
                return name

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run one statement as the superuser, outside a transaction."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Start it (again) and wait until it answers."""
        durability = () if self._is_durable else ("-c", "fsync=off", "-c", "full_page_writes=off")
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                [
                    *_as_its_user(),
                    str(self._programs / "postgres"),
                    *("-D", str(self._directory / "data"), "-k", str(self._directory)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}"),
                    *("-c", "shared_buffers=64MB", "-c", "max_connections=100", *durability, *self._tls),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
            )
        self._await_answer()

    def _await_answer(self) -> None:
        assert self._child is not None
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with psycopg.connect(self.url(), connect_timeout=2):
                    return
            except psycopg.OperationalError as error:
                if self._child.poll() is not None or time.monotonic() > deadline:
                    raise PostgresError(f"postgres does not start: {error}\n{self.log.read_text()[-2000:]}") from error
                time.sleep(0.02)

    def stop(self, *, kill: bool = False) -> None:
        """End it: connections are cut; with ``kill`` like a crash, and it recovers at its next start."""
        if self._child is None:
            return
        # SIGQUIT is the server's own way to crash: by SIGKILL, its children would outlive it for a moment.
        self._child.send_signal(signal.SIGQUIT if kill else signal.SIGINT)
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.send_signal(signal.SIGQUIT)
            self._child.wait(START_SECONDS)
        self._child = None

    def freeze(self) -> None:
        """Let it accept no more: connections wait."""
        assert self._child is not None
        freeze(self._child)

    def thaw(self) -> None:
        """Let it go on, and wait until it answers."""
        assert self._child is not None
        self._child.send_signal(signal.SIGCONT)
        # A server told to stop while it still finds out whose callers are gone waits a minute for them.
        self._await_answer()

    def _run(self, program: str, *words: str | Path) -> None:
        self._run_plain(*_as_its_user(), str(self._programs / program), *(str(word) for word in words))

    @staticmethod
    def _run_plain(*command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        if done.returncode:
            raise PostgresError(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")


@contextlib.contextmanager
def postgres_server(*, is_durable: bool = False, has_tls: bool = False) -> Iterator[PostgresServer]:
    """Run a server in a temporary directory; ``is_durable`` with the syncs to disk that tests do not need."""
    # Not below pytest's directory: that one is root's alone. Short, as the socket's path has 107 bytes.
    with tempfile.TemporaryDirectory(prefix="plimsoll-pg-", dir="/tmp") as directory:
        server = PostgresServer(Path(directory), is_durable=is_durable, has_tls=has_tls)
        try:
            yield server
        finally:
            server.stop(kill=True)  # nobody will read it again


def _account() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresError("postgres refuses to be root, and there is no user postgres or nobody")


def _as_its_user() -> list[str]:
    command = ["setpriv", "--pdeathsig", "KILL"]
    if os.geteuid() == 0:
        account = _account()
        command += ["--reuid", str(account.pw_uid), "--regid", str(account.pw_gid), "--clear-groups"]
    return [*command, "--"]
