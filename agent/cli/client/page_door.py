"""The door to the webhook's page on this machine: listens on loopback, lets in who has the key, adds the token. Face.

Whoever can reach a port of loopback could ask with the caller's rights: other users of the machine, and any web page
that the browser shows. So the address that is printed holds a key, good once: the first page changes it for a cookie
that scripts do not see and other sites do not send. A request must name this address as its host (a name that was made
to point here names another) and come from this page or from nobody; it only reads, and only below /ui/ and /v1/.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from agent.cli.client.webhook import CONNECTIONS, NoWebhookAnswerError, PassedAnswer

ADDRESS: Final = "127.0.0.1"
KEY_BYTES: Final = 32
KEY_HEADER: Final = "X-Plimsoll-Key"
READ_SECONDS: Final = 60.0
"""For which a connection without a question is kept."""
STOP_SECONDS: Final = 0.05
"""Between two looks whether to end."""
PASSED_BELOW: Final = ("/ui/", "/v1/")
_PASSED_ALONE: Final = frozenset({"/ui", "/openapi.json"})
_SENT_ON: Final = ("Accept", "Accept-Encoding", "If-None-Match")
_HANDED_BACK: Final = (
    *("Content-Type", "Content-Encoding", "ETag", "Cache-Control", "Vary", "Retry-After", "Location"),
    *("Content-Security-Policy", "Referrer-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy"),
)
"""Not WWW-Authenticate: the token is asked for here, and nobody is to type one."""
_FENCE: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_ENTRANCE: Final = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Plimsoll</title>
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" content="light dark">
<script type="module" src="/enter.js"></script></head>
<body><main><p id="said">Opening the page of the cluster...</p></main></body></html>
"""
_ENTER: Final = b"""const key = new URLSearchParams(location.hash.slice(1)).get("k");
const said = document.getElementById("said");
try {
  const answer = await fetch("/enter", {headers: key ? {"X-Plimsoll-Key": key} : {}});
  if (answer.ok) location.replace("/ui/");
  else said.textContent = (await answer.json()).error;
} catch {
  said.textContent = "plimsoll ui has ended: start it again in the terminal, and open the address that it prints.";
}
"""
_NO_KEY: Final = "This address needs its key: open the one that plimsoll ui printed in the terminal."
_KEY_USED: Final = (
    "The key of this address was used already. If that was not you, end plimsoll ui (Ctrl-C); start it again for a new "
    "one."
)

Ask = Callable[[str, Mapping[str, str]], PassedAnswer]
"""A path with its query and some headers to the webhook's answer; NoWebhookAnswerError = none comes."""


class PageDoor:
    """Listens until it is closed."""

    def __init__(self, ask: Ask, *, port: int = 0) -> None:
        """Begin to listen; ``port`` 0 = any free one.

        Raises:
            OSError: The port cannot be had.
        """
        self.ask: Final = ask
        self._key: str | None = secrets.token_urlsafe(KEY_BYTES)
        self._pass: Final = secrets.token_urlsafe(KEY_BYTES)
        self._lock: Final = threading.Lock()
        self.places: Final = threading.BoundedSemaphore(CONNECTIONS)
        self._server: Final = _Server((ADDRESS, port), _Handler)
        self._server.door = self
        self.host: Final = f"{ADDRESS}:{self._server.server_port}"
        self.cookie: Final = f"plimsoll-{self._server.server_port}"
        """Its name: browsers keep cookies by host, and another door on this machine has another port."""
        self.url: Final = f"http://{self.host}/#k={self._key}"
        """What to open; good once."""
        self._thread: Final = threading.Thread(
            target=self._server.serve_forever, args=(STOP_SECONDS,), name="page door", daemon=True
        )

    def start(self) -> None:
        """Answer from now on, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, key: str | None) -> str | None:
        """Return the cookie's value for the key, once."""
        with self._lock:
            if self._key is None or key is None or not _equal(key, self._key):
                return None
            self._key = None
            return self._pass

    @property
    def is_key_used(self) -> bool:
        """Whether somebody came in with the key."""
        return self._key is None

    def knows(self, cookies: str) -> bool:
        """Return whether the header Cookie lets its sender in."""
        try:
            morsel = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return False
        return morsel is not None and _equal(morsel.value, self._pass)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    door: PageDoor
    """Whose it is; set before it answers anybody."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a browser that leaves in the middle is no fault."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "plimsoll"
    sys_version = ""
    timeout = READ_SECONDS

    server: _Server

    @property
    def door(self) -> PageDoor:
        """Whose server this is."""
        return self.server.door

    def do_GET(self) -> None:
        """Answer."""
        refused = self._foreign()
        path = self.path.partition("?")[0]
        if refused is not None:
            self._fault(403, refused)
        elif path == "/":
            self._send(200, _ENTRANCE, {"Content-Type": "text/html; charset=utf-8", **_FENCE})
        elif path == "/enter.js":
            self._send(200, _ENTER, {"Content-Type": "text/javascript; charset=utf-8", **_FENCE})
        elif path == "/enter":
            self._enter()
        elif path not in _PASSED_ALONE and not path.startswith(PASSED_BELOW):
            self._fault(404, "not here; allowed: /ui/, /v1/, /openapi.json")
        elif not self._is_known():
            self._fault(401, _NO_KEY)
        else:
            self._pass_on()

    def _refuse_method(self) -> None:
        self._fault(405, "the page only reads; allowed: GET", {"Allow": "GET", "Connection": "close"})

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = do_TRACE = do_CONNECT = _refuse_method  # noqa: N815

    def _foreign(self) -> str | None:
        """Return why this request is none of this page's; None = it may be."""
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        if hosts != [self.door.host]:
            return f"this is {self.door.host}, and answers to no other name"
        if any(origin != f"http://{self.door.host}" for origin in origins):
            return "asked for by a page of elsewhere"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "asked for by a page of elsewhere"
        return None

    def _is_known(self) -> bool:
        return self.door.knows(self.headers.get("Cookie", ""))

    def _enter(self) -> None:
        key = self.headers.get(KEY_HEADER)
        passed = self.door.take(key)
        if passed is not None:
            cookie = f"{self.door.cookie}={passed}; Path=/; HttpOnly; SameSite=Strict"
            self._send(200, b"{}", {"Content-Type": "application/json", "Set-Cookie": cookie, **_FENCE})
        elif self._is_known():
            self._send(200, b"{}", {"Content-Type": "application/json", **_FENCE})
        else:
            self._fault(401, _KEY_USED if key is not None and self.door.is_key_used else _NO_KEY)

    def _pass_on(self) -> None:
        sent = {name: value for name in _SENT_ON if (value := self.headers.get(name)) is not None}
        if not self.door.places.acquire(blocking=False):
            self._fault(503, f"{CONNECTIONS} questions are under way", {"Retry-After": "2"})
            return
        try:
            answer = self.door.ask(self.path, sent)
        except NoWebhookAnswerError as error:
            self._fault(502, str(error))
            return
        finally:
            self.door.places.release()
        given = {name.lower(): value for name, value in answer.headers.items()}
        headers = {name: given[name.lower()] for name in _HANDED_BACK if name.lower() in given}
        self._send(answer.status, answer.body, headers)

    def _fault(self, status: int, text: str, more: Mapping[str, str] | None = None) -> None:
        body = json.dumps({"error": text}).encode()
        self._send(status, body, {"Content-Type": "application/json", **_FENCE, **(more or {})})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"X-Content-Type-Options": "nosniff", **headers}.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(body)

    def log_message(self, format: str, *_: object) -> None:
        """Print nothing: the terminal is for the address."""


def _equal(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), known.encode())
