"""The image of the architecture that this machine has not: cross-compiled, and run by qemu's emulation of a process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image import debian, distributions
from tests.image.conftest import container_of, note, unpacked
from tests.image.layers import make_layers, native_architecture
from tests.image.layout import Image, version, write_image
from tests.image.running import LOADS_ALL, Container, configuration, manifest_platform

ELF_MACHINES = {"amd64": 62, "arm64": 183}


@pytest.fixture(scope="module")
def other() -> str:
    (architecture,) = set(debian.ARCHITECTURES) - {native_architecture()}
    return architecture


@pytest.fixture(scope="module")
def foreign(other: str, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The other architecture's image."""
    return write_image(make_layers(other, version(), note), other, tmp_path_factory.mktemp("foreign"))


@pytest.fixture(scope="module")
def emulated(foreign: Image) -> Iterator[Container]:
    with container_of(foreign, unpacked(foreign)) as container:
        yield container


def test_it_says_what_it_is_for(foreign: Image, other: str) -> None:
    assert configuration(foreign)["architecture"] == other
    assert manifest_platform(foreign) == {"architecture": other, "os": "linux"}


def test_nothing_in_it_is_of_this_machine(foreign: Image, other: str) -> None:
    root = unpacked(foreign)
    headers = [path.read_bytes()[:20] for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    machines = [int.from_bytes(header[18:20], "little") for header in headers if header[:4] == b"\x7fELF"]
    assert len(machines) > 50
    assert set(machines) == {ELF_MACHINES[other]}
    assert list(root.glob(f"{distributions.PLACE}/agent/sensing/_sampler*.so"))


def test_it_loads_all_it_has_and_the_native_sampler(emulated: Container, other: str) -> None:
    emulator = shutil.which(f"qemu-{distributions.MACHINES[other]}-static")
    if emulator is None:
        pytest.skip(f"qemu-{distributions.MACHINES[other]}-static not found; apt-get install -y qemu-user-static")
    program = f"{LOADS_ALL}\nimport agent.sensing._sampler, platform; print(platform.machine())"
    python = ["/emulator", "/usr/bin/python3", "-Ic", program]
    code, output = emulated.run("emulated", entrypoint=python, binds={Path(emulator): "/emulator"})
    assert (code, output) == (0, f"1 2.0\n{distributions.MACHINES[other]}\n")
