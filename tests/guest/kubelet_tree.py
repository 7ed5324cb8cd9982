"""Cgroups at the real root of the guest's hierarchy, as a kubelet makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.guest.full_tree import enable_controllers

MOUNT: Final = Path("/sys/fs/cgroup")


def make(path: str) -> None:
    """Make a cgroup with controllers on in all its parents, as the kubelet does from the root down."""
    directory = MOUNT
    for name in path.strip("/").split("/"):
        enable_controllers(directory)
        directory /= name
        directory.mkdir(exist_ok=True)


def remove(path: str) -> None:
    """Remove a cgroup and all below it, deepest first."""
    top = MOUNT / path.strip("/")
    for directory in sorted((entry for entry in top.rglob("*") if entry.is_dir()), reverse=True):
        directory.rmdir()
    if top.exists():
        top.rmdir()
