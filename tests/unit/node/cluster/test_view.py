"""Parts of the view that a real server would not show; the rest is tests/cluster/test_watching.py."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.kube.client.errors import Unreachable
from agent.kube.watch.reflector import WatchPace
from agent.node.cluster.view import ClusterView
from tests.pods import container, pod_json

QUICK = WatchPace(start_spread_seconds=0.0, first_wait_seconds=0.01, longest_wait_seconds=0.02)
PAUSE_PATH = "/api/v1/namespaces/plimsoll/configmaps"
NAMES = {
    PAUSE_PATH: "ConfigMapList",
    "/api/v1/pods": "PodList",
    "/api/v1/nodes": "NodeList",
    "/api/v1/namespaces": "NamespaceList",
}


class FakeStream:
    def __init__(self, *lines: bytes, holds: bool = False) -> None:
        self._lines = lines
        self._holds = holds
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        yield from self._lines
        if self._holds:
            self._closed.wait()

    def close(self) -> None:
        self._closed.set()


class FakeApi:
    """Lists what it holds; watches show nothing."""

    def __init__(self, **things: list[object]) -> None:
        self.things = things
        self.version: object = {"gitVersion": "v1.37.1"}
        self.accepts: dict[str, set[str]] = {}
        self.is_away: set[str] = set()

    def call(self, method: str, path: str, **_: object) -> object:
        assert (method, path) == ("GET", "/version")
        if isinstance(self.version, Exception):
            raise self.version
        return self.version

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = "",
        timeout_seconds: float | None = None,
    ) -> FakeStream:
        self.accepts.setdefault(path, set()).add(accept)
        if path in self.is_away:
            raise Unreachable("away")
        if query is not None and "watch" in query:
            return FakeStream(holds=True)
        items = self.things.get(path.rpartition("/")[2], [])
        return FakeStream(
            json.dumps({"kind": NAMES[path], "metadata": {"resourceVersion": "10"}, "items": items}).encode()
        )


def pod(name: str, version: str = "5", cpu: str = "100m", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": version}
    return pod_json(container("app", {"cpu": cpu}), metadata=metadata, **fields)


def await_(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Viewing:
    def __init__(self, api: FakeApi) -> None:
        self.news = 0
        self.view = ClusterView(api, "node-1", clock=lambda: 100.0, random=lambda: 0.0, on_news=self._count, pace=QUICK)

    def _count(self) -> None:
        self.news += 1

    def __enter__(self) -> ClusterView:
        self.view.start()
        return self.view

    def __exit__(self, *_: object) -> None:
        self.view.stop()


def test_nothing_is_complete_before_it_was_listed() -> None:
    view = ClusterView(FakeApi(), "node-1")
    state = view.state()
    assert (state.node, state.pods, state.is_complete, state.age_seconds) == (None, (), False, None)
    assert (view.age_seconds, view.refresh()) == (None, False)
    view.stop()


def test_the_state_is_complete_only_when_every_part_was_listed() -> None:
    api = FakeApi(pods=[pod("web")])
    api.is_away = {"/api/v1/namespaces"}
    with Viewing(api) as view:
        await_(lambda: len(view.state().pods) == 1)
        await_(lambda: view.statuses()[2].trouble == "away")
        assert not view.state().is_complete
        assert view.state().age_seconds is None
        api.is_away = set()
        await_(lambda: view.state().is_complete)
        assert view.state().age_seconds == 0.0


class HeldUp:
    """A lock after whose first release by its own thread something happens: the thread was held up there."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._lock, self._then, self._thread = threading.Lock(), [then], threading.current_thread()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if threading.current_thread() is self._thread and self._then:
            self._then.pop()()


def test_a_state_that_was_begun_before_all_was_listed_is_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    view = ClusterView(FakeApi(pods=[pod("web")]), "node-1", random=lambda: 0.0, pace=QUICK)

    def list_all() -> None:
        view.start()
        await_(lambda: all(status.age_seconds is not None for status in view.statuses()))

    monkeypatch.setattr(view._pods.kept, "_lock", HeldUp(list_all))
    try:
        state = view.state()
        assert (state.pods, state.is_complete, state.age_seconds) == ((), False, None)
        state = view.state()
        assert (len(state.pods), state.is_complete) == (1, True)
    finally:
        view.stop()


def test_a_pod_that_comes_to_be_understood_meanwhile_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    view = ClusterView(FakeApi(), "node-1")
    kept = view._pods.kept
    malformed, mended = pod("web") | {"spec": []}, pod("web", version="6")
    kept.put(kept.entry(malformed), now_seconds=0.0)
    monkeypatch.setattr(kept, "_lock", HeldUp(lambda: kept.put(kept.entry(mended), now_seconds=0.0)))
    state = view.state()
    assert (len(state.pods), len(state.unreadable_pods)) == (0, 1)
    state = view.state()
    assert (len(state.pods), len(state.unreadable_pods)) == (1, 0)


def test_the_pause_is_watched_beside_and_no_plan_waits_for_it() -> None:
    api = FakeApi(pods=[pod("web")])
    api.is_away = {PAUSE_PATH}
    view = ClusterView(api, "node-1", random=lambda: 0.0, pace=QUICK, pause_config_map="plimsoll/plimsoll")
    view.start()
    assert view.pause is not None
    await_(lambda: view.pause is not None and view.pause.trouble == "away")
    await_(lambda: view.state().is_complete)
    assert [status.name for status in view.statuses()] == ["pods", "node", "namespaces"]
    api.is_away = set()
    await_(lambda: view.pause is not None and view.pause.is_listed)
    view.stop()
    assert view.pause.reflector.join(60.0)
    assert ClusterView(api, "node-1").pause is None


def test_namespaces_are_asked_for_by_their_metadata_alone() -> None:
    api = FakeApi(namespaces=[{"metadata": {"name": "shop", "annotations": {"plimsoll.dev/mode": "off"}}}])
    with Viewing(api) as view:
        await_(lambda: view.state().is_complete)
        assert view.state().namespaces["shop"].annotations == {"plimsoll.dev/mode": "off"}
        await_(lambda: len(api.accepts["/api/v1/namespaces"]) == 2)
    assert api.accepts["/api/v1/namespaces"] == {
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
    }


def test_a_pod_that_is_not_understood_is_named_and_the_rest_goes_on() -> None:
    broken = pod("broken", cpu="much")
    with Viewing(FakeApi(pods=[broken, pod("web")])) as view:
        await_(lambda: view.state().is_complete)
        state = view.state()
        assert [node_pod.name for node_pod in state.pods] == ["web"]
        assert len(state.unreadable_pods) == 1
        assert state.unreadable_pods[0].startswith("shop/broken: spec.containers[0].resources.requests.cpu: 'much'")
        assert view.faults()[0].startswith("pods shop/broken: ")


def test_a_namespace_that_was_not_told_or_is_not_understood_is_named_where_pods_are_in_it() -> None:
    pods = [pod("web"), pod("told"), pod("broken")]
    for document, namespace in zip(pods, ("shop", "told", "broken"), strict=True):
        document["metadata"]["namespace"] = namespace
    broken = {"metadata": {"name": "broken", "annotations": {"a": 7}}}
    unused = {"metadata": {"name": "unused", "annotations": {"a": 7}}}
    api = FakeApi(pods=[*pods], namespaces=[{"metadata": {"name": "told"}}, broken, unused])
    with Viewing(api) as view:
        await_(lambda: view.state().is_complete)
        state = view.state()
        assert set(state.namespaces) == {"told"}
        assert set(state.unknown_namespaces) == {"broken", "shop"}
        assert state.unknown_namespaces["shop"] == "the API server has not told of it"
        assert state.unknown_namespaces["broken"].startswith("not understood: metadata.annotations")
        assert state.node_fault is None


def test_a_node_that_is_not_understood_is_told_from_one_that_is_not_there() -> None:
    broken = {"metadata": {"name": "node-1"}, "status": {"allocatable": {"cpu": "much"}}}
    with Viewing(FakeApi(nodes=[broken])) as view:
        await_(lambda: view.state().is_complete)
        state = view.state()
        assert state.node is None
        assert state.node_fault is not None
        assert "'much'" in state.node_fault


def test_an_answer_of_a_patch_is_news_once_and_renames() -> None:
    viewing = Viewing(FakeApi(pods=[pod("web")]))
    with viewing as view:
        # Whose watch is open has told the news of its list; who has only listed is about to.
        await_(lambda: all(status.counts.watches for status in view.statuses()))
        await_(view.refresh)
        before, known = viewing.news, view.pods()
        assert view.pods() is known
        view.put(pod("web", "6", cpu="200m"))
        assert view.pods()[0].containers[0].resources.cpu_request_millicores == 200
        assert view.state().pods[0].containers[0].resources.cpu_request_millicores == 200
        assert viewing.news == before + 1
        assert view.refresh()
        assert not view.refresh()
        view.put(pod("web", "4", cpu="300m"))
        view.put(pod("web", "7", cpu="much"))
        view.put("garbage")
        assert viewing.news == before + 1
        assert view.state().pods[0].resource_version == "6"
        assert view.state().unreadable_pods == ()


def test_names_follow_the_pods() -> None:
    status = {"containerStatuses": [{"name": "app", "containerID": "containerd://abc"}]}
    unit = UnitIdentity(cgroup_path="/x", kind=UnitKind.CONTAINER, pod_uid="uid-web", container_id="abc")
    with Viewing(FakeApi(pods=[pod("web")])) as view:
        assert view.name(unit)[0].kind in (UnitKind.CONTAINER, UnitKind.SANDBOX)
        await_(lambda: view.state().is_complete)
        assert view.name(unit)[0].container is None
        view.put(pod("web", "6", status=status))
        named, resources = view.name(unit)
        assert (named.container, named.pod, resources.cpu_request_millicores) == ("app", "web", 100)
        assert view.belonging(named).container_kind is not None


@pytest.mark.parametrize("version", [Unreachable("away"), {}, None])
def test_a_version_that_is_not_known_is_none_and_holds_nothing_up(version: object) -> None:
    api = FakeApi()
    api.version = version
    with Viewing(api) as view:
        await_(lambda: view.state().is_complete)
        assert view.state().server_version is None
