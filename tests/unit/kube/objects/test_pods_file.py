from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from agent.kube.objects.pods_file import PodsFileError, load_pods
from tests.pods import container, pod_json

WEB = pod_json(container("app", {"cpu": "250m"}))
OTHER = pod_json(container("app"), metadata={"uid": "uid-other", "name": "other"})
BAD = pod_json({"name": "app", "resources": {"requests": {"cpu": "1x"}}}, metadata={"uid": "uid-bad"})


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pods.json", json.dumps({"kind": "PodList", "items": [WEB, OTHER]})),
        ("pods.json", "\ufeff" + json.dumps({"kind": "List", "items": [WEB, OTHER]})),
        ("pods", json.dumps({"items": [WEB, OTHER]})),
        ("pods.yaml", yaml.safe_dump({"kind": "List", "items": [WEB, OTHER]})),
        ("pods.yml", yaml.safe_dump_all([WEB, OTHER])),
        ("pods.yaml", f"---\n---\n{json.dumps(WEB)}\n---\n{json.dumps(OTHER)}\n"),
    ],
)
def test_load_pods_reads_json_and_yaml_of_every_shape(tmp_path: Path, name: str, text: str) -> None:
    assert [pod.uid for pod in load_pods(written(tmp_path, name, text))] == ["uid-web", "uid-other"]


def test_load_pods_of_one_pod_and_of_an_empty_list(tmp_path: Path) -> None:
    assert [pod.name for pod in load_pods(written(tmp_path, "pod.json", json.dumps(WEB)))] == ["web"]
    assert load_pods(written(tmp_path, "pods.json", '{"kind": "PodList", "items": []}')) == ()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "pods.json",
            json.dumps({"kind": "PodList", "items": [WEB, BAD]}),
            "pods.json: items[1].spec.containers[0].resources.requests.cpu: '1x' is not a quantity (",
        ),
        ("pods.json", '{"kind": ', "pods.json: not JSON: Expecting value: line 1 column 10"),
        ("pods.json", "[]", "pods.json: document: [] is not an object"),
        ("pods.json", "", "pods.json: not JSON"),
        ("pods.yaml", "", "pods.yaml: empty (a Pod, a PodList or a List is allowed)"),
        ("pods.yaml", "a: [1\nb: 2", "pods.yaml: not YAML: "),
        ("pods.yaml", "!!python/object:os.x {}", "pods.yaml: not YAML: "),
        ("pods.yaml", yaml.safe_dump(BAD), "pods.yaml: spec.containers[0].resources.requests.cpu: '1x'"),
        ("pods.yaml", yaml.safe_dump_all([WEB, BAD]), "pods.yaml: document 2: spec.containers[0].resources.requests."),
        (
            "pods.json",
            json.dumps({"kind": "List", "items": [WEB, WEB]}),
            "pods.json: metadata.uid 'uid-web' of pod shop/web is that of shop/web too (each once)",
        ),
    ],
)
def test_load_pods_refuses_in_one_line_that_names_file_place_and_value(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(PodsFileError) as raised:
        load_pods(written(tmp_path, name, text))
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_load_pods_of_a_missing_or_unreadable_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(PodsFileError, match=r"^no\.json: cannot be read: No such file"):
        load_pods(tmp_path / "no.json")
    binary = tmp_path / "pods.json"
    binary.write_bytes(b'{"kind": "\xff"}')
    with pytest.raises(PodsFileError, match=r"^pods\.json: not UTF-8 at byte 10"):
        load_pods(binary)


def test_podsfile_loads_yaml_only_when_a_yaml_file_is_read() -> None:
    script = "import sys, agent.kube.objects.pods_file; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
