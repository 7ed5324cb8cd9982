"""Tar archives of our own, unpacked on any Python."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any, Literal


def extract_all(archive: tarfile.TarFile, folder: Path, rule: Literal["data", "tar"] = "data") -> None:
    """Unpack everything into a folder by a rule of ``tarfile``; Python before 3.11.4, as Debian 12's, knows none."""
    rules: dict[str, Any] = {"filter": rule} if hasattr(tarfile, "data_filter") else {}
    archive.extractall(folder, **rules)  # noqa: S202 - made by this repository
