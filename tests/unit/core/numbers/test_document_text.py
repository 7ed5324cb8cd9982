"""JSON and YAML from outside: what would end a program, or take minutes or gigabytes, is one line."""

from __future__ import annotations

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.numbers import document_text
from agent.core.numbers.document_text import (
    LONGEST_NUMBER,
    LONGEST_YAML,
    MOST_DEPTH,
    DocumentTextError,
    decoded,
    json_value,
    yaml_values,
)

_DEEPEST = "[" * MOST_DEPTH + "]" * MOST_DEPTH
_ALIASES = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))])


def fault(read: object, text: str) -> str:
    assert callable(read)
    with pytest.raises(DocumentTextError) as caught:
        read(text)
    line = str(caught.value)
    assert len(line) < 300
    assert line.isprintable()
    return line


def test_decoded_takes_a_byte_order_mark_away_and_refuses_other_encodings() -> None:
    assert decoded(b"\xef\xbb\xbf{}") == "{}"
    with pytest.raises(DocumentTextError, match="not UTF-8 at byte 0"):
        decoded("{}".encode("utf-16"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON: Expecting value: line 1 column 1"),
        ("[" * 100_000, "not JSON: nested more than 64 deep"),
        (f"[{_DEEPEST}]", "not JSON: nested more than 64 deep"),
        ('{"a":' * 65 + "1" + "}" * 65, "not JSON: nested more than 64 deep"),
        ("NaN", "not JSON: NaN is no JSON value"),
        ("[-Infinity]", "not JSON: -Infinity is no JSON value"),
        ('{"a": 1e999}', "not JSON: 1e999 is out of range"),
        ("-1e999", "not JSON: -1e999 is out of range"),
        ("9" * 5000, "not JSON: 99999999999999999999 is out of range"),
        ("[18446744073709551616]", "not JSON: 18446744073709551616 is out of range"),
        ("-9223372036854775809", "not JSON: -9223372036854775809 is out of range"),
        ("0." + "9" * 5000 + "e999", "is out of range"),
    ],
)
def test_json_that_is_refused(text: str, said: str) -> None:
    assert said in fault(json_value, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "not YAML: line 2: did not find expected ',' or ']'"),
        ("a: \x00", "not YAML: unacceptable character"),
        (f"[{_DEEPEST}]", "not YAML: line 1: nested more than 64 deep"),
        ("{a: " * 100_000, "nested more than 64 deep"),
        ("- " * 100_000, "nested more than 64 deep"),
        ("? " * 100_000, "nested more than 64 deep"),
        (_ALIASES, "not YAML: line 2: an alias (*a0) is not allowed"),
        ("a: &a [*a]", "an alias"),
        ("a: 2001-99-99", "not YAML: month must be in 1..12"),
        (":1".join(["1"] * 500_000), "a number of 1499998 characters"),
        ("0x" + "f" * 5000, "a number of 5002 characters"),
        ("a: " + "9" * 5000, "a number of 5000 characters"),
        ("!!python/object/apply:os.system [x]", "tag tag:yaml.org,2002:python/object/apply:os.system is not allowed"),
        ("!!int ''", "tag tag:yaml.org,2002:int is not allowed"),
        ("? [a]\n: b", "found unhashable key"),
        ("#" * (LONGEST_YAML + 1), "characters; allowed: 16777216, or JSON"),
        ("- a\n" * (document_text.MOST_YAML_VALUES + 1), "more than 1048576 values"),
    ],
)
def test_yaml_that_is_refused(text: str, said: str) -> None:
    assert said in fault(yaml_values, text)


def test_what_is_as_deep_and_long_as_allowed_is_read() -> None:
    assert json_value(_DEEPEST) == yaml_values(_DEEPEST)[0]
    number = "9" * LONGEST_NUMBER
    assert yaml_values(number) == [int(number)]
    assert json_value("[18446744073709551615, -9223372036854775808]") == [(1 << 64) - 1, -(1 << 63)]
    assert math.isfinite(float(int(number)))
    assert json_value("[1.5, -2, 1e3, true, null]") == [1.5, -2, 1000.0, True, None]


def test_yaml_of_several_documents_tags_and_merges() -> None:
    assert yaml_values("---\n---\na: !!str 1\nb: ! x\n<<: {c: !!seq []}\n") == [None, {"a": "1", "b": "x", "c": []}]
    assert yaml_values("") == []
    # Long words that look like numbers are none, and a quoted number is a text.
    assert yaml_values(f"- {'1' * 400}z\n- '{'1' * 400}'") == [["1" * 400 + "z", "1" * 400]]


def test_memory_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for a document of a hundred megabytes of empty lists on a small machine."""

    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(document_text, "_check_depth", exhausted)
    monkeypatch.setattr(document_text, "_check_events", exhausted)
    assert fault(json_value, "{}") == "not JSON: takes more memory than there is"
    assert fault(yaml_values, "{}") == "not YAML: takes more memory than there is"


@given(st.text())
def test_any_text_is_a_value_or_one_line(text: str) -> None:
    for read in (json_value, yaml_values):
        with contextlib.suppress(DocumentTextError):
            read(text)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_json_is_read_as_it_was_written(value: object) -> None:
    assert json_value(json.dumps(value)) == value
