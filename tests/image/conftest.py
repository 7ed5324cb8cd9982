"""The image, built once for all tests from what is in the tree, and its files unpacked as a runtime unpacks them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.parts import ensure_runc
from tests.image import debian
from tests.image.cache import cache_root, drop_old, folder_made, silent
from tests.image.layers import Layer, make_layers, native_architecture
from tests.image.layout import Image, version, write_image
from tests.image.running import Container, configuration, unpack

KEPT_ROOTS = 2 * len(debian.ARCHITECTURES)
NOTES: list[str] = []
"""Said at the end of the run: that the images tested are not those of packages.txt."""


def note(line: str) -> None:
    """Keep what somebody is to read."""
    if line.startswith("WARNING"):
        NOTES.append(line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was noted: a lock that is out of date fails no test, and is nobody's secret."""
    for line in dict.fromkeys(NOTES):
        terminalreporter.write_line(f"image: {line}", yellow=True)


@pytest.fixture(scope="session")
def layers() -> tuple[Layer, ...]:
    """The layers of the image of this machine's architecture."""
    return make_layers(native_architecture(), version(), note)


@pytest.fixture(scope="session")
def image(layers: tuple[Layer, ...], tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image of this machine's architecture."""
    return write_image(layers, native_architecture(), tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def packages(layers: tuple[Layer, ...]) -> tuple[debian.Package, ...]:
    """What it has of Debian: packages.txt's, or what was taken in their place."""
    return debian.read_lock(native_architecture(), (layers[0].folder / debian.LOCK.name).read_text())


@pytest.fixture(scope="session")
def root(image: Image) -> Path:
    """Its files, kept for the next run; a container's mount points are added to them, and nothing else."""
    return unpacked(image)


def unpacked(image: Image) -> Path:
    """Unpack an image, once."""
    roots = cache_root() / "roots"
    name = image.digest.removeprefix("sha256:")[:16]
    folder = folder_made(roots / name, lambda directory: unpack(image, directory / "root"))
    drop_old(roots, KEPT_ROOTS)
    return folder / "root"


@pytest.fixture(scope="session")
def container(image: Image, root: Path) -> Iterator[Container]:
    """A way to run it; skipped where we are not root."""
    with container_of(image, root) as image_container:
        yield image_container


@contextmanager
def container_of(image: Image, root: Path) -> Iterator[Container]:
    """Give a way to run an image inside the block; skip where we are not root."""
    if os.geteuid() != 0:
        pytest.skip("containers are started as root here")
    runc, _ = ensure_runc(silent)
    # A short path: what is named by a test's folder is too long for a socket's name.
    with tempfile.TemporaryDirectory(prefix="plimsoll-runc-") as folder:
        yield Container(runc=runc, root=root, config=configuration(image), folder=Path(folder))


def sha256_of(path: Path) -> str:
    """Return a file's checksum."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
