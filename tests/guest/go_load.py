"""A load in Go for the guest, built on the host before it boots: to build there, in emulation, takes minutes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final

from tests.cluster.binaries import cache_root, go_environment
from tests.cluster.toolchain import find_go
from tests.guest.machine import REPOSITORY

_SOURCE: Final = Path(__file__).with_name("hold.go")
_NEEDED: Final = (1, 21)


def go_load() -> Path:
    """Return where the program is once it is built: below the repository, which the guest sees at the same place."""
    return REPOSITORY / "build" / "guest" / f"hold-{blake2b(_SOURCE.read_bytes(), digest_size=6).hexdigest()}"


def ensure_go_load(progress: Callable[[str], None]) -> Path:
    """Build the program unless it is there.

    Raises:
        ToolchainError: There is no Go, and none can be installed.
        CalledProcessError: Go could not build it.
    """
    program = go_load()
    if not program.is_file():
        progress(f"building {program.name} (half a minute, once)")
        program.parent.mkdir(parents=True, exist_ok=True)
        go = find_go(_NEEDED, cache_root(), progress)
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=program.parent) as unfinished:
            binary = Path(unfinished) / program.name
            environment = {**go_environment(), "GOFLAGS": "", "HOME": os.environ.get("HOME", unfinished)}
            subprocess.run([str(go), "build", "-o", str(binary), str(_SOURCE)], env=environment, check=True)
            binary.rename(program)
    return program
