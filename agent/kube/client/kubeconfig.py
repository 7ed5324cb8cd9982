"""What a context of a kubeconfig says: of one file with a token or certificates as it is, of any other by the client.

The official client knows plugins, providers and files that are merged; it takes 37 MiB and 0.3 s of CPU.
"""

from __future__ import annotations

import atexit
import base64
import binascii
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from agent.core.numbers.document_text import DocumentTextError, decoded, yaml_values
from agent.kube.client.credentials import Credentials, checked_token
from agent.kube.client.errors import CredentialsError, one_line
from agent.named_file import PAGE_MOST_BYTES, is_missing, read_named

_CONTEXT_KEYS: Final = frozenset({"cluster", "user", "namespace", "extensions"})
_CLUSTER_KEYS: Final = frozenset(
    {
        "server", "certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify",
        "tls-server-name", "extensions",
    }
)  # fmt: skip
_USER_KEYS: Final = frozenset(
    {"token", "client-certificate", "client-certificate-data", "client-key", "client-key-data"}
)


class _NotPlainError(Exception):
    """The official client must read it, if only to say what is wrong."""


def from_kubeconfig(path: Path, context: str | None = None) -> Credentials:
    """Return what a context of a kubeconfig says.

    Certificates inside the file are put into temporary files, which go when this process ends.

    Args:
        path: The file, or several as in ``KUBECONFIG``.
        context: Its name; None = the current one.

    Raises:
        CredentialsError: The file cannot be read, is no kubeconfig, or names what is not there.
    """
    read = _read(path)
    try:
        return _plain_credentials(path, read, context)
    except _NotPlainError:
        return _by_client(path, StringIO(read.texts[0]) if read.is_pipe else None, context)


def context_namespace(path: Path, context: str | None = None) -> str:
    """Return the namespace that a context of a kubeconfig is for, ``default`` where it names none.

    Args:
        path: The file, or several; no pipe, which can be read but once.
        context: Its name; None = the current one.

    Raises:
        CredentialsError: The file cannot be read, or has no such context.
    """
    read = _read(path)
    try:
        return _text(_plain_context(read, context).get("namespace")) or "default"
    except _NotPlainError:
        return _namespace_by_client(path, context)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PathKind:
    """What a path stands for."""

    files: tuple[Path, ...]
    texts: tuple[str, ...]
    documents: tuple[list[object], ...]
    """Of each file."""

    @property
    def is_pipe(self) -> bool:
        """Return whether it can be read but once, and has been."""
        return len(self.files) == 1 and self.files[0].is_fifo()


def _read(path: Path) -> _PathKind:
    """Read a kubeconfig before the client does, which reads whatever it is given to the end.

    Raises:
        CredentialsError: It cannot be read, or is no YAML within bounds.
    """
    parts = [Path(part).expanduser() for part in str(path).split(os.pathsep) if part]  # as the client takes it
    files = tuple(part for part in parts if len(parts) == 1 or not is_missing(part)) or (path,)
    try:
        texts = tuple(decoded(read_named(file, most_bytes=PAGE_MOST_BYTES)) for file in files)
        return _PathKind(files=files, texts=texts, documents=tuple(yaml_values(text) for text in texts))
    except OSError as error:
        raise CredentialsError(f"kubeconfig {path}: cannot be read: {error.strerror or error}") from error
    except DocumentTextError as error:
        raise CredentialsError(f"kubeconfig {path}: {error}") from error


# -- as it is ------------------------------------------------------------------------------------------------------


def _plain_credentials(path: Path, read: _PathKind, context: str | None) -> Credentials:
    top, chosen = _plain_top(read), _plain_context(read, context)
    cluster = _plain_entry(top, "clusters", "cluster", chosen.get("cluster"), _CLUSTER_KEYS)
    user = _plain_entry(top, "users", "user", chosen.get("user"), _USER_KEYS)
    server, is_unverified = cluster.get("server"), cluster.get("insecure-skip-tls-verify", False)
    name, token = cluster.get("tls-server-name"), user.get("token")
    if not (isinstance(server, str) and server.startswith("https://") and isinstance(is_unverified, bool)):
        raise _NotPlainError
    if any(value is not None and _text(value) is None for value in (name, token)):
        raise _NotPlainError
    origin = f"kubeconfig {path}"
    server = server.rstrip("/")
    return Credentials(
        server=server,
        origin=origin,
        ca_file=_plain_file(read, cluster, "certificate-authority"),
        token=None if token is None else checked_token(str(token), origin),
        certificate_file=_plain_file(read, user, "client-certificate"),
        key_file=_plain_file(read, user, "client-key"),
        server_name=_text(name),
        is_verified=not is_unverified,
        proxy=_proxy_for(server),
    )


def _plain_context(read: _PathKind, context: str | None) -> Mapping[str, object]:
    top = _plain_top(read)
    name = top.get("current-context") if context is None else context
    return _plain_entry(top, "contexts", "context", name, _CONTEXT_KEYS)


def _plain_top(read: _PathKind) -> Mapping[str, object]:
    if len(read.documents) != 1 or len(read.documents[0]) != 1 or not isinstance(read.documents[0][0], dict):
        raise _NotPlainError
    return read.documents[0][0]


def _plain_entry(
    top: Mapping[str, object], plural: str, singular: str, name: object, allowed: frozenset[str]
) -> Mapping[str, object]:
    """Return what the one entry of a list with this name holds."""
    entries = top.get(plural)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and "name" in entry for entry in entries):
        raise _NotPlainError
    contents = [entry.get(singular) for entry in entries if _text(name) is not None and entry["name"] == name]
    if len(contents) != 1 or not isinstance(contents[0], dict) or not contents[0].keys() <= allowed:
        raise _NotPlainError
    return contents[0]


def _plain_file(read: _PathKind, entry: Mapping[str, object], key: str) -> Path | None:
    """Return the file that a key names, or one with what its ``-data`` holds; None = it has neither."""
    if f"{key}-data" in entry:
        data = entry[f"{key}-data"]
        if not isinstance(data, str) or not data:
            raise _NotPlainError
        try:
            return _temporary_file(base64.standard_b64decode(data))
        except (binascii.Error, ValueError):
            raise _NotPlainError from None
    if key not in entry:
        return None
    name = _text(entry[key])
    file = None if name is None else Path(os.path.abspath(read.files[0].parent / name))
    if file is None or not file.is_file() or (read.is_pipe and not Path(str(name)).is_absolute()):
        raise _NotPlainError
    return file


def _temporary_file(content: bytes) -> Path:
    descriptor, name = tempfile.mkstemp(prefix="plimsoll-")  # for its owner alone
    atexit.register(_remove, Path(name), os.getpid())
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return Path(name)


def _remove(file: Path, owner: int) -> None:
    if os.getpid() == owner:  # a process that was forked from it leaves its files alone
        file.unlink(missing_ok=True)


# -- by the official client ----------------------------------------------------------------------------------------


def _by_client(path: Path, content: StringIO | None, context: str | None) -> Credentials:
    try:
        from kubernetes.client import Configuration
        from kubernetes.config import load_kube_config
    except ModuleNotFoundError as error:
        raise _not_installed(path) from error

    configuration = Configuration()
    configuration.api_key = {}
    try:
        load_kube_config(
            config_file=str(path) if content is None else content,
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


def _namespace_by_client(path: Path, context: str | None) -> str:
    try:
        from kubernetes.config import ConfigException, list_kube_config_contexts
    except ModuleNotFoundError as error:
        raise _not_installed(path) from error

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


def _not_installed(path: Path) -> CredentialsError:
    return CredentialsError(
        f"kubeconfig {path}: cannot be used: the package kubernetes is not installed (the container image goes without "
        "it); allowed: one file whose context has a user with a token or a certificate"
    )


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
