"""The files of one directory: found without following links, read within bounds, replaced whole. Face.

Nothing outside the directory is read or written. A checkout may be of anybody's: a link may lead anywhere, a file be of
any size or kind.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from agent.cli.gitops.kustomize import FILE_NAMES
from agent.cli.gitops.manifests import POD_SPECS
from agent.cli.gitops.proposal import LeftAlone
from agent.cli.gitops.resource_cells import ManifestFile
from agent.cli.gitops.yaml_text import YamlText, YamlTextError

MOST_BYTES: Final = 4 << 20
"""Of one file: the largest manifests that people keep are CustomResourceDefinitions of half a megabyte."""
MOST_FILES: Final = 50_000
MOST_BYTES_IN_ALL: Final = 512 << 20
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_NOT_ENTERED: Final = frozenset({"node_modules", "__pycache__"})
_MOST_DEEP: Final = 64
_CHART: Final = "Chart.yaml"
_CHART_PARTS: Final = frozenset({"templates", "charts", "crds"})
_TEMPLATED: Final = re.compile(r"(?:^[ \t]*|[:-][ \t]+)\{\{", re.M)
"""Where a value would begin: YAML may take it for a mapping in a mapping."""
_WORKLOADS: Final = re.compile(rf"kind[\"']?\s*:\s*[\"']?({'|'.join(POD_SPECS)}|Kustomization|Component)\b")
"""What else cannot be read is nobody's concern."""
_BOM: Final = "\ufeff"


class CheckoutError(Exception):
    """The directory cannot be used, or a file not be written; one line."""


class Checkout:
    """One directory."""

    def __init__(self, directory: Path) -> None:
        """Prepare to find files; nothing is read yet.

        Raises:
            CheckoutError: It is no directory, or has too many files.
        """
        self._root: Final = directory
        self.left: Final[list[LeftAlone]] = []
        """What was not read, and why."""
        self.paths: Final[list[str]] = []
        """Files that may be manifests, in order."""
        self.kustomizations: Final[list[str]] = []
        """Directories that hold one."""
        self._read: Final[dict[str, ManifestFile | None]] = {}
        self._bytes = 0
        if not directory.is_dir():
            raise CheckoutError(f"{directory}: is no directory; allowed: a checkout")
        charts: list[str] = []
        for path, is_of_chart in self._manifest_paths("", in_chart=False):
            if is_of_chart:
                charts.append(path)
            else:
                self.paths.append(path)
                if path.rpartition("/")[2] in FILE_NAMES:
                    self.kustomizations.append(path.rpartition("/")[0])
            if len(self.paths) > MOST_FILES:
                raise CheckoutError(f"{directory}: more than {MOST_FILES} files; allowed: a part of it")
        for chart in charts:
            why = "templates of a Helm chart are not edited; allowed: its values, by --map"
            self.left.append(LeftAlone(what=chart or ".", where="", why=why))

    def _manifest_paths(self, directory: str, *, in_chart: bool) -> Iterator[tuple[str, bool]]:
        """Return files below a directory, and the directories of charts, which count as one each."""
        if directory.count("/") >= _MOST_DEEP:
            self.left.append(LeftAlone(what=directory, where="", why=f"more than {_MOST_DEEP} directories deep"))
            return
        try:
            with os.scandir(self._root / directory) as entries:
                listing = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.left.append(LeftAlone(what=directory or ".", where="", why=f"cannot be read: {error.strerror}"))
            return
        is_chart = any(entry.name == _CHART for entry in listing)
        if is_chart and not in_chart:
            yield directory, True
        for entry in listing:
            path = f"{directory}/{entry.name}" if directory else entry.name
            if entry.is_symlink() or not path.isprintable():
                continue
            if entry.is_dir(follow_symlinks=False):
                if not (_is_skipped(entry.name) or (is_chart and entry.name in _CHART_PARTS)):
                    yield from self._manifest_paths(path, in_chart=is_chart)
            elif entry.is_file(follow_symlinks=False) and (entry.name.endswith(_SUFFIXES) or entry.name in FILE_NAMES):
                yield path, False

    def file(self, path: str) -> ManifestFile | None:
        """Return a file, read once; None = it is not there or not read, which is told where it matters."""
        if path not in self._read:
            self._read[path] = self._opened(path)
        return self._read[path]

    def forget(self, path: str) -> None:
        """Drop a file that holds nothing of interest."""
        self._read[path] = None

    def _opened(self, path: str) -> ManifestFile | None:
        try:
            content = self._content(path)
            text = content.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            if not isinstance(error, FileNotFoundError):
                self._leave(path, getattr(error, "strerror", None) or "not UTF-8")
            return None
        self._bytes += len(content)
        if self._bytes > MOST_BYTES_IN_ALL:
            raise CheckoutError(f"{self._root}: more than {MOST_BYTES_IN_ALL >> 20} MiB of YAML; allowed: a part of it")
        is_told = _WORKLOADS.search(text) is not None
        if _TEMPLATED.search(text):
            if is_told:
                self._leave(path, "a template, not YAML")
            return None
        try:
            return ManifestFile(path=path, text=YamlText(text.removeprefix(_BOM)), content=content)
        except YamlTextError as error:
            if is_told:
                self._leave(path, str(error))
            return None

    def _leave(self, path: str, why: str) -> None:
        self.left.append(LeftAlone(what=path, where="", why=why))

    def _content(self, path: str) -> bytes:
        descriptor = self._open(path)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise OSError(errno.EFBIG, f"larger than {MOST_BYTES >> 20} MiB, which is the most that is read")
        return content

    def _open(self, path: str) -> int:
        """Open a file below the directory; no part of its path may be a link."""
        at = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            *parents, name = path.split("/")
            for part in parents:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
                os.close(at)
                at = below
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        finally:
            os.close(at)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "is no regular file")
        return descriptor

    def replace(self, texts: dict[str, str]) -> None:
        """Write new texts over files, each whole; all are written beside their places first.

        Raises:
            CheckoutError: One cannot be written, or was changed meanwhile; what is there stays.
        """
        beside: dict[str, Path] = {}
        try:
            for path, text in texts.items():
                beside[path] = self._beside(path, text)
            for path, temporary_path in beside.items():
                temporary_path.replace(self._root / path)
        except OSError as error:
            raise CheckoutError(f"{error.filename or self._root}: cannot be written: {error.strerror}") from error
        finally:
            for temporary_path in beside.values():
                temporary_path.unlink(missing_ok=True)

    def _beside(self, path: str, text: str) -> Path:
        file, place = self._read.get(path), self._root / path
        if file is None or self._content(path) != file.content:
            raise CheckoutError(f"{path}: was changed meanwhile; nothing was written")
        lead = _BOM if file.content.startswith(_BOM.encode()) else ""
        temporary_path = place.with_name(f".{place.name}.{os.getpid()}")
        with ExitStack() as undone:
            undone.callback(temporary_path.unlink, missing_ok=True)
            with temporary_path.open("xb") as out:
                os.fchmod(out.fileno(), stat.S_IMODE(place.stat().st_mode))
                out.write(f"{lead}{text}".encode())
                out.flush()
            undone.pop_all()
        return temporary_path


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or name in _NOT_ENTERED
