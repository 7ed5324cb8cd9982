"""A control plane of the chart's own: a release is cluster-wide, so it shares one with no other tests.

It ends with the file that wants it: an idle one costs as much in two minutes as the start of another.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chart.release import Release
from tests.cluster.binaries import version_under_test
from tests.cluster.control_plane import ControlPlane, control_plane


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Of the version that TESTED_KUBERNETES names; with controllers, without a scheduler, so that no pod is bound."""
    version = version_under_test()
    with control_plane(version, directory=tmp_path_factory.mktemp("chart")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def release(plane: ControlPlane) -> Release:
    """The release ``plimsoll`` in namespace ``plimsoll``, which is there; nothing is installed yet."""
    return Release(plane)
