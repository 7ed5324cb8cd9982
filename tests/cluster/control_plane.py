"""A real Kubernetes control plane without containers: etcd, kube-apiserver and, if wanted, controllers and scheduler.

Everything listens on one address, 127.0.0.1 unless told otherwise. It is ready about five seconds after the start.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from agent.core.cluster.versions import Version, parse_version
from tests.cluster.api import Api, ApiError, Json, kubeconfig
from tests.cluster.binaries import KUBERNETES, require
from tests.cluster.certificates import Authority, KeyPair
from tests.cluster.processes import ClusterError, Process, free_ports

SERVICE_ADDRESSES: Final = "10.0.0.0/24"
IN_CLUSTER: Final = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.0.0.1")
"""How pods call the server; in its certificate, for a real node."""
AUDIT_POLICY: Final = Path(__file__).with_name("audit_policy.yaml")
ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
QUIET_CONTROLLERS: Final = ",".join(
    (
        "*",
        *("-node-lifecycle-controller", "-taint-eviction-controller", "-pod-garbage-collector-controller"),
        *("-root-ca-certificate-publisher-controller", "-ttl-controller"),
    )
)
"""Without those that taint nodes that send no heartbeat and take away their pods: the tests' nodes are mere objects.

And without a ConfigMap in each namespace, which no container here mounts, and an annotation in each node, which comes
whenever it comes: tests tell by a node's version who wrote it."""
LOOKS_AGAIN: Final = "--pod-max-in-unschedulable-pods-duration=10s"
"""A scheduler that puts a pod aside looks at it again within 40 seconds, not only after five minutes.

A pod whose victims go while another's end has made it be tried a second time may wait that long (kubernetes#141694)."""
_ALL_KEYS: Final = (b"/registry/", b"/registry0")
_DELETES_AT_ONCE: Final = 100
"""Below the 128 operations that etcd takes in one transaction."""


class ControlPlane:
    """The running control plane. Start and stop are by ``control_plane``; a test may stop the API server between.

    Attributes:
        version: Of Kubernetes.
        directory: Certificates, data and logs.
        url: Where the API server listens; the same before and after an outage.
        admin: The API as a member of ``system:masters``.
        kubeconfig: The same identity as a file.
        audit_log: What the API server writes down, see ``audit``; there only with ``audit=True``.
        kubectl: The client program of that version.
    """

    def __init__(
        self,
        version: str,
        directory: Path,
        *,
        bind_address: str,
        extra_names: Sequence[str],
        audit: bool,
        apiserver_arguments: Sequence[str],
        scheduler_arguments: Sequence[str],
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.version = version
        self.directory = directory
        self._address = bind_address
        self._authority = Authority(directory / "certificates")
        self._tokens = self._authority.signing_keys()
        self._etcd_port, self._peer_port, self._port = free_ports(3, bind_address)
        self.url = f"https://{bind_address}:{self._port}"
        self.admin = self.api_as("admin", ["system:masters"])
        self.kubeconfig = kubeconfig(self.admin, directory / "admin.kubeconfig")
        self.audit_log = directory / "audit.log"
        self.has_controllers = False
        names = ["localhost", "127.0.0.1", bind_address, *IN_CLUSTER, *extra_names]
        self._serving = self.serving_certificate("kube-apiserver", names)
        self._to_kubelets = self.client_certificate("kube-apiserver-kubelet-client", ["system:masters"])
        self._arguments = [*(self._audit_arguments() if audit else []), *apiserver_arguments]
        self._scheduler_arguments = scheduler_arguments
        self._children: dict[str, Process] = {}

    # Identities

    @property
    def authority(self) -> Path:
        """The certificate that clients of the API server and of kubelets trust."""
        return self._authority.certificate

    @property
    def kubectl(self) -> Path:
        """The client program of the same version."""
        return require("kubectl", self.version)

    @property
    def tells_generations(self) -> bool:
        """Whether a pod's status says of which generation it is; before 1.34 the server drops that.

        Source:
            gate PodObservedGenerationTracking: off by default in 1.33, on in 1.34.
        """
        version = parse_version(self.version)
        return version is not None and version >= Version(1, 34)

    def client_certificate(self, common_name: str, organisations: Sequence[str] = ()) -> KeyPair:
        """Sign a client: user ``common_name`` in the groups ``organisations``."""
        return self._authority.client(common_name, organisations)

    def serving_certificate(self, common_name: str, names: Sequence[str]) -> KeyPair:
        """Sign a server, for instance a kubelet, for DNS names and addresses."""
        return self._authority.server(common_name, names)

    def api_as(self, common_name: str, organisations: Sequence[str] = ()) -> Api:
        """Return the API as a user with a certificate."""
        identity = self.client_certificate(common_name, organisations)
        return Api(server=self.url, authority=self.authority, identity=identity)

    def api_of_node(self, node: str) -> Api:
        """Return the API as the kubelet of a node sees it: held by the Node authorizer and NodeRestriction."""
        return self.api_as(f"system:node:{node}", ["system:nodes"])

    def api_with_token(self, token: str) -> Api:
        """Return the API as the bearer of a token."""
        return Api(server=self.url, authority=self.authority, token=token)

    # Taking away

    def wipe_namespace(self, name: str) -> None:
        """Remove a namespace and all in it at once, behind the API server's back; its watches tell of it as of any end.

        The controller manager asks for each of forty kinds twice to do the same: a quarter of a second of CPU.
        """
        self.admin.delete(f"/api/v1/namespaces/{name}")  # nothing is created in it any more; begun only 5 s later
        first, end = (_text(key) for key in _ALL_KEYS)
        answer = self._ask_etcd("/v3/kv/range", {"key": first, "range_end": end, "keys_only": True})
        keys = [pair["key"] for pair in answer.get("kvs", []) if _is_of_namespace(base64.b64decode(pair["key"]), name)]
        for begin in range(0, len(keys), _DELETES_AT_ONCE):
            some = keys[begin : begin + _DELETES_AT_ONCE]
            self._ask_etcd("/v3/kv/txn", {"success": [{"request_delete_range": {"key": key}} for key in some]})

    def _ask_etcd(self, path: str, body: Json) -> Json:
        connection = http.client.HTTPConnection(self._address, self._etcd_port, timeout=30)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body))
            answer = connection.getresponse()
            text = answer.read()
        if answer.status != http.client.OK:
            raise ClusterError(f"etcd: {path}: {answer.status} {text.decode(errors='replace')}")
        value: Json = json.loads(text)
        return value

    # Starting and stopping

    def start(self, *, with_controllers: bool, with_scheduler: bool, controllers: str) -> None:
        """Start the parts in their order and wait for each.

        Raises:
            ClusterError: One ended or did not become ready; its log's end is in the message.
            BinaryError: A program is not built.
        """
        self._start_etcd()
        self.start_apiserver()
        if with_controllers:
            self._start_controllers(controllers)
        if with_scheduler:
            self._start_leaderless("kube-scheduler", LOOKS_AGAIN, *self._scheduler_arguments)

    def stop(self) -> None:
        """Stop all, the API server before etcd (it would hang without); a second call does nothing."""
        for name in ("kube-scheduler", "kube-controller-manager"):
            if name in self._children:
                self._children.pop(name).stop(kill=True)  # they keep nothing that an orderly end would save
        self.stop_apiserver()
        if "etcd" in self._children:
            self._children.pop("etcd").stop(kill=True)

    def start_apiserver(self) -> None:
        """Start the API server, also after ``stop_apiserver``: same address, same data; returns when it is ready."""
        if "kube-apiserver" in self._children:
            return
        server = self._spawn("kube-apiserver", *self._apiserver_arguments(), *self._arguments)
        server.wait_until(self.is_ready, f"{self.url}/readyz")

    def stop_apiserver(self, *, kill: bool = True) -> None:
        """Stop the API server: connections are refused until ``start_apiserver``.

        Without ``kill`` it is asked to end and closes its connections in order, which takes up to five seconds.
        """
        if "kube-apiserver" in self._children:
            self._children.pop("kube-apiserver").stop(kill=kill)

    def pause_apiserver(self) -> None:
        """Freeze the API server: connections are taken and nothing answers."""
        self._children["kube-apiserver"].pause()

    def resume_apiserver(self) -> None:
        """Let a paused API server go on."""
        self._children["kube-apiserver"].resume()

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Have no API server inside the block."""
        self.stop_apiserver()
        try:
            yield
        finally:
            self.start_apiserver()

    @contextlib.contextmanager
    def freeze(self) -> Iterator[None]:
        """Have an API server that does not answer inside the block."""
        self.pause_apiserver()
        try:
            yield
        finally:
            self.resume_apiserver()

    def is_ready(self) -> bool:
        """Return whether the API server says that it is ready."""
        try:
            self.admin.get("/readyz")
        except (OSError, ApiError):
            return False
        return True

    def processes(self) -> dict[str, Process]:
        """Return the running parts by name."""
        return dict(self._children)

    def _spawn(self, name: str, *arguments: str | Path) -> Process:
        program = require(name, self.version)
        self._children[name] = Process(name, [program, *arguments], self.directory / f"{name}.log")
        return self._children[name]

    def _start_etcd(self) -> None:
        clients = f"http://{self._address}:{self._etcd_port}"
        peers = f"http://{self._address}:{self._peer_port}"
        etcd = self._spawn(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",  # nothing here outlives the machine
            "--log-level=warn",
        )
        etcd.wait_until(self._etcd_is_healthy, f"{clients}/health")

    def _etcd_is_healthy(self) -> bool:
        connection = http.client.HTTPConnection(self._address, self._etcd_port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _start_controllers(self, controllers: str) -> None:
        manager = self._start_leaderless(
            "kube-controller-manager",
            f"--controllers={controllers}",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self._tokens.key}",
            f"--root-ca-file={self.authority}",
        )
        self.has_controllers = True
        accounts = "/api/v1/namespaces/default/serviceaccounts/default"
        manager.wait_until(lambda: self.admin.exists(accounts), "the account of namespace default is there")

    def _start_leaderless(self, name: str, *arguments: str | Path) -> Process:
        """Start a part that speaks to the API server, without an election and without a port of its own."""
        file = kubeconfig(self.api_as(f"system:{name}"), self.directory / f"{name}.kubeconfig")
        return self._spawn(name, f"--kubeconfig={file}", "--leader-elect=false", "--secure-port=0", *arguments)

    def _apiserver_arguments(self) -> list[str]:
        return [
            f"--etcd-servers=http://{self._address}:{self._etcd_port}",
            f"--bind-address={self._address}",
            f"--advertise-address={self._address}",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",  # a loopback address is refused as an endpoint
            f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
            "--allow-privileged=true",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--client-ca-file={self.authority}",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={self._tokens.certificate}",
            f"--service-account-signing-key-file={self._tokens.key}",
            f"--kubelet-certificate-authority={self.authority}",
            f"--kubelet-client-certificate={self._to_kubelets.certificate}",
            f"--kubelet-client-key={self._to_kubelets.key}",
            "--kubelet-preferred-address-types=InternalIP",
        ]

    def _audit_arguments(self) -> list[str]:
        return [f"--audit-policy-file={AUDIT_POLICY}", f"--audit-log-path={self.audit_log}"]


def _text(key: bytes) -> str:
    """Return a key as etcd's JSON has it."""
    return base64.b64encode(key).decode()


def _is_of_namespace(key: bytes, name: str) -> bool:
    """Return whether etcd keeps a namespace under a key, ``/registry/namespaces/NAME``, or something in it.

    That is ``/registry/KIND/NAMESPACE/NAME``, of some kinds with a group before them.
    """
    *_, before, last = key.decode().split("/")
    return before == name or (before == "namespaces" and last == name)


@contextlib.contextmanager
def control_plane(
    version: str = KUBERNETES,
    *,
    directory: Path,
    with_scheduler: bool = False,
    with_controllers: bool = True,
    audit: bool = True,
    bind_address: str = "127.0.0.1",
    extra_names: Sequence[str] = (),
    apiserver_arguments: Sequence[str] = (),
    scheduler_arguments: Sequence[str] = (),
    controllers: str = QUIET_CONTROLLERS,
) -> Iterator[ControlPlane]:
    """Run a control plane inside the block.

    Args:
        version: One of ``binaries.VERSIONS``; its programs must be built.
        directory: For certificates, data and logs; a fresh one.
        with_scheduler: Pods without a node wait for ever otherwise.
        with_controllers: Service accounts, owners, budgets, garbage; one second more.
        audit: Write down who calls what.
        bind_address: What everything listens on; 127.0.0.1 is always named in the certificate.
        extra_names: Further names and addresses for the server's certificate, such as 10.0.2.2 for a qemu guest.
        apiserver_arguments: Appended to the API server's own; the last one of a name counts.
        scheduler_arguments: The same of the scheduler.
        controllers: The controller-manager's list; ``*`` for real nodes, which send heartbeats.

    Raises:
        ClusterError: A part did not start.
        BinaryError: A program is not built.
    """
    plane = ControlPlane(
        version,
        directory,
        bind_address=bind_address,
        extra_names=extra_names,
        audit=audit,
        apiserver_arguments=apiserver_arguments,
        scheduler_arguments=scheduler_arguments,
    )
    try:
        plane.start(with_controllers=with_controllers, with_scheduler=with_scheduler, controllers=controllers)
        yield plane
    finally:
        plane.stop()
