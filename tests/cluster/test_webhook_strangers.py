"""Strangers at the webhook's port, while a real API server asks a real process over TLS: nobody is slowed down."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import resource
import socket
import ssl
import statistics
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus

import psutil
import pytest

from agent.kube.client.api import JWKS_PATH
from agent.webhook.http.tokens import SigningKeys, look
from tests.cluster import chart
from tests.cluster.admission_room import Room, Running, admission_room, is_sized, owned, register, sized
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import fresh_name
from tests.cluster.objects import pod_path
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import AUDIENCE, agent_token
from tests.cluster.webhook_rights import webhook_api
from tests.webhook.signed_tokens import claims, signer

pytestmark = pytest.mark.cluster

STRANGER = "127.0.0.2"


@pytest.fixture(scope="module")
def room(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A webhook with the chart's rights that has learnt of a workload."""
    with admission_room(cluster, tmp_path_factory.mktemp("strangers"), {"web": Running()}) as webhook_room:
        register(webhook_room, seconds=30)  # no API server waits longer
        yield webhook_room


class Stranger:
    """Connects from an address of its own."""

    def __init__(self, room: Room) -> None:
        self._port = room.hook.port
        self._context = ssl.create_default_context(cafile=str(room.cluster.authority))

    def plain(self) -> ssl.SSLSocket:
        bare = socket.create_connection(("127.0.0.1", self._port), timeout=30, source_address=(STRANGER, 0))
        try:
            return self._context.wrap_socket(bare, server_hostname="127.0.0.1")
        except OSError:
            bare.close()
            raise

    def posted(self, connection: ssl.SSLSocket, body: bytes) -> tuple[int, bytes]:
        connection.sendall(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer.read()


def review(containers: int, filling: int = 0) -> bytes:
    document = owned("web", "Deployment", *(sized(f"c{number}") for number in range(containers)))
    document["metadata"]["namespace"] = "shop"
    request = {
        "uid": "stranger",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "object": document,
        "more": "x" * filling,
    }
    return json.dumps({"request": request}).encode()


@contextlib.contextmanager
def posting(room: Room, bodies: list[bytes]) -> Iterator[list[int]]:
    """Post reviews without a pause, each in a thread, inside the block; what was answered."""
    done, statuses = threading.Event(), list[int]()

    def post(body: bytes) -> None:
        stranger = Stranger(room)
        while not done.is_set():
            # When it used up its share it is not let in for a while; after a review that is too large it is hung up on.
            with contextlib.suppress(OSError, http.client.HTTPException), stranger.plain() as connection:
                while not done.is_set():
                    status, answer = stranger.posted(connection, body)
                    if status == HTTPStatus.REQUEST_TIMEOUT:
                        break  # a busy machine did not bring all of it within ten seconds
                    response = json.loads(answer)["response"]
                    assert (response["uid"], response["allowed"]) == ("stranger", True)
                    statuses.append(status)

    threads = [threading.Thread(target=post, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: len(statuses) >= len(bodies), "strangers are answered")
        yield statuses
    finally:
        done.set()
        for thread in threads:
            thread.join()


def cpu_seconds(room: Room) -> float:
    """Return what the webhook worked so far."""
    times = psutil.Process(room.hook.process.pid).cpu_times()
    return times.user + times.system


@pytest.mark.parametrize(
    "bodies",
    [
        [review(60_000)] * 2,
        [review(12_000), review(1, 3 << 20)],
        [review(250)] * 4,
        [review(1)] * 4,
    ],
    ids=["7.5 MB", "too much", "as much as is read", "small ones"],
)
def test_pods_are_sized_while_a_stranger_posts_reviews(room: Room, bodies: list[bytes]) -> None:
    waits: list[float] = []
    with posting(room, bodies):
        for _ in range(5):
            began, worked = time.monotonic(), cpu_seconds(room)
            pod = room.cluster.admin.create(
                pod_path(room.namespace), owned("web", "Deployment", sized(), pod_name=fresh_name("web"))
            )
            # On a busy machine all take longer, and the webhook does no more meanwhile: what a pod may have to wait for
            # is its work for others. Who has to wait for a share of it is not sized.
            waits.append(min(time.monotonic() - began, cpu_seconds(room) - worked))
            # The API server waits thirty seconds here, and keeps the pod as it was written then.
            assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "300m"
            assert room.hook.get("/healthz").status == 200
            room.cluster.admin.delete(pod_path(room.namespace, pod["metadata"]["name"]))
    # As shipped it waits two.
    assert statistics.median(waits) < 2.0


def test_two_thousand_idle_connections_keep_no_api_server_out(room: Room) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    stranger = Stranger(room)
    with contextlib.ExitStack() as held:
        for number in range(2000):
            with contextlib.suppress(OSError):  # not let in: its share is used up
                connection = held.enter_context(stranger.plain())
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                if number % 100 == 0:
                    assert room.hook.get("/healthz").status == 200
        for _ in range(20):
            assert room.hook.get("/healthz").status == 200  # each by a connection of its own
        assert is_sized(room)
        assert room.hook.series("plimsoll_webhook_connections") < 500


def test_open_files_are_enough_for_all_connections(room: Room) -> None:
    assert psutil.Process(room.hook.process.pid).rlimit(psutil.RLIMIT_NOFILE)[0] >= 2256


def questions(room: Room) -> float:
    """Count the TokenReviews that the API server was sent."""
    text: str = room.cluster.admin.request("GET", "/metrics")["message"]
    lines = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if 'resource="tokenreviews"' in line)


def test_tokens_of_strangers_ask_the_api_server_nothing_and_agents_are_let_in(room: Room) -> None:
    def status(token: str) -> int:
        return room.hook.ask("POST", "/v1/report", b"{}", Authorization=f"Bearer {token}").status

    token = agent_token(room.cluster, room.node)
    begun = questions(room)
    assert status(token) == 400  # let in, and no report
    # The API server counts a request when it has been answered, and so maybe after what the answer brought about.
    wait_for(lambda: questions(room) > begun, "the question about it is counted")
    before = questions(room)
    head, payload, signature = token.split(".")
    strangers = [
        "opaque",
        signer().token(claims(exp=4e9)),
        signer().token(claims(exp=4e9), kid=json.loads(_decoded(head))["kid"]),
        f"{head}.{payload}.{signature[:-8]}AAAAAAAA",
        agent_token(room.cluster, room.node, audience="https://kubernetes.default.svc"),
    ]
    for stranger in strangers * 4:
        assert status(stranger) == 401
    # One of them names a key that is not known: the keys are asked for, and it is asked about once at most.
    assert questions(room) - before <= 1
    assert status(agent_token(room.cluster, room.nodes[1])) == 400


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_the_keys_are_there_for_every_service_account_and_check_real_tokens(
    room: Room, cluster: ControlPlane, namespace: str
) -> None:
    keys = SigningKeys(webhook_api(cluster, namespace, everywhere=[], own=[]))
    assert keys.refresh()
    text = agent_token(cluster, room.node)
    token = look(text, audience=AUDIENCE, now_unix_seconds=0.0)
    assert keys.is_signed(token) is True
    roles = [manifest for manifest in chart.parts(*chart.WEBHOOK) if manifest["kind"] == "ClusterRole"]
    assert any(JWKS_PATH in rule.get("nonResourceURLs", []) for manifest in roles for rule in manifest["rules"])
