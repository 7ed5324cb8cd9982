"""Who the agent is to the API server, and how it knows the server; what a pod's service account says of both."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agent.kube.client.errors import CredentialsError, one_line
from agent.named_file import PAGE_MOST_BYTES, is_missing, read_named

SERVICE_ACCOUNT_DIRECTORY: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE: Final = "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How to speak to one API server. Secrets are never shown by ``repr``."""

    server: str
    """``https://HOST:PORT``, with a path in front of all others where a proxy wants one."""
    origin: str
    """Where they come from, for people."""
    ca_file: Path | None = None
    """Certificates of the server's authorities; None = those of the machine. Read again for each connection."""
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    """Read again whenever it changes: the kubelet renews a pod's token before it expires. It wins over ``token``."""
    refreshed: Callable[[], str | None] | None = field(default=None, repr=False)
    """Gives the whole Authorization header, renewed as the kubeconfig says. It wins over both."""
    certificate_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None
    """The name in the server's certificate where it is not that of the address."""
    is_verified: bool = True
    """False = the kubeconfig asks that the server's certificate is not looked at."""
    proxy: str | None = field(default=None, repr=False)


def in_cluster(
    environment: Mapping[str, str] | None = None, directory: Path = SERVICE_ACCOUNT_DIRECTORY
) -> Credentials | None:
    """Return the service account of the pod that this process runs in.

    Returns:
        None outside a cluster, and in a pod that has no token mounted.

    Raises:
        CredentialsError: The environment or the token is not what a kubelet would give.
    """
    variables = os.environ if environment is None else environment
    host, port = variables.get(HOST_VARIABLE, ""), variables.get(PORT_VARIABLE, "")
    token_file, ca_file = directory / "token", directory / "ca.crt"
    if not host or not port or is_missing(token_file):
        return None
    if not (port.isascii() and port.isdigit()):
        raise CredentialsError(f"{PORT_VARIABLE}: {one_line(port)!r} is not allowed (a port)")
    if is_missing(ca_file):
        raise CredentialsError(f"{ca_file}: missing (the certificates of the API server's authority)")
    read_token(token_file)
    name = f"[{host}]" if ":" in host else host
    return Credentials(
        server=f"https://{name}:{port}", origin="service account", ca_file=ca_file, token_file=token_file
    )


class Authorization:
    """Gives the Authorization header for each request; renews it when its source changes. For any thread."""

    def __init__(self, credentials: Credentials) -> None:
        """Read the token for the first time."""
        self._credentials = credentials
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._token = credentials.token
        if credentials.token_file is not None:
            self._stamp = _stamp(credentials.token_file)
            self._token = read_token(credentials.token_file)
        elif credentials.token is not None:
            self._token = checked_token(credentials.token, credentials.origin)

    def header(self) -> str | None:
        """Return the header's value now; None = the certificate, or nothing, says who this is.

        A token file that cannot be read at the moment leaves the token before it in force.
        """
        if self._credentials.refreshed is not None:
            return self._credentials.refreshed()
        if self._credentials.token_file is not None:
            self._read_again(self._credentials.token_file)
        return None if self._token is None else f"Bearer {self._token}"

    def _read_again(self, path: Path) -> None:
        with self._lock:
            stamp = _stamp(path)
            if stamp is None or stamp == self._stamp:
                return
            try:
                self._token = read_token(path)
            except CredentialsError:
                return  # half written: the next request looks again
            self._stamp = stamp


def read_token(path: Path) -> str:
    """Read a token's file.

    Raises:
        CredentialsError: It cannot be read, or holds no token; what it holds is not shown.
    """
    try:
        text = read_named(path, most_bytes=PAGE_MOST_BYTES).decode("ascii")
    except OSError as error:
        raise CredentialsError(f"{path}: cannot be read: {error.strerror or type(error).__name__}") from error
    except UnicodeDecodeError:
        raise CredentialsError(f"{path}: holds no token (one word of printable characters)") from None
    return checked_token(text, str(path))


def checked_token(text: str, where: str) -> str:
    """Return a token without the space around it.

    Raises:
        CredentialsError: It would break out of its header: the HTTP library would quote it in its complaint.
    """
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise CredentialsError(f"{where}: holds no token (one word of printable characters)")
    return token


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()  # through the symbolic link that the kubelet swaps
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
