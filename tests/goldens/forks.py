"""Runs many commands from one process that has the heavy libraries loaded: a fork each, as one would be begun anew.

Started by path in the interpreter of a tree; reads ``{"words", "folder", "stdin", "environment"}`` a line, writes the
exit code. What the command says goes to ``stdout`` and ``stderr`` in the folder. Nothing of the agent is loaded before
the fork, so each command loads what it needs.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys

HEAVY = ("argparse", "asyncio", "json", "msgspec", "numpy", "ssl", "typing", "unittest", "urllib3", "yaml")


def run(order: dict[str, object]) -> None:
    """Become one command; never comes back."""
    folder = str(order["folder"])
    os.chdir(folder)
    os.environ.update({str(key): str(value) for key, value in dict(order["environment"]).items()})  # type: ignore[call-overload]
    os.environ["HOME"] = folder
    for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", _NEW), (2, "stderr", _NEW)):
        opened = os.open(f"{folder}/{name}", flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["plimsoll", *order["words"]]  # type: ignore[misc]
    code: object = 0
    try:
        runpy.run_module("agent", run_name="__main__", alter_sys=True)
    except SystemExit as left:
        code = left.code
    except BaseException:  # noqa: BLE001  what a bug leaves on stderr is an output too
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def main() -> None:
    """Serve until the input ends."""
    for name in HEAVY:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
