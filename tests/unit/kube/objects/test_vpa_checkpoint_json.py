from __future__ import annotations

from typing import Any

import pytest

from agent.core.recommender.vpa.checkpoint import Checkpoint
from agent.kube.objects.json_reader import ConvertError
from agent.kube.objects.vpa_checkpoint_json import checkpoint_from_json, checkpoint_name

STATUS: dict[str, Any] = {
    "version": "v3",
    "firstSampleStart": "2026-11-01T00:00:00Z",
    "lastSampleStart": "2026-11-02T00:00:00Z",
    "lastUpdateTime": None,
    "totalSamplesCount": 7,
    "cpuHistogram": {
        "referenceTimestamp": "2026-11-02T00:00:00Z",
        "bucketWeights": {"0": 10000, "13": 5},
        "totalWeight": 2,
    },
    "memoryHistogram": {"referenceTimestamp": None},
}


def document(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "shop", "name": "web-app"},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {**STATUS, **status},
    }


def test_a_checkpoint_is_read() -> None:
    checkpoint = checkpoint_from_json(document())

    assert (checkpoint.namespace, checkpoint.autoscaler, checkpoint.container) == ("shop", "web", "app")
    state = checkpoint.state
    assert (state.version, state.samples) == ("v3", 7)
    assert state.last_sample_unix_seconds == (state.first_sample_unix_seconds or 0.0) + 86_400
    assert state.cpu == Checkpoint(
        bucket_weights={0: 10000, 13: 5}, total_weight=2.0, reference_unix_seconds=state.last_sample_unix_seconds
    )
    assert state.memory == Checkpoint(bucket_weights={}, total_weight=0.0)


def test_one_that_was_never_written_says_so() -> None:
    state = checkpoint_from_json({**document(), "status": None}).state

    assert (state.version, state.samples, state.first_sample_unix_seconds) == ("", 0, None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "an object"),
        ({**document(), "spec": {}}, "spec.vpaObjectName"),
        (document(totalSamplesCount="7"), "status.totalSamplesCount"),
        (document(lastSampleStart="yesterday"), "status.lastSampleStart"),
        (document(cpuHistogram={"bucketWeights": {"-1": 1}}), "status.cpuHistogram.bucketWeights"),
        (document(cpuHistogram={"bucketWeights": {"1": "much"}}), "status.cpuHistogram.bucketWeights.1"),
        (document(cpuHistogram={"totalWeight": float("nan")}), "status.cpuHistogram.totalWeight"),
        (document(cpuHistogram={"totalWeight": True}), "status.cpuHistogram.totalWeight"),
    ],
)
def test_what_is_none_is_an_error_that_names_the_place(given: object, words: str) -> None:
    with pytest.raises(ConvertError) as refused:
        checkpoint_from_json(given)
    assert words in str(refused.value)


def test_a_checkpoint_is_called_by_its_name_as_far_as_it_has_one() -> None:
    assert checkpoint_name(document()) == "shop/web-app"
    assert checkpoint_name({"metadata": 3}) == checkpoint_name([]) == "?/?"
