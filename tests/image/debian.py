"""Debian's part of the image: packages by name, version and checksum (packages.txt), unpacked and not installed.

No package manager, shell or maintainer script gets into the image or is run for it.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tests.image.apt import MIRROR, RELEASE_NUMBER, fetch
from tests.image.cache import ImageError, Progress, cache_root, run

ARCHITECTURES: Final = ("amd64", "arm64")
LOCK: Final = Path(__file__).with_name("packages.txt")
SNAPSHOT: Final = "http://snapshot.debian.org/archive"
"""Keeps what the mirrors have dropped for a newer version; not reachable from everywhere."""
NOT_FOUND: Final = "404 "
"""What apt's words say of a file that is not there, and not of a server that does not answer."""
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
    place: str
    """Below a mirror: archive and path in it."""
    sha256: str


def read_lock(architecture: str, text: str | None = None) -> tuple[Package, ...]:
    """Read packages.txt: ``NAME VERSION PLACE ARCHITECTURE=SHA256 ...`` a line, # for comments.

    Args:
        architecture: For ``{architecture}`` in the place, and which checksum.
        text: packages.txt itself unless given.

    Raises:
        ImageError: A line is not like that, or has no checksum for the architecture.
    """
    packages = []
    lines = (LOCK.read_text() if text is None else text).splitlines()
    for number, line in enumerate(lines, start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        sums = dict(word.partition("=")[::2] for word in words[3:])
        if architecture not in sums or "=" in words[2]:
            wanted = f"NAME VERSION PLACE ... {architecture}=SHA256"
            raise ImageError(f"image: {LOCK.name}:{number}: {line!r} is not {wanted}")
        place = words[2].replace("{architecture}", architecture)
        packages.append(Package(name=words[0], version=words[1], place=place, sha256=sums[architecture]))
    return tuple(packages)


def snapshot_moment(text: str) -> str:
    """Return the moment that a lock was written at, as snapshot.debian.org names it.

    Raises:
        ImageError: There is no such line.
    """
    for line in text.splitlines():
        if line.startswith("# snapshot: "):
            return line.removeprefix("# snapshot: ").strip()
    raise ImageError(f"image: {LOCK.name} has no line `# snapshot: MOMENT`")


class StaleLockError(ImageError):
    """Debian no longer gives what the lock names; the message says what, and which command mends it."""


def ensure_packages(text: str, architecture: str, progress: Progress) -> Mapping[str, Path]:
    """Return the archive of every package of a lock by name: from the cache, Debian's pool or its snapshot.

    The pool keeps a version for a while after the next one came out, and is asked for the file itself: the indexes
    name only the newest.

    Raises:
        StaleLockError: Debian has some of them no longer, and the snapshot does not help.
        ImageError: Debian is not reached, or gives other bytes.
    """
    wanted = read_lock(architecture, text)
    missing = [package for package in wanted if not place_of(package).is_file()]
    if missing:
        place_of(missing[0]).parent.mkdir(parents=True, exist_ok=True)
        progress(f"fetching {len(missing)} packages of Debian {RELEASE_NUMBER} for {architecture}")
    gone = []
    for package in missing:
        why = fetch(f"{MIRROR}/{package.place}", place_of(package), package.sha256)
        if why and NOT_FOUND not in why:
            raise ImageError(f"image: {MIRROR} is not reached: {why}")
        if why:
            gone.append(package)
    if gone:
        progress(f"Debian's mirror has {len(gone)} of them no longer; asking its snapshot of {snapshot_moment(text)}")
        ensure_from_snapshot(gone, snapshot_moment(text))
    return {package.name: place_of(package) for package in wanted}


def ensure_from_snapshot(gone: Sequence[Package], moment: str) -> None:
    """Fetch what the mirror has dropped.

    Raises:
        StaleLockError: The snapshot has it not either, or is not reachable from here.
    """
    for package in gone:
        archive, _, path = package.place.partition("/")
        why = fetch(f"{SNAPSHOT}/{archive}/{moment}/{path}", place_of(package), package.sha256)
        if why:
            first = f"{package.name} {package.version}" + (f" and {len(gone) - 1} more" if len(gone) > 1 else "")
            raise StaleLockError(
                f"image: tests/image/{LOCK.name} is out of date: Debian no longer has {first} (nor {SNAPSHOT}: "
                f"{why}); take what Debian has now: python -m tests.image lock"
            )


def place_of(package: Package) -> Path:
    """Return the place of an archive in the cache."""
    return cache_root() / "packages" / f"{package.sha256}.deb"


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
    """Return a package's path without ``./``, by the merged places; empty for the root itself."""
    path = name.removeprefix("./").strip("/")
    if path == ".":
        return ""
    top, _, _rest = path.partition("/")
    return f"usr/{path}" if top in MERGED else path


def is_wanted(path: str) -> bool:
    """Return whether a path gets into the image: of documentation only the licences."""
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
