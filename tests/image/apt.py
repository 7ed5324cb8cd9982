"""apt, asked without this machine's own sources: what Debian has now, and single files of its pool by checksum.

Nothing is installed, and no root is needed. Every index is checked against Debian's keys, every file by SHA-256.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.image.cache import ImageError, run

RELEASE, RELEASE_NUMBER = "bookworm", "12"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FETCHER: Final = Path("/usr/lib/apt/apt-helper")
MIRROR: Final = "http://deb.debian.org"
SECURITY_POOL: Final = "pool/updates/"
"""How paths in the archive of security fixes begin, and no others."""


def suites_of(release: str) -> dict[str, str]:
    """Return the archives of a release of Debian, and its suites in each."""
    return {"debian": f"{release} {release}-updates", "debian-security": f"{release}-security"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What Debian has now of a package for an architecture."""

    version: str
    place: str
    """Below a mirror: archive and path in it."""
    sha256: str


class Apt:
    """apt with sources, lists and architecture of its own, in a temporary folder."""

    def __init__(self, architecture: str, release: str = RELEASE) -> None:
        self._architecture, self._release = architecture, release
        self._folder = tempfile.TemporaryDirectory(prefix="plimsoll-apt-")
        self._root = Path(self._folder.name)

    def __enter__(self) -> Apt:
        if not KEYRING.is_file():
            raise ImageError(
                f"image: {KEYRING} not found; apt-get install -y debian-archive-keyring (or use Dockerfile)"
            )
        for name in ("lists/partial", "cache/archives/partial", "sources"):
            (self._root / name).mkdir(parents=True)
        (self._root / "status").touch()
        entries = []
        for archive, suites in suites_of(self._release).items():
            fields = {"Types": "deb", "URIs": f"{MIRROR}/{archive}", "Suites": suites, "Components": "main"}
            entries.append("".join(f"{key}: {value}\n" for key, value in {**fields, "Signed-By": KEYRING}.items()))
        (self._root / "sources" / "debian.sources").write_text("\n".join(entries))
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def update(self) -> None:
        """Fetch the indexes; one that cannot be had is an error."""
        self._run("apt-get", "update", "-qq", "--error-on=any")

    def newest(self, names: Sequence[str]) -> dict[str, Offer]:
        """Return what would be installed now, by name.

        Raises:
            ImageError: apt knows no such package.
        """
        answer = self._run("apt-cache", "show", "--no-all-versions", *names)
        offers = {}
        for block in answer.split("\n\n"):
            fields = dict(line.partition(": ")[::2] for line in block.splitlines() if ": " in line)
            if fields:
                path = fields["Filename"]
                archive = "debian-security" if path.startswith(SECURITY_POOL) else "debian"
                offers[fields["Package"]] = Offer(
                    version=fields["Version"], place=f"{archive}/{path}", sha256=fields["SHA256"]
                )
        return offers

    def dependencies(self, name: str) -> list[str]:
        """Return the names that a package depends on."""
        lines = [line.strip() for line in self._run("apt-cache", "depends", name).splitlines()]
        return [line.removeprefix("Depends: ").strip("<>") for line in lines if line.startswith("Depends: ")]

    def download(self, names: Sequence[str], folder: Path) -> None:
        """Fetch the newest of these packages into a folder, by apt's own checksums."""
        self._run("apt-get", "download", "-qq", *names, folder=folder)

    def _run(self, program: str, *words: str, folder: Path | None = None) -> str:
        settings: dict[str, str | Path] = {
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": self._root / "sources",
            "Dir::State::Lists": self._root / "lists",
            "Dir::State::status": self._root / "status",
            "Dir::Cache": self._root / "cache",
            "APT::Architecture": self._architecture,
            "APT::Architectures": self._architecture,
            "APT::Default-Release": "",
            "Acquire::Languages": "none",
        }
        return run([program, *options(settings), *words], folder=folder)


def options(settings: dict[str, str | Path]) -> list[str]:
    """Return apt's options; as root it would else drop to a user that may not write into our folders."""
    if os.geteuid() == 0:
        settings = {**settings, "APT::Sandbox::User": "root"}
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def fetch(address: str, target: Path, sha256: str) -> str:
    """Fetch one file, as apt fetches (its proxies, its retries); give why not, in apt's words, or nothing.

    Args:
        address: Its URL.
        target: Where it is to be; there only when the checksum is right.
        sha256: Of its bytes, hexadecimal.

    Raises:
        ImageError: It is there with other bytes, or apt is not on this machine.
    """
    if not FETCHER.is_file():
        raise ImageError(f"image: {FETCHER} not found: images are made with apt (or use Dockerfile)")
    unfinished = target.with_name(f".{target.name}-{os.getpid()}")
    words = [str(FETCHER), *options({}), "download-file", address, str(unfinished), f"SHA256:{sha256}"]
    done = subprocess.run(
        words, env={**os.environ, "LC_ALL": "C.UTF-8"}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode == 0:
        unfinished.rename(target)
        return ""
    unfinished.with_name(f"{unfinished.name}.FAILED").unlink(missing_ok=True)
    errors = [line.removeprefix("E: ") for line in done.stderr.splitlines() if line.startswith("E: ")]
    error = errors[0] if errors else f"apt-helper ended with {done.returncode}"
    why = re.sub(r"^Failed to fetch \S+ +", "", error)
    if "mismatch" in why:
        raise ImageError(f"image: {address} has another checksum than packages.txt names: {why}")
    return why
