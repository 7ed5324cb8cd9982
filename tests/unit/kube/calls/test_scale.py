"""Answers that no real API server gives; tests/webhook has what the resolver makes of those that it gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from agent.kube.calls.scale import _LIVE, PodMark, newest_pod
from agent.kube.client.errors import TooLong, Unreachable
from agent.kube.objects.json_reader import ConvertError
from tests.fake_api import FakeApi, Lines

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Pods(FakeApi):
    """Has so many pods in a namespace, and answers a page of them where that is not more than can be held."""

    def __init__(self, count: int, *, held: int) -> None:
        super().__init__()
        self.asked: list[tuple[str | None, str | None, str | None]] = []
        self._count, self._held = count, held

    def stream(  # type: ignore[override]  # as the real one's
        self, path: str, *, query: Mapping[str, str] | None = None, **_: object
    ) -> Lines:
        assert query is not None
        self.asked.append((query.get("resourceVersion"), query.get("limit"), query.get("continue")))
        assert (query["labelSelector"], query["fieldSelector"]) == ("app=web", _LIVE)
        start = int(query.get("continue", 0))
        numbers = range(start, min(start + int(query.get("limit", self._count)), self._count))
        if len(numbers) > self._held:
            raise TooLong("a list")
        items = [
            {"metadata": {"name": f"web-{number}", "creationTimestamp": f"{BEGAN + timedelta(seconds=number):%FT%TZ}"}}
            for number in numbers
        ]
        more = str(numbers.stop) if numbers.stop < self._count else ""
        return Lines([json.dumps({"kind": "List", "metadata": {"continue": more}, "items": items}).encode()])


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


def test_newest_pod_of_more_than_can_be_held_is_found_page_by_page() -> None:
    api = Pods(2100, held=600)
    assert newest_pod(api, "shop", "app=web") == PodMark(name="web-2099", uid="", version="")
    pages = [(None, "250", str(start)) for start in range(250, 2100, 250)]
    # Pages are of the newest state: a server's cache has none.
    assert api.asked == [("0", None, None), (None, "1000", None), (None, "250", None), *pages]


@pytest.mark.parametrize(("count", "held", "words"), [(1, 0, "a list"), (51_000, 50_000, "more than 50 pages")])
def test_newest_pod_of_what_no_page_can_hold_or_of_too_many_pages_is_not_looked_for(
    count: int, held: int, words: str
) -> None:
    with pytest.raises(TooLong, match=words):
        newest_pod(Pods(count, held=held), "shop", "app=web")


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
