"""Names for cgroups from a pods file: who is who, and what they request. Keeps the last good list."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from agent.core.cluster.pod_index import Belonging, PodIndex, belonging, join
from agent.core.cluster.unit import UnitIdentity, UnitResources
from agent.kube.objects.pods_file import PodsFileError, load_pods

log = logging.getLogger(__name__)


class NoPods:
    """There is no pod source: units keep what their cgroup tells."""

    age_seconds: float | None = None

    def name(self, identity: UnitIdentity) -> tuple[UnitIdentity, UnitResources]:
        """Return the identity as it is."""
        return identity, UnitResources()

    def belonging(self, identity: UnitIdentity) -> Belonging:
        """Begin empty."""
        return belonging(identity, PodIndex())

    def refresh(self) -> bool:
        """There is never news."""
        return False


class PodsFile:
    """Names from ``--pods FILE``; the file is read again when it changes.

    A change that cannot be read keeps the names before it and is said once: a half-written file must not unname a node.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            PodsFileError: It cannot be read or understood; the message names file, place and value.
        """
        self._path = path
        self._stamp = self._read_stamp()
        self._index = PodIndex(load_pods(path))
        self._read_monotonic_ns = time.monotonic_ns()
        self._is_broken = False

    @property
    def age_seconds(self) -> float:
        """How long ago the list in force was read."""
        return (time.monotonic_ns() - self._read_monotonic_ns) / 1e9

    def _read_stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def refresh(self) -> bool:
        """Read the file again if it changed; True = other names may hold now."""
        stamp = self._read_stamp()
        if stamp is None or stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self._index = PodIndex(load_pods(self._path))
        except PodsFileError as error:
            if not self._is_broken:
                log.warning("pods file not taken; the names before it stay", extra={"cause": str(error)})
            self._is_broken = True
            return False
        self._read_monotonic_ns = time.monotonic_ns()
        self._is_broken = False
        return True

    def name(self, identity: UnitIdentity) -> tuple[UnitIdentity, UnitResources]:
        """Return the identity with pod and container names where the file knows them."""
        return join(identity, self._index)

    def belonging(self, identity: UnitIdentity) -> Belonging:
        """Find the workload of a named container, and what its pod says of sizing."""
        return belonging(identity, self._index)
