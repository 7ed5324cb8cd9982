"""The chart on a real API server: every object of every variant taken, installed, changed, rolled back, gone again."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.chart.release import Release, everything
from tests.cluster import fence, objects
from tests.cluster.api import Api, ApiError, Json, kubeconfig
from tests.cluster.chart import NAMESPACE, ChartError, helm, rendered
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, ensure_default_account, fresh_name, is_allowed, node_bound_token
from tests.cluster.processes import Process, free_ports, wait_for

pytestmark = pytest.mark.cluster

REPOSITORY = Path(__file__).parents[2]
AUTHORITY = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "enforce": {"mode": "enforce", "evictions": {"enabled": True}},
    "canary": {"mode": "enforce", "enforceNodes": {"pool": "canary"}},
    "protect": {"mode": "protect"},
    "off": {"mode": "off"},
    "agents-only": {"webhook": {"enabled": False}},
    "postgresql": {"webhook": {"postgresql": {"existingSecret": "db"}, "replicas": 3}},
    "no-volume": {"webhook": {"persistence": {"enabled": False}}, "agent": {"state": {"hostPath": ""}}},
    "own-claim": {"webhook": {"persistence": {"existingClaim": "mine"}}},
    "kept-volume": {"webhook": {"persistence": {"keep": True, "storageClass": "fast", "size": "10Gi"}}},
    "own-certificate": {"webhook": {"certificate": {"source": "secret", "secretName": "tls", "caBundle": AUTHORITY}}},
    "cgroups": {"podLimits": {"writeCgroups": True, "qosReservedWrite": True}},
    "closed": {
        "networkPolicy": {
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
            "apiServer": {"ports": [6443], "cidrs": ["10.0.0.0/8", "fd00::/8"]},
        }
    },
    "open": {"networkPolicy": {"enabled": False}, "flowControl": {"enabled": False}},
    "fenced": {"fence": {"unannotated": "refuse"}, "networkPolicy": {"dnsPorts": [53]}},
    "rules": {"cluster": {"pause": "upgrade", "rules": [{"namespace": "shop-*", "mode": False}]}},
    "buffers": {
        "buffers": {"enabled": True, "placeholders": True, "scalables": [{"apiGroup": "x.io", "resource": "sets"}]}
    },
    "restore": {"uninstall": {"restore": True, "timeoutSeconds": 60}, "settings": {"overload": {"taint": True}}},
    "namespace": {"namespace": {"create": True}},
    "everything-set": {
        "image": {
            "repository": "registry.example:5000/plimsoll",
            "digest": "sha256:" + "a" * 64,
            "pullPolicy": "Always",
        },
        "imagePullSecrets": [{"name": "registry"}],
        "labels": {"team": "platform"},
        "settings": {
            "metrics": {"perContainer": True},
            "overload": {"taint": True},
            "report": {"queueBytes": 33554432},
        },
        "agent": {
            "nodeSelector": {"pool": "a"},
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": {}},
            "maxUnavailable": 3,
            "priorityClassName": "system-node-critical",
            "seLinuxOptions": {"type": "spc_t"},
            "podAnnotations": {"example.com/a": "b"},
            "env": [{"name": "TZ", "value": "UTC"}],
            "hostAliases": [{"ip": "10.0.0.9", "hostnames": ["plimsoll-webhook.plimsoll.svc"]}],
        },
        "webhook": {
            "settings": {"access": {"audience": "another"}},
            "nodeSelector": {"pool": "b"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
            ],
            "namespaceSelector": [{"key": "sized", "operator": "Exists"}],
            "podAnnotations": {"example.com/a": "b"},
            "env": [{"name": "TZ", "value": "UTC"}],
        },
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_server_takes_every_object(release: Release, variant: str) -> None:
    parts = rendered(VARIANTS[variant])
    assert len(parts) > 8
    for template, manifests in parts.items():
        for manifest in manifests:
            collection = release.collection(manifest)
            assert collection is not None, (template, manifest["kind"])
            query = {"dryRun": "All", "fieldManager": "tests", "fieldValidation": "Strict", "force": "true"}
            path = f"{collection}/{manifest['metadata']['name']}"
            taken = release.plane.admin.patch(path, manifest, "application/apply-patch+yaml", **query)
            assert taken["metadata"]["labels"]["app.kubernetes.io/name"] == "plimsoll"


def test_cert_manager_makes_the_certificate_and_puts_the_bundle_in() -> None:
    issuer = {"name": "ours", "kind": "ClusterIssuer"}
    parts = rendered({"webhook": {"certificate": {"source": "cert-manager", "issuerRef": issuer}}})
    [certificate] = parts["webhook/certificate"]
    assert certificate["spec"]["issuerRef"] == {**issuer, "group": "cert-manager.io"}
    assert certificate["spec"]["secretName"] == "plimsoll-webhook-tls"
    [registration] = parts["webhook/registration"]
    assert registration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "plimsoll/plimsoll-webhook"}
    assert sorted(manifest["kind"] for manifest in parts["webhook/kept"]) == ["ConfigMap", "Lease"]


# Security: what a pod of the chart may


def pods_of(values: dict[str, Any]) -> dict[str, Json]:
    parts = rendered(values)
    return {
        manifest["metadata"]["name"]: manifest["spec"]["template"]["spec"]
        for template in ("agent/daemonset", "webhook/deployment")
        for manifest in parts.get(template, [])
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_pods_have_no_more_than_they_need(variant: str) -> None:
    writes = variant == "cgroups"
    for name, spec in pods_of(VARIANTS[variant]).items():
        is_root = writes and name.startswith("plimsoll-agent")
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert spec["automountServiceAccountToken"] is False
        assert spec["terminationGracePeriodSeconds"] <= 20
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["securityContext"]["runAsNonRoot"] is not is_root
        assert spec["securityContext"]["runAsUser"] == (0 if is_root else 65532)
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["readOnlyRootFilesystem"] is True
            assert own["capabilities"]["drop"] == ["ALL"]
            assert "privileged" not in own
            added = own["capabilities"].get("add", [])
            assert added == (["CHOWN"] if container["name"] in ("own-state", "own-rings") else [])
        host_paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
        assert host_paths.keys() <= {"cgroup", "state", "rings"}
        assert ("rings" in host_paths) is ("state" in host_paths)
        assert ("state" in host_paths) is (variant != "no-volume" and name.startswith("plimsoll-agent"))
        for container in spec["containers"]:
            mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
            if "cgroup" in mounts:
                assert bool(mounts["cgroup"].get("readOnly")) is not writes
        for container in spec.get("initContainers", []):
            assert [mount["name"] for mount in container["volumeMounts"]] == [container["name"].removeprefix("own-")]


# Installed


class Nodes:
    """Two nodes with the tokens of the chart's own accounts."""

    def __init__(self, plane: ControlPlane) -> None:
        self.a, self.b = fresh_name("a"), fresh_name("b")
        room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        for node in (self.a, self.b):
            objects.create_node(plane.admin, node)
            path = f"/api/v1/nodes/{node}/status"
            plane.admin.patch(path, {"status": {"allocatable": room, "capacity": room}})
        self.agent_a, self.agent_b, self.unbound = (fence.agent_api(plane, name) for name in (self.a, self.b, None))
        self.webhook = plane.api_with_token(node_bound_token(plane, NAMESPACE, "plimsoll-webhook", None))


@pytest.fixture(scope="module")
def before(release: Release) -> set[tuple[str, str, str]]:
    """What the cluster held before anything was installed."""
    return everything(release.plane.admin)


@pytest.fixture(scope="module")
def installed(release: Release, before: set[tuple[str, str, str]]) -> Iterator[Release]:
    release.install()
    assert before
    yield release
    if "plimsoll" in helm("list", "-q", f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}"):
        release.uninstall()


@pytest.fixture(scope="module")
def nodes(installed: Release) -> Nodes:
    pair = Nodes(installed.plane)
    pod = make_pod(installed, "default", pair.a)
    attempt = partial(resize, pair.unbound, "default", pod, dryRun="All")

    def is_fenced() -> bool:
        try:
            attempt()
        except ApiError as error:
            return "own node" in error.message
        return False

    wait_for(is_fenced, "the fence is in force")
    return pair


def make_pod(installed: Release, namespace: str, node: str, **annotations: str) -> str:
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    if not installed.plane.admin.exists(account):
        ensure_default_account(installed.plane, namespace)
    name = fresh_name("web")
    named = {f"plimsoll.dev/{key}": value for key, value in annotations.items()}
    manifest = objects.pod(name, node, objects.container(requests={"cpu": "100m"}), annotations=named)
    installed.plane.admin.create(objects.pod_path(namespace), manifest)
    return name


def resize(api: Api, namespace: str, name: str, cpu: str = "200m", **query: str) -> Json:
    return objects.resize(api, namespace, name, objects.resize_body(app={"requests": {"cpu": cpu}}), **query)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ApiError) as error:
        call()
    assert error.value.status == 403, error.value
    return error.value.message


def test_agent_reaches_its_own_node_and_no_further(installed: Release, nodes: Nodes) -> None:
    own, other = (make_pod(installed, "default", node, mode="enforce") for node in (nodes.a, nodes.b))
    assert resize(nodes.agent_a, "default", own)["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "200m"
    assert "own node" in refusal(lambda: resize(nodes.agent_a, "default", other))
    assert "own node" in refusal(lambda: resize(nodes.unbound, "default", own))
    assert "factor of 100" in refusal(lambda: resize(nodes.agent_a, "default", own, "21"))
    opted_out = make_pod(installed, "default", nodes.a, mode="off")
    assert "mode is off" in refusal(lambda: resize(nodes.agent_a, "default", opted_out))
    protected = make_pod(installed, "kube-system", nodes.a)
    assert "never resized" in refusal(lambda: resize(nodes.agent_a, "kube-system", protected))
    assert "cannot patch resource" in refusal(
        lambda: fence.set_taints(nodes.agent_a, nodes.a, [fence.taint("NoSchedule")])
    )
    assert "own node" in refusal(
        lambda: nodes.unbound.create(fence.event_path("default"), fence.event("x", "default", nodes.a))
    )


def test_right_to_taint_comes_with_the_setting_and_outlives_it_by_one_release(installed: Release, nodes: Nodes) -> None:
    """Agents of the release before take their taints away as they end."""
    may_taint = partial(is_allowed, nodes.agent_a, "patch", "nodes")
    assert not may_taint()
    installed.upgrade({"settings": {"overload": {"taint": True}}})
    wait_for(may_taint, "agents may taint")
    fence.set_taints(nodes.agent_a, nodes.a, [fence.taint("NoSchedule")])
    another_key = [fence.taint("NoSchedule"), fence.taint("NoSchedule", "example.com/other")]
    assert "no taint but" in refusal(lambda: fence.set_taints(nodes.agent_a, nodes.a, another_key))
    assert "own node" in refusal(lambda: fence.set_taints(nodes.agent_a, nodes.b, [fence.taint("NoSchedule")]))
    installed.upgrade()
    fence.set_taints(nodes.agent_a, nodes.a, [])
    installed.upgrade({"labels": {"team": "platform"}})
    wait_for(lambda: not may_taint(), "the right is gone")
    installed.upgrade()


def test_pods_of_which_nothing_says_a_mode_are_resized_only_where_the_release_enforces(
    installed: Release, nodes: Nodes
) -> None:
    """In mode recommend the policy asks for an annotation; `fence.unannotated` says otherwise."""
    silent, volunteer = make_pod(installed, "default", nodes.a), make_pod(installed, "default", nodes.a, mode="enforce")
    raised = make_pod(installed, "default", nodes.a, mode="protect")
    resources = json.dumps({"containers": {"app": {"requests": {"cpu": "50m"}, "limits": {}}}})
    sized = make_pod(installed, "default", nodes.a, **{"original-resources": resources})
    off = make_pod(installed, "default", nodes.a, mode="off")
    attempt = partial(resize, nodes.agent_a, "default", silent, "200m", dryRun="All")
    assert "mode is unannotated (fence.unannotated)" in refusal(attempt)
    resize(nodes.agent_a, "default", volunteer)
    resize(nodes.agent_a, "default", sized, "50m")
    assert "mode is off" in refusal(lambda: resize(nodes.agent_a, "default", off))
    resize(nodes.agent_a, "default", raised, "200m")
    assert "mode is protect, so nothing" in refusal(lambda: resize(nodes.agent_a, "default", raised, "150m"))
    rule = {"cluster": {"rules": [{"namespace": "default", "mode": "enforce"}]}}
    allowing: list[dict[str, Any]] = [{"mode": "enforce"}, rule, {"fence": {"unannotated": "allow"}}]
    for values in allowing:
        installed.upgrade(values)
        wait_for(lambda: not said(attempt), f"the fence allows it with {values}")
        assert "mode is off" in refusal(lambda: resize(nodes.agent_a, "default", off))
        installed.upgrade()
        wait_for(lambda: "mode is unannotated" in said(attempt), "the fence refuses it again")


def said(call: Callable[[], object]) -> str:
    """Return why the server forbids it; empty = it does not."""
    try:
        call()
    except ApiError as error:
        if error.status != 403:
            raise
        return error.message
    return ""


@pytest.mark.parametrize("who", ["agent_a", "webhook"])
def test_nobody_may_evict_or_delete_anything(installed: Release, nodes: Nodes, who: str) -> None:
    api: Api = getattr(nodes, who)
    pod = make_pod(installed, "default", nodes.a)
    path = objects.pod_path("default", pod)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    assert "cannot create resource" in refusal(lambda: api.create(f"{path}/eviction", eviction))
    assert "cannot delete resource" in refusal(lambda: api.delete(path))
    for version, _, collection, _ in list(kinds(installed)):
        group, resource = version.rpartition("/")[0], collection.rpartition("/")[2]
        for verb in ("delete", "deletecollection"):
            assert not is_allowed(api, verb, resource, group=group), resource
    assert not is_allowed(api, "create", "secrets", namespace=NAMESPACE)
    assert not is_allowed(api, "get", "secrets", namespace="default")


def kinds(installed: Release) -> Iterator[tuple[str, str, str, bool]]:
    from tests.chart.release import kinds_of

    return kinds_of(installed.plane.admin)


def test_requests_of_agents_fall_into_their_own_priority_level(installed: Release, nodes: Nodes) -> None:
    schemas = {
        schema["metadata"]["uid"]: schema["metadata"]["name"]
        for schema in installed.plane.admin.items("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")
    }

    def schema_of(api: Api, path: str, method: str = "GET", body: Json | None = None) -> str:
        connection, answer = api.open(method, path, body, "application/json", None)
        try:
            answer.read()
            return str(schemas.get(answer.headers["X-Kubernetes-PF-FlowSchema-UID"], "?"))
        finally:
            connection.close()

    pods = f"/api/v1/pods?fieldSelector=spec.nodeName={nodes.a}"
    wait_for(lambda: schema_of(nodes.agent_a, pods) == "plimsoll-reads", "agents' reads have a level of their own")
    event = fence.event(fresh_name("told"), "default", nodes.a)
    assert schema_of(nodes.agent_a, fence.event_path("default"), "POST", event) == "plimsoll-writes"
    assert schema_of(nodes.webhook, "/api/v1/nodes") == "plimsoll-webhook"
    assert schema_of(installed.plane.admin, "/api/v1/nodes") not in ("plimsoll-reads", "plimsoll-webhook")


def test_second_release_is_refused(installed: Release) -> None:
    if not installed.plane.admin.exists("/api/v1/namespaces/second"):
        create_namespace(installed.plane, "second")
    with pytest.raises(ChartError, match="exists and cannot be imported into the current release"):
        helm("install", "second", str(REPOSITORY / "charts/plimsoll"), "--namespace=second",
             f"--kubeconfig={installed.plane.kubeconfig}")  # fmt: skip
    installed.plane.admin.delete("/api/v1/namespaces/second")


SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/plimsoll-webhook-certificate"
AUTHORITY_MAP = f"/api/v1/namespaces/{NAMESPACE}/configmaps/plimsoll-webhook-authority"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/plimsoll-webhook"
RULES = f"/api/v1/namespaces/{NAMESPACE}/configmaps/plimsoll"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/plimsoll"


def test_webhook_makes_what_the_chart_keeps_for_it_and_helm_lets_it_be(
    installed: Release, nodes: Nodes, tmp_path: Path
) -> None:
    """The webhook as a process under the chart's settings file, with its own account's token: no right too few."""
    admin = installed.plane.admin
    [file] = [manifest["data"]["settings.yaml"] for manifest in rendered()["webhook/settings"]]
    (tmp_path / "settings.yaml").write_text(file)
    own = kubeconfig(nodes.webhook, tmp_path / "kubeconfig")
    (port,) = free_ports(1, "127.0.0.1")
    command = [
        sys.executable, "-m", "agent", "webhook", f"--settings={tmp_path / 'settings.yaml'}", f"--kubeconfig={own}",
        f"--listen=127.0.0.1:{port}", f"--database={tmp_path / 'webhook.db'}",
    ]  # fmt: skip
    process = Process("webhook", ["env", "-C", str(REPOSITORY), *command], tmp_path / "webhook.log")
    try:
        process.wait_until(
            lambda: bool(bundle(admin)) and "data" in admin.get(AUTHORITY_MAP), "it is registered, and agents are told"
        )
        read_from_outside(installed, port)
    finally:
        process.stop()
    log = (tmp_path / "webhook.log").read_text()
    assert "cannot" not in log, log
    secret_and_bundle = admin.get(SECRET)["data"], bundle(admin)
    assert base64.b64decode(secret_and_bundle[1]) == base64.b64decode(secret_and_bundle[0]["ca.crt"])
    assert admin.get(AUTHORITY_MAP)["data"] == {"ca.crt": base64.b64decode(secret_and_bundle[1]).decode()}
    transitions = admin.get(LEASE)["spec"]["leaseTransitions"]
    # A person's pause, and a person's rule: no upgrade may end them.
    admin.patch(RULES, {"data": {"pause": "incident 12"}})
    installed.upgrade({"mode": "enforce"})
    assert (admin.get(SECRET)["data"], bundle(admin)) == secret_and_bundle
    installed.rollback()
    assert (admin.get(SECRET)["data"], bundle(admin)) == secret_and_bundle
    assert admin.get(LEASE)["spec"]["leaseTransitions"] == transitions
    assert admin.get(RULES)["data"] == {"pause": "incident 12"}


def read_from_outside(installed: Release, port: int) -> None:
    """As people do through a port-forward: a kubeconfig is all they give. The reader's token, the authority and the
    name in the certificate are found by it."""
    for verb in ("workloads", "buffers"):
        done = subprocess.run(
            [sys.executable, "-m", "agent", verb, f"--webhook=https://127.0.0.1:{port}",
             f"--kubeconfig={installed.plane.kubeconfig}"],
            cwd=REPOSITORY, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (verb, done.stdout, done.stderr)


def bundle(admin: Api) -> str:
    ca_bundle: object = admin.get(REGISTRATION)["webhooks"][0]["clientConfig"].get("caBundle", "")
    return str(ca_bundle)


def agent_template(installed: Release) -> Json:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/plimsoll-agent"
    template: Json = installed.plane.admin.get(path)["spec"]["template"]
    return template


def test_upgrade_rolls_what_changed_and_rollback_takes_it_back(installed: Release, nodes: Nodes) -> None:
    first = agent_template(installed)
    installed.upgrade({"agent": {"podAnnotations": {}}})
    assert agent_template(installed) == first
    installed.upgrade({"settings": {"sampling": {"intervalSeconds": 2}}})
    changed = agent_template(installed)
    assert changed["metadata"]["annotations"] != first["metadata"]["annotations"]
    assert changed["spec"] == first["spec"]
    installed.rollback()
    assert agent_template(installed) == first
    installed.upgrade({"mode": "enforce", "enforceNodes": {"pool": "canary"}, "evictions": {"enabled": True}})
    eviction = partial(is_allowed, nodes.webhook, "create", "pods", subresource="eviction")
    wait_for(eviction, "the webhook may evict")
    installed.upgrade()
    wait_for(lambda: not eviction(), "and no more")
    # From one database to the other and back: one strategy of replacing pods to the other.
    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/plimsoll-webhook"
    for values, strategy in ((VARIANTS["postgresql"], "RollingUpdate"), ({}, "Recreate")):
        installed.upgrade(values)
        assert installed.plane.admin.get(deployment)["spec"]["strategy"]["type"] == strategy
    assert installed.status() == "deployed"


def test_notes_say_how_everything_is_stopped_and_left(installed: Release, nodes: Nodes) -> None:
    """As Helm shows them; what they tell to type is given to a shell's parser."""

    def notes(**values: Any) -> str:
        installed.upgrade(values)
        where = (f"--namespace={NAMESPACE}", f"--kubeconfig={installed.plane.kubeconfig}")
        return helm("get", "notes", "plimsoll", *where)

    usual = notes()
    assert "Webhook and agents stop within a second" in usual
    assert "--timeout" not in usual
    alone = notes(webhook={"enabled": False})
    assert "Agents stop within a second" in alone
    for text in (usual, alone):
        assert "when its kubelet has brought it (a minute or two)" in text
        assert "patch configmap plimsoll" in text
        assert "-- plimsoll pause" in text
    some = notes(mode="enforce", enforceNodes={"pool": "canary"})
    assert "exec ds/plimsoll-agent-enforce -c agent -- plimsoll plan" in some
    leaving = notes(uninstall={"restore": True, "timeoutSeconds": 900})
    assert "helm uninstall plimsoll -n plimsoll --timeout 1020s" in leaving
    for text in (usual, alone, some, leaving):
        for line in re.findall(r"   ((?:kubectl|for|helm) .*)$", text, re.M):
            done = subprocess.run(["bash", "-nc", line], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (line, done.stderr)
    installed.upgrade()


def test_uninstall_leaves_no_object(installed: Release, nodes: Nodes, before: set[tuple[str, str, str]]) -> None:
    admin = installed.plane.admin
    for pod in admin.items("/api/v1/pods"):
        if pod["metadata"]["name"].startswith("web-"):
            path = objects.pod_path(pod["metadata"]["namespace"], pod["metadata"]["name"])
            admin.delete(path, gracePeriodSeconds="0")
    for node in (nodes.a, nodes.b):
        admin.delete(f"/api/v1/nodes/{node}")
    assert everything(admin) - before, "nothing was installed"
    installed.uninstall()

    def left() -> set[tuple[str, str, str]]:
        tests_own = {"second"}
        return {
            key
            for key in everything(admin) - before
            if not tests_own & {key[1], key[2]} and "serviceaccounts" not in key[0]
        }

    wait_for(lambda: not left(), f"nothing of the release is left; {sorted(left())[:5]}")


def test_template_can_be_applied_by_kubectl_and_applied_again(
    release: Release, before: set[tuple[str, str, str]]
) -> None:
    text = helm("template", "plimsoll", str(REPOSITORY / "charts/plimsoll"), f"--namespace={NAMESPACE}",
                "--kube-version=1.37.1", "--no-hooks")  # fmt: skip
    release.kubectl("apply", "-f", "-", stdin=text)
    release.plane.admin.patch(SECRET, {"stringData": {"ca.key": "made by the webhook"}})
    release.kubectl("apply", "-f", "-", stdin=text)
    assert "ca.key" in release.plane.admin.get(SECRET)["data"]
    release.kubectl("delete", "-f", "-", stdin=text)
    wait_for(lambda: not release.plane.admin.exists(SECRET), "it is gone")
