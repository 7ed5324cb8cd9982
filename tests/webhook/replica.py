"""``python -m tests.webhook.replica URL open|append|hold ...``: one replica's store in a process of its own.

It says ``ready`` when it has loaded everything, and begins at the first line of its standard input; with
``--together N`` as N processes at once, which load nothing twice.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence

from agent.webhook.store.shapes import StoreError
from agent.webhook.store.store import Store
from tests.dying import dying_with_us
from tests.webhook.open_store import open_store
from tests.webhook.reports import new_report

PAYLOAD_BYTES = 20_000


def main() -> int:
    """Do it, and return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("work", choices=("open", "append", "hold"))
    parser.add_argument("--nodes", default="node-a", help="comma between")
    parser.add_argument("--through", type=int, default=sys.maxsize)
    parser.add_argument("--together", type=int, default=1)
    options = parser.parse_args()
    if options.together > 1:
        importlib.import_module("alembic.command")
    print("ready", flush=True)
    sys.stdin.readline()
    if options.together == 1:
        return work(options)
    # Nothing is connected yet that two of them would share.
    replicas = [os.fork() or os._exit(work(options)) for _ in range(options.together)]
    return max(os.waitstatus_to_exitcode(os.waitpid(replica, 0)[1]) for replica in replicas)


def work(options: argparse.Namespace) -> int:
    """Do what was asked for; exit code 1 and one line on standard error if the store would not."""
    try:
        store = open_store(options.url)
        if options.work == "append":
            append(store, options.nodes.split(","), options.through)
        elif options.work == "hold":
            hold(store)
    except StoreError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    # Word and newline in one write, which ``print`` unbuffered does not: several share the pipe.
    sys.stdout.write("done\n")
    sys.stdout.flush()
    return 0


def append(store: Store, nodes: Sequence[str], through: int) -> None:
    """Append 1, 2, 3... of each node, and say of each what was answered: ``NODE SEQUENCE ID``, ID - for a repeat."""
    for sequence in range(1, through + 1):
        for node in nodes:
            appended = store.append(new_report(sequence, node=node, payload_bytes=PAYLOAD_BYTES))
            print(node, sequence, "-" if appended.repeated else appended.id, flush=True)


def hold(store: Store) -> None:
    """Stay in the middle of a transaction that has written, until killed."""
    with store.transaction():
        print("holding", flush=True)
        sys.stdin.read()


class Replica:
    """A replica as a child."""

    def __init__(self, url: str, work: str, *options: str) -> None:
        self.child = subprocess.Popen(
            dying_with_us(sys.executable, "-m", "tests.webhook.replica", url, work, *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def await_line(self, start: str) -> str:
        """Read on until a line begins so."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            if line.startswith(start):
                return line
        raise AssertionError(f"no line {start!r}: {self.end()[2]}")

    def begin(self) -> None:
        """Let it begin."""
        assert self.child.stdin is not None
        self.child.stdin.write("go\n")
        self.child.stdin.flush()

    def end(self, *, kill: bool = False) -> tuple[int, list[str], str]:
        """Wait for its end: code, the lines of output not read yet (the last one cut, it may be, by a kill), error."""
        if kill:
            self.child.kill()
        with self.child:
            assert self.child.stdout is not None
            assert self.child.stderr is not None
            lines = self.child.stdout.readlines()
            error = self.child.stderr.read()
        return self.child.returncode, [line.rstrip("\n") for line in lines if line.endswith("\n")], error


if __name__ == "__main__":
    sys.exit(main())
