"""What the webhook's token cannot become by its own rights over registration, evictions and PodTemplates."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from agent.core.cluster.pod import PodRef
from agent.kube.calls.eviction import EvictionKind, evict
from agent.kube.client.api import HttpApi
from agent.kube.client.credentials import Credentials
from tests.chart.release import Release
from tests.cluster import objects
from tests.cluster.api import JSON_PATCH, MERGE, Api, ApiError, Json
from tests.cluster.chart import NAMESPACE, RELEASE, helm, rendered
from tests.cluster.identities import ensure_default_account, fresh_name, is_allowed, node_bound_token
from tests.cluster.processes import wait_for

pytestmark = pytest.mark.cluster

FORBIDDEN: Final = 403
HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
OPENED: Final[dict[str, Any]] = {"evictions": {"enabled": True}, "buffers": {"enabled": True, "placeholders": True}}
BUNDLE: Final = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()


@pytest.fixture(scope="module")
def opened(release: Release) -> Iterator[Release]:
    """The chart with all that gives the webhook rights."""
    if RELEASE in helm("list", "-q", f"--kubeconfig={release.plane.kubeconfig}", f"--namespace={NAMESPACE}"):
        release.uninstall()
    for namespace in ("default", "kube-system", NAMESPACE):
        if not release.plane.admin.exists(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"):
            ensure_default_account(release.plane, namespace)
    release.install(OPENED)
    yield release
    release.uninstall()


@pytest.fixture(scope="module")
def webhook(opened: Release) -> Api:
    """The API by its token, once rights and policies are in force."""
    api = opened.plane.api_with_token(node_bound_token(opened.plane, NAMESPACE, "plimsoll-webhook", None))
    rules = [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 3}]
    probes = (
        partial(api.patch, f"{HOOKS}/plimsoll", rules, JSON_PATCH, dryRun="All"),
        partial(api.create, templates("default"), template("probe", []), dryRun="All"),
        partial(api.create, objects.pod_path("kube-system", "none", "eviction"), eviction("none", "kube-system")),
    )
    wait_for(lambda: all("plimsoll: " in why_not(probe) for probe in probes), "the fence is in force")
    return api


def why_not(call: Callable[[], object]) -> str:
    """Return why the server forbids it; empty = it does not."""
    try:
        call()
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return error.message
    return ""


# The registration


def test_bundle_alone_is_put_in_renewed_and_taken_away(webhook: Api) -> None:
    path = "/webhooks/0/clientConfig/caBundle"
    name = {"op": "test", "path": "/webhooks/0/name", "value": "pods.plimsoll.dev"}
    for operation in (
        {"op": "add", "path": path, "value": BUNDLE},
        {"op": "replace", "path": path, "value": BUNDLE[:-4]},
        {"op": "remove", "path": path},
    ):
        webhook.patch(f"{HOOKS}/plimsoll", [name, operation], JSON_PATCH)


def other_webhook(hooks: list[Json]) -> None:
    more = copy.deepcopy(hooks[0])
    more["name"] = "evil.plimsoll.dev"
    hooks.append(more)


def other_secrets(hooks: list[Json]) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"], "scope": "*"}
    hooks[0]["rules"].append(rule)


def other_url(hooks: list[Json]) -> None:
    hooks[0]["clientConfig"] = {"url": "https://evil.example/mutate", "caBundle": BUNDLE}


WIDENED: dict[str, Callable[[list[Json]], object]] = {
    "rules": other_secrets,
    "namespaces": lambda hooks: hooks[0].update(namespaceSelector={}),
    "objects": lambda hooks: hooks[0].update(objectSelector={"matchLabels": {"app": "bank"}}),
    "url": other_url,
    "another service": lambda hooks: hooks[0]["clientConfig"]["service"].update(namespace="evil"),
    "another path": lambda hooks: hooks[0]["clientConfig"]["service"].update(path="/other"),
    "another port": lambda hooks: hooks[0]["clientConfig"]["service"].update(port=8443),
    "failurePolicy": lambda hooks: hooks[0].update(failurePolicy="Fail"),
    "time": lambda hooks: hooks[0].update(timeoutSeconds=30),
    "reinvocation": lambda hooks: hooks[0].update(reinvocationPolicy="Never"),
    "conditions": lambda hooks: hooks[0].update(matchConditions=[]),
    "another name": lambda hooks: hooks[0].update(name="other.plimsoll.dev"),
    "a second webhook": other_webhook,
    "no webhook": lambda hooks: hooks.clear(),
}


@pytest.mark.parametrize("how", WIDENED)
def test_nothing_else_of_the_registration_changes(opened: Release, webhook: Api, how: str) -> None:
    hooks = opened.plane.admin.get(f"{HOOKS}/plimsoll")["webhooks"]
    WIDENED[how](hooks)
    message = why_not(lambda: webhook.patch(f"{HOOKS}/plimsoll", {"webhooks": hooks}, MERGE))
    assert "nothing of the registration but caBundle may change" in message


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"a": "b"}},
        {"labels": None},
        {"annotations": {"cert-manager.io/inject-ca-from": "evil/certificate"}},
        {"finalizers": ["example.com/held"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "x"}]},
        {"managedFields": [{}]},
    ],
)
def test_nothing_of_the_registrations_metadata_changes(webhook: Api, metadata: Json) -> None:
    message = why_not(lambda: webhook.patch(f"{HOOKS}/plimsoll", {"metadata": metadata}, MERGE))
    assert "nothing of the registration but caBundle may change" in message


def test_apply_changes_nothing_else_either(webhook: Api) -> None:
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "plimsoll"},
        "webhooks": [{"name": "pods.plimsoll.dev", "failurePolicy": "Fail"}],
    }
    apply = partial(webhook.patch, f"{HOOKS}/plimsoll", body, "application/apply-patch+yaml")
    assert "nothing of the registration but caBundle" in why_not(lambda: apply(fieldManager="evil", force="true"))


CERTIFICATES: dict[str, dict[str, Any]] = {
    "secret": {"source": "secret", "secretName": "tls", "caBundle": "-----BEGIN CERTIFICATE-----"},
    "cert-manager": {"source": "cert-manager", "issuerRef": {"name": "ours"}},
}


@pytest.mark.parametrize("source", [*CERTIFICATES, "built-in"])
def test_right_over_the_registration_is_there_where_it_is_used(source: str) -> None:
    parts = rendered({"webhook": {"certificate": CERTIFICATES.get(source, {})}})
    [role] = [manifest for manifest in parts["webhook/rights"] if manifest["kind"] == "ClusterRole"]
    verbs = [rule["verbs"] for rule in role["rules"] if "mutatingwebhookconfigurations" in rule.get("resources", ())]
    assert verbs == ([["list", "watch", "patch"]] if source == "built-in" else [])


@pytest.mark.parametrize(
    ("verb", "resource", "group"),
    [
        *(("get", kind, "") for kind in ("nodes", "namespaces", "limitranges", "resourcequotas", "secrets")),
        ("get", "horizontalpodautoscalers", "autoscaling"),
        ("get", "verticalpodautoscalers", "autoscaling.k8s.io"),
        *((verb, "mutatingwebhookconfigurations", "admissionregistration.k8s.io") for verb in ("create", "delete")),
        *((verb, "validatingadmissionpolicies", "admissionregistration.k8s.io") for verb in ("get", "patch")),
        *((verb, "pods", "") for verb in ("patch", "update", "deletecollection")),
        ("create", "pods/exec", ""),
        ("create", "pods/binding", ""),
        ("patch", "nodes", ""),
        ("create", "serviceaccounts/token", ""),
        ("impersonate", "users", ""),
        ("patch", "deployments", "apps"),
        ("update", "deployments/scale", "apps"),
        ("delete", "podtemplates", ""),
        ("patch", "clusterroles", "rbac.authorization.k8s.io"),
    ],
)
def test_webhook_has_no_right_that_it_does_not_use(webhook: Api, verb: str, resource: str, group: str) -> None:
    resource, _, subresource = resource.partition("/")
    assert not is_allowed(webhook, verb, resource, group=group, subresource=subresource)


# Evictions


def eviction(name: str, namespace: str, **options: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": "some"}, **options},
    }


def test_program_evicts_and_not_where_it_is_protected(opened: Release, webhook: Api) -> None:
    token = node_bound_token(opened.plane, NAMESPACE, "plimsoll-webhook", None)
    credentials = Credentials(server=opened.plane.url, origin="tests", ca_file=opened.plane.authority, token=token)
    program = HttpApi(credentials)
    answers = {}
    for namespace in ("default", "kube-system", NAMESPACE):
        pod = opened.plane.admin.create(objects.pod_path(namespace), objects.pod(fresh_name("sp"), None))
        ref = PodRef(namespace=namespace, name=pod["metadata"]["name"], uid=pod["metadata"]["uid"])
        answers[namespace] = evict(program, ref)
        is_there = opened.plane.admin.exists(objects.pod_path(namespace, ref.name))
        assert is_there == (namespace != "default")
        if is_there:
            opened.plane.admin.delete(objects.pod_path(namespace, ref.name), gracePeriodSeconds="0")
    program.close()
    assert answers.pop("default").kind is EvictionKind.ACCEPTED
    for namespace, answer in answers.items():
        assert f"pods of namespace {namespace} are never evicted" in answer.message


def test_eviction_is_of_one_pod_and_leaves_it_its_time(opened: Release, webhook: Api) -> None:
    name = opened.plane.admin.create(objects.pod_path("default"), objects.pod(fresh_name("sp"), None))["metadata"][
        "name"
    ]
    path = objects.pod_path("default", name, "eviction")
    for body in (eviction(name, "default", gracePeriodSeconds=0), eviction(name, "default", preconditions={})):
        assert "leaves it its own time to end" in why_not(partial(webhook.create, path, body))
    opened.plane.admin.delete(objects.pod_path("default", name), gracePeriodSeconds="0")


def test_fence_and_arbiter_protect_the_same_namespaces() -> None:
    parts = rendered({**OPENED, "excludedNamespaces": ["payments"]})
    settings = parts["webhook/settings"][0]["data"]["settings.yaml"]
    assert "protectedNamespaces: kube-node-lease,kube-public,kube-system,payments,plimsoll" in settings
    listed = '["kube-node-lease","kube-public","kube-system","payments","plimsoll"]'
    assert listed in parts["fence/evictions"][0]["spec"]["validations"][0]["expression"]


# PodTemplates


def templates(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates" + (f"/{name}" if name else "")


def template(name: str, owners: list[Json], **metadata: Any) -> Json:
    content = {"spec": {"containers": [{"name": "app", "image": "web:1"}]}}
    return {"metadata": {"name": name, "ownerReferences": owners, **metadata}, "template": content}


OWNER: Final = {
    "apiVersion": "autoscaling.x-k8s.io/v1beta1",
    "kind": "CapacityBuffer",
    "name": "spare",
    "uid": "0b1d2c3e-4f5a-6789-abcd-ef0123456789",
    "controller": True,
}
EVIL: Final = [{"op": "add", "path": "/template/spec/hostPID", "value": True}]


def test_somebodys_template_is_neither_changed_nor_taken_over(opened: Release, webhook: Api) -> None:
    name = fresh_name("theirs")
    opened.plane.admin.create(templates("kube-system"), template(name, []))
    path = templates("kube-system", name)
    owned = [{"op": "add", "path": "/metadata/ownerReferences", "value": [OWNER]}]
    for patch in (EVIL, owned, [*owned, *EVIL]):
        message = why_not(partial(webhook.patch, path, patch, JSON_PATCH))
        assert "PodTemplates that belong to a CapacityBuffer, and no others" in message
    assert "no others" in why_not(lambda: webhook.create(templates("default"), template("new", [])))
    pod = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}
    assert "no others" in why_not(lambda: webhook.create(templates("default"), template("new", [pod])))
    opened.plane.admin.delete(path)


def test_template_of_a_buffer_is_made_and_replaced_and_not_let_go(opened: Release, webhook: Api) -> None:
    name, buffers = fresh_name("ours"), "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers"
    spec = {"podTemplateRef": {"name": "none"}, "replicas": 1}
    kind = {"apiVersion": OWNER["apiVersion"], "kind": OWNER["kind"], "metadata": {"name": name}, "spec": spec}
    opened.plane.admin.create(buffers, kind)
    # The garbage collector takes what belongs to nobody.
    owner = {**OWNER, "name": name, "uid": opened.plane.admin.get(f"{buffers}/{name}")["metadata"]["uid"]}
    labels = {"app.kubernetes.io/managed-by": "plimsoll"}
    held = template(name, [owner], labels=labels, finalizers=["example.com/held"])
    assert "PodTemplate's metadata" in why_not(lambda: webhook.create(templates("default"), held))
    webhook.create(templates("default"), template(name, [owner], labels=labels))
    path = templates("default", name)
    content = {"spec": {"containers": [{"name": "app", "image": "web:2"}]}}
    webhook.patch(path, [{"op": "replace", "path": "/template", "value": content}], JSON_PATCH)
    webhook.patch(path, [{"op": "replace", "path": "/metadata/ownerReferences", "value": [owner]}], JSON_PATCH)
    assert "no others" in why_not(
        lambda: webhook.patch(path, [{"op": "remove", "path": "/metadata/ownerReferences"}], JSON_PATCH)
    )
    for metadata in ({"finalizers": ["example.com/held"]}, {"labels": None}):
        message = why_not(partial(webhook.patch, path, {"metadata": metadata}, MERGE))
        assert "PodTemplate's metadata" in message
    opened.plane.admin.delete(path)
    opened.plane.admin.delete(f"{buffers}/{name}")
