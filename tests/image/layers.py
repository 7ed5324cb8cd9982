"""The image's three layers, by how often they change: Debian's part, Python's distributions, Plimsoll.

A node that has the image of the last release fetches only the last layer of the next one.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from tests.image import debian, distributions
from tests.image.cache import ImageError, Progress, cache_root, drop_old, folder_made
from tests.image.lock import substitute
from tests.image.sbom import debian_components, document, python_components

Json = dict[str, Any]

UID: Final = 65532
OWN_FOLDERS: Final = ("var/lib/plimsoll", "run/plimsoll")
"""Belong to the user of the image: where state and socket are by default."""
OPEN_FOLDERS: Final = ("tmp", "var/tmp")
SBOM: Final = "usr/share/plimsoll/sbom.cdx.json"
KEPT_VERSIONS: Final = 4
"""Of Plimsoll's own layer, in the cache."""
FILES: Final = {
    "etc/passwd": f"root:x:0:0:root:/root:/sbin/nologin\nplimsoll:x:{UID}:{UID}:Plimsoll:/nonexistent:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nplimsoll:x:{UID}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
COMMAND: Final = f"""#!/usr/bin/python{distributions.PYTHON_VERSION} -I
import sys

from agent.cli.main import main

sys.exit(main())
"""
"""Isolated: no variable of the environment and no file in the working folder changes what is imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: its files as a folder, and what they are made of."""

    name: str
    folder: Path

    @property
    def tree(self) -> Path:
        """The files, below a root."""
        return self.folder / "tree"

    def components(self) -> list[Json]:
        """Return its part of the bill of materials."""
        components: list[Json] = json.loads((self.folder / "components.json").read_text())
        return components

    def archive(self) -> Archive:
        """Return the layer as a compressed tar, written at the first question."""
        note = self.folder / "archive.json"
        if not note.is_file():
            write_archive(self.tree, self.folder)
        return Archive(path=self.folder / "layer.tar.gz", **json.loads(note.read_text()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A layer's tar."""

    path: Path
    digest: str
    """SHA-256 of the compressed bytes, hexadecimal."""
    diff_id: str
    """SHA-256 of the tar."""
    size: int
    unpacked_bytes: int


def make_layers(architecture: str, version: str, progress: Progress, *, only_locked: bool = False) -> tuple[Layer, ...]:
    """Return the layers of an image, lowest first; what is there already is not made again.

    Args:
        architecture: By Debian's name.
        version: Plimsoll's.
        progress: Told of each step, and of packages that are not those of packages.txt.
        only_locked: Refuse where Debian no longer has what packages.txt names, in place of taking what it has now.

    Raises:
        ImageError: A part cannot be had or built.
    """
    if architecture not in debian.ARCHITECTURES:
        raise ImageError(f"image: {architecture} is not allowed; allowed: {', '.join(debian.ARCHITECTURES)}")
    own = native_architecture()
    system = system_layer(architecture, own, progress, only_locked=only_locked)
    python = system if own == architecture else system_layer(own, own, progress, only_locked=only_locked)
    command = distributions.interpreter(python.tree, own)
    requirements = distributions.requirements_of(architecture)

    def fill_libraries(folder: Path) -> None:
        progress(f"installing {requirements.name}")
        place = folder / "tree" / distributions.PLACE
        place.mkdir(parents=True)
        distributions.installed(requirements, architecture, place)
        distributions.pruned(place)
        distributions.compiled(command, folder / "tree", python.tree)
        sums = distributions.read_requirements(requirements.read_text())
        write_components(folder, python_components(distributions.read_metadata(place), sums))

    recipe = digest_of(code_digest(), system.folder.name, requirements.read_text())
    libraries = layer("python", recipe, fill_libraries)

    def fill_plimsoll(folder: Path) -> None:
        progress("building Plimsoll's wheel")
        tree = folder / "tree"
        place = tree / distributions.PLACE
        place.mkdir(parents=True)
        distributions.build_wheel(architecture, place)
        distributions.pruned(place)
        if own == architecture:
            words = distributions.loads(command, python.tree, [place, libraries.tree / distributions.PLACE], SAMPLER)
            if words:
                advice = "build by the Dockerfile, whose compiler is Debian 12's"
                raise ImageError(f"image: the C sampler does not load in the image ({words}); {advice}")
        distributions.compiled(command, tree, python.tree)
        (tree / "usr/bin").mkdir(parents=True)
        (tree / "usr/bin/plimsoll").write_text(COMMAND)
        (tree / "usr/bin/plimsoll").chmod(0o755)
        for name in OWN_FOLDERS:
            (tree / name).mkdir(parents=True)
            (tree / name).chmod(0o750)
        components = python_components(distributions.read_metadata(place), {})
        write_components(folder, components)
        every = [*system.components(), *libraries.components()]
        (tree / SBOM).parent.mkdir(parents=True)
        (tree / SBOM).write_text(document(components[0], every, architecture))

    recipe = digest_of(libraries.folder.name, architecture, version, distributions.source_digest())
    program = layer("plimsoll", recipe, fill_plimsoll)
    for name in ("debian", "python", "plimsoll"):
        drop_old(cache_root() / "layers" / name, 2 * len(debian.ARCHITECTURES) if name != "plimsoll" else KEPT_VERSIONS)
    return (system, libraries, program)


SAMPLER: Final = "agent.sensing._sampler"


def system_layer(architecture: str, own: str, progress: Progress, *, only_locked: bool = False) -> Layer:
    """Return Debian's part for an architecture; its modules are compiled by that of this machine's own."""
    try:
        return system_layer_of(debian.LOCK.read_text(), architecture, own, progress)
    except debian.StaleLockError as stale:
        if only_locked:
            raise
        return system_layer_of(substitute(architecture, stale, progress), architecture, own, progress)


def system_layer_of(lock: str, architecture: str, own: str, progress: Progress) -> Layer:
    """Return Debian's part by the text of a lock, which is kept beside it."""

    def fill(folder: Path) -> None:
        archives = debian.ensure_packages(lock, architecture, progress)
        packages = debian.read_lock(architecture, lock)
        progress(f"unpacking {len(packages)} packages for {architecture}")
        tree = folder / "tree"
        tree.mkdir()
        debian.make_root(tree)
        for package in packages:
            debian.unpack(archives[package.name], tree)
        finish_root(tree)
        python = tree if own == architecture else system_layer(own, own, progress).tree
        distributions.compiled(distributions.interpreter(python, own), tree, python)
        write_components(folder, debian_components(tree, {package.name: package.sha256 for package in packages}))
        (folder / debian.LOCK.name).write_text(lock)

    return layer("debian", digest_of(code_digest(), architecture, lock), fill)


def layer(name: str, recipe: str, fill: Callable[[Path], None]) -> Layer:
    """Return a layer by what it is made of."""
    return Layer(name=name, folder=folder_made(cache_root() / "layers" / name / recipe[:16], fill))


def finish_root(tree: Path) -> None:
    """Write what the packages' scripts would have: accounts, the bundle of authorities, the interpreter's name."""
    for name, text in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    authorities = sorted((tree / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = tree / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in authorities))
    shutil.rmtree(tree / "usr/share/ca-certificates")
    link = tree / "usr/lib/ssl/cert.pem"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/etc/ssl/certs/ca-certificates.crt")
    (tree / "usr/bin/python3").symlink_to(f"python{distributions.PYTHON_VERSION}")
    for path in sorted(tree.glob("usr/share/**/*"), reverse=True):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()
    for name in ("proc", "sys", "dev", "run", *OPEN_FOLDERS):
        (tree / name).mkdir(parents=True, exist_ok=True)


def native_architecture() -> str:
    """Return this machine's architecture by Debian's name.

    Raises:
        ImageError: It is none of ours.
    """
    machine = os.uname().machine
    for name, other in distributions.MACHINES.items():
        if other == machine:
            return name
    raise ImageError(
        f"image: this machine is {machine}; images are made on {' and '.join(distributions.MACHINES.values())}"
    )


def code_digest() -> str:
    """Return a digest of the code that makes layers."""
    names = ("apt.py", "bytecode.py", "debian.py", "distributions.py", "layers.py", "sbom.py")
    return digest_of(*((Path(__file__).with_name(name)).read_text() for name in names))


def digest_of(*texts: str) -> str:
    """Return one digest of several texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def write_components(folder: Path, components: Iterable[Mapping[str, Any]]) -> None:
    """Note what a layer is made of."""
    (folder / "components.json").write_text(json.dumps(list(components), indent=1) + "\n")


def write_archive(tree: Path, folder: Path) -> None:
    """Write a folder as a compressed tar: sorted, without times, all of it root's but the program's own folders."""
    unfinished = folder / f".layer-{os.getpid()}"
    with unfinished.open("wb") as file:
        compressed = Hashed(file)
        with gzip.GzipFile(
            filename="", mode="wb", compresslevel=6, fileobj=cast(BinaryIO, compressed), mtime=0
        ) as packed:
            plain = Hashed(packed)
            with tarfile.open(fileobj=cast(BinaryIO, plain), mode="w|", format=tarfile.PAX_FORMAT) as tar:
                for path in sorted_below(tree):
                    add(tar, path, str(path.relative_to(tree)))
    unfinished.rename(folder / "layer.tar.gz")
    note = {
        "digest": compressed.digest(),
        "diff_id": plain.digest(),
        "size": compressed.count,
        "unpacked_bytes": plain.count,
    }
    unfinished.write_text(json.dumps(note) + "\n")
    unfinished.rename(folder / "archive.json")


def sorted_below(tree: Path) -> Iterator[Path]:
    """Give everything below a folder in one order, folders before what they hold."""
    for path in sorted(tree.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from sorted_below(path)


def add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Add one entry."""
    info = tarfile.TarInfo(name)
    is_own = name in OWN_FOLDERS
    info.uid = info.gid = UID if is_own else 0
    if path.is_symlink():
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, os.readlink(path), 0o777
        tar.addfile(info)
    elif path.is_dir():
        info.type, info.mode = tarfile.DIRTYPE, 0o1777 if name in OPEN_FOLDERS else 0o750 if is_own else 0o755
        tar.addfile(info)
    else:
        info.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
        info.size = path.stat().st_size
        with path.open("rb") as content:
            tar.addfile(info, content)


class Hashed:
    """Passes bytes on, counted and hashed."""

    def __init__(self, target: BinaryIO | gzip.GzipFile) -> None:
        self._target = target
        self._hash = hashlib.sha256()
        self.count = 0

    def write(self, content: bytes) -> int:
        self._hash.update(content)
        self.count += len(content)
        return self._target.write(content)

    def flush(self) -> None:
        self._target.flush()

    def digest(self) -> str:
        return self._hash.hexdigest()
