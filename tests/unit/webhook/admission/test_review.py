from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.admission.answer import AdmissionOutcome
from agent.core.admission.estimate import NoEstimate
from agent.core.cluster.facts import ClusterRule, ClusterRules, FrozenAxes
from agent.core.cluster.launch import MOST_SPLIT
from agent.core.cluster.node import Namespace
from agent.core.cluster.qos import computed_qos_class
from agent.core.cluster.workload import Workload
from agent.core.history.reports.rollup import NodeClass
from agent.core.orders import annotations as names
from agent.core.orders.policy_options import PolicyName
from agent.webhook.admission.glance import MAX_REVIEW_BYTES, glance
from agent.webhook.admission.review import Reviewer
from agent.webhook.admission.share_tickets import MOST_WORKLOADS, ShareTickets
from tests.admissions import EXACT, NOW_UNIX_SECONDS, Cluster, Told, estimate, new_pod, pod_of, response_of, review_of
from tests.examples import examples
from tests.json_patch import apply_patch
from tests.pods import container

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
POD = new_pod(container("app", {"cpu": "500m", "memory": "300M"}, {"cpu": "1", "memory": "600M"}))


class Desk:
    """A reviewer, and what it counts."""

    def __init__(self, cluster: Cluster | None = None, told: Told | None = None, **options: Any) -> None:
        self.cluster = cluster or Cluster()
        self.told = told or Told(estimate())
        self.counted: list[str] = []
        self.reviewer = Reviewer(
            self.cluster,
            self.told,
            options.pop("settings", EXACT),
            clock=lambda: NOW_UNIX_SECONDS,
            count=self._count,
        )

    def _count(self, result: str, seconds: float) -> None:
        assert seconds >= 0
        self.counted.append(result)

    def __call__(self, review: object) -> dict[str, Any]:
        body = review if isinstance(review, bytes) else json.dumps(review).encode()
        return response_of(self.reviewer.review(body))


def test_a_pod_is_patched() -> None:
    desk = Desk()
    response = desk(review_of(POD))
    assert (response["uid"], response["allowed"]) == (UID, True)
    done = apply_patch(POD, response["patch"])
    assert done["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "300m", "memory": "200000000"}
    assert desk.counted == ["patched"]
    assert desk.told.asked == [
        (Workload(namespace="shop", kind="Deployment", name="web"), "app", PolicyName.PLIMSOLL, None, None)
    ]


def test_a_generated_name_and_no_uid_are_what_a_new_pod_has() -> None:
    metadata = {key: value for key, value in POD["metadata"].items() if key not in ("name", "uid", "namespace")}
    desk = Desk()
    assert desk(review_of({**POD, "metadata": {**metadata, "generateName": "web-"}}))["patch"]
    assert desk(review_of({**POD, "metadata": metadata}))["patch"]
    assert desk.counted == ["patched", "patched"]


def test_the_status_that_a_pod_claims_is_not_believed() -> None:
    claimed = {**POD, "status": {"qosClass": "BestEffort", "phase": "nonsense", "containerStatuses": [{}]}}
    assert Desk()(review_of(claimed))["patch"]


def test_the_first_annotation_is_added_as_an_object() -> None:
    bare = {**POD, "metadata": {key: value for key, value in POD["metadata"].items() if key != "annotations"}}
    cluster = Cluster(namespaces={"shop": Namespace(name="shop", annotations={names.MODE: "enforce"})})
    done = apply_patch(bare, Desk(cluster)(review_of(bare))["patch"])
    assert set(done["metadata"]["annotations"]) == {names.ADMISSION, names.ORIGINAL_RESOURCES}
    long = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    applied = {**bare, "metadata": {**bare["metadata"], "annotations": long}}
    assert set(apply_patch(applied, Desk(cluster)(review_of(applied))["patch"])["metadata"]["annotations"]) > set(long)


def test_a_daemon_sets_pod_asks_for_the_history_of_its_node() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    alike = NodeClass(instance_type="m5.large", cpus=8)
    desk = Desk(Cluster(classes={"node-a": alike}))
    desk(review_of(new_pod(*POD["spec"]["containers"], kind="DaemonSet", affinity=affinity)))
    ((workload, _, _, node, node_class),) = desk.told.asked
    assert (workload.kind, node, node_class) == ("DaemonSet", "node-a", alike)


@pytest.mark.parametrize(
    ("cluster", "result"),
    [
        (Cluster(namespaces={}), "excluded"),
        (Cluster(is_complete=False), "no_history"),
        (Cluster(sized_by="VerticalPodAutoscaler shop/web"), "excluded"),
        (Cluster(axes=FrozenAxes(cpu_for="hpa", memory_for="hpa")), "excluded"),
        (Cluster(said=ClusterRules(pause_reason="upgrade")), "excluded"),
    ],
)
def test_what_the_cluster_says_counts(cluster: Cluster, result: str) -> None:
    desk = Desk(cluster)
    assert desk(review_of(POD)) == {"uid": UID, "allowed": True}
    assert desk.counted == [result]


@pytest.mark.parametrize(("room", "result"), [(0, "error"), (600, "patched")])
def test_a_pod_that_our_annotations_would_make_one_that_no_server_takes_stays_as_it_came(
    room: int, result: str
) -> None:
    """API servers refuse more than 256 KiB of annotations, names and texts together, in bytes."""
    annotations = {
        **POD["metadata"].get("annotations", {}),
        "kubectl.kubernetes.io/last-applied-configuration": "\N{ROCKET}",
    }
    used = sum(len(name.encode()) + len(text.encode()) for name, text in annotations.items())
    annotations["team"] = "x" * (256 * 1024 - room - used - len("team"))
    desk = Desk()
    response = desk(review_of({**POD, "metadata": {**POD["metadata"], "annotations": annotations}}))
    assert response["allowed"]
    assert ("patch" in response) == (result == "patched")
    assert desk.counted == [result]


def test_the_clusters_rules_order_where_annotations_do_not() -> None:
    cluster = Cluster(said=ClusterRules(rules=(ClusterRule(namespace="sh*", mode="enforce", policy="crane"),)))
    desk = Desk(cluster)
    assert desk(review_of(new_pod(*POD["spec"]["containers"], mode=None)))["patch"]
    assert desk.told.asked[0][2] is PolicyName.CRANE


def test_without_history_a_pod_is_admitted_as_it_came() -> None:
    desk = Desk(told=Told(NoEstimate.UNKNOWN_WORKLOAD))
    assert desk(review_of(POD)) == {"uid": UID, "allowed": True}
    assert desk.counted == ["no_history"]


def test_pod_limits_that_contradict_the_pod_are_denied_with_the_numbers() -> None:
    desk = Desk()
    orders = {names.POD_LIMITS: '{"limits": {"cpu": "100m"}}'}
    response = desk(review_of(new_pod(*POD["spec"]["containers"], orders=orders)))
    assert not response["allowed"]
    assert response["status"] == {
        "code": 422,
        "reason": "Invalid",
        "message": "plimsoll: plimsoll.dev/pod-limits: cpu: the limit 100m is below the 500m that its containers "
        "request; allowed: 500m or more",
    }
    assert desk.counted == ["denied"]


def test_faults_in_annotations_are_warnings_of_one_line() -> None:
    orders = {names.MIN_CPU: "x\n\u202e" * 200}
    (warning,) = Desk()(review_of(new_pod(*POD["spec"]["containers"], orders=orders)))["warnings"]
    assert warning.startswith("plimsoll: pod annotation plimsoll.dev/min-cpu: ")
    assert warning.isprintable()


def test_a_pod_that_would_break_a_rule_is_counted_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    odd = container("odd", {"cpu": "2"}, {"cpu": "1"})
    desk = Desk(told=Told({"app": estimate()}))
    review = review_of(new_pod(*POD["spec"]["containers"], odd))
    with caplog.at_level(logging.WARNING, "agent.webhook.admission.review"):
        assert [desk(review), desk(review)] == [{"uid": UID, "allowed": True}] * 2
    assert desk.counted == ["error", "error"]
    (record,) = caplog.records  # the metric counts the rest
    assert record.__dict__["pod"] == "shop/web"


@pytest.mark.parametrize(
    "request_fields",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"operation": None},
        {"subResource": "ephemeralcontainers"},
        {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}},
        {"resource": {"group": "metrics.k8s.io", "version": "v1", "resource": "pods"}},
        {"resource": {}},
    ],
)
def test_what_is_not_the_creation_of_a_pod_is_passed_over(request_fields: dict[str, Any]) -> None:
    desk = Desk()
    assert desk(review_of(POD, **request_fields)) == {"uid": UID, "allowed": True}
    assert (desk.counted, desk.told.asked) == (["noop"], [])


@pytest.mark.parametrize(
    ("body", "uid"),
    [
        (b"", ""),
        (b"{", ""),
        (b"null", ""),
        (b"[]", ""),
        (b"{}", ""),
        (b'{"request": []}', ""),
        (b'{"request": {"uid": 7}}', ""),
        (b'{"request": {"uid": "ab-1"}}', "ab-1"),
        (b'{"request": {"uid": "ab-1"', "ab-1"),  # cut off
        (b'{"request": {"uid": "ab-1"}, "x": NaN', "ab-1"),
        (b"\xff\xfe\x00", ""),
        (b"[" * 200_000, ""),
        (b'{"request": {"uid": "ab-1", "object": ' + b"[" * 200_000, "ab-1"),
        (b'{"request": {"uid": "ab-1", "object": ' + b"9" * 6000 + b"}}", "ab-1"),
        (json.dumps({"request": {"uid": "x" * 5000}}).encode(), ""),
        (json.dumps(review_of([])).encode(), UID),  # type: ignore[arg-type]
        (json.dumps(review_of({**POD, "metadata": None})).encode(), UID),
        (json.dumps(review_of({**POD, "spec": 7})).encode(), UID),
        (json.dumps(review_of(POD, resource=None)).encode(), UID),
        (json.dumps(review_of(POD, namespace=["shop"])).encode(), UID),
        (json.dumps(review_of(new_pod(container("a", {"cpu": "9" * 5000 + "x"})))).encode(), UID),
        (json.dumps(review_of(new_pod(container("a", {"cpu": "\ud800"})))).encode(), UID),
        (json.dumps(review_of(POD)).encode() + b" " * MAX_REVIEW_BYTES, UID),
    ],
)
def test_whatever_comes_the_answer_admits_the_pod_as_it_came(body: bytes, uid: str) -> None:
    desk = Desk()
    assert desk(body) == {"uid": uid, "allowed": True}
    assert desk.counted == ["error"]


def test_a_history_that_breaks_admits_the_pod_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Told):
        def estimate(self, workload: Workload, container: str, **_: Any) -> Any:
            raise RuntimeError("index gone")

    desk = Desk(told=Broken(estimate()))
    with caplog.at_level(logging.WARNING, "agent.webhook.admission.review"):
        for _ in range(3):
            assert desk(review_of(POD)) == {"uid": UID, "allowed": True}
    assert desk.counted == ["error"] * 3
    (record,) = caplog.records
    assert record.__dict__["reason"] == "RuntimeError: index gone"


def test_only_so_many_reasons_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    with caplog.at_level(logging.WARNING, "agent.webhook.admission.review"):
        for number in range(300):
            desk(review_of(new_pod(container("app", {"cpu": f"x{number}"}))))
    assert len(caplog.records) == 100


def test_the_log_names_a_pod_whose_name_is_not_given_yet(caplog: pytest.LogCaptureFixture) -> None:
    odd = new_pod(container("app", {"cpu": "much"}))
    metadata = {key: value for key, value in odd["metadata"].items() if key != "name"}
    with caplog.at_level(logging.WARNING, "agent.webhook.admission.review"):
        Desk()(review_of({**odd, "metadata": {**metadata, "generateName": "web-"}}, name=""))
        Desk()(b"nothing")
    assert [record.__dict__["pod"] for record in caplog.records] == ["shop/web-", ""]


def test_the_metadata_of_all_outcomes_is_closed() -> None:
    assert {outcome.value for outcome in AdmissionOutcome} == {
        "patched",
        "noop",
        "no_history",
        "excluded",
        "error",
        "denied",
    }


# Anything at all

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
_PLACES = (
    ("request",),
    ("request", "uid"),
    ("request", "namespace"),
    ("request", "operation"),
    ("request", "resource"),
    ("request", "object"),
    ("request", "object", "metadata"),
    ("request", "object", "metadata", "annotations"),
    ("request", "object", "metadata", "annotations", names.MODE),
    ("request", "object", "metadata", "annotations", names.POD_LIMITS),
    ("request", "object", "metadata", "labels"),
    ("request", "object", "metadata", "ownerReferences"),
    ("request", "object", "spec"),
    ("request", "object", "spec", "resources"),
    ("request", "object", "spec", "affinity"),
    ("request", "object", "spec", "overhead"),
    ("request", "object", "spec", "initContainers"),
    ("request", "object", "spec", "containers"),
    ("request", "object", "spec", "containers", 0),
    ("request", "object", "spec", "containers", 0, "resources"),
    ("request", "object", "spec", "containers", 0, "resources", "limits"),
    ("request", "object", "spec", "containers", 0, "resources", "requests"),
    ("request", "object", "spec", "containers", 0, "resources", "requests", "cpu"),
    ("request", "object", "spec", "containers", 0, "resources", "limits", "memory"),
)
_QUANTITIES = st.sampled_from(["1", "1e3", "250m", "0", "-1", "512m", "1Ki", "9E", "1e-9", "0.5", "", "NaN", 1, 1.5])


@examples(400)
@given(st.lists(st.tuples(st.sampled_from(_PLACES), _JSON | _QUANTITIES), min_size=1, max_size=3))
def test_a_review_with_anything_in_it_gets_a_whole_answer_and_a_patch_that_applies(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    review: Any = json.loads(json.dumps(review_of(POD)))
    for (*path, last), value in changes:
        target = review
        for step in path:
            fits = isinstance(target, dict | list) and (
                step in target if isinstance(target, dict) else isinstance(step, int) and step < len(target)
            )
            target = target[step] if fits else None
        if isinstance(target, dict) or (isinstance(target, list) and isinstance(last, int) and last < len(target)):
            target[last] = value
    response = Desk()(review)
    if "patch" in response:
        document = review["request"]["object"]
        done = apply_patch(document, response["patch"])
        named = {**done["metadata"], "name": "n", "uid": "u", "namespace": "shop"}
        before = {**document, "metadata": named, "status": None}
        after = {**done, "metadata": named, "status": None}
        assert computed_qos_class(pod_of(after)) is computed_qos_class(pod_of(before))


@examples(400)
@given(st.data())
def test_mutated_bytes_get_a_whole_answer(data: st.DataObject) -> None:
    body = bytearray(json.dumps(review_of(POD)).encode())
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(body) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "double"]))
        if kind == "flip":
            body[place] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del body[place : place + data.draw(st.integers(1, 40))]
            body = body or bytearray(b"x")
        else:
            body[place:place] = body[place : place + data.draw(st.integers(1, 40))]
    desk = Desk()
    desk(bytes(body))
    assert len(desk.counted) == 1


@pytest.mark.parametrize(
    "start",
    [
        {"command": ["sh", "-c", "x" * MOST_SPLIT]},
        {"args": ["sh", "-c", "x" * MOST_SPLIT]},
        {"env": [{"name": "JAVA_TOOL_OPTIONS", "value": "x" * MOST_SPLIT}]},
    ],
)
def test_how_containers_start_counts_in_what_a_review_takes(start: dict[str, Any]) -> None:
    pods = [new_pod(*[container("app", **start)] * count) for count in range(3)]
    bare, single, double = (glance(json.dumps(review_of(pod)).encode()).seconds for pod in pods)

    assert single - bare > 0.006  # measured: 6.5 ms
    assert double - single < 0.001  # the second is split at blanks alone


def test_the_environment_that_most_containers_have_makes_no_review_a_long_one() -> None:
    env = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(50)]
    containers = (container("app"), container("app", env=env))
    bare, usual = (glance(json.dumps(review_of(new_pod(entry))).encode()).seconds for entry in containers)

    assert usual - bare < 0.0002  # measured: 0.08 ms for 4 KiB


@examples(200)
@given(st.binary(max_size=200) | _JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_get_a_whole_answer(body: bytes) -> None:
    assert Desk()(body)["allowed"] is True


def test_of_twenty_pods_two_are_in_a_share_of_a_tenth_and_a_dry_run_counts_for_none() -> None:
    document = new_pod(*POD["spec"]["containers"], orders={names.ENFORCE_SHARE: "10%"})
    desk = Desk()
    dry = review_of(document)
    dry["request"]["dryRun"] = True
    outcomes = []
    for number in range(20):
        if number % 3 == 0:
            desk(dry)
            desk.counted.pop()
        done = apply_patch(document, desk(review_of(document))["patch"])
        assert names.SHARE_TICKET in done["metadata"]["annotations"]
        outcomes.append(desk.counted.pop())
    assert (outcomes.count("patched"), outcomes.count("excluded")) == (2, 18)


def test_counts_of_the_oldest_workloads_are_forgotten() -> None:
    tickets, many = ShareTickets(lambda _: None), MOST_WORKLOADS + 1
    workloads = [Workload(namespace="shop", kind="Deployment", name=str(number)) for number in range(many)]
    first = tickets.next(workloads[0], "web-", None)
    for workload in workloads:
        tickets.given(workload)
    assert tickets.next(workloads[0], "web-", None) == first, "it begins anew"
    assert ShareTickets(lambda _: 3).next(workloads[0], "web-", None) != first, "where its running pods end"


def test_a_pod_that_nobody_creates_now_is_in_no_share_but_the_whole() -> None:
    desk = Desk()
    for share, moves in (("99.99%", False), ("100%", True)):
        pod = pod_of(new_pod(*POD["spec"]["containers"], orders={names.ENFORCE_SHARE: share}))
        assert bool(desk.reviewer.admission(pod, None).moves) is moves
