"""A kind that comes and goes, and a server that does not say; tests/cluster/test_cluster_facts.py has the real one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from agent.core.cluster.workload import Workload
from agent.kube.client.api import JSON, Stream
from agent.kube.client.errors import ApiError, Unreachable
from agent.kube.objects.cluster_json import VerticalAutoscaler, vertical_autoscaler_from_json
from agent.kube.watch.reflector import Reflector, WatchPace, WatchSource
from agent.webhook.cluster.index import ReflectedIndex
from agent.webhook.cluster.optional_watch import OptionalWatch
from tests.cluster.processes import wait_for
from tests.fake_api import Call, FakeApi

GROUP = "/apis/autoscaling.k8s.io/v1"
WEB = Workload(namespace="shop", kind="Deployment", name="web")
VPA = {
    "metadata": {"namespace": "shop", "name": "web", "uid": "u"},
    "spec": {"targetRef": {"kind": "Deployment", "name": "web"}},
}


class Server(FakeApi):
    """Says which kinds there are; lists nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.served: object = None
        """The group's document; None = there is no such group."""

    def answer(self, call: Call) -> object:
        assert call.path == GROUP
        if self.served is None:
            raise ApiError(f"GET {GROUP}", status=404)
        if isinstance(self.served, Exception):
            raise self.served
        return self.served

    def stream(  # type: ignore[override]  # as the real one's
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
        timeout_seconds: float | None = None,
    ) -> Stream:
        raise Unreachable(f"GET {path}: no list")


@contextlib.contextmanager
def asking(server: Server) -> Iterator[tuple[OptionalWatch[VerticalAutoscaler], list[int]]]:
    index = ReflectedIndex(vertical_autoscaler_from_json, lambda autoscaler: autoscaler.target)
    creations: list[int] = []

    def make() -> Reflector[VerticalAutoscaler]:
        creations.append(1)
        return Reflector(
            server,
            WatchSource(name="vpas", path="/vpas", read=index.read, is_same=index.is_same),
            clock=lambda: 100.0,
            random=lambda: 0.0,
            on_news=lambda: None,
            pace=WatchPace(start_spread_seconds=0.0),
            kept=index,
        )

    watch = OptionalWatch(
        server,
        name="vpas",
        group_path=GROUP,
        resource="verticalpodautoscalers",
        kept=index,
        make=make,
        clock=lambda: 100.0,
        ask_seconds=0.005,
    )
    watch.start()
    try:
        yield watch, creations
    finally:
        watch.stop()
        assert watch.join(60.0)


def served(*names: str) -> object:
    return {"resources": [{"name": name} for name in names]}


def test_what_is_not_there_is_known_and_what_is_gone_leaves_nothing_behind() -> None:
    server = Server()
    with asking(server) as (watch, creations):
        assert (watch.counts.lists, len(watch.kept)) == (0, 0)
        wait_for(lambda: watch.is_listed, "it is known not to be there")
        assert (watch.age_seconds, watch.trouble, creations) == (0.0, None, [])
        server.served = served("verticalpodautoscalercheckpoints")  # the group without the kind
        calls = len(server.calls)
        wait_for(lambda: len(server.calls) > calls + 2, "it was asked again")
        assert not creations
        server.served = served("verticalpodautoscalercheckpoints", "verticalpodautoscalers")
        wait_for(lambda: "no list" in (watch.trouble or ""), "it is watched")
        assert (watch.is_listed, watch.age_seconds) == (False, None)  # there now, and not read yet
        watch.kept.put(watch.kept.entry(VPA), now_seconds=0.0)
        server.served = None
        wait_for(lambda: watch.is_listed, "it is known to be gone")
        assert (len(watch.kept), len(creations)) == (0, 1)
        server.served = served("verticalpodautoscalers")
        wait_for(lambda: len(creations) == 2, "it is watched again")


def test_a_server_that_does_not_say_leaves_things_as_they_are() -> None:
    server = Server()
    server.served = ApiError(f"GET {GROUP}", status=403, reason="Forbidden")
    with asking(server) as (watch, creations):
        wait_for(lambda: "Forbidden" in (watch.trouble or ""), "the refusal is told")
        assert (watch.is_listed, watch.age_seconds, creations) == (False, None, [])
