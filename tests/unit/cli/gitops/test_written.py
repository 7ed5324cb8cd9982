from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from agent.cli.gitops.values_map import mapped_containers
from agent.cli.gitops.written import NothingWritten, PlannedWrite, written_text
from agent.webhook.queries.workload_bodies import WorkloadBody
from tests.workload_histories import MIB, advice, workload_history

LIMITS = {"memory": "489Mi"}
RESOURCES = {"requests": {"cpu": "137m", "memory": "97Mi"}, "limits": LIMITS}


def written(form: str, *known: dict[str, Any], values: dict[str, Any] | None = None) -> tuple[Any, list[str]]:
    """Return the file as a program reads it, and what is left."""
    bodies = [msgspec.convert(history, WorkloadBody) for history in known]
    mapped = mapped_containers({} if values is None else {"values.yaml": values})
    text, left = written_text(bodies, PlannedWrite(form=form, mapped=mapped))
    return yaml.safe_load(text), [str(line) for line in left]


@pytest.mark.parametrize(
    ("alone_mib", "standing_mib", "limit"),
    [(2000, 800, "800Mi"), (300, 800, "600Mi"), (300, 256, "489Mi"), (2000, 489, "489Mi")],
)
@pytest.mark.parametrize("form", ["ssa", "helm"])
def test_a_limit_falls_no_lower_than_what_one_node_alone_told(
    form: str, alone_mib: int, standing_mib: int, limit: str
) -> None:
    figures = {"app": advice(memoryAloneBytes=alone_mib * MIB), "side": advice()}
    known = workload_history("shop/Deployment/web", figures)
    known["containers"][0]["memoryLimitBytes"] = standing_mib * MIB
    values = {f"shop/Deployment/web/{name}": name for name in figures}
    document, left = written(form, known, values=values)
    assert left == []
    if form == "ssa":
        containers = document["spec"]["template"]["spec"]["containers"]
        document = {container["name"]: container["resources"] for container in containers}
    assert document == {"app": {**RESOURCES, "limits": {"memory": limit}}, "side": RESOURCES}


@pytest.mark.parametrize("form", ["ssa", "kustomize", "helm"])
def test_memory_is_left_where_one_node_alone_told_of_more_and_no_pod_tells_the_limit(form: str) -> None:
    known = workload_history("shop/Deployment/web", {"app": advice(memoryAloneBytes=2000 * MIB)}, kinds={"app": None})
    document, left = written(form, known, values={"shop/Deployment/web/app": "app"})
    assert left == [
        "left shop/Deployment/web/app: its memory: one node alone told of more than counts, and the webhook does not "
        "tell which limit stands, as it knows no pod with it or is older than that; allowed: plimsoll gitops"
    ]
    if form == "kustomize":
        document = yaml.safe_load(document["patches"][0]["patch"])
    resources = {"requests": {"cpu": "137m"}}
    if form == "helm":
        assert document == {"app": resources}
    else:
        assert document["spec"]["template"]["spec"] == {"containers": [{"name": "app", "resources": resources}]}


def test_what_no_form_ever_holds_is_told_apart_from_what_only_a_pod_is_missing_for() -> None:
    doubted = workload_history("shop/Deployment/a", {"app": advice(memoryAloneBytes=2000 * MIB)}, kinds={"app": None})
    unplaced = workload_history("shop/Deployment/b", ("app", "side"), kinds={"app": None, "side": None})
    sidecar = workload_history("shop/Deployment/c", ("app", "proxy"), kinds={"proxy": "sidecar"})
    daemon = workload_history("shop/DaemonSet/d")
    stale = workload_history("shop/Deployment/e", {"app": advice(newestAgeSeconds=2.0 * 86400)})
    gone = workload_history("shop/Deployment/f", ("app", "side"), kinds={"side": None})
    loading = workload_history("shop/Deployment/g", {"app": advice(missing="not_loaded")})
    young = workload_history("shop/Deployment/h", {"app": advice(missing="too_young")})
    new = workload_history("shop/Deployment/i", {"app": advice(), "new": advice(missing="not_loaded")})
    known = (doubted, unplaced, sidecar, daemon, stale, gone, loading, young, new)
    bodies = [msgspec.convert(history, WorkloadBody) for history in known]
    _, left = written_text(bodies, PlannedWrite(form="kustomize"))
    assert {line.whose: line.is_passing for line in left} == {
        "shop/Deployment/a/app": True,
        "shop/Deployment/b/app": True,
        "shop/Deployment/b/side": True,
        "shop/Deployment/c/proxy": False,
        "shop/DaemonSet/d": False,
        "shop/Deployment/e": True,
        "shop/Deployment/f/side": False,
        "shop/Deployment/g": True,
        "shop/Deployment/h": False,
    }


@pytest.mark.parametrize("days", [0.1, 2.0])
@pytest.mark.parametrize("form", ["ssa", "kustomize", "helm"])
def test_a_container_that_no_pod_has_now_is_left_and_the_others_are_not(form: str, days: float) -> None:
    figures = {"app": advice(), "gone": advice(newestAgeSeconds=days * 86400)}
    known = workload_history("shop/Deployment/web", figures, kinds={"gone": None})
    document, left = written(form, known, values={f"shop/Deployment/web/{name}": name for name in figures})
    if form == "kustomize":
        document = yaml.safe_load(document["patches"][0]["patch"])
    if form == "helm":
        assert document == {"app": RESOURCES}
    else:
        assert document["spec"]["template"]["spec"] == {"containers": [{"name": "app", "resources": RESOURCES}]}
    assert left == ["left shop/Deployment/web/gone: no pod has it now"]


@pytest.mark.parametrize("before", [("app",), ("app", "side")])
@pytest.mark.parametrize("form", ["ssa", "kustomize", "helm"])
def test_nothing_is_written_of_a_workload_whose_pods_have_other_containers_now(
    form: str, before: tuple[str, ...]
) -> None:
    kinds = dict.fromkeys(before)
    renamed = workload_history("shop/Deployment/web", before, kinds=kinds) | {"podContainers": ["web"]}
    known = (renamed, workload_history("shop/Deployment/api"))
    values = {f"shop/Deployment/{place}": place.replace("/", ".") for place in ("web/app", "api/app")}
    document, left = written(form, *known, values=values)
    assert left[0] == ("left shop/Deployment/web: its pods have other containers now, of which nothing is known yet")
    assert left[1:] == (["left shop/Deployment/web/app: nothing is recommended"] if form == "helm" else [])
    if form == "kustomize":
        (patch,) = document["patches"]
        document = yaml.safe_load(patch["patch"])
    assert document == {"api": {"app": RESOURCES}} if form == "helm" else document["metadata"]["name"] == "api"


@pytest.mark.parametrize("form", ["ssa", "kustomize", "helm"])
def test_nothing_is_written_while_the_cluster_is_paused(form: str) -> None:
    pause = {"value": "incident 12", "source": "ConfigMap plimsoll/plimsoll"}
    with pytest.raises(NothingWritten) as paused:
        written(form, workload_history("shop/Deployment/api"), workload_history("shop/Deployment/web", pause=pause))
    assert str(paused.value) == (
        "nothing is written: the cluster is paused (ConfigMap plimsoll/plimsoll): incident 12; keep the file of before"
    )


def test_nothing_is_written_where_nothing_is_known() -> None:
    with pytest.raises(NothingWritten, match=r"^nothing is written: the webhook knows of no workload; keep the file"):
        written("ssa")


def test_values_of_memory_alone_are_left_where_no_pod_tells_the_limit() -> None:
    known = workload_history(
        "shop/Deployment/web", {"app": advice(1, memoryAloneBytes=2000 * MIB)}, kinds={"app": None}
    )
    document, left = written("helm", known, values={"shop/Deployment/web/app": "app"})
    assert document is None
    assert len(left) == 1
    assert "its memory: one node alone told" in left[0]


def test_no_first_limit_is_written_where_one_node_alone_told_of_more() -> None:
    known = workload_history("shop/Deployment/web", {"app": advice(memoryAloneBytes=2000 * MIB), "side": advice()})
    document, left = written("ssa", known)
    assert left == []
    app, side = document["spec"]["template"]["spec"]["containers"]
    assert app == {"name": "app", "resources": {"requests": RESOURCES["requests"]}}
    assert side == {"name": "side", "resources": RESOURCES}


def test_values_in_a_list_are_left_as_helm_would_replace_the_whole_list() -> None:
    known = workload_history("shop/Deployment/web", ("app", "side"))
    values = {"shop/Deployment/web/app": "web.resources", "shop/Deployment/web/side": "extra.0.resources"}
    assert written("helm", known, values=values) == (
        {"web": {"resources": RESOURCES}},
        [
            "left shop/Deployment/web/side: extra.0.resources (values.yaml) may stand in a list, which values replace "
            "as a whole; allowed: plimsoll gitops --map"
        ],
    )


@pytest.mark.parametrize(
    ("first", "second"), [("a", "a"), ("a.b", "a"), ("a", "a.requests"), ("a", "a.requests.cpu.resources")]
)
def test_values_of_two_containers_are_not_written_over_each_other(first: str, second: str) -> None:
    known = workload_history("shop/Deployment/web", {"app": advice(), "side": advice(300)})
    values = {"shop/Deployment/web/app": first, "shop/Deployment/web/side": second}
    document, left = written("helm", known, values=values)
    assert (document["a"]["b"] if first == "a.b" else document["a"]) == RESOURCES
    assert left == [
        f"left shop/Deployment/web/side: values of another container stand at {second} (values.yaml); "
        "allowed: a place of its own"
    ]


def test_containers_that_want_the_same_share_values() -> None:
    known = [workload_history(f"{namespace}/Deployment/web") for namespace in ("shop", "stage")]
    values = {"shop/Deployment/web/app": "resources", "stage/Deployment/web/app": "resources"}
    assert written("helm", *known, values=values) == ({"resources": RESOURCES}, [])


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_a_sidecar_is_written_among_the_init_containers(kind: str) -> None:
    kinds = {"setup": "init", "proxy": "sidecar"}
    document, left = written("ssa", workload_history(f"shop/{kind}/web", ("setup", "proxy", "app"), kinds=kinds))
    assert left == []
    spec = document["spec"] if kind == "Deployment" else document["spec"]["jobTemplate"]["spec"]
    resources = RESOURCES if kind == "Deployment" else {"requests": RESOURCES["requests"]}  # runs keep their limits
    # An init container that ends is not sized at admission either.
    assert spec["template"]["spec"] == {
        "initContainers": [{"name": "proxy", "resources": resources}],
        "containers": [{"name": "app", "resources": resources}],
    }


@pytest.mark.parametrize(("form", "sidecars"), [("kustomize", ("proxy",)), ("ssa", ("logs", "proxy"))])
def test_sidecars_are_left_where_their_order_might_change(form: str, sidecars: tuple[str, ...]) -> None:
    kinds = dict.fromkeys(sidecars, "sidecar")
    document, left = written(form, workload_history("shop/Deployment/web", ("app", *sidecars), kinds=kinds))
    assert left == [
        f"left shop/Deployment/web/{name}: a patch might change the order in which init containers start; "
        "allowed: plimsoll gitops"
        for name in sidecars
    ]
    if form == "kustomize":
        document = yaml.safe_load(document["patches"][0]["patch"])
    assert document["spec"]["template"]["spec"] == {"containers": [{"name": "app", "resources": RESOURCES}]}


@pytest.mark.parametrize("form", ["kustomize", "ssa"])
def test_containers_whose_list_is_not_known_are_left(form: str) -> None:
    kinds = {"app": None, "proxy": None}
    document, left = written(form, workload_history("shop/Deployment/web", ("app", "proxy"), kinds=kinds))
    assert left == [
        f"left shop/Deployment/web/{container}: the webhook does not tell whether it stands in containers or "
        "initContainers, as it knows no pod with it or is older than that; allowed: plimsoll gitops"
        for container in ("app", "proxy")
    ]
    assert document == (None if form == "ssa" else document | {"patches": []})


def test_the_only_container_is_regular_where_no_pod_tells() -> None:
    document, left = written("ssa", workload_history("shop/Deployment/web", kinds={"app": None}))
    assert left == []
    assert document["spec"]["template"]["spec"] == {"containers": [{"name": "app", "resources": RESOURCES}]}


def test_values_of_a_container_whose_list_is_not_known_are_written() -> None:
    history = workload_history("shop/Deployment/web", ("app", "proxy"), kinds={"app": None, "proxy": None})
    values = {"shop/Deployment/web/app": "resources", "shop/Deployment/web/proxy": "proxy"}
    assert written("helm", history, values=values) == ({"resources": RESOURCES, "proxy": RESOURCES}, [])
