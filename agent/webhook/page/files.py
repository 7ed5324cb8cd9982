"""The page's files as they are answered: read once, compressed once, with the headers that fence them. Webhook.

Their names stand in a folder whose name is a digest of them all, so that a browser may keep them for ever and never
mixes two releases; only the page itself, which names the folder, is asked for anew, by its ETag.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agent.webhook.entity_tag import is_held

STATIC: Final = Path(__file__).parent / "static"
INDEX: Final = "index.html"
MODULES: Final = ("base", "figures", "route", "client", "parts", "plots", "workloads", "screens", "app")
"""The page's own modules, each after those that it imports from. They are sent as one: through a forward, each file is
a round trip to the cluster, and together they are a fifth smaller."""
SCRIPT: Final = "app.js"
"""What they are sent as."""
DIGEST_MARK: Final = b"RELEASE"
"""In the page, where the folder's name goes."""
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_FENCE: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Of what is served; other files of the folder are for people: licences, and where the libraries come from."""
_DIGEST_CHARACTERS: Final = 16
_FOREVER: Final = "public, max-age=31536000, immutable"
_JOINTS: Final = (
    (re.compile(r'^import [^;"]* from "\./[a-z]+\.js";$', re.M), ""),
    (re.compile(r"^export \{[^}]*\};$", re.M), ""),
    (re.compile(r"^export (?=const |async |function |class )", re.M), ""),
    (re.compile(r"^\s*//.*$", re.M), ""),
    (re.compile(r"\n\s+"), "\n"),
)
_BARE_IMPORT: Final = b'from"preact"'
"""In Preact's hooks, as npm has them; a browser wants a path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAnswer:
    """What is sent for a path below /ui/."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServedFile:
    body: bytes
    packed: bytes
    """gzip."""
    etag: str
    content_type: str
    cache_control: str


class PageFiles:
    """All files of the page, in memory."""

    def __init__(self, folder: Path = STATIC) -> None:
        """Read them.

        Raises:
            OSError: They are not there: the package is not whole.
        """
        bodies = {path.name: _read(path) for path in sorted(folder.rglob("*")) if path.suffix in _TYPES}
        missing = [name for name in (INDEX, *(f"{module}.js" for module in MODULES)) if name not in bodies]
        if missing:
            raise FileNotFoundError(f"{folder}: {', '.join(missing)} not there: the package is not whole")
        index = bodies.pop(INDEX)
        bodies[SCRIPT] = joined([bodies.pop(f"{module}.js").decode() for module in MODULES]).encode()
        whole = hashlib.sha256()
        for name, body in sorted({**bodies, INDEX: index}.items()):
            whole.update(f"{name} {len(body)}\n".encode())
            whole.update(body)
        self.digest: Final = whole.hexdigest()[:_DIGEST_CHARACTERS]
        """The name of the folder."""
        self._files: Final = {
            f"{self.digest}/{name}": _served(name, body, _FOREVER) for name, body in sorted(bodies.items())
        }
        self._files[""] = _served(INDEX, index.replace(DIGEST_MARK, self.digest.encode()), "no-cache")

    @property
    def paths(self) -> tuple[str, ...]:
        """What there is, below /ui/; the page itself is the empty path."""
        return tuple(self._files)

    def answer(self, path: str, *, accept_encoding: str, if_none_match: str | None) -> FileAnswer:
        """Return what to send for a path below /ui/."""
        served = self._files.get(path)
        if served is None:
            return FileAnswer(
                status=404,
                body=b"the page has no such file; reload /ui/: this may be another release\n",
                headers=_FENCE,
            )
        headers = {**_FENCE, "ETag": served.etag, "Cache-Control": served.cache_control, "Vary": "Accept-Encoding"}
        if is_held(if_none_match, served.etag):
            return FileAnswer(status=304, content_type=served.content_type, headers=headers)
        body = served.body
        if "gzip" in (coding.partition(";")[0].strip() for coding in accept_encoding.split(",")):
            body = served.packed
            headers["Content-Encoding"] = "gzip"
        return FileAnswer(status=200, body=body, content_type=served.content_type, headers=headers)


@functools.cache
def page_files() -> PageFiles:
    """Return the files of this package; they are read at the first call."""
    return PageFiles()


def joined(modules: Sequence[str]) -> str:
    """Return modules as one: without what they import from and export to each other, comment lines and indentation.

    Their names at the top are one space then: two modules may not have the same.
    """
    text = "\n".join(modules)
    for pattern, left in _JOINTS:
        text = pattern.sub(left, text)
    return text


def _read(path: Path) -> bytes:
    return path.read_bytes().replace(_BARE_IMPORT, b'from"./preact.mjs"')


def _served(name: str, body: bytes, cache_control: str) -> _ServedFile:
    return _ServedFile(
        body=body,
        packed=gzip.compress(body, 9, mtime=0),
        etag=f'"{hashlib.sha256(body).hexdigest()[:_DIGEST_CHARACTERS]}"',
        content_type=_TYPES[Path(name).suffix],
        cache_control=cache_control,
    )
