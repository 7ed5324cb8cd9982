from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main
from agent.cli.plan.files import NO_RECOMMENDATIONS, NOT_SEEN_TOGETHER
from agent.cli.recommender.recommend_formats import json_text
from agent.cli.recommender.recommend_money import money_of
from agent.core.cost.price_sheet import PriceSheet
from agent.node.files.documents import PLAN, RECOMMENDATIONS
from agent.node.sockets.control import ControlError
from tests import recommendations
from tests.control_sockets import answering
from tests.plans import mixed_plan
from tests.pods import container, pod_json
from tests.recommendations import MI, recommendation
from tests.snapshots import TAKEN_UNIX_SECONDS


class Verbs:
    """An agent that plans what it is told to."""

    answer: Mapping[str, object] = PLAN.to_json(mixed_plan())
    asked: Mapping[str, object] = {}
    refusal: str | None = None

    def plan(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        self.asked = arguments
        if self.refusal is not None:
            raise ControlError(self.refusal)
        return self.answer


@pytest.fixture
def verbs() -> Verbs:
    return Verbs()


@pytest.fixture
def agent(tmp_path: Path, verbs: Verbs) -> Iterator[str]:
    with answering(tmp_path / "agent.sock", {"plan": verbs.plan}) as path:
        yield str(path)


def plan(*words: str) -> int:
    return main(["plan", *words])


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of an error that is bad input."""
    with pytest.raises(SystemExit) as caught:
        plan(*words)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return line


# From the agent


def test_table_is_drawn_for_a_pipe_without_escapes(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--socket", agent, "--width", "120") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("plimsoll worker-7  plan  from the agent")
    assert "\x1b" not in out
    assert max(len(line) for line in out.splitlines()) <= 120


def test_what_if_is_asked_of_the_agent(agent: str, verbs: Verbs, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--socket", agent) == 0
    assert verbs.asked == {"what_if": False}
    assert plan("--socket", agent, "--what-if", "--invariants") == 0
    assert verbs.asked == {"what_if": True}
    assert "holds  base <= final <= peak" in capsys.readouterr().out


def test_other_outputs(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--socket", agent, "-o", "json") == 0
    assert PLAN.from_json(json.loads(capsys.readouterr().out)) == mixed_plan()
    assert plan("--socket", agent, "-o", "csv", "-n", "kube-*") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["namespace"] for row in rows} == {"kube-system"}
    assert plan("--socket", agent, "-o", "patch", "--pod", "cache-0") == 0
    out, err = capsys.readouterr()
    assert out.count("kubectl patch pod cache-0") == 1
    assert out.count("kubectl patch pod") == 1
    assert err == ""
    assert plan("--socket", agent, "-o", "patch") == 0
    assert capsys.readouterr().err == "plimsoll plan: left out, proposed evictions: shop/gone-1\n"


def test_pods_are_found_by_uid_and_none_is_said(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--socket", agent, "-o", "csv", "--pod", "UID-SHOP-cache-0", "-n", "shop") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert plan("--socket", agent, "-o", "csv", "--pod", "nobody") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert err == "plimsoll plan: none of 8 pods is called nobody; a part of a name needs *: --pod 'nobody*'\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-n", "nowhere"), "none of 8 pods is in namespace nowhere"),
        (("--pod", "x*", "-n", "shop"), "none of 8 pods is called x* in namespace shop"),
    ],
)
def test_no_pod_chosen_says_what_was_asked_for_and_draws_no_page(
    agent: str, words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan("--socket", agent, *words) == 0
    assert capsys.readouterr() == ("", f"plimsoll plan: {told}\n")


def test_no_agent_is_1_and_names_the_way_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--socket", str(tmp_path / "none.sock")) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "none.sock" in line
    assert line.endswith("or plan from files: --pods FILE --node-file FILE")


def test_an_agent_of_another_release_is_1(agent: str, verbs: Verbs, capsys: pytest.CaptureFixture[str]) -> None:
    verbs.answer = {**verbs.answer, "version": 99}
    assert plan("--socket", agent) == 1
    assert "plan.version: 99 is not 1" in capsys.readouterr().err


def test_a_refusal_is_2_and_told(agent: str, verbs: Verbs, capsys: pytest.CaptureFixture[str]) -> None:
    verbs.refusal = "plan: this agent has no API server to plan with"
    assert error_of(capsys, "--socket", agent) == "plimsoll plan: this agent has no API server to plan with"


def test_settings_with_an_agent_are_refused(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = error_of(capsys, "--socket", agent, "--set", "plan.fitRule=literal")
    assert "plan.fitRule: the agent plans with its own settings" in line


# From files

NODE: dict[str, Any] = {
    "kind": "Node",
    "metadata": {"name": "worker-7", "uid": "uid-node"},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi"},
        "nodeInfo": {"kubeletVersion": "v1.37.1", "operatingSystem": "linux"},
    },
}
OWNER = {"kind": "ReplicaSet", "name": "web-7d9c5b8f4", "uid": "uid-rs", "controller": True}


def pod(name: str = "web-7d9c5b8f4-x2x9k", node: str = "worker-7", **annotations: str) -> dict[str, Any]:
    """A pod of a Deployment that has run for long; 500m and 256Mi."""
    started = "2026-11-20T00:00:00Z"
    return pod_json(
        container("app", {"cpu": "500m", "memory": "256Mi"}),
        metadata={
            "name": name,
            "uid": f"uid-shop-{name}",
            "creationTimestamp": started,
            "labels": {"pod-template-hash": "7d9c5b8f4"},
            "annotations": {f"plimsoll.dev/{key}": value for key, value in annotations.items()},
            "ownerReferences": [OWNER],
        },
        status={
            "phase": "Running",
            "qosClass": "Burstable",
            "startTime": started,
            "containerStatuses": [{"name": "app", "state": {"running": {"startedAt": started}}}],
        },
        nodeName=node,
    )


class Files:
    """The files of one node."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.put("node.json", NODE)
        self.put("pods.json", {"kind": "List", "items": [pod()]})
        advice = recommendations.node(recommendation(cpu=200, memory=128 * MI))
        self.put("recommendations.json", RECOMMENDATIONS.to_json(advice))

    def put(self, name: str, content: object) -> str:
        path = self.directory / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def words(self, *more: str) -> tuple[str, ...]:
        pods, node = self.directory / "pods.json", self.directory / "node.json"
        return ("--pods", str(pods), "--node-file", str(node), *more)

    def told(self, *more: str) -> tuple[str, ...]:
        return self.words("--recommendations", str(self.directory / "recommendations.json"), *more)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert plan(*words, "-o", "json") == 0
    return PLAN.from_json(json.loads(capsys.readouterr().out))


def test_without_recommendations_everything_counts_as_it_stands_and_that_is_said(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = planned(capsys, *files.words())
    assert (answer.node, answer.cpu.allocatable, answer.steps) == ("worker-7", 4000, ())
    assert NO_RECOMMENDATIONS in answer.notes
    assert answer.pods[0].cpu_counted_millicores == 500
    assert plan(*files.words()) == 0
    out = capsys.readouterr().out
    assert "from files" in out
    assert "plimsoll recommend -o json" in out


def test_what_is_seen_together_is_not_in_any_file_and_that_is_said(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert NOT_SEEN_TOGETHER not in planned(capsys, *files.told()).notes
    advice = recommendations.node(recommendation(cpu=200, memory=128 * MI), policy="plimsoll")
    files.put("recommendations.json", RECOMMENDATIONS.to_json(advice))
    assert NOT_SEEN_TOGETHER in planned(capsys, *files.told()).notes
    monkeypatch.setenv("PLIMSOLL_PLAN_HEADROOM", "spike")
    assert NOT_SEEN_TOGETHER not in planned(capsys, *files.told()).notes


@pytest.mark.slow
def test_pods_come_from_standard_input_too(files: Files) -> None:
    words = files.words("-o", "json")
    child = subprocess.run(
        [sys.executable, "-m", "agent", "plan", "--pods", "-", *words[2:]],
        input=(files.directory / "pods.json").read_bytes(),
        capture_output=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert [pod_plan.ref.name for pod_plan in PLAN.from_json(json.loads(child.stdout)).pods] == ["web-7d9c5b8f4-x2x9k"]


def test_what_if_plans_what_is_only_recommended(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(capsys, *files.told()).steps == ()
    answer = planned(capsys, *files.told("--what-if"))
    assert answer.taken_unix_seconds == TAKEN_UNIX_SECONDS
    assert answer.is_sound
    (step,) = answer.steps
    # base is half of 200m and the peak 200m: the only spike of the node, which gets all of it
    assert ("cpu", "request", 500, 200) in [(c.resource, c.setting, c.before, c.after) for c in step.changes]


def test_recommendations_with_money_plan_the_same_and_other_fields_are_refused(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    advice = recommendations.node(recommendation(cpu=200, memory=128 * MI))
    plain = planned(capsys, *files.told("--what-if"))
    priced = json_text(advice, money_of(PriceSheet(), advice.node, cpus=4, memory_bytes=8 << 30))
    document = json.loads(priced)
    assert ("prices" in document, "money" in document["items"][0]) == (True, True)
    files.put("recommendations.json", priced)
    assert planned(capsys, *files.told("--what-if")) == plain
    files.put("recommendations.json", {**document, "colour": "red"})
    assert "unknown fields ['colour']" in error_of(capsys, *files.told())
    files.put("recommendations.json", {**document, "items": [{**document["items"][0], "colour": "red"}, 5]})
    assert "recommendations.items[0]: unknown fields ['colour']" in error_of(capsys, *files.told())
    files.put("recommendations.json", {**document, "items": 5})
    assert "recommendations.items: 5 is not a list" in error_of(capsys, *files.told())


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ({"type": "PodResizePending", "status": "True", "reason": "Deferred"}, "last resize deferred"),
        ({"type": "PodResizeInProgress", "status": "True"}, "a resize is under way"),
    ],
)
def test_a_pod_that_the_agent_would_wait_for_has_no_patch_and_the_script_says_why(
    files: Files, capsys: pytest.CaptureFixture[str], condition: dict[str, str], told: str
) -> None:
    waiting = pod(mode="enforce")
    waiting["status"]["conditions"] = [condition]
    files.put("pods.json", {"kind": "List", "items": [waiting]})
    assert plan(*files.told("-o", "patch")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [f"# shop/web-7d9c5b8f4-x2x9k waits: {told}", "# nothing to resize"]


def test_annotations_and_settings_count(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.put("pods.json", {"kind": "List", "items": [pod(mode="enforce")]})
    assert len(planned(capsys, *files.told()).steps) == 1
    files.put("pods.json", {"kind": "List", "items": [pod()]})
    assert len(planned(capsys, *files.told("--set", "act.mode=enforce")).steps) == 1
    space = {"kind": "Namespace", "metadata": {"name": "shop", "annotations": {"plimsoll.dev/mode": "enforce"}}}
    spaces = files.put("namespaces.json", {"kind": "List", "items": [space]})
    assert len(planned(capsys, *files.told("--namespaces", spaces)).steps) == 1


def test_pods_of_other_nodes_are_left_out_and_said(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.put("pods.json", {"kind": "List", "items": [pod(), pod("else", "worker-8")]})
    answer = planned(capsys, *files.words())
    assert [pod_plan.ref.name for pod_plan in answer.pods] == ["web-7d9c5b8f4-x2x9k"]
    assert any("pods.json: 1 pod is of another node" in note for note in answer.notes)


def test_a_list_of_one_node_is_that_node(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.put("node.json", {"kind": "List", "items": [NODE]})
    assert planned(capsys, *files.words()).node == "worker-7"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("pods.json", "{", "pods.json: not JSON"),
        ("pods.json", {"kind": "Node"}, "pods.json: "),
        ("pods.json", {"kind": "List", "items": [pod(node="b")]}, "no pod is bound to node 'worker-7' of node.json"),
        ("node.json", "", "node.json: not JSON"),
        ("node.json", [], "node.json: "),
        (
            "node.json",
            {"kind": "List", "items": [NODE, NODE]},
            "node.json: a list of 2 nodes; allowed: kubectl get node NAME",
        ),
        ("node.json", {"kind": "Pod", "metadata": {"name": "x"}}, "node.json: "),
        ("recommendations.json", {"format": "x"}, "allowed: the output of plimsoll recommend -o json"),
        (
            "recommendations.json",
            RECOMMENDATIONS.to_json(recommendations.node(node="other")),
            "recommendations.json: of node 'other', not 'worker-7'",
        ),
        ("namespaces.json", {"kind": "List", "items": [{"metadata": {}}]}, "namespaces.json: "),
    ],
)
def test_files_that_do_not_do_are_one_line(
    files: Files, name: str, content: object, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = files.put(name, content)
    more = ("--namespaces", path) if name == "namespaces.json" else ()
    line = error_of(capsys, *files.told(*more))
    assert line.startswith("plimsoll plan: ")
    assert told in line


def test_a_file_that_is_not_there_is_named(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    line = error_of(capsys, "--pods", str(files.directory / "pods.json"), "--node-file", str(files.directory / "none"))
    assert "none: cannot be read: No such file" in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--pods", "x"), "files need both --pods FILE (kubectl get pods -A -o json) and --node-file FILE"),
        (("--recommendations", "x"), "files need both --pods"),
        (("--pods", "x", "--node-file", "y", "--socket", "/z"), "--socket with files"),
        (("-o", "yaml"), "'yaml'"),
        (("--set", "plan.fitRules=shared", "--pods", "x", "--node-file", "y"), "plan.fitRules"),
        (("--whatif",), "--what-if"),
    ],
)
def test_bad_input_is_one_line_that_says_what_is_allowed(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in error_of(capsys, *words)
