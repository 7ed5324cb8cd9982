"""What watching one full node costs: resident memory of the libraries and of the view, CPU per event.

``python -m tests.bench.watching [PODS]`` starts a real API server, fills a node with pods as large as real ones, and
lets a child process watch it while their statuses change.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from tests.cluster.control_plane import ControlPlane, control_plane
from tests.cluster.identities import create_service_account
from tests.cluster.objects import create_node, pod, pod_path, running_status, write_pod_status

PODS: Final = 250
EVENTS: Final = 1000
NODE: Final = "node-1"

CHILD: Final = """
import sys, time
def resident_kib(key):
    for line in open("/proc/self/smaps_rollup"):
        if line.startswith(key + ":"):
            return int(line.split()[1])
bare = resident_kib("Rss")
import json, logging, threading
base = resident_kib("Rss")
from pathlib import Path
from agent.kube.client.own_rights import missing_permissions
from agent.kube.client.api import HttpApi
from agent.kube.client.credentials import Credentials
from agent.node.cluster.view import ClusterView
imported = resident_kib("Rss")
server, ca, certificate, key, pods = sys.argv[1:]
api = HttpApi(Credentials(server=server, origin="bench", ca_file=Path(ca), certificate_file=Path(certificate),
                          key_file=Path(key)))
api.call("GET", "/version")
connected = resident_kib("Rss")
news = [0]
def count():
    news[0] += 1
view = ClusterView(api, "node-1", on_news=count, random=lambda: 0.0)
began = time.monotonic(), time.process_time()
view.start()
while not view.state().is_complete:
    time.sleep(0.002)
listed = time.monotonic() - began[0], time.process_time() - began[1]
full = resident_kib("Rss")
assert len(view.state().pods) == int(pods)
began_calls = time.process_time()
for _ in range(100):
    view.state()
state_ms = (time.process_time() - began_calls) * 10
print("ready", flush=True)
sys.stdin.readline()
before_events = sum(one.counts.events for one in view.statuses())
before_cpu, before_wall = time.process_time(), time.monotonic()
print("measuring", flush=True)
sys.stdin.readline()
cpu, wall = time.process_time() - before_cpu, time.monotonic() - before_wall
events = sum(one.counts.events for one in view.statuses()) - before_events
print(json.dumps({
    "bare_kib": bare, "imports_kib": imported - bare, "first_connection_kib": connected - imported,
    "view_kib": full - connected, "after_events_kib": resident_kib("Rss") - connected,
    "list_seconds": listed[0], "list_cpu_ms": listed[1] * 1000, "state_ms": state_ms,
    "events": events, "cpu_us_per_event": cpu / max(events, 1) * 1e6, "events_per_second": events / wall,
    "news": news[0],
}))
"""


def large_pod(name: str) -> dict[str, Any]:
    """Return a pod as long as real ones are: probes, variables, volumes, and a sidecar."""
    containers = [
        {
            "name": container_name,
            "image": f"registry.example.com/team/{container_name}:1.27.3",
            "command": ["/bin/server", "--listen=0.0.0.0:8080", "--config=/etc/server/config.yaml"],
            "env": [{"name": f"SETTING_{index}", "value": f"value of setting number {index}"} for index in range(20)],
            "ports": [{"containerPort": 8080, "name": "http"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 5},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/server"}],
        }
        for container_name in ("app", "proxy")
    ]
    volumes = [{"name": "config", "configMap": {"name": "config"}}, {"name": "cache", "emptyDir": {}}]
    labels = {"app.kubernetes.io/name": "app", "app.kubernetes.io/instance": name, "pod-template-hash": "5d4f8c7b9"}
    annotations = {"prometheus.io/scrape": "true", "checksum/config": "0123456789abcdef" * 4}
    return pod(name, NODE, *containers, labels=labels, annotations=annotations, volumes=volumes)


def fill(plane: ControlPlane, pods: int) -> int:
    """Make the node and its pods; give the length of one pod's JSON."""
    create_service_account(plane, "default", "default")
    create_node(plane.admin, NODE, cpu="64", memory="256Gi")
    length = 0
    for index in range(pods):
        document = plane.admin.create(pod_path("default"), large_pod(f"web-{index:03}"))
        written = write_pod_status(plane.admin, "default", f"web-{index:03}", running_status(document), pod=document)
        length = len(json.dumps(written))
    return length


def change(plane: ControlPlane, pods: int, first: int, count: int) -> None:
    """Change statuses of pods in turn, every second time in a field that nobody reads."""
    for index in range(first, first + count):
        name = f"web-{index % pods:03}"
        status: dict[str, object] = {"message": f"note {index}"} if index % 2 else {"observedGeneration": index + 2}
        plane.admin.patch(pod_path("default", name, "status"), {"status": status})


def measure(pods: int, events: int) -> dict[str, float]:
    """Return what the child measured, and the length of one pod's JSON."""
    with (
        tempfile.TemporaryDirectory() as directory,
        control_plane(directory=Path(directory), with_controllers=False, audit=False) as plane,
    ):
        length = fill(plane, pods)
        pair = plane.client_certificate("agent", ["system:masters"])
        arguments = [plane.url, str(plane.authority), str(pair.certificate), str(pair.key), str(pods)]
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdin is not None
        assert child.stdout is not None
        with child:
            assert child.stdout.readline() == "ready\n"
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "measuring\n"
            part_events = events // 4
            parts = [
                threading.Thread(target=change, args=(plane, pods, first * part_events, part_events))
                for first in range(4)
            ]
            for part in parts:
                part.start()
            for part in parts:
                part.join()
            child.stdin.write("\n")
            child.stdin.flush()
            measured: dict[str, float] = json.loads(child.stdout.readline())
    return {"pods": pods, "pod_json_bytes": length, **measured}


if __name__ == "__main__":
    for name, value in measure(int(sys.argv[1]) if sys.argv[1:] else PODS, EVENTS).items():
        print(f"{name:22} {value:12.1f}")
