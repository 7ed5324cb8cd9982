"""``plimsoll gitops`` and what ``workloads -o`` writes for other programs: a real webhook is asked over real TLS."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.cli.main import main
from agent.core.cluster.facts import ClusterRules, PodPlace, WrittenContainer
from tests.unit.cli.verbs.cluster.test_gitops import WEB
from tests.webhook.https import running
from tests.webhook.report_bodies import packed, report_body, row_body
from tests.webhook.stack import place, stack

YOUNG = ("--set", "plan.minAgeSeconds=0")
"""Its history is one report long."""
OTHERS = "its pods have other containers now, of which nothing is known yet"


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What it takes to reach a webhook that knows one workload."""
    with reaching(tmp_path_factory.mktemp("gitops"), *(row_body(number, oomKills=[]) for number in range(2))) as reach:
        yield reach


@contextmanager
def reaching(
    folder: Path,
    *rows: dict[str, Any],
    pause: str | None = None,
    pods: tuple[PodPlace, ...] = (),
    has_followed: bool = True,
) -> Iterator[list[str]]:
    """Yield what it takes to reach a webhook that knows these rows of one report, and of no pod but these."""
    (folder / "token").write_text("good\n")
    with stack(folder) as webhook:
        webhook.report(packed(report_body(*rows)), content_encoding="gzip")
        if has_followed:
            webhook.follow()
        webhook.facts.told = ClusterRules(pause_reason=pause)
        webhook.facts.places = {pod.uid: pod for pod in pods}
        with running(webhook.services, folder, names=("plimsoll-webhook.plimsoll.svc",)) as server:
            host, port = server.address
            reach = [f"--webhook=https://{host}:{port}", f"--token-file={folder / 'token'}"]
            yield [*reach, f"--ca-file={server.authority}"]


def test_a_checkout_gets_what_the_webhook_knows_and_a_file_of_it_says_the_same(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout, history = tmp_path / "checkout", tmp_path / "history.json"
    checkout.mkdir()
    (checkout / "web.yaml").write_text(WEB)
    assert main(["workloads", "-o", "history", *options]) == 0
    history.write_text(capsys.readouterr().out)
    assert {workload["name"] for workload in json.loads(history.read_text())["workloads"]} == {"web"}
    assert main(["gitops", str(checkout), "--check", "--history", str(history), *YOUNG]) == 1
    output = capsys.readouterr().out
    assert "shop/Deployment/web app  requests.cpu 500m -> 60m" in output
    assert main(["gitops", str(checkout), "--check", *options, *YOUNG]) == 1
    assert capsys.readouterr().out == output
    assert main(["gitops", str(checkout), *options]) == 0
    assert "left shop/Deployment/web (web.yaml)" in capsys.readouterr().out  # of a report that is minutes old
    assert (checkout / "web.yaml").read_text() == WEB


def test_no_answer_is_told_apart_from_drift(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("good\n")
    reach = ["--webhook=https://127.0.0.1:1", f"--token-file={tmp_path / 'token'}"]
    assert main(["gitops", str(tmp_path), "--check", *reach]) == 3
    assert "no answer" in capsys.readouterr().err


def test_amounts_are_written_for_kustomize_kubectl_and_helm(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resources = {"requests": {"cpu": "60m", "memory": "16Mi"}, "limits": {"memory": "489Mi"}}
    assert main(["workloads", "-n", "shop", "-o", "ssa", *options, *YOUNG]) == 0
    (document,) = yaml.safe_load_all(capsys.readouterr().out)
    assert document["metadata"] == {"name": "web", "namespace": "shop"}
    assert document["spec"]["template"]["spec"]["containers"] == [{"name": "app", "resources": resources}]

    assert main(["workloads", "shop/web", "-o", "kustomize", *options, *YOUNG]) == 0
    (component,) = yaml.safe_load_all(capsys.readouterr().out)
    (patch,) = component["patches"]
    assert patch["target"] == {"kind": "Deployment", "name": "web"}
    assert yaml.safe_load(patch["patch"])["spec"] == document["spec"]

    mapped = tmp_path / "map.yaml"
    mapped.write_text("values.yaml: {shop/Deployment/web/app: web.resources, shop/Deployment/web/no: x}\n")
    assert main(["workloads", "shop/web", "-o", "helm", "--map", str(mapped), *options, *YOUNG]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("# values.yaml\n")
    assert yaml.safe_load(out) == {"web": {"resources": resources}}
    assert err == "plimsoll workloads: left shop/Deployment/web/no: nothing is recommended\n"


def test_a_file_without_amounts_that_one_before_it_may_hold_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with reaching(tmp_path, row_body(0, oomKills=[]), row_body(0, container="proxy", oomKills=[])) as options:
        assert main(["workloads", "-n", "shop", "-o", "kustomize", *options, *YOUNG]) == 1
        out, err = capsys.readouterr()
        assert yaml.safe_load(out)["patches"] == []
        assert len(err.splitlines()) == 2
        assert main(["workloads", "-n", "shop", "-o", "kustomize", *options]) == 0
        assert len(capsys.readouterr().err.splitlines()) == 1  # too young for amounts


@pytest.mark.parametrize("now", [("web",), ("web", "proxy")])
def test_the_containers_of_before_are_not_written_once_pods_have_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], now: tuple[str, ...]
) -> None:
    pod = replace(place(0), containers=tuple(WrittenContainer(name=name) for name in now))
    with reaching(tmp_path, row_body(0, oomKills=[]), pods=(pod,)) as options:
        for form in ("ssa", "kustomize"):
            assert main(["workloads", "-n", "shop", "-o", form, *options, *YOUNG]) == 0
            out, err = capsys.readouterr()
            document = yaml.safe_load(out)
            assert document is None if form == "ssa" else document["patches"] == []
            assert err == f"plimsoll workloads: left shop/Deployment/web: {OTHERS}\n"


def test_a_paused_cluster_gives_no_file_that_would_take_amounts_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapped = tmp_path / "map.yaml"
    mapped.write_text("values.yaml: {shop/Deployment/web/app: web.resources}\n")
    with reaching(tmp_path, row_body(0, oomKills=[]), pause="incident\n12") as options:
        for form in ("ssa", "kustomize", "helm"):
            words = ["--map", str(mapped)] if form == "helm" else []
            assert main(["workloads", "-n", "shop", "-o", form, *words, *options, *YOUNG]) == 1
            out, err = capsys.readouterr()
            assert out == ""
            (line,) = err.splitlines()
            assert line.startswith("plimsoll workloads: nothing is written: the cluster is paused (")
        assert main(["workloads", "-n", "shop", "-o", "history", *options]) == 0
        assert json.loads(capsys.readouterr().out)["workloads"]


def test_a_webhook_that_has_not_read_its_history_gives_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout, mapped = tmp_path / "checkout", tmp_path / "map.yaml"
    checkout.mkdir()
    (checkout / "web.yaml").write_text(WEB)
    mapped.write_text("values.yaml: {shop/Deployment/web/app: web.resources}\n")
    with reaching(tmp_path, row_body(0, oomKills=[]), has_followed=False) as options:
        for form in (("history",), ("ssa",), ("kustomize",), ("helm", "--map", str(mapped)), ("json",)):
            assert main(["workloads", "-n", "shop", "-o", *form, *options]) == 1
            out, err = capsys.readouterr()
            assert out == ""
            assert re.fullmatch(r"plimsoll workloads: webhook at \S+: 503: the history is not loaded yet\n", err)
        assert main(["gitops", str(checkout), *options, *YOUNG]) == 3
        out, err = capsys.readouterr()
        assert out == ""
        assert re.fullmatch(r"plimsoll gitops: webhook at \S+: 503: the history is not loaded yet\n", err)
        assert (checkout / "web.yaml").read_text() == WEB


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-o", "kustomize"), "allowed: with --namespace NAME, or WORKLOAD"),
        (("-o", "helm"), "allowed: -o helm --map FILE"),
        (("--map", "x"), "allowed: -o helm --map FILE"),
        (("-o", "ssa", "--worst"), "not allowed: --worst"),
    ],
)
def test_outputs_that_do_not_go_together_are_one_line(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["workloads", *words])
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
