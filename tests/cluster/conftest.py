"""Fixtures of the tests on a real control plane: one cluster per session, a namespace and a node name per test.

TESTED_KUBERNETES=1.34.4 runs the same tests against that version (the nightly tier); its programs are built by
``python -m tests.cluster.binaries --version 1.34.4``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import fence
from tests.cluster.acting_node import ActingNode, fresh_node
from tests.cluster.binaries import version_under_test
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.first_minute import FirstMinutes
from tests.cluster.identities import create_namespace, create_service_account, fresh_name, remove_namespace
from tests.kernel.cgroups import why_not


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The session's control plane with controllers and audit log, of the version asked for; no scheduler."""
    version = version_under_test()
    with control_plane(version, directory=tmp_path_factory.mktemp("cluster")) as plane:
        yield plane


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A server that may be stopped: the session's controllers would take half a minute to come back after an outage.

    It ends with the file that wants it: an idle one takes a twentieth of a CPU to the session's end. Whoever defines
    kinds there takes them away again: others begin with none.
    """
    version = version_under_test()
    directory = tmp_path_factory.mktemp("fragile")
    with control_plane(version, directory=directory, with_controllers=False, audit=False) as plane:
        create_service_account(plane, "default", "default")
        yield plane


@pytest.fixture(scope="session")
def control_plane_1_37(cluster: ControlPlane) -> ControlPlane:
    """The same, for tests of what Kubernetes 1.37 answers; under another version they skip."""
    if not cluster.version.startswith("1.37."):
        pytest.skip(f"about Kubernetes 1.37; this run is against {cluster.version}")
    return cluster


@pytest.fixture(scope="session")
def pods_have_resources(cluster: ControlPlane) -> None:
    """For tests of resources of whole pods; under a version that drops them they skip."""
    if int(cluster.version.split(".")[1]) < 34:
        pytest.skip(f"an API server of {cluster.version} drops spec.resources")


@pytest.fixture(scope="session")
def fenced(cluster: ControlPlane) -> ControlPlane:
    """The same, with the agent's rights and the fence around its writes in force, as the chart ships them."""
    fence.install(cluster)
    return cluster


@pytest.fixture
def namespace(cluster: ControlPlane) -> Iterator[str]:
    """A namespace of its own, ready for pods; its removal is begun at the end, not awaited."""
    name = fresh_name("test")
    create_namespace(cluster, name)
    yield name
    remove_namespace(cluster, name)


@pytest.fixture
def node_name(cluster: ControlPlane) -> Iterator[str]:
    """A name that no node has; a Node object under it is removed at the end."""
    name = fresh_name("node")
    yield name
    cluster.admin.delete(f"/api/v1/nodes/{name}")


@pytest.fixture
def node(fenced: ControlPlane, tmp_path: Path) -> Iterator[ActingNode]:
    """A node of the test's own, for an agent that the test starts."""
    with fresh_node(fenced, tmp_path) as machine:
        yield machine


@pytest.fixture(scope="session")
def first_minutes(fenced: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstMinutes]:
    """Agents that live through their first minute; see ``first_minute``."""
    minutes = FirstMinutes(fenced, tmp_path_factory.mktemp("minutes"))
    yield minutes
    minutes.close()


@pytest.fixture(scope="session", autouse=True)
def begun_early(request: pytest.FixtureRequest) -> None:
    """Begin first what takes a minute, where this worker is sure to run the tests of it: nobody waits for it then."""
    is_only_worker = "PYTEST_XDIST_WORKER" not in os.environ
    is_wanted = any("first_minutes" in getattr(test, "fixturenames", ()) for test in request.session.items)
    if is_only_worker and is_wanted and why_not() is None:
        with contextlib.suppress(Exception):  # raised again where it is asked for: it is those tests' fault, not all's
            request.getfixturevalue("first_minutes")
