"""What pods' containers hold of memory at this moment, read from the kernel just before a limit falls. Node."""

from __future__ import annotations

import logging
from pathlib import Path

from agent.core.cluster.pod import Pod
from agent.node.keepers.pod_limits import pod_paths_of
from agent.node.sampling.unit_table import UnitTable

log = logging.getLogger(__name__)


class MemoryInUse:
    """Reads; any thread."""

    def __init__(self, mount: Path, units: UnitTable) -> None:
        self._mount, self._units = mount, units

    def of(self, pod: Pod) -> dict[str, int]:
        """Read memory.current of a pod's containers, and of the pod itself under the empty name.

        The kernel is asked anew: a limit that falls below what is in use kills, and a reading of a second ago is old.
        """
        identities = [unit.identity for unit in self._units.all() if unit.identity.pod_uid == pod.cgroup_uid]
        paths = [
            (identity.container, identity.cgroup_path) for identity in identities if identity.container is not None
        ]
        paths += [("", path) for path in pod_paths_of(identities).values()]
        bytes_by_name: dict[str, int] = {}
        for name, path in paths:
            try:
                text = (self._mount / path.lstrip("/") / "memory.current").read_text(encoding="ascii")
                bytes_by_name[name] = max(bytes_by_name.get(name, 0), int(text))
            except (OSError, ValueError):
                log.debug("memory in use not read", extra={"path": path})
        return bytes_by_name
