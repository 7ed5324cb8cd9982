"""How long contention takes to become an accepted resize: the real agent, real cgroups, a real API server.

Each run wakes two frozen groups of loads that want more CPU than there is: a pod with a small request, and others. The
clock runs from the moment they are thawed until the API server tells a watcher of the pod's new request. Everything
else is the agent's default: a sweep a second, the fast lane four times a second.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.bench.reaction_times import Odd, Outcome, figures
from tests.cluster import fence, objects
from tests.cluster.acting_node import ActingNode, acting_node
from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.identities import create_namespace

RUNS: Final = 50
REQUEST: Final = "20m"
LOADS: Final = 3
"""Of the others, per CPU of the machine one at least: so somebody waits."""
SETTINGS: Final = {
    "act.mode": "enforce",
    "plan.minAgeSeconds": 0,
    "plan.replanSeconds": 3600,
    "act.resizesPerMinute": 600,
    "evaluateIntervalSeconds": 60,
    "recommend.minSpanSeconds": 600,
    "windows.cpuWindowSeconds": 600,
    "windows.rateWindowSeconds": 60,
    "sampling.intervalSeconds": 1,
}
"""The agent's defaults, but that it may act, and that no plan comes by chance."""
PATIENCE_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = (15.5, 17.0)
"""Out of step with the sweeps, and past the bound on sweeps that start early: contention that goes on is no news."""


def measure() -> Iterator[dict[str, float]]:
    """Run; after each run give the figures of all so far."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plane = stack.enter_context(control_plane(directory=directory / "cluster"))
        fence.install(plane)
        create_namespace(plane, "bench")
        node = stack.enter_context(acting_node(plane, "bench", "bench-node", directory, cpu="64", memory="64Gi"))
        outcomes: list[Outcome] = []
        for outcome in _runs(node, plane):
            outcomes.append(outcome)
            yield figures("reaction", outcomes, patience_seconds=PATIENCE_SECONDS)


def _runs(node: ActingNode, plane: ControlPlane) -> Iterator[Outcome]:
    names = [f"hungry-{number}" for number in range(RUNS)]
    cgroups = {}
    for name in names:
        pod = node.run_pod(name, objects.container(requests={"cpu": REQUEST, "memory": "64Mi"}), load=None)
        cgroups[name] = node.cgroup_of(pod, "app")
    for _ in range(max(LOADS, os.cpu_count() or 1)):
        node.tree.spawn("others", "busy")
    node.tree.freeze("others")
    node.start_agent(**{key.replace(".", "__"): value for key, value in SETTINGS.items()})
    node.wait(lambda: len(node.ask("plan")["pods"]) == RUNS, "the agent knows the pods")
    with _changes(plane) as changed:
        for name in names:
            node.tree.make(cgroups[name])
            node.tree.spawn(cgroups[name], "busy")
            node.tree.freeze(cgroups[name])
            time.sleep(random.uniform(*PAUSE_SECONDS))
            if changed.is_seen(name):
                yield Odd.EARLY
            else:
                began = time.monotonic()
                node.tree.thaw("others")
                node.tree.thaw(cgroups[name])
                seen = changed.wait(name, began + PATIENCE_SECONDS)
                yield Odd.LATE if seen is None else seen - began
                node.tree.freeze("others")
            node.tree.kill(cgroups[name])


class _Changes:
    """When pods' requests were first seen changed, by a watcher at the API server."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._news = threading.Condition()

    def note(self, name: str, at: float) -> None:
        with self._news:
            self._seen.setdefault(name, at)
            self._news.notify_all()

    def wait(self, name: str, until: float) -> float | None:
        with self._news:
            self._news.wait_for(lambda: name in self._seen, until - time.monotonic())
            return self._seen.get(name)

    def is_seen(self, name: str) -> bool:
        with self._news:
            return name in self._seen


@contextmanager
def _changes(plane: ControlPlane) -> Iterator[_Changes]:
    changes = _Changes()
    with plane.admin.watch(objects.pod_path("bench")) as watch:

        def follow() -> None:
            # Closing the watch ends it, with whatever http.client makes of a connection closed while it is read.
            with contextlib.suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
                for event in watch:
                    pod = event["object"]
                    if event["type"] == "MODIFIED":
                        request = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
                        if request != REQUEST:
                            changes.note(pod["metadata"]["name"], time.monotonic())

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        yield changes
