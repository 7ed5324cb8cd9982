from __future__ import annotations

from typing import Any

import pytest

from agent.kube.objects.json_reader import Reader
from agent.kube.watch.watched_objects import HELD_SECONDS, UNKNOWN, ReflectedObjects, compare_versions


def read(document: object) -> str:
    return Reader(document, "").required_text("say")


def kept() -> ReflectedObjects[str]:
    return ReflectedObjects(read, lambda one, other: one == other)


def thing(
    say: str | None, version: str | None, *, name: str = "a", uid: str = "u", generation: int = 1
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": version, "generation": generation}
    return {"metadata": metadata, "say": say}


def put(one: ReflectedObjects[str], document: object, now_seconds: float = 0.0) -> bool:
    return one.put(one.entry(document), now_seconds=now_seconds)


def answer(one: ReflectedObjects[str], document: object, now_seconds: float = 0.0) -> bool:
    return one.put_answer(one.entry(document), now_seconds=now_seconds)


def replace(one: ReflectedObjects[str], *documents: object, now_seconds: float = 0.0, is_newest: bool = False) -> bool:
    entries = [one.entry(document) for document in documents]
    return one.replace_all(entries, now_seconds=now_seconds, is_newest=is_newest)


def test_values_are_ordered_and_only_changes_of_value_are_news() -> None:
    one = kept()
    assert put(one, thing("x", "1", name="b"))
    assert put(one, thing("y", "2", name="a"))
    assert not put(one, thing("y", "3", name="a"))
    assert put(one, thing("z", "4", name="a"))
    assert one.values() == ("z", "x")
    assert len(one) == 2


def test_a_malformed_object_affects_only_itself_until_it_is_right_again() -> None:
    one = kept()
    put(one, thing("x", "1", name="good"))
    assert put(one, thing(None, "2", name="bad"))
    assert not put(one, thing(None, "3", name="bad"))
    assert one.values() == ("x",)
    assert one.faults() == ("n/bad: say: missing (a text that is not empty)",)
    assert put(one, thing("y", "4", name="bad"))
    assert one.faults() == ()
    assert put(one, thing(None, "5", name="bad"))
    assert one.remove(one.entry(thing(None, "6", name="bad")))
    assert one.faults() == ()


@pytest.mark.parametrize("document", [{}, [], None, {"metadata": 1}, {"metadata": {"name": 1}}])
def test_an_object_without_a_name_is_a_fault_of_its_own(document: object) -> None:
    one = kept()
    put(one, document)
    assert [fault.partition(": ")[0] for fault in one.faults()] == [UNKNOWN]


def test_a_list_replaces_everything_and_says_whether_that_is_news() -> None:
    one = kept()
    assert not replace(one)
    assert replace(one, thing("x", "1"), thing("y", "2", name="b"))
    assert not replace(one, thing("x", "3"), thing("y", "4", name="b"))
    assert replace(one, thing("x", "3"))
    assert one.values() == ("x",)


def test_the_answer_to_a_patch_wins_until_the_watch_is_as_new() -> None:
    one = kept()
    put(one, thing("old", "9"))
    assert answer(one, thing("patched", "11", generation=2))
    assert not put(one, thing("between", "10"))
    assert one.values() == ("patched",)
    assert not put(one, thing("patched", "11", generation=2))
    assert put(one, thing("later", "12", generation=2))
    assert one.values() == ("later",)


def test_an_answer_no_newer_than_what_is_known_is_left() -> None:
    one = kept()
    assert not answer(one, thing("unknown", "5"))
    put(one, thing("here", "10", generation=3))
    assert not answer(one, thing("older", "9", generation=9))  # 9 is before 10 as a number, not as a text
    assert not answer(one, thing("same", "10"))
    assert not answer(one, thing("another", "11", uid="other"))
    assert not answer(one, thing(None, "11"))
    assert one.values() == ("here",)


def test_versions_that_are_no_numbers_are_ordered_by_generation() -> None:
    one = kept()
    put(one, thing("old", "x", generation=1))
    assert answer(one, thing("patched", "y", generation=2))
    assert not put(one, thing("old status", "z", generation=1))
    assert put(one, thing("new status", "w", generation=2))
    assert one.values() == ("new status",)


def test_an_answer_is_defended_for_a_while_only_and_never_against_a_newest_list() -> None:
    one = kept()
    put(one, thing("old", "1"))
    answer(one, thing("patched", "9"))
    assert not replace(one, thing("cached", "5"))
    assert one.values() == ("patched",)
    # etcd was put back from a backup: everything is older now.
    assert replace(one, thing("restored", "3"), is_newest=True)
    assert one.values() == ("restored",)
    answer(one, thing("patched", "9"), now_seconds=100.0)
    assert not put(one, thing("older", "5"), now_seconds=100.0 + HELD_SECONDS - 0.1)
    assert put(one, thing("older", "5"), now_seconds=100.0 + HELD_SECONDS)


def test_a_deletion_takes_away_its_own_object_only() -> None:
    one = kept()
    put(one, thing("first", "1", uid="first"))
    put(one, thing("second", "2", uid="second"))
    assert not one.remove(one.entry(thing("first", "3", uid="first")))
    assert one.values() == ("second",)
    assert one.remove(one.entry(thing("second", "4", uid="second")))
    assert not one.remove(one.entry(thing("second", "4", uid="second")))


@pytest.mark.parametrize(
    ("one", "other", "order"), [("9", "10", -1), ("10", "10", 0), ("11", "10", 1), ("a", "1", None), (None, "1", None)]
)
def test_versions_compare_as_numbers_or_not_at_all(one: str | None, other: str, order: int | None) -> None:
    assert compare_versions(one, other) == order
