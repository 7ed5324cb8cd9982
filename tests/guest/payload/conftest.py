"""Tests that run inside the guest, as root on a kernel with the whole of cgroup v2; never on the host."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.guest.full_tree import FullTree

# Set by tests/guest/machine.py. Elsewhere a plain `pytest tests` must not collect these.
collect_ignore_glob = [] if "GUEST_VARIANT" in os.environ else ["test_*.py"]


@pytest.fixture
def tree() -> Iterator[FullTree]:
    """A directory of cgroups with all the kernel's controllers on, removed at the end."""
    with FullTree() as full_tree:
        yield full_tree
