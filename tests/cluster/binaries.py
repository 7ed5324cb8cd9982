"""``python -m tests.cluster.binaries NAME...``: the programs of the tests' cluster, built once from pinned Go modules.

Each program is compiled from the public module proxy by a go.mod and go.sum of ours below ``modules/``. They are kept
outside the tree, in ``${XDG_CACHE_HOME:-~/.cache}/plimsoll/cluster/MODULE-VERSION-RECIPE``; RECIPE is a digest of
go.mod, go.sum and the way of building, so that another pin is another folder. What is there is used without Go.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.toolchain import ToolchainError, find_go, needed_version

KUBERNETES: Final = "1.37.1"
"""What the tests run against unless told otherwise."""
OLDEST: Final = "1.33.13"
"""Of the oldest minor that the chart takes: it resizes, but knows no resources of whole pods by default."""
VERSIONS: Final = (KUBERNETES, "1.34.4", OLDEST)
"""The Kubernetes versions that have a module folder: the newest, the oldest on which limits of memory may fall, and the
oldest of all."""
MODULES: Final = Path(__file__).with_name("modules")
ETCD, HELM, KWOK, KARPENTER, CONTAINERD = "3.6.8", "3.22.0", "0.8.0", "1.15.0", "2.3.7"
FOR_TESTS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "helm")
"""What ``make test`` needs; the others are built when something asks for them."""
FROM_ASSETS: Final = ("etcd", "kube-apiserver", "kubectl")
"""What a folder named by KUBEBUILDER_ASSETS holds."""
LAST_LINES: Final = 15
"""How much of Go's output an error carries."""

Progress = Callable[[str], None]


class BinaryError(Exception):
    """A program is missing or cannot be built; the first line says which and what mends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How one program is built."""

    name: str
    version: str
    module: str
    """Folder below ``modules/``."""
    package: str
    flags: str = ""
    """The linker's settings beside ``-s -w``."""
    tags: str = ""
    seconds: int = 60
    """What to expect on two cores with cold caches, for people who wait."""

    def folder(self) -> Path:
        """Return the folder in the cache; need not exist."""
        recipe = hashlib.sha256()
        for name in ("go.mod", "go.sum"):
            recipe.update((MODULES / self.module / name).read_bytes())
        recipe.update(f"{self.flags}\0{self.tags}".encode())
        name = self.module if self.module.endswith(self.version) else f"{self.module}-{self.version}"
        return cache_root() / f"{name}-{recipe.hexdigest()[:12]}"

    def path(self) -> Path:
        """Return the place of the program in the cache; need not exist."""
        return self.folder() / self.name

    def command(self, go: Path, target: Path) -> list[str]:
        """Return the command that builds it."""
        # The same bytes wherever it is built: no paths of this machine, no version control, no debug symbols.
        base = [str(go), "build", "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {self.flags}".strip()]
        return [*base, *(["-tags", self.tags] if self.tags else []), "-o", str(target), self.package]


def kubernetes_program(name: str, version: str) -> Program:
    """Return the recipe of one of Kubernetes' own programs."""
    major, minor, _patch = version.split(".")
    # Without these the server calls itself v0.0.0-master, and whoever asks for its version goes astray.
    where = "-X k8s.io/component-base/version"
    return Program(
        name=name,
        version=version,
        module=f"kubernetes-{version}",
        package=f"k8s.io/kubernetes/cmd/{name}",
        flags=f"{where}.gitVersion=v{version} {where}.gitMajor={major} {where}.gitMinor={minor}",
        # The API server comes first and builds most of what the others share.
        seconds={"kube-apiserver": 320, "kube-controller-manager": 110}.get(name, 40),
    )


def containerd_program(name: str) -> Program:
    """Return the recipe of one of containerd's programs, without the snapshotters that need libraries of C."""
    return Program(
        name=name,
        version=CONTAINERD,
        module="containerd",
        package=f"github.com/containerd/containerd/v2/cmd/{name}",
        flags=f"-X github.com/containerd/containerd/v2/version.Version={CONTAINERD}",
        tags="no_btrfs no_zfs no_devmapper",
    )


def version_under_test() -> str:
    """Return the Kubernetes version that the tests are to run against: ``TESTED_KUBERNETES``, else the newest.

    Not a name that begins with PLIMSOLL_: those are settings, and programs refuse one that they do not know.
    """
    return os.environ.get("TESTED_KUBERNETES", KUBERNETES)


def programs(version: str = KUBERNETES) -> dict[str, Program]:
    """Return every program by name, Kubernetes' own in the version asked for.

    Raises:
        BinaryError: There is no module folder for that version.
    """
    if version not in VERSIONS:
        raise BinaryError(f"cluster: Kubernetes {version} is not pinned here (one of {', '.join(VERSIONS)})")
    helm = "-X helm.sh/helm/v3/internal/version.version"
    own = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet")
    listed = [
        Program(name="etcd", version=ETCD, module="etcd", package="go.etcd.io/etcd/server/v3"),
        *(kubernetes_program(name, version) for name in own),
        *(containerd_program(name) for name in ("containerd", "containerd-shim-runc-v2", "ctr")),
        Program(name="kwok", version=KWOK, module="kwok", package="sigs.k8s.io/kwok/cmd/kwok", seconds=120),
        Program(
            name="karpenter",
            version=KARPENTER,
            module="karpenter",
            package="sigs.k8s.io/karpenter/kwok",
            flags=f"-X sigs.k8s.io/karpenter/pkg/operator.Version={KARPENTER}",
            seconds=240,
        ),
        Program(
            name="helm",
            version=HELM,
            module="helm",
            package="helm.sh/helm/v3/cmd/helm",
            flags=f"{helm}=v{HELM}",
            seconds=90,
        ),
    ]
    return {program.name: program for program in listed}


def cache_root() -> Path:
    """Return the folder of all programs; need not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "plimsoll" / "cluster"


def find(name: str, version: str = KUBERNETES) -> Path | None:
    """Find a program that is there already: in KUBEBUILDER_ASSETS, else in the cache; starts no Go.

    Raises:
        BinaryError: No program has that name, or the version is not pinned.
    """
    known = programs(version)
    if name not in known:
        raise BinaryError(f"cluster: no program {name!r} (one of {', '.join(known)})")
    return from_assets(name, version) or (known[name].path() if known[name].path().is_file() else None)


def from_assets(name: str, version: str) -> Path | None:
    """Find a program in the folder that KUBEBUILDER_ASSETS names; one of another Kubernetes minor is not taken."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder or name not in FROM_ASSETS or not (path := Path(folder) / name).is_file():
        return None
    if name == "etcd":  # the one beside an apiserver is made for it
        return path
    question = [str(path), "version", "--client"] if name == "kubectl" else [str(path), "--version"]
    answer = subprocess.run(question, capture_output=True, text=True, check=False).stdout
    return path if f"v{version.rpartition('.')[0]}." in answer else None


def require(name: str, version: str = KUBERNETES) -> Path:
    """Return a program that must be there already; never builds (a build of minutes has no place inside a test).

    Raises:
        BinaryError: It is not there.
    """
    path = find(name, version)
    if path is None:
        which = "" if version == KUBERNETES else f" --version {version}"
        raise BinaryError(f"cluster: {name} is not built; run: python -m tests.cluster.binaries {name}{which}")
    return path


def ensure(names: Iterable[str], version: str = KUBERNETES, progress: Progress = lambda _line: None) -> dict[str, Path]:
    """Find programs, and build those that are missing.

    Args:
        names: Keys of ``programs``.
        version: Of Kubernetes; the other programs have one version each.
        progress: Is given a line when something begins or ends.

    Raises:
        BinaryError: A name is unknown, or a program cannot be built.
    """
    known = programs(version)
    paths: dict[str, Path] = {}
    for name in dict.fromkeys(names):
        path = find(name, version)
        if path is not None:
            progress(f"{name} found: {path}")
        paths[name] = path or build(known[name], progress)
    return paths


def build(program: Program, progress: Progress) -> Path:
    """Build one program into the cache, unless another process is doing so: then wait for it.

    Raises:
        BinaryError: Go is missing, or the build failed; the message carries the end of Go's output.
    """
    target = program.path()
    with one_builder_at_a_time(target, progress):
        if target.is_file():
            progress(f"{program.name} found: {target}")
            return target
        module = MODULES / program.module
        try:
            go = find_go(needed_version(module / "go.mod"), cache_root(), progress)
        except ToolchainError as error:
            raise BinaryError(str(error)) from error
        progress(f"building {program.name} {program.version} (about {program.seconds} s on two cores, once)")
        started = time.monotonic()
        # Beside the final place, so that the last step is one rename.
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=target.parent) as unfinished:
            binary = Path(unfinished) / program.name
            done = subprocess.run(
                program.command(go, binary),
                cwd=module,
                env=go_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                tail = "\n".join(f"  {line}" for line in done.stdout.splitlines()[-LAST_LINES:])
                raise BinaryError(f"cluster: {program.name} {program.version} does not build ({go}):\n{tail}")
            binary.rename(target)
    progress(f"{program.name} {program.version} built in {time.monotonic() - started:.0f} s: {target}")
    return target


def go_environment() -> dict[str, str]:
    """Return Go's environment: pinned modules only, no C compiler, no toolchain fetched behind our back."""
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off"}


@contextlib.contextmanager
def one_builder_at_a_time(target: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of one program; the kernel lets go of it however the holder ends."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"{target.name} is being built by another process: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Build what the command line names; 1 when something cannot be built."""
    names = sorted(programs())
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.binaries",
        description="Build the programs of the tests' cluster into the cache, or find them there.",
        epilog=f"Without a name: {' '.join(FOR_TESTS)}. All names: {' '.join(names)}.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which programs")
    parser.add_argument("--all", action="store_true", help="every program")
    parser.add_argument("--version", default=KUBERNETES, choices=VERSIONS, help="of Kubernetes (default %(default)s)")
    arguments = parser.parse_args()
    if arguments.all:
        names = sorted(programs(arguments.version))
    wanted = names if arguments.all else arguments.names or FOR_TESTS
    try:
        ensure(wanted, arguments.version, lambda line: print(f"cluster: {line}", flush=True))
    except BinaryError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
