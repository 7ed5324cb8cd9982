"""A second webhook on a real API server puts a sidecar into pods, before ours or after: what we size, and what we keep.

After ours the server asks again where the registration says IfNeeded, as the chart ships it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.cluster.admission_room import (
    ENFORCE,
    MB,
    Room,
    Running,
    admission_room,
    mebibytes_above,
    owned,
    sized,
)
from tests.cluster.api import Json
from tests.cluster.certificates import KeyPair
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import registration

pytestmark = pytest.mark.cluster

WRITTEN_REQUESTS = {"app": {"cpu": "500m", "memory": "300M"}, "proxy": {"cpu": "900m", "memory": "700M"}}
SIDECAR = {"name": "proxy", "image": "plimsoll.test/none:1", "resources": {"requests": WRITTEN_REQUESTS["proxy"]}}
SIZED = {
    "app": {"cpu": "300m", "memory": mebibytes_above(200 * MB)},
    "proxy": {"cpu": "50m", "memory": mebibytes_above(80 * MB)},
}
WRITTEN = {
    "app": {"requests": {"cpu": "500m", "memory": "300000000"}, "limits": {}},
    "proxy": {"requests": {"cpu": "900m", "memory": "700000000"}, "limits": {}},
}


class Injector(BaseHTTPRequestHandler):
    """Puts the sidecar at the end of a pod that has none."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        response: Json = {"uid": request["uid"], "allowed": True}
        if all(container["name"] != SIDECAR["name"] for container in request["object"]["spec"]["containers"]):
            patch = json.dumps([{"op": "add", "path": "/spec/containers/-", "value": SIDECAR}]).encode()
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving(pair: KeyPair) -> Iterator[int]:
    """Serve the injector; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Injector)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def room(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with admission_room(cluster, tmp_path_factory.mktemp("again"), {"web": Running()}) as webhook_room:
        yield webhook_room


@pytest.fixture(scope="module")
def injector(cluster: ControlPlane) -> Iterator[int]:
    with serving(cluster.serving_certificate("injector", ["127.0.0.1"])) as port:
        yield port


@contextlib.contextmanager
def registered(room: Room, port: int, order: str, policy: str) -> Iterator[None]:
    """Have the injector asked before ours or after it, as their names are in order, and ours again by this policy."""
    admin, authority = room.cluster.admin, room.cluster.authority
    ours = registration(room.hook.port, room.namespace, authority, seconds=10)
    ours["webhooks"][0]["reinvocationPolicy"] = policy
    theirs = registration(port, room.namespace, authority, seconds=10)
    theirs["metadata"]["name"] = f"{'aa' if order == 'before' else 'zz'}-{room.namespace}"
    theirs["webhooks"][0]["name"] = "injector.plimsoll.test"
    theirs["webhooks"][0]["failurePolicy"] = "Fail"
    admin.apply(ours)
    admin.apply(theirs)
    try:
        yield
    finally:
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        admin.delete(f"{path}/{theirs['metadata']['name']}")
        wait_for(lambda: len(admitted(room)["spec"]["containers"]) == 1, "the injector is asked no more")


def admitted(room: Room, **more: Any) -> Json:
    return room.admitted(owned("web", "Deployment", sized(), **more))


def requests(pod: Json) -> Json:
    return {container["name"]: container["resources"]["requests"] for container in pod["spec"]["containers"]}


def originals(pod: Json) -> Json:
    containers: Json = json.loads(pod["metadata"]["annotations"]["plimsoll.dev/original-resources"])["containers"]
    return containers


@pytest.mark.parametrize(
    ("order", "policy", "sized_there"),
    [
        pytest.param("after", "IfNeeded", ("app", "proxy"), id="after ours, which is asked again"),
        pytest.param("after", "Never", ("app",), id="after ours, which is not asked again"),
        pytest.param("before", "IfNeeded", ("app", "proxy"), id="before ours"),
    ],
)
def test_what_the_pod_was_written_with_is_kept_whoever_puts_a_sidecar_in_and_when(
    room: Room, injector: int, order: str, policy: str, sized_there: tuple[str, ...]
) -> None:
    with registered(room, injector, order, policy):
        expected = WRITTEN_REQUESTS | {name: SIZED[name] for name in sized_there}
        wait_for(lambda: requests(admitted(room)) == expected, "both are asked")
        pod = admitted(room)
        assert originals(pod) == {name: WRITTEN[name] for name in sized_there}
        # What came out is created once more: what was sized stays, and so do its originals.
        again = room.admitted({key: pod[key] for key in ("apiVersion", "kind", "metadata", "spec")})
        assert (requests(again), originals(again)) == (SIZED, WRITTEN)


def test_originals_that_a_template_brings_along_are_written_anew(room: Room, injector: int) -> None:
    forged = {
        "plimsoll.dev/original-resources": '{"containers": {"app": {"requests": {"cpu": "64", "memory": "1Ti"}}}}',
        "plimsoll.dev/admission": '{"unixSeconds": 1700000000, "policy": "cruise"}',
    }
    with registered(room, injector, "after", "IfNeeded"):
        pod: Json = {}

        def is_sized() -> bool:
            pod.update(admitted(room, annotations={**ENFORCE, **forged}))
            return requests(pod) == SIZED

        wait_for(is_sized, "both are asked")
        assert originals(pod) == WRITTEN


LIMITED = {**ENFORCE, "plimsoll.dev/pod-limits": '{"limits": {"cpu": "3", "memory": "3Gi"}}'}


@pytest.mark.usefixtures("pods_have_resources")
@pytest.mark.parametrize("order", ["after", "before"])
def test_resources_that_the_pod_is_given_hold_the_sidecar_too(room: Room, injector: int, order: str) -> None:
    with registered(room, injector, order, "IfNeeded"):
        wait_for(lambda: len(admitted(room)["spec"]["containers"]) == 2, "both are asked")
        pod = admitted(room, annotations=LIMITED)
        assert requests(pod) == SIZED
        assert pod["spec"]["resources"]["limits"] == {"cpu": "3", "memory": "3Gi"}
        assert pod["spec"]["resources"]["requests"] == summed(SIZED)


@pytest.mark.usefixtures("pods_have_resources")
def test_not_asked_again_we_leave_a_request_for_the_whole_pod_that_the_sidecar_passes(
    room: Room, injector: int
) -> None:
    """Why the chart has the server ask again."""
    with registered(room, injector, "after", "Never"):
        wait_for(lambda: len(admitted(room)["spec"]["containers"]) == 2, "both are asked")
        document = owned("web", "Deployment", sized(), annotations=LIMITED)
        done = room.kubectl("create", "--dry-run=server", "-f", "-", stdin=document)
        assert done.returncode != 0
        assert "must be greater than or equal to aggregate container requests" in done.stderr


def summed(requested: Json) -> Json:
    cpu = sum(int(amounts["cpu"].removesuffix("m")) for amounts in requested.values())
    memory_bytes = sum(int(amounts["memory"]) for amounts in requested.values())
    return {"cpu": f"{cpu}m", "memory": f"{memory_bytes >> 20}Mi"}
