"""Pods as a person creates them, on a real API server that asks a real webhook over TLS.

Most rules are tried as by ``kubectl create --dry-run=server``: the API server does all that it does otherwise, with the
webhook, and keeps nothing. What others order or own is in ``test_webhook_admission_orders``.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main
from agent.core.history.reports.rollup import CPU_BUCKETS, MEMORY_BUCKETS
from tests.cluster import chart
from tests.cluster.admission_room import (
    ENFORCE,
    MB,
    Room,
    Running,
    admission_room,
    bound_for,
    mebibytes_above,
    owned,
    register,
    resources,
    sized,
    steady,
    told,
)
from tests.cluster.api import Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import fresh_name
from tests.cluster.objects import pod, pod_path
from tests.cluster.processes import wait_for
from tests.cluster.webhook_process import answer_of, may_import
from tests.webhook.report_bodies import report_body, row_body
from tests.webhook.test_backfill import playing, sound

pytestmark = pytest.mark.cluster

PODS = {
    "web": Running(),
    "scaled": Running(),
    "store": Running(kind="StatefulSet"),
    # Each of its containers fits on a node of 8 GiB, and both together do not.
    "hog": Running(kind="StatefulSet", uses={"app": (300.0, 5000.0 * MB), "proxy": (50.0, 5000.0 * MB)}),
    "driver": Running(kind="DaemonSet"),
    "driver@second": Running(kind="DaemonSet", uses={"app": (700.0, 500.0 * MB)}, on_second_node=True),
}


@pytest.fixture(scope="module")
def room(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A webhook that has learnt of some workloads; of the DaemonSet on two nodes of one class."""
    with admission_room(cluster, tmp_path_factory.mktemp("admission"), PODS) as webhook_room:
        yield webhook_room


def test_a_pod_starts_with_what_its_workload_needs(room: Room) -> None:
    new_pod = room.admitted(owned("web", "Deployment", sized(limits={"cpu": "1", "memory": "600M"}), sized("proxy")))
    assert resources(new_pod) == {
        "requests": {"cpu": "300m", "memory": mebibytes_above(200 * MB)},
        "limits": {"memory": mebibytes_above(512 * MB)},
    }
    assert resources(new_pod, 1)["requests"] == {"cpu": "50m", "memory": mebibytes_above(80 * MB)}
    originals = json.loads(new_pod["metadata"]["annotations"]["plimsoll.dev/original-resources"])
    assert originals["containers"]["app"]["requests"] == {"cpu": "500m", "memory": "300000000"}
    assert originals["containers"]["app"]["limits"] == {"cpu": "1000m", "memory": "600000000"}
    assert any(
        key.startswith("plimsoll.dev/") and "cruise" in value
        for key, value in new_pod["metadata"]["annotations"].items()
    )


def test_a_pod_of_a_workload_that_no_agent_saw_starts_with_what_prometheus_did(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the chart's account and its right, which agents have not."""
    room.cluster.admin.apply_all(chart.parts("webhook/reader", values={"webhook": {"importer": {"enabled": True}}}))
    wait_for(lambda: may_import(room.cluster), "the right is in force")
    before = room.admitted(owned("past", "StatefulSet", sized()))
    assert resources(before)["requests"]["cpu"] == "500m"

    def play(path: str, fields: Mapping[str, str]) -> Any:
        answer: Any = sound(path, fields).replace(b'"db-0"', b'"past-0"').replace(b'"db"', b'"app"')
        answer = answer.replace(b'"owner_name": "app"', b'"owner_name": "past"').replace(b'"0.5"', b'"0.25"')
        return answer.replace(b'"0.25"', b'"2e8"') if "working_set" in fields["query"] else answer

    arguments = [f"--webhook=https://127.0.0.1:{room.hook.port}", f"--kubeconfig={room.cluster.kubeconfig}"]
    arguments += [f"--ca-file={room.cluster.authority}", f"--namespace={room.namespace}", "--queries-per-second=1000"]
    with playing(play) as (url, _):
        assert main(["backfill", f"--prometheus={url}", "--days=1", *arguments]) == 0
    assert capsys.readouterr().out.startswith("imported: 1 namespace, 1 workload, 1 container, ")
    # 250m and 200 MB, and a tenth more.
    wanted = {"cpu": "275m", "memory": mebibytes_above(220 * MB)}
    # The webhook waits five seconds for it to be in memory, and answers without it then.
    wait_for(
        lambda: resources(room.admitted(owned("past", "StatefulSet", sized())))["requests"] == wanted, "it is sized"
    )
    body = {"schema": 1, "source": "prometheus", "rows": []}
    assert room.hook.post("/v1/history", body, room.token(room.node)).status == 403


UNCHANGED: dict[str, Callable[[], Json]] = {
    "recommend": lambda: owned("web", "Deployment", sized(), annotations={}),
    "off": lambda: owned("web", "Deployment", sized(), annotations={"plimsoll.dev/mode": "off"}),
    "a mode that nobody knows": lambda: owned("web", "Deployment", sized(), annotations={"plimsoll.dev/mode": "on"}),
    "an unknown workload": lambda: owned("stranger", "Deployment", sized()),
    "an unknown container": lambda: owned("web", "Deployment", sized("other")),
    "guaranteed": lambda: owned(
        "web", "Deployment", sized(limits={"cpu": "500m", "memory": "300M"}, cpu="500m", memory="300M")
    ),
    "best effort": lambda: owned(
        "web", "Deployment", {"name": "app", "image": "plimsoll.test/none:1", "resources": {}}
    ),
    "nobody's pod": lambda: pod("web-alone", None, sized(), annotations=ENFORCE),
    "a Job's": lambda: owned("web", "Job", sized()),
}


@pytest.mark.parametrize("what", UNCHANGED)
def test_what_is_not_to_be_sized_is_admitted_as_it_is(room: Room, what: str) -> None:
    document = UNCHANGED[what]()
    asked = deepcopy(document)
    new_pod = room.admitted(document)
    assert [container["resources"] for container in new_pod["spec"]["containers"]] == [
        {key: value for key, value in container["resources"].items() if value}
        for container in asked["spec"]["containers"]
    ]
    assert new_pod["metadata"].get("annotations", {}) == asked["metadata"]["annotations"]


def test_only_requests_that_are_there_are_changed(room: Room) -> None:
    new_pod = room.admitted(owned("web", "Deployment", sized(cpu="500m")))
    assert resources(new_pod) == {"requests": {"cpu": "300m"}}


def test_a_small_change_of_memory_is_not_worth_making(room: Room) -> None:
    new_pod = room.admitted(owned("web", "Deployment", sized(cpu="500m", memory="210M")))
    assert resources(new_pod)["requests"] == {"cpu": "300m", "memory": "210M"}


def test_init_containers_stay_and_sidecars_are_sized(room: Room) -> None:
    plain, sidecar = sized("prepare"), {**sized("proxy"), "restartPolicy": "Always"}
    new_pod = room.admitted(owned("web", "Deployment", sized(), initContainers=[plain, sidecar]))
    assert resources(new_pod, 0, "initContainers")["requests"] == {"cpu": "500m", "memory": "300M"}
    assert resources(new_pod, 1, "initContainers")["requests"] == {"cpu": "50m", "memory": mebibytes_above(80 * MB)}


def test_an_hpa_on_cpu_keeps_the_cpu_request(room: Room) -> None:
    room.cluster.admin.create(
        f"/apis/autoscaling/v2/namespaces/{room.namespace}/horizontalpodautoscalers",
        {
            "metadata": {"name": "scaled"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"},
                "maxReplicas": 5,
                "metrics": [
                    {
                        "type": "ContainerResource",
                        "containerResource": {
                            "name": "cpu",
                            "container": "app",
                            "target": {"type": "Utilization", "averageUtilization": 70},
                        },
                    }
                ],
            },
        },
    )

    def requests() -> Json:
        amounts: Json = resources(room.admitted(owned("scaled", "Deployment", sized())))["requests"]
        return amounts

    wait_for(lambda: requests()["cpu"] == "500m", "the webhook has seen the HPA")
    assert requests() == {"cpu": "500m", "memory": mebibytes_above(200 * MB)}


@pytest.mark.parametrize(
    ("number", "cpu", "memory", "source"),
    [
        pytest.param(0, "300m", 200 * MB, "node", id="the first node"),
        pytest.param(1, "700m", 500 * MB, "node", id="the second"),
        pytest.param(2, "700m", 500 * MB, "node_class", id="one where it never ran"),
    ],
)
def test_a_pod_of_a_daemon_set_is_sized_by_the_node_that_it_is_bound_for_or_by_nodes_alike(
    room: Room, number: int, cpu: str, memory: int, source: str
) -> None:
    new_pod = room.admitted(owned("driver", "DaemonSet", sized(), affinity=bound_for(room.nodes[number])))
    assert resources(new_pod)["requests"] == {"cpu": cpu, "memory": mebibytes_above(memory)}
    assert told(new_pod) == {"policy": "cruise", "source": source}


def test_a_pod_is_not_sized_past_what_the_node_can_allocate_that_it_is_bound_for(room: Room) -> None:
    document = owned("hog", "StatefulSet", sized(), sized("proxy"), affinity=bound_for(room.node))
    new_pod = room.admitted(document)
    assert [resources(new_pod, number)["requests"] for number in (0, 1)] == [
        {"cpu": "300m", "memory": "300M"},
        {"cpu": "50m", "memory": "300M"},
    ]
    assert [resources(new_pod, number)["limits"] for number in (0, 1)] == [{"memory": str(8 << 30)}] * 2
    alone = owned("hog", "StatefulSet", sized(), affinity=bound_for(room.node))
    assert int(resources(room.admitted(alone))["requests"]["memory"]) > 4900 * MB


def test_a_first_memory_limit_stays_within_twice_the_largest_memory_allowed(room: Room) -> None:
    bounded = {**ENFORCE, "plimsoll.dev/max-memory": "200Mi"}
    new_pod = room.admitted(owned("web", "Deployment", sized(), annotations=bounded))
    assert resources(new_pod)["limits"] == {"memory": str(400 << 20)}


@pytest.mark.usefixtures("pods_have_resources")
def test_pod_limits_become_the_pods_own_resources(room: Room) -> None:
    limits = {**ENFORCE, "plimsoll.dev/pod-limits": '{"limits": {"cpu": "2", "memory": "2Gi"}}'}
    new_pod = room.admitted(owned("web", "Deployment", sized(), annotations=limits))
    assert new_pod["spec"]["resources"]["limits"] == {"cpu": "2", "memory": "2Gi"}


def test_pod_limits_that_contradict_themselves_are_refused_with_the_numbers(room: Room) -> None:
    limits = {**ENFORCE, "plimsoll.dev/pod-limits": '{"limits": {"memory": "100Mi"}}'}
    done = room.kubectl(
        "create", "--dry-run=server", "-f", "-", stdin=owned("web", "Deployment", sized(), annotations=limits)
    )
    assert done.returncode != 0
    assert "pod-limits" in done.stderr
    assert "100MiB" in done.stderr
    assert "286.1MiB" in done.stderr  # 300 MB


BARE: Json = {"image": "plimsoll.test/none:1"}
"""A container that states nothing."""


def budget(**stated: Json) -> Json:
    """Return annotations: a budget, and a mode or none."""
    return {"plimsoll.dev/pod-limits": json.dumps(stated)}


@pytest.mark.parametrize(
    ("limits", "requests", "given", "qos"),
    [
        ({"cpu": "2"}, {}, {"cpu": "2"}, "Burstable"),
        ({"cpu": "2", "memory": "1Gi"}, {}, {"cpu": "2", "memory": "1Gi"}, "Guaranteed"),
        ({"cpu": "2", "memory": "1Gi"}, {"cpu": "500m"}, {"cpu": "500m", "memory": "1Gi"}, "Burstable"),
        ({"memory": "1Gi"}, {"cpu": "250m"}, {"cpu": "250m", "memory": "1Gi"}, "Burstable"),
        ({"cpu": "1", "hugepages-2Mi": "4Mi"}, {}, {"cpu": "1", "hugepages-2Mi": "4Mi"}, "Burstable"),
    ],
)
@pytest.mark.usefixtures("pods_have_resources")
@pytest.mark.parametrize("mode", [{}, ENFORCE], ids=["recommend", "enforce"])
def test_containers_that_state_nothing_share_a_budget_whatever_the_mode(
    room: Room, mode: Json, limits: Json, requests: Json, given: Json, qos: str
) -> None:
    document = owned(
        "web",
        "Deployment",
        {"name": "ide", **BARE},
        {"name": "tools", **BARE},
        annotations={**mode, **budget(limits=limits, requests=requests)},
    )
    new_pod = room.admitted(document)
    assert new_pod["spec"]["resources"] == {"limits": limits, "requests": given}
    assert [container["resources"] for container in new_pod["spec"]["containers"]] == [{}, {}]
    assert new_pod["status"]["qosClass"] == qos
    said = room.kubectl("create", "--dry-run=server", "-f", "-", stdin=document).stderr
    assert f"QoS class {qos} instead of BestEffort" in said


def test_an_older_server_stores_a_pod_with_a_budget_as_it_came_for_the_agent_to_hold(room: Room) -> None:
    if int(room.cluster.version.split(".")[1]) >= 34:
        pytest.skip(f"an API server of {room.cluster.version} keeps spec.resources")
    both = {"cpu": "1", "memory": "1Gi"}
    document = owned("web", "Deployment", {"name": "app", **BARE}, annotations=budget(limits=both, requests=both))
    new_pod = room.admitted(document)
    assert "resources" not in new_pod["spec"]
    assert (
        new_pod["metadata"]["annotations"]["plimsoll.dev/pod-limits"]
        == budget(limits=both, requests=both)["plimsoll.dev/pod-limits"]
    )
    assert new_pod["status"]["qosClass"] == "BestEffort"
    assert "QoS class" not in room.kubectl("create", "--dry-run=server", "-f", "-", stdin=document).stderr


def test_a_pod_in_mode_off_gets_no_budget(room: Room) -> None:
    off = {"plimsoll.dev/mode": "off", **budget(limits={"cpu": "2"})}
    new_pod = room.admitted(owned("web", "Deployment", {"name": "app", **BARE}, annotations=off))
    assert "resources" not in new_pod["spec"]
    assert new_pod["status"]["qosClass"] == "BestEffort"


@pytest.mark.usefixtures("pods_have_resources")
def test_a_burstable_pod_becomes_guaranteed_where_its_budget_states_requests(room: Room) -> None:
    both = {"cpu": "1", "memory": "1Gi"}
    stated = room.admitted(owned("web", "Deployment", sized(), annotations=budget(limits=both, requests=both)))
    assert (stated["spec"]["resources"], stated["status"]["qosClass"]) == (
        {"limits": both, "requests": both},
        "Guaranteed",
    )
    # Its containers request what they did: the API holds the sum against the pod's request.
    assert resources(stated)["requests"] == {"cpu": "500m", "memory": "300M"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, "cpu: the request 2000m is above the limit 1000m"),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "400m"}}, "cpu: the request 400m is below the 500m"),
        (
            {"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "2Mi"}},
            "hugepages-2Mi: the request 2MiB is not the limit 4MiB",
        ),
    ],
)
def test_a_budget_is_denied_only_where_it_contradicts_itself(room: Room, asked: Json, words: str) -> None:
    document = owned("web", "Deployment", sized(), annotations=budget(**asked))
    done = room.kubectl("create", "--dry-run=server", "-f", "-", stdin=document)
    assert done.returncode != 0
    assert words in done.stderr


def test_a_limit_range_that_would_refuse_the_patch_is_minded(room: Room) -> None:
    path = f"/api/v1/namespaces/{room.namespace}/limitranges"
    item = {"type": "Container", "min": {"cpu": "400m"}, "max": {"memory": "400M"}}
    document = owned("store", "StatefulSet", sized(limits={"memory": "350M"}))
    room.cluster.admin.create(path, {"metadata": {"name": "narrow"}, "spec": {"limits": [item]}})
    try:
        # Were it not minded, the API server would refuse the pod: 300m and a limit of 512M are out of its range.
        wait_for(lambda: requested_cpu(room, document) == "400m", "the webhook has seen the range")
        assert room.amounts(document)["limits"]["memory"] in ("350M", "400M")
    finally:
        room.cluster.admin.delete(f"{path}/narrow")
        wait_for(lambda: requested_cpu(room, document) == "300m", "the webhook has seen that it is gone")


def requested_cpu(room: Room, document: Json) -> str | None:
    cpu: str | None = room.amounts(document).get("requests", {}).get("cpu")
    return cpu


def test_a_quota_that_would_refuse_the_patch_is_minded(room: Room) -> None:
    path = f"/api/v1/namespaces/{room.namespace}/resourcequotas"
    hard = {"requests.cpu": "10", "limits.memory": "10G"}
    room.cluster.admin.create(path, {"metadata": {"name": "counted"}, "spec": {"hard": hard}})
    try:
        wait_for(
            lambda: room.cluster.admin.get(f"{path}/counted").get("status", {}).get("hard") == hard, "it is in force"
        )
        # It needs a memory limit on every container: one that is there stays.
        document = owned("web", "Deployment", sized(limits={"memory": "600M"}))
        assert "memory" in resources(room.admitted(document))["limits"]
    finally:
        room.cluster.admin.delete(f"{path}/counted")
        # Pods that nobody sizes, which come next, have no limits.
        stranger = owned("stranger", "Deployment", sized())
        wait_for(lambda: bool(room.amounts(stranger)), "the API server has seen that it is gone")


def created(room: Room) -> Json:
    """Create a pod for good, and take it away again; what was kept."""
    document = owned("web", "Deployment", sized(), pod_name=fresh_name("web"))
    new_pod = room.cluster.admin.create(pod_path(room.namespace), document)
    room.cluster.admin.delete(pod_path(room.namespace, new_pod["metadata"]["name"]))
    return new_pod


def test_pods_are_created_while_the_webhook_sleeps_and_are_sized_after_it(room: Room) -> None:
    assert resources(created(room))["requests"]["cpu"] == "300m"
    room.hook.process.pause()
    try:
        register(room, seconds=2)
        new_pod = created(room)  # after the two seconds of the registration
        assert resources(new_pod)["requests"] == {"cpu": "500m", "memory": "300M"}
    finally:
        room.hook.process.resume()
        register(room)
    wait_for(lambda: resources(created(room))["requests"]["cpu"] == "300m", "it answers again")


def test_pods_are_created_when_the_certificate_is_not_to_be_trusted(room: Room, tmp_path: Path) -> None:
    from tests.cluster.certificates import Authority

    stranger = Authority(tmp_path)
    register(room, stranger.certificate)
    try:
        wait_for(lambda: resources(created(room))["requests"]["cpu"] == "500m", "the webhook is not believed")
    finally:
        register(room)
    wait_for(lambda: resources(created(room))["requests"]["cpu"] == "300m", "it is believed again")


def test_every_answer_was_counted(room: Room) -> None:
    text = room.hook.get("/metrics").body.decode()
    counted = {
        line.split('result="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith("plimsoll_webhook_requests_total{")
    }
    assert counted["patched"] > 5
    assert counted["no_history"] >= 1
    assert counted["excluded"] >= 3
    assert counted["denied"] == 4
    assert counted["error"] == 0


@pytest.mark.parametrize(("bytes_left", "cpu_request"), [(20_000, "300m"), (100, "500m")])
def test_a_pod_whose_annotations_would_be_too_many_with_ours_is_made_as_it_came(
    room: Room, bytes_left: int, cpu_request: str
) -> None:
    full = {**ENFORCE, "note": ""}
    full["note"] = "x" * (256 * 1024 - sum(len(name) + len(text) for name, text in full.items()) - bytes_left)
    new_pod = room.admitted(owned("web", "Deployment", sized(), annotations=full))
    assert resources(new_pod)["requests"]["cpu"] == cpu_request
    assert (new_pod["metadata"]["annotations"] == full) is (cpu_request == "500m")


def test_one_lying_node_sizes_no_new_pod_of_a_workload_that_an_honest_one_hosts(room: Room) -> None:
    """The attack of one stolen token: of ten terabytes, of invented containers, of the last week, and within bounds."""
    cluster, (_, liar, honest) = room.cluster, room.nodes  # of the last nothing was told yet, so hours ago may be
    for node, name in ((liar, "lying"), (honest, "first")):  # so who knows the last knows both
        document = owned("bent", "StatefulSet", sized(), node=node, pod_name=f"bent-{name}")
        document["metadata"]["finalizers"] = ["plimsoll.test/keep"]  # its owner is not there
        cluster.admin.create(pod_path(room.namespace), document)

    sequences = itertools.count(899)  # a report is taken once, whatever rows of it were refused

    def told_by(node: str, name: str, used: tuple[float, float], **changes: Any) -> Json:
        uid = cluster.admin.get(pod_path(room.namespace, f"bent-{name}"))["metadata"]["uid"]
        report = {key: changes.pop(key) for key in ("endAgeSeconds", "incarnation") if key in changes}
        row = row_body(
            namespace=room.namespace,
            kind="StatefulSet",
            workload="bent",
            pod=f"bent-{name}",
            podUid=uid,
            cpu=steady(CPU_BUCKETS, used[0]),
            cpuAdjusted=steady(CPU_BUCKETS, used[0]),
            memory=steady(MEMORY_BUCKETS, used[1]),
            **{"oomKills": [], **changes},
        )
        body = report_body(row, node=node, sequence=next(sequences), **report)
        answer: Json = answer_of(room.hook.post("/v1/report", body, room.token(node)))
        assert not answer["repeated"]
        return answer

    def requests() -> Json:
        new_pod = room.admitted(owned("bent", "StatefulSet", sized(), pod_name="bent-new"))
        amounts: Json = resources(new_pod)["requests"]
        return amounts

    sound = (300.0, 200.0 * MB)
    fresh = {"incarnation": fresh_name("bent")}
    wait_for(lambda: not told_by(honest, "first", sound, endAgeSeconds=7200.0, **fresh)["refused"], "the pod is known")
    assert told_by(honest, "first", sound, endAgeSeconds=20.0, **fresh)["taken"] == 1
    wait_for(lambda: requests()["cpu"] == "300m", "new pods are sized as the honest node says")
    wanted = requests()
    huge = [
        told_by(liar, "lying", (300.0, 1e13), **fresh),
        told_by(liar, "lying", (128_000.0, 200.0 * MB), **fresh),
        told_by(liar, "lying", sound, container="invented", **fresh),
        told_by(liar, "lying", sound, endAgeSeconds=6 * 86_400.0, **fresh),
    ]
    assert [reply["taken"] for reply in huge] == [0, 0, 0, 0]
    assert requests() == wanted
    # Within what its node has it is taken, and counts up to four times the honest node's or what was written.
    assert told_by(liar, "lying", (3900.0, 3000.0 * MB), oomKills=[[1.0, 10**13]], **fresh)["taken"] == 1
    wait_for(lambda: requests() != wanted, "it was taken in")
    assert requests() == {"cpu": "1200m", "memory": mebibytes_above(800 * MB)}
    for name in ("first", "lying"):
        path = pod_path(room.namespace, f"bent-{name}")
        cluster.admin.patch(path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")


def test_the_fourth_run_of_a_cron_job_requests_what_the_last_three_needed(room: Room) -> None:
    minutes = int(time.time()) // 60
    runs = []
    for ago in (2, 1, 0):
        job = f"report-{minutes - ago}"
        document = owned(job, "Job", sized(), node=room.node, pod_name=f"{job}-first")
        uid = room.cluster.admin.create(pod_path(room.namespace), document)["metadata"]["uid"]
        run = {
            "namespace": room.namespace,
            # As an agent that knows no CronJobs calls it: the webhook knows better.
            "kind": "Job",
            "workload": job,
            "container": "app",
            "pod": f"{job}-first",
            "podUid": uid,
            "endedAgeSeconds": 0.5,
            "durationSeconds": 3.0,
            "cpuMeanMillicores": 400.0,
            "memoryPeakBytes": 310 << 20,
            "memoryNeedBytes": 300 << 20,
            "exitCode": 0,
        }
        runs.append(run)

    def next_run() -> Json:
        return resources(room.admitted(owned(f"report-{minutes + 1}", "Job", sized())))

    def is_taken(job_runs: list[Json]) -> bool:
        next_run()  # takes its time: a node may call thirty times a minute
        body = {"schema": 1, "node": room.node, "runs": job_runs}
        answer = room.hook.post("/v1/runs", body, room.token(room.node))
        return answer.status == 200 and answer_of(answer)["taken"] == len(job_runs)

    assert next_run()["requests"] == {"cpu": "500m", "memory": "300M"}
    wait_for(lambda: is_taken([runs[0]] * 3), "the watch has brought the pod, and its run is taken")
    assert next_run()["requests"] == {"cpu": "500m", "memory": "300M"}  # told three times it is one
    wait_for(lambda: is_taken(runs), "the watch has brought the pods, and their runs are taken")
    wanted = {"cpu": "400m", "memory": mebibytes_above(345 << 20)}
    wait_for(lambda: next_run()["requests"] == wanted, "the next run is sized by the last ones")
    assert resources(room.admitted(owned(f"other-{minutes + 1}", "Job", sized())))["requests"]["cpu"] == "500m"
