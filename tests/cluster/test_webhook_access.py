"""The webhook's doors, with real bound tokens judged by a real API server: who may report what, and who may read."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import chart, fence, objects
from tests.cluster.api import Json, kubeconfig
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import (
    create_namespace,
    create_service_account,
    fresh_name,
    node_bound_token,
    remove_namespace,
)
from tests.cluster.processes import ClusterError, wait_for
from tests.cluster.webhook_process import (
    AUDIENCE,
    NAMESPACE,
    UNBOUNDED,
    WebhookProcess,
    agent_token,
    answer_of,
    webhook,
    webhook_started,
)
from tests.webhook.report_bodies import distribution, report_body, row_body

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def served(fenced: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookProcess]:
    """A replica in namespace plimsoll, which ``fenced`` made with the agents' account; with its own rights, no more."""
    folder = tmp_path_factory.mktemp("webhook")
    fenced.admin.apply_all(chart.parts(*chart.WEBHOOK))
    own = fenced.api_with_token(node_bound_token(fenced, NAMESPACE, "plimsoll-webhook", None))
    file = kubeconfig(own, folder / "kubeconfig")
    arguments = ["--set=access.refusalSeconds=0", UNBOUNDED]
    with webhook(fenced, folder, kubeconfig=file, arguments=arguments) as replica:
        yield replica


@pytest.fixture
def node(fenced: ControlPlane, node_name: str) -> str:
    objects.create_node(fenced.admin, node_name)
    return node_name


@pytest.fixture
def other_node(fenced: ControlPlane) -> Iterator[str]:
    name = fresh_name("node")
    objects.create_node(fenced.admin, name)
    yield name
    fenced.admin.delete(f"/api/v1/nodes/{name}")


def bare_pod(plane: ControlPlane, namespace: str, node: str | None, name: str = "web-0") -> Json:
    pod: Json = plane.admin.create(objects.pod_path(namespace), objects.pod(name, node))
    return pod


def row_of(pod: Json) -> Json:
    metadata = pod["metadata"]
    return row_body(
        namespace=metadata["namespace"],
        kind="Pod",
        workload=metadata["name"],
        pod=metadata["name"],
        podUid=metadata["uid"],
    )


def seen(served: WebhookProcess, node: str, token: str, *pods: Json, sequence: int = 1) -> Json:
    """Report pods, as soon as the webhook's watch has them all."""
    body = report_body(*(row_of(pod) for pod in pods), node=node, sequence=sequence, incarnation=fresh_name("i"))

    def taken() -> bool:
        body["incarnation"] = fresh_name("i")
        answers.append(answer_of(served.post("/v1/report", body, token)))
        return bool(answers[-1]["taken"] == len(pods))

    answers: list[Json] = []
    wait_for(taken, "the watch brings the pods")
    return answers[-1]


def results(served: WebhookProcess, result: str) -> float:
    return served.series(f'plimsoll_reports_received_total{{result="{result}"}}')


def test_a_node_reports_its_own_pods(served: WebhookProcess, fenced: ControlPlane, namespace: str, node: str) -> None:
    pod = bare_pod(fenced, namespace, node)
    token = agent_token(fenced, node)
    before = results(served, "accepted")
    answer = seen(served, node, token, pod)
    assert answer["refused"] == []
    assert answer["directives"]["pauseReason"] is None
    assert [directive["name"] for directive in answer["directives"]["workloads"]] == ["web-0"]
    assert results(served, "accepted") > before


def test_another_nodes_token_is_refused_and_counted(
    served: WebhookProcess, fenced: ControlPlane, node: str, other_node: str
) -> None:
    before = results(served, "wrong_node")
    reply = served.post("/v1/report", report_body(node=node), agent_token(fenced, other_node))
    assert reply.status == 403
    assert reply.json() == {"error": f"the token is of node {other_node}, the report of node {node}"}
    assert results(served, "wrong_node") == before + 1


def test_a_token_for_the_api_server_is_refused_and_counted(
    served: WebhookProcess, fenced: ControlPlane, node: str
) -> None:
    before = results(served, "bad_token")
    token = node_bound_token(fenced, fence.NAMESPACE, fence.ACCOUNT, node)  # good there, and not meant for the webhook
    reply = served.post("/v1/report", report_body(node=node), token)
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert results(served, "bad_token") == before + 1


def test_a_token_whose_node_is_gone_is_refused(served: WebhookProcess, fenced: ControlPlane, other_node: str) -> None:
    token, another = agent_token(fenced, other_node), agent_token(fenced, other_node)
    fenced.admin.delete(f"/api/v1/nodes/{other_node}")
    # It looks nodes up in what its watch has brought. Another token, as what is good once is believed for seconds.
    wait_for(lambda: not _is_good(fenced, another), "the API server has seen that the node is gone")
    assert served.post("/v1/report", report_body(node=other_node), token).status == 401


def _is_good(plane: ControlPlane, token: str) -> bool:
    spec = {"token": token, "audiences": [AUDIENCE]}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    answer: Json = plane.admin.create("/apis/authentication.k8s.io/v1/tokenreviews", review)
    return bool(answer["status"].get("authenticated"))


def test_an_expired_token_is_refused(served: WebhookProcess, fenced: ControlPlane, node: str) -> None:
    token = agent_token(fenced, node)
    head, claims, signature = token.split(".")
    expired = json.loads(base64.urlsafe_b64decode(claims + "=="))
    expired["exp"] = int(time.time()) - 60
    forged = base64.urlsafe_b64encode(json.dumps(expired).encode()).rstrip(b"=").decode()
    # A server gives no token of less than ten minutes: one that says it expired fails by its signature as well.
    assert served.post("/v1/report", report_body(node=node), f"{head}.{forged}.{signature}").status == 401


def test_a_token_that_is_bound_to_no_node_is_refused_and_counted(
    served: WebhookProcess, fenced: ControlPlane, node: str
) -> None:
    before = results(served, "no_claim")
    reply = served.post("/v1/report", report_body(node=node), agent_token(fenced, None))
    assert reply.status == 403
    assert results(served, "no_claim") == before + 1


def test_another_account_is_refused_and_counted(
    served: WebhookProcess, fenced: ControlPlane, namespace: str, node: str
) -> None:
    create_service_account(fenced, namespace, fence.ACCOUNT)
    token = node_bound_token(fenced, namespace, fence.ACCOUNT, node, audiences=("plimsoll-webhook",))
    before = results(served, "wrong_account")
    reply = served.post("/v1/report", report_body(node=node), token)
    assert reply.status == 403
    assert results(served, "wrong_account") == before + 1


def test_without_a_token_nothing_is_taken(served: WebhookProcess, node: str) -> None:
    assert served.post("/v1/report", report_body(node=node), None).status == 401
    assert served.post("/v1/evictions", {"schema": 1, "node": node, "proposals": []}, None).status == 401
    assert served.get("/v1/workloads").status == 401


def test_a_pod_of_another_node_is_refused_as_a_row_and_counted(
    served: WebhookProcess, fenced: ControlPlane, namespace: str, node: str, other_node: str
) -> None:
    own, foreign = bare_pod(fenced, namespace, node), bare_pod(fenced, namespace, other_node, "other-0")
    token = agent_token(fenced, node)
    seen(served, node, token, own)
    seen(served, other_node, agent_token(fenced, other_node), foreign)
    before = served.series('plimsoll_report_rows_total{result="foreign"}')
    unbound = bare_pod(fenced, namespace, None, "pending-0")
    body = report_body(row_of(foreign), row_of(own), row_of(unbound), node=node, incarnation=fresh_name("i"))
    answer = answer_of(served.post("/v1/report", body, token))
    assert answer["taken"] == 1
    assert answer["refused"][0] == {"row": 0, "reason": f"podUid: the pod is not on node {node}"}
    assert [refusal["row"] for refusal in answer["refused"]] == [0, 2]
    assert served.series('plimsoll_report_rows_total{result="foreign"}') == before + 2


def test_a_pod_cannot_be_told_of_under_another_owner(
    served: WebhookProcess, fenced: ControlPlane, namespace: str, node: str
) -> None:
    pod = bare_pod(fenced, namespace, node)
    token = agent_token(fenced, node)
    seen(served, node, token, pod)
    bent = {**row_of(pod), "kind": "Deployment", "workload": "bank"}
    body = report_body(bent, node=node, incarnation=fresh_name("i"))
    answer = answer_of(served.post("/v1/report", body, token))
    assert answer["refused"] == [{"row": 0, "reason": f"workload: the pod belongs to Pod {namespace}/web-0"}]


def test_the_last_minutes_of_a_deleted_pod_are_taken(
    served: WebhookProcess, fenced: ControlPlane, namespace: str, node: str
) -> None:
    pod = bare_pod(fenced, namespace, node)
    token = agent_token(fenced, node)
    seen(served, node, token, pod)
    fenced.admin.delete(objects.pod_path(namespace, "web-0"), gracePeriodSeconds="0")
    wait_for(lambda: _reason_of(served, pod, node, token).startswith("unknown_pod"), "the watch tells that it is gone")
    assert seen(served, node, token, pod)["refused"] == []


def _reason_of(served: WebhookProcess, pod: Json, node: str, token: str) -> str:
    """Propose a pod: only what is known to be there could be evicted."""
    metadata = pod["metadata"]
    proposal = {"namespace": metadata["namespace"], "pod": metadata["name"], "podUid": metadata["uid"], "reason": "cpu"}
    answer = answer_of(served.post("/v1/evictions", {"schema": 1, "node": node, "proposals": [proposal]}, token))
    return str(answer["answers"][0]["reason"])


# What is in the body is bounded


def test_bad_rows_are_refused_each_and_a_repeat_is_no_second_report(
    served: WebhookProcess, fenced: ControlPlane, namespace: str, node: str
) -> None:
    pod = bare_pod(fenced, namespace, node)
    token = agent_token(fenced, node)
    seen(served, node, token, pod)
    bad = {**row_of(pod), "cpu": {**distribution(), "max": float("nan")}}
    body = report_body(bad, row_of(pod), node=node, incarnation=fresh_name("i"), sequence=3)
    first = answer_of(served.post("/v1/report", body, token))
    assert (first["taken"], first["repeated"]) == (1, False)
    assert first["refused"] == [{"row": 0, "reason": "cpu.max: expected float >= 0.0"}]
    assert answer_of(served.post("/v1/report", body, token))["repeated"] is True


def test_what_a_node_holds_is_not_sent_again(
    served: WebhookProcess, fenced: ControlPlane, namespace: str, node: str
) -> None:
    pod = bare_pod(fenced, namespace, node)
    token = agent_token(fenced, node)
    seen(served, node, token, pod)

    def answered() -> Json:
        # Without rows: of an hour of a container no more than 63 minutes are taken, so polls must not tell of it again.
        answer: Json = answer_of(served.post("/v1/report", report_body(node=node, incarnation=fresh_name("i")), token))
        return answer

    def is_followed() -> bool:  # two answers alike would not tell: both may be from before
        return bool(answered()["directives"]["workloads"][0]["containers"])

    wait_for(is_followed, "the directives hold what its own report says")
    etag = answered()["etag"]
    body = json.dumps(report_body(row_of(pod), node=node, incarnation=fresh_name("i"))).encode()
    reply = served.ask("POST", "/v1/report", body, Authorization=f"Bearer {token}", If_None_Match=f'"{etag}"')
    assert answer_of(reply)["directives"] is None
    assert reply.headers["etag"] == f'"{etag}"'


def test_a_node_has_so_many_reports_a_minute(fenced: ControlPlane, node: str, tmp_path: Path) -> None:
    token = agent_token(fenced, node)
    with webhook(fenced, tmp_path, arguments=["--set=access.requestsPerMinute=2", "--replica=b"]) as replica:
        statuses = [
            replica.post("/v1/report", report_body(node=node, sequence=number), token).status for number in (1, 2, 3)
        ]
        assert statuses == [200, 200, 429]
        reply = replica.post("/v1/report", report_body(node=node, sequence=3), token)
        assert 1 <= int(reply.headers["retry-after"]) <= 60


def test_a_pod_of_another_node_cannot_be_proposed(
    served: WebhookProcess, fenced: ControlPlane, namespace: str, node: str, other_node: str
) -> None:
    foreign = bare_pod(fenced, namespace, other_node)
    seen(served, other_node, agent_token(fenced, other_node), foreign)
    token = agent_token(fenced, node)
    assert _reason_of(served, foreign, node, token).startswith("other_node")
    reply = served.post("/v1/evictions", {"schema": 1, "node": other_node, "proposals": []}, token)
    assert reply.status == 403


# Readers


def test_people_read_as_far_as_rbac_lets_them(
    served: WebhookProcess, fenced: ControlPlane, namespace: str, node: str
) -> None:
    pod = bare_pod(fenced, namespace, node)
    seen(served, node, agent_token(fenced, node), pod)
    create_service_account(fenced, namespace, "reader")
    token = node_bound_token(fenced, namespace, "reader", None, audiences=("plimsoll-webhook",))
    path = f"/v1/workloads/{namespace}/Pod/web-0"
    refused = served.get(path, token)
    assert refused.status == 403
    assert f"may not get the nonResourceURL {path}" in refused.json()["error"]

    role = fresh_name("reader")
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"nonResourceURLs": [f"/v1/workloads/{namespace}/*", "/v1/nodes"], "verbs": ["get"]}]
    fenced.admin.create(f"{rbac}/clusterroles", {"metadata": {"name": role}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
    fenced.admin.create(f"{rbac}/clusterrolebindings", binding)
    try:
        wait_for(lambda: served.get(path, token).status == 200, "the role holds")
        workload = answer_of(served.get(path, token))
        assert (workload["namespace"], workload["kind"], workload["name"]) == (namespace, "Pod", "web-0")
        assert workload["applies"]["mode"] == {"value": "recommend", "source": "setting act.mode"}
        assert [container["container"] for container in workload["containers"]] == ["app"]
        nodes = answer_of(served.get("/v1/nodes", token))["nodes"]
        assert node in [entry["node"] for entry in nodes]
        assert served.get("/v1/workloads", token).status == 403
    finally:
        fenced.admin.delete(f"{rbac}/clusterroles/{role}")
        fenced.admin.delete(f"{rbac}/clusterrolebindings/{role}")


def test_who_may_list_the_pods_of_a_namespace_reads_that_namespace_alone(
    served: WebhookProcess, fenced: ControlPlane, namespace: str, node: str
) -> None:
    other = fresh_name("bank")
    create_namespace(fenced, other)
    agent = agent_token(fenced, node)
    pods = [bare_pod(fenced, namespace, node), bare_pod(fenced, other, node, "vault-0")]
    seen(served, node, agent, *pods)
    decisions = [
        {
            **{"sequence": number, "ageSeconds": 60.0, "action": "resize", "outcome": "applied", "reason": "short"},
            **{"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"]},
            "podUid": pod["metadata"]["uid"],
        }
        for number, pod in enumerate(pods, 1)
    ]
    body = {"schema": 1, "node": node, "incarnation": fresh_name("i"), "agent": "1", "decisions": decisions}
    assert answer_of(served.post("/v1/decisions", body, agent)) == {"taken": 2, "refused": []}

    create_service_account(fenced, namespace, "developer")
    token = node_bound_token(fenced, namespace, "developer", None, audiences=("plimsoll-webhook",))
    refused = served.get(f"/v1/events?namespace={namespace}", token)
    assert (refused.status, refused.json()["error"].endswith("and list pods not there either")) == (403, True)
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    fenced.admin.create(f"{rbac}/roles", {"metadata": {"name": "looks"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "developer", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "looks"}
    fenced.admin.create(
        f"{rbac}/rolebindings", {"metadata": {"name": "looks"}, "roleRef": reference, "subjects": [subject]}
    )
    # No answer was given for all namespaces yet, so none is remembered from before the binding.
    wait_for(lambda: _may_list(fenced, namespace), "the binding holds")
    events = answer_of(served.get("/v1/events", token))
    assert (events["scope"]["wholeCluster"], events["scope"]["names"]) == (False, [namespace])
    assert events["scope"]["words"] == f"1 of {events['scope']['ofNamespaces']} namespaces is yours"
    assert [event["pod"] for event in events["events"]] == ["web-0"]

    def listed() -> list[str]:
        return [line["name"] for line in answer_of(served.get("/v1/workloads", token))["workloads"]]

    wait_for(lambda: listed() != [], "the report is followed")
    assert listed() == ["web-0"]
    summary = answer_of(served.get("/v1/summary", token))
    assert (summary["workloads"]["total"], summary["nodes"]) == (1, None)
    assert served.get(f"/v1/workloads/{other}/Pod/vault-0", token).status == 403
    for path in ("/v1/events", "/v1/workloads", "/v1/summary", "/v1/nodes", "/v1/policy"):
        reply = served.get(path, token)
        assert reply.status == 200
        assert other.encode() not in reply.body
        assert b"vault" not in reply.body
    remove_namespace(fenced, other)


def _may_list(plane: ControlPlane, namespace: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace}:developer",
            "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": namespace},
        },
    }
    answer: Json = plane.admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


# The whole of it: reported, restarted, admitted alike


def test_the_last_minutes_of_a_pod_that_went_while_no_webhook_ran_are_taken(
    fenced: ControlPlane, namespace: str, node: str, tmp_path: Path
) -> None:
    pod = bare_pod(fenced, namespace, node)
    token = agent_token(fenced, node)
    arguments = ["--set=cluster.lease=away-meanwhile", "--replica=e"]
    with webhook(fenced, tmp_path, arguments=arguments) as replica:
        seen(replica, node, token, pod)
    fenced.admin.delete(objects.pod_path(namespace, "web-0"), gracePeriodSeconds="0")
    other = bare_pod(fenced, namespace, node, "web-1")  # of which no report told before it went
    fenced.admin.delete(objects.pod_path(namespace, "web-1"), gracePeriodSeconds="0")
    with webhook(fenced, tmp_path, arguments=arguments) as replica:
        body = report_body(row_of(pod), row_of(other), node=node, incarnation=fresh_name("i"))
        answer = answer_of(replica.post("/v1/report", body, token))
    assert answer["taken"] == 1
    assert answer["refused"] == [{"row": 1, "reason": f"podUid: no pod {other['metadata']['uid']} is known"}]


def test_a_restart_forgets_nothing(fenced: ControlPlane, node: str, tmp_path: Path) -> None:
    namespace = fresh_name("shop")
    create_namespace(fenced, namespace, {"plimsoll.dev/mode": "enforce"})
    deployment = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [objects.container(requests={"cpu": "2", "memory": "1Gi"})]},
            },
        },
    }
    fenced.admin.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
    pods = objects.pod_path(namespace)
    wait_for(lambda: bool(fenced.admin.get(pods)["items"]), "the deployment has a pod")
    (pod,) = fenced.admin.get(pods)["items"]
    name = pod["metadata"]["name"]
    binding = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    fenced.admin.create(objects.pod_path(namespace, name, "binding"), binding)
    row = row_body(namespace=namespace, pod=name, podUid=pod["metadata"]["uid"], oomKills=[])
    body = report_body(row, node=node)
    token = agent_token(fenced, node)
    review = json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "705ab4f5",
                "operation": "CREATE",
                "namespace": namespace,
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "object": {"metadata": {**pod["metadata"], "uid": None}, "spec": {**pod["spec"], "nodeName": None}},
            },
        }
    ).encode()
    arguments = [
        "--set=plan.minAgeSeconds=0",
        "--replica=c",
        "--set=cluster.lease=restarted",
    ]
    with webhook(fenced, tmp_path, arguments=arguments) as replica:
        wait_for(lambda: _is_taken(replica, body, token), "the watch brings the pod")
        wait_for(lambda: "patch" in _response(replica, review), "the report is in memory")
        first = _response(replica, review)
        assert replica.series('plimsoll_webhook_requests_total{result="patched"}') >= 1
    patch = json.loads(base64.b64decode(first["patch"]))
    assert {"/spec/containers/0/resources/requests/cpu"} <= {step["path"] for step in patch}
    with webhook(fenced, tmp_path, arguments=arguments) as replica:
        second = _response(replica, review)
        assert answer_of(replica.post("/v1/report", body, token))["repeated"] is True
    assert first["allowed"] is True
    assert second["uid"] == "705ab4f5"
    assert _without_ages(json.loads(base64.b64decode(second["patch"]))) == _without_ages(patch)
    remove_namespace(fenced, namespace)


def _is_taken(replica: WebhookProcess, body: Json, token: str) -> bool:
    body["sequence"] += 1  # a report is taken once, whatever rows were refused
    return bool(answer_of(replica.post("/v1/report", body, token))["taken"] == 1)


def _response(replica: WebhookProcess, review: bytes) -> Json:
    answer: Json = answer_of(replica.ask("POST", "/mutate?timeout=2s", review, Content_Type="application/json"))[
        "response"
    ]
    return answer


def _without_ages(patch: list[Json]) -> list[Json]:
    """Leave out the annotation's words, which tell how long the history is."""
    return [step for step in patch if "annotations" not in step["path"]]


def test_without_its_database_a_webhook_is_not_ready_answers_all_the_same_and_reports_wait(
    fenced: ControlPlane, node: str, tmp_path: Path
) -> None:
    review = {"request": {"uid": "u-1", "operation": "CREATE", "object": {}}}
    arguments = ["--set=cluster.lease=away", "--replica=d"]
    nowhere = "postgresql://nobody@127.0.0.1:1/none"

    def readiness(process: WebhookProcess) -> tuple[int, bytes]:
        try:
            reply = process.get("/readyz")
        except OSError:  # it does not listen yet
            return 0, b""
        return reply.status, reply.body

    with webhook_started(fenced, tmp_path, database=nowhere, arguments=arguments) as replica:
        wait_for(lambda: b"the history is not loaded yet" in readiness(replica)[1], "all else is read")
        status, words = readiness(replica)
        assert (status, words.partition(b")")[2]) == (503, b": the database is away\n")
        assert _response(replica, json.dumps(review).encode()) == {"uid": "u-1", "allowed": True}
        reply = replica.post("/v1/report", report_body(node=node), agent_token(fenced, node))
        assert (reply.status, reply.json()) == (503, {"error": "the database is away"})
        assert int(reply.headers["retry-after"]) == 10
        assert replica.series("plimsoll_store_up") == 0
    assert '"message": "ended"' in (tmp_path / "webhook.log").read_text()


def test_what_cannot_work_is_said_on_one_line(fenced: ControlPlane, tmp_path: Path) -> None:
    newer = tmp_path / "newer.db"
    newer.write_bytes(b"no database at all, and long enough to be read as one" * 100)
    expected = r"ended with 2 before [^\n]+\n[^\n]+\n *plimsoll webhook: [^\n]+\Z"
    with pytest.raises(ClusterError, match=expected), webhook(fenced, tmp_path, database=str(newer)):
        pass


assert NAMESPACE == fence.NAMESPACE
