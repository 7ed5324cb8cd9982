"""What the webhook costs under a whole cluster's load; all is real but the nodes: API server, tokens, TLS, database.

A node is an agent's pod on it, as the API server has it, and reports with a token bound to that pod. Its 60 containers
are said to be of that one pod, so that 5,000 nodes need 5,000 pods and not 300,000; the webhook looks each row's pod up
all the same. The workloads are 334 Deployments of 60 containers, on 15 nodes each: 20,040 workload-containers.

First every node reports once, as quickly as the webhook takes it. Then reports come as 5,000 nodes send them in five
minutes: a whole round of them alone, with the fold that falls into it, and after it admissions at 200 a second beside
them for a minute; an admission's time runs from the moment at which it was due.
"""

from __future__ import annotations

import gzip
import http.client
import json
import re
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import psutil

from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS, Distribution, NodeClass, Report, RollupRow
from agent.core.numbers.bucket_scheme import BucketScheme
from agent.webhook.admission.glance import Unread
from tests.cluster.binaries import KUBERNETES
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.identities import create_namespace, create_service_account, node_bound_token
from tests.cluster.objects import container, pod, pod_path
from tests.cluster.webhook_process import ACCOUNT, AUDIENCE, NAMESPACE, WebhookProcess, webhook
from tests.report_texts import report_text
from tests.webhook.postgres import postgres_server

NODES: Final = 5000
CONTAINERS: Final = 60
NODES_OF_ONE_WORKLOAD: Final = 15
VIEWED_NODES: Final = 1000
POLL_SECONDS: Final = 10.0
"""As the page asks."""
POLLED: Final = (
    ("/v1/summary", "/v1/cost?limit=1"),
    ("/v1/workloads?sort=short&limit=200",),
    ("/v1/workloads/{namespace}/Deployment/load-0",),
    ("/v1/nodes",),
    ("/v1/events?limit=100",),
)
"""What the page asks for on five of its screens."""
UNREAD: Final = 'plimsoll_webhook_unread_total{{reason="{}"}}'
READER: Final = "viewer"
NODES_ADDRESS: Final = "127.0.0.3"
VIEWERS_ADDRESS: Final = "127.0.0.2"
"""Neither is an API server's: who comes from one address has one share of the webhook, and waits behind himself."""
INTERVAL_SECONDS: Final = 300.0
LOADED_SECONDS: Final = 60.0
ADMISSIONS_PER_SECOND: Final = 200
SENDERS: Final = 8
MOST_LEFT_OUT_RATIO: Final = 0.01
"""Of what is sent: so many odd ones move a p99 no further than its neighbours."""
HASH: Final = "7c5ddbdf54"
LINES: Final = 4
"""Connections on which admissions are asked for, in turn."""
SERVER_ADDRESSES: Final = tuple(f"127.0.1.{line + 1}" for line in range(LINES))
"""As a cluster of so many nodes has several API servers: of one alone 200 a second come near its address' share of the
webhook, and on a slow core part of them is answered unread."""
HEAD_END: Final = b"\r\n\r\n"
LENGTH: Final = re.compile(rb"(?i)content-length: *(\d+)")
_ARGUMENTS: Final = ("--set=act.excludedNamespaces=kube-system",)  # pods of bound tokens live beside the account
FOLDED: Final = "plimsoll_reports_folded_total"
TOKEN_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"


@dataclass(frozen=True)
class Shape:
    """What the workloads of a cluster are like."""

    containers: int = CONTAINERS
    nodes_of_one: int = NODES_OF_ONE_WORKLOAD


MANY_CONTAINERS: Final = Shape()
VIEWED: Final = Shape(containers=3, nodes_of_one=5)
"""Where five people look: 200 workloads, a screen full, of as many containers as people's pods have."""


def name_of(node: int, shape: Shape = MANY_CONTAINERS) -> tuple[str, str]:
    """Return the workload and the pod of a node."""
    workload = f"load-{node // shape.nodes_of_one}"
    return workload, f"{workload}-{HASH}-{node}"


class Node:
    """One simulated node: its pod in the API server, and what it reports with."""

    def __init__(self, number: int, uid: str, token: str, shape: Shape = MANY_CONTAINERS) -> None:
        self.number, self.uid, self.token, self.shape = number, uid, token, shape
        self.sequence = 0

    def body(self, seconds_ago: float) -> bytes:
        """Make its next report."""
        self.sequence += 1
        random = np.random.default_rng(self.number * 1009 + self.sequence)
        workload, name = name_of(self.number, self.shape)
        owner = Workload(namespace=NAMESPACE, kind="Deployment", name=workload)
        rows = []
        for index in range(self.shape.containers):
            cpu = random.lognormal(3.0 + index % 5, 0.3, 30)
            rows.append(
                RollupRow(
                    workload=owner,
                    container=f"c{index}",
                    pod=name,
                    pod_uid=self.uid,
                    pod_age_seconds=86_400.0,
                    covered_seconds=300.0,
                    cpu=_distribution(CPU_BUCKETS, cpu),
                    cpu_adjusted=_distribution(CPU_BUCKETS, cpu * random.uniform(1.0, 1.1, 30)),
                    memory=_distribution(MEMORY_BUCKETS, random.lognormal(18.0 + index % 3, 0.05, 30)),
                    throttled_seconds=0.0,
                    waiting_seconds=1.0,
                )
            )
        report = Report(
            node=f"n-{self.number}",
            node_class=NodeClass(instance_type="m5.large", cpus=8),
            incarnation=f"5a0c6c1e-0000-4000-8000-{self.number:012}",
            sequence=self.sequence,
            lost_reports=0,
            end_age_seconds=seconds_ago,
            interval_seconds=INTERVAL_SECONDS,
            rows=tuple(rows),
        )
        return gzip.compress(report_text(report, agent="bench").encode(), 6)


def _distribution(scheme: BucketScheme, samples: Any) -> Distribution:
    buckets, counts = np.unique(scheme.find(np.asarray(samples)), return_counts=True)
    return Distribution(
        count=len(samples),
        sum=float(np.sum(samples)),
        max=float(np.max(samples)),
        buckets=dict(zip(buckets.tolist(), counts.tolist(), strict=True)),
    )


def cluster_of_nodes(plane: ControlPlane, count: int, shape: Shape = MANY_CONTAINERS) -> list[Node]:
    """Make the pods and their tokens."""
    create_namespace(plane, NAMESPACE)
    create_service_account(plane, NAMESPACE, ACCOUNT)

    # The webhook takes rows of containers only that the pod has.
    containers = [container(f"c{index}") for index in range(shape.containers)]

    def make(number: int) -> Node:
        workload, name = name_of(number, shape)
        document = pod(name, f"n-{number}", *containers, serviceAccountName=ACCOUNT, automountServiceAccountToken=False)
        document["metadata"]["labels"] = {"pod-template-hash": HASH}
        document["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": f"{workload}-{HASH}",
                "uid": f"uid-{workload}",
                "controller": True,
            }
        ]
        uid = plane.admin.create(pod_path(NAMESPACE), document)["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        spec = {"audiences": [AUDIENCE], "expirationSeconds": 86_400, "boundObjectRef": reference}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        token = plane.admin.create(TOKEN_PATH, request)["status"]["token"]
        return Node(number, uid, token, shape)

    with ThreadPoolExecutor(SENDERS) as pool:
        return list(pool.map(make, range(count)))


class Line:
    """One connection to the webhook that is kept."""

    def __init__(self, hook: WebhookProcess, authority: Path, *, address: str = "127.0.0.1") -> None:
        self._port, self._address = hook.port, address
        self._context = ssl.create_default_context(cafile=str(authority))
        self._connection: http.client.HTTPSConnection | None = None

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        answer, content = self._ask("POST", path, body, {"Content-Type": "application/json", **headers})
        return answer.status, content

    def get(self, path: str, token: str, held: str | None) -> tuple[int, bytes, str | None]:
        """Ask as the page does; give status, body and ETag."""
        headers = {"Authorization": f"Bearer {token}", **({} if held is None else {"If-None-Match": held})}
        answer, content = self._ask("GET", path, None, headers)
        return answer.status, content, answer.headers.get("ETag")

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                "127.0.0.1", self._port, context=self._context, timeout=60, source_address=(self._address, 0)
            )
        self._connection.request(method, path, body=body, headers=headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.will_close:
            self._connection.close()
            self._connection = None
        return answer, content


class ReportFailedError(RuntimeError):
    """A report was not taken: left out and counted, as the next one may be."""


def _send(line: Line, node: Node, body: bytes) -> None:
    headers = {"Content-Encoding": "gzip", "Authorization": f"Bearer {node.token}"}
    for _ in range(100):
        status, content = line.post("/v1/report", body, headers)
        if status not in (429, 503):
            break
        time.sleep(0.2)  # as it was told
    document = json.loads(content)
    if status != 200 or document["refused"]:
        raise ReportFailedError(f"node {node.number}: {status} {content[:300]!r}")


def fill(hook: WebhookProcess, plane: ControlPlane, nodes: Sequence[Node]) -> dict[str, float]:
    """Have every node report once, of two hours ago; give the rate at which reports were taken."""
    bodies = [node.body(7200.0) for node in nodes]
    begun = time.monotonic()

    def work(share: Sequence[int]) -> list[ReportFailedError]:
        line = Line(hook, plane.authority, address=NODES_ADDRESS)
        failures = []
        for index in share:
            try:
                _send(line, nodes[index], bodies[index])
            except ReportFailedError as error:
                failures.append(error)
        return failures

    with ThreadPoolExecutor(SENDERS) as pool:
        shares = [range(index, len(nodes), SENDERS) for index in range(SENDERS)]
        failures = [failure for share_failures in pool.map(work, shares) for failure in share_failures]
    tell_of_odd(failures, len(nodes), "reports")
    return {
        "webhook_reports_per_second_most": round((len(nodes) - len(failures)) / (time.monotonic() - begun), 1),
        "webhook_first_reports_failed": float(len(failures)),
    }


def tell_of_odd(failures: Sequence[object], sent: int, what: str) -> None:
    """Tell of what did not go as it should, and why.

    Raises:
        RuntimeError: It is more than odd ones: what is measured would be refusing.
    """
    if not failures:
        return
    message = f"{len(failures)} of {sent} {what} were odd; the first: {failures[0]}"
    if len(failures) > MOST_LEFT_OUT_RATIO * sent:
        raise RuntimeError(message)
    print(f"webhook: {message}", file=sys.stderr, flush=True)


def _paced(seconds: float, per_second: float, work: Callable[[int, float], None], until: threading.Event) -> int:
    """Do something at even times; each is told its number and the moment at which it was due."""
    begun, number = time.monotonic(), 0
    while not until.is_set() and (due := begun + number / per_second) < begun + seconds:
        time.sleep(max(0.0, due - time.monotonic()))  # the pace
        work(number, due)
        number += 1
    return number


def _review(node: int, shape: Shape) -> bytes:
    workload, _ = name_of(node, shape)
    containers = [
        {
            "name": f"c{index}",
            "image": "registry.example/app:1",
            "env": [{"name": f"VARIABLE_{each}", "value": "x" * 40} for each in range(10)],
            "resources": {
                "requests": {"cpu": "500m", "memory": "300Mi"},
                "limits": {"cpu": "1", "memory": "600Mi"},
            },
        }
        for index in range(3)
    ]
    document = pod("", None, *containers, annotations={"plimsoll.dev/mode": "enforce"})
    document["metadata"] |= {
        "generateName": f"{workload}-{HASH}-",
        "namespace": NAMESPACE,
        "labels": {"pod-template-hash": HASH},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": f"{workload}-{HASH}",
                "uid": "x",
                "controller": True,
            }
        ],
    }
    request = {
        "uid": f"00000000-0000-4000-8000-{node:012}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": NAMESPACE,
        "object": document,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def admissions(port: int, authority: Path, seconds: float, nodes: int, shape: Shape) -> None:
    """Ask for admissions at an even pace and print what came of it; in a process that does nothing else."""
    bodies = [_review(Random(number).randrange(nodes), shape) for number in range(500)]
    askers = [
        _Asker(port, authority, bodies[line::LINES], address=address) for line, address in enumerate(SERVER_ADDRESSES)
    ]
    begin = time.monotonic() + 0.1
    with ThreadPoolExecutor(LINES) as pool:
        asked = [
            pool.submit(asker.ask, begin + line / ADMISSIONS_PER_SECOND, seconds) for line, asker in enumerate(askers)
        ]
    for future in asked:
        future.result()  # raises where the webhook is gone
    answered = [(took, _response(answer)) for asker in askers for took, answer in asker.answers]
    allowed = [(took, response) for took, response in answered if response["allowed"]]
    failures = [text for asker in askers for text in asker.failures]
    failures += [str(response)[:300] for _, response in answered if not response["allowed"]]
    patched = sum("patch" in response for _, response in allowed)
    print(json.dumps({"taken": [took for took, _ in allowed], "patched": patched, "failures": failures}))


def _response(answer: bytes) -> dict[str, object]:
    head, _, content = answer.partition(HEAD_END)
    if not head.startswith(b"HTTP/1.1 200 "):
        return {"allowed": False, "answer": answer.decode(errors="replace")}
    response: dict[str, object] = json.loads(content)["response"]
    return response


class _Asker:
    """Asks on one connection, each time when it is due, or at once where the answer before came later than that.

    Bytes out, bytes in: an HTTP client in Python takes as long as the webhook, beside it on two cores, and that time
    would be measured with the webhook's. What the answers say is looked at afterwards.
    """

    def __init__(self, port: int, authority: Path, bodies: Sequence[bytes], *, address: str) -> None:
        head = f"POST /mutate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        self._requests = [f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies]
        self._address = address
        self._port, self._context = port, ssl.create_default_context(cafile=str(authority))
        self._socket = self._connected()
        self.answers: list[tuple[float, bytes]] = []
        """With the seconds from when it was due."""
        self.failures: list[str] = []

    def _connected(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self._port), timeout=60, source_address=(self._address, 0))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._context.wrap_socket(plain, server_hostname="127.0.0.1")

    def ask(self, begin: float, seconds: float) -> None:
        """Ask until the time is over; ``begin``: when the first time is, monotonic."""
        number = 0
        while (due := begin + number * LINES / ADMISSIONS_PER_SECOND) < begin + seconds:
            time.sleep(max(0.0, due - time.monotonic()))  # the pace
            try:
                self._socket.sendall(self._requests[number % len(self._requests)])
                answer = self._answer()
            except OSError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                self._socket.close()
                self._socket = self._connected()
            else:
                self.answers.append((time.monotonic() - due, answer))
            number += 1
        self._socket.close()

    def _answer(self) -> bytes:
        answer = b""
        while True:
            piece = self._socket.recv(65536)
            if not piece:
                raise ConnectionError(f"the webhook hung up after {answer[:300]!r}")
            answer += piece
            head, end, content = answer.partition(HEAD_END)
            length = LENGTH.search(head)
            if end and (length is None or len(content) >= int(length.group(1))):
                return answer


class _Reports:
    """Reports at the pace of all nodes, from the beginning of the block to its end."""

    def __init__(self, hook: WebhookProcess, plane: ControlPlane, nodes: Sequence[Node], seconds: float) -> None:
        """Make what is sent within so many seconds, and some more."""
        self._hook, self._authority = hook, plane.authority
        self._per_second = len(nodes) / INTERVAL_SECONDS
        self._chosen = [nodes[n % len(nodes)] for n in range(int((seconds + 20.0) * self._per_second) + 1)]
        self._bodies = [node.body(10.0) for node in self._chosen]
        self._own = threading.local()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._sent = 0
        self.failures: list[ReportFailedError] = []

    def __enter__(self) -> _Reports:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        tell_of_odd(self.failures, self._sent, "reports")

    def _run(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            sent: list[Future[None]] = []
            _paced(1e9, self._per_second, lambda number, _: sent.append(pool.submit(self._report, number)), self._done)
            self._sent = len(sent)
            for future in sent:
                try:
                    future.result()
                except ReportFailedError as error:
                    self.failures.append(error)

    def _report(self, number: int) -> None:
        if not hasattr(self._own, "line"):
            self._own.line = Line(self._hook, self._authority, address=NODES_ADDRESS)
        if number < len(self._bodies):
            _send(self._own.line, self._chosen[number], self._bodies[number])


def cpu_seconds(process: psutil.Process) -> float:
    """Return what a process used since its start."""
    times = process.cpu_times()
    return float(times.user + times.system)


def reporting(hook: WebhookProcess, plane: ControlPlane, nodes: Sequence[Node], seconds: float) -> dict[str, float]:
    """Let all nodes report, and nobody else ask; in as many seconds as lie between two folds there is one of them."""
    process, folded = psutil.Process(hook.process.pid), hook.series(FOLDED)
    with _Reports(hook, plane, nodes, seconds) as sent:
        before, begun = cpu_seconds(process), time.monotonic()
        time.sleep(seconds)  # what is measured
        used, elapsed = cpu_seconds(process) - before, time.monotonic() - begun
    return {
        "webhook_reports_cpu_percent_of_core": round(100 * used / elapsed, 1),
        "webhook_reports_folded_meanwhile": hook.series(FOLDED) - folded,
        "webhook_reports_alone_failed": float(len(sent.failures)),
    }


def loaded(hook: WebhookProcess, plane: ControlPlane, nodes: Sequence[Node], seconds: float) -> dict[str, float]:
    """Ask for admissions beside the nodes' reports."""
    process = psutil.Process(hook.process.pid)
    command = [
        sys.executable,
        "-m",
        "tests.bench.webhook",
        str(hook.port),
        str(plane.authority),
        str(seconds),
        str(len(nodes)),
        str(nodes[0].shape.nodes_of_one),
    ]
    unread = _unread(hook)
    with _Reports(hook, plane, nodes, seconds) as sent:
        before, begun = cpu_seconds(process), time.monotonic()
        output = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        used, elapsed = cpu_seconds(process) - before, time.monotonic() - begun
    taken = sorted(output["taken"])
    asked = len(taken) + len(output["failures"])
    tell_of_odd(output["failures"], asked, "admissions")
    reasons = {why: int(count - unread[why]) for why, count in _unread(hook).items() if count > unread[why]}
    unchanged = [f"nothing in it was changed; not read: {reasons}"] * (len(taken) - output["patched"])
    tell_of_odd(unchanged, asked, "admissions")
    return {
        "admission_p50_ms": round(statistics.median(taken) * 1e3, 2),
        "admission_p99_ms": round(taken[int(len(taken) * 0.99)] * 1e3, 2),
        "admission_max_ms": round(taken[-1] * 1e3, 2),
        "admissions_failed": float(len(output["failures"])),
        "admissions_unchanged": float(len(unchanged)),
        "webhook_reports_failed": float(len(sent.failures)),
        "webhook_cpu_percent_of_core": round(100 * used / elapsed, 1),
        "webhook_rss_mib": round(process.memory_info().rss / 2**20, 1),
    }


def _unread(hook: WebhookProcess) -> dict[str, float]:
    """Return how many admissions were answered unread so far, by why: on a slow core one asker's share is used up."""
    return {str(why): hook.series(UNREAD.format(why)) for why in Unread}


class Viewers:
    """Five people who look at a screen of the page each, from the beginning of the block to its end."""

    def __init__(self, hook: WebhookProcess, authority: Path, token: str) -> None:
        self._hook, self._authority, self._token = hook, authority, token
        self._until = threading.Event()
        self._threads = [threading.Thread(target=self._look, args=(paths,)) for paths in POLLED]
        self.taken: list[float] = []
        self.unchanged = 0
        self.failures: list[str] = []

    def __enter__(self) -> Viewers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._until.set()
        for thread in self._threads:
            thread.join()
        tell_of_odd(self.failures, len(self.taken) + len(self.failures), "polls")

    def _look(self, paths: Sequence[str]) -> None:
        line, held = Line(self._hook, self._authority, address=VIEWERS_ADDRESS), dict[str, str | None]()
        while not self._until.is_set():
            for path in paths:
                begun = time.monotonic()
                status, content, tag = line.get(path.format(namespace=NAMESPACE), self._token, held.get(path))
                if status not in (200, 304):
                    self.failures.append(f"{path}: {status} {content[:200]!r}")
                    continue
                self.taken.append(time.monotonic() - begun)
                self.unchanged += status == 304
                held[path] = tag
            self._until.wait(POLL_SECONDS)

    def figures(self) -> dict[str, float]:
        taken = sorted(self.taken)
        return {
            "viewed_polls": float(len(taken)),
            "viewed_polls_unchanged_ratio": round(self.unchanged / len(taken), 2),
            "viewed_poll_p50_ms": round(statistics.median(taken) * 1e3, 1),
            "viewed_poll_max_ms": round(taken[-1] * 1e3, 1),
        }


def reader_token(plane: ControlPlane) -> str:
    """Make an account that may read all of /v1, and give its token."""
    create_service_account(plane, NAMESPACE, READER)
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"nonResourceURLs": ["/v1/*"], "verbs": ["get"]}]
    plane.admin.create(f"{rbac}/clusterroles", {"metadata": {"name": READER}, "rules": rules})
    binding = {
        "metadata": {"name": READER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER},
        "subjects": [{"kind": "ServiceAccount", "name": READER, "namespace": NAMESPACE}],
    }
    plane.admin.create(f"{rbac}/clusterrolebindings", binding)
    return node_bound_token(plane, NAMESPACE, READER, None, audiences=(AUDIENCE,))


def measure_viewed(*, nodes: int = VIEWED_NODES, seconds: float = LOADED_SECONDS) -> Iterator[dict[str, float]]:
    """Measure what five viewers of the page cost: the same load twice without them, then with them.

    The second run is what the third is compared with: the memory that the first one takes is not the viewers'.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="plimsoll-bench-")))
        plane = stack.enter_context(control_plane(KUBERNETES, directory=folder / "plane", with_controllers=False))
        print(f"page: {nodes} pods and their tokens are made", flush=True)
        cluster = cluster_of_nodes(plane, nodes, VIEWED)
        token = reader_token(plane)
        with webhook(plane, folder, arguments=_ARGUMENTS) as hook:
            fill(hook, plane, cluster)
            hook.process.wait_until(
                lambda: hook.get("/v1/nodes", token).status == 200, "the role of the page's reader holds"
            )
            first = loaded(hook, plane, cluster, seconds)
            alone = loaded(hook, plane, cluster, seconds)
            with Viewers(hook, plane.authority, token) as viewers:
                viewed = loaded(hook, plane, cluster, seconds)
    rss = [run["webhook_rss_mib"] for run in (first, alone, viewed)]
    yield {
        **{f"unviewed_{key}": alone[key] for key in _COMPARED},
        **{f"viewed_{key}": viewed[key] for key in _COMPARED},
        **viewers.figures(),
        "viewed_admission_p99_ratio": round(viewed["admission_p99_ms"] / alone["admission_p99_ms"], 2),
        "unviewed_rss_growth_mib": round(rss[1] - rss[0], 1),
        "viewed_rss_growth_mib": round(rss[2] - rss[1], 1),
    }


_COMPARED: Final = ("admission_p50_ms", "admission_p99_ms", "admission_max_ms", "webhook_cpu_percent_of_core")


def measure(
    *,
    nodes: int = NODES,
    seconds: float = LOADED_SECONDS,
    alone_seconds: float = INTERVAL_SECONDS,
    databases: Sequence[str] = ("sqlite", "postgresql"),
) -> Iterator[dict[str, float]]:
    """Measure on each database, and give its figures; keys end with its name, those of SQLite with nothing."""
    from tests.bench.fortnight_reports import Reporter, Rows  # which are made of what is in here

    rows = Rows()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="plimsoll-bench-")))
        plane = stack.enter_context(control_plane(KUBERNETES, directory=folder / "plane", with_controllers=False))
        print(f"webhook: {nodes} pods and their tokens are made", flush=True)
        reporters = [Reporter(node, rows) for node in cluster_of_nodes(plane, nodes)]
        for database in databases:
            url = None
            if database == "postgresql":
                server = stack.enter_context(postgres_server(is_durable=True))
                url = server.tcp_url(server.new_database())
            with webhook(plane, folder, database=url, arguments=_ARGUMENTS) as hook:
                print(f"webhook: every node reports, {database}", flush=True)
                figures = fill(hook, plane, reporters)
                print(f"webhook: nodes report at their pace, {database}", flush=True)
                figures |= reporting(hook, plane, reporters, alone_seconds)
                print(f"webhook: admissions beside them, {database}", flush=True)
                figures |= loaded(hook, plane, reporters, seconds)
            suffix = "" if database == "sqlite" else f"_{database}"
            yield {f"{key}{suffix}": value for key, value in figures.items()}


if __name__ == "__main__":
    shape = Shape(nodes_of_one=int(sys.argv[5]))
    admissions(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), shape)
