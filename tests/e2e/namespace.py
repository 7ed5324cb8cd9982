"""The network namespace that the control plane and the guest live in; see ``node``."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

from tests.e2e.node import GUEST_ADDRESS, NodeError

MARK: Final = "TESTS_E2E_NAMESPACE"
"""Set in the process that runs inside; not by PLIMSOLL_, which Plimsoll's own programs read as settings."""


def enter(module: str = "tests.e2e") -> None:
    """Start this very command, ``python -m MODULE``, again inside a fresh network namespace; returns only there.

    Raises:
        NodeError: Not root: user namespaces would do for the network, but files of the guest's would have no owners.
    """
    if not is_outside():
        set_up()
        return
    if os.geteuid() != 0:
        raise NodeError("e2e: run it as root: it makes a network namespace of its own")
    arguments = [sys.executable, "-m", module, *sys.argv[1:]]
    os.execvpe(  # noqa: S606 - ourselves
        "unshare", ["unshare", "--net", "--", *arguments], {**os.environ, MARK: "1"}
    )


def is_outside() -> bool:
    """Return whether this process has still to go inside."""
    return not os.environ.get(MARK)


def set_up() -> None:
    """Bring the loopback up, and put the guest's address on it."""
    for command in (
        ["ip", "link", "set", "lo", "up"],
        ["ip", "addr", "add", f"{GUEST_ADDRESS}/32", "dev", "lo"],
        # The source matters: to qemu a connection from the guest's own address would be the guest's own.
        f"ip route replace local {GUEST_ADDRESS} dev lo table local src 127.0.0.1".split(),
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NodeError(f"e2e: {' '.join(command)} failed: {done.stderr.strip()}")
