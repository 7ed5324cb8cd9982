"""The chart's hook before an uninstall: the Job's own command with its own account's token, on a real API server.

The kubelet is played: it takes the commands and has the agents' pods end when the DaemonSets go.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.release import Release
from tests.cluster import chart, objects
from tests.cluster.api import Json, kubeconfig
from tests.cluster.chart import NAMESPACE
from tests.cluster.exec_kubelet import ExecKubelet, Reply, exec_kubelet
from tests.cluster.identities import create_service_account, fresh_name, node_bound_token
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

REPOSITORY = Path(__file__).parents[2]
RESTORE = {"uninstall": {"restore": True}}
DAEMON_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"


class Scene:
    """Two nodes with an agent's pod each, and the hook's objects but for its Job."""

    def __init__(self, release: Release, kubelet: ExecKubelet, folder: Path) -> None:
        self.plane, self.kubelet, self.folder = release.plane, kubelet, folder
        self.replies: dict[str, Reply] = {}
        kubelet.answer = lambda path, _: self.replies[path.split("/")[3]]
        admin = self.plane.admin
        if not admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"):
            create_service_account(self.plane, NAMESPACE, "default")
        parts = chart.rendered(RESTORE)
        *accounts, self.job = parts["uninstall/retire"]
        admin.apply_all(accounts)
        [daemon_set] = parts["agent/daemonset"]
        # Its controller would make pods of its own: these are made by hand and owned by it.
        daemon_set["spec"]["template"]["spec"]["nodeSelector"] = {"no": "node"}
        self.owner = admin.create(DAEMON_SETS, daemon_set)
        self.pods = [self.agent() for _ in range(2)]

    def agent(self) -> str:
        node, name = fresh_name("node"), fresh_name("plimsoll-agent")
        objects.create_node(self.plane.admin, node)
        self.kubelet.join(self.plane, node)
        labels = {"plimsoll.dev/part": "agent"}
        manifest = objects.pod(name, node, objects.container("agent"), labels=labels, terminationGracePeriodSeconds=0)
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "plimsoll-agent", "blockOwnerDeletion": True}
        manifest["metadata"]["ownerReferences"] = [{**owner, "uid": self.owner["metadata"]["uid"]}]
        self.plane.admin.create(objects.pod_path(NAMESPACE), manifest)
        self.replies[name] = Reply(("nothing to restore\n",))
        return name

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Run what the Job's container would."""
        [container] = self.job["spec"]["template"]["spec"]["containers"]
        assert container["command"] == ["plimsoll"]
        own = self.plane.api_with_token(node_bound_token(self.plane, NAMESPACE, "plimsoll-retire", None))
        file = kubeconfig(own, self.folder / "kubeconfig")
        words = [sys.executable, "-m", "agent", *container["args"], f"--kubeconfig={file}", *more]
        return subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120)

    def are_there(self) -> list[bool]:
        return [self.plane.admin.exists(objects.pod_path(NAMESPACE, one)) for one in self.pods]

    def close(self) -> None:
        self.plane.admin.delete(f"{DAEMON_SETS}/plimsoll-agent")
        for one in self.pods:
            self.plane.admin.delete(objects.pod_path(NAMESPACE, one), gracePeriodSeconds="0")


@pytest.fixture
def scene(release: Release, tmp_path: Path) -> Iterator[Scene]:
    with exec_kubelet(release.plane, lambda _path, _command: Reply()) as kubelet:
        made = Scene(release, kubelet, tmp_path)
        yield made
        made.close()


def test_every_agent_restores_and_then_all_end(scene: Scene) -> None:
    first, second = scene.pods
    long = "".join(
        f"{number}/90 shop/web-{number}: restored and pinned: app CPU 250m to 100m\n" for number in range(90)
    )
    scene.replies[first] = Reply((long, "the last line\n"))
    done = scene.run()
    assert done.returncode == 0, done.stderr
    assert {(path.split("/")[3], path.split("/")[4], *command) for path, command in scene.kubelet.asked} == {
        (name, "agent", "plimsoll", "restore", "--all") for name in (first, second)
    }
    assert "89/90 shop/web-89: restored" in done.stdout
    assert "the last line" in done.stdout
    assert done.stdout.endswith("all agents have ended\n")
    assert scene.are_there() == [False, False]
    assert not scene.plane.admin.exists(f"{DAEMON_SETS}/plimsoll-agent")


@pytest.mark.parametrize("code", [1, None])
def test_where_one_cannot_restore_nothing_ends(scene: Scene, code: int | None) -> None:
    scene.replies[scene.pods[1]] = Reply(("shop/web: not restored (rejected)\n",), code)
    done = scene.run()
    assert done.returncode == 1
    why = "plimsoll restore ended with 1" if code else "closed before it told how the command ended"
    assert why in done.stderr
    assert done.stderr.endswith("nothing was ended: not everything could be restored\n")
    assert scene.are_there() == [True, True]
    assert scene.plane.admin.exists(f"{DAEMON_SETS}/plimsoll-agent")


def test_agents_that_do_not_end_are_named(scene: Scene) -> None:
    path = objects.pod_path(NAMESPACE, scene.pods[0])
    scene.plane.admin.patch(path, {"metadata": {"finalizers": ["plimsoll.test/keep"]}})
    done = scene.run("--timeout=3s")
    assert done.returncode == 1
    assert "1 agents have not ended in time: node-" in done.stderr
    scene.plane.admin.patch(path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    wait_for(lambda: scene.are_there() == [False, False], "it is gone")


def test_the_hooks_account_may_no_more_than_that(scene: Scene) -> None:
    api = scene.plane.api_with_token(node_bound_token(scene.plane, NAMESPACE, "plimsoll-retire", None))
    asked: list[tuple[str, str, Json]] = [
        ("GET", "/api/v1/namespaces/default/pods", {}),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets", {}),
        ("DELETE", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/plimsoll-webhook", {}),
        ("DELETE", f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/another", {}),
        ("DELETE", objects.pod_path(NAMESPACE, scene.pods[0]), {}),
    ]
    for method, path, body in asked:
        connection, answer = api.open(method, path, body or None, "application/json", None)
        connection.close()
        assert answer.status == 403, path


def test_hook_is_there_only_where_it_has_something_to_do() -> None:
    assert "uninstall/retire" not in chart.rendered()
    tainting = chart.rendered({"settings": {"overload": {"taint": True}}})["uninstall/retire"]
    assert "--restore" not in str(tainting)
    assert "pods/exec" not in str(tainting)
    for one in chart.rendered(RESTORE)["uninstall/retire"]:
        assert one["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
        assert one["metadata"]["annotations"]["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
