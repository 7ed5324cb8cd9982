"""What a run that was killed left behind: its folder with the disk mounted in it, its rings, its memory cgroup."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.soak.memory_hog import V1_MEMORY

PREFIX: Final = "plimsoll-soak-"
MEMORY_DISKS: Final = Path("/dev/shm")
_NAME: Final = re.compile(rf"{PREFIX}(\d+)(?:-.*)?")


def own_folder() -> Path:
    """Make this run's folder, named after its process."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def sweep(places: Sequence[Path] | None = None) -> list[str]:
    """Remove what is left of runs whose process is no more; give the names.

    Args:
        places: Where to look; None = where runs leave things.
    """
    swept = []
    for place in places or (Path(tempfile.gettempdir()), MEMORY_DISKS, V1_MEMORY):
        for left in sorted(place.glob(f"{PREFIX}*")):
            name = _NAME.fullmatch(left.name)
            if name is None or Path("/proc", name[1]).exists():
                continue
            for mounted in left.glob("state"):
                if mounted.is_mount():
                    subprocess.run(["umount", "--lazy", str(mounted)], check=False, capture_output=True)
            if place == V1_MEMORY:
                with contextlib.suppress(OSError):  # somebody is in it still
                    left.rmdir()
            else:
                shutil.rmtree(left, ignore_errors=True)
            swept.append(left.name)
    return swept
