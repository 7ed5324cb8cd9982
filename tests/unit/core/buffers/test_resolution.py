from __future__ import annotations

from typing import Any

import pytest

from agent.core.buffers.buffer import LivePod, ScalableObject, ScalableRef, ScaleFacts, Shape, ShapeSource, Unresolved
from agent.core.buffers.resolution import (
    after_dry_run,
    dry_run_pod,
    is_known_kind,
    needs_dry_run,
    scalable_shape,
    template_shape,
    unknown_kind,
)
from tests.capacity_buffers import content, make_shape

WEB = ScalableRef(api_group="apps", kind="Deployment", name="web")
GAME = ScalableRef(api_group="games.example", kind="GameServerSet", name="arena")
EIGHT = ScaleFacts(replicas=8, selector="app=web")
TEN = ScalableObject(replicas=10, content=content({"cpu": "10"}))


def pod(name: str, created: float, *, is_terminating: bool = False) -> LivePod:
    return LivePod(
        name=name, created_unix_seconds=created, is_terminating=is_terminating, content=content({"cpu": str(created)})
    )


def resolved(ref: ScalableRef = WEB, **fields: Any) -> Shape:
    result = scalable_shape(ref, **{"scale": None, "pods": (), "known": None, **fields})
    assert isinstance(result, Shape)
    return result


def unresolved(ref: ScalableRef = WEB, **fields: Any) -> str:
    result = scalable_shape(ref, **{"scale": None, "pods": (), "known": None, **fields})
    assert isinstance(result, Unresolved)
    return result.reason


def test_a_template_gives_its_content_and_no_count() -> None:
    assert template_shape("small", content()) == Shape(
        content=content(), source=ShapeSource.POD_TEMPLATE, source_name="PodTemplate small"
    )
    assert template_shape("gone", None) == Unresolved(reason="PodTemplate gone does not exist in this namespace")


def test_the_newest_live_pod_is_the_shape_and_the_scale_the_count() -> None:
    shape = resolved(scale=EIGHT, pods=[pod("a", 1), pod("c", 3), pod("b", 2)], known=TEN)
    assert (shape.source, shape.source_name, shape.scalable_replicas) == (ShapeSource.LIVE_POD, "pod c", 8)
    assert shape.content == content({"cpu": "3"})
    assert not needs_dry_run(shape)


def test_pods_that_are_going_away_are_taken_only_where_there_are_no_others() -> None:
    leaving = pod("new", 9, is_terminating=True)
    assert resolved(scale=EIGHT, pods=[leaving, pod("old", 1)]).source_name == "pod old"
    assert resolved(scale=EIGHT, pods=[leaving, pod("x", 1, is_terminating=True)]).source_name == "pod new"


def test_of_pods_of_the_same_second_the_first_by_name_is_taken() -> None:
    assert resolved(scale=EIGHT, pods=[pod("b", 1), pod("a", 1)]).source_name == "pod a"


@pytest.mark.parametrize(
    ("scale", "pods"),
    [
        (None, [pod("a", 1)]),
        (EIGHT, []),
        (ScaleFacts(replicas=8, selector=""), [pod("a", 1)]),
        (ScaleFacts(replicas=8, selector=" "), [pod("a", 1)]),
    ],
)
def test_without_a_live_pod_a_known_kinds_spec_serves(scale: ScaleFacts | None, pods: list[LivePod]) -> None:
    shape = resolved(scale=scale, pods=pods, known=TEN)
    assert (shape.source, shape.source_name) == (ShapeSource.SPEC, "Deployment.apps web")
    # The count of the spec: the scale's would be of pods that are not there.
    assert (shape.scalable_replicas, shape.content) == (10, content({"cpu": "10"}))
    assert needs_dry_run(shape)


def test_a_spec_without_count_gives_none() -> None:
    assert resolved(known=ScalableObject(replicas=None, content=content())).scalable_replicas is None


def test_a_scale_below_nothing_counts_as_nothing() -> None:
    assert resolved(scale=ScaleFacts(replicas=-1, selector="a"), pods=[pod("a", 1)]).scalable_replicas == 0


@pytest.mark.parametrize(
    ("ref", "fields", "words"),
    [
        (WEB, {}, "Deployment.apps web does not exist in this namespace"),
        (WEB, {"scale": EIGHT}, "Deployment.apps web does not exist in this namespace"),
        (WEB, {"known": ScalableObject(replicas=1, content=None)}, "Deployment.apps web has no pod template"),
        (GAME, {}, "GameServerSet.games.example arena has no scale subresource, or does not exist"),
        (GAME, {"scale": EIGHT}, "GameServerSet.games.example arena has no pod that could be a model"),
        (
            GAME,
            {"known": TEN},
            "known of Deployment, Job, ReplicaSet, ReplicationController, StatefulSet only",
        ),
        (ScalableRef(api_group="", kind="Deployment", name="web"), {"known": TEN}, "Deployment web has no scale"),
    ],
)
def test_what_cannot_be_resolved_says_why(ref: ScalableRef, fields: dict[str, Any], words: str) -> None:
    assert words in unresolved(ref, **fields)


@pytest.mark.parametrize(
    ("group", "kind", "words"),
    [
        ("foo.test", "Foo", "the API server has no kind Foo in foo.test"),
        ("", "Foo", "the API server has no kind Foo in the core group, which has no name"),
        (
            "",
            "Deployment",
            "the API server has no kind Deployment in the core group, which has no name; Deployment is in apps",
        ),
        (
            "core",
            "ReplicationController",
            "the API server has no kind ReplicationController in core; "
            "ReplicationController is in the core group, which has no name",
        ),
    ],
)
def test_a_kind_that_is_not_there_is_told_and_where_it_would_be(group: str, kind: str, words: str) -> None:
    assert unknown_kind(ScalableRef(api_group=group, kind=kind, name="x")) == words


def test_the_five_known_kinds() -> None:
    known = [("", "ReplicationController"), ("apps", "Deployment"), ("apps", "ReplicaSet"), ("batch", "Job")]
    assert all(is_known_kind(group, kind) for group, kind in [*known, ("apps", "StatefulSet")])
    assert not is_known_kind("apps", "DaemonSet")
    assert not is_known_kind("core", "ReplicationController")


def test_a_dry_run_makes_a_pod_of_the_content_and_takes_what_came_of_it() -> None:
    labels = {"app": "web"}
    of = {"metadata": {"labels": labels, "name": "x"}, **content(nodeName="n1", hostNetwork=True)}
    assert dry_run_pod(of, "shop") == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": labels, "generateName": "fake-pod-", "namespace": "shop"},
        "spec": content(hostNetwork=True)["spec"],
    }
    assert dry_run_pod({}, "shop")["spec"] == {}
    shape = make_shape(scalable_replicas=3)
    assert after_dry_run(shape, content({"cpu": "2"})) == make_shape(content({"cpu": "2"}), scalable_replicas=3)
