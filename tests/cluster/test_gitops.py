"""``plimsoll gitops`` on public charts, Kustomizations and manifests; the real kubectl and helm render them."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from agent.cli.gitops.values_map import mapped_containers
from agent.cli.gitops.written import PlannedWrite, written_text
from agent.cli.main import main
from agent.webhook.queries.workload_bodies import WorkloadBody
from tests import yaml_texts
from tests.archives import extract_all
from tests.cluster.binaries import require
from tests.cluster.control_plane import ControlPlane
from tests.workload_histories import MIB, advice, workload_history

pytestmark = pytest.mark.cluster

ARCHIVE = Path(__file__).parents[1] / "data/gitops/public-trees.tar.gz"
SET = ("--set", "act.excludedNamespaces=nobody", "--set", "plan.guaranteed=true")
HELM = ("--skip-tests", "--kube-version", "1.37.1", "--set", "kind=Deployment")
"""Tests have random names; the kind is of one chart, which is a CronJob otherwise."""
RESOURCE_LINE = re.compile(r'\s*"?(cpu|memory|requests|limits)"?:')
KINDS = {"Deployment", "StatefulSet", "CronJob", "Rollout"}
"""Those that are sized for all pods alike: a DaemonSet's are sized node by node."""


@dataclass(frozen=True)
class Tree:
    """One public tree, and how it is rendered."""

    folder: str
    roots: tuple[str, ...] = ()
    """Kustomizations."""
    chart: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Of a chart: values by container."""
    values: str = "values.yaml"
    manifests: tuple[str, ...] = ()

    def rendered(self, top: Path) -> list[dict[str, Any]]:
        """Return all objects that come of it."""
        texts = [run("kubectl", "kustomize", str(top / root)) for root in self.roots]
        if self.chart:
            values = top / self.chart / self.values
            texts.append(run("helm", "template", "one", str(top / self.chart), "--values", str(values), *HELM))
        texts += [(top / path).read_text() for path in self.manifests]
        return [document for text in texts for document in yaml_texts.load_all(text) if document]


TREES = {
    "kustomize-one-directory": Tree("podinfo/kustomize", roots=("",)),
    "kustomize-bases-and-overlays": Tree(
        "podinfo/deploy", roots=("overlays/dev", "overlays/staging", "overlays/production")
    ),
    "kustomize-components-over-one-base": Tree(
        "metrics-server/manifests",
        roots=tuple(f"overlays/{name}" for name in ("release", "release-ha", "release-ha-1.21+", "test", "test-ha")),
    ),
    "kustomize-three-kinds-of-one": Tree("descheduler/kubernetes", roots=("deployment", "cronjob", "job")),
    "kustomize-prefix-and-namespace": Tree("kueue/config", roots=("kueueviz",)),
    "kustomize-several-roots": Tree("keda/config", roots=("manager", "metrics-server", "webhooks")),
    "kustomize-an-operator": Tree("source-controller/config/manager", roots=("",)),
    "manifests-of-rollouts": Tree(
        "argo-rollouts/docs/getting-started",
        manifests=tuple(f"{name}/rollout.yaml" for name in ("alb", "basic", "istio", "mixed", "nginx", "smi")),
    ),
    "helm-podinfo": Tree("podinfo/charts", chart="podinfo", keys={"podinfo": "resources"}),
    "helm-podinfo-production": Tree(
        "podinfo/charts", chart="podinfo", keys={"podinfo": "resources"}, values="values-prod.yaml"
    ),
    "helm-metrics-server": Tree("metrics-server/charts", chart="metrics-server", keys={"metrics-server": "resources"}),
    "helm-descheduler": Tree("descheduler/charts", chart="descheduler", keys={"descheduler": "resources"}),
}


def run(program: str, *words: str) -> str:
    return subprocess.run([str(require(program)), *words], capture_output=True, text=True, check=True).stdout


def workloads(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """Return place, object and containers of what is sized."""
    for document in objects:
        if document["kind"] in KINDS:
            spec = document["spec"]["jobTemplate"]["spec"] if document["kind"] == "CronJob" else document["spec"]
            containers = [container["name"] for container in spec["template"]["spec"]["containers"]]
            yield (
                f"{document['metadata'].get('namespace', 'default')}/{document['kind']}/{document['metadata']['name']}",
                document,
                containers,
            )


def without_amounts(value: Any) -> Any:
    """Return an object without what is sized."""
    if isinstance(value, dict):
        return {key: without_amounts(inner) for key, inner in value.items() if key != "resources"}
    return [without_amounts(inner) for inner in value] if isinstance(value, list) else value


def changed_lines(before: Mapping[Path, str], top: Path) -> list[str]:
    return [
        line[1:]
        for path, text in before.items()
        for line in difflib.ndiff(text.splitlines(), (top / path).read_text().splitlines())
        if line[0] in "+-"
    ]


def texts(top: Path) -> dict[Path, str]:
    return {path.relative_to(top): path.read_text() for path in top.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", TREES)
def test_a_public_tree_gets_its_recommendation_and_nothing_else(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = TREES[name]
    with tarfile.open(ARCHIVE) as archive:
        extract_all(archive, tmp_path)
    top = tmp_path / tree.folder
    before, untouched = texts(top), tree.rendered(top)
    known = {
        place: workload_history(
            place, {app: advice(137 + 20 * index, (97 + 60 * index) * MIB) for index, app in enumerate(containers)}
        )
        for place, _, containers in workloads(untouched)
        if not tree.chart or tree.keys.keys() >= set(containers)
    }
    assert known
    history, asked, mapped = tmp_path / "history.json", tmp_path / "pods.yaml", tmp_path / "map.yaml"
    history.write_text(json.dumps({"workloads": list(known.values())}))
    words = ["gitops", str(top), "--history", str(history), "-n", "default", "--min-change", "0", *SET]
    if tree.chart:
        keys = {f"{place}/{app}": tree.keys[app] for place, _, (app,) in workloads(untouched) if place in known}
        mapped.write_text(yaml.safe_dump({f"{tree.chart}/{tree.values}": keys}))
        words += ["--map", str(mapped)]

    assert main([*words, "--check"]) == 1
    assert texts(top) == before
    assert main([*words, "--pr-body", str(tmp_path / "body.md")]) == 0
    lines = changed_lines(before, top)
    assert lines
    assert all(RESOURCE_LINE.match(line) for line in lines if not line.startswith("?")), lines
    rendered = tree.rendered(top)
    assert [without_amounts(document) for document in rendered] == [without_amounts(document) for document in untouched]
    assert rendered != untouched

    # Whoever creates pods of what is rendered now is given exactly that.
    capsys.readouterr()
    sized = [document for place, document, _ in workloads(rendered) if document["kind"] != "CronJob" and place in known]
    asked.write_text(yaml.safe_dump_all(sized))
    assert main(["admission", "--pod", str(asked), "--history", str(history), "--what-if", "-o", "json", *SET]) == 0
    answers = json.loads(capsys.readouterr().out)["pods"]
    assert [answer["outcome"] for answer in answers] == ["noop"] * len(sized), answers

    after = texts(top)
    assert main([*words, "--check"]) == 0
    assert main(words) == 0
    assert texts(top) == after


def test_what_workloads_writes_is_taken_by_kustomize_and_helm(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        extract_all(archive, tmp_path)
    body = msgspec.convert(workload_history("default/Deployment/podinfo", ("podinfod",)), WorkloadBody)
    wanted = {"requests": {"cpu": "137m", "memory": "97Mi"}, "limits": {"memory": "489Mi"}}

    component, overlay = tmp_path / "component", tmp_path / "overlay"
    component.mkdir()
    overlay.mkdir()
    other = msgspec.convert(workload_history("default/StatefulSet/not-there"), WorkloadBody)
    daemon = msgspec.convert(workload_history("default/DaemonSet/log"), WorkloadBody)
    text, left = written_text([body, other, daemon], PlannedWrite(form="kustomize"))
    assert [str(line) for line in left] == [
        "left default/DaemonSet/log: pods of a DaemonSet are not sized by a template"
    ]
    (component / "kustomization.yaml").write_text(text)
    (overlay / "kustomization.yaml").write_text("resources: [../podinfo/kustomize]\ncomponents: [../component]\n")
    (place, rendered, _), *_ = workloads(list(yaml_texts.load_all(run("kubectl", "kustomize", str(overlay)))))
    assert place == "default/Deployment/podinfo"
    (container,) = rendered["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == wanted["requests"]
    assert container["resources"]["limits"]["memory"] == wanted["limits"]["memory"]

    keys = mapped_containers({"values.yaml": {"default/Deployment/podinfo/podinfod": "resources"}})
    text, _ = written_text([body], PlannedWrite(form="helm", mapped=keys))
    (tmp_path / "ours.yaml").write_text(text)
    chart, ours = str(tmp_path / "podinfo/charts/podinfo"), str(tmp_path / "ours.yaml")
    objects = list(yaml_texts.load_all(run("helm", "template", "one", chart, "--values", ours, *HELM)))
    (_, rendered, _), *_ = workloads([document for document in objects if document])
    (container,) = rendered["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == wanted


SERVER_SIDE = ("apply", "--server-side", "--field-manager=author")


@pytest.mark.parametrize("manners", [[SERVER_SIDE], [("apply",), SERVER_SIDE]], ids=["server-side", "moved-to-it"])
def test_what_workloads_writes_for_kubectl_changes_the_amounts_alone_on_a_real_server(
    manners: list[tuple[str, ...]], cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    kubectl = partial(run, "kubectl", f"--kubeconfig={cluster.kubeconfig}")
    container: dict[str, Any] = {"name": "app", "image": "none:1", "env": [{"name": "A", "value": "1"}]}
    container["resources"] = {"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
    sidecar = {**container, "name": "proxy", "restartPolicy": "Always"}
    pod_spec = {
        "initContainers": [{**container, "name": "setup"}, sidecar, {**container, "name": "late"}],
        "containers": [container, {**container, "name": "side"}],
    }
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": pod}
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace}}
    written, ours = tmp_path / "written.yaml", tmp_path / "ours.yaml"
    written.write_text(yaml.safe_dump({**head, "spec": spec}))
    for manner in manners:
        kubectl(*manner, "-f", str(written))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    before = cluster.admin.get(path)

    kinds = {"proxy": "sidecar", "setup": "init"}
    history = workload_history(f"{namespace}/Deployment/web", ("app", *kinds), kinds=kinds)
    text, left = written_text([msgspec.convert(history, WorkloadBody)], PlannedWrite(form="ssa"))
    assert left == []
    ours.write_text(text)
    comment, *_ = text.splitlines()
    words = comment.removeprefix("# kubectl ").replace("FILE", str(ours)).split()
    kubectl(*words)
    after = cluster.admin.get(path)
    (app, side), (_, same) = (deployment["spec"]["template"]["spec"]["containers"] for deployment in (after, before))
    amounts = {"requests": {"cpu": "137m", "memory": "97Mi"}, "limits": {"memory": "489Mi"}}
    assert app["resources"] == amounts
    assert side == same
    assert [given["resources"] for given in after["spec"]["template"]["spec"]["initContainers"]] == [
        container["resources"],
        amounts,
        container["resources"],
    ]
    assert without_amounts(after["spec"]) == without_amounts(before["spec"])
    (entry,) = [fields for fields in after["metadata"]["managedFields"] if fields["manager"] == "plimsoll"]
    held = entry["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert set(held) == {'k:{"name":"app"}'}
    assert set(held['k:{"name":"app"}']) == {".", "f:name", "f:resources"}

    kubectl(*words)
    assert cluster.admin.get(path)["metadata"]["generation"] == after["metadata"]["generation"]
    with pytest.raises(subprocess.CalledProcessError) as refused:
        kubectl(*SERVER_SIDE, "-f", str(written))
    assert 'with "plimsoll"' in refused.value.stderr


CONTAINER = """\
        - name: {name}
          resources:
            requests: {{cpu: 500m, memory: 1Gi}}
            limits:
              cpu: 1
              memory: 2Gi
"""
HEAD = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n"
POD = "spec:\n  template:\n    spec:\n      containers:\n"
AT = "/spec/template/spec/containers"
NEW = "- patch: |-\n" + HEAD.format(name="job-x") + POD + CONTAINER.format(name="new")
LAYERED = {
    "base/kustomization.yaml": "resources: [all.yaml]\nnameSuffix: -x\n",
    "base/all.yaml": "---\n".join(
        HEAD.format(name=name) + POD + CONTAINER.format(name="app") + CONTAINER.format(name="side")
        for name in ("web", "api", "job", "old")
    ),
    "part/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
    "patches:\n- path: patch.yaml\n  target: {kind: Deployment, name: 'a.*'}\n",
    "part/patch.yaml": f"- op: add\n  path: {AT}/0/resources/limits\n  value: {{cpu: 900m, memory: 1900Mi}} # part\n"
    f"- op: remove\n  path: {AT}/1/resources/limits/cpu\n",
    "prod/kustomization.yaml": "namespace: prod\nnamePrefix: p-\nresources: [../base]\ncomponents: [../part]\n"
    "patchesStrategicMerge: [merge.yaml]\n"
    "patches:\n"
    f"- target: {{kind: Deployment, name: web}}\n  patch: |-\n    - op: replace\n      path: {AT}/1/resources\n"
    "      value:\n        requests:\n          memory: 700Mi # inline\n          cpu: 1500m\n"
    + NEW.replace("\n", "\n    ").rstrip(" ")
    + "patchesJson6902:\n- target: {group: apps, version: v1, kind: Deployment, name: old}\n  path: late.yaml\n",
    "prod/merge.yaml": HEAD.format(name="web-x") + POD + "        - name: app\n          resources:\n"
    "            limits: {cpu: null}\n            requests:\n              cpu: '450m' # merged\n",
    "prod/late.yaml": f'- {{"op": "replace", "path": "{AT}/0/resources/requests/cpu", "value": 2}}\n',
}  # fmt: skip


def test_layers_of_kustomize_are_followed_as_kubectl_builds_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = tmp_path / "top"
    for path, text in LAYERED.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    before = list(yaml_texts.load_all(run("kubectl", "kustomize", str(top / "prod"))))
    known = {
        place: workload_history(
            place, {app: advice(137 + 20 * index, (97 + 60 * index) * MIB) for index, app in enumerate(containers)}
        )
        for place, _, containers in workloads(before)
    }
    assert set(known) == {f"prod/Deployment/p-{name}-x" for name in ("web", "api", "job", "old")}
    history, asked = tmp_path / "history.json", tmp_path / "pods.yaml"
    history.write_text(json.dumps({"workloads": list(known.values())}))
    untouched = texts(top)
    assert main(["gitops", str(top), "--history", str(history), "--min-change", "0"]) == 0
    assert "left" not in capsys.readouterr().out
    lines = changed_lines(untouched, top)
    amount = re.compile(r'.*(cpu|memory|limits|requests|value)"?:')
    assert all(amount.match(line) for line in lines if not line.startswith("?")), lines
    for note in ("# part", "# inline", "'137m' # merged"):
        assert any(note in text for text in texts(top).values()), note
    rendered = list(yaml_texts.load_all(run("kubectl", "kustomize", str(top / "prod"))))
    assert [without_amounts(document) for document in rendered] == [without_amounts(document) for document in before]
    asked.write_text(yaml.safe_dump_all(rendered))
    assert main(["admission", "--pod", str(asked), "--history", str(history), "--what-if", "-o", "json"]) == 0
    answers = json.loads(capsys.readouterr().out)["pods"]
    assert [answer["outcome"] for answer in answers] == ["noop"] * 4, answers
    assert main(["gitops", str(top), "--history", str(history), "--min-change", "0", "--check"]) == 0
