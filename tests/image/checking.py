"""Whether the image can be built again: all anew in an empty cache, from the same packages, to the same digest."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tests.image.cache import ImageError, Progress, cache_root
from tests.image.layers import make_layers
from tests.image.layout import version, write_image

KEPT = ("packages", "substitutes")
"""Of the cache, for the second time: what Debian gave, and what was taken in place of a stale lock."""


def build_again(architecture: str, progress: Progress, *, only_locked: bool = False) -> str:
    """Build twice, the second time with nothing but the fetched packages; give the digest.

    Raises:
        ImageError: The two differ; the message names the files.
    """
    first_layers = make_layers(architecture, version(), progress, only_locked=only_locked)
    with tempfile.TemporaryDirectory(prefix="plimsoll-image-") as folder:
        first = write_image(first_layers, architecture, Path(folder, "first"))
        cache = cache_root()
        before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        try:
            for name in KEPT:
                if (cache / name).is_dir():
                    shutil.copytree(cache / name, cache_root() / name)
            second_layers = make_layers(architecture, version(), progress, only_locked=only_locked)
            second = write_image(second_layers, architecture, Path(folder, "second"))
        finally:
            if before is None:
                del os.environ["XDG_CACHE_HOME"]
            else:
                os.environ["XDG_CACHE_HOME"] = before
        if first.digest != second.digest:
            names = [
                f"  {layer.name}/{name}"
                for layer, other in zip(first_layers, second_layers, strict=True)
                for name in differing(layer.tree, other.tree)
            ]
            listed = "\n".join(names[:20]) or "  (the same files: archives or configuration)"
            raise ImageError(f"image: built again it differs, {first.digest} and {second.digest}:\n{listed}")
    return f"{first.digest} both times"


def differing(folder: Path, other: Path) -> list[str]:
    """Return the paths below two folders that are not the same file in both."""
    names = []
    for name in sorted({str(path.relative_to(tree)) for tree in (folder, other) for path in tree.rglob("*")}):
        left, right = folder / name, other / name
        if left.is_symlink() or right.is_symlink():
            same = left.is_symlink() and right.is_symlink() and os.readlink(left) == os.readlink(right)
        elif left.is_file() and right.is_file():
            same = left.read_bytes() == right.read_bytes()
        else:
            same = left.is_dir() and right.is_dir()
        if not same:
            names.append(name)
    return names
