"""One container of a development space: ``python3 -I -S space.py ROLE``; tells what it did as JSON lines.

Runs inside the pods under Debian's own Python, on the standard library alone. What it may do stands in EXPERIMENT
(JSON), when it may is said by files in /control, as for ``tests/e2e/native/load.c``. Times are monotonic seconds of the
guest; CPU is that of the processes that did the work, as the kernel counts it for whoever waits for them.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import sqlite3
import sys
import tarfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

PAYLOAD = Path(__file__).parent
SOURCES = PAYLOAD / "sources"
CONTROL, WORK = Path("/control"), Path("/work")
POLL_SECONDS = 0.5
MIB = 1 << 20
TERMS: dict[str, Any] = json.loads(os.environ.get("EXPERIMENT", "{}"))
COUNTS: dict[str, int] = TERMS.get("counts", {})


def tell(event: str, **what: object) -> None:
    """Print one line."""
    print(json.dumps({"event": event, **what}), flush=True)


def wait_for(name: str) -> None:
    """Wait for a file in /control."""
    while not (CONTROL / name).exists():
        time.sleep(POLL_SECONDS)


def wait_for_end_of(name: str) -> None:
    """Wait until a file of /control is gone."""
    while (CONTROL / name).exists():
        time.sleep(POLL_SECONDS)


def in_child(work: Callable[[], object]) -> dict[str, float | bool]:
    """Do something in a process of its own; give when it began and ended, its CPU time, and whether it went well."""
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            work()
            code = 0
        finally:
            os._exit(code)
    _, status, usage = os.wait4(pid, 0)
    return {
        "begun": begun,
        "ended": time.monotonic(),
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "is_good": status == 0,
    }


def build() -> None:
    """Compile and link a C program, three processes at a time."""
    out = WORK / "build"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    units = " ".join(f"unit{number}" for number in range(COUNTS["build"]))
    os.execvp("make", ["make", "-s", "-j3", "-f", str(SOURCES / "Makefile"), f"UNITS={units}", f"OUT={out}"])  # noqa: S606


def install() -> None:
    """Unpack many small files and byte-compile them, in one process."""
    out = WORK / "install"
    shutil.rmtree(out, ignore_errors=True)
    with tarfile.open(SOURCES / "packages.tar") as tar:
        for member in islice(tar, COUNTS["install"]):
            tar.extract(member, out)
    compileall.compile_dir(out, quiet=2)


def watch() -> None:
    """Compile one module again."""
    compile_lines(COUNTS["watch"])


def deploy() -> None:
    """Load a dump into a fresh database."""
    database = WORK / "deploy.db"
    database.unlink(missing_ok=True)
    with sqlite3.connect(database) as connection, (SOURCES / "dump.sql").open() as dump:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT UNIQUE, body TEXT)")
        for line in islice(dump, COUNTS["deploy"]):
            connection.execute(line)


def start_up() -> None:
    """Do what an IDE or a language server does before it answers: read and compile sources."""
    compile_lines(COUNTS["load"])


def compile_lines(count: int) -> None:
    """Compile so many functions of Python, fifty at a time."""
    with (SOURCES / "functions.txt").open() as file:
        functions = list(islice(file, 50))
    text = "".join(function.replace("\\n", "\n") for function in functions)
    for _ in range(count):
        compile(text, "functions", "exec")


def run() -> dict[str, float | bool]:
    """Start a program that imports many modules, and give when it answered."""
    begun = time.monotonic()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, 1)
        os.execv(sys.executable, [sys.executable, "-I", "-S", str(PAYLOAD / "program.py"), str(COUNTS["run"])])  # noqa: S606
    os.close(writing)
    is_good = bool(os.read(reading, 1))
    ended = time.monotonic()
    os.close(reading)
    os.kill(pid, 9)
    _, _, usage = os.wait4(pid, 0)
    return {"begun": begun, "ended": ended, "cpu_seconds": usage.ru_utime + usage.ru_stime, "is_good": is_good}


OPERATIONS: dict[str, Callable[[], dict[str, float | bool]]] = {
    "build": lambda: in_child(build),
    "install": lambda: in_child(install),
    "watch": lambda: in_child(watch),
    "deploy": lambda: in_child(deploy),
    "run": run,
}


def tools_a() -> None:
    """Take the operations one after the other, rest, and again, from each ``go`` to the next ``stop``."""
    while True:
        wait_for("go")
        time.sleep(TERMS["first_delay_seconds"])
        while not (CONTROL / "stop").exists():
            for name, operation in OPERATIONS.items():
                tell("operation", name=name, **operation())
            time.sleep(TERMS["rest_seconds"])
        (CONTROL / "stopped").touch()
        wait_for_end_of("stop")


def tools_b() -> None:
    """Do nothing, but link when told to."""
    while True:
        wait_for("link")
        mebibytes = int((CONTROL / "link").read_text())
        (CONTROL / "link").unlink()  # a container that is killed must not begin anew
        tell("linking", mebibytes=mebibytes)
        tell("linked", **in_child(lambda size=mebibytes: hold(size)))  # type: ignore[misc]
        (CONTROL / "linked").touch()


def hold(mebibytes: int) -> bytearray:
    """Touch so much memory."""
    room = bytearray(mebibytes * MIB)
    for place in range(0, len(room), 4096):
        room[place] = 1
    return room


def server(role: str) -> None:
    """Start up whenever told to, and say when it is ready."""
    held = bytearray()
    while True:
        if (CONTROL / "start").exists():
            if role == "lsp" and TERMS["is_lsp_after_ide"]:
                wait_for("ide-ready")
            tell("started", role=role, **in_child(start_up))
            (CONTROL / f"{role}-ready").touch()
            wait_for_end_of("start")
        wanted = CONTROL / f"hold-{role}"
        if wanted.exists() and not held:
            held = hold(int(wanted.read_text()))
            (CONTROL / f"held-{role}").touch()
        time.sleep(POLL_SECONDS)


def calibrate() -> None:
    """Tell what each operation costs, three times: the first reads programs from the disk."""

    def load() -> dict[str, float | bool]:
        return in_child(start_up)

    every = {**OPERATIONS, "load": load}
    for _ in range(3):
        for name, operation in every.items():
            tell("operation", name=name, **operation())
    tell("stopped")
    time.sleep(86400)


def main() -> None:
    role = sys.argv[1]
    tell("begun", role=role, at=time.monotonic())
    roles: dict[str, Callable[[], None]] = {"tools-a": tools_a, "tools-b": tools_b, "calibrate": calibrate}
    if role in roles:
        roles[role]()
    else:
        server(role)


if __name__ == "__main__":
    main()
