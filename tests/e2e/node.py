"""A real node: kubelet and containerd in a qemu guest, joined to the tests' control plane.

Everything happens in a network namespace of the test's own (``__main__`` makes it), in which 10.0.2.15, the guest's
address, is also an address of the loopback and its ports are forwarded into the guest: so the API server reaches the
kubelet (exec, logs), and nothing leaves the machine. Loads use the host's network. Pods with a network of their own get
a cable to the node and an address; in place of kube-proxy stand a few forwarders (``forwarding``), so that no iptables
is needed.
"""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.cluster.api import ApiError, kubeconfig
from tests.cluster.control_plane import ControlPlane
from tests.e2e.parts import PAUSE_IMAGE, Parts, free_disk
from tests.guest.machine import Variant, last_words, qemu_command

GUEST_ADDRESS: Final = "10.0.2.15"
HOST_ADDRESS: Final = "10.0.2.2"
"""The host's loopback as the guest sees it (qemu's user network)."""
SHELL_PORT, KUBELET_PORT, METRICS_PORT, WEBHOOK_PORT = 9999, 10250, 9473, 8443
POD_ADDRESSES: Final = "10.88.0.0/24"
MEMORY_MIB: Final = 4096
DISK_MIB: Final = 4096
EXCHANGE: Final = Path("/.plimsoll-guest")
STATIC_PODS: Final = Path("/run/static-pods")
BOOT_SECONDS: Final = 900.0
"""Our own image alone takes minutes to unpack where others keep the machine busy."""
POLL_SECONDS: Final = 0.25
"""Each look costs the guest a process and the machine a TLS handshake: seldom, where it is not timed."""
SYSTEM_RESERVED: Final = {"cpu": "200m", "memory": "512Mi"}
END_MARK: Final = "plimsoll-exit-code:"


class NodeError(Exception):
    """The guest does not do what a node must; the message carries its last words."""


class Driver(StrEnum):
    """Who makes the cgroups."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


@dataclass(slots=True, kw_only=True)
class Node:
    """A guest that runs as a node."""

    name: str
    driver: Driver
    plane: ControlPlane
    parts: Parts
    exchange: Path
    """Seen by the guest as ``EXCHANGE``; holds its logs."""
    serial: Path
    process: subprocess.Popen[str]
    started: float
    """Monotonic seconds of qemu's start."""
    marks: dict[str, float] = field(default_factory=dict)
    """Seconds after the start: ``kernel`` (a shell answers), ``ready`` (the API says so)."""

    def run(self, script: str, *, timeout_seconds: float = 60.0) -> str:
        """Run a shell script in the guest as root and give what it printed.

        Raises:
            NodeError: It failed; its output is in the message.
        """
        code, output = self.try_run(script, timeout_seconds=timeout_seconds)
        if code != 0:
            raise NodeError(f"e2e: in the guest, exit code {code}: {script}\n{output[-2000:]}")
        return output

    def try_run(self, script: str, *, timeout_seconds: float = 60.0) -> tuple[int, str]:
        """Run a shell script in the guest; give its exit code and output.

        Raises:
            OSError: The guest's shell does not answer.
        """
        with socket.create_connection((GUEST_ADDRESS, SHELL_PORT), timeout=timeout_seconds) as connection:
            connection.sendall(f"( {script}\n) 2>&1 </dev/null; echo {END_MARK}$?; exit\n".encode())
            parts = []
            while part := connection.recv(1 << 16):
                parts.append(part)
        output, mark, code = b"".join(parts).decode(errors="replace").rpartition(END_MARK)
        if not mark:
            raise OSError(f"the guest's shell broke off after: {output[-300:]!r}")
        return int(code), output

    def read(self, path: str) -> str:
        """Read a file of the guest, without the last newline."""
        return self.run(f"cat {shlex.quote(path)}").rstrip("\n")

    def write(self, path: str, text: str) -> None:
        """Write a file of the guest, as root."""
        self.run(f"printf %s {shlex.quote(text)} >{shlex.quote(path)}")

    def cgroup_of(self, pod: dict[str, Any], container: str | None = None) -> str:
        """Give the cgroup of a pod, or of one of its containers, as a path in the guest; by the driver's own naming."""
        uid = pod["metadata"]["uid"]
        tier = pod["status"]["qosClass"].lower()
        if self.driver is Driver.SYSTEMD:
            middle = "" if tier == "guaranteed" else f"kubepods-{tier}.slice/"
            prefix = "kubepods" if tier == "guaranteed" else f"kubepods-{tier}"
            path = f"kubepods.slice/{middle}{prefix}-pod{uid.replace('-', '_')}.slice"
        else:
            path = f"kubepods/{'' if tier == 'guaranteed' else tier + '/'}pod{uid}"
        path = f"/sys/fs/cgroup/{path}"
        if container is None:
            return path
        identity = container_id(pod, container)
        return f"{path}/cri-containerd-{identity}.scope" if self.driver is Driver.SYSTEMD else f"{path}/{identity}"

    def wait(
        self, condition: Callable[[], object], what: str, seconds: float = 120.0, *, poll_seconds: float = POLL_SECONDS
    ) -> float:
        """Wait for a condition; give the seconds it took.

        Raises:
            NodeError: It did not come, or the guest ended.
        """
        begun = time.monotonic()
        while True:
            try:
                if condition():
                    return time.monotonic() - begun
            except (OSError, NodeError, ApiError, LookupError, StopIteration) as error:
                last = f" (last: {error})"
            else:
                last = ""
            if self.process.poll() is not None:
                raise NodeError(f"e2e: the guest ended before: {what}\n{self.last_words()}")
            if time.monotonic() - begun > seconds:
                raise NodeError(f"e2e: not within {seconds:.0f} s: {what}{last}")
            time.sleep(poll_seconds)

    def object(self) -> dict[str, Any]:
        """Return the Node object."""
        return self.plane.admin.get(f"/api/v1/nodes/{self.name}")

    def is_ready(self) -> bool:
        """Return whether the API has the node as Ready."""
        conditions = self.object()["status"].get("conditions", [])
        return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)

    def last_words(self) -> str:
        """Return the ends of the guest's logs."""
        parts = [last_words(self.exchange, self.serial, "")]
        for log in ("node.log", "containerd.log", "kubelet.log"):
            file = self.exchange / log
            lines = file.read_text(errors="replace").splitlines()[-15:] if file.is_file() else ["(nothing)"]
            parts.append("\n".join((f"--- {log}", *lines)))
        return "\n".join(parts)


def container_id(pod: dict[str, Any], container: str) -> str:
    """Return the 64 digits of a running container.

    Raises:
        NodeError: The kubelet has not told of it yet.
    """
    statuses = [*pod["status"].get("containerStatuses", []), *pod["status"].get("initContainerStatuses", [])]
    full_id = next((str(status.get("containerID", "")) for status in statuses if status["name"] == container), "")
    if not full_id:
        raise NodeError(f"e2e: {pod['metadata']['name']}: {container} is not made yet")
    return full_id.rpartition("/")[2]


@contextmanager
def node(
    parts: Parts,
    plane: ControlPlane,
    directory: Path,
    *,
    name: str = "e2e",
    driver: Driver = Driver.CGROUPFS,
    kubelet: Mapping[str, Any] | None = None,
) -> Iterator[Node]:
    """Boot a guest that joins the control plane, inside the block; it is ready when the block begins.

    Args:
        parts: What ``parts.ensure`` gave.
        plane: Started with ``controllers="*"`` and ``extra_names=(HOST_ADDRESS,)`` in this network namespace.
        directory: For the disk, logs and configuration; a fresh one.
        name: Of the Node object.
        driver: Whose cgroups: systemd's needs systemd (not running) on this machine, whose root the guest shares.
        kubelet: Of its configuration, beside what every node has.

    Raises:
        NodeError: The guest does not come up.
    """
    exchange = directory / "exchange"
    exchange.mkdir(parents=True)
    write_configuration(parts, plane, exchange, name, driver, kubelet or {})
    disk = directory / "disk.img"
    free_disk(disk, DISK_MIB)
    serial = directory / "serial"
    forwards = "".join(
        f",hostfwd=tcp:{GUEST_ADDRESS}:{port}-{GUEST_ADDRESS}:{port}"
        for port in (SHELL_PORT, KUBELET_PORT, METRICS_PORT, WEBHOOK_PORT)
    )
    command = [
        *qemu_command(parts.kernel, exchange, serial, Variant.FULL, MEMORY_MIB, is_parallel=True),
        *("-drive", f"file={disk},if=virtio,format=raw,cache=unsafe"),
        *("-netdev", f"user,id=n0,restrict=off{forwards}", "-device", "virtio-net-pci,netdev=n0,romfile="),
    ]
    started = time.monotonic()
    with (directory / "qemu.log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True)
    guest = Node(
        name=name,
        driver=driver,
        plane=plane,
        parts=parts,
        exchange=exchange,
        serial=serial,
        process=process,
        started=started,
    )
    try:
        wait_until_ready(guest)
        yield guest
    finally:
        process.kill()
        process.wait()
        disk.unlink(missing_ok=True)


def wait_until_ready(guest: Node) -> None:
    """Wait until the node is Ready and has its images."""
    steps: dict[str, Callable[[], object]] = {
        "kernel": lambda: guest.try_run("true", timeout_seconds=2.0)[0] == 0,
        "ready": guest.is_ready,
        "images": (guest.exchange / "images").exists,
    }
    for mark, condition in steps.items():
        try:
            guest.wait(condition, f"the guest's step {mark!r}", BOOT_SECONDS)
        except NodeError as error:
            raise NodeError(f"{error}\n{guest.last_words()}") from error
        guest.marks[mark] = time.monotonic() - guest.started


def write_configuration(
    parts: Parts, plane: ControlPlane, exchange: Path, name: str, driver: Driver, kubelet: Mapping[str, Any]
) -> None:
    """Write what ``start.sh`` and ``node.sh`` read: settings, certificates and the programs' configuration."""
    for script in ("start.sh", "node.sh"):
        shutil.copyfile(Path(__file__).with_name(script), exchange / script)
    settings = {
        "NODE": name,
        "DRIVER": driver.value,
        "CONTAINERD": str(parts.programs["containerd"]),
        "SHIM": str(parts.programs["containerd-shim-runc-v2"]),
        "CTR": str(parts.programs["ctr"]),
        "KUBELET": str(parts.programs["kubelet"]),
        "IMAGES": " ".join(map(str, parts.images)),
        "FORWARD": str(parts.forward),
        "API_SERVER": f"{HOST_ADDRESS} {plane.url.rpartition(':')[2]}",
    }
    lines = [f"{key}={shlex.quote(value)}" for key, value in settings.items()]
    (exchange / "node.env").write_text("\n".join(lines) + "\n")
    serving = plane.serving_certificate(name, [name, GUEST_ADDRESS])
    for source, target in (
        (serving.certificate, "serving.crt"),
        (serving.key, "serving.key"),
        (plane.authority, "ca.crt"),
    ):
        shutil.copyfile(source, exchange / target)
    as_kubelet = replace(plane.api_of_node(name), server=plane.url.replace("127.0.0.1", HOST_ADDRESS))
    kubeconfig(as_kubelet, exchange / "kubelet.kubeconfig")
    (exchange / "kubelet.yaml").write_text(json.dumps({**kubelet_configuration(driver), **kubelet}, indent=2) + "\n")
    (exchange / "containerd.toml").write_text(containerd_configuration(parts, driver))
    (exchange / "cni.conflist").write_text(json.dumps(network_configuration()) + "\n")


def kubelet_configuration(driver: Driver) -> dict[str, Any]:
    """Return the kubelet's configuration; JSON is YAML."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(EXCHANGE / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(EXCHANGE / "serving.crt"),
        "tlsPrivateKeyFile": str(EXCHANGE / "serving.key"),
        "cgroupDriver": driver.value,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failSwapOn": False,
        "resolvConf": "",
        "makeIPTablesUtilChains": False,
        "enforceNodeAllocatable": ["pods"],
        "systemReserved": SYSTEM_RESERVED,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "staticPodPath": str(STATIC_PODS),
        "fileCheckFrequency": "2s",
        "nodeStatusUpdateFrequency": "5s",
        "shutdownGracePeriod": "0s",
    }


def network_configuration() -> dict[str, Any]:
    """Return the network of pods that have one of their own: a cable to the node, and by it to nobody else."""
    addresses = {"type": "host-local", "subnet": POD_ADDRESSES, "routes": [{"dst": "0.0.0.0/0"}]}
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}],
    }


def containerd_configuration(parts: Parts, driver: Driver) -> str:
    """Return containerd's configuration."""
    unused = (
        "io.containerd.nri.v1.nri",
        "io.containerd.snapshotter.v1.blockfile",
        "io.containerd.snapshotter.v1.erofs",
        "io.containerd.snapshotter.v1.devmapper",
        "io.containerd.snapshotter.v1.btrfs",
        "io.containerd.snapshotter.v1.zfs",
    )
    return f"""version = 3
disabled_plugins = {json.dumps(unused)}
imports = []

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{PAUSE_IMAGE}'

[plugins.'io.containerd.cri.v1.runtime']
disable_apparmor = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['{parts.network_plugins}']

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = '{parts.runc}'
SystemdCgroup = {json.dumps(driver is Driver.SYSTEMD)}
"""
