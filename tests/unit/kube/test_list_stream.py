from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kube.list_stream import ListError, ListHead, read_list

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def read(text: str) -> tuple[list[object], str | None]:
    items: list[object] = []
    return items, read_list(text, items.append).version


@given(st.lists(JSON_VALUES, max_size=4), st.dictionaries(st.sampled_from(["a", "b"]), JSON_VALUES), st.booleans())
def test_a_list_gives_its_items_as_json_does(items: list[object], extra: dict[str, object], is_indented: bool) -> None:
    document = {"kind": "PodList", "items": items, "metadata": {"resourceVersion": "7"}, **extra}
    assert read(json.dumps(document, indent=2 if is_indented else None)) == (items, "7")


def test_a_list_of_the_api_may_have_no_items() -> None:
    assert read('{"kind":"PodList","metadata":{},"items":null}') == ([], None)
    assert read(' { "kind" : "PodList" , "items" : [ ] } ') == ([], None)


def test_a_page_names_the_next() -> None:
    text = '{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"more"},"items":[]}'
    assert read_list(text, print) == ListHead("7", "more")
    assert read_list(text.replace('"more"', '""'), print) == ListHead("7", None)


@given(st.integers(min_value=0, max_value=60))
def test_a_list_that_is_cut_off_is_none(at: int) -> None:
    text = '{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":2}]}'
    with pytest.raises(ListError):
        read(text[:at])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind":"Pod"}', '{"kind":"PodList","items":[1 2]}', "<html>"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ListError):
        read(text)


@given(st.text(alphabet='{}[]":,1 kinditemsPodList', max_size=60))
def test_any_text_gives_a_list_or_the_error(text: str) -> None:
    with contextlib.suppress(ListError):
        read(text)
