"""Agent, webhook and the weekly report as processes, under the chart's own settings files, accounts and tokens.

No right is missing. What a pod would have is taken from the installed objects; only paths and addresses are of this
machine.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.node.sockets.control import ControlError, request
from tests.chart.release import Release
from tests.cluster import fence, objects
from tests.cluster.api import Json, kubeconfig
from tests.cluster.chart import NAMESPACE, RELEASE, helm
from tests.cluster.identities import fresh_name, node_bound_token
from tests.cluster.processes import Process, free_ports, wait_for
from tests.kernel.cgroups import CgroupTree, why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

REPOSITORY = Path(__file__).parents[2]
VALUES: dict[str, Any] = {
    "mode": "enforce",
    "evictions": {"enabled": True},
    "buffers": {"enabled": True, "placeholders": True},
    "settings": {"report": {"intervalSeconds": 60}, "overload": {"taint": True}},
    "webhook": {
        "settings": {"certificate": {"furtherNames": "127.0.0.1"}},
        "report": {
            "enabled": True,
            "output": "html",
            "send": {"image": "mailer", "command": ["/bin/cat", "/report/week.html"]},
        },
    },
}


@pytest.fixture
def enforcing(release: Release) -> Iterator[Release]:
    if RELEASE in helm("list", "-q", f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}"):
        release.uninstall()
    release.install(VALUES)
    yield release
    # With overload.taint the hook's Job would wait for a kubelet.
    release.uninstall("--no-hooks")


def settings_of(release: Release, config_map: str, folder: Path) -> Path:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{config_map}"
    file = folder / f"{config_map}.yaml"
    file.write_text(release.plane.admin.get(path)["data"]["settings.yaml"])
    return file


def start(stack: ExitStack, name: str, command: list[str], folder: Path) -> Process:
    process = Process(name, ["env", "-C", str(REPOSITORY), *command], folder / f"{name}.log")
    stack.callback(process.stop)
    return process


def test_they_lack_no_right_and_trust_each_other(enforcing: Release, tmp_path: Path) -> None:
    plane, node = enforcing.plane, fresh_name("node")
    objects.create_node(plane.admin, node)
    with ExitStack() as stack:
        tree = stack.enter_context(CgroupTree())
        port = start_webhook(stack, enforcing, tmp_path)
        socket = tmp_path / "agent.sock"
        agent = start_agent(stack, enforcing, tmp_path, node, port, socket, tree)

        def told() -> Json:
            try:
                return dict(request(socket, "cluster", timeout_seconds=60.0))
            except ControlError:
                return {}

        agent.wait_until(lambda: told().get("node_claim") == node, "it knows whose token it has", 60.0)
        assert told()["missing_rights"] == []
        # The server's version and the node may be read after the rights were asked for.
        agent.wait_until(lambda: bool(told().get("can_resize")), "it knows that it may resize", 60.0)
        agent.wait_until(lambda: told().get("directives_age_seconds") is not None, "a report was answered", 150.0)
        assert told()["reporting"]["trouble"] is None
        page = sent_by_report(enforcing, tmp_path, port)
        assert page.startswith("<!doctype html>")
        assert page.rstrip().endswith("</html>")
        # Other files that share the server may have left nodes of theirs.
        assert re.search(r"\b1 of \d+ nodes? report\.", page), page
    log = (tmp_path / "webhook.log").read_text()
    assert "Forbidden" not in log, log
    plane.admin.delete(f"/api/v1/nodes/{node}")


def sent_by_report(release: Release, folder: Path, port: int) -> str:
    """Run the report's CronJob by hand, and the containers of its Job's pod in their order; return what was sent."""
    admin = release.plane.admin
    release.kubectl("create", "job", "week", "--from=cronjob/plimsoll-report", f"--namespace={NAMESPACE}")
    pods: list[Json] = []

    def is_made() -> bool:
        pods[:] = admin.items(objects.pod_path(NAMESPACE), labelSelector="plimsoll.dev/part=report")
        return bool(pods)

    wait_for(is_made, "the Job has a pod")
    [pod] = pods
    spec = pod["spec"]
    places = {
        volume["name"]: volume_of(release, volume, spec["serviceAccountName"], folder) for volume in spec["volumes"]
    }
    sent = ""
    for container in (*spec["initContainers"], *spec["containers"]):
        mounts = {mount["mountPath"]: str(places[mount["name"]]) for mount in container["volumeMounts"]}
        mounts[f"https://plimsoll-webhook.{NAMESPACE}.svc"] = f"https://127.0.0.1:{port}"  # as cluster DNS would
        words = [here(word, mounts) for word in (*container["command"], *container.get("args", ()))]
        command = [sys.executable, "-m", "agent", *words[1:]] if words[0] == "plimsoll" else words
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, (container["name"], done.stderr)
        sent = done.stdout
    path, job = objects.pod_path(NAMESPACE, pod["metadata"]["name"]), f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/week"
    admin.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
    wait_for(lambda: admin.get(job)["status"].get("succeeded") == 1, "the Job is complete")
    release.kubectl("delete", "job", "week", f"--namespace={NAMESPACE}")
    wait_for(lambda: not admin.exists(path), "its pod is gone")
    return sent


def here(word: str, places: Mapping[str, str]) -> str:
    """Return a word of a pod's command with the pod's paths and addresses as they are on this machine."""
    return re.sub("|".join(map(re.escape, places)), lambda match: places[match[0]], word)


def volume_of(release: Release, volume: Json, account: str, folder: Path) -> Path:
    """Make what a kubelet would mount: a directory, with the account's token and files of ConfigMaps in it."""
    place = folder / f"volume-{volume['name']}"
    place.mkdir()
    for source in volume.get("projected", {}).get("sources", ()):
        if "serviceAccountToken" in source:
            wanted = source["serviceAccountToken"]
            token = node_bound_token(release.plane, NAMESPACE, account, None, audiences=(wanted["audience"],))
            (place / wanted["path"]).write_text(token)
        else:
            wanted = source["configMap"]
            data = release.plane.admin.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{wanted['name']}")["data"]
            for item in wanted["items"]:
                (place / item["path"]).write_text(data[item["key"]])
    return place


def start_webhook(stack: ExitStack, release: Release, folder: Path) -> int:
    """Start it as its account; give its port. It is ready, and agents are told whom to trust."""
    plane = release.plane
    (port,) = free_ports(1, "127.0.0.1")
    own = plane.api_with_token(node_bound_token(plane, NAMESPACE, "plimsoll-webhook", None))
    command = [
        sys.executable, "-m", "agent", "webhook", f"--settings={settings_of(release, 'plimsoll-webhook', folder)}",
        f"--kubeconfig={kubeconfig(own, folder / 'webhook.kubeconfig')}", f"--listen=127.0.0.1:{port}",
        f"--database={folder / 'webhook.db'}",
    ]  # fmt: skip
    process = start(stack, "webhook", command, folder)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/plimsoll-webhook-authority"

    def is_told() -> bool:
        data = plane.admin.get(path).get("data") or {}
        (folder / "ca.crt").write_text(data.get("ca.crt", ""))
        return bool(data)

    process.wait_until(is_told, "agents are told whom to trust", 60.0)
    return port


def start_agent(
    stack: ExitStack, release: Release, folder: Path, node: str, port: int, socket: Path, tree: CgroupTree
) -> Process:
    """Start it as its account with tokens of the node; what the pod's environment gives is given."""
    own = kubeconfig(fence.agent_api(release.plane, node), folder / "agent.kubeconfig")
    token = node_bound_token(release.plane, NAMESPACE, "plimsoll-agent", node, audiences=("plimsoll-webhook",))
    (folder / "token").write_text(token)
    command = [
        "env", f"PLIMSOLL_NODE_NAME={node}", f"PLIMSOLL_SETTINGS_FILE={settings_of(release, 'plimsoll-agent', folder)}",
        sys.executable, "-m", "agent", "agent", f"--kubeconfig={own}", f"--cgroup-mount={tree.mount}",
        f"--cgroup-root=/{tree.name}", f"--state-dir={folder / 'state'}", f"--socket={socket}", "--port=0",
        f"--set=report.url=https://127.0.0.1:{port}", f"--set=report.tokenFile={folder / 'token'}",
        f"--set=report.caFile={folder / 'ca.crt'}", f"--set=clusterPauseFile={folder / 'pause'}",
    ]  # fmt: skip
    return start(stack, "agent", command, folder)
