"""Requests to the API server: one call in, JSON or an error out; and streams of lines. No policy, and no retries.

The rest of the agent sees the Protocol ``Api``; ``HttpApi`` is it over urllib3, which the official client builds on
(that client itself would cost 35 MB resident, see ``kubeconfig``).
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, Protocol, TypedDict
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from agent.kube.client.credentials import Authorization, Credentials
from agent.kube.client.errors import CredentialsError, TooLong, Unreachable, api_error, one_line
from agent.version import installed_version

JSON: Final = "application/json"
JWKS_PATH: Final = "/openid/v1/jwks"
_KEY_SET: Final = "application/jwk-set+json"
"""The one form in which the API server gives its public keys."""
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

TIMEOUT_SECONDS: Final = 10.0
LONGEST_LINE_BYTES: Final = 32 << 20
"""A list is one line. The usual one of a node's 250 pods has 4 MB; pods that a tenant filled to the API server's bound
have 1.5 MB each, and a list of those must not cost the agent its memory limit."""
_PIECE_BYTES: Final = 1 << 16
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SHOWN_REASON: Final = 200
_KEPT_CONNECTIONS: Final = 16
"""Idle ones at most: each kind that the webhook watches leaves one when its list is read."""
_SOCKET_OPTIONS: Final = (
    *HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    # A silent watch over a dead network is noticed within a minute: 20 s of silence, then 4 unanswered probes.
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)


class Stream(Protocol):
    """The lines of an answer as they come."""

    def __iter__(self) -> Iterator[bytes]:
        r"""Return each line with its ``\n``; a last one without was cut off.

        Raises:
            TooLong: A line has more than ``LONGEST_LINE_BYTES``.
            Unreachable: It broke off, or nothing came for too long. Not after ``close``.
        """

    def close(self) -> None:
        """End it, from any thread; who iterates comes out at once. A second call does nothing."""


class CallOptions(TypedDict, total=False):
    """What ``Api.call`` takes by name, for those who hand it on."""

    query: Mapping[str, str] | None
    body: object | None
    content_type: str
    timeout_seconds: float | None


class StreamOptions(TypedDict, total=False):
    """What ``Api.stream`` takes by name, for those who hand it on."""

    query: Mapping[str, str] | None
    accept: str
    timeout_seconds: float | None


class Api(Protocol):
    """The API server as one identity sees it; for any thread."""

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object | None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
    ) -> object:
        """Send one request, for what the server bounds itself: the answer is held whole.

        Args:
            method: ``GET``, ``POST``, ``PUT``, ``PATCH`` or ``DELETE``.
            path: Below the server, for instance ``/api/v1/nodes``.
            query: Names and values, not yet quoted.
            body: What to send as JSON; None = nothing.
            content_type: Of the body: says what kind of patch it is.
            timeout_seconds: For the connection, and again for the answer; None = as the client was set up.

        Returns:
            The parsed JSON; None for an empty answer.

        Raises:
            ApiError: The server refused.
            Unreachable: It did not answer.
        """

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        timeout_seconds: float | None = None,
    ) -> Stream:
        """Start to read an answer of many lines; returns with its head.

        Args:
            timeout_seconds: For the connection, and for each pause in the answer.
        """


class HttpApi:
    """The API over HTTPS: connections are kept, the server's certificate is checked, redirects are not followed."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        user_agent: str | None = None,
    ) -> None:
        """Store the arguments; nothing is asked yet.

        Args:
            user_agent: What the server's audit log calls this program.
        """
        self.server: Final = credentials.server.rstrip("/")
        self._prefix = urlsplit(self.server).path
        self._authorization = Authorization(credentials)
        self._timeout_seconds = timeout_seconds
        self._user_agent = user_agent or f"plimsoll/{installed_version()} node-agent"
        self._pool = _pool_of(credentials)

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object | None = None,
        content_type: str = JSON,
        timeout_seconds: float | None = None,
    ) -> object:
        """Send one request; see ``Api``."""
        what, is_write = f"{method} {path}", method not in _READS
        headers = self._headers(_KEY_SET if path == JWKS_PATH else JSON)
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body).encode()
        response = self._request(what, method, self._target(path, query), headers, data, timeout_seconds)
        try:
            text = response.data
        except (HTTPError, OSError) as error:
            raise self._unreachable(what, error, may_have_been_done=is_write) from error
        finally:
            response.release_conn()
        if not 200 <= response.status < 300:
            raise api_error(what, response.status, text, response.headers.get("Retry-After"))
        if not text.strip():
            return None
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            message = f"{what}: {self.server} answered {response.status} with something else than JSON"
            raise Unreachable(message, may_have_been_done=is_write) from error
        return value

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        timeout_seconds: float | None = None,
    ) -> Stream:
        """Start to read an answer of many lines; see ``Api``."""
        what = f"GET {path}"
        response = self._request(what, "GET", self._target(path, query), self._headers(accept), None, timeout_seconds)
        if 200 <= response.status < 300:
            return _HttpStream(response, what, self._unreachable)
        try:
            text = response.data
        except (HTTPError, OSError) as error:
            raise self._unreachable(what, error, may_have_been_done=False) from error
        finally:
            response.release_conn()
        raise api_error(what, response.status, text, response.headers.get("Retry-After"))

    def _target(self, path: str, query: Mapping[str, str] | None) -> str:
        return f"{self._prefix}{path}?{urlencode(query)}" if query else f"{self._prefix}{path}"

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept, "User-Agent": self._user_agent}
        authorization = self._authorization.header()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    def _request(
        self,
        what: str,
        method: str,
        target: str,
        headers: Mapping[str, str],
        data: bytes | None,
        timeout_seconds: float | None,
    ) -> urllib3.BaseHTTPResponse:
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        # Connecting takes no longer than a call may, however long the pauses of a stream may be.
        timeout = urllib3.Timeout(connect=min(seconds, self._timeout_seconds), read=seconds)
        try:
            return self._pool.urlopen(
                method,
                target,
                body=data,
                headers=headers,
                retries=False,
                redirect=False,
                timeout=timeout,
                preload_content=False,
            )
        except (HTTPError, OSError) as error:
            may_have_been_done = method not in _READS and not _was_never_sent(error)
            raise self._unreachable(what, error, may_have_been_done=may_have_been_done) from error

    def _unreachable(self, what: str, error: Exception, *, may_have_been_done: bool) -> Unreachable:
        message = f"{what}: no answer from {self.server}: {reason_of(error)}"
        return Unreachable(message, may_have_been_done=may_have_been_done)


class _Unreached(Protocol):
    def __call__(self, what: str, error: Exception, *, may_have_been_done: bool) -> Unreachable: ...


class _HttpStream:
    """One answer, read line by line; one thread iterates, any may close."""

    def __init__(self, response: urllib3.BaseHTTPResponse, what: str, unreachable: _Unreached) -> None:
        self._response = response
        self._what = what
        self._unreachable = unreachable
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._is_reading = False

    def __iter__(self) -> Iterator[bytes]:
        """Return the lines; once."""
        with self._lock:
            if self._closed.is_set():
                return
            self._is_reading = True
        rest: list[bytes] = []
        rest_bytes = 0
        try:
            for piece in self._response.stream(_PIECE_BYTES):
                if self._closed.is_set():
                    return
                start = 0
                while end := piece.find(b"\n", start) + 1:
                    rest.append(piece[start:end])
                    start = end
                    whole = b"".join(rest)
                    rest.clear()
                    rest_bytes = 0
                    yield whole
                    if self._closed.is_set():
                        return
                if start < len(piece):
                    rest.append(piece[start:])
                    rest_bytes += len(piece) - start
                    if rest_bytes > LONGEST_LINE_BYTES:
                        mib = LONGEST_LINE_BYTES >> 20
                        raise TooLong(f"{self._what}: an answer of more than {mib} MiB in one line")
        except (HTTPError, OSError, ValueError) as error:  # ValueError: the socket was shut while it was read
            if not self._closed.is_set():
                raise self._unreachable(self._what, error, may_have_been_done=False) from error
            return
        finally:
            self._closed.set()
            self._response.close()
        if rest:
            yield b"".join(rest)

    def close(self) -> None:
        """End it; who iterates comes out at once."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            is_reading = self._is_reading
        # To close a file that another thread reads would wait for that thread: shutting the socket wakes it instead.
        with contextlib.suppress(ValueError, RuntimeError, OSError):
            self._response.shutdown()
        if not is_reading:
            self._response.close()


def _pool_of(credentials: Credentials) -> urllib3.HTTPConnectionPool:
    address = urlsplit(credentials.server)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise CredentialsError(
            f"{credentials.origin}: server {credentials.server!r} is not allowed (https://HOST:PORT)"
        )
    if not credentials.is_verified:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the kubeconfig's owner knows
    make = urllib3.PoolManager if credentials.proxy is None else partial(urllib3.ProxyManager, credentials.proxy)
    manager = make(
        maxsize=_KEPT_CONNECTIONS,
        socket_options=_SOCKET_OPTIONS,
        # As file names and not as one context: each connection reads them anew, so that renewed ones take effect.
        cert_reqs="CERT_REQUIRED" if credentials.is_verified else "CERT_NONE",
        ca_certs=_text(credentials.ca_file),
        cert_file=_text(credentials.certificate_file),
        key_file=_text(credentials.key_file),
        server_hostname=credentials.server_name,
    )
    return manager.connection_from_url(credentials.server)


def _text(path: object) -> str | None:
    return None if path is None else str(path)


def _was_never_sent(error: Exception) -> bool:
    """Return whether the failure lies before the request: nobody listens, no name, a server that is not trusted."""
    if isinstance(error, (NewConnectionError, ConnectTimeoutError, ProxyError)):
        return True
    return isinstance(error, SSLError) and any(
        isinstance(part, ssl.SSLCertVerificationError) for part in (*error.args, error.__cause__)
    )


def reason_of(error: BaseException) -> str:
    """Return why in few words; the innermost cause is the plain one."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        inner = next((part for part in (*error.args, error.__cause__) if isinstance(part, BaseException)), None)
        if inner is None:
            break
        error = inner
    if isinstance(error, (ReadTimeoutError, TimeoutError)):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return one_line(error.strerror)[:_SHOWN_REASON]
    return one_line(str(error))[:_SHOWN_REASON] or type(error).__name__


VERSION_PATH: Final = "/version"


def server_version(api: Api) -> str | None:
    """Ask for the server's version.

    Returns:
        gitVersion, such as ``v1.37.1`` or with a vendor's suffix; None = it does not say.
    """
    document = api.call("GET", VERSION_PATH)
    version = document.get("gitVersion") if isinstance(document, Mapping) else None
    return version if isinstance(version, str) and version else None
