from __future__ import annotations

from typing import Any

import pytest

from agent.cli.client.vpa_checkpoints import GROUP, CheckpointsError, CheckpointWalk
from agent.kube.client.errors import ApiError, Unreachable
from tests.fake_api import Call, FakeApi, raising

NOW = 1_762_000_000.0
STATE = {
    "version": "v3",
    "firstSampleStart": "2025-10-31T00:00:00Z",
    "lastSampleStart": "2025-11-01T12:00:00Z",
    "totalSamplesCount": 7,
    "cpuHistogram": {"bucketWeights": {"3": 1}, "totalWeight": 1},
}


def listed(kind: str, *items: Any, more: str | None = None) -> Any:
    return {"kind": f"{kind}List", "metadata": {"continue": more}, "items": list(items)}


def autoscaler(name: str, namespace: str = "shop") -> Any:
    target = {"targetRef": {"kind": "StatefulSet", "name": f"{name}-set"}}
    return {"metadata": {"namespace": namespace, "name": name}, "spec": target}


def checkpoint(name: str) -> Any:
    spec = {"vpaObjectName": name, "containerName": "app"}
    return {"metadata": {"namespace": "shop", "name": f"{name}-app"}, "spec": spec, "status": STATE}


def test_pages_are_read_to_the_end_in_the_namespaces_that_are_asked_for() -> None:
    def answer(call: Call) -> Any:
        more = (call.query or {}).get("continue")
        if call.path.endswith("/verticalpodautoscalers"):
            return listed("VerticalPodAutoscaler", autoscaler("web"), {"metadata": {}}, "odd")
        if more is None:
            return listed("VerticalPodAutoscalerCheckpoint", checkpoint("web"), more="further")
        return listed("VerticalPodAutoscalerCheckpoint", checkpoint("gone"), "odd")

    api = FakeApi(answer)
    walk = CheckpointWalk(api, ("shop", "shop"), now_unix_seconds=NOW)
    (hours,) = walk.hours()

    assert (hours[0].workload.kind, hours[0].workload.name, hours[0].container) == ("StatefulSet", "web-set", "app")
    assert sum(walk.left_out.values()) == 2
    assert walk.first_left_out["no VerticalPodAutoscaler that names a workload has it"] == "shop/gone-app"
    shop = f"{GROUP}/namespaces/shop"
    assert [(call.path, (call.query or {}).get("continue")) for call in api.calls] == [
        (f"{shop}/verticalpodautoscalers", None),
        (f"{shop}/verticalpodautoscalercheckpoints", None),
        (f"{shop}/verticalpodautoscalercheckpoints", "further"),
    ]


@pytest.mark.parametrize(
    ("api", "words"),
    [
        (FakeApi(raising(ApiError("list", status=404))), "has no VerticalPodAutoscaler"),
        (FakeApi(raising(ApiError("list", status=403, message="may not list"))), "may not list"),
        (FakeApi(raising(Unreachable("nobody answers"))), "nobody answers"),
        (FakeApi(lambda _: ["odd"]), "the API server's answer is no list"),
        (FakeApi(lambda _: {"kind": "Status"}), "the API server's answer is no list"),
        (FakeApi(lambda _: listed("VerticalPodAutoscaler", more="round")), "more than 1000 pages"),
    ],
)
def test_an_api_server_that_gives_none_is_one_line(api: FakeApi, words: str) -> None:
    with pytest.raises(CheckpointsError) as refused:
        CheckpointWalk(api, (), now_unix_seconds=NOW).hours()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
