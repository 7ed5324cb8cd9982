from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.cli.main import main
from agent.cli.verbs.cluster.admission import NO_HISTORY, NO_NAMESPACES
from agent.core.orders import annotations as names
from agent.webhook.queries.workload_bodies import AdviceBody, AppliesBody, ContainerBody, FromBody, WorkloadBody
from tests.json_patch import apply_patch
from tests.pods import container, pod_json

APP = container("app", {"cpu": "500m", "memory": "300M"}, {"cpu": "1", "memory": "600M"})
KNOWN = {
    "namespace": "shop",
    "kind": "Deployment",
    "name": "web",
    "container": "app",
    "source": "workload",
    "policy": "cruise",
    "cpuRequestMillicores": 300,
    "memoryRequestBytes": 200_000_000,
    "memoryMaxBytes": None,
    "historySeconds": 259_200.0,
    "pods": 3,
    "newestAgeSeconds": 12.5,
}


def workload(kind: str = "Deployment", *containers: object, orders: dict[str, str] | None = None) -> dict[str, Any]:
    spec = {"template": {"metadata": {"annotations": orders or {}}, "spec": {"containers": list(containers) or [APP]}}}
    document: dict[str, Any] = {"kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}
    if kind == "CronJob":
        document["spec"] = {"jobTemplate": {"spec": spec}}
    return document


ENFORCED = workload(orders={names.MODE: "enforce"})


class Files:
    """Writes the files of one test and runs the verb on them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, name: str, content: object) -> str:
        path = self._directory / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)

    def run(self, pod: object, *words: str, history: object = None) -> int:
        known = {"estimates": [KNOWN]} if history is None else history
        return main(
            ["admission", "--pod", self.put("pod.json", pod), "--history", self.put("history.json", known), *words]
        )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def answers(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["pods"]
    return pods


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["admission", *words])
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


def test_a_deployment_is_admitted_by_its_template(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.run(ENFORCED, "--width", "100") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0] == f"note {NO_NAMESPACES}"
    assert lines[2] == "shop/web-5c7d9bf465-new  patched"
    assert lines[3].split(maxsplit=1) == ["workload", "Deployment shop/web"]
    assert "cpu 500m -> 300m, cpu limit 1000m -> none, memory 286.1MiB -> 191MiB" in out
    assert "by cruise, until plimsoll is worked out, from its history of 3.0 days, 3 pods" in " ".join(out.split())
    assert max(map(len, lines)) <= 100


def test_json_has_the_patch_that_would_be_made(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    pod = pod_json(
        APP,
        metadata={
            "annotations": {names.MODE: "enforce"},
            "ownerReferences": [{"kind": "StatefulSet", "name": "web", "uid": "o", "controller": True}],
        },
    )
    known = {"estimates": [{**KNOWN, "kind": "StatefulSet"}, {**KNOWN, "kind": "StatefulSet", "node": "node-b"}]}
    assert files.run(pod, "-o", "json", history=known) == 0
    (answer,) = answers(capsys)
    assert (answer["outcome"], answer["workloadKind"], answer["mode"]) == ("patched", "StatefulSet", "enforce")
    done = apply_patch(pod, answer["patch"])
    assert done["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "300m"
    (entry,) = answer["containers"]
    assert entry["changes"][0] == {
        "resource": "cpu",
        "setting": "request",
        "unit": "millicores",
        "before": 500,
        "after": 300,
    }
    assert (entry["source"], entry["noHistory"], entry["left"]) == ("workload", None, [])


@pytest.mark.parametrize("kind", ["Deployment", "Rollout", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"])
def test_every_workload_gives_the_pod_of_its_template(
    kind: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    assert files.run(workload(kind), "-o", "json") == 0
    (answer,) = answers(capsys)
    assert answer["workloadKind"] == ("Job" if kind == "CronJob" else kind)
    assert answer["workloadName"] == "web"


def test_mode_recommend_is_told_and_what_if_goes_past_it(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.run(workload(), "-o", "json") == 0
    (answer,) = answers(capsys)
    assert (
        answer["why"]
        == "mode recommend by the configuration; pods are sized in mode enforce, upwards only in mode protect"
    )
    for document in (workload(), workload(orders={names.MODE: "recommend"})):
        assert files.run(document, "-o", "json", "--what-if") == 0
        assert answers(capsys)[0]["outcome"] == "patched"
    assert files.run(workload(orders={names.MODE: "off"}), "-o", "json", "--what-if", "--set", "act.mode=enforce") == 0
    assert answers(capsys)[0]["outcome"] == "excluded"


def test_namespaces_say_what_they_order(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    space = {"kind": "Namespace", "metadata": {"name": "shop", "annotations": {names.MODE: "enforce"}}}
    assert files.run(workload(), "-o", "json", "--namespaces", files.put("ns.json", space)) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["pods"][0]["modeSource"], document["notes"]) == ("namespace annotation", [])
    space["metadata"]["annotations"][names.MODE] = "recommend"  # type: ignore[index]
    assert files.run(workload(), "-o", "json", "--what-if", "--namespaces", files.put("ns.json", space)) == 0
    assert answers(capsys)[0]["outcome"] == "patched"


def test_what_if_goes_past_a_namespaces_label_but_not_past_what_overrides_it(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = {"name": "shop", "labels": {names.MODE: "recommend"}}
    for more, mode in (({}, "enforce"), ({"annotations": {names.MODE: "off"}}, "off")):
        space = files.put("ns.json", {"kind": "Namespace", "metadata": {**metadata, **more}})
        assert files.run(workload(), "-o", "json", "--what-if", "--namespaces", space) == 0
        assert answers(capsys)[0]["mode"] == mode


def test_without_history_nothing_is_sized_and_that_is_said(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admission", "--pod", files.put("pod.json", ENFORCED)]) == 0
    out = capsys.readouterr().out
    assert NO_HISTORY.split(";")[0] in out
    assert "unchanged, no history" in out
    for known in ([], [{**KNOWN, "container": "other"}], [{**KNOWN, "policy": "vpa"}], [{**KNOWN, "node": "node-a"}]):
        assert files.run(ENFORCED, "-o", "json", history={"estimates": known}) == 0
        assert answers(capsys)[0]["outcome"] == "no_history"


def test_a_workload_as_the_webhook_tells_of_it(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    nobody = FromBody(value=None, source="default")
    applies = AppliesBody(
        mode=nobody,
        policy=nobody,
        pause=nobody,
        cpu_frozen_for=None,
        memory_frozen_for=None,
        left_alone_for=None,
        stop_shrinking_seconds=None,
        replicas=None,
        bounds=[],
        annotations={},
        rules_fault=None,
    )
    known = AdviceBody(
        policy="cruise",
        missing=None,
        source="workload",
        cpu_request_millicores=300,
        memory_request_bytes=200_000_000,
        history_seconds=259_200.0,
        pods=3,
        newest_age_seconds=12.5,
    )
    young = AdviceBody(policy="cruise", missing="too_young")
    containers = [
        ContainerBody(container=name, advice=advice, hours=[], classes=[], nodes=[])
        for name, advice in (("app", known), ("new", young))
    ]
    body = WorkloadBody(
        namespace="shop",
        kind="Deployment",
        name="web",
        history_seconds=259_200.0,
        newest_age_seconds=12.5,
        applies=applies,
        containers=containers,
    )
    document = json.loads(msgspec.json.encode(body))
    for history in (document, {"workloads": [document]}):
        assert files.run(ENFORCED, "-o", "json", history=history) == 0
        assert answers(capsys)[0]["outcome"] == "patched"


def test_a_limit_does_not_fall_below_what_one_node_alone_told(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    known = {"estimates": [{**KNOWN, "memoryMaxBytes": 200_000_000, "memoryAloneBytes": 280_000_000}]}
    assert files.run(ENFORCED, "-o", "json", history=known) == 0
    changes = answers(capsys)[0]["containers"][0]["changes"]
    limits = [change["after"] for change in changes if (change["resource"], change["setting"]) == ("memory", "limit")]
    assert limits == [560_000_000]  # 2 x 280 MB


def test_settings_are_those_of_the_webhook(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert files.run(ENFORCED, "-o", "json", "--set", "admission.cpuLimitsRemoved=false") == 0
    changes = answers(capsys)[0]["containers"][0]["changes"]
    assert ("cpu", "limit") not in {(change["resource"], change["setting"]) for change in changes}


def test_yaml_of_several_documents_and_lists(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    items = [workload("StatefulSet"), workload("StatefulSet")]
    text = "---\n".join(json.dumps(document) + "\n" for document in (ENFORCED, None, {"kind": "List", "items": items}))
    text = "# YAML\n" + text
    assert files.run(text, "-o", "json") == 0
    assert [answer["workloadKind"] for answer in answers(capsys)] == ["Deployment", "StatefulSet", "StatefulSet"]


def test_requests_are_filled_in_from_limits_as_the_api_does(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    limited = container("app", {"cpu": "500m"}, {"cpu": "1", "memory": "600M"})
    plain = {"name": "plain"}
    document = workload("Deployment", limited, plain, orders={names.MODE: "enforce"})
    assert files.run(document, "-o", "json") == 0
    changes = {
        (change["resource"], change["setting"]): change for change in answers(capsys)[0]["containers"][0]["changes"]
    }
    assert changes["memory", "request"]["before"] == 600_000_000


def test_a_denial_is_exit_code_1(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    orders = {names.MODE: "enforce", names.POD_LIMITS: '{"limits": {"cpu": "100m"}}'}
    assert files.run(workload(orders=orders), "--server-version", "v1.34.0") == 1
    out = capsys.readouterr().out
    assert "denied" in out
    assert "100m is below the 500m" in out


def test_pod_limits_go_by_the_servers_version(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    document = workload(orders={names.MODE: "enforce", names.POD_LIMITS: '{"limits": {"memory": "580M"}}'})
    for version, phrase in (("v1.34.0", "set as spec.resources"), ("1.33", "left to the agent of its node")):
        assert files.run(document, "--server-version", version) == 0
        out = capsys.readouterr().out
        assert phrase in out
        assert ("warning" in out) is True
    assert refusal(capsys, "--pod", "x", "--server-version", "new").startswith(
        "plimsoll admission: --server-version: 'new'"
    )


def test_notes_and_terminal_tricks_are_spelt_out(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    evil = container("a\x1b[31m", {"cpu": "500m"})
    document = workload("Deployment", evil, orders={names.MODE: "enforce"})
    known = {"estimates": [{**KNOWN, "container": "a\x1b[31m", "cpuRequestMillicores": None}]}
    assert files.run(document, history=known) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "left: cpu: the history has no figure" in out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "pod.json: not JSON: "),
        ("a: [", "pod.json: not YAML: "),
        ("", "pod.json: no pod in it; allowed: Pod, Deployment"),
        ({"kind": "Service"}, "pod.json: document 1.kind: 'Service' is not allowed (Pod, Deployment"),
        ("7", "pod.json: document 1: 7 is not an object"),
        ({"kind": "Pod", "spec": 7}, "pod.json: document 1.spec: 7 is not an object"),
        (
            {"kind": "Deployment", "metadata": {"name": "x"}},
            "pod.json: document 1.spec.template: None is not an object",
        ),
        (
            {"kind": "Deployment", "spec": {"template": {}}},
            "pod.json: document 1.metadata.name: missing (a text that is not empty)",
        ),
        ({"kind": "PodList", "items": [7]}, "pod.json: document 1.items[0]: 7 is not an object"),
        (
            {
                "kind": "Pod",
                "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "x"}, "requests": 7}}]},
            },
            "pod.json: spec.containers[0].resources.requests: 7 is not an object",
        ),
    ],
)
def test_a_pod_file_of_another_shape_is_one_line(
    content: object, message: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(capsys, "--pod", files.put("pod.json", content))
    assert line.startswith(f"plimsoll admission: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "history.json: containers: missing (the output of plimsoll workloads -o json"),
        ("", "history.json: 0 documents; allowed: the output of plimsoll workloads -o json"),
        ({"workloads": [{"containers": ["app"]}]}, "history.json: workloads[0].containers[0]: 'app' is not an object"),
        ({"estimates": [{}]}, "history.json: estimates[0].container: missing"),
        ({"estimates": [{**KNOWN, "source": "moon"}]}, "history.json: estimates[0].source: 'moon' is not allowed"),
        ({"estimates": [{**KNOWN, "pods": -1}]}, "history.json: estimates[0].pods: -1 is not allowed"),
        (
            {"estimates": [{**KNOWN, "historySeconds": -1}]},
            "history.json: estimates[0].historySeconds: -1 is not allowed",
        ),
        ({"estimates": [{**KNOWN, "historySeconds": True}]}, "history.json: estimates[0].historySeconds: True"),
    ],
)
def test_a_history_of_another_shape_is_one_line(
    content: object, message: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    pod, history = files.put("pod.json", ENFORCED), files.put("history.json", content)
    assert refusal(capsys, "--pod", pod, "--history", history).startswith(f"plimsoll admission: {message}")


def test_files_that_cannot_be_read_are_named(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot be read: No such file" in refusal(capsys, "--pod", "/nowhere/pod.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff")
    assert "not UTF-8 at byte 0" in refusal(capsys, "--pod", str(tmp_path / "bytes.yaml"))
    pod, spaces = files.put("pod.json", ENFORCED), files.put("ns.json", {"kind": "Node"})
    assert "ns.json: kind: 'Node'" in refusal(capsys, "--pod", pod, "--namespaces", spaces)
    empty = refusal(capsys, "--pod", pod, "--namespaces", files.put("empty.json", ""))
    assert "empty.json: nothing in it; allowed: the output of kubectl get namespaces" in empty


def node(name: str, cpu: str, **status: object) -> dict[str, object]:
    stated = {"allocatable": {"cpu": cpu, "memory": "8Gi"}, **status}
    return {"kind": "Node", "metadata": {"name": name}, "status": stated}


def test_what_the_nodes_can_allocate_bounds_growth(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    history = {"estimates": [{**KNOWN, "cpuRequestMillicores": 3000, "memoryMaxBytes": 9 << 30}]}
    orders = {names.MODE: "enforce", names.MAX_MEMORY: "1Gi"}
    nodes = files.put("nodes.json", {"kind": "List", "items": [node("a", "2"), node("b", "4")]})
    assert files.run(workload(orders=orders), "-o", "json", "--nodes", nodes, history=history) == 0
    (pod,) = answers(capsys)
    assert [(change["resource"], change["setting"], change["after"]) for change in pod["containers"][0]["changes"]] == [
        ("cpu", "request", 3000),
        ("cpu", "limit", None),
        ("memory", "request", 191 << 20),  # 200 MB
        ("memory", "limit", 2 << 30),
    ]
    small = files.put("small.json", node("a", "2"))
    assert files.run(workload(orders=orders), "--nodes", small, "--width", "200", history=history) == 0
    out = capsys.readouterr().out
    assert "left: cpu: no node can allocate so much" in out
    assert "left: memory limit: held by the largest memory allowed" in out


def test_files_that_hold_no_nodes_are_one_line(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    pod = files.put("pod.json", ENFORCED)
    for content, message in (
        ({"kind": "Pod"}, "nodes.json: document 1.kind: 'Pod'"),
        ({"kind": "List", "items": [{"kind": "Pod"}]}, "nodes.json: document 1.kind: 'Pod'"),
        (node("a", "much"), "nodes.json: "),
        (node("a", "2", allocatable={}), "nodes.json: no node says what it can allocate; allowed: the output of"),
        ("", "nodes.json: no node says what it can allocate"),
    ):
        line = refusal(capsys, "--pod", pod, "--nodes", files.put("nodes.json", content))
        assert line.startswith(f"plimsoll admission: {message}"), line


def test_standard_input_is_for_one_file(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--pod - and --history -: standard input can be read only once"
    assert words in refusal(capsys, "--pod", "-", "--history", "-")
    pod = files.put("pod.json", ENFORCED)
    assert "--history - and --namespaces -" in refusal(capsys, "--pod", pod, "--history", "-", "--namespaces", "-")


def test_help_names_what_lists_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, lister in (("admission", "plimsoll settings --webhook"), ("run", "plimsoll settings")):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        assert f"  {lister} lists all of them\n" in capsys.readouterr().out
