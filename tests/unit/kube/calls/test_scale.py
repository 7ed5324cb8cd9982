"""Answers that no real API server gives; tests/webhook has what the resolver makes of those that it gives."""

from __future__ import annotations

import pytest

from agent.kube.calls.scale import PodMark, newest_pod
from agent.kube.client.errors import Unreachable
from agent.kube.objects.json_reader import ConvertError
from tests.fake_api import FakeApi, Lines


class OneList(FakeApi):
    """Answers each list with one text."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self._text = text

    def stream(self, path: str, **_: object) -> Lines:
        return Lines([self._text])


def listed(*items: str) -> OneList:
    return OneList(f'{{"kind":"PartialObjectMetadataList","items":[{",".join(items)}]}}'.encode())


def test_newest_pod_is_the_last_made_that_is_not_ending() -> None:
    old, new = (
        f'{{"metadata":{{"name":"{name}","uid":"{name}","creationTimestamp":"2026-01-{day}T00:00:00Z"}}}}'
        for name, day in (("old", 30), ("new", 31))
    )
    ending = '{"metadata":{"name":"ending","deletionTimestamp":"2026-02-01T00:00:00Z"}}'
    assert newest_pod(listed(ending, old, new), "shop", "app=web") == PodMark(name="new", uid="new", version="")
    assert newest_pod(listed(), "shop", "app=web") is None


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("7", "document: 7 is not an object"),
        ('{"metadata":{}}', "metadata.name: missing"),
        ('{"metadata":{"name":"web","creationTimestamp":"soon"}}', "metadata.creationTimestamp: 'soon'"),
    ],
)
def test_newest_pod_tells_an_odd_pod_from_a_server_that_does_not_answer(item: str, words: str) -> None:
    with pytest.raises(ConvertError, match=words):
        newest_pod(listed(item), "shop", "app=web")


def test_newest_pod_takes_what_is_no_list_for_no_answer() -> None:
    with pytest.raises(Unreachable, match=r"^GET /api/v1/namespaces/shop/pods: not a list of the API: "):
        newest_pod(OneList(b"<html>"), "shop", "app=web")
