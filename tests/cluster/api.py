"""A small client for the tests' side of the API: by path, nothing hidden, nothing retried.

It is not the client under test and shares nothing with it, so that one's mistakes cannot hide in the other. Each thread
keeps a connection for its next request, as a handshake costs both sides four times what the rest does; one that the
server has closed meanwhile is not used again: nothing is left over from before an outage.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import http.client
import json
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from tests.cluster.certificates import KeyPair

Json = dict[str, Any]

STRATEGIC: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"
TIMEOUT_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 45.0
"""For which a connection is kept: an API server closes one that nobody used for 90."""
PATHS: Final = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "FlowSchema": "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "PriorityLevelConfiguration": "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
}
"""Where ``apply`` puts what kind; for one not listed here add its line."""


class ApiError(Exception):
    """The server refused. ``status`` is the HTTP code, ``body`` its Status object (or what it sent instead)."""

    def __init__(self, method: str, path: str, status: int, body: Any) -> None:
        self.status = status
        self.body = body if isinstance(body, dict) else {"message": str(body)}
        self.reason = str(self.body.get("reason", ""))
        self.message = str(self.body.get("message", ""))
        super().__init__(f"{method} {path}: {status} {self.reason}: {self.message}")

    @property
    def causes(self) -> list[str]:
        """The reasons of the details, for instance ``NodeCapacity``."""
        causes = (self.body.get("details") or {}).get("causes") or []
        return [str(cause.get("reason", "")) for cause in causes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The API as one identity sees it: a client certificate, a token, or nobody."""

    server: str
    """https://ADDRESS:PORT."""
    authority: Path
    identity: KeyPair | None = None
    token: str | None = None
    timeout_seconds: float = TIMEOUT_SECONDS

    def get(self, path: str, **query: str) -> Json:
        """Read one object, or a list as the server sends it."""
        return self.request("GET", path, query=query)

    def items(self, path: str, **query: str) -> list[Json]:
        """Read the items of a list; ``fieldSelector`` and the like as keywords."""
        items: list[Json] = self.get(path, **query).get("items") or []
        return items

    def exists(self, path: str) -> bool:
        """Return whether an object is there."""
        try:
            self.get(path)
        except ApiError as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    def create(self, path: str, body: Json, **query: str) -> Json:
        """Create an object in a collection, or post to a subresource."""
        return self.request("POST", path, body, query=query)

    def replace(self, path: str, body: Json, **query: str) -> Json:
        """Replace an object."""
        return self.request("PUT", path, body, query=query)

    def patch(self, path: str, body: Any, content_type: str = STRATEGIC, **query: str) -> Json:
        """Patch an object or a subresource."""
        return self.request("PATCH", path, body, content_type=content_type, query=query)

    def delete(self, path: str, body: Json | None = None, **query: str) -> None:
        """Delete an object; one that is gone already is as good."""
        try:
            self.request("DELETE", path, body, query=query)
        except ApiError as error:
            if error.status != http.client.NOT_FOUND:
                raise

    def apply(self, manifest: Json) -> Json:
        """Create or update an object of one of the kinds in ``PATHS`` (server-side apply)."""
        return self.patch(path_of(manifest), manifest, APPLY, fieldManager="tests", force="true")

    def apply_all(self, manifests: Iterable[Json]) -> list[Json]:
        """Apply objects in their order."""
        return [self.apply(manifest) for manifest in manifests]

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """Send one request and give the object that comes back.

        Raises:
            ApiError: The server answered with a code of 400 or above.
            OSError: No answer: refused, timed out, cut off.
        """
        connection, answer = self.open(method, path, body, content_type, query, connection=self._kept())
        with _closed_on_failure(connection, f"{method} {path}"):
            text = answer.read()
        if answer.will_close:
            connection.close()
        else:
            _idle().keep(self._key, connection)
        try:
            value = json.loads(text) if text else {}
        except ValueError:
            value = {"message": text.decode(errors="replace")}  # the health endpoints answer `ok`
        if answer.status >= http.client.BAD_REQUEST:
            raise ApiError(method, path, answer.status, value)
        return value if isinstance(value, dict) else {"message": value}

    def watch(self, path: str, **query: str) -> Watch:
        """Watch a collection: use it in a ``with`` and iterate.

        Raises:
            ApiError: The server refused the watch.
            OSError: No answer.
        """
        connection, answer = self.open("GET", path, None, "", {**query, "watch": "true"})
        if answer.status >= http.client.BAD_REQUEST:
            with contextlib.closing(connection):
                raise ApiError("WATCH", path, answer.status, answer.read().decode(errors="replace"))
        return Watch(connection, answer)

    @property
    def _key(self) -> _Key:
        return self.server, self.authority, self.identity

    def _kept(self) -> http.client.HTTPSConnection | None:
        """Return the connection that this thread has kept, for as long as this identity waits for an answer."""
        connection = _idle().take(self._key)
        if connection is not None:
            connection.sock.settimeout(self.timeout_seconds)
        return connection

    def open(
        self,
        method: str,
        path: str,
        body: Any,
        content_type: str,
        query: Mapping[str, str] | None,
        *,
        connection: http.client.HTTPSConnection | None = None,
    ) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
        """Send a request and give the connection, which the caller closes, with the answer's head read.

        Without a connection to take it is one of its own.
        """
        if connection is None:
            address = urlsplit(self.server)
            connection = http.client.HTTPSConnection(
                address.hostname or "",
                address.port,
                timeout=self.timeout_seconds,
                context=tls(self.authority, self.identity),
            )
        headers = {"Accept": "application/json", "User-Agent": "plimsoll-tests"}
        if body is not None:
            headers["Content-Type"] = content_type
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        with _closed_on_failure(connection, f"{method} {path}"):
            target = f"{path}?{urlencode(query)}" if query else path
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            return connection, connection.getresponse()


@contextlib.contextmanager
def _closed_on_failure(connection: http.client.HTTPSConnection, what: str) -> Iterator[None]:
    """Close a connection on which a request failed; an answer that breaks off is an ``OSError`` as any other."""
    try:
        yield
    except http.client.HTTPException as error:
        connection.close()
        msg = f"{what}: the answer broke off ({error!r})"
        raise ConnectionError(msg) from error
    except OSError:
        connection.close()
        raise


_Key = tuple[str, Path, KeyPair | None]
"""Whose connection it is; a token comes with each request."""


class _Idle:
    """Connections of one thread, by whose they are, between its requests; they are closed when the thread ends."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self._connections: dict[_Key, tuple[http.client.HTTPSConnection, float]] = {}

    def take(self, key: _Key) -> http.client.HTTPSConnection | None:
        """Return the one that was kept, unless the server has closed it, or may do so while it is asked."""
        connection, kept_seconds = self._connections.pop(key, (None, 0.0))
        if connection is None:
            return None
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        if time.monotonic() - kept_seconds < IDLE_SECONDS and not poll.poll(0):
            return connection
        connection.close()  # nothing was asked: what may be read is its end
        return None

    def keep(self, key: _Key, connection: http.client.HTTPSConnection) -> None:
        self._connections[key] = connection, time.monotonic()

    def close(self) -> None:
        for connection, _ in self._connections.values():
            connection.close()
        self._connections.clear()

    def __del__(self) -> None:
        self.close()


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.idle = _Idle()


_THREADS: Final = _OfThread()


def _idle() -> _Idle:
    """Return this thread's; a child that was forked has none of its parent's."""
    if _THREADS.idle.process_id != os.getpid():
        _THREADS.idle = _Idle()
    return _THREADS.idle


@atexit.register
def _close_idle() -> None:
    _idle().close()


class Watch:
    """The events of one watch; iteration ends when the server or ``close`` ends it, quietly in either case."""

    def __init__(self, connection: http.client.HTTPSConnection, answer: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._answer = answer
        self._socket = connection.sock  # the connection forgets it when another thread closes it
        self._socket.settimeout(None)  # an event may be a long time coming

    def __iter__(self) -> Iterator[Json]:
        """Give events: ``{"type": "ADDED", "object": {...}}``."""
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            while line := self._answer.readline():
                yield json.loads(line)

    def close(self) -> None:
        """End the watch, also from another thread while this one waits for an event."""
        with contextlib.suppress(OSError):
            # Of the plain socket: TLS would wait for a lock that the reader holds.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
        self._answer.close()
        self._connection.close()


@functools.lru_cache
def tls(authority: Path, identity: KeyPair | None) -> ssl.SSLContext:
    """Return the TLS settings of an identity; made once, as it reads files."""
    context = ssl.create_default_context(cafile=str(authority))
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


def path_of(manifest: Json) -> str:
    """Return where an object of one of the kinds in ``PATHS`` is kept."""
    metadata = manifest["metadata"]
    collection = PATHS[manifest["kind"]].format(namespace=metadata.get("namespace", ""))
    return f"{collection}/{metadata['name']}"


def is_awaited(condition: Callable[[], object], *statuses: int) -> bool:
    """Return whether a call succeeds, taking refusals of the given codes as "not yet"."""
    try:
        return bool(condition())
    except ApiError as error:
        if error.status in statuses:
            return False
        raise


def kubeconfig(api: Api, file: Path) -> Path:
    """Write the kubeconfig of an identity (JSON, which is YAML) for programs that want one."""
    user: Json = {}
    if api.identity is not None:
        user = {"client-certificate": str(api.identity.certificate), "client-key": str(api.identity.key)}
    if api.token is not None:
        user["token"] = api.token
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": {"server": api.server, "certificate-authority": str(api.authority)}}],
        "users": [{"name": "tests", "user": user}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "current-context": "tests",
    }
    file.touch(mode=0o600)
    file.write_text(json.dumps(document, indent=2) + "\n")
    return file
