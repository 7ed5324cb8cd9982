"""Fixtures of the tests on real cgroups; where the kernel does not allow any, those tests skip and say why."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tests.kernel.cgroups import CgroupTree, why_not

_why_not = functools.cache(why_not)


@pytest.fixture
def tree() -> Iterator[CgroupTree]:
    """A directory of real cgroups of its own, empty at the start, removed at the end."""
    reason = _why_not()
    if reason is not None:
        pytest.skip(reason)
    with CgroupTree() as cgroup_tree:
        yield cgroup_tree
