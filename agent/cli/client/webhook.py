"""One question to the webhook over HTTPS: with whose token, trusting whom; and what is said without an answer. Face.

People reach it through ``kubectl port-forward``, or as ``kubectl plimsoll`` through a forward of its own: an API server
that proxies takes the token away.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from agent.cli.options.settings_options import fail
from agent.named_file import PAGE_MOST_BYTES, read_named

if TYPE_CHECKING:
    from agent.cli.client.webhook_forward import WebhookForward
    from agent.kube.client.api import Api
    from agent.kube.client.pod_forward import Forward

DEFAULT_URL: Final = "https://127.0.0.1:8443"
SERVICE_NAME: Final = "plimsoll-webhook.plimsoll.svc"
FORWARD: Final = "webhook forward"
"""Of the arguments, where ``kubectl plimsoll`` has one."""
AUDIENCE: Final = "plimsoll-webhook"
CONFIGURATION: Final = "plimsoll"
DEFAULT_ACCOUNT: Final = "plimsoll/plimsoll-webhook-reader"
TIMEOUT_SECONDS: Final = 20.0
FORGET_SECONDS: Final = 300.0
"""A large database is looked through hour by hour."""
PAGE: Final = 500
"""Workloads of one answer."""
AGAIN_SECONDS: Final = 5.0
"""Where no header says when to come again."""
_NOT_FOUND: Final = 404
_COME_AGAIN: Final = (429, 503)
_MOST_DIGITS: Final = 6
_FAST: Final = 1
MOST_BYTES: Final = 64 << 20
CONNECTIONS: Final = 16
"""That are kept: as many as the page's door asks with at once; of more, the library complains in the terminal."""
TOKEN_SECONDS: Final = 600
RENEW_SECONDS: Final = 0.8 * TOKEN_SECONDS
"""A token older than that is had anew."""

Body = TypeVar("Body")


class NoWebhookAnswerError(Exception):
    """No answer came; one line."""


class NotKnownError(NoWebhookAnswerError):
    """The webhook knows nothing of what was asked for."""


class ComeAgainError(NoWebhookAnswerError):
    """Not now; the same may be asked again after some seconds."""

    def __init__(self, text: str, retry_after_seconds: float) -> None:
        super().__init__(text)
        self.retry_after_seconds: Final = retry_after_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedAnswer:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def add_webhook_options(parser: argparse.ArgumentParser) -> None:
    """Declare where the webhook is, and who asks."""
    group = parser.add_argument_group(
        "webhook", "to reach it: kubectl -n plimsoll port-forward service/plimsoll-webhook 8443:443"
    )
    group.add_argument("--webhook", metavar="URL", default=DEFAULT_URL, help=f"its address (default: {DEFAULT_URL})")
    group.add_argument("--token-file", metavar="FILE", type=Path, help=f"a token for the audience {AUDIENCE}")
    group.add_argument(
        "--kubeconfig", metavar="FILE", type=Path, help="ask the API server for a token of --account and for the CA"
    )
    group.add_argument("--account", metavar="NAMESPACE/NAME", default=DEFAULT_ACCOUNT, help="default: %(default)s")
    group.add_argument(
        "--ca-file",
        metavar="FILE",
        type=Path,
        help="CA certificates to trust (default: the kubeconfig's, else the system's)",
    )
    group.add_argument(
        "--server-name", metavar="NAME", help=f"name in its certificate (default on loopback: {SERVICE_NAME})"
    )


class WebhookReader:
    """Asks one webhook."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        import urllib3

        self._verb: Final = str(arguments.verb)
        self._forward: Final[WebhookForward | None] = getattr(arguments, FORWARD, None)
        if self._forward is not None:
            self._url, host = f"https://{self._forward.host}", self._forward.host
            api: Api | None = self._forward.api
        else:
            self._url, host = _address_of(str(arguments.webhook), arguments.verb)
            api = None if arguments.kubeconfig is None else _api_of(arguments.kubeconfig, arguments.verb)
        self._new_token: Final[Callable[[], str]] = lambda: _token(arguments, api)
        self._token = self._new_token()
        self._token_since_seconds = time.monotonic()
        self._renewing: Final = threading.Lock()
        authority: str | None = None
        if arguments.ca_file is not None:
            authority = _text_of(arguments.ca_file, arguments.verb)
        elif api is not None:
            authority = _registered_authority(api)
        name = arguments.server_name or (SERVICE_NAME if _is_loopback(host) else None)
        context = urllib3.util.ssl_.create_urllib3_context()
        try:
            context.load_default_certs() if authority is None else context.load_verify_locations(cadata=authority)
        except (ssl.SSLError, ValueError) as error:
            if arguments.ca_file is not None:
                fail(f"{arguments.verb}: --ca-file {arguments.ca_file}: no PEM certificate in it")
            raise NoWebhookAnswerError(
                f"caBundle of {CONFIGURATION}: no PEM certificate in it; allowed: --ca-file"
            ) from error
        self._pool: urllib3.PoolManager | urllib3.HTTPSConnectionPool
        if self._forward is not None:
            self._pool = self._forward.pool(context, name or host)
        else:
            self._pool = urllib3.PoolManager(
                maxsize=CONNECTIONS, ssl_context=context, server_hostname=name, assert_hostname=name
            )

    def get(self, path: str, kind: type[Body], query: Mapping[str, str] | None = None) -> tuple[Body, bytes]:
        """Ask; return the answer, and its bytes.

        Raises:
            NotKnownError: There is nothing of that name.
            NoWebhookAnswerError: Nobody answers, or not in this release's words, or refuses.
            SystemExit: What was asked for is wrong; one line, code 2.
        """
        return self._asked("GET", path, kind, query, TIMEOUT_SECONDS)

    def delete(self, path: str, kind: type[Body], query: Mapping[str, str] | None = None) -> tuple[Body, bytes]:
        """Send a DELETE; return the answer and its bytes, or raise as ``get``."""
        return self._asked("DELETE", path, kind, query, FORGET_SECONDS)

    def post(self, path: str, body: bytes, kind: type[Body]) -> tuple[Body, bytes]:
        """Send a POST of JSON; return the answer and its bytes, or raise as ``get``.

        Raises:
            ComeAgainError: Nothing was taken, and the same may be tried again.
        """
        return self._asked("POST", path, kind, None, TIMEOUT_SECONDS, posted=gzip.compress(body, _FAST))

    def passed(self, target: str, headers: Mapping[str, str]) -> PassedAnswer:
        """Forward a GET as it came, with a token that is still good; return the answer as it comes.

        Args:
            target: Path and query.
            headers: Of the question; the token is added.

        Raises:
            NoWebhookAnswerError: Nobody answers, also not the pod that is ready now.
        """
        import urllib3

        sent = {**headers, "Authorization": f"Bearer {self._good_token()}"}
        way = None if self._forward is None else self._forward.way
        try:
            try:
                return self._passed(target, sent)
            except (urllib3.exceptions.HTTPError, OSError):
                if self._forward is None or way is None:
                    raise
                _choose_again(self._forward, way)  # the pod of before may be gone; what only reads may be asked twice
                return self._passed(target, sent)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            fault = None if self._forward is None else self._forward.fault()
            raise NoWebhookAnswerError(f"webhook at {self._url}: no answer: {fault or _reason_of(error)}") from error

    def _good_token(self) -> str:
        with self._renewing:
            if time.monotonic() - self._token_since_seconds > RENEW_SECONDS:
                try:
                    self._token = self._new_token()
                except SystemExit as left:  # bad input at the start, but a token file may go later
                    raise NoWebhookAnswerError("no token any more; what is wrong is said in the terminal") from left
                self._token_since_seconds = time.monotonic()
            return self._token

    def _passed(self, target: str, headers: Mapping[str, str]) -> PassedAnswer:
        answer = self._pool.request(
            "GET",
            f"{self._url}{target}",
            headers=dict(headers),
            timeout=TIMEOUT_SECONDS,
            retries=False,
            redirect=False,
            preload_content=False,
        )
        body = answer.read(MOST_BYTES, decode_content=False)
        answer.release_conn()
        return PassedAnswer(status=answer.status, headers=dict(answer.headers), body=body)

    def _asked(
        self,
        method: str,
        path: str,
        kind: type[Body],
        query: Mapping[str, str] | None,
        timeout_seconds: float,
        *,
        posted: bytes | None = None,
    ) -> tuple[Body, bytes]:
        import msgspec
        import urllib3

        url = f"{self._url}{quote(path)}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Authorization": f"Bearer {self._good_token()}"}
        if posted is not None:
            headers |= {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        try:
            answer = self._pool.request(
                method,
                url,
                body=posted,
                headers=headers,
                timeout=timeout_seconds,
                retries=False,
                preload_content=False,
            )
            body = answer.read(MOST_BYTES)
            answer.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            fault = None if self._forward is None else self._forward.fault()
            raise NoWebhookAnswerError(f"webhook at {self._url}: no answer: {fault or _reason_of(error)}") from error
        if answer.status != 200:
            if answer.status == 400:  # what was asked for is wrong, and the webhook says what
                fail(f"{self._verb}: {fault_of(body)}")
            if posted is not None and answer.status in _COME_AGAIN:
                text = f"webhook at {self._url}: {answer.status}: {fault_of(body)}"
                raise ComeAgainError(text, _seconds_of(answer.headers.get("Retry-After")))
            kind_of_error = NotKnownError if answer.status == 404 else NoWebhookAnswerError
            raise kind_of_error(f"webhook at {self._url}: {answer.status}: {fault_of(body)}")
        try:
            return msgspec.json.decode(body, type=kind), body
        except (msgspec.DecodeError, RecursionError) as error:
            raise NoWebhookAnswerError(
                f"webhook at {self._url}: its answer is not in this release's format: {error}"
            ) from error


def _choose_again(forward: WebhookForward, failed: Forward) -> None:
    from agent.cli.client.webhook_forward import NoWebhookError
    from agent.kube.client.errors import KubeError
    from agent.kube.objects.json_reader import ConvertError

    try:
        forward.choose_again(failed)
    except (NoWebhookError, KubeError, ConvertError) as error:
        raise NoWebhookAnswerError(str(error)) from error


def _address_of(url: str, verb: str) -> tuple[str, str]:
    """Return the URL that paths are put to, and its host."""
    given = url.rstrip("/")
    scheme, _, place = given.partition("://")
    try:
        address = urlsplit(given)
        host, _ = address.hostname, address.port  # to ask for the port is to have it checked
    except ValueError:
        host = None
    # Paths are put to it, and it is shown in messages: no query, no password.
    if not host or scheme.lower() != "https" or address.netloc != place or "@" in place or not place.isprintable():
        shown = " ".join(f"{scheme}://...@{place.rpartition('@')[2]}".split() if "@" in place else url.split())
        fail(f"{verb}: --webhook {shown}: is not allowed; allowed: https://HOST:PORT")
    return given, host


def api_from(arguments: argparse.Namespace) -> Api | None:
    """Return the API server that the options name; None = they name none."""
    forward: WebhookForward | None = getattr(arguments, FORWARD, None)
    if forward is not None:
        return forward.api
    return None if arguments.kubeconfig is None else _api_of(arguments.kubeconfig, arguments.verb)


def _api_of(kubeconfig: Path, verb: str) -> Api:
    from agent.kube.client.api import HttpApi
    from agent.kube.client.errors import KubeError
    from agent.kube.client.kubeconfig import from_kubeconfig

    try:
        return HttpApi(from_kubeconfig(kubeconfig))
    except KubeError as error:
        fail(f"{verb}: {error}")


def _token(arguments: argparse.Namespace, api: Api | None) -> str:
    if arguments.token_file is not None:
        from agent.kube.client.credentials import read_token
        from agent.kube.client.errors import CredentialsError

        try:
            return read_token(arguments.token_file)
        except CredentialsError as error:
            fail(f"{arguments.verb}: {error}")
    if api is None:
        fail(f"{arguments.verb}: no token; allowed: --token-file FILE, or --kubeconfig FILE and --account NAME")
    namespace, slash, name = str(arguments.account).partition("/")
    if not slash or not namespace or not name:
        fail(f"{arguments.verb}: --account {arguments.account}: is not allowed; allowed: NAMESPACE/NAME")
    from agent.kube.client.errors import ApiError, KubeError

    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/serviceaccounts/{quote(name, safe='')}/token"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [AUDIENCE], "expirationSeconds": TOKEN_SECONDS},
    }
    try:
        token = _part(_part(api.call("POST", path, body=request), "status"), "token")
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise NoWebhookAnswerError(str(error)) from error
        what, known = "read", "the reader of the chart"
        if getattr(arguments, "forget", None) is not None:
            what, known = "forget", "the chart's webhook.forgetter.enabled"
        if str(arguments.verb) == "backfill":
            what, known = "import", "the chart's webhook.importer.enabled"
        raise NoWebhookAnswerError(
            f"there is no service account {namespace}/{name} to {what} as; allowed: --account NAMESPACE/NAME, or "
            f"{known}"
        ) from error
    except KubeError as error:
        raise NoWebhookAnswerError(str(error)) from error
    if not isinstance(token, str) or not token:
        raise NoWebhookAnswerError(f"{path}: the API server gave no token")
    return token


def _registered_authority(api: Api) -> str | None:
    """Return the authority that API servers trust the webhook by, PEM; None = it is not to be had."""
    from agent.kube.client.errors import KubeError

    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{CONFIGURATION}"
    try:
        webhooks = _part(api.call("GET", path), "webhooks")
    except KubeError:
        return None
    first = webhooks[0] if isinstance(webhooks, list) and webhooks else None
    bundle = _part(_part(first, "clientConfig"), "caBundle")
    try:
        return base64.b64decode(bundle).decode("ascii") if isinstance(bundle, str) and bundle else None
    except ValueError:
        return None


def _part(document: object, key: str) -> object:
    return document.get(key) if isinstance(document, Mapping) else None


def _text_of(path: Path, verb: str) -> str:
    try:
        return read_named(path, most_bytes=PAGE_MOST_BYTES).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{verb}: --ca-file {path}: cannot be read: {getattr(error, 'strerror', None) or 'no PEM file'}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reason_of(error: Exception) -> str:
    cause: BaseException = error
    while (
        inner := next((part for part in (*cause.args, cause.__cause__) if isinstance(part, BaseException)), None)
    ) is not None:
        cause = inner
    return " ".join((getattr(cause, "strerror", None) or str(cause) or type(cause).__name__).split())[:300]


def _seconds_of(header: str | None) -> float:
    is_number = header is not None and header.isascii() and header.isdigit() and len(header) <= _MOST_DIGITS
    return float(header) if header is not None and is_number else AGAIN_SECONDS


def fault_of(body: bytes) -> str:
    """Return why the webhook refused, from its answer."""
    try:
        document: object = json.loads(body)
    except ValueError:
        document = None
    said = _part(document, "error")
    return " ".join(said.split())[:300] if isinstance(said, str) else "no reason given"
