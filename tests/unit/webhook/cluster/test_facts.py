"""When what is known of the cluster is all there; tests/cluster/test_cluster_facts.py has a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

import pytest

from agent.core.cluster.facts import NodeAmounts
from agent.kube.client.api import Stream
from agent.kube.watch.reflector import WatchPace
from agent.webhook.cluster.facts import NOT_READ, ClusterFacts
from tests.fake_api import FakeApi
from tests.unit.node.cluster.test_view import FakeStream, await_

NODE = {
    "metadata": {"name": "node-1", "resourceVersion": "5"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}, "capacity": {"cpu": "4", "memory": "8Gi"}},
}


class Server(FakeApi):
    """One node, and nothing else; watches show nothing."""

    def __init__(self) -> None:
        super().__init__(lambda _: {"gitVersion": "v1.37.1"})

    def stream(self, path: str, **options: object) -> Stream:
        query = options.get("query")
        if isinstance(query, Mapping) and "watch" in query:
            return FakeStream(holds=True)
        items = [NODE] if path == "/api/v1/nodes" else []
        return FakeStream(json.dumps({"kind": "List", "metadata": {"resourceVersion": "10"}, "items": items}).encode())


class HeldUpFacts(ClusterFacts):
    """Facts of which one watching thread is held up between its list and what is made of it."""

    def __init__(self, where: str) -> None:
        self.where, self.goes_on = where, threading.Event()
        super().__init__(Server(), namespace="plimsoll", pace=WatchPace(start_spread_seconds=0.0))

    def _see_nodes(self) -> None:
        assert self.where != "nodes" or self.goes_on.wait(60.0)
        super()._see_nodes()

    def _read_rules(self) -> None:
        assert self.where != "rules" or self.goes_on.wait(60.0)
        super()._read_rules()


@pytest.mark.parametrize("where", ["nodes", "rules"])
def test_all_is_known_only_when_what_was_listed_last_was_taken_up(where: str) -> None:
    facts = HeldUpFacts(where)
    facts.start()
    try:
        await_(lambda: all(status.is_listed for status in facts.statuses()))
        if where == "rules":
            assert facts.rules().pause_reason == NOT_READ
        else:
            assert facts.largest_allocatable() is None
        assert not facts.is_complete
        facts.goes_on.set()
        await_(lambda: facts.is_complete)
        assert facts.rules().pause_reason is None
        assert facts.largest_allocatable() == NodeAmounts(cpu_millicores=4000, memory_bytes=8 << 30)
    finally:
        facts.goes_on.set()
        facts.stop()
