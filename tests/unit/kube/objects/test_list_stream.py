from __future__ import annotations

import contextlib
import json
import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kube.objects.list_stream import ListError, ListHead, read_list

JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def read(text: str | bytes) -> tuple[list[object], str | None]:
    items: list[object] = []
    return items, read_list(text if isinstance(text, bytes) else text.encode(), items.append).version


@given(st.lists(JSON_VALUES, max_size=4), st.dictionaries(st.sampled_from(["a", "b"]), JSON_VALUES), st.booleans())
def test_a_list_gives_its_items_as_json_does(items: list[object], extra: dict[str, object], is_indented: bool) -> None:
    document = {"kind": "PodList", "items": items, "metadata": {"resourceVersion": "7"}, **extra}
    assert read(json.dumps(document, indent=2 if is_indented else None)) == (items, "7")


def test_a_list_of_the_api_may_have_no_items() -> None:
    assert read('{"kind":"PodList","metadata":{},"items":null}') == ([], None)
    assert read(' { "kind" : "PodList" , "items" : [ ] } ') == ([], None)


def test_a_page_names_the_next() -> None:
    text = b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"more"},"items":[]}'
    assert read_list(text, print) == ListHead("7", "more")
    assert read_list(text.replace(b'"more"', b'""'), print) == ListHead("7", None)


@pytest.mark.parametrize(
    "metadata", ["null", "7", "[]", '{"resourceVersion":7,"continue":{}}', '{"resourceVersion":""}']
)
def test_a_list_without_a_version_that_is_a_text_has_none(metadata: str) -> None:
    assert read_list(f'{{"kind":"PodList","metadata":{metadata}}}'.encode(), print) == ListHead(None, None)


@given(st.integers(min_value=0, max_value=60))
def test_a_list_that_is_cut_off_is_none(at: int) -> None:
    text = '{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":2}]}'
    with pytest.raises(ListError):
        read(text[:at])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`, got `array`"),
        ("{}", "missing required field `kind`"),
        ('{"kind":"Pod"}', "kind is 'Pod'"),
        ('{"kind":7}', "Expected `str`, got `int` - at `$.kind`"),
        ('{"kind":null}', "Expected `str`, got `null` - at `$.kind`"),
        ('{"kind":"PodList","items":{}}', "Expected `array | null`, got `object` - at `$.items`"),
        ('{"kind":"PodList","items":[1 2]}', "expected ',' or ']'"),
        ('{"kind":"PodList","items":[NaN]}', "malformed"),
        ('{"kind":"PodList"} {}', "trailing characters"),
        ("<html>", "invalid character"),
        (b'{"kind":"Pod\xffList"}', "can't decode byte 0xff"),
        ('{"kind":"PodList","items":[{"a":' + "[" * 100_000 + "]" * 100_000 + "}]}", "nested too deep"),
        ('{"kind":"PodList","items":[1,{"a":' + "9" * 5000 + "}]}", "items[1]: "),
        (f'{{"kind":"{"Pod" * 200}"}}', "kind is 'Pod"),
    ],
)
def test_what_is_no_list_is_refused_on_one_line_that_says_why(text: str | bytes, why: str) -> None:
    with pytest.raises(ListError) as refused:
        read(text)
    words = str(refused.value)
    assert words.startswith("not a list of the API: ")
    assert why in words
    assert "\n" not in words
    assert len(words) <= 200


def test_nothing_is_handed_over_of_what_is_no_list() -> None:
    taken: list[object] = []
    for text in (b'{"items":[1],"kind":"Pod"}', b'{"kind":"PodList","items":[1,2'):
        with pytest.raises(ListError):
            read_list(text, taken.append)
    assert taken == []


def test_an_odd_value_in_one_item_leaves_the_list_readable() -> None:
    text = b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"a":"\xff"},{"b":1e999},{"c":null}]}'
    assert read(text) == ([{"a": "\ufffd"}, {"b": math.inf}, {"c": None}], "7")


def test_a_name_that_stands_twice_counts_as_the_last_says() -> None:
    assert read('{"kind":"PodList","items":[{"a":1,"a":2}],"items":[{"b":1,"b":2}]}') == ([{"b": 2}], None)


def test_what_the_taker_raises_is_no_fault_of_the_list() -> None:
    def take(_: object) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        read_list(b'{"kind":"PodList","items":[1]}', take)


def test_a_list_is_never_in_memory_as_a_whole() -> None:
    item = {f"name{number}": {"value": number} for number in range(100)}
    text = json.dumps({"kind": "PodList", "items": [item] * 400}).encode()
    tracemalloc.start()
    try:
        read_list(text, lambda _: None)
        in_turn = tracemalloc.get_traced_memory()[1]
        whole = json.loads(text)
        at_once = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(whole["items"]) == 400
    assert at_once > 5 * len(text)
    assert in_turn < len(text) / 4


@given(st.text(alphabet='{}[]":,1 kinditemsPodList', max_size=60))
def test_any_text_gives_a_list_or_the_error(text: str) -> None:
    with contextlib.suppress(ListError):
        read(text)
