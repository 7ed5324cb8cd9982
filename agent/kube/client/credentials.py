"""Who the agent is to the API server, and how it knows the server: a pod's service account, or a kubeconfig."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from agent.core.numbers.document_text import DocumentTextError, decoded, yaml_values
from agent.kube.client.errors import CredentialsError, one_line
from agent.named_file import PAGE_MOST_BYTES, read_named

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
    if not host or not port or not token_file.exists():
        return None
    if not (port.isascii() and port.isdigit()):
        raise CredentialsError(f"{PORT_VARIABLE}: {one_line(port)!r} is not allowed (a port)")
    if not ca_file.exists():
        raise CredentialsError(f"{ca_file}: missing (the certificates of the API server's authority)")
    read_token(token_file)
    name = f"[{host}]" if ":" in host else host
    return Credentials(
        server=f"https://{name}:{port}", origin="service account", ca_file=ca_file, token_file=token_file
    )


def from_kubeconfig(path: Path, context: str | None = None) -> Credentials:
    """Return what a context of a kubeconfig says, by the official client.

    Certificates inside the file are put into temporary files, which go when this process ends.

    Args:
        path: The file, or several as in ``KUBECONFIG``.
        context: Its name; None = the current one.

    Raises:
        CredentialsError: The file cannot be read, is no kubeconfig, or names what is not there.
    """
    # 35 MB resident: only where there is a kubeconfig, never in a pod.
    try:
        from kubernetes.client import Configuration
        from kubernetes.config import load_kube_config
    except ModuleNotFoundError as error:
        reason = "the package kubernetes is not installed (the container image goes without it)"
        raise CredentialsError(f"kubeconfig {path}: cannot be read: {reason}") from error

    configuration = Configuration()
    configuration.api_key = {}
    content = _checked_kubeconfig(path)
    try:
        load_kube_config(
            config_file=str(path) if content is None else StringIO(content),
            context=context,
            client_configuration=configuration,
            persist_config=content is None,
        )
    except Exception as error:  # the client lets through whatever YAML, plugins and decoders raise
        reason = one_line(str(error)).removeprefix("Invalid kube-config file. ")[:300] or type(error).__name__
        raise CredentialsError(f"kubeconfig {path}: cannot be used: {reason}") from error
    server: object = configuration.host
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
        raise CredentialsError(f"kubeconfig {path}: server {server!r} is not allowed (https://HOST:PORT)")
    return Credentials(
        server=server,
        origin=f"kubeconfig {path}",
        ca_file=_path(configuration.ssl_ca_cert),
        refreshed=_renewing(configuration),
        certificate_file=_path(configuration.cert_file),
        key_file=_path(configuration.key_file),
        server_name=_text(getattr(configuration, "tls_server_name", None)),
        is_verified=bool(configuration.verify_ssl),
        proxy=_proxy_for(server),
    )


def context_namespace(path: Path, context: str | None = None) -> str:
    """Return the namespace that a context of a kubeconfig is for, ``default`` where it names none.

    Args:
        path: The file, or several; no pipe, which can be read but once.
        context: Its name; None = the current one.

    Raises:
        CredentialsError: The file cannot be read, or has no such context.
    """
    from kubernetes.config import ConfigException, list_kube_config_contexts

    _checked_kubeconfig(path)
    try:
        contexts, current = list_kube_config_contexts(config_file=str(path))
    except (ConfigException, TypeError, AttributeError, KeyError) as error:
        reason = one_line(str(error)).removeprefix("Invalid kube-config file. ")[:300] or type(error).__name__
        raise CredentialsError(f"kubeconfig {path}: cannot be used: {reason}") from error
    by_name = {str(item["name"]): item for item in contexts}
    if context is not None and context not in by_name:
        allowed = ", ".join(sorted(by_name)) or "none is there"
        raise CredentialsError(f"kubeconfig {path}: context {one_line(context)} is not there; allowed: {allowed}")
    chosen = current if context is None else by_name[context]
    namespace = (chosen.get("context") or {}).get("namespace") if isinstance(chosen, Mapping) else None
    return _text(namespace) or "default"


def _checked_kubeconfig(path: Path) -> str | None:
    """Check a kubeconfig before the client does, which reads whatever it is given to the end.

    Returns:
        What stands in it where it can be read but once, a pipe; else None.

    Raises:
        CredentialsError: It cannot be read, or is no YAML within bounds.
    """
    parts = [Path(part).expanduser() for part in str(path).split(os.pathsep) if part]  # as the client takes it
    there = [part for part in parts if len(parts) == 1 or part.exists()] or [path]
    try:
        texts = [decoded(read_named(part, most_bytes=PAGE_MOST_BYTES)) for part in there]
        for text in texts:
            yaml_values(text)
        return texts[0] if len(texts) == 1 and there[0].is_fifo() else None
    except OSError as error:
        raise CredentialsError(f"kubeconfig {path}: cannot be read: {error.strerror or error}") from error
    except DocumentTextError as error:
        raise CredentialsError(f"kubeconfig {path}: {error}") from error


def _renewing(configuration: object) -> Callable[[], str | None]:
    lock = threading.Lock()  # the client's own renewal is not made for several threads
    renewed: object = getattr(configuration, "get_api_key_with_prefix", None)

    def authorization() -> str | None:
        if not callable(renewed):
            return None
        with lock:
            # Its name for the header is "authorization" or, in some releases, "BearerToken".
            return _text(renewed("authorization")) or _text(renewed("BearerToken"))

    return authorization


def _proxy_for(server: str) -> str | None:
    """Return the proxy that the environment names; the client's own reading of it forgets ``no_proxy``."""
    from urllib.request import getproxies, proxy_bypass

    address = urlsplit(server)
    if address.hostname is None or proxy_bypass(address.hostname):
        return None
    return getproxies().get(address.scheme)


def _path(value: object) -> Path | None:
    return Path(value) if isinstance(value, str) and value else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


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
            self._token = _checked(credentials.token, credentials.origin)

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
    return _checked(text, str(path))


def _checked(text: str, where: str) -> str:
    """Refuse what would break out of its header: the HTTP library would quote it in its complaint."""
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
