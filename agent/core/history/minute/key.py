"""Under which name a cgroup's history is kept, so that the next pod of a workload goes on with it.

Core, pure. A key has one text: ASCII, at most 512 bytes, the same in every version of the program.

- ``workload:shop/Deployment/web/app``: namespace, kind, name and container, where a pod source names them. All pods of
  the workload on this node share the history, and so do the pods of the next rollout.
- ``pod:POD_UID/CONTAINER_ID``: what the cgroup path tells of a container of a pod nobody names.
- ``cgroup:/system.slice/nginx.service``: everything else, by its path.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote

from agent.core.cluster.unit import UnitIdentity
from agent.core.cluster.workload import Workload

MAX_KEY_BYTES: Final = 512
"""The longest names the API allows (63 + 63 + 253 + 63 characters) fit; only deep cgroup paths do not."""
_DIGEST: Final = "#sha256="
"""Before the digest; a ``#`` within a name is escaped, so that no name can look like this."""
_SAFE: Final = ":@\\"
"""Left as they are, for the eye: systemd and container runtimes use them in names."""


class KeyKind(StrEnum):
    """What a key names."""

    WORKLOAD = "workload"
    POD = "pod"
    CGROUP = "cgroup"


_PARTS: Final = {KeyKind.WORKLOAD: 4, KeyKind.POD: 2, KeyKind.CGROUP: 1}


@dataclass(frozen=True, slots=True, order=True)
class HistoryKey:
    """The name of one history. Equal keys have equal texts, and the other way round."""

    kind: KeyKind
    parts: tuple[str, ...]
    """Namespace, kind, name, container; or pod uid, container id; or the cgroup path. With a digest: the beginning of
    the text, escaped as it is."""
    digest: str | None = None
    """SHA-256 of the whole text where that is too long to be kept."""

    def __str__(self) -> str:
        """Return its text."""
        if self.digest is not None:
            return f"{self.kind}:{self.parts[0]}{_DIGEST}{self.digest}"
        safe = _SAFE + "/" if self.kind is KeyKind.CGROUP else _SAFE
        return f"{self.kind}:" + "/".join(quote(part, safe, errors="surrogatepass") for part in self.parts)


def history_key(identity: UnitIdentity, workload: Workload | None) -> HistoryKey:
    """Return the key of a watched cgroup."""
    if workload is not None and identity.container is not None:
        parts = (workload.namespace, workload.kind, workload.name, identity.container)
        return _bounded(HistoryKey(KeyKind.WORKLOAD, parts))
    if identity.pod_uid is not None and identity.container_id is not None:
        return _bounded(HistoryKey(KeyKind.POD, (identity.pod_uid, identity.container_id)))
    return _bounded(HistoryKey(KeyKind.CGROUP, (identity.cgroup_path,)))


def _bounded(key: HistoryKey) -> HistoryKey:
    """Replace the end of a text that is too long by the digest of the whole."""
    text = str(key)
    if len(text) <= MAX_KEY_BYTES:
        return key
    digest = sha256(text.encode("ascii")).hexdigest()
    _, _, rest = text.partition(":")
    room = MAX_KEY_BYTES - len(f"{key.kind}:{_DIGEST}{digest}")
    return HistoryKey(key.kind, (rest[:room],), digest)


def parse_history_key(text: str) -> HistoryKey:
    """Read a key's text back.

    Raises:
        ValueError: It is no text of a key; the message says which.
    """
    word, colon, rest = text.partition(":")
    beginning, has_digest, digest = rest.partition(_DIGEST)
    try:
        kind = KeyKind(word)
        if has_digest:
            key = HistoryKey(kind, (beginning,), digest)
        else:
            escaped = rest.split("/") if _PARTS[kind] > 1 else [rest]
            key = HistoryKey(kind, tuple(unquote(part, errors="surrogatepass") for part in escaped))
    except ValueError as error:
        msg = f"history key {text!r}: {error}"
        raise ValueError(msg) from error
    # Only one text stands for a key: an escape too many would make two histories of one cgroup.
    parts = 1 if has_digest else _PARTS[kind]
    if not colon or len(key.parts) != parts or str(key) != text or len(text) > MAX_KEY_BYTES:
        msg = f"history key {text!r}: not as this program writes a key of kind {kind}"
        raise ValueError(msg)
    return key
