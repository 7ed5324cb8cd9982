"""Who was killed for want of memory, from the counters of ``memory.events`` of a pod and its containers.

Sensing, pure: numbers in, kills out; ``memory_events`` reads the files, and ``parsing`` their text.
Source: "Memory Interface Files" in the kernel's cgroup-v2.rst.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class KillLedger:
    """Who was killed in one pod: each kill once, under its container's name where that is known.

    Counters are hierarchical: a kill in a container raises the pod's counter too, and the container's file may be gone
    with the container when its kill is told. So the pod's counter says how many kills there are, the containers'
    counters whose they were, and what no container claims is the pod's own.
    """

    pod_count: int | None = None
    """The pod's newest counter; None = no pod is watched."""
    _counts: dict[str, int] = field(default_factory=dict)
    _newcomers: set[str] = field(default_factory=set)
    """Containers that came after the pod and may have been killed in before they were first read."""
    _ahead: int = 0
    """Kills told of containers that the pod's counter, read just before, did not show yet."""

    def add_pod(self, count: int) -> None:
        """Set the pod's counter as the baseline."""
        self.pod_count = count
        self._ahead = 0

    def add_container(self, path: str, count: int) -> None:
        """Set a container's counter as the baseline; in a pod known already its first kills may still be claimed."""
        self._counts[path] = count
        if self.pod_count is not None and count:
            self._newcomers.add(path)

    def remove_container(self, path: str) -> None:
        """Forget a container; what the pod's counter still shows of it will be the pod's."""
        self._counts.pop(path, None)
        self._newcomers.discard(path)

    def remove_pod(self) -> None:
        """Forget the pod's counter; the containers go on for themselves."""
        self.pod_count = None
        self._ahead = 0

    def observe(self, pod_count: int | None, counts: Mapping[str, int]) -> tuple[int, dict[str, int]]:
        """Record new readings and return the kills that are new.

        Args:
            pod_count: The pod's oom_kill, read BEFORE the containers': the kernel counts upwards from the victim, so
                that whatever the pod shows, the victim's own counter shows as well. None = not readable (now).
            counts: The containers' oom_kill by path; those that could not be read are left out.

        Returns:
            Kills that are the pod's own, and kills by container, zeros left out. A counter that fell (another cgroup
            under an old name) is a new baseline and tells nothing.
        """
        kills = {
            path: count - self._counts[path]
            for path, count in counts.items()
            if path in self._counts and count > self._counts[path]
        }
        claimed_kills = sum(kills.values())
        unclaimed = 0
        if pod_count is not None and self.pod_count is not None:
            if pod_count < self.pod_count:
                self._ahead = 0
            else:
                balance = pod_count - self.pod_count - self._ahead - claimed_kills
                unclaimed = max(0, balance)
                self._ahead = max(0, -balance)
            for path in sorted(self._newcomers & counts.keys()):
                claimed = min(unclaimed, self._counts[path])
                if claimed:
                    kills[path] = kills.get(path, 0) + claimed
                    unclaimed -= claimed
            self._newcomers.clear()
            self.pod_count = pod_count
        self._counts.update({path: count for path, count in counts.items() if path in self._counts})
        return unclaimed, kills
