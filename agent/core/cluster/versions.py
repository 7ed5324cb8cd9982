"""Versions of API server and kubelet, and what they let an agent do. Core, pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from agent.core.cluster.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Which steps the API server and this node's kubelet can do. False = withheld, said once."""

    resize: bool
    """In-place resize at all: both 1.33 or newer."""
    memory_limit_down: bool
    """A memory limit may fall without a restart: both 1.34 or newer. Older: only where the container restarts."""
    pod_level_resize: bool
    """``spec.resources`` may be resized: both 1.36 or newer, and the node declares the feature."""
    init_containers: bool
    """Init containers that end may be resized: both 1.37 or newer."""
    reasons: tuple[str, ...] = ()
    """One sentence for each gate that is closed: what is too old, and what it would need. Where nothing can be resized
    at all, only that."""


POD_LEVEL_RESIZE_FEATURE: Final = "InPlacePodLevelResourcesVerticalScaling"
_WINDOWS: Final = "windows"

_VERSION: Final = re.compile(r"v?(?P<major>[0-9]{1,6})\.(?P<minor>[0-9]{1,6})(?![0-9])")


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """What of a version decides: behaviour changes with the minor number only."""

    major: int
    minor: int

    def __str__(self) -> str:
        """Return ``1.33``."""
        return f"{self.major}.{self.minor}"


RESIZE: Final = Version(1, 33)
MEMORY_LIMIT_DOWN: Final = Version(1, 34)
POD_LEVEL_RESIZE: Final = Version(1, 36)
INIT_CONTAINERS: Final = Version(1, 37)


def parse_version(text: str | None) -> Version | None:
    """Read a git version: ``v1.33.1``, and what vendors make of it (``v1.33.1-eks``, ``1.34+``, ``v1.37.0-alpha.2``).

    Whatever follows the minor number does not matter.

    Returns:
        None where it does not start with two numbers, or there is none.
    """
    match = _VERSION.match(text.strip()) if text is not None else None
    return Version(int(match["major"]), int(match["minor"])) if match is not None else None


def resize_supported(git_version: str | None) -> bool:
    """Return whether a server or kubelet of this version resizes in place by default; False if not understood."""
    version = parse_version(git_version)
    return version is not None and version >= RESIZE


def gates_of(server_version: str | None, node: Node | None) -> Gates:
    """Return which steps API server and kubelet can do; both must be new enough, as they may be three minors apart.

    Args:
        server_version: gitVersion of the API server; None = not known.
        node: The node; None = not known. What is not known cannot.

    Source:
        KEP-1287 (resize: on by default from 1.33; memory limits down: 1.34; init containers: 1.37), KEP-5419 (pod
        level: 1.36, where the node declares the feature).
    """
    kubelet_version = node.kubelet_version if node is not None else None
    sides = (("the API server", server_version), ("the node's kubelet", kubelet_version))
    reasons: list[str] = []

    def lacking(what: str, needed: Version) -> str | None:
        missing = [_too_old(who, version, needed) for who, version in sides]
        sentences = [sentence for sentence in missing if sentence is not None]
        return f"{what}: needs {needed}, {' and '.join(sentences)}" if sentences else None

    def is_open(reason: str | None) -> bool:
        if reason is not None:
            reasons.append(reason)
        return reason is None

    no_resize = lacking("no resize in place", RESIZE)
    if no_resize is None and node is not None and node.operating_system == _WINDOWS:
        no_resize = "no resize in place: the node runs Windows"
    if not is_open(no_resize):
        return Gates(
            resize=False,
            memory_limit_down=False,
            pod_level_resize=False,
            init_containers=False,
            reasons=tuple(reasons),
        )
    no_pod_level = lacking("no resize of pod-level resources", POD_LEVEL_RESIZE)
    declared = node.declared_features if node is not None else None
    if no_pod_level is None and POD_LEVEL_RESIZE_FEATURE not in (declared or ()):
        no_pod_level = f"no resize of pod-level resources: the node does not declare {POD_LEVEL_RESIZE_FEATURE}"
    return Gates(
        resize=True,
        memory_limit_down=is_open(
            lacking("memory limits are not lowered unless the container restarts", MEMORY_LIMIT_DOWN)
        ),
        pod_level_resize=is_open(no_pod_level),
        init_containers=is_open(lacking("no resize of init containers that end", INIT_CONTAINERS)),
        reasons=tuple(reasons),
    )


def _too_old(who: str, text: str | None, needed: Version) -> str | None:
    if text is None:
        return f"the version of {who} is not known"
    version = parse_version(text)
    if version is None:
        return f"{text!r} of {who} is not understood"
    return f"{who} is {text}" if version < needed else None
