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
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
MANYLINUX: Final = ("manylinux_2_36", "manylinux_2_34", "manylinux_2_28", "manylinux_2_27", "manylinux_2_26",
                    "manylinux_2_24", "manylinux_2_17", "manylinux2014", "manylinux_2_12", "manylinux_2_5")  # fmt: skip
"""Debian 12 has glibc 2.36, and runs what was built for an older one; pip does not know that by itself."""
NOT_IN_A_POD: Final = ("kubernetes",)
"""Reads kubeconfig files and nothing else: a pod has its service account. With all it needs it is 60 MB."""
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
    """Give the lock of an architecture: ``NAME==VERSION --hash=sha256:SUM`` a line, as pip reads it."""
    return Path(__file__).with_name(f"requirements-{architecture}.txt")


def read_requirements(text: str) -> dict[str, tuple[str, str]]:
    """Give version and SHA-256 by name."""
    found = re.findall(r"^([\w.-]+)==(\S+) --hash=sha256:([0-9a-f]{64})$", text, re.M)
    return {name: (version, digest) for name, version, digest in found}


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
    """Give every file that the wheel is made of, without what was built or is nobody's."""
    found: list[Path] = []
    for name in SOURCES:
        path = REPOSITORY / name
        found += [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return sorted(one for one in found if one.suffix not in {".pyc", ".so", ".o"} and one.name != "_sampler.c")


def source_digest() -> str:
    """Give a digest of all that the wheel is made of."""
    digest = hashlib.sha256()
    for path in [*sources(), BUILD_REQUIREMENTS]:
        digest.update(f"{path.relative_to(REPOSITORY)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build_wheel(architecture: str, target: Path) -> None:
    """Build Plimsoll with its C sampler and unpack it below ``target``.

    Raises:
        ImageError: Nothing here compiles for that architecture.
    """
    if platform.machine() != MACHINES[architecture]:
        raise ImageError(
            f"image: this machine is {platform.machine()} and compiles no C for {architecture}; "
            f"docker buildx build --platform linux/{architecture} . does"
        )
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
        run([sys.executable, "setup.py", "-q", "bdist_wheel", "--dist-dir", work / "wheel"], copy, environment)
        (wheel,) = (work / "wheel").glob("*.whl")
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--no-index"]
        words += ["--disable-pip-version-check", "--root-user-action=ignore"]
        run([*words, "--target", target, wheel])
    if not list(target.glob("agent/sensing/_sampler*.so")):
        raise ImageError("image: the C sampler was not built; apt-get install -y gcc libc6-dev python3-dev")


def install_tools(target: Path) -> None:
    """Install what builds the wheel, for the Python that runs this."""
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--require-hashes"]
    words += ["--disable-pip-version-check", "--root-user-action=ignore"]
    run([*words, "--target", target, "--requirement", BUILD_REQUIREMENTS])


def read_metadata(folder: Path) -> list[Message]:
    """Give the metadata of every distribution below ``folder``, by name."""
    found = [email.message_from_bytes(path.read_bytes()) for path in sorted(folder.glob("*.dist-info/METADATA"))]
    return sorted(found, key=lambda one: str(one["Name"]).lower())


def interpreter(root: Path, architecture: str) -> list[str]:
    """Give the command of an unpacked image's own Python, without chroot and so without root.

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
