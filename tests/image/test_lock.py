"""Where Debian's packages come from when Debian has moved on: the pool, its snapshot, or what it has now, and said so.

Debian is played by a web server of files here; apt that asks it is the real one.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cluster.processes import free_ports
from tests.image import apt, debian, lock
from tests.image.cache import ImageError, cache_root, silent

CONTENT = b"a package"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PLACE = "debian-security/pool/updates/main/o/openssl/libssl3_3.0-1_amd64.deb"
LINE = f"libssl3 3.0-1 {PLACE.replace('amd64', '{architecture}')} amd64={SHA256}"
TEXT = f"# snapshot: 20260102T030405Z\n{LINE}\n"


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of what Debian's mirror has, below ``mirror``, and its snapshot, below ``snapshot``; empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "debian"
    folder.mkdir()
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(debian, "MIRROR", f"{address}/mirror")
        monkeypatch.setattr(debian, "SNAPSHOT", f"{address}/snapshot")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder
        server.shutdown()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def put(path: Path, content: bytes = CONTENT) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)


def test_the_pool_is_asked_for_the_file_itself(mirror: Path) -> None:
    put(mirror / "mirror" / PLACE)
    assert debian.ensure_packages(TEXT, "amd64", silent)["libssl3"].read_bytes() == CONTENT


def test_what_the_pool_has_dropped_is_in_the_snapshot_of_the_moment_of_the_lock(mirror: Path) -> None:
    archive, _, path = PLACE.partition("/")
    put(mirror / "snapshot" / archive / "20260102T030405Z" / path)
    messages: list[str] = []
    assert debian.ensure_packages(TEXT, "amd64", messages.append)["libssl3"].read_bytes() == CONTENT
    assert "has 1 of them no longer" in messages[-1]


def test_what_is_nowhere_is_named_with_the_command_that_mends_it(mirror: Path) -> None:
    with pytest.raises(debian.StaleLockError, match=r"no longer has libssl3 3\.0-1 .* python -m tests\.image lock$"):
        debian.ensure_packages(TEXT, "amd64", silent)
    assert list(mirror.iterdir()) == []
    assert list((cache_root() / "packages").iterdir()) == []


def test_other_bytes_are_refused_and_are_no_stale_lock(mirror: Path) -> None:
    put(mirror / "mirror" / PLACE, b"another")
    with pytest.raises(ImageError, match="has another checksum") as caught:
        debian.ensure_packages(TEXT, "amd64", silent)
    assert not isinstance(caught.value, debian.StaleLockError)
    assert list((cache_root() / "packages").iterdir()) == []


def test_a_mirror_that_does_not_answer_is_no_stale_lock(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "MIRROR", f"http://127.0.0.1:{free_ports(1, '127.0.0.1')[0]}")
    with pytest.raises(ImageError, match=r"127\.0\.0\.1:.* is not reached: ") as caught:
        debian.ensure_packages(TEXT, "amd64", silent)
    assert not isinstance(caught.value, debian.StaleLockError)
    assert list(mirror.iterdir()) == []


def test_what_was_taken_in_place_of_a_stale_lock_is_kept(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([TEXT.replace("3.0-1", "3.0-2"), TEXT.replace("3.0-1", "3.0-3")])
    monkeypatch.setattr(lock, "newest_packages", lambda _architectures: next(answers))
    stale = debian.StaleLockError("image: it is old")
    messages: list[str] = []
    put(mirror / "mirror" / PLACE.replace("3.0-1", "3.0-2"))
    taken = [lock.substitute("amd64", stale, messages.append) for _ in range(2)]
    assert ["3.0-2" in text for text in taken] == [True, True]
    assert messages.count("WARNING: it is old") == 2
    # It goes the way of the lock before it; unless it was fetched, the next one takes its place.
    next((cache_root() / "packages").iterdir()).unlink()
    (mirror / "mirror" / PLACE.replace("3.0-1", "3.0-2")).unlink()
    assert "3.0-3" in lock.substitute("amd64", stale, silent)


@pytest.mark.parametrize(
    "line", ["libc6", "libc6 2.36", "libc6 2.36 debian/x.deb", "libc6 2.36 debian/x.deb arm64=00", "libc6 2 amd64=00"]
)
def test_a_lock_that_lacks_a_checksum_is_refused(line: str) -> None:
    with pytest.raises(ImageError, match=r"packages.txt:2: .* is not NAME VERSION"):
        debian.read_lock("amd64", f"# comment\n{line}\n")


def test_the_lock_names_every_package_by_a_place_that_is_its_own() -> None:
    assert debian.snapshot_moment(debian.LOCK.read_text())
    for architecture in debian.ARCHITECTURES:
        for package in debian.read_lock(architecture):
            archive, _, path = package.place.partition("/")
            assert archive in apt.suites_of(apt.RELEASE)
            assert (archive == "debian-security") == path.startswith(apt.SECURITY_POOL), package
            release = package.version.partition(":")[2] or package.version
            assert path.rpartition("/")[2] in {f"{package.name}_{release}_{kind}.deb" for kind in (architecture, "all")}
