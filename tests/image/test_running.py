"""The image at work, as the chart runs it: as its own user, without a capability, on a read-only root."""

from __future__ import annotations

import json
import os
import ssl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest

from agent.core.history.minute.key import HistoryKey, KeyKind
from agent.core.history.minute.minutes import Minutes
from agent.node.history.file import HISTORY_FILE_NAME, HistoryFile
from tests.cgroup_files import container_path
from tests.cluster.control_plane import control_plane
from tests.cluster.identities import create_namespace, create_service_account, node_bound_token
from tests.cluster.processes import Process, free_ports
from tests.image.layers import UID
from tests.image.layout import version
from tests.image.running import IMPORTS_ALL, LOADS_ALL, Container
from tests.kernel.cgroups import CgroupTree, why_not

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

SOCKET = "/run/plimsoll/agent.sock"


@pytest.fixture
def short() -> Iterator[Path]:
    """A short path: a unix socket's has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-test-") as name:
        yield Path(name)


def own(folder: Path) -> Path:
    """Make a folder that belongs to the image's user, as the chart's first step does."""
    folder.mkdir()
    os.chown(folder, UID, UID)
    return folder


def answer(url: str, context: ssl.SSLContext | None = None) -> str:
    """Return a page; empty when nobody answers."""
    try:
        with urlopen(url, timeout=60, context=context) as reply:  # noqa: S310 - our own, on loopback
            text: str = reply.read().decode()
            return text
    except (URLError, OSError):
        return ""


def status_of(container: Container, name: str) -> dict[str, str]:
    """Return /proc/PID/status of a container's first process."""
    lines = Path(f"/proc/{min(container.process_ids(name))}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def is_confined(status: dict[str, str]) -> bool:
    """Return whether a process has its own user, no capability, and no way to any."""
    sets = {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    return set(status["Uid"].split()) == {str(UID)} and sets == {0} and status["NoNewPrivs"] == "1"


def test_it_says_its_version_and_has_the_native_sampler(container: Container) -> None:
    assert container.run("version", "--version") == (0, f"plimsoll {version()}\n")
    code, output = container.run("sampler", entrypoint=["/usr/bin/python3", "-Ic", "import agent.sensing._sampler"])
    assert (code, output) == (0, "")


def test_every_verb_can_be_loaded(container: Container) -> None:
    code, output = container.run("verbs", entrypoint=["/usr/bin/python3", "-Ic", LOADS_ALL])
    assert (code, output) == (0, "1 2.0\n")


def test_every_module_of_others_can_be_imported_as_it_was_compiled(container: Container) -> None:
    code, output = container.run("imports", entrypoint=["/usr/bin/python3", "-Ic", IMPORTS_ALL])
    assert (code, output) == (0, "True True\n")


def test_its_root_is_read_only_and_its_user_writes_nowhere(container: Container) -> None:
    program = """
import os
for folder, folders, _ in os.walk("/"):
    folders[:] = [one for one in folders if os.path.join(folder, one) not in ("/proc", "/dev", "/tmp")]
    try:
        open(os.path.join(folder, "written"), "w")
    except OSError:
        continue
    print(folder)
"""
    assert container.run("writes", entrypoint=["/usr/bin/python3", "-Ic", program]) == (0, "")


def test_a_plain_kubeconfig_is_read(container: Container) -> None:
    program = """
import os
from pathlib import Path
from agent.kube.client.kubeconfig import from_kubeconfig
file = Path(f"/proc/self/fd/{os.memfd_create('config')}")  # nothing else can be written
file.write_text('''
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://server:6443"}}]
users: [{name: u, user: {token: word}}]
''')
print(from_kubeconfig(file).server)
"""
    assert container.run("plain", entrypoint=["/usr/bin/python3", "-Ic", program]) == (0, "https://server:6443\n")


def test_a_kubeconfig_that_needs_the_official_client_is_refused_in_one_line(container: Container) -> None:
    code, output = container.run("kubeconfig", "webhook", "--kubeconfig", "/etc/passwd")
    assert code == 2, output
    assert "the package kubernetes" in output, output
    assert "Traceback" not in output


def remember(state: Path) -> None:
    """Put a history there, as an agent before this one left it."""
    with HistoryFile.open(state / HISTORY_FILE_NAME, max_rows=8) as history:
        history.row_of(HistoryKey(KeyKind.CGROUP, ("/gone",)))
        figures, has = np.array([7.0]), np.array([True])
        for unix_minute in range(*(int(time.time()) // 60 - ago for ago in (3, 0))):
            history.append(
                Minutes(
                    unix_minute=unix_minute,
                    cpu_usage_millicores=figures,
                    cpu_peak_millicores=figures,
                    has_cpu=has,
                    working_set_bytes=figures,
                    has_memory=has,
                )
            )
    os.chown(state / HISTORY_FILE_NAME, UID, UID)


@pytest.mark.kernel
def test_the_agent_measures_this_machine(container: Container, short: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    (port,) = free_ports(1, "127.0.0.1")
    with CgroupTree() as tree:
        tree.spawn(container_path(1), ("sh", "-c", "while :; do sleep 0.1; done"))
        binds = {
            tree.mount: "/host/sys/fs/cgroup:ro",
            own(short / "state"): "/var/lib/plimsoll:rw",
            own(short / "socket"): "/run/plimsoll:rw",
        }
        remember(short / "state")
        arguments = ["agent", "--cgroup-mount", "/host/sys/fs/cgroup", "--cgroup-root", f"/{tree.name}"]
        arguments += ["--state-dir", "/var/lib/plimsoll", "--socket", SOCKET, "--port", str(port)]
        arguments += ["--set", "metrics.perContainer=true", "--set", "windows.rateWindowSeconds=2"]
        with container.running("agent", *arguments, binds=binds) as process:
            page = f"http://127.0.0.1:{port}/metrics"
            process.wait_until(lambda: "plimsoll_container_cpu_usage_cores{" in answer(page), "a container is measured")
            assert 'sampler="native"' in answer(page)
            assert is_confined(status_of(container, "agent"))
            code, output = container.inside("agent", "top", "--once", "-o", "json", "--socket", SOCKET)
            assert code == 0, output
            paths = [unit["identity"]["cgroup_path"] for unit in json.loads(output)["units"]]
            assert f"/{tree.name}/{container_path(1)}" in paths
        assert list((short / "state").iterdir()) != []


@pytest.mark.cluster
def test_the_webhook_serves_with_sqlite(container: Container, short: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1, "127.0.0.1")
    with control_plane(directory=tmp_path / "plane") as plane:
        create_namespace(plane, "plimsoll")
        create_service_account(plane, "plimsoll", "plimsoll-webhook")
        # What it may is the chart's matter, and tried there.
        plane.admin.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "image-webhook"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "plimsoll-webhook", "namespace": "plimsoll"}],
            }
        )
        identity = short / "identity"
        identity.mkdir()
        (identity / "token").write_text(node_bound_token(plane, "plimsoll", "plimsoll-webhook", None))
        (identity / "namespace").write_text("plimsoll")
        (identity / "ca.crt").write_bytes(plane.authority.read_bytes())
        pair = plane.serving_certificate("plimsoll-webhook", ["127.0.0.1", "plimsoll-webhook.plimsoll.svc"])
        certificate = own(short / "tls")
        for source, name in ((pair.certificate, "tls.crt"), (pair.key, "tls.key")):
            (certificate / name).write_bytes(source.read_bytes())
            os.chown(certificate / name, UID, UID)
        binds = {
            identity: f"{SERVICE_ACCOUNT}:ro",
            certificate: "/etc/plimsoll/tls:ro",
            own(short / "state"): "/var/lib/plimsoll:rw",
        }
        host, _, api_port = plane.url.removeprefix("https://").rpartition(":")
        env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": api_port}
        arguments = [f"--listen=127.0.0.1:{port}", "--database=/var/lib/plimsoll/webhook.db"]
        arguments += ["--tls-cert=/etc/plimsoll/tls/tls.crt", "--tls-key=/etc/plimsoll/tls/tls.key"]
        context = ssl.create_default_context(cafile=str(plane.authority))
        with container.running("webhook", "webhook", *arguments, binds=binds, env=env) as process:
            wait_served(process, f"https://127.0.0.1:{port}/readyz", context)
            assert is_confined(status_of(container, "webhook"))
        assert (short / "state" / "webhook.db").is_file()


def wait_served(process: Process, url: str, context: ssl.SSLContext) -> None:
    process.wait_until(lambda: answer(url, context) != "", url)
