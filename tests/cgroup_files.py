"""A cgroup tree of plain directories and files, for what must not need a kernel."""

from __future__ import annotations

import shutil
from pathlib import Path

POD_UID = "12345678-9abc-4def-8123-456789abcdef"


def container_id(number: int) -> str:
    return f"{number:064x}"


def container_path(number: int, *, pod_uid: str = POD_UID) -> str:
    """Of a container as the kubelet's cgroupfs driver lays it; relative, no leading slash."""
    return f"kubepods/burstable/pod{pod_uid}/{container_id(number)}"


class CgroupFiles:
    """Directories with the files of a cgroup that has all controllers and PSI."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)
        self._furnish(root)

    def _furnish(self, directory: Path) -> None:
        files = {
            "cgroup.controllers": "cpu memory\n",
            "cgroup.procs": "1\n",
            "cpu.stat": "usage_usec 1000\nuser_usec 600\nsystem_usec 400\nnr_periods 0\nnr_throttled 0\n"
            "throttled_usec 0\n",
            "cpu.max": "max 100000\n",
            "memory.current": "4096\n",
            "memory.max": "max\n",
            "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n",
        }
        for name, text in files.items():
            (directory / name).write_text(text)
        self.set_pressure_in(directory, 0)

    @staticmethod
    def set_pressure_in(directory: Path, some_usec: int) -> None:
        line = f"avg10=0.00 avg60=0.00 avg300=0.00 total={some_usec}"
        (directory / "cpu.pressure").write_text(f"some {line}\nfull {line}\n")

    def make(self, relative_path: str) -> int:
        """Make a cgroup and its missing parents; give its inode."""
        here = self.root
        for part in relative_path.split("/"):
            here /= part
            if not here.is_dir():
                here.mkdir()
                self._furnish(here)
        return self.inode(relative_path)

    def write(self, relative_path: str, file: str, text: str) -> None:
        (self.root / relative_path / file).write_text(text)

    def inode(self, relative_path: str) -> int:
        return (self.root / relative_path).stat().st_ino

    def remove(self, relative_path: str) -> None:
        """Remove a cgroup and all below it."""
        shutil.rmtree(self.root / relative_path)

    def replace(self, relative_path: str) -> int:
        """Put another cgroup under the same path; give its inode, which is never the former one's."""
        path = self.root.parent / f"{self.root.name}-former-{self.inode(relative_path)}"  # so that its number is taken
        (self.root / relative_path).rename(path)
        return self.make(relative_path)
