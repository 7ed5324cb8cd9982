"""What is locked for developers is what pyproject.toml asks for, each file by its hash."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_ROOT = Path(__file__).parents[2]
_MAKE = "made anew as its first lines say"


def _locked(text: str) -> dict[str, tuple[str, list[str]]]:
    locks: dict[str, tuple[str, list[str]]] = {}
    for block in re.split(r"^(?=[a-z0-9])", text, flags=re.M)[1:]:
        name, version = block.split()[0].split("==")
        locks[canonicalize_name(name.partition("[")[0])] = (version, re.findall(r"--hash=sha256:([0-9a-f]{64})", block))
    return locks


def test_everything_that_developers_install_is_locked_by_hashes() -> None:
    locked = _locked((_ROOT / ".ci/requirements-dev.txt").read_text())
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    texts = [*project["build-system"]["requires"], *project["project"]["dependencies"], *chain(*extras.values())]
    asked = [Requirement(text) for text in texts]
    for requirement in asked:
        if requirement.name != "plimsoll":
            version, _ = locked[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), (
                f"{requirement} is locked at {version}: .ci/requirements-dev.txt is {_MAKE}"
            )
    assert all(hashes for _, hashes in locked.values())
