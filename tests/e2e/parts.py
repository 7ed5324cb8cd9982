"""What a node is made of besides the cluster's programs: kernel, runc, and images; obtained once and found again.

The kernel is the one of ``tests/guest`` with a few more modules. runc is Debian's package, unpacked and not installed.
Images are archives written here, one layer each, so that no registry is asked. All lies below
``${XDG_CACHE_HOME:-~/.cache}/plimsoll/e2e``, in folders named by a digest of their recipe.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster import binaries
from tests.guest import kernel
from tests.guest.kernel import GuestError, GuestKernel, Progress

SOURCES: Final = Path(__file__).with_name("native")
MODULES: Final = (*kernel.MODULES, "virtio_net", "virtio_blk", "ext4")
"""A network card to reach the API server and a disk: containerd's overlays cannot lie on the guest's own overlay."""
RUNC_PACKAGE: Final = "runc"
"""Debian 12 answers with 1.1.5; it finds its libseccomp in the host's tree, which is the guest's."""
HOST_PROGRAMS: Final = {
    "gcc": "gcc libc6-dev",
    "mkfs.ext4": "e2fsprogs",
    "ip": "iproute2",
    "unshare": "util-linux",
    "openssl": "openssl",
    "dpkg-deb": "dpkg",
}
"""Program to package."""
PROGRAMS: Final = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr")
APPLETS: Final = ("cat", "dd", "echo", "head", "kill", "ls", "rm", "sh", "sleep", "touch", "true")
PAUSE_IMAGE: Final = "plimsoll.test/pause:1"
LOAD_IMAGE: Final = "plimsoll.test/load:1"
HOST_IMAGE: Final = "plimsoll.test/host:1"
"""An empty root with the links of a merged /usr: pods mount the host's own /usr and Python into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything a guest needs to be a node; all paths are seen by the guest under the same name."""

    kernel: GuestKernel
    runc: Path
    runc_origin: str
    programs: Mapping[str, Path]
    images: tuple[Path, ...]
    ask: Path
    """Puts a line to a unix socket (native/ask.c)."""


def ensure(progress: Progress = lambda _line: None) -> Parts:
    """Find the parts, and obtain or build those that are missing.

    Raises:
        GuestError: Programs of the host are missing, or a package cannot be had.
        BinaryError: A Go program cannot be built.
    """
    guest_kernel = kernel.ensure(progress, MODULES)
    check_host_programs()
    programs = binaries.ensure((*binaries.FOR_TESTS, *PROGRAMS), progress=progress)
    runc, origin = ensure_runc(progress)
    made = ensure_images(progress)
    return Parts(
        kernel=guest_kernel,
        runc=runc,
        runc_origin=origin,
        programs={name: programs[name].resolve() for name in PROGRAMS},
        images=tuple(sorted(made.glob("*.tar"))),
        ask=made / "ask",
    )


def check_host_programs() -> None:
    """Refuse with one line when programs of the host are missing, besides those the guest tier asks for."""
    missing = [program for program in HOST_PROGRAMS if shutil.which(program, path=program_path()) is None]
    if missing:
        packages = " ".join(sorted({HOST_PROGRAMS[program] for program in missing}))
        raise GuestError(f"e2e: {', '.join(missing)} not found; apt-get install -y --no-install-recommends {packages}")


def program_path() -> str:
    """Give where programs are looked for: a plain PATH lacks sbin."""
    return f"{os.environ.get('PATH', '')}:{kernel.SYSTEM_PATH}"


def cache_root() -> Path:
    """Give the folder of runc and the images; need not exist."""
    return binaries.cache_root().with_name("e2e")


def ensure_runc(progress: Progress) -> tuple[Path, str]:
    """Give runc and the package it came from."""
    for origin in sorted(cache_root().glob("runc-*/origin")):
        if (program := origin.with_name("runc")).is_file():
            return program, origin.read_text().strip()
    progress(f"downloading Debian's package {RUNC_PACKAGE} (3 MB, once)")
    with unfinished_folder() as folder:
        kernel.run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", RUNC_PACKAGE], folder=folder)
        archive = next(folder.glob("*.deb"))
        kernel.run(["dpkg-deb", "-x", str(archive), str(folder / "root")])
        made = folder / "made"
        made.mkdir()
        shutil.move(folder / "root/usr/sbin/runc", made / "runc")
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        origin_text = f"{archive.stem} sha256:{digest[:16]}"
        (made / "origin").write_text(origin_text + "\n")
        target = finished(made, f"runc-{digest[:12]}")
    return target / "runc", origin_text


def ensure_images(progress: Progress) -> Path:
    """Give the folder of all images' archives and of ``ask``; one for all, since they are made in a second."""
    recipe = hashlib.sha256(Path(__file__).read_bytes())
    for source in sorted(SOURCES.iterdir()):
        recipe.update(source.read_bytes())
    name = f"images-{recipe.hexdigest()[:12]}"
    folder = cache_root() / name
    if not folder.is_dir():
        progress("writing the images of pause, load and host")
        with unfinished_folder() as work:
            made = work / "made"
            made.mkdir()
            busybox = shutil.which("busybox", path=f"/bin:/usr/bin:{kernel.SYSTEM_PATH}")
            if busybox is None:
                raise GuestError("e2e: busybox not found; apt-get install -y busybox-static")
            pause = {"pause": compiled(work, "pause")}
            load = {"load": compiled(work, "load"), "bin/busybox": Path(busybox).read_bytes()}
            write_image(made / "pause.tar", PAUSE_IMAGE, pause, {}, ["/pause"])
            links = {f"bin/{applet}": "busybox" for applet in APPLETS}
            write_image(made / "load.tar", LOAD_IMAGE, load, links, ["/load"])
            links = {name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")}
            account = {"etc/passwd": b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"}
            write_image(made / "host.tar", HOST_IMAGE, account, links, ["/bin/sh"])
            (made / "ask").write_bytes(compiled(work, "ask"))
            (made / "ask").chmod(0o755)
            folder = finished(made, name)
    return folder


def compiled(work: Path, name: str) -> bytes:
    """Compile a program, static."""
    target = work / name
    source = SOURCES / f"{name}.c"
    kernel.run(["gcc", "-O2", "-Wall", "-Werror", "-static", "-s", "-o", str(target), str(source)])
    return target.read_bytes()


def write_image(
    target: Path, name: str, files: Mapping[str, bytes], links: Mapping[str, str], entrypoint: list[str]
) -> None:
    """Write an image as ``docker save`` does: one layer, its configuration and the list of both.

    Args:
        target: The archive.
        name: Repository and tag.
        files: Path without leading slash to bytes; all are executable.
        links: Path to what it points at.
        entrypoint: The command.
    """
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in folders_of([*files, *links, "tmp/", "control/"]):
            tar.addfile(entry(folder, tarfile.DIRTYPE, 0o755))
        for path, content in files.items():
            tar.addfile(entry(path, tarfile.REGTYPE, 0o755, size=len(content)), io.BytesIO(content))
        for path, destination in links.items():
            tar.addfile(entry(path, tarfile.SYMTYPE, 0o777, link=destination))
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": entrypoint, "Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    listing = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]).encode()
    with tarfile.open(target, "w") as tar:
        tar.addfile(entry(digest, tarfile.DIRTYPE, 0o755))
        for path, content in (
            (f"{digest}/layer.tar", layer.getvalue()),
            (config_name, config),
            ("manifest.json", listing),
        ):
            tar.addfile(entry(path, tarfile.REGTYPE, 0o644, size=len(content)), io.BytesIO(content))


def folders_of(paths: Iterable[str]) -> list[str]:
    """Give every parent folder of the paths, parents first."""
    parents = {str(parent) for path in paths for parent in Path(f"{path}x").parents}
    return sorted(parents - {"."})


def entry(path: str, kind: bytes, mode: int, *, size: int = 0, link: str = "") -> tarfile.TarInfo:
    """Give a tar entry without a time or an owner: the same bytes make the same image."""
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.size, info.linkname = kind, mode, size, link
    return info


@contextmanager
def unfinished_folder() -> Iterator[Path]:
    """Give a folder to work in beside the final places; what is left there goes with it."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=cache_root()) as folder:
        yield Path(folder)


def finished(made: Path, name: str) -> Path:
    """Put a complete folder into its place by one rename; another run may have been faster."""
    target = cache_root() / name
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise
    return target


def free_disk(target: Path, mebibytes: int) -> None:
    """Write a sparse ext4 image; its tables are initialised when first used."""
    with target.open("wb") as file:
        file.truncate(mebibytes << 20)
    command = ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(target)]
    kernel.run(command)
