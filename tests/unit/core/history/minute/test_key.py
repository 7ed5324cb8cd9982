"""core/history/minute/key.py: the name under which a history is kept."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.cluster.unit import UnitIdentity, UnitKind
from agent.core.cluster.workload import Workload
from agent.core.history.minute.key import MAX_KEY_BYTES, HistoryKey, KeyKind, history_key, parse_history_key

WEB = Workload(namespace="shop", kind="Deployment", name="web")


def identity(
    path: str = "/kubepods/pod1/c1",
    *,
    pod_uid: str | None = None,
    container_id: str | None = None,
    container: str | None = None,
) -> UnitIdentity:
    return UnitIdentity(
        cgroup_path=path, kind=UnitKind.OTHER, pod_uid=pod_uid, container_id=container_id, container=container
    )


def test_named_container_is_kept_under_its_workload_whatever_its_pod() -> None:
    first = history_key(identity(pod_uid="u1", container_id="c1", container="app"), WEB)
    second = history_key(identity("/other", pod_uid="u2", container_id="c2", container="app"), WEB)
    assert str(first) == "workload:shop/Deployment/web/app"
    assert first == second


def test_container_nobody_names_is_kept_under_pod_and_container() -> None:
    assert str(history_key(identity(pod_uid="u1", container_id="c1"), None)) == "pod:u1/c1"
    # The sandbox has a workload, but is no container of it.
    assert str(history_key(identity(pod_uid="u1", container_id="c1"), WEB)) == "pod:u1/c1"
    # A name without its workload may be one of many.
    assert str(history_key(identity(pod_uid="u1", container_id="c1", container="app"), None)) == "pod:u1/c1"


@pytest.mark.parametrize(("pod_uid", "container_id"), [(None, None), (None, "c1"), ("u1", None)])
def test_everything_else_is_kept_under_its_path(pod_uid: str | None, container_id: str | None) -> None:
    key = history_key(identity("/system.slice/my app@1.service", pod_uid=pod_uid, container_id=container_id), None)
    assert str(key) == "cgroup:/system.slice/my%20app@1.service"
    assert parse_history_key(str(key)) == key


def test_slash_within_a_name_makes_no_other_key() -> None:
    key = history_key(identity(container="b"), Workload(namespace="n", kind="k", name="a/b"))
    assert str(key) == "workload:n/k/a%2Fb/b"
    assert parse_history_key(str(key)).parts == ("n", "k", "a/b", "b")


def test_text_that_is_too_long_ends_in_the_digest_of_the_whole() -> None:
    paths = ["/" + "a" * 600 + end for end in "xy"]
    keys = [history_key(identity(path), None) for path in paths]
    for key in keys:
        assert len(str(key)) == MAX_KEY_BYTES
        assert re.fullmatch(r"cgroup:/a+#sha256=[0-9a-f]{64}", str(key))
        assert parse_history_key(str(key)) == key
    assert keys[0] != keys[1]


def test_longest_names_of_the_api_are_kept_whole() -> None:
    workload = Workload(namespace="n" * 63, kind="K" * 63, name="w" * 253)
    assert history_key(identity(container="c" * 63), workload).digest is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cgroup",
        "cgroup:%2Fa",
        "cgroup:/a b",
        "cgroup:/ä",
        "cgroup:/%ED",
        "pod:u1",
        "pod:u1/c1/more",
        "service:/a",
        "workload:a/b/c",
        "cgroup:/" + "a" * MAX_KEY_BYTES,
    ],
)
def test_text_that_no_key_has_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"history key {text!r}: ")):
        parse_history_key(text)


NAMES = st.text(max_size=80) | st.text(alphabet="a/%#:= \\\n\x00\ud800ä", max_size=200)


@given(st.tuples(NAMES, NAMES, NAMES, NAMES))
def test_workload_key_comes_back_from_its_text(names: tuple[str, str, str, str]) -> None:
    namespace, kind, name, container = names
    key = history_key(identity(container=container), Workload(namespace=namespace, kind=kind, name=name))
    text = str(key)
    assert text.isascii()
    assert len(text) <= MAX_KEY_BYTES
    assert "\n" not in text
    assert parse_history_key(text) == key
    assert key.digest is not None or key == HistoryKey(KeyKind.WORKLOAD, names)


@given(NAMES)
def test_path_key_comes_back_from_its_text(path: str) -> None:
    key = history_key(identity(path), None)
    assert parse_history_key(str(key)) == key


@given(NAMES)
def test_any_text_is_a_key_or_refused(text: str) -> None:
    try:
        key = parse_history_key(text)
    except ValueError:
        return
    assert str(key) == text
