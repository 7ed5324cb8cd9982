"""New pods under what others order and own: autoscalers, the ConfigMap, ranges, the pod's own class and budget.

As in ``test_webhook_admission``: a real API server asks a real webhook, mostly with ``--dry-run=server``.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from agent.core.cluster.workload import Workload
from agent.webhook.workloads.folder import Folder, FoldOptions
from tests.cluster.admission_room import (
    ADMISSION,
    ENFORCE,
    MB,
    Room,
    Running,
    admission_room,
    bound_for,
    mebibytes_above,
    owned,
    resources,
    running,
    sized,
    told,
)
from tests.cluster.api import MERGE, Json, is_awaited
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import pod_path
from tests.cluster.processes import wait_for
from tests.cluster.test_cluster_facts import CRD
from tests.cluster.webhook_process import NAMESPACE, answer_of, webhook
from tests.webhook.open_store import open_store
from tests.webhook.test_tailing import append
from tests.webhook.workload_reports import report, row

pytestmark = pytest.mark.cluster

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AT_ONCE = ("--set=folding.logSeconds=0", "--set=folding.foldIntervalSeconds=1")
PODS = {
    "web": Running(),
    "watched": Running(),
    "advised": Running(),
    "remembering": Running(),
    "killed": Running(kill_bytes=700 * MB),  # within four times what was seen: a larger one counts as that
    "driver": Running(kind="DaemonSet"),
    "driver@second": Running(kind="DaemonSet", uses={"app": (700.0, 500.0 * MB)}, on_second_node=True),
}
SIZED = {"cpu": "300m", "memory": mebibytes_above(200 * MB)}


@pytest.fixture(scope="module")
def room(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A webhook that has learnt of some workloads, on a cluster that knows VerticalPodAutoscalers."""
    wait_for(lambda: is_awaited(lambda: cluster.admin.create(CRDS, CRD), 409), "another test's kind is gone")
    try:
        with admission_room(cluster, tmp_path_factory.mktemp("orders"), PODS, AT_ONCE) as webhook_room:
            yield webhook_room
    finally:
        cluster.admin.delete(f"{CRDS}/{CRD['metadata']['name']}")


@pytest.fixture(scope="module")
def folded(room: Room) -> None:
    """What the room has told is in sketches, by which policies go; where they find nothing they look in 300 s again."""
    taken = 'plimsoll_reports_received_total{result="accepted"}'
    folded_reports = "plimsoll_reports_folded_total"
    wait_for(lambda: room.hook.series(folded_reports) >= room.hook.series(taken), "its reports are folded")


def requests(room: Room, name: str = "web", **more: Any) -> Json:
    amounts: Json = resources(room.admitted(owned(name, "Deployment", sized(), **more)))["requests"]
    return amounts


AS_WRITTEN = {"cpu": "500m", "memory": "300M"}


def test_a_pod_is_boosted_for_its_start_from_its_history_or_from_what_it_states(room: Room) -> None:
    orders = ENFORCE | {"plimsoll.dev/startup-boost": "factor 3 for 60s after ready"}
    # 300 millicores by the history; a workload that nobody has told of runs with the half core that it states.
    assert requests(room, annotations=orders)["cpu"] == "900m"
    pod = room.admitted(owned("unknown", "Deployment", sized(), annotations=orders))
    assert resources(pod)["requests"] == {"cpu": "1500m", "memory": "300M"}
    boost = json.loads(pod["metadata"]["annotations"]["plimsoll.dev/startup-boosted"])
    assert boost["containers"] == {"app": {"requestMillicores": [500, 1500]}}


# -- autoscalers -----------------------------------------------------------------------------------------------------


def test_a_workload_that_a_vpa_sets_is_left_alone_and_one_that_it_advises_is_not(room: Room) -> None:
    vpas = f"/apis/autoscaling.k8s.io/v1/namespaces/{room.namespace}/verticalpodautoscalers"
    for name, policy in (("watched", {}), ("advised", {"updatePolicy": {"updateMode": "Off"}})):
        body = {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {"name": name},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, **policy},
        }
        wait_for(lambda body=body: is_awaited(lambda: room.cluster.admin.create(vpas, body), 404), "the kind is served")  # type: ignore[misc]
    wait_for(lambda: requests(room, "watched") == AS_WRITTEN, "the webhook has seen the VPA")
    assert requests(room, "advised") == SIZED


def test_an_hpa_on_memory_keeps_the_memory_request(room: Room) -> None:
    target = {"type": "Utilization", "averageUtilization": 70}
    room.cluster.admin.create(
        f"/apis/autoscaling/v2/namespaces/{room.namespace}/horizontalpodautoscalers",
        {
            "metadata": {"name": "remembering"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "remembering"},
                "maxReplicas": 5,
                "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": target}}],
            },
        },
    )
    wait_for(lambda: requests(room, "remembering")["memory"] == "300M", "the webhook has seen the HPA")
    pod = room.admitted(owned("remembering", "Deployment", sized(limits={"cpu": "1", "memory": "600M"})))
    assert resources(pod) == {"requests": {"cpu": "300m", "memory": "300M"}, "limits": {"memory": "600M"}}


# -- the ConfigMap ---------------------------------------------------------------------------------------------------


@pytest.fixture
def ordered(room: Room) -> Iterator[Any]:
    """Set data of the cluster's ConfigMap, which the chart made; at the end they are as they were."""
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/plimsoll"
    before = {"pause": None, "rules": None, **(room.cluster.admin.get(path).get("data") or {})}

    def order(**data: str | None) -> None:
        room.cluster.admin.patch(path, {"data": data}, MERGE)

    yield order
    order(**before)
    wait_for(lambda: requests(room) == SIZED and told_of_web(room)["policy"] == "cruise", "all is as it was")


def test_the_cluster_is_paused_by_the_config_map(room: Room, ordered: Any) -> None:
    assert requests(room) == SIZED
    ordered(pause="an upgrade")
    wait_for(lambda: requests(room) == AS_WRITTEN, "the pause is seen")
    ordered(pause=None)
    wait_for(lambda: requests(room) == SIZED, "its end is seen")


def test_rules_of_the_config_map_order_the_mode_where_no_annotation_does(room: Room, ordered: Any) -> None:
    assert requests(room, annotations={}) == AS_WRITTEN
    ordered(rules=f"- {{namespace: {room.namespace}, name: web, mode: enforce}}")
    wait_for(lambda: requests(room, annotations={}) == SIZED, "the rule is seen")
    assert requests(room, annotations={"plimsoll.dev/mode": "off"}) == AS_WRITTEN
    assert requests(room, "killed", annotations={}) == AS_WRITTEN, "it is not about this one"


@pytest.mark.usefixtures("folded")
def test_a_rule_of_the_config_map_has_another_policy_worked_out_before_all_pods_ask(room: Room, ordered: Any) -> None:
    ordered(rules=f"- {{namespace: {room.namespace}, policy: vpa}}")
    # A pod that is not patched has no such annotation: so it is until the policy is worked out.
    by_vpa = {"policy": "vpa", "source": "workload"}
    wait_for(lambda: told_of_web(room) == by_vpa, "it is sized by the other policy")
    assert told(room.admitted(owned("advised", "Deployment", sized()))) == by_vpa, "nobody asked about it before"
    amounts = resources(room.admitted(owned("web", "Deployment", sized(limits={"cpu": "1"}))))
    # The P90 is in the bucket of 300m, at most 5 % above, plus 15 %; the limit keeps its ratio of two.
    millicores = int(amounts["requests"]["cpu"].removesuffix("m"))
    assert 300 * 1.15 <= millicores <= 300 * 1.15 * 1.11
    assert amounts["limits"]["cpu"] == f"{2 * millicores}m"


@pytest.mark.usefixtures("folded")
def test_under_plimsoll_cruise_stands_in_until_it_is_worked_out(room: Room, ordered: Any) -> None:
    seen: set[str] = set()

    def by() -> str:
        admission = json.loads(room.admitted(owned("web", "Deployment", sized()))["metadata"]["annotations"][ADMISSION])
        seen.add(str(admission["containers"]["app"].get("by", admission["policy"])))
        return str(admission["policy"])

    assert by() == "cruise"
    ordered(rules=f"- {{namespace: {room.namespace}, policy: plimsoll}}")
    wait_for(lambda: by() == "plimsoll", "the rule is seen")
    wait_for(lambda: (by(), "plimsoll" in seen)[1], "it is worked out")
    assert seen == {"cruise", "plimsoll"}


@pytest.mark.usefixtures("folded")
def test_a_daemon_set_under_another_policy_is_sized_by_nodes_alike(room: Room) -> None:
    vpa = {**ENFORCE, "plimsoll.dev/policy": "vpa"}

    def made() -> Json:
        return room.admitted(owned("driver", "DaemonSet", sized(), affinity=bound_for(room.node), annotations=vpa))

    # Nobody but pods order it: a review has nothing worked out, as anybody may send one; a pod that is there has.
    path = pod_path(room.namespace, running("driver"))
    room.cluster.admin.patch(path, {"metadata": {"annotations": vpa}}, MERGE)
    wait_for(lambda: ADMISSION in made()["metadata"]["annotations"], "it is worked out")
    pod = made()
    assert told(pod) == {"policy": "vpa", "source": "node_class"}
    # Half of all samples of the class are at 700m, on the other node.
    assert 700 * 1.15 <= int(resources(pod)["requests"]["cpu"].removesuffix("m")) <= 700 * 1.15 * 1.11


def told_of_web(room: Room) -> Json:
    pod = room.admitted(owned("web", "Deployment", sized()))
    return told(pod) if ADMISSION in pod["metadata"]["annotations"] else {"policy": None}


# -- the pod's own class and budget ----------------------------------------------------------------------------------


def test_a_guaranteed_pod_that_asks_for_it_is_sized_and_stays_guaranteed(room: Room) -> None:
    container = sized(limits={"cpu": "500m", "memory": "300M"}, cpu="500m", memory="300M")
    pod = room.admitted(
        owned("web", "Deployment", container, annotations={**ENFORCE, "plimsoll.dev/guaranteed": "true"})
    )
    # The one amount of memory holds the limit, too: twice the largest seen.
    both = {"cpu": "300m", "memory": mebibytes_above(400 * MB)}
    assert resources(pod) == {"requests": both, "limits": both}
    assert pod["status"]["qosClass"] == "Guaranteed"


@pytest.mark.usefixtures("pods_have_resources")
def test_the_containers_of_a_pod_with_resources_of_its_own_are_sized_within_them(room: Room) -> None:
    own = {"requests": {"cpu": "1", "memory": "1G"}, "limits": {"cpu": "2", "memory": "2G"}}
    pod = room.admitted(owned("web", "Deployment", sized(), resources=deepcopy(own)))
    assert pod["spec"]["resources"] == own
    assert resources(pod) == {"requests": SIZED}, "no first limit: the pod has one"
    # The API server refuses containers that request more than their pod.
    tight = {"requests": {"cpu": "200m", "memory": "1G"}, "limits": {"cpu": "2", "memory": "2G"}}
    pod = room.admitted(owned("web", "Deployment", sized(cpu="100m", memory="300M"), resources=deepcopy(tight)))
    assert pod["spec"]["resources"] == tight
    assert resources(pod)["requests"]["cpu"] == "100m"
    assert resources(pod)["requests"]["memory"] == SIZED["memory"]


def test_a_cpu_limit_stays_where_the_qos_class_hangs_on_it(room: Room) -> None:
    pod = room.admitted(owned("web", "Deployment", sized(limits={"cpu": "1"}, cpu="0")))
    assert resources(pod) == {"requests": {"cpu": "0"}, "limits": {"cpu": "1"}}
    assert pod["status"]["qosClass"] == "Burstable"
    assert room.hook.series('plimsoll_webhook_requests_total{result="error"}') == 0, "left with care, not taken back"
    # With a request the class hangs on that, and the limit goes.
    pod = room.admitted(owned("web", "Deployment", sized(limits={"cpu": "1"}, cpu="500m")))
    assert resources(pod) == {"requests": {"cpu": "300m"}}


def test_what_was_too_little_at_a_kill_counts_in_request_and_limit(room: Room) -> None:
    pod = room.admitted(owned("killed", "Deployment", sized(limits={"memory": "600M"})))
    request = int(mebibytes_above(700 * MB))
    assert resources(pod) == {
        "requests": {"cpu": "300m", "memory": str(request)},
        "limits": {"memory": str(2 * request)},
    }


def test_a_cpu_limit_that_a_limit_range_would_give_back_is_kept_above_the_request(room: Room) -> None:
    path = f"/api/v1/namespaces/{room.namespace}/limitranges"
    item = {"type": "Container", "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}}
    room.cluster.admin.create(path, {"metadata": {"name": "defaults"}, "spec": {"limits": [item]}})
    try:
        wide = owned("web", "Deployment", sized(limits={"cpu": "1"}))
        wait_for(lambda: room.amounts(wide).get("limits", {}).get("cpu") == "1", "it is seen")
        assert room.amounts(wide)["requests"] == SIZED
        # Were the limit only taken off, the range would give 200m for it, which is less than the request: refused.
        narrow = room.admitted(owned("web", "Deployment", sized(limits={"cpu": "150m"}, cpu="100m", memory="300M")))
        assert (resources(narrow)["requests"]["cpu"], resources(narrow)["limits"]["cpu"]) == ("300m", "300m")
    finally:
        room.cluster.admin.delete(f"{path}/defaults")

        def is_gone() -> bool:
            amounts = room.amounts(wide)
            return amounts.get("requests") == SIZED and "cpu" not in amounts.get("limits", {})

        wait_for(is_gone, "it is gone")


# -- another policy by the settings ----------------------------------------------------------------------------------


def test_under_another_policy_the_first_pod_of_each_workload_is_sized_once_the_replica_is_ready(
    room: Room, tmp_path: Path
) -> None:
    workloads = [Workload(namespace=room.namespace, kind="Deployment", name=f"shop-{number}") for number in range(70)]
    database, now = f"sqlite:///{tmp_path / 'filled.db'}", time.time()
    filled = open_store(database)
    try:
        for sequence, received in enumerate((now - 7200.0, now - 60.0)):
            append(
                filled,
                report(*(row(workload, cpu=[300.0] * 30) for workload in workloads), sequence=sequence),
                received,
            )
        Folder(filled, FoldOptions(log_seconds=0.0)).fold_once(True, now_unix_seconds=now)
    finally:
        filled.close()
    arguments = ("--set=recommend.policy=vpa", "--replica=another")
    with webhook(room.cluster, tmp_path, database=database, arguments=arguments) as hook:
        for workload in workloads:
            document = owned(workload.name, workload.kind, sized())
            document["metadata"]["namespace"] = workload.namespace
            asked = {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "request": {
                    "uid": workload.name,
                    "operation": "CREATE",
                    "resource": {"group": "", "version": "v1", "resource": "pods"},
                    "namespace": workload.namespace,
                    "object": document,
                },
            }
            reply = hook.ask("POST", "/mutate", json.dumps(asked).encode(), Content_Type="application/json")
            response = answer_of(reply)["response"]
            assert response["allowed"] is True
            assert "patch" in response, f"{workload.name} is admitted as it came"
            patch = base64.b64decode(response["patch"]).decode()
            assert '\\"policy\\":\\"vpa\\"' in patch
