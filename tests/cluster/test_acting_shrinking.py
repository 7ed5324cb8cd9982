"""One node with pods of every kind, and the agent's first minute on it: who is shrunk, to what, and who is left alone.

Nothing falls before a whole minute has been measured, so all pods share one agent and its minute.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster import objects
from tests.cluster.acting_node import ActingNode, acting_node
from tests.cluster.api import Json
from tests.cluster.control_plane import ControlPlane
from tests.cluster.identities import create_namespace, fresh_name
from tests.kernel.cgroups import why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kernel,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or ""),
]

LARGE: Final = {"cpu": "400m", "memory": "64Mi"}
WHOLE: Final = {"cpu": "350m", "memory": "64Mi"}
OTHER_NAMESPACES: Final = ("excluded", "recommended")

ODD_AMOUNTS: Final = ("4e-1", "+.4", "400000u", "399999999n", "0.4000000001")
"""About 400m, as nobody writes it but the API takes it."""


def large(name: str = "app", **resources: object) -> Json:
    """A container that asks for far more CPU than it uses."""
    return objects.container(name, **{"requests": LARGE, **resources})


def restarting(name: str = "app") -> Json:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    return {**large(name), "resizePolicy": policy}


@pytest.fixture(scope="module")
def node(fenced: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActingNode]:
    """A node after its agent's first minute, when nothing is left to do."""
    namespace, name = fresh_name("test"), fresh_name("node")
    create_namespace(fenced, namespace)
    others = {what: fresh_name(what) for what in OTHER_NAMESPACES}
    create_namespace(fenced, others["excluded"])
    create_namespace(fenced, others["recommended"], {"plimsoll.dev/mode": "recommend"})
    directory = tmp_path_factory.mktemp("shrinking")
    with acting_node(fenced, namespace, name, directory, cpu="32", memory="8Gi") as made:
        populate(made, others)
        made.start_agent(act__excludedNamespaces=f"kube-system,plimsoll,{others['excluded']}")
        made.wait(lambda: made.ask("plan")["pods"], "the plan knows the pods")
        made.ask("pin", name="pinned")
        made.wait(lambda: made.request_of("web") != "400m", "the first pod is shrunk")
        made.wait(lambda: not made.ask("plan")["steps"], "nothing is left to do")
        yield made
    for one in (namespace, *others.values()):
        fenced.admin.delete(f"/api/v1/namespaces/{one}")
    fenced.admin.delete(f"/api/v1/nodes/{name}")


def populate(node: ActingNode, others: dict[str, str]) -> None:
    node.run_pod("web", large())
    node.run_pod("near", objects.container(requests={"cpu": "10m", "memory": "64Mi"}))
    node.run_pod("floor", large(), orders={"min-cpu": "300m"})
    node.run_pod("ceiling", large(), orders={"max-cpu": "200m", "min-cpu": "200m"})
    node.run_pod("vpa", large(), orders={"policy": "vpa"})
    node.run_pod("crane", large(), orders={"policy": "crane"})
    node.run_pod("limited", large(limits={"cpu": "600m", "memory": "128Mi"}))
    node.run_pod("off", large(), orders={"mode": "off"})
    node.run_pod("recommended", large(), orders={"mode": "recommend"})
    node.run_pod("pinned", large())
    node.run_pod("malformed", large(), orders={"min-cpu": "lots"})
    node.run_pod("of-excluded", large(), namespace=others["excluded"])
    node.run_pod("of-recommended", large(), namespace=others["recommended"])
    sidecar = {**large("proxy"), "restartPolicy": "Always"}
    node.run_pod("meshed", large(), initContainers=[sidecar])
    node.run_pod("prepared", large(), initContainers=[large("init")])
    node.run_pod("restarting", restarting())
    node.run_pod("may-restart", restarting(), orders={"allow-restart": "true"})
    node.run_pod("guaranteed", objects.container(requests=WHOLE, limits=WHOLE))
    node.run_pod("may-be-sized", objects.container(requests=WHOLE, limits=WHOLE), orders={"guaranteed": "true"})
    node.run_pod("best-effort", objects.container())
    node.run_pod("bare", large(), owner=None)
    run_mirror(node, "mirror")
    run_job(node, "job")
    if node.plane.version.startswith("1.37."):
        resources = {"requests": {"cpu": "900m", "memory": "128Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}}
        node.run_pod("budgeted", objects.container(), objects.container("second"), resources=resources)

    for index, amount in enumerate(ODD_AMOUNTS):
        node.run_pod(f"odd-{index}", objects.container(requests={"cpu": amount, "memory": "64Mi"}))


def run_mirror(node: ActingNode, name: str) -> None:
    machine = node.plane.admin.get(f"/api/v1/nodes/{node.name}")
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": machine["metadata"]["uid"]}
    marks = {f"kubernetes.io/config.{key}": "0123456789abcdef0123456789abcdef" for key in ("mirror", "hash", "source")}
    node.run_pod(name, large(), owner=owner | {"controller": True}, annotations=marks)


def run_job(node: ActingNode, name: str) -> None:
    template = objects.pod(name, node.name, large(), restartPolicy="Never")
    jobs = f"/apis/batch/v1/namespaces/{node.namespace}/jobs"
    node.plane.admin.create(
        jobs, {"metadata": {"name": name}, "spec": {"template": {"spec": template["spec"]}, "backoffLimit": 0}}
    )
    pods = f"/api/v1/namespaces/{node.namespace}/pods"
    selector = {"labelSelector": f"batch.kubernetes.io/job-name={name}"}
    node.wait(lambda: node.plane.admin.items(pods, **selector), "the job has a pod")
    [pod] = node.plane.admin.items(pods, **selector)
    node.inhabit(pod["metadata"]["name"])


def test_a_request_far_too_large_is_shrunk_once_and_stays(node: ActingNode) -> None:
    assert node.request_of("web") == "1m"
    assert len(node.resizes("web")) == 1
    assert node.generation("web") == 2
    node.wait(lambda: "applied" in node.outcomes("web"), "it is applied")
    assert node.outcomes("web") == ["accepted", "applied"]
    node.settle()
    assert len(node.resizes("web")) == 1


def test_amounts_are_understood_in_every_spelling(node: ActingNode) -> None:
    for index, amount in enumerate(ODD_AMOUNTS):
        assert node.request_of(f"odd-{index}") == "1m", amount


def test_what_differs_by_little_is_left(node: ActingNode) -> None:
    assert node.request_of("near") == "10m"
    assert node.kept("near") == "small_change"
    assert not node.resizes("near")


@pytest.mark.parametrize(
    ("name", "request_after"),
    [("floor", "300m"), ("ceiling", "200m"), ("vpa", "25m"), ("may-restart", "1m")],
)
def test_a_pod_is_shrunk_to_what_its_bounds_and_its_policy_say(node: ActingNode, name: str, request_after: str) -> None:
    assert node.request_of(name) == request_after
    assert len(node.resizes(name)) == 1


def test_a_cpu_limit_is_raised_at_once_as_it_cannot_be_taken_away(node: ActingNode) -> None:
    resources = node.pod("limited")["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "1m", "memory": "64Mi"}, "limits": {"cpu": "32", "memory": "128Mi"}}
    assert len(node.resizes("limited")) == 2


def test_crane_sizes_by_its_own_buckets(node: ActingNode) -> None:
    assert node.request_of("crane") not in ("400m", "1m")
    assert len(node.resizes("crane")) == 1


def test_a_sidecar_is_sized_with_its_pod_and_an_init_container_is_left(node: ActingNode) -> None:
    spec = node.pod("meshed")["spec"]
    assert spec["initContainers"][0]["resources"]["requests"]["cpu"] == "1m"
    assert spec["containers"][0]["resources"]["requests"]["cpu"] == "1m"
    assert len(node.resizes("meshed")) == 1
    assert node.pod("prepared")["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] == "400m"


def test_a_guaranteed_pod_that_asks_for_it_keeps_request_and_limit_equal(node: ActingNode) -> None:
    resources = node.pod("may-be-sized")["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["requests"]["cpu"] == "1m"
    assert node.pod("may-be-sized")["status"]["qosClass"] == "Guaranteed"


def test_a_pods_own_budget_is_resized_where_it_carries_the_request(node: ActingNode) -> None:
    if not node.plane.version.startswith("1.37."):
        pytest.skip("pod-level resources are resized from 1.36 on")
    spec = node.pod("budgeted")["spec"]
    assert spec["resources"]["requests"]["cpu"] == "2m", "two containers of 1m each"
    assert not any(one.get("resources") for one in spec["containers"])


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        ("off", "off"),
        ("recommended", "recommend"),
        ("pinned", "pinned"),
        ("malformed", "faulty_annotation"),
        ("of-excluded", "excluded"),
        ("of-recommended", "recommend"),
        ("guaranteed", "guaranteed"),
        ("best-effort", "best_effort"),
        ("bare", "bare"),
        ("mirror", "static"),
    ],
)
def test_who_is_not_to_be_sized_is_left_and_the_plan_says_why(node: ActingNode, name: str, reserved: str) -> None:
    pod = node.planned(name)
    assert pod is not None
    assert pod["reserved"] == reserved
    assert not node.resizes(name)


def test_a_jobs_pod_is_left(node: ActingNode) -> None:
    [pod] = [one for one in node.ask("plan")["pods"] if one["ref"]["name"].startswith("job-")]
    assert (pod["reserved"], pod["workload"]["kind"]) == ("job", "Job")
    assert not node.resizes(pod["ref"]["name"])


def test_a_container_that_would_be_restarted_is_left_unless_that_is_allowed(node: ActingNode) -> None:
    assert node.request_of("restarting") == "400m"
    assert node.kept("restarting") == "restart_policy"
    assert not node.resizes("restarting")


def test_a_malformed_annotation_is_told_once_and_counted(node: ActingNode) -> None:
    notices = node.events(pod="malformed")
    assert [one["reason"] for one in notices] == ["faulty_annotation"]
    assert "plimsoll.dev/min-cpu" in notices[0]["detail"]
    assert "'lots'" in notices[0]["detail"]
    assert node.metric("plimsoll_annotation_faults") == 1.0
    assert node.told("malformed") == ["AnnotationNotUnderstood"]


def test_events_tell_the_owners_of_those_that_were_resized_and_nobody_else(node: ActingNode) -> None:
    node.wait(lambda: node.told("web"), "the owner is told")
    assert node.told("web") == ["Resized"]
    for name in ("off", "recommended", "pinned", "bare", "near"):
        assert not node.told(name)


def test_everything_the_agent_wrote_was_a_resize_or_an_event(node: ActingNode) -> None:
    assert {call.resource for call in node.writes()} <= {"pods/resize", "events"}
    assert all(call.code < 300 for call in node.writes()), node.write_calls()


def test_what_if_shows_what_recommended_pods_would_be_given(node: ActingNode) -> None:
    steps = node.ask("plan", what_if=True)["steps"]
    names = {one["ref"]["name"] for one in steps}
    assert {"recommended", "of-recommended"} <= names
    assert not names & {"off", "pinned", "malformed", "of-excluded", "bare"}


def test_no_plan_was_unsound(node: ActingNode) -> None:
    assert node.metric("plimsoll_plans_unsound_total") == 0.0


def test_after_kill_nothing_is_sent_again_and_originals_are_known(node: ActingNode) -> None:
    before = node.write_calls()
    node.kill_agent()
    node.agent.start()
    node.wait(lambda: node.ask("plan")["pods"], "the plan knows the pods")
    node.wait_told()
    node.settle()
    assert [call for call in node.write_calls() if "events" not in call] == [
        call for call in before if "events" not in call
    ]
    items = {one["ref"]["name"]: one for one in node.ask("restore", all=True, dry_run=True)["items"]}
    assert {"web", "floor", "meshed", "may-be-sized", "limited"} <= items.keys()
    assert not items.keys() & {"near", "off", "pinned", "bare", "restarting"}
    assert items["web"]["changes"][0]["after"] == 400


def test_a_pod_is_restored_pinned_and_sized_again_when_it_is_unpinned(node: ActingNode) -> None:
    restored = node.ask("restore", name="web")["items"]
    assert [one["outcome"] for one in restored] == ["accepted"]
    assert node.request_of("web") == "400m"
    node.settle()
    assert node.request_of("web") == "400m"
    pod = node.planned("web")
    assert pod is not None
    assert pod["reserved"] == "pinned"
    sent = len(node.resizes("web"))
    node.ask("unpin", name="web")
    node.wait(lambda: node.request_of("web") == "1m", "it is sized again")
    assert len(node.resizes("web")) == sent + 1


def test_all_pods_are_restored_at_once_also_while_paused(node: ActingNode) -> None:
    node.ask("pause")
    restored = {one["ref"]["name"]: one["outcome"] for one in node.ask("restore", all=True)["items"]}
    assert restored["web"] == "accepted"
    assert set(restored.values()) <= {"accepted", None}, restored
    for name in ("web", "floor", "ceiling", "vpa", "crane", "limited", "meshed", "may-restart"):
        # A pod that is being resized is restored after that: what is said at once is that it will be.
        node.wait(lambda name=name: node.request_of(name) == "400m", f"{name} has what it had")  # type: ignore[misc]
    whole = {"requests": WHOLE, "limits": WHOLE}
    node.wait(
        lambda: node.pod("may-be-sized")["spec"]["containers"][0]["resources"] == whole, "may-be-sized has what it had"
    )
    node.ask("resume")
    node.settle()
    assert node.request_of("web") == "400m"  # all of them are pinned


def test_restore_of_all_ends_when_it_is_done_and_not_when_it_is_promised(node: ActingNode) -> None:
    """Whoever ends the agent after it, as an uninstall does, must not lose what is still to be sent."""
    node.kubelet.actuation_seconds = 0.5
    node.ask("unpin", all=True)
    node.wait(lambda: node.request_of("web") == "1m", "it is sized again, and its kubelet is at it")
    command = [sys.executable, "-m", "agent", "restore", "--all", "--socket", str(node.agent.socket)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = ("web", "floor", "ceiling", "vpa", "crane", "limited", "meshed", "may-restart")
    assert {name: node.request_of(name) for name in names} == dict.fromkeys(names, "400m"), done.stdout
