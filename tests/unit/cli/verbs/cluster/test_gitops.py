from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.cli.gitops import checkout as checkouts
from agent.cli.main import main
from tests.workload_histories import MIB, advice, workload_history

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  template:
    spec:
      containers:
        - name: app # the one
          resources:
            limits:
              cpu: "1"
              memory: 2Gi
            requests:
              cpu: 500m # too much
              memory: 1Gi
"""
SIZED = (
    WEB.replace('              cpu: "1"\n', "").replace("2Gi", "489Mi").replace("500m", "137m").replace("1Gi", "97Mi")
)
KNOWN = workload_history("shop/Deployment/web")
BASE = WEB.replace("  namespace: shop\n", "")
"""For overlays."""


class Repository:
    """A checkout, and the verb run on it."""

    def __init__(self, top: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.top, self._capsys = top / "checkout", capsys
        self._history = top / "history.json"
        self.top.mkdir()

    def put(self, files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def run(self, *words: str, known: Any = KNOWN) -> tuple[int, list[str]]:
        self._history.write_text(json.dumps(known))
        code = main(["gitops", str(self.top), "--history", str(self._history), "--width", "200", *words])
        out, err = self._capsys.readouterr()
        return code, [*out.splitlines(), *err.splitlines()]

    def text(self, name: str) -> str:
        return (self.top / name).read_bytes().decode()


@pytest.fixture
def repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Repository:
    return Repository(tmp_path, capsys)


def left(lines: list[str]) -> list[str]:
    return [line.removeprefix("left ") for line in lines if line.startswith("left ")]


def test_a_manifest_is_sized_as_admission_would_size_its_pods(repository: Repository, tmp_path: Path) -> None:
    repository.put({"web.yaml": WEB})
    assert repository.run("--check")[0] == 1
    assert repository.text("web.yaml") == WEB
    code, lines = repository.run("--pr-body", str(tmp_path / "body.md"))
    assert code == 0
    assert repository.text("web.yaml") == SIZED
    assert lines == [
        "shop/Deployment/web app  limits.cpu 1 -> none  web.yaml:13",
        "shop/Deployment/web app  requests.cpu 500m -> 137m  web.yaml:16",
        "shop/Deployment/web app  limits.memory 2Gi -> 489Mi  web.yaml:14",
        "shop/Deployment/web app  requests.memory 1Gi -> 97Mi  web.yaml:17",
        "1 workload known here: 4 amounts changed in 1 file",
    ]
    body = (tmp_path / "body.md").read_text()
    assert "| shop/Deployment/web | app | requests.cpu | 500m | 137m (-73%) | web.yaml:16 |" in body
    # 3 pods: 3 x 500m and 3 x 1 GiB become 3 x 137m and 3 x 97 MiB.
    assert "of the 3 pods that run now: CPU 1500m and memory 3.00GiB before, CPU 411m and memory 291MiB after" in body
    assert "policy plimsoll; 3 pods, 7d00h of history" in body
    assert repository.run("--check") == (0, ["1 workload known here: nothing to change"])


@pytest.mark.parametrize(
    ("written", "edited"),
    [
        (WEB.replace("\n", "\r\n"), SIZED.replace("\n", "\r\n")),
        ("\ufeff" + WEB, "\ufeff" + SIZED),
        (WEB.removesuffix("\n"), SIZED.removesuffix("\n")),
        (f"# first\n---\nkind: Other\n---\n{WEB}---\n", f"# first\n---\nkind: Other\n---\n{SIZED}---\n"),
        (WEB.replace("cpu: 500m", "cpu:\t500m"), SIZED.replace("cpu: 137m", "cpu:\t137m")),
        (
            "apiVersion: v1\nkind: List\nitems:\n- " + WEB.replace("\n", "\n  ").rstrip(" "),
            "apiVersion: v1\nkind: List\nitems:\n- " + SIZED.replace("\n", "\n  ").rstrip(" "),
        ),
    ],
    ids=["crlf", "byte order mark", "no last newline", "several documents", "tab", "list"],
)
def test_nothing_but_amounts_changes(repository: Repository, written: str, edited: str) -> None:
    repository.put({"web.yaml": written})
    (repository.top / "web.yaml").chmod(0o640)
    assert repository.run()[0] == 0
    assert repository.text("web.yaml") == edited
    assert (repository.top / "web.yaml").stat().st_mode & 0o777 == 0o640
    assert os.listdir(repository.top) == ["web.yaml"]


def test_json_manifests_are_edited_too(repository: Repository) -> None:
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "template": {
                "spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]}
            }
        },
    }
    repository.put({"web.json": json.dumps(document, indent=2)})
    assert repository.run()[0] == 0
    (container,) = json.loads(repository.text("web.json"))["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "137m", "memory": "97Mi"}, "limits": {"memory": "489Mi"}}


def test_requests_that_only_a_limit_stated_are_written_out(repository: Repository) -> None:
    repository.put({"web.yaml": WEB.replace("              cpu: 500m # too much\n", "")})
    assert repository.run()[0] == 0
    lines = repository.text("web.yaml").splitlines()
    # The CPU limit is gone, so the request that it stood for has to be stated.
    assert [line.strip() for line in lines[-5:]] == [
        "limits:",
        "memory: 489Mi",
        "requests:",
        "memory: 97Mi",
        "cpu: 137m",
    ]


def test_small_changes_are_left(repository: Repository) -> None:
    repository.put({"web.yaml": WEB.replace("500m", "140m").replace("1Gi", "100Mi").replace("2Gi", "500Mi")})
    code, lines = repository.run("--check", "--min-change", "10%", "--set", "admission.cpuLimitsRemoved=false")
    assert (code, lines[-1]) == (0, "1 workload known here: nothing to change")
    code, lines = repository.run("--check", "--min-change", "1", "--set", "admission.cpuLimitsRemoved=false")
    assert code == 1
    assert "requests.cpu 140m -> 137m" in lines[0]


def test_manifests_without_namespace_need_one_to_be_named(repository: Repository) -> None:
    repository.put({"web.yaml": BASE, "other.yaml": BASE.replace("name: web", "name: unknown")})
    code, lines = repository.run()
    assert code == 0
    assert left(lines) == ["?/Deployment/web (web.yaml): states no namespace, known in shop; allowed: --namespace NAME"]
    assert repository.run("-n", "shop")[0] == 0
    assert repository.text("web.yaml") == SIZED.replace("  namespace: shop\n", "")


@pytest.mark.parametrize(
    ("applies", "told"),
    [
        ({"mode": {"value": "off", "source": "setting act.mode"}}, "off"),
        ({"pause": {"value": "audit", "source": "ConfigMap"}}, "the cluster is paused: audit"),
        ({"leftAloneFor": "VerticalPodAutoscaler shop/web"}, "VerticalPodAutoscaler shop/web sets its requests"),
    ],
)
def test_workloads_that_are_left_say_why(repository: Repository, applies: dict[str, Any], told: str) -> None:
    repository.put({"web.yaml": WEB})
    code, lines = repository.run(known=workload_history("shop/Deployment/web", **applies))
    assert code == 0
    assert told in left(lines)[0]
    assert repository.text("web.yaml") == WEB


def test_an_axis_of_an_hpa_is_left_and_bounds_of_the_webhook_hold(repository: Repository) -> None:
    repository.put({"web.yaml": WEB})
    known = workload_history(
        "shop/Deployment/web",
        cpuFrozenFor="HorizontalPodAutoscaler shop/web",
        bounds=[{"name": "min-memory", "value": f"{200 * MIB}", "source": "setting bounds.minMemoryBytes"}],
    )
    assert repository.run(known=known)[0] == 0
    assert repository.text("web.yaml") == WEB.replace("2Gi", "489Mi").replace("1Gi", "200Mi")


def test_what_a_vertical_pod_autoscaler_orders_of_containers_holds(repository: Repository) -> None:
    repository.put({"web.yaml": WEB})
    order = [{"containerName": "*", "maxAllowed": {"cpu": "100m", "memory": "64Mi"}}]
    bounds = [{"name": "container-policies", "value": json.dumps(order), "source": "VPA shop/web"}]
    assert repository.run(known=workload_history("shop/Deployment/web", bounds=bounds))[0] == 0
    # The limit would be more than twice the largest memory allowed.
    assert repository.text("web.yaml") == SIZED.replace("137m", "100m").replace("97Mi", "64Mi").replace("489Mi", "2Gi")
    bounds[0]["value"] = json.dumps([{"containerName": "app", "mode": "Off"}])
    repository.put({"web.yaml": WEB})
    assert repository.run(known=workload_history("shop/Deployment/web", bounds=bounds))[0] == 0
    assert repository.text("web.yaml") == WEB


def test_a_limit_does_not_fall_below_what_one_node_alone_told(repository: Repository) -> None:
    repository.put({"web.yaml": WEB.replace("2Gi", "5Gi")})
    known = workload_history("shop/Deployment/web", {"app": advice(memoryAloneBytes=2000 * MIB)})
    assert repository.run(known=known)[0] == 0
    assert repository.text("web.yaml") == SIZED.replace("489Mi", "4000Mi")  # 2 x 2000 MiB


def test_what_was_killed_lately_only_grows(repository: Repository) -> None:
    repository.put({"web.yaml": WEB})
    known = workload_history("shop/Deployment/web", {"app": advice(2000, 64 * MIB)}, stopShrinkingSeconds=60.0)
    assert repository.run(known=known)[0] == 0
    assert repository.text("web.yaml") == WEB.replace('              cpu: "1"\n', "").replace("500m", "2")


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({"newestAgeSeconds": 259_200.0}, "its newest figures are 3 days old"),
        ({"policy": "vpa"}, "sized by plimsoll, and the figures are of vpa"),
        ({"policy": "else"}, "not understood"),
        ({"memoryAloneBytes": -1}, "one is below 0"),
    ],
)
def test_figures_in_doubt_change_nothing(repository: Repository, figures: dict[str, Any], told: str) -> None:
    repository.put({"web.yaml": WEB})
    known = workload_history("shop/Deployment/web", {"app": advice(**figures)})
    assert told in left(repository.run(known=known)[1])[0]
    assert repository.text("web.yaml") == WEB


# What is written in ways that are not edited


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (WEB.replace("resources:", "resources: &r") + "x: *r\n", "&r is used elsewhere too"),
        (WEB.replace("memory: 2Gi", "memory: &m 2Gi") + "x: *m\n", "not written as a plain value"),
        (f"x: &x {{cpu: 500m, memory: 1Gi}}\n{WEB}".replace("requests:\n", "requests: *x\n             #"), "not YAML"),
        (
            WEB.replace("requests:\n              cpu: 500m # too much", "requests:\n              <<: {cpu: 500m}"),
            "<<",
        ),
        (WEB.replace("memory: 2Gi", "memory: >-\n                2Gi"), "not written as a plain value"),
        (WEB + "              cpu: 600m\n", "cpu stands twice"),
        (WEB.replace("cpu: 500m", "cpu: half"), "'half' is not"),
        (WEB.replace("cpu: 500m", "cpu: {{ .Values.cpu }}"), "a template, not YAML"),
        (WEB.replace("cpu: 500m", 'cpu: "{{ .Values.cpu }}"'), "is not"),
        (WEB.replace("spec:\n", "spec:\n\t- x\n", 1), "not YAML"),
        (WEB.encode("utf-16"), "not UTF-8"),
        (WEB.replace("\n", "\r"), "lines end in neither"),
    ],
    ids=range(12),
)
def test_what_cannot_be_edited_is_left_and_named(repository: Repository, written: str | bytes, told: str) -> None:
    repository.put({"web.yaml": written, "good.yaml": WEB.replace("name: web", "name: api")})
    known = [KNOWN, workload_history("shop/Deployment/api")]
    code, lines = repository.run(known=known)
    assert code == 0
    (line,) = left(lines)
    assert "web" in line
    assert told in line
    content = (repository.top / "web.yaml").read_bytes()
    assert content == (written if isinstance(written, bytes) else written.encode())
    assert repository.text("good.yaml") == SIZED.replace("name: web", "name: api")


def test_links_are_never_followed(repository: Repository, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "web.yaml").write_text(WEB)
    (repository.top / "out.yaml").symlink_to(outside / "web.yaml")
    (repository.top / "dir").symlink_to(outside)
    (repository.top / "loop").symlink_to(repository.top)
    os.mkfifo(repository.top / "pipe.yaml")
    repository.put(
        {"over/kustomization.yaml": "resources: [../dir/web.yaml, ../../outside/web.yaml, ../out.yaml, https://x/y]\n"}
    )
    assert repository.run()[1][-1] == "0 workloads known here: nothing to change"
    mapped = tmp_path / "map.yaml"
    for path, reason in (("dir/web.yaml", "is not there, or not read"), ("../outside/web.yaml", "")):
        mapped.write_text(json.dumps({path: {"shop/Deployment/web/app": "spec.template.spec.containers.0.resources"}}))
        if path.startswith(".."):
            with pytest.raises(SystemExit):
                repository.run("--map", str(mapped))
        else:
            assert any(reason in line for line in left(repository.run("--map", str(mapped))[1]))
    assert (outside / "web.yaml").read_text() == WEB


def test_large_files_and_trees_are_bounded(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.put({"large.yaml": WEB + "#" * (checkouts.MOST_BYTES + 1), "web.yaml": WEB})
    assert "large.yaml: larger than 4 MiB, which is the most that is read" in left(repository.run("--check")[1])
    monkeypatch.setattr(checkouts, "MOST_FILES", 1)
    code, lines = repository.run()
    assert code == 3
    assert "more than 1 files" in lines[0]
    assert repository.text("web.yaml") == WEB


def test_a_file_that_changes_meanwhile_is_not_overwritten(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.put({"a.yaml": WEB, "b.yaml": WEB})
    replace = checkouts.Checkout.replace

    def late(self: checkouts.Checkout, texts: dict[str, str]) -> None:
        (repository.top / "b.yaml").write_text(WEB + "# somebody\n")
        replace(self, texts)

    monkeypatch.setattr(checkouts.Checkout, "replace", late)
    code, lines = repository.run()
    assert code == 3
    assert "b.yaml: was changed meanwhile; nothing was written" in lines[-1]
    assert repository.text("a.yaml") == WEB
    assert sorted(os.listdir(repository.top)) == ["a.yaml", "b.yaml"]


def test_names_of_files_are_no_markup(repository: Repository, tmp_path: Path) -> None:
    repository.put({"a|b<i>.yaml": WEB})
    assert repository.run("--pr-body", str(tmp_path / "body.md"))[0] == 0
    assert "a\\|b\\<i\\>.yaml:16" in (tmp_path / "body.md").read_text()


# Kustomize and Helm


def overlay(name: str, more: str = "") -> dict[str, str]:
    return {f"{name}/kustomization.yaml": f"namespace: {name}\nresources:\n- ../base\n{more}"}


BASE_FILES = {"base/kustomization.yaml": "resources: [web.yaml]\n", "base/web.yaml": BASE}
PATCH = """\
patches:
- target: {kind: Deployment, name: web}
  patch: |-
    - op: replace
      path: /spec/template/spec/containers/0/resources/requests/cpu
      value: 400m
- patch: |-
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      template:
        spec:
          containers:
          - name: app
            resources:
              requests:
                memory: 900Mi # ours
"""


def test_a_base_of_one_overlay_is_edited(repository: Repository) -> None:
    repository.put({**BASE_FILES, **overlay("shop")})
    assert repository.run()[0] == 0
    assert repository.text("base/web.yaml") == SIZED.replace("  namespace: shop\n", "")


def test_a_base_of_several_is_edited_only_if_all_want_the_same(repository: Repository) -> None:
    repository.put({**BASE_FILES, **overlay("shop"), **overlay("stage")})
    assert left(repository.run()[1]) == [
        "shop/Deployment/web/app (shop): what stands there is used by stage too, which is not known or is not changed; "
        "allowed: a patch in shop that states it"
    ]
    assert repository.text("base/web.yaml") == BASE
    other = workload_history("stage/Deployment/web", {"app": advice(300)})
    assert "with other amounts" in left(repository.run(known=[KNOWN, other])[1])[0]
    assert repository.text("base/web.yaml") == BASE
    assert repository.run(known=[KNOWN, workload_history("stage/Deployment/web")])[0] == 0
    assert repository.text("base/web.yaml") == SIZED.replace("  namespace: shop\n", "")


def test_patches_of_an_overlay_are_edited_where_they_state_an_amount(repository: Repository) -> None:
    repository.put({**BASE_FILES, **overlay("shop", PATCH), **overlay("stage")})
    known = [KNOWN, workload_history("stage/Deployment/web", mode={"value": "off", "source": "setting"})]
    settings = ("--set", "admission.cpuLimitsRemoved=false", "--set", "admission.memoryLimitsAdded=false")
    base = BASE.replace("2Gi", "490Mi")
    repository.put({"base/web.yaml": base})
    assert repository.run(*settings, known=known)[0] == 0
    assert repository.text("base/web.yaml") == base
    edited = PATCH.replace("value: 400m", "value: 137m").replace("900Mi # ours", "97Mi # ours")
    assert repository.text("shop/kustomization.yaml") == overlay("shop", edited)["shop/kustomization.yaml"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("transformers: [t.yaml]\n", "transformers may write anywhere"),
        ("replacements:\n- path: r.yaml\n", "replacements may write anywhere"),
        ("components: [../missing]\n", "component ../missing is not read"),
        ("patches:\n- path: missing.yaml\n", "a patch of it is not read"),
        ("patches:\n- path: ../../../etc/passwd\n", "a patch of it is not read"),
        ("patches:\n- {patch: 'a: b', target: {kind: Deployment}}\n", "not in a literal block"),
        ("patches:\n- {path: p.yaml, target: {labelSelector: a=b}}\n", "selects by labels"),
        ("patches:\n- {path: p.yaml, target: {name: '('}}\n", "the target of a patch is not understood"),
        ("patches:\n- {path: p.yaml, target: {name: '(w+)+$'}}\n", "the target of a patch is not understood"),
        ("patches:\n- {path: p.yaml}\n", "$patch"),
        ("patches:\n- {path: m.yaml, target: {name: web}}\n", "a JSON patch with move"),
        ("patches:\n- {path: all.yaml, target: {name: web}}\n", "a JSON patch of all containers"),
        ("patches:\n- {path: far.yaml, target: {name: web}}\n", "a JSON patch does not fit"),
    ],
)
def test_kustomizations_that_are_not_followed_are_doubts(repository: Repository, more: str, told: str) -> None:
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
    spec = "/spec/template/spec/containers"
    files = {
        "shop/t.yaml": "kind: PatchTransformer\n",
        "shop/p.yaml": head + "spec: {template: {spec: {$patch: replace}}}\n",
        "shop/m.yaml": "- {op: move, from: /a, path: /b}\n",
        "shop/all.yaml": f"- {{op: replace, path: {spec}, value: []}}\n",
        "shop/far.yaml": f"- {{op: replace, path: {spec}/7/resources/limits/cpu, value: 1}}\n",
    }
    used = {path: text for path, text in files.items() if path.removeprefix("shop/") in more}
    repository.put({**BASE_FILES, **overlay("shop", more), **used})
    (line,) = left(repository.run()[1])
    assert told in line
    assert repository.text("base/web.yaml") == BASE


def test_kustomizations_that_go_round_are_told(repository: Repository) -> None:
    repository.put(
        {
            "a/kustomization.yaml": "resources: [../b, ../c]\n",
            "b/kustomization.yaml": "resources: [../c]\n",
            "c/kustomization.yaml": "resources: [../b]\n",
        }
    )
    assert "build with each other" in left(repository.run()[1])[0]


def test_values_of_helm_go_by_a_map(repository: Repository, tmp_path: Path) -> None:
    values = "web:\n  resources:\n    requests: {cpu: 500m, memory: 1Gi} # both\n"
    release = (
        "kind: HelmRelease\nspec:\n  values:\n    resources:\n      requests:\n        cpu: 500m\n        memory: 1Gi\n"
    )
    template = "kind: Deployment\nresources:\n{{- toYaml .Values.web.resources | nindent 12 }}\n"
    repository.put(
        {
            "chart/Chart.yaml": "name: web\n",
            "chart/values.yaml": values,
            "chart/templates/web.yaml": template,
            "prod/web.yaml": release,
        }
    )
    mapped = tmp_path / "map.yaml"
    mapped.write_text(
        "chart/values.yaml:\n  shop/Deployment/web/app: web.resources\n"
        "prod/web.yaml:\n  shop/Deployment/api/app: [spec, values, resources]\n  shop/Deployment/no/app: spec.none\n"
    )
    known = [KNOWN, workload_history("shop/Deployment/api"), workload_history("shop/Deployment/no")]
    code, lines = repository.run("--map", str(mapped), known=known)
    assert code == 0
    assert left(lines) == [
        "shop/Deployment/no (prod/web.yaml): prod/web.yaml: spec.none is not there",
        "chart: templates of a Helm chart are not edited; allowed: its values, by --map",
    ]
    assert repository.text("chart/values.yaml") == values.replace("500m", "137m").replace("1Gi}", "97Mi}").replace(
        " # both\n", " # both\n    limits:\n      memory: 489Mi\n"
    )
    assert repository.text("prod/web.yaml") == release.replace("500m", "137m").replace("1Gi", "97Mi") + (
        "      limits:\n        memory: 489Mi\n"
    )
    assert repository.text("chart/templates/web.yaml") == template
    assert repository.run("--map", str(mapped), "--check", known=known)[0] == 0


@pytest.mark.parametrize(
    ("map_text", "told"),
    [
        ("[]", "allowed: FILE: {NAMESPACE/KIND/NAME/CONTAINER"),
        ("a.yaml: {shop/web: x}", "allowed: NAMESPACE/KIND/NAME/CONTAINER"),
        ("/etc/passwd: {shop/Deployment/web/app: x}", "leads out of the directory"),
        ("a.yaml: {shop/Deployment/web/app: 5}", "allowed: keys with dots between"),
        ("a: *b", "not YAML"),
    ],
)
def test_a_map_that_is_wrong_is_one_line(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str], map_text: str, told: str
) -> None:
    (tmp_path / "map.yaml").write_text(map_text)
    with pytest.raises(SystemExit) as caught:
        repository.run("--map", str(tmp_path / "map.yaml"))
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("plimsoll gitops: --map ")
    assert told in line


@pytest.mark.parametrize("history", ["{", "[1]", '{"workloads": [{"namespace": "a"}]}', '{"containers": []}'])
def test_a_history_that_is_wrong_is_one_line(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str], history: str
) -> None:
    (tmp_path / "bad.json").write_text(history)
    with pytest.raises(SystemExit) as caught:
        main(["gitops", str(repository.top), "--history", str(tmp_path / "bad.json")])
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "bad.json" in line
    assert "allowed: the output of plimsoll workloads -o history" in line


@pytest.mark.parametrize("percent", ["x", "-1", "nan", "1001"])
def test_a_smallest_change_is_a_percentage(repository: Repository, percent: str) -> None:
    with pytest.raises(SystemExit) as caught:
        repository.run("--min-change", percent)
    assert caught.value.code == 2
