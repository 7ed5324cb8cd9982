"""Debian's part of the image: packages by name, version and checksum (packages.txt), unpacked and not installed.

No package manager, shell or maintainer script gets into the image or is run for it. apt fetches with a configuration of
its own, so that this machine's sources do not matter and every index is checked against Debian's keys.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tests.image.cache import ImageError, Progress, cache_root, run

RELEASE, RELEASE_NUMBER = "bookworm", "12"
ARCHITECTURES: Final = ("amd64", "arm64")
LOCK: Final = Path(__file__).with_name("packages.txt")
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR: Final = "http://deb.debian.org"
SNAPSHOT: Final = "http://snapshot.debian.org/archive"
"""Keeps what the mirrors have dropped for a newer version; not reachable from everywhere."""
MERGED: Final = ("bin", "sbin", "lib", "lib64")
"""Debian 12's top folders are links into /usr; its packages still name some files by the old places."""
LEFT_OUT: Final = (
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/bug",
    "usr/share/gcc",
    "usr/share/doc-base",
    "usr/share/binfmts",
    "usr/share/applications",
    "usr/share/pixmaps",
    "usr/share/base-files",
    "usr/share/dict",
    "usr/share/misc",
    "usr/lib/*/gconv",  # Python has its own codecs
    "usr/lib/*/audit",
    "usr/lib/*/perl-base",
    "usr/lib/binfmt.d",
    "usr/lib/python3.11/test",
    "usr/lib/python3.11/pydoc_data",
    "usr/lib/python3.11/ensurepip",
    "usr/lib/python3.11/venv",
    "usr/lib/python3.11/turtledemo",
    "usr/lib/python3.11/turtle.py",
    "usr/lib/python3.11/ctypes/macholib",
    "usr/lib/python3.11/__phello__",
    "usr/lib/python3.11/config-*",
    # Modules of C whose libraries are not in the image.
    "usr/lib/python3.11/lib-dynload/_crypt.*",
    "usr/lib/python3.11/lib-dynload/_dbm.*",
    "usr/lib/python3.11/lib-dynload/nis.*",
    "usr/lib/python3.11/lib-dynload/readline.*",
    "usr/lib/python3.11/lib-dynload/_test*",
    "usr/lib/python3.11/lib-dynload/_ctypes_test.*",
    "usr/lib/python3.11/lib-dynload/xx*",
    "usr/lib/python3.11/lib-dynload/_xx*",
    "etc/python3.11",
    "etc/update-motd.d",
    "etc/default",
    "etc/dpkg",
    "etc/motd",
    "etc/issue*",
    "etc/profile.d",
    "sbin",
    "usr/sbin",
    "var/backups",
    "var/cache",
    "var/local",
    "var/mail",
    "var/opt",
    "var/spool",
    "boot",
    "home",
    "media",
    "mnt",
    "opt",
    "root",
    "srv",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One line of packages.txt, for one architecture."""

    name: str
    version: str
    sha256: str


def read_lock(architecture: str, text: str | None = None) -> tuple[Package, ...]:
    """Read packages.txt: ``NAME VERSION ARCHITECTURE=SHA256 ...`` a line, # for comments.

    Raises:
        ImageError: A line is not like that, or has no checksum for the architecture.
    """
    found = []
    lines = (LOCK.read_text() if text is None else text).splitlines()
    for number, line in enumerate(lines, start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        sums = dict(word.partition("=")[::2] for word in words[2:])
        if len(words) < 3 or architecture not in sums:
            raise ImageError(f"image: {LOCK.name}:{number}: {line!r} is not NAME VERSION ... {architecture}=SHA256")
        found.append(Package(name=words[0], version=words[1], sha256=sums[architecture]))
    return tuple(found)


def snapshot_moment(text: str | None = None) -> str:
    """Give the moment that packages.txt was written at, as snapshot.debian.org names it.

    Raises:
        ImageError: There is no such line.
    """
    for line in (LOCK.read_text() if text is None else text).splitlines():
        if line.startswith("# snapshot: "):
            return line.removeprefix("# snapshot: ").strip()
    raise ImageError(f"image: {LOCK.name} has no line `# snapshot: MOMENT`")


def ensure_packages(packages: Iterable[Package], architecture: str, progress: Progress) -> Mapping[str, Path]:
    """Give every package's archive by name, from the cache or from Debian.

    Raises:
        ImageError: Debian has it no longer, or gives other bytes.
    """
    wanted = tuple(packages)
    kept = cache_root() / "packages"
    missing = [one for one in wanted if not place_of(one).is_file()]
    if missing:
        kept.mkdir(parents=True, exist_ok=True)
        progress(f"fetching {len(missing)} packages of Debian {RELEASE_NUMBER} for {architecture}")
        with Apt(architecture) as apt:
            try:
                apt.update()
                fetched = apt.download([f"{one.name}={one.version}" for one in missing])
            except ImageError as error:
                progress("Debian's mirror has not all of packages.txt (a fix came out?); asking its snapshot")
                fetched = from_snapshot(missing, architecture, error)
            for one in missing:
                digest = hashlib.sha256(fetched[one.name].read_bytes()).hexdigest()
                if digest != one.sha256:
                    raise ImageError(
                        f"image: {one.name} {one.version} {architecture}: checksum {digest} is not allowed"
                    )
                shutil.move(fetched[one.name], place_of(one))
    return {one.name: place_of(one) for one in wanted}


def from_snapshot(missing: Sequence[Package], architecture: str, why: ImageError) -> Mapping[str, Path]:
    """Fetch from the snapshot of the moment the lock was written.

    Raises:
        ImageError: It is not reachable either; with what the mirror said.
    """
    with Apt(architecture, snapshot=snapshot_moment()) as apt:
        try:
            apt.update()
            fetched = apt.download([f"{one.name}={one.version}" for one in missing])
        except ImageError as error:
            advice = "take what Debian has now: python -m tests.image lock"
            raise ImageError(f"{why}\nimage: nor is it in {SNAPSHOT}; {advice}") from error
        place = cache_root() / "packages"
        return {name: Path(shutil.move(path, place / f".{name}")) for name, path in fetched.items()}


def place_of(package: Package) -> Path:
    """Give the place of an archive in the cache."""
    return cache_root() / "packages" / f"{package.sha256}.deb"


class Apt:
    """apt-get with sources, lists and architecture of its own, in a temporary folder."""

    def __init__(self, architecture: str, snapshot: str | None = None) -> None:
        self._architecture = architecture
        self._snapshot = snapshot
        self._folder = tempfile.TemporaryDirectory(prefix="plimsoll-apt-")
        self._root = Path(self._folder.name)

    def __enter__(self) -> Apt:
        if not KEYRING.is_file():
            raise ImageError(
                f"image: {KEYRING} not found; apt-get install -y debian-archive-keyring (or use Dockerfile)"
            )
        for name in ("lists/partial", "cache/archives/partial", "sources", "out"):
            (self._root / name).mkdir(parents=True)
        (self._root / "status").touch()
        suites = {"debian": f"{RELEASE} {RELEASE}-updates", "debian-security": f"{RELEASE}-security"}
        entries = []
        for archive, names in suites.items():
            place = f"{SNAPSHOT}/{archive}/{self._snapshot}" if self._snapshot else f"{MIRROR}/{archive}"
            fields = {"Types": "deb", "URIs": place, "Suites": names, "Components": "main", "Signed-By": str(KEYRING)}
            if self._snapshot:
                fields["Check-Valid-Until"] = "no"
            entries.append("".join(f"{key}: {value}\n" for key, value in fields.items()))
        (self._root / "sources" / "debian.sources").write_text("\n".join(entries))
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def update(self) -> None:
        """Fetch the indexes; one that cannot be had is an error."""
        self._run("apt-get", "update", "-qq", "--error-on=any")

    def newest(self, names: Sequence[str]) -> Mapping[str, tuple[str, str]]:
        """Give version and SHA-256 of what would be fetched, by name.

        Raises:
            ImageError: apt knows no such package.
        """
        answer = self._run("apt-cache", "show", "--no-all-versions", *names)
        found = {}
        for block in answer.split("\n\n"):
            fields = dict(line.partition(": ")[::2] for line in block.splitlines() if ": " in line)
            if fields:
                found[fields["Package"]] = (fields["Version"], fields["SHA256"])
        return found

    def download(self, wanted: Sequence[str]) -> Mapping[str, Path]:
        """Fetch ``NAME=VERSION`` and give the archives by name; they are gone after the block."""
        folder = self._root / "out"
        self._run("apt-get", "download", "-qq", *wanted, folder=folder)
        return {path.name.partition("_")[0]: path for path in folder.glob("*.deb")}

    def _run(self, program: str, *words: str, folder: Path | None = None) -> str:
        settings = {
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
        if os.geteuid() == 0:
            settings["APT::Sandbox::User"] = "root"  # _apt may not write into this folder
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        return run([program, *options, *words], folder=folder)


def unpack(archive: Path, root: Path) -> None:
    """Unpack a package's files below ``root`` but for those that nobody needs there, and note it as dpkg does.

    Args:
        archive: The .deb.
        root: Of the image, with the links of a merged /usr made by ``make_root``.
    """
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
            for member in tar:
                path = merged(member.name)
                if path and is_wanted(path):
                    put(tar, member, root, path)
    if process.returncode != 0:
        raise ImageError(f"image: dpkg-deb cannot read {archive}")
    control = run(["dpkg-deb", "--field", archive]).rstrip("\n").splitlines()
    name = control[0].removeprefix("Package: ")
    notes = root / "var/lib/dpkg/status.d"
    notes.mkdir(parents=True, exist_ok=True)
    # Scanners of images read this folder; dpkg itself is not there.
    (notes / name).write_text("\n".join([control[0], "Status: install ok installed", *control[1:]]) + "\n")


def merged(name: str) -> str:
    """Give a package's path without ``./``, by the merged places; empty for the root itself."""
    path = name.removeprefix("./").strip("/")
    if path == ".":
        return ""
    top, _, _rest = path.partition("/")
    return f"usr/{path}" if top in MERGED else path


def is_wanted(path: str) -> bool:
    """Tell whether a path gets into the image: of documentation only the licences."""
    if any(fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}/*") for pattern in LEFT_OUT):
        return False
    if path.startswith("usr/share/doc/"):
        return path.endswith("/copyright") or path.count("/") == 3
    return "/__pycache__" not in path


def put(tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path, path: str) -> None:
    """Write one entry; of its permissions only whether it can be run stays."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.isdir():
        target.mkdir(exist_ok=True)
        target.chmod(0o755)
    elif member.issym():
        target.unlink(missing_ok=True)
        target.symlink_to(member.linkname)
    elif member.islnk():
        shutil.copy2(root / merged(member.linkname), target)
    elif member.isfile():
        content = tar.extractfile(member)
        assert content is not None
        target.write_bytes(content.read())
        target.chmod(0o755 if member.mode & 0o111 else 0o644)


def make_root(root: Path) -> None:
    """Make the top folders and the links of a merged /usr."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
