"""Requests of the agent to the webhook: one POST out, its status and body in. Node; no policy, no retries.

A token is read again whenever its file changes, the authorities' certificates with each connection.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from agent.core.history.reports.rollup_schedule import LONGEST_RETRY_AFTER_SECONDS
from agent.kube.client.api import reason_of
from agent.kube.client.credentials import Authorization, Credentials
from agent.kube.client.errors import CredentialsError
from agent.version import installed_version

LONGEST_ANSWER_BYTES: Final = 8 << 20
"""Directives of a thousand workloads are two megabytes."""
_PIECE_BYTES: Final = 1 << 16
_TIMES: Final = 3.0
"""A whole answer may take so many timeouts, however slowly its pieces come."""
_KEPT_CONNECTIONS: Final = 2
_MOST_DIGITS: Final = 10
_GZIP: Final = 31
"""For zlib: a gzip header around the largest window."""


class WebhookAway(Exception):  # noqa: N818  a state of the world, as it is logged
    """No answer, or no whole one: refused, reset, timed out, a certificate that is not trusted; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAnswer:
    """What the webhook answered."""

    status: int
    body: bytes
    retry_after_seconds: float | None
    """How long it asks to be left alone; None = it does not say."""
    is_too_long: bool = False
    """There was more of a body than is taken; it is empty here, and what the status says holds."""


class WebhookClient:
    """Posts JSON to the webhook; one request at a time. Redirects are not followed: a token goes to no other host."""

    def __init__(
        self,
        url: str,  # ``https://HOST[:PORT]``, and a path in front of all others where there is one
        *,
        token_file: Path | None,  # A token whose audience is the webhook; None = none is sent
        ca_file: Path | None,  # Certificates of the webhook's authorities; None = those of the machine
        timeout_seconds: float,  # For connecting, and for each pause in an answer
        wall_now: Callable[[], float] = time.time,  # UTC seconds; for a Retry-After that is a date
    ) -> None:
        self.url: Final = url.rstrip("/")
        self._prefix = urlsplit(self.url).path
        self._token_file, self._timeout_seconds, self._wall_now = token_file, timeout_seconds, wall_now
        self._authorization: Authorization | None = None
        self._ca_file = ca_file
        self._manager = urllib3.PoolManager(
            num_pools=1,
            maxsize=_KEPT_CONNECTIONS,
            # As a file name and not as one context: each connection reads it anew, so that a renewed one takes effect.
            cert_reqs="CERT_REQUIRED",
            ca_certs=None if ca_file is None else str(ca_file),
        )
        self._agent = f"plimsoll/{installed_version()} node-agent"

    def close(self) -> None:
        """Close the connection; the next request makes another, perhaps to another replica."""
        self._manager.clear()

    def post(self, path: str, text: str, headers: Mapping[str, str] | None = None) -> WebhookAnswer:
        """Send a JSON text, compressed, and wait for the answer.

        Raises:
            WebhookAway: There is no whole answer; the webhook may have taken it all the same.
            CredentialsError: The token cannot be read; nothing was sent.
        """
        packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        body = packer.compress(text.encode()) + packer.flush()
        all_headers = {**self._headers(), **(headers or {})}
        deadline = time.monotonic() + _TIMES * self._timeout_seconds
        try:
            response = self._manager.connection_from_url(self.url).urlopen(
                "POST",
                f"{self._prefix}{path}",
                body=body,
                headers=all_headers,
                retries=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=self._timeout_seconds, read=self._timeout_seconds),
                preload_content=False,
            )
            return self._read(response, deadline)
        except (HTTPError, OSError) as error:
            raise WebhookAway(f"no answer from {self.url}: {reason_of(error)}") from error

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "User-Agent": self._agent,
        }
        if self._ca_file is not None and not os.access(self._ca_file, os.R_OK):
            raise CredentialsError(f"{self._ca_file}: cannot be read (the certificates of the webhook's authority)")
        if self._token_file is not None:
            if self._authorization is None:  # a token that comes late is found then
                self._authorization = Authorization(
                    Credentials(server=self.url, origin="report.tokenFile", token_file=self._token_file)
                )
            headers["Authorization"] = self._authorization.header() or ""
        return headers

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: float) -> WebhookAnswer:
        """Take the answer, as long and as slow as is allowed."""
        with ExitStack() as undone:
            undone.callback(response.close)  # what is left of it must not be taken for the next answer
            body = self._body(response, deadline)
            undone.pop_all()
        if body is None:
            response.close()
        else:
            response.release_conn()
        return WebhookAnswer(
            status=response.status,
            body=body or b"",
            retry_after_seconds=self._retry_after_seconds(response.headers.get("Retry-After")),
            is_too_long=body is None,
        )

    def _body(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes | None:
        """Read the body; None = it is longer than is taken."""
        pieces: list[bytes] = []
        length = 0
        for piece in self._pieces(response, deadline):
            length += len(piece)
            if length > LONGEST_ANSWER_BYTES:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def _pieces(self, response: urllib3.BaseHTTPResponse, deadline: float) -> Iterator[bytes]:
        while piece := response.read1(_PIECE_BYTES):  # what is there: a whole read would wait for the slowest sender
            if time.monotonic() > deadline:
                raise WebhookAway(f"no answer from {self.url}: timed out")
            yield piece

    def _retry_after_seconds(self, text: str | None) -> float | None:
        """Read a number of seconds or a date, an hour at most; None = there is none, or it is neither."""
        if text is None:
            return None
        text = text.strip()
        if text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS:
            return min(float(text), LONGEST_RETRY_AFTER_SECONDS)
        try:
            seconds = parsedate_to_datetime(text).timestamp() - self._wall_now()
        except (ValueError, OverflowError):
            return None
        return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_SECONDS)
