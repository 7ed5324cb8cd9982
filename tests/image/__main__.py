"""``python -m tests.image`` (``make image``): the container image, without Docker, a daemon or root.

``build`` writes an OCI layout, one archive of it and the bill of materials; ``check`` builds all a second time from
nothing and compares; ``layers`` writes only the layers' files (the Dockerfile's way); ``lock`` renews what the image
is made of. Exit code 0: done; 1: not.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from tests.image import debian, lock
from tests.image.cache import REPOSITORY, ImageError
from tests.image.checking import build_again
from tests.image.layers import OWN_FOLDERS, UID, make_layers, native_architecture
from tests.image.layout import version, write_image


def main() -> int:
    """Do what the command line says."""
    arguments = parse()
    try:
        if arguments.command == "lock":
            lock.renew(say)
        elif arguments.command == "layers":
            write_layers(arguments.folder, arguments.arch or native_architecture(), arguments.locked)
        elif arguments.command == "check":
            say(build_again(arguments.arch or native_architecture(), say, only_locked=arguments.locked))
        else:
            build(arguments.folder, arguments.arch or native_architecture(), arguments.revision, arguments.locked)
    except ImageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.image", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("build", "check", "layers", "lock"), default="build")
    parser.add_argument("folder", nargs="?", type=Path, default=REPOSITORY / "build" / "image", help="where to write")
    parser.add_argument("--arch", choices=debian.ARCHITECTURES, help="default: this machine's")
    parser.add_argument("--revision", help="the commit, for the labels")
    parser.add_argument(
        "--locked", action="store_true", help="refuse to build where Debian has dropped what packages.txt names"
    )
    return parser.parse_args()


def build(folder: Path, architecture: str, revision: str | None, only_locked: bool) -> None:
    """Build, and tell what came out."""
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    layers = make_layers(architecture, version(), say, only_locked=only_locked)
    image = write_image(layers, architecture, folder, revision)
    say(f"{image.reference} {architecture} {image.digest}")
    say(f"{image.compressed_bytes / 1e6:.1f} MB compressed, {image.unpacked_bytes / 1e6:.1f} MB unpacked")
    for path in (image.layout, image.archive, image.sbom):
        say(str(path))
    say(f"done in {time.monotonic() - begun:.1f} s")


def write_layers(folder: Path, architecture: str, only_locked: bool) -> None:
    """Write the files of each layer below ``FOLDER/NAME``, with their owners."""
    for layer in make_layers(architecture, version(), say, only_locked=only_locked):
        target = folder / layer.name
        shutil.copytree(layer.tree, target, symlinks=True)
        for name in OWN_FOLDERS:
            if (target / name).is_dir():
                shutil.chown(target / name, UID, UID)
        for name in ("tmp", "var/tmp"):
            if (target / name).is_dir():
                (target / name).chmod(0o1777)


def say(line: str) -> None:
    """Tell what goes on."""
    print(f"image: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
