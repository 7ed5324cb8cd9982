"""Renews what the image is made of: the newest versions that Debian and PyPI have now, with their checksums."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.image import debian, distributions
from tests.image.apt import RELEASE, RELEASE_NUMBER, Apt
from tests.image.cache import REPOSITORY, ImageError, Progress, cache_root, run
from tests.image.sbom import normal

PACKAGES: Final = (
    "base-files",
    "ca-certificates",
    "gcc-12-base",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "liblzma5",
    "libncursesw6",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libsqlite3-0",
    "libssl3",
    "libstdc++6",
    "libtinfo6",
    "libuuid1",
    "ncurses-base",
    "python3.11-minimal",
    "zlib1g",
)
"""Debian's Python with what its modules and our wheels load; `test_image` looks for libraries that are missing."""
HEADER: Final = """\
# What the image takes from Debian {number} ({release}): NAME VERSION PLACE ARCHITECTURE=SHA256 ...
# Written by `python -m tests.image lock`.
# snapshot: {moment}
"""
BUILD_TOOLS: Final = ("setuptools>=77", "cffi>=1.16,<3")
"""As in pyproject.toml's build-system."""
BUILDERS: Final = ("3.11", "3.12", "3.13", "3.14")


def renew(progress: Progress) -> None:
    """Write all locks anew.

    Raises:
        ImageError: Debian or PyPI cannot be asked.
    """
    progress("asking Debian")
    renew_packages()
    wanted = runtime_requirements()
    for architecture in debian.ARCHITECTURES:
        progress(f"asking PyPI for {architecture}")
        options = [word for option in distributions.wheel_options(architecture) for word in option]
        write(distributions.requirements_of(architecture), resolved(wanted, options))
    progress("asking PyPI for what builds the wheel")
    write(distributions.BUILD_REQUIREMENTS, build_tools())


def renew_packages() -> None:
    """Write packages.txt."""
    debian.LOCK.write_text(newest_packages(debian.ARCHITECTURES))


def newest_packages(architectures: Sequence[str]) -> str:
    """Return the text of a lock by what Debian has now.

    Raises:
        ImageError: Debian cannot be asked, or has not built a package for all architectures yet.
    """
    newest: dict[str, tuple[str, str, dict[str, str]]] = {}
    for architecture in architectures:
        with Apt(architecture) as apt:
            apt.update()
            for name, offer in apt.newest(PACKAGES).items():
                place = offer.place.replace(f"_{architecture}.deb", "_{architecture}.deb")
                version, known, sums = newest.setdefault(name, (offer.version, place, {}))
                if (version, known) != (offer.version, place):
                    advice = "wait until Debian has built it for both"
                    raise ImageError(f"image: {name} is {version} and, for {architecture}, {offer.version}; {advice}")
                sums[architecture] = offer.sha256
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    text = HEADER.format(number=RELEASE_NUMBER, release=RELEASE, moment=moment)
    for name, (version, place, sums) in sorted(newest.items()):
        text += " ".join([name, version, place, *(f"{arch}={digest}" for arch, digest in sums.items())]) + "\n"
    return text


def substitute(architecture: str, stale: debian.StaleLockError, progress: Progress) -> str:
    """Give a lock of what Debian has now, in place of one whose packages are gone; kept in the cache, so that the next
    build here is of the same packages.

    Args:
        architecture: The only one that it is for.
        stale: Why.
        progress: Told of it.

    Raises:
        ImageError: Debian cannot be asked.
    """
    name = hashlib.sha256(debian.LOCK.read_bytes()).hexdigest()[:12]
    place = cache_root() / "substitutes" / f"{name}-{architecture}.txt"
    if place.is_file():
        try:
            debian.ensure_packages(place.read_text(), architecture, progress)
        except debian.StaleLockError:
            place.unlink()
    progress(f"WARNING: {str(stale).removeprefix('image: ')}")
    if not place.is_file():
        progress(f"this image takes what Debian {RELEASE_NUMBER} has now; --locked refuses instead")
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = place.with_name(f".{place.name}-{os.getpid()}")
        unfinished.write_text(newest_packages((architecture,)))
        unfinished.rename(place)
    else:
        progress(f"this image takes what is noted in {place}; --locked refuses instead")
    return place.read_text()


def runtime_requirements() -> list[str]:
    """Return what pyproject.toml asks for to run agent and webhook in a pod."""
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["webhook"]]
    names = {requirement: re.split(r"[\s<>=~!\[;]", requirement, maxsplit=1)[0] for requirement in wanted}
    return [requirement for requirement in wanted if names[requirement] not in distributions.NOT_IN_A_POD]


def build_tools() -> dict[str, tuple[str, set[str]]]:
    """Return what builds the wheel, by any Python that runs the builder, on both machines: cffi has parts in C."""
    pins: dict[str, tuple[str, set[str]]] = {}
    for python in BUILDERS:
        for machine in distributions.MACHINES.values():
            options = ["--platform", f"manylinux_2_17_{machine}", "--platform", f"manylinux2014_{machine}"]
            options += ["--python-version", python, "--implementation", "cp"]
            options += [word for abi in (f"cp{python.replace('.', '')}", "abi3", "none") for word in ("--abi", abi)]
            wanted = [f"{name}=={version}" for name, (version, _) in pins.items()] or list(BUILD_TOOLS)
            for name, (version, sums) in resolved(wanted, options).items():
                pins.setdefault(name, (version, set()))[1].update(sums)
    return pins


def resolved(wanted: list[str], options: list[str]) -> dict[str, tuple[str, set[str]]]:
    """Have pip resolve requirements to wheels; give version and SHA-256 by name."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
        words += ["--disable-pip-version-check", "--only-binary", ":all:", "--target", folder, *options]
        report = json.loads(run([*words, *wanted], Path(folder)))
    pins: dict[str, tuple[str, set[str]]] = {}
    for item in report["install"]:
        hashes = item["download_info"]["archive_info"]["hashes"]
        pins[normal(item["metadata"]["name"])] = (item["metadata"]["version"], {hashes["sha256"]})
    return dict(sorted(pins.items()))


def write(path: Path, pins: dict[str, tuple[str, set[str]]]) -> None:
    """Write a lock as pip reads it."""
    lines = ["# Written by `python -m tests.image lock`.\n"]
    for name, (version, sums) in pins.items():
        lines.append(" ".join([f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in sorted(sums))]) + "\n")
    path.write_text("".join(lines))
