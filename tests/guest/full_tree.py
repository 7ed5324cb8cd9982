"""Real cgroups with every controller on: what only the guest can give, as here v1 holds memory and cpu."""

from __future__ import annotations

from pathlib import Path

from tests.kernel.cgroups import CgroupTree

WANTED_CONTROLLERS = ("cpu", "memory", "io", "pids")


class FullTree(CgroupTree):
    """A ``CgroupTree`` whose cgroups have the controllers that a kubelet turns on.

    A cgroup made below another one turns that one's controllers on, so processes live in leaves only.
    """

    def make(self, path: str) -> Path:
        """Make a cgroup and its missing parents, with controllers on all the way down."""
        directory = self.absolute(path)
        enable_controllers(self.base)
        for parent in list(Path(path).parents)[-2::-1]:
            self.absolute(str(parent)).mkdir(exist_ok=True)
            enable_controllers(self.absolute(str(parent)))
        directory.mkdir(exist_ok=True)
        return directory

    def read(self, path: str, file: str) -> str:
        """Read a file of a cgroup."""
        return (self.absolute(path) / file).read_text(encoding="ascii")

    def read_flat(self, path: str, file: str) -> dict[str, int]:
        """Read a file of lines ``key value``."""
        return {key: int(value) for key, value in (line.split() for line in self.read(path, file).splitlines())}


def enable_controllers(directory: Path) -> None:
    """Turn on for the children what the cgroup itself has."""
    available = (directory / "cgroup.controllers").read_text(encoding="ascii").split()
    wanted = " ".join(f"+{name}" for name in WANTED_CONTROLLERS if name in available)
    (directory / "cgroup.subtree_control").write_text(wanted, encoding="ascii")
