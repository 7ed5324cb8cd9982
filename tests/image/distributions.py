"""Python's part of the image: distributions by version and checksum, and Plimsoll's own wheel.

The locks are ``requirements-ARCHITECTURE.txt``. pip fetches and unpacks; what it notes about an installation, and what
only tests and compilers want, is taken out.
"""

from __future__ import annotations

import email
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from email.message import Message
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tests.image.cache import REPOSITORY, ImageError, cache_root, folder_made, run

BUILD_REQUIREMENTS: Final = Path(__file__).with_name("build-requirements.txt")
PYTHON_VERSION: Final = "3.11"
PLACE: Final = f"usr/local/lib/python{PYTHON_VERSION}/dist-packages"
"""On the path of Debian's interpreter."""
C_LIBRARY: Final = 36
"""Debian 12's: glibc 2.36."""
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
MANYLINUX: Final = ("manylinux_2_36", "manylinux_2_34", "manylinux_2_28", "manylinux_2_27", "manylinux_2_26",
                    "manylinux_2_24", "manylinux_2_17", "manylinux2014", "manylinux_2_12", "manylinux_2_5")  # fmt: skip
"""Debian 12 has glibc 2.36, and runs what was built for an older one; pip does not know that by itself."""
NOT_IN_A_POD: Final = ("kubernetes",)
"""Reads kubeconfigs with plugins or several files; a pod has its service account. With all it needs it is 60 MB."""
SOURCES: Final = ("agent", "native", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
LEFT_OUT: Final = (
    "bin/*",
    "*/tests/*",
    "*.dist-info/RECORD",
    "*.dist-info/INSTALLER",
    "*.dist-info/REQUESTED",
    "*.dist-info/direct_url.json",
    "*.dist-info/sboms/*",
    "*.pyi",
    "*.pyx",
    "*.pxd",
    "*.a",
    "*.h",
    "*.c",
    "numpy/f2py/*",
    "numpy/_core/include/*",
    "numpy/_core/lib/*",
    "numpy/_pyinstaller/*",
    "sqlalchemy/testing/*",
    "alembic/testing/*",
)


def requirements_of(architecture: str) -> Path:
    """Return the lock of an architecture: ``NAME==VERSION --hash=sha256:SUM`` a line, as pip reads it."""
    return Path(__file__).with_name(f"requirements-{architecture}.txt")


def read_requirements(text: str) -> dict[str, tuple[str, str]]:
    """Return version and SHA-256 by name."""
    requirements = re.findall(r"^([\w.-]+)==(\S+) --hash=sha256:([0-9a-f]{64})$", text, re.M)
    return {name: (version, digest) for name, version, digest in requirements}


def installed(requirements: Path, architecture: str, target: Path) -> None:
    """Unpack what a lock names below ``target``, for an architecture and the image's Python.

    Raises:
        ImageError: pip cannot have it, or its checksum is another.
    """
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--require-hashes"]
    words += [
        "--only-binary",
        ":all:",
        "--disable-pip-version-check",
        "--no-warn-conflicts",
        "--root-user-action=ignore",
    ]
    words += [word for option in wheel_options(architecture) for word in option]
    run([*words, "--target", target, "--requirement", requirements])


def wheel_options(architecture: str) -> Iterator[tuple[str, str]]:
    """Give pip's options for wheels of another machine."""
    machine = MACHINES[architecture]
    for name in MANYLINUX:
        yield ("--platform", f"{name}_{machine}")
    yield ("--python-version", PYTHON_VERSION)
    yield ("--implementation", "cp")
    for abi in ("cp311", "abi3", "none"):
        yield ("--abi", abi)


def pruned(folder: Path) -> None:
    """Take out what nobody imports."""
    for path in sorted(folder.rglob("*"), reverse=True):
        name = str(path.relative_to(folder))
        if path.is_symlink() or path.is_file():
            if any(fnmatchcase(name, pattern) for pattern in LEFT_OUT) or "/__pycache__/" in name:
                path.unlink()
            else:
                path.chmod(0o755 if path.suffix == ".so" or ".so." in path.name else 0o644)
        elif not any(path.iterdir()):
            path.rmdir()
        else:
            path.chmod(0o755)


def sources() -> list[Path]:
    """Return every file that the wheel is made of, without what was built or is nobody's."""
    files: list[Path] = []
    for name in SOURCES:
        path = REPOSITORY / name
        files += [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sorted(file for file in files if file.suffix not in {".pyc", ".so", ".o"} and file.name != "_sampler.c")


def source_digest() -> str:
    """Return a digest of all that the wheel is made of."""
    digest = hashlib.sha256()
    for path in [*sources(), BUILD_REQUIREMENTS]:
        digest.update(f"{path.relative_to(REPOSITORY)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build_wheel(architecture: str, target: Path) -> None:
    """Build Plimsoll with its C sampler and unpack it below ``target``.

    Raises:
        ImageError: Nothing here compiles for that architecture, or only for a newer C library than the image's.
    """
    compiler = cross_compiler(architecture)
    tools = folder_made(
        cache_root() / "build-tools" / hashlib.sha256(BUILD_REQUIREMENTS.read_bytes()).hexdigest()[:12], install_tools
    )
    with tempfile.TemporaryDirectory(prefix="plimsoll-wheel-") as folder:
        work = Path(folder)
        copy = work / "plimsoll"
        for path in sources():
            place = copy / path.relative_to(REPOSITORY)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
        environment = {
            "PYTHONPATH": str(tools),
            # Of the place it was built in nothing stays.
            "CFLAGS": f"-g0 -ffile-prefix-map={copy}=.",
            "LDFLAGS": "-Wl,--build-id=none -s",
            "SOURCE_DATE_EPOCH": "315532800",
            "PYTHONHASHSEED": "0",
        }
        if compiler is not None:
            environment |= {"CC": compiler, "LDSHARED": f"{compiler} -shared"}
            environment["CFLAGS"] += f" -I{foreign_headers(work / 'headers', architecture)}"
        platform_name = f"linux_{MACHINES[architecture]}"
        words = ["setup.py", "-q", "bdist_wheel", "--plat-name", platform_name, "--dist-dir", str(work / "wheel")]
        run([sys.executable, *words], copy, environment)
        (wheel,) = (work / "wheel").glob("*.whl")
        words = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--no-index", "--only-binary", ":all:"]
        words += ["--disable-pip-version-check", "--root-user-action=ignore", "--platform", platform_name]
        run([sys.executable, *words, "--python-version", PYTHON_VERSION, "--target", target, wheel])
    built = list(target.glob("agent/sensing/_sampler*.so"))
    if not built:
        raise ImageError("image: the C sampler was not built; apt-get install -y gcc libc6-dev python3-dev")
    newest = max(map(int, re.findall(rb"GLIBC_2\.(\d+)", built[0].read_bytes())))
    if newest > C_LIBRARY:
        advice = "build by the Dockerfile, whose compiler is Debian 12's"
        raise ImageError(f"image: the C sampler asks for glibc 2.{newest}, the image has 2.{C_LIBRARY}; {advice}")


def cross_compiler(architecture: str) -> str | None:
    """Return the compiler for an architecture that is not this machine's; None for its own.

    Raises:
        ImageError: It is not there.
    """
    machine = MACHINES[architecture]
    if platform.machine() == machine:
        return None
    compiler = f"{machine}-linux-gnu-gcc"
    if shutil.which(compiler) is None:
        packages = f"gcc-{machine.replace('_', '-')}-linux-gnu libc6-dev-{architecture}-cross"
        raise ImageError(
            f"image: {compiler} not found, and this machine is {platform.machine()}: apt-get install -y {packages} "
            f"(or docker buildx build --platform linux/{architecture} .)"
        )
    return compiler


def foreign_headers(folder: Path, architecture: str) -> Path:
    """Make a folder of headers in which Python's ``pyconfig.h`` is found for a machine that is not this one.

    Debian's is a switch that includes the file of the machine that is compiled for. Ours serves as well: both are
    little-endian with 64-bit longs, and the limited API depends on nothing else there.

    Args:
        folder: Made.
        architecture: That is compiled for.
    """
    headers = Path(sysconfig.get_path("include"))
    name = headers.name
    own = headers.parent / f"{platform.machine()}-linux-gnu" / name / "pyconfig.h"
    place = folder / f"{MACHINES[architecture]}-linux-gnu" / name
    place.mkdir(parents=True)
    if own.is_file():
        shutil.copyfile(own, place / "pyconfig.h")
    return folder


def install_tools(target: Path) -> None:
    """Install what builds the wheel, for the Python that runs this."""
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--require-hashes"]
    words += ["--disable-pip-version-check", "--root-user-action=ignore"]
    run([*words, "--target", target, "--requirement", BUILD_REQUIREMENTS])


def read_metadata(folder: Path) -> list[Message]:
    """Return the metadata of every distribution below ``folder``, by name."""
    metadata = [email.message_from_bytes(path.read_bytes()) for path in sorted(folder.glob("*.dist-info/METADATA"))]
    return sorted(metadata, key=lambda message: str(message["Name"]).lower())


def interpreter(root: Path, architecture: str) -> list[str]:
    """Return the command of an unpacked image's own Python, without chroot and so without root.

    Args:
        root: Holds Debian's part, for this machine's architecture.
        architecture: Of both.
    """
    loader = next(root.glob("usr/lib*/ld-linux-*.so.*"))
    libraries = root / "usr/lib" / f"{MACHINES[architecture]}-linux-gnu"
    return [str(loader), "--library-path", str(libraries), str(root / f"usr/bin/python{PYTHON_VERSION}")]


def compiled(command: list[str], root: Path, python_root: Path) -> None:
    """Compile all modules of a part.

    Args:
        command: Of the interpreter.
        root: Of the part.
        python_root: Where that interpreter's own modules are.
    """
    script = Path(__file__).with_name("bytecode.py")
    environment = {"PYTHONHOME": str(python_root / "usr"), "PYTHONHASHSEED": "0", "PYTHONPATH": ""}
    run([*command, "-s", "-S", "-B", "-P", script, root, root], environment=environment)


def loads(command: list[str], python_root: Path, folders: list[Path], module: str) -> str:
    """Import a module with the image's own Python; empty when it can be, else the last line of its words."""
    path = ":".join(map(str, folders))
    environment = {"PYTHONHOME": str(python_root / "usr"), "PYTHONPATH": path}
    words = [*command, "-s", "-S", "-B", "-P", "-c", f"import {module}"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
