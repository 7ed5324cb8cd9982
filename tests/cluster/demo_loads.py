"""Gives every pod of one node real cgroups of this machine and a load in each, for as long as the pod is there."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Final

import agent.cli.demo.load
from tests.cluster import objects
from tests.cluster.acting_node import ActingNode
from tests.cluster.api import Api, ApiError, Json
from tests.cluster.demo_workloads import LOAD, USUAL_LOAD
from tests.kernel.cgroups import CgroupTree

PROGRAM: Final = Path(agent.cli.demo.load.__file__)
STANDING_BACK: Final = ("sh", "-c", '{ echo 10 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 10 "$@"', "load")
"""Loads wait for each other, and stand back for whatever else the machine has to do.

Where the scheduler weighs sessions (autogroups), niceness counts only among those of one session.
"""


class DemoLoads:
    """What runs in the pods of a node. One thread; call ``look`` now and then.

    Args:
        api: Who may list pods.
        node: The node's name.
        tree: Where the cgroups are; it removes them at its end.
    """

    def __init__(self, api: Api, node: str, tree: CgroupTree) -> None:
        self._api, self._node, self._tree = api, node, tree
        self._made: dict[str, str] = {}
        """Uid of a pod -> its cgroup below the tree."""

    def look(self) -> None:
        """Start what has come, remove what has gone; nothing while the API server is away."""
        try:
            pods = self._api.items("/api/v1/pods", fieldSelector=f"spec.nodeName={self._node}")
        except (OSError, ApiError):
            return
        running = {pod["metadata"]["uid"]: pod for pod in pods if pod["status"].get("phase") == "Running"}
        for uid in self._made.keys() - running.keys():
            self._tree.remove(self._made.pop(uid))
        for uid in running.keys() - self._made.keys():
            self._inhabit(running[uid])

    def _inhabit(self, pod: Json) -> None:
        load = pod["metadata"].get("annotations", {}).get(LOAD, USUAL_LOAD)
        for container in objects.lasting_containers(pod["spec"]):
            path = ActingNode.cgroup_of(pod, container["name"])
            self._made[pod["metadata"]["uid"]] = str(Path(path).parent)
            self._delegate(path)
            directory = str(self._tree.make(path))
            self._tree.spawn(path, [*STANDING_BACK, sys.executable, "-S", "-E", str(PROGRAM), directory, *load.split()])

    def _delegate(self, path: str) -> None:
        """Hand the controllers down to a path, as a kubelet does: there is no memory.current without."""
        levels = [self._tree.mount, self._tree.base]
        for part in Path(path).parent.parts:
            levels.append(levels[-1] / part)
        for level in levels:
            level.mkdir(exist_ok=True)
            for controller in (level / "cgroup.controllers").read_text(encoding="ascii").split():
                if controller in ("cpu", "memory"):
                    # Refused where processes live in an inner cgroup: then there are fewer signals.
                    with contextlib.suppress(OSError):
                        (level / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
