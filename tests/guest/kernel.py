"""The guest's kernel: taken from the distribution's package archive once, kept outside the tree, found again.

Nothing is installed. The cache holds, per kernel release and recipe, ``vmlinuz``, ``initramfs.gz`` and
``origin.json`` (package, version and checksum); a folder appears under its final name only when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.image.apt import Apt
from tests.image.cache import ImageError

INIT: Final = Path(__file__).with_name("init.sh")
MODULES: Final = ("virtio_pci", "virtio_rng", "9pnet_virtio", "9p", "overlay")
"""Loaded by the initramfs in this order, each after what it depends on."""
META_PACKAGES: Final = ("linux-image-amd64", "linux-image-generic")
"""Debian's and Ubuntu's name for the newest kernel of the release; Debian 12 answers with its 6.1 series."""
SERIES: Final = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie"}
"""Kernel series that Debian has, and its release for each."""
HOST_PROGRAMS: Final = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "depmod": "kmod",
    "modprobe": "kmod",
    "cpio": "cpio",
    "setpriv": "util-linux",
}
"""Program to package."""
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""depmod and modprobe live in sbin, which a plain user's PATH lacks."""

Progress = Callable[[str], None]


class GuestError(Exception):
    """The guest cannot be prepared or run; one line that says what is missing and what mends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestKernel:
    """A kernel and initramfs ready to boot."""

    release: str
    vmlinuz: Path
    initramfs: Path
    origin: str
    """Package and version, or the path of the machine's own kernel."""


def cache_root() -> Path:
    """Return the folder of all guest kernels; need not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "plimsoll" / "guest"


def ensure(
    progress: Progress = lambda _line: None, modules: Sequence[str] = MODULES, series: str | None = None
) -> GuestKernel:
    """Find the prepared kernel, or obtain and build it.

    Args:
        progress: Is given a line when something begins or ends.
        modules: What the initramfs loads; another list is another image beside the first.
        series: One of ``SERIES``, from Debian; None = the newest that this machine's own apt offers.

    Raises:
        GuestError: Host packages are missing, or no kernel can be had.
    """
    if platform.machine() != "x86_64":
        raise GuestError(f"guest: this machine is {platform.machine()}; the guest tier is made for x86_64 only")
    if series is not None and series not in SERIES:
        raise GuestError(f"guest: no kernel {series}; allowed: {', '.join(SERIES)}")
    check_host_programs()
    root = cache_root()
    digest = recipe_digest(modules, series)
    kernel = find_prepared(root, digest)
    if kernel is not None:
        progress(f"guest kernel {kernel.release} ({kernel.origin}) found in {kernel.vmlinuz.parent}")
        return kernel
    root.mkdir(parents=True, exist_ok=True)
    # Beside the final place, so that the last step is one rename; an interrupted run leaves only this folder.
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=root) as unfinished:
        prepared = build(Path(unfinished), progress, modules, series)
        target = root / f"{prepared.name}-{digest}"
        try:
            prepared.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another run was faster: its result is as good
                raise
    again = find_prepared(root, digest)
    if again is None:
        raise GuestError(f"guest: {target} was prepared, but is not complete; remove it and try again")
    progress(f"guest kernel {again.release} ready in {again.vmlinuz.parent}")
    return again


def check_host_programs() -> None:
    """Refuse with one line when programs of the host are missing."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    missing = [program for program in HOST_PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        packages = " ".join(sorted({HOST_PROGRAMS[program] for program in missing}))
        raise GuestError(
            f"guest: {', '.join(missing)} not found; apt-get install -y --no-install-recommends {packages}"
        )


def recipe_digest(modules: Sequence[str] = MODULES, series: str | None = None) -> str:
    """Name what goes into the image: another init, list of modules or series of kernels is another image."""
    text = INIT.read_bytes() + "\0".join((*modules, *([] if series is None else [f"series {series}"]))).encode()
    return hashlib.sha256(text).hexdigest()[:12]


def find_prepared(root: Path, digest: str) -> GuestKernel | None:
    """Return the newest complete image of a recipe."""
    folders = sorted(root.glob(f"*-{digest}"), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in folders:
        try:
            origin = json.loads((folder / "origin.json").read_text())
        except (OSError, ValueError):
            continue
        return GuestKernel(
            release=origin["release"],
            vmlinuz=folder / "vmlinuz",
            initramfs=folder / "initramfs.gz",
            origin=origin["origin"],
        )
    return None


def build(work: Path, progress: Progress, modules: Sequence[str] = MODULES, series: str | None = None) -> Path:
    """Obtain a kernel and build its image below ``work``; returns the finished folder, named by the release."""
    try:
        tree, origin = unpack_packages(work, progress) if series is None else unpack_series(work, progress, series)
    except GuestError as no_package:
        if series is not None:
            raise
        own = own_kernel()
        if own is None:
            raise GuestError(f"{no_package}; and this machine has no kernel of its own in /boot") from no_package
        tree, origin = Path("/"), str(own)
        vmlinuz = own
    else:
        vmlinuz = next(tree.glob("boot/vmlinuz-*"))
    release = vmlinuz.name.removeprefix("vmlinuz-")
    progress(f"building the initramfs of {release}")
    folder = work / release
    folder.mkdir()
    shutil.copyfile(vmlinuz, folder / "vmlinuz")
    if tree != Path("/"):  # the packages carry no modules.dep: it is made at installation
        run(["depmod", "-b", str(tree), release])
    build_initramfs(work / "initramfs", module_files(tree, release, modules), folder / "initramfs.gz")
    (folder / "origin.json").write_text(json.dumps({"release": release, "origin": origin}) + "\n")
    return folder


def unpack_packages(work: Path, progress: Progress) -> tuple[Path, str]:
    """Download the kernel's packages with apt and unpack them; returns the unpacked root and what they were."""
    if shutil.which("apt-get") is None:
        raise GuestError("guest: no apt-get here to fetch a kernel with")
    image = newest_image()
    if image is None:
        progress("apt knows no kernel package: apt-get update")
        run(["apt-get", "update", "-qq"])
        image = newest_image()
    if image is None:
        raise GuestError(f"guest: apt offers none of {', '.join(META_PACKAGES)}; look at /etc/apt/sources.list")
    packages = [image, *(name for name in dependencies(image) if name.startswith("linux-modules-"))]
    progress(f"downloading {' '.join(packages)} (70 MB or so; once)")
    # Without the sandbox user, who may not write into a home folder.
    run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *packages], folder=work)
    return unpack_archives(work)


def unpack_series(work: Path, progress: Progress, series: str) -> tuple[Path, str]:
    """Download the newest kernel of a series of Debian's, by Debian's keys, and unpack it; as ``unpack_packages``."""
    release = SERIES[series]
    try:
        with Apt("amd64", release) as apt:
            progress(f"asking Debian's {release} for its kernel {series}")
            apt.update()
            image = next(name for name in apt.dependencies(META_PACKAGES[0]) if name.startswith("linux-image-"))
            progress(f"downloading {image} (70 MB or so; once)")
            apt.download([image], work)
    except ImageError as error:
        raise GuestError(f"guest: kernel {series}: {' '.join(str(error).split())}") from error
    return unpack_archives(work)


def unpack_archives(work: Path) -> tuple[Path, str]:
    """Unpack the packages that lie in a folder; returns the unpacked root and what they were."""
    tree = work / "root"
    origins = []
    for archive in sorted(work.glob("*.deb")):
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        origins.append(f"{archive.stem} sha256:{digest[:16]}")
        run(["dpkg-deb", "-x", str(archive), str(tree)])
        archive.unlink()
    if not (tree / "lib").exists():  # from Debian 13 on, packages name the folders that others link to
        (tree / "lib").symlink_to("usr/lib")
    return tree, ", ".join(origins)


def newest_image() -> str | None:
    """Return the package of the newest kernel that apt offers; None = apt knows none (its lists may be empty)."""
    for meta in META_PACKAGES:
        for name in dependencies(meta):
            if name.startswith("linux-image-"):
                return name
    return None


def dependencies(package: str) -> list[str]:
    """Return the names a package depends on; empty when apt does not know it."""
    answer = subprocess.run(["apt-cache", "depends", package], capture_output=True, text=True, check=False)
    lines = [line.strip() for line in answer.stdout.splitlines()]
    return [line.removeprefix("Depends: ").strip("<>") for line in lines if line.startswith("Depends: ")]


def own_kernel() -> Path | None:
    """Return the machine's newest kernel in /boot that has its modules and can be read."""
    kernels = sorted(Path("/boot").glob("vmlinuz-*"), key=lambda file: file.stat().st_mtime, reverse=True)
    for kernel in kernels:
        modules = Path("/lib/modules") / kernel.name.removeprefix("vmlinuz-") / "modules.dep"
        if modules.is_file() and os.access(kernel, os.R_OK):
            return kernel
    return None


def module_files(tree: Path, release: str, modules: Sequence[str] = MODULES) -> list[Path]:
    """Return the files of ``modules`` and of what they need, in the order of loading; built-in ones need none."""
    ordered: dict[Path, None] = {}
    for module in modules:
        answer = run(["modprobe", "-S", release, "-d", str(tree), "--show-depends", module])
        for line in answer.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "insmod":
                ordered[Path(rest.split()[0])] = None
    return list(ordered)


def build_initramfs(tree: Path, modules: Iterable[Path], target: Path) -> None:
    """Pack busybox, the modules and the init script."""
    (tree / "bin").mkdir(parents=True)
    (tree / "modules").mkdir()
    (tree / "dev").mkdir()
    busybox = shutil.which("busybox", path=f"/bin:/usr/bin:{SYSTEM_PATH}")
    if busybox is None:
        raise GuestError("guest: busybox not found; apt-get install -y busybox-static")
    shutil.copy(busybox, tree / "bin" / "busybox")
    shutil.copyfile(INIT, tree / "init")
    (tree / "init").chmod(0o755)
    for index, module in enumerate(modules):
        name = module.name.removesuffix(".xz").removesuffix(".zst")
        (tree / "modules" / f"{index:02}-{name}").write_bytes(read_module(module))
    script = "find . | cpio --quiet -o -H newc -R 0:0 | gzip -1 -n"
    with target.open("wb") as out:
        subprocess.run(["bash", "-o", "pipefail", "-c", script], cwd=tree, stdout=out, check=True)


def read_module(module: Path) -> bytes:
    """Read a module, unpacked: insmod of busybox takes plain files only."""
    if module.suffix == ".xz":
        return lzma.decompress(module.read_bytes())
    if module.suffix == ".zst":
        return subprocess.run(["zstd", "-dc", str(module)], stdout=subprocess.PIPE, check=True).stdout
    return module.read_bytes()


def run(command: list[str], folder: Path | None = None) -> str:
    """Run a program of the host; its words become the error's.

    Raises:
        GuestError: It failed.
    """
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}", "LC_ALL": "C"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise GuestError(f"guest: {' '.join(command[:3])} failed: {words[-300:]}")
    return done.stdout
