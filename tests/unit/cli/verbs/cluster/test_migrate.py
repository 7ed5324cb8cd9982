from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.cli.main import main
from tests.vpas import vpa_json

POLICIES = [
    {"containerName": "app", "mode": "Off"},
    {
        "containerName": "*",
        "minAllowed": {"cpu": "100m"},
        "maxAllowed": {"cpu": "2", "memory": "1Gi"},
        "controlledResources": ["cpu"],
        "controlledValues": "RequestsOnly",
        "oomBumpUpRatio": "1.5",
        "oomMinBumpUp": "100Mi",
    },
    {"containerName": "plain"},
]


def migrated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *objects: dict[str, Any], words: tuple[str, ...] = ()
) -> str:
    """Return what the verb prints of a file with these objects."""
    file = tmp_path / "vpas.json"
    file.write_text(json.dumps({"kind": "List", "items": list(objects)}))
    assert main(["migrate", "vpa", "--file", str(file), "--no-color", *words]) == 0
    return capsys.readouterr().out


def test_an_object_is_told_with_what_it_orders_what_is_not_honoured_and_how_it_is_switched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    update = {
        "updateMode": "InPlace",
        "minReplicas": 2,
        "evictAfterOOMSeconds": 5,
        "evictionRequirements": [{"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}],
    }
    boost = {"cpu": {"type": "Factor", "factor": 2}}
    spec = {"recommenders": [], "updatePolicy": update, "resourcePolicy": {"containerPolicies": POLICIES}}
    out = migrated(tmp_path, capsys, vpa_json({**spec, "startupBoost": boost}))
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in (
        "VPA shop/web",
        "target Deployment web",
        "recommender VPA's own",
        "update mode InPlace: mode enforce, never evicted",
        "container app: not sized",
        "container plain: sized as all",
        "startup boost factor 2",
        "evictions only while 2 pods run",
        "evictions only with TargetHigherThanRequests of cpu",
        "not as there updatePolicy.evictAfterOOMSeconds is not honoured",
        "1 objects, 0 of the recommender plimsoll; nothing was written",
    ):
        assert line in lines, out
    joined = " ".join(lines)
    assert (
        "container *: cpu 100m..2000m; memory ..1GiB; sized: cpu; limits stay; after a kill at least x 1.5; after a "
        "kill at least 100MiB more" in joined
    )
    patch = 'kubectl -n shop patch vpa web --type merge -p \'{"spec":{"recommenders":[{"name":"plimsoll"}]}}\''
    assert patch in out, "it can be copied whole"


def test_surroundings_decide_who_acts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recreate = vpa_json()
    assert "Recreate (not stated): mode recommend" in migrated(tmp_path, capsys, recreate)
    assert "mode enforce" in migrated(tmp_path, capsys, recreate, words=("--evictions",))
    assert "go by Plimsoll's status" in migrated(tmp_path, capsys, recreate, words=("--vpa-admission",))
    initial = vpa_json({"updatePolicy": {"updateMode": "Initial"}})
    assert "mode enforce for new pods, recommend for those" in migrated(tmp_path, capsys, initial)
    managed = vpa_json(labels={"plimsoll.dev/managed": "true"})
    assert "made by Plimsoll itself" in migrated(tmp_path, capsys, managed)


def test_json_has_the_orders_as_annotations_and_objects_that_are_not_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = (
        vpa_json({"targetRef": None}, name="broken"),
        vpa_json({"updatePolicy": {"updateMode": "Maybe"}}, name="odd"),
        vpa_json(name="elsewhere", namespace="bank"),
    )
    broken, odd = json.loads(migrated(tmp_path, capsys, *objects, words=("-n", "shop", "-o", "json")))
    assert (broken["name"], broken["target"], broken["newPods"], broken["updateMode"]) == ("broken", None, None, None)
    assert "targetRef" in broken["fault"]
    assert odd["newPods"] == odd["runningPods"] == {"plimsoll.dev/mode": "off"}
    assert "Maybe" in odd["fault"]
    text = migrated(tmp_path, capsys, *objects)
    assert "not understood" in text
    assert "its workload stays left alone" in " ".join(text.split())


def test_a_file_of_another_kind_or_two_sources_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pods = tmp_path / "pods.json"
    pods.write_text('{"kind": "List", "items": [{"kind": "Pod"}]}')
    for words, said in (
        (("--file", str(pods)), "pods.json: document 1.kind: 'Pod' is not allowed"),
        (("--file", str(pods), "--kubeconfig", str(pods)), "--file and --kubeconfig are not allowed together"),
        ((), "no pod's service account here; allowed: --kubeconfig FILE, or --file FILE"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["migrate", "vpa", *words])
        (line,) = capsys.readouterr().err.splitlines()
        assert (ended.value.code, said in line) == (2, True), line
