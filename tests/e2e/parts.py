"""What a node is made of besides the cluster's programs: kernel, runc, and images; obtained once and found again.

The kernel is the one of ``tests/guest`` with a few more modules. runc is Debian's package, unpacked and not installed.
Plimsoll's image is the one that ``make image`` builds. The other images are archives written here, one layer each, so
that no registry is asked. All lies below
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster import binaries
from tests.guest import kernel
from tests.guest.kernel import GuestError, GuestKernel, Progress
from tests.image import layout
from tests.image.cache import ImageError
from tests.image.layers import make_layers, native_architecture
from tests.image.layout import Image, version

SOURCES: Final = Path(__file__).with_name("native")
MODULES: Final = (*kernel.MODULES, "virtio_net", "virtio_blk", "ext4", "veth")
"""A network card to reach the API server, a disk (containerd's overlays cannot lie on the guest's own overlay), and the
cables of pods' networks."""
RUNC_PACKAGE: Final = "runc"
"""Debian 12 answers with 1.1.5; it finds its libseccomp in the host's tree, which is the guest's."""
PLUGINS_PACKAGE: Final = "containernetworking-plugins"
PLUGINS: Final = ("ptp", "host-local", "loopback")
"""A cable to the node and an address for each pod, and nothing that needs iptables."""
KEPT_OWN_IMAGES: Final = 3
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
OLD_SERVER: Final = "1.34.4"
"""A kubelet may be at most three minor versions behind its API server."""
OLD_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
APPLETS: Final = ("cat", "dd", "echo", "head", "kill", "ls", "rm", "sh", "sleep", "touch", "true")
PAUSE_IMAGE: Final = "plimsoll.test/pause:1"
LOAD_IMAGE: Final = "plimsoll.test/load:1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything a guest needs to be a node; all paths are seen by the guest under the same name."""

    kernel: GuestKernel
    runc: Path
    runc_origin: str
    network_plugins: Path
    """Folder."""
    programs: Mapping[str, Path]
    old_kubelet: Path | None
    """Of ``binaries.OLDEST``, which knows no resources of whole pods; None = nobody asked for it."""
    images: tuple[Path, ...]
    own_image: str
    """Plimsoll's: name and tag."""
    ask: Path
    """Puts a line to a unix socket (native/ask.c)."""
    forward: Path
    """Leads connections on (native/forward.c)."""


def ensure(progress: Progress = lambda _line: None, *, with_old: bool = False) -> Parts:
    """Find the parts, and obtain or build those that are missing; an older cluster's only where it is asked for.

    Raises:
        GuestError: Programs of the host are missing, or a package cannot be had.
        BinaryError: A Go program cannot be built.
    """
    guest_kernel = kernel.ensure(progress, MODULES)
    check_host_programs()
    programs = binaries.ensure((*binaries.FOR_TESTS, *PROGRAMS), progress=progress)
    old_kubelet = None
    if with_old:
        binaries.ensure(OLD_PLANE, OLD_SERVER, progress)
        old_kubelet = binaries.ensure(("kubelet",), binaries.OLDEST, progress)["kubelet"].resolve()
    runc, origin = ensure_runc(progress)
    plugins = ensure_network_plugins(progress)
    image_folder = ensure_images(progress)
    own = ensure_own_image(progress)
    return Parts(
        kernel=guest_kernel,
        runc=runc,
        runc_origin=origin,
        network_plugins=plugins,
        programs={name: programs[name].resolve() for name in PROGRAMS},
        old_kubelet=old_kubelet,
        images=(*sorted(image_folder.glob("*.tar")), own.archive),
        own_image=own.reference,
        ask=image_folder / "ask",
        forward=image_folder / "forward",
    )


def check_host_programs() -> None:
    """Refuse with one line when programs of the host are missing, besides those the guest tier asks for."""
    missing = [program for program in HOST_PROGRAMS if shutil.which(program, path=program_path()) is None]
    if missing:
        packages = " ".join(sorted({HOST_PROGRAMS[program] for program in missing}))
        raise GuestError(f"e2e: {', '.join(missing)} not found; apt-get install -y --no-install-recommends {packages}")


def program_path() -> str:
    """Return where programs are looked for: a plain PATH lacks sbin."""
    return f"{os.environ.get('PATH', '')}:{kernel.SYSTEM_PATH}"


def cache_root() -> Path:
    """Return the folder of runc and the images; need not exist."""
    return binaries.cache_root().with_name("e2e")


def ensure_runc(progress: Progress) -> tuple[Path, str]:
    """Return runc and the package it came from."""
    folder = ensure_from_package(RUNC_PACKAGE, "runc", ["usr/sbin/runc"], progress)
    return folder / "runc", (folder / "origin").read_text().strip()


def ensure_network_plugins(progress: Progress) -> Path:
    """Return the folder of the CNI plugins."""
    return ensure_from_package(PLUGINS_PACKAGE, "cni", [f"usr/lib/cni/{name}" for name in PLUGINS], progress)


def ensure_from_package(package: str, name: str, files: Sequence[str], progress: Progress) -> Path:
    """Return a folder with some files of a package of Debian's, and with its name and checksum in ``origin``."""
    for origin in sorted(cache_root().glob(f"{name}-*/origin")):
        if all((origin.parent / Path(file).name).is_file() for file in files):
            return origin.parent
    progress(f"downloading Debian's package {package} (a few MB, once)")
    with unfinished_folder() as folder:
        kernel.run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package], folder=folder)
        archive = next(folder.glob("*.deb"))
        kernel.run(["dpkg-deb", "-x", str(archive), str(folder / "root")])
        part_folder = folder / "made"
        part_folder.mkdir()
        for file in files:
            shutil.move(folder / "root" / file, part_folder / Path(file).name)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        (part_folder / "origin").write_text(f"{archive.stem} sha256:{digest[:16]}\n")
        return finished(part_folder, f"{name}-{digest[:12]}")


def ensure_images(progress: Progress) -> Path:
    """Return the folder of all images' archives and of our programs; one for all, since they are made in a second."""
    recipe = hashlib.sha256(Path(__file__).read_bytes())
    for source in sorted(SOURCES.iterdir()):
        recipe.update(source.read_bytes())
    name = f"images-{recipe.hexdigest()[:12]}"
    folder = cache_root() / name
    if not folder.is_dir():
        progress("writing the images of pause and load")
        with unfinished_folder() as work:
            image_folder = work / "made"
            image_folder.mkdir()
            busybox = shutil.which("busybox", path=f"/bin:/usr/bin:{kernel.SYSTEM_PATH}")
            if busybox is None:
                raise GuestError("e2e: busybox not found; apt-get install -y busybox-static")
            pause = {"pause": compiled(work, "pause")}
            load = {"load": compiled(work, "load"), "bin/busybox": Path(busybox).read_bytes()}
            write_image(image_folder / "pause.tar", PAUSE_IMAGE, pause, {}, ["/pause"])
            links = {f"bin/{applet}": "busybox" for applet in APPLETS}
            write_image(image_folder / "load.tar", LOAD_IMAGE, load, links, ["/load"])
            for name_of_program in ("ask", "forward"):
                (image_folder / name_of_program).write_bytes(compiled(work, name_of_program))
                (image_folder / name_of_program).chmod(0o755)
            folder = finished(image_folder, name)
    return folder


def ensure_own_image(progress: Progress) -> Image:
    """Build Plimsoll's image from what is in the tree now.

    Raises:
        GuestError: It cannot be built.
    """
    architecture = native_architecture()
    try:
        layers = make_layers(architecture, version(), progress)
        # In a folder of this very content: a guest of another run may be reading the one before.
        folder = cache_root() / f"own-{layers[-1].archive().diff_id[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
        image = layout.write_image(layers, architecture, folder)
    except ImageError as error:
        raise GuestError(str(error)) from error
    older = sorted(cache_root().glob("own-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in older[KEPT_OWN_IMAGES:]:
        shutil.rmtree(path, ignore_errors=True)
    return image


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
    """Return every parent folder of the paths, parents first."""
    parents = {str(parent) for path in paths for parent in Path(f"{path}x").parents}
    return sorted(parents - {"."})


def entry(path: str, kind: bytes, mode: int, *, size: int = 0, link: str = "") -> tarfile.TarInfo:
    """Return a tar entry without a time or an owner: the same bytes make the same image."""
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.size, info.linkname = kind, mode, size, link
    return info


@contextmanager
def unfinished_folder() -> Iterator[Path]:
    """Give a folder to work in beside the final places; what is left there goes with it."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=cache_root()) as folder:
        yield Path(folder)


def finished(folder: Path, name: str) -> Path:
    """Put a complete folder into its place by one rename; another run may have been faster."""
    target = cache_root() / name
    try:
        folder.rename(target)
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
