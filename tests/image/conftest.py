"""The image, built once for all tests from what is in the tree, and its files unpacked as a runtime unpacks them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.parts import ensure_runc
from tests.image.cache import cache_root, drop_old, folder_made, silent
from tests.image.layers import make_layers, native_architecture
from tests.image.layout import Image, version, write_image
from tests.image.running import Container, configuration, unpack

KEPT_ROOTS = 2


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image of this machine's architecture."""
    architecture = native_architecture()
    return write_image(make_layers(architecture, version(), silent), architecture, tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def root(image: Image) -> Path:
    """Its files, kept for the next run; a container's mount points are added to them, and nothing else."""
    roots = cache_root() / "roots"
    name = image.digest.removeprefix("sha256:")[:16]
    folder = folder_made(roots / name, lambda made: unpack(image, made / "root"))
    drop_old(roots, KEPT_ROOTS)
    return folder / "root"


@pytest.fixture(scope="session")
def container(image: Image, root: Path) -> Iterator[Container]:
    """A way to run it; skipped where we are not root."""
    if os.geteuid() != 0:
        pytest.skip("containers are started as root here")
    runc, _ = ensure_runc(silent)
    # A short path: what is named by a test's folder is too long for a socket's name.
    with tempfile.TemporaryDirectory(prefix="plimsoll-runc-") as folder:
        yield Container(runc=runc, root=root, config=configuration(image), folder=Path(folder))


def sha256_of(path: Path) -> str:
    """Give a file's checksum."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
