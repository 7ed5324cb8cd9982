"""Pods that are made all the time, and what the API server says of asking the webhook about them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.chart.release import Release
from tests.cluster import objects
from tests.cluster.api import ApiError
from tests.cluster.identities import create_namespace, fresh_name
from tests.cluster.processes import wait_for

MAKERS: Final = 2
PAUSE_SECONDS: Final = 0.03
"""Of each maker after each pod: sixty a second find a gap as well as what a whole CPU makes of them."""
HOOK: Final = "pods.plimsoll.dev"


@dataclass(slots=True)
class Load:
    """Pods that are made again and again, on trial: the API server asks the webhook and stores nothing."""

    release: Release
    namespace: str
    made: int = 0
    refusals: list[str] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        manifest = objects.pod("load", None, objects.container(requests={"cpu": "100m"}))
        while not self.stopping.wait(PAUSE_SECONDS):
            try:
                self.release.plane.admin.create(objects.pod_path(self.namespace), manifest, dryRun="All")
            except (ApiError, OSError) as error:
                with self.lock:
                    self.refusals.append(str(error))
            else:
                with self.lock:
                    self.made += 1

    def goes_on(self, count: int = 20) -> None:
        """Wait until so many more were made."""
        target = self.made + count
        wait_for(lambda: self.made >= target, f"{count} more pods are made")


@contextmanager
def load(release: Release) -> Iterator[Load]:
    """Have several make pods inside the block, in a namespace of their own."""
    admin, namespace = release.plane.admin, fresh_name("loaded")
    create_namespace(release.plane, namespace)
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_for(lambda: admin.exists(account), "pods may be made there")
    pods = Load(release, namespace)
    threads = [threading.Thread(target=pods.run) for _ in range(MAKERS)]
    for thread in threads:
        thread.start()
    try:
        yield pods
    finally:
        pods.stopping.set()
        for thread in threads:
            thread.join()
        admin.delete(f"/api/v1/namespaces/{namespace}")


def asked(release: Release) -> dict[str, float]:
    """Return how often the API server asked the webhook, and how often it went on without an answer."""
    connection, answer = release.plane.admin.open("GET", "/metrics", None, "", None)
    try:
        page = answer.read().decode()
    finally:
        connection.close()
    counts = {}
    for name in ("apiserver_admission_webhook_request_total", "apiserver_admission_webhook_fail_open_count"):
        values = re.findall(rf'^{name}{{[^}}]*name="{re.escape(HOOK)}"[^}}]*}} (\S+)$', page, re.M)
        counts[name.removeprefix("apiserver_admission_webhook_")] = sum(map(float, values))
    return counts
