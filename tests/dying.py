"""Children of tests that die with them, whatever ends a test run: SIGTERM, a timeout, SIGKILL."""

from __future__ import annotations

from pathlib import Path


def dying_with_us(*command: str | Path) -> list[str]:
    """Return the command line of a program that the kernel kills when the thread that started it ends.

    Start such programs from a thread that lives as long as they shall; pytest runs tests and fixtures in its main one.
    A starter that is killed in the first milliseconds, before setpriv has asked the kernel for this, leaves the child
    behind. What changes its user or group has to come before this: the kernel forgets it then.
    """
    # setpriv (util-linux) and not preexec_fn: the latter may deadlock where threads run. It becomes the program, so the
    # process id is the program's.
    return ["setpriv", "--pdeathsig", "KILL", "--", *(str(word) for word in command)]
