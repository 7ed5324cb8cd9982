"""The chart's hook before an uninstall: the Job's own command with its own account's token, on a real API server.

The kubelet is played: it takes the commands and has the agents' pods end when the DaemonSets go.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from agent.cli.client.retire import COMMAND
from tests.chart.release import Release
from tests.cluster import chart, objects
from tests.cluster.api import ApiError, Json, kubeconfig, path_of
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
        self.replies: dict[str, Callable[[], Reply]] = {}
        kubelet.answer = lambda path, _: self.replies[path.split("/")[3]]()
        admin = self.plane.admin
        if not admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"):
            create_service_account(self.plane, NAMESPACE, "default")
        parts = chart.rendered(RESTORE)
        *accounts, self.job = parts["uninstall/retire"]
        admin.apply_all([*accounts, *parts["fence/retire"]])
        [daemon_set] = parts["agent/daemonset"]
        # Its controller would make pods of its own: these are made by hand and owned by it.
        daemon_set["spec"]["template"]["spec"]["nodeSelector"] = {"no": "node"}
        self.owner = admin.create(DAEMON_SETS, daemon_set)
        self.pods = [self.agent() for _ in range(2)]

    def agent(self, node: str | None = None) -> str:
        """Put an agent's pod on a node, or on a new one."""
        name = fresh_name("plimsoll-agent")
        if node is None:
            node = fresh_name("node")
            objects.create_node(self.plane.admin, node)
            self.kubelet.join(self.plane, node)
        labels = {"plimsoll.dev/part": "agent"}
        manifest = objects.pod(name, node, objects.container("agent"), labels=labels, terminationGracePeriodSeconds=0)
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "plimsoll-agent", "blockOwnerDeletion": True}
        manifest["metadata"]["ownerReferences"] = [{**owner, "uid": self.owner["metadata"]["uid"]}]
        self.plane.admin.create(objects.pod_path(NAMESPACE), manifest)
        self.replies[name] = lambda: Reply(("nothing to restore\n",))
        return name

    def node_of(self, pod: str) -> str:
        node: str = self.plane.admin.get(objects.pod_path(NAMESPACE, pod))["spec"]["nodeName"]
        return node

    def remove(self, pod: str) -> None:
        self.plane.admin.delete(objects.pod_path(NAMESPACE, pod), gracePeriodSeconds="0")

    def hold(self, pod: str) -> None:
        """Have a pod that is removed stay until ``let_go``, as on a node that does not answer."""
        path = objects.pod_path(NAMESPACE, pod)
        self.plane.admin.patch(path, {"metadata": {"finalizers": ["plimsoll.test/keep"]}})

    def let_go(self, pod: str) -> None:
        path = objects.pod_path(NAMESPACE, pod)
        self.plane.admin.patch(path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")

    def cut_off(self, pod: str) -> str:
        """Have a pod's node be NotReady: nobody is at its kubelet's port, and its pods are told not to be ready."""
        node, path = self.node_of(pod), objects.pod_path(NAMESPACE, pod)
        endpoints = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}
        self.plane.admin.patch(f"/api/v1/nodes/{node}/status", {"status": endpoints})
        self.plane.admin.patch(f"{path}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
        self.hold(pod)
        return node

    def asked(self) -> list[str]:
        """Return the pods beside which a command was run, in order."""
        return [path.split("/")[3] for path, _ in self.kubelet.asked]

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Run what the Job's container would."""
        [container] = self.job["spec"]["template"]["spec"]["containers"]
        assert container["command"] == ["plimsoll"]
        own = self.plane.api_with_token(node_bound_token(self.plane, NAMESPACE, "plimsoll-retire", None))
        file = kubeconfig(own, self.folder / "kubeconfig")
        words = [sys.executable, "-m", "agent", *container["args"], f"--kubeconfig={file}", *more]
        return subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=600)

    def are_there(self) -> list[bool]:
        return [self.plane.admin.exists(objects.pod_path(NAMESPACE, pod)) for pod in self.pods]

    def close(self) -> None:
        self.plane.admin.delete(f"{DAEMON_SETS}/plimsoll-agent")
        for pod in self.pods:
            with contextlib.suppress(ApiError):  # it is gone
                self.let_go(pod)
            self.remove(pod)


@pytest.fixture(scope="module", autouse=True)
def nothing_left(release: Release) -> Iterator[None]:
    """Take away the hook's fence with the last test: other files of tests look at all policies of this server."""
    yield
    for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}/plimsoll-retire"
        if release.plane.admin.exists(path):
            release.plane.admin.delete(path)


@pytest.fixture
def scene(release: Release, tmp_path: Path) -> Iterator[Scene]:
    with exec_kubelet(release.plane, lambda _path, _command: Reply()) as kubelet:
        stage = Scene(release, kubelet, tmp_path)
        yield stage
        stage.close()


EXECS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "a shell": ("agent", ("sh",), ""),
    "another verb": ("agent", ("plimsoll", "retire"), ""),
    "more words": ("agent", (*COMMAND, "--what-if"), ""),
    "another program": ("agent", ("/plimsoll", "restore", "--all"), ""),
    "another container": ("other", COMMAND, ""),
    "its input": ("agent", COMMAND, "&stdin=true"),
    "a terminal": ("agent", COMMAND, "&tty=true"),
}


@pytest.mark.parametrize("what", EXECS)
def test_account_runs_nothing_but_the_restore(scene: Scene, what: str) -> None:
    container, command, more = EXECS[what]
    words = "".join(f"&command={quote(word, safe='')}" for word in command)
    path = f"{objects.pod_path(NAMESPACE, scene.pods[0], 'exec')}?stdout=true&container={container}{words}{more}"
    assert "only `plimsoll restore --all` may be run" in exec_refusal(scene, path)


def test_account_runs_nothing_beside_other_pods(scene: Scene) -> None:
    """The webhook's pod above all: a shell there would be the webhook."""
    manifest = objects.pod("plimsoll-webhook-0", scene.node_of(scene.pods[0]), objects.container("agent"))
    scene.plane.admin.create(objects.pod_path(NAMESPACE), manifest)
    words = "".join(f"&command={word}" for word in COMMAND)
    path = f"{objects.pod_path(NAMESPACE, 'plimsoll-webhook-0', 'exec')}?stdout=true&container=agent{words}"
    assert "only beside an agent" in exec_refusal(scene, path)
    scene.remove("plimsoll-webhook-0")


def exec_refusal(scene: Scene, path: str) -> str:
    """Ask to run something as the hook's account, until the policy is in force; give what is said."""
    own = scene.plane.api_with_token(node_bound_token(scene.plane, NAMESPACE, "plimsoll-retire", None))
    said: list[str] = []

    def is_judged() -> bool:
        with pytest.raises(ApiError) as error:
            own.get(path)
        said.append(error.value.message)
        return error.value.status == 403 and "ValidatingAdmissionPolicy" in error.value.message

    wait_for(is_judged, "the policy is in force")
    assert not scene.kubelet.asked
    return said[-1]


def test_uninstall_that_fails_leaves_no_account(release: Release) -> None:
    """Its Job's pod fails; the release stays, the Job too, and nobody who may run commands."""
    admin = release.plane.admin
    if not admin.exists(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"):
        create_service_account(release.plane, NAMESPACE, "default")
    for resource in ("serviceaccounts", "rbac.authorization.k8s.io/roles", "rbac.authorization.k8s.io/rolebindings"):
        admin.delete(namespaced(resource))  # other tests' of this file
    for fence in chart.rendered(RESTORE)["fence/retire"]:
        admin.delete(path_of(fence))
    release.install(RESTORE)
    jobs = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"

    def fail() -> None:
        def pods() -> list[Json]:
            return admin.items(objects.pod_path(NAMESPACE), labelSelector="app.kubernetes.io/component=retire")

        wait_for(lambda: bool(pods()), "the hook's pod is made")
        for pod in pods():
            admin.patch(objects.pod_path(NAMESPACE, pod["metadata"]["name"], "status"), {"status": {"phase": "Failed"}})

    with ThreadPoolExecutor(1) as pool:
        failing = pool.submit(fail)
        with pytest.raises(chart.ChartError):
            release.uninstall()
        failing.result()
    assert admin.exists(f"{jobs}/plimsoll-retire")
    assert admin.exists(f"{DAEMON_SETS}/plimsoll-agent")
    for kind in ("serviceaccounts", "rbac.authorization.k8s.io/roles", "rbac.authorization.k8s.io/rolebindings"):
        assert not admin.exists(namespaced(kind)), kind
    policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/plimsoll-retire"
    assert admin.exists(policy)
    release.uninstall("--no-hooks")
    assert not admin.exists(policy)
    admin.delete(f"{jobs}/plimsoll-retire", propagationPolicy="Background")


def namespaced(kind: str) -> str:
    group, slash, resource = kind.rpartition("/")
    root = f"/apis/{group}/v1" if slash else "/api/v1"
    return f"{root}/namespaces/{NAMESPACE}/{resource}/plimsoll-retire"


def test_every_agent_restores_and_then_all_end(scene: Scene) -> None:
    first, second = scene.pods
    long = "".join(
        f"{number}/90 shop/web-{number}: restored and pinned: app CPU 250m to 100m\n" for number in range(90)
    )
    scene.replies[first] = lambda: Reply((long, "the last line\n"))
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


@pytest.mark.parametrize(
    ("code", "asked", "more"),
    [
        pytest.param(1, 1, ["--skip-unreachable"], id="some pods could not be"),
        pytest.param(2, 2, ["--skip-unreachable"], id="it does not know its pods, a second time too"),
        pytest.param(None, 2, [], id="it broke off, a second time too"),
    ],
)
def test_where_one_cannot_restore_nothing_ends(scene: Scene, code: int | None, asked: int, more: list[str]) -> None:
    scene.replies[scene.pods[1]] = lambda: Reply(("shop/web: not restored (rejected)\n",), code)
    # Restoring has 9 s, of which a busy machine may need many for the first look.
    done = scene.run("--timeout=12s", *more)
    assert done.returncode == 1
    why = f"plimsoll restore ended with {code}" if code else "closed before it told how the command ended"
    assert why in done.stderr
    assert scene.asked().count(scene.pods[0]) == 1
    # Where it is asked a second time, there is mostly time for a third.
    assert min(scene.asked().count(scene.pods[1]), 2) == asked
    assert done.stderr.endswith("no agent was ended: not every pod could be restored\n")
    assert scene.are_there() == [True, True]
    assert scene.plane.admin.exists(f"{DAEMON_SETS}/plimsoll-agent")


@pytest.mark.parametrize("code", [1, 143, None])
def test_an_agent_that_is_replaced_meanwhile_is_looked_at_again(scene: Scene, code: int | None) -> None:
    old, other = scene.pods
    node = scene.node_of(old)

    def replaced() -> Reply:
        scene.remove(old)
        scene.pods.append(scene.agent(node))
        return Reply(("no agent\n",), code)

    scene.replies[old] = replaced
    done = scene.run("--timeout=30s")
    assert done.returncode == 0, done.stderr
    assert f"{node}: {old} has ended: nothing is left to ask it\n1 agents ended meanwhile\n" in done.stdout
    assert sorted(scene.asked()) == sorted([old, other, scene.pods[2]])
    assert done.stderr == ""
    assert scene.are_there() == [False, False, False]


def test_an_agent_that_ends_while_it_is_asked_is_awaited_and_so_is_the_next(scene: Scene) -> None:
    old = scene.pods[0]
    node = scene.node_of(old)
    scene.hold(old)

    def first() -> Reply:
        scene.remove(old)
        scene.replies[old] = gone
        return Reply(("no agent\n",), 1)

    def gone() -> Reply:
        scene.let_go(old)
        scene.pods.append(scene.agent(node))
        scene.replies[scene.pods[2]] = begun
        return Reply((), None)

    def begun() -> Reply:
        scene.replies[scene.pods[2]] = lambda: Reply(("2/2 shop/web: restored and pinned\n",))
        return Reply(("no agent at its socket\n",), 1)

    scene.replies[old] = first
    done = scene.run("--timeout=60s")
    assert done.returncode == 0, done.stderr
    new = scene.pods[2]
    assert [pod for pod in scene.asked() if pod != scene.pods[1]] == [old, old, new, new]
    assert "shop/web: restored and pinned" in done.stdout


def test_an_agent_whose_node_went_has_nothing_left_to_restore(scene: Scene) -> None:
    gone = scene.pods[0]
    node = scene.node_of(gone)

    def leave() -> Reply:
        scene.remove(gone)
        return Reply((), None)

    scene.replies[gone] = leave
    failed = scene.agent()
    scene.pods.append(failed)
    path = objects.pod_path(NAMESPACE, failed)
    scene.plane.admin.patch(f"{path}/status", {"status": {"phase": "Failed"}})
    done = scene.run("--timeout=16s")
    assert done.returncode == 0, done.stderr
    assert f"{node}: {gone} has ended: nothing is left to ask it\n1 agents ended meanwhile\n" in done.stdout
    assert failed not in scene.asked()  # it was evicted, and its successor is another pod
    assert scene.are_there() == [False, False, False]


def test_a_node_that_is_not_ready_is_named_and_nothing_ends(scene: Scene) -> None:
    node = scene.cut_off(scene.pods[0])
    done = scene.run("--timeout=12s")
    assert done.returncode == 1
    node_line, counted, last = done.stderr.splitlines()
    assert node_line.startswith(
        f"{node}: not restored: the agent cannot be reached, and its pod is not ready: look at the node: GET "
    )
    assert counted == f"plimsoll retire: 1 agents cannot be reached: {node}: see --skip-unreachable"
    assert last == "plimsoll retire: no agent was ended: not every pod could be restored"
    assert scene.are_there() == [True, True]
    assert scene.plane.admin.exists(f"{DAEMON_SETS}/plimsoll-agent")


def test_a_node_that_is_not_ready_is_gone_on_without_where_one_says_so(scene: Scene) -> None:
    node = scene.cut_off(scene.pods[0])
    done = scene.run("--timeout=16s", "--skip-unreachable")
    assert done.returncode == 0, done.stderr
    assert f"{node}: not restored: the agent cannot be reached" in done.stderr
    assert done.stderr.endswith(
        f"1 agents cannot be reached: {node}: it goes on without them, and what they resized stays resized\n"
    )
    assert done.stdout.endswith("all other agents have ended\n")
    assert scene.are_there() == [True, False]
    assert not scene.plane.admin.exists(f"{DAEMON_SETS}/plimsoll-agent")


def test_a_right_that_is_missing_is_no_node_out_of_reach(scene: Scene) -> None:
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/plimsoll-retire"
    rules = scene.plane.admin.get(role)["rules"]
    left = [rule for rule in rules if rule["resources"] != ["pods/exec"]]
    scene.plane.admin.patch(role, {"rules": left}, "application/merge-patch+json")
    api = scene.plane.api_with_token(node_bound_token(scene.plane, NAMESPACE, "plimsoll-retire", None))

    def is_refused() -> bool:
        path = f"{objects.pod_path(NAMESPACE, scene.pods[0])}/exec?command=true"
        try:
            api.get(path)
        except ApiError as error:
            # The policy, in force for long, refuses this command too.
            return error.status == 403 and "ValidatingAdmissionPolicy" not in error.message
        return False

    wait_for(is_refused, "the right is gone")
    done = scene.run("--skip-unreachable")
    assert done.returncode == 1
    assert "not restored: GET " in done.stderr
    assert "403 Forbidden" in done.stderr
    assert "cannot be reached" not in done.stderr
    assert scene.are_there() == [True, True]


@pytest.mark.parametrize("is_skipping", [False, True])
def test_agents_that_do_not_end_are_named(scene: Scene, is_skipping: bool) -> None:
    scene.hold(scene.pods[0])
    node = scene.node_of(scene.pods[0])
    # In this time all must have restored and the other one be gone, on a busy machine too.
    done = scene.run("--timeout=16s", *(("--skip-unreachable",) if is_skipping else ()))
    assert done.returncode == (0 if is_skipping else 1)
    what = "it goes on without them" if is_skipping else "see --skip-unreachable"
    assert done.stderr == f"plimsoll retire: 1 agents have not ended in time: {node}: {what}\n"
    assert scene.are_there() == [True, False]
    scene.let_go(scene.pods[0])
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


def test_kubectl_which_knows_no_hooks_is_given_none() -> None:
    values = {"namespace": {"create": True}, "settings": {"overload": {"taint": True}}}
    assert "uninstall/retire" not in chart.rendered(values)


def test_hook_is_there_only_where_it_has_something_to_do() -> None:
    assert "uninstall/retire" not in chart.rendered()
    tainting = chart.rendered({"settings": {"overload": {"taint": True}}})["uninstall/retire"]
    assert "--restore" not in str(tainting)
    assert "pods/exec" not in str(tainting)
    for manifest in chart.rendered(RESTORE)["uninstall/retire"]:
        assert manifest["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
        policies = manifest["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(",")
        assert policies[:2] == ["before-hook-creation", "hook-succeeded"]
        assert policies[2:] == ([] if manifest["kind"] == "Job" else ["hook-failed"])
