from __future__ import annotations

from typing import Any

import pytest

from agent.kube.objects.json_reader import Reader
from agent.kube.watch.watched_objects import HELD_SECONDS, UNKNOWN, ReflectedObjects, compare_versions


def read(document: object) -> str:
    return Reader(document, "").required_text("say")


def kept() -> ReflectedObjects[str]:
    return ReflectedObjects(read, lambda text, other: text == other)


def thing(
    say: str | None, version: str | None, *, name: str = "a", uid: str = "u", generation: int = 1
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": version, "generation": generation}
    return {"metadata": metadata, "say": say}


def put(objects: ReflectedObjects[str], document: object, now_seconds: float = 0.0) -> bool:
    return objects.put(objects.entry(document), now_seconds=now_seconds)


def answer(objects: ReflectedObjects[str], document: object, now_seconds: float = 0.0) -> bool:
    return objects.put_answer(objects.entry(document), now_seconds=now_seconds)


def replace(
    objects: ReflectedObjects[str], *documents: object, now_seconds: float = 0.0, is_newest: bool = False
) -> bool:
    entries = [objects.entry(document) for document in documents]
    return objects.replace_all(entries, now_seconds=now_seconds, is_newest=is_newest)


def test_values_are_ordered_and_only_changes_of_value_are_news() -> None:
    objects = kept()
    assert put(objects, thing("x", "1", name="b"))
    assert put(objects, thing("y", "2", name="a"))
    assert not put(objects, thing("y", "3", name="a"))
    assert put(objects, thing("z", "4", name="a"))
    assert objects.values() == ("z", "x")
    assert len(objects) == 2


def test_a_malformed_object_affects_only_itself_until_it_is_right_again() -> None:
    objects = kept()
    put(objects, thing("x", "1", name="good"))
    assert put(objects, thing(None, "2", name="bad"))
    assert not put(objects, thing(None, "3", name="bad"))
    assert objects.values() == ("x",)
    assert objects.faults() == ("n/bad: say: missing (a text that is not empty)",)
    assert put(objects, thing("y", "4", name="bad"))
    assert objects.faults() == ()
    assert put(objects, thing(None, "5", name="bad"))
    assert objects.remove(objects.entry(thing(None, "6", name="bad")))
    assert objects.faults() == ()


@pytest.mark.parametrize("document", [{}, [], None, {"metadata": 1}, {"metadata": {"name": 1}}])
def test_an_object_without_a_name_is_a_fault_of_its_own(document: object) -> None:
    objects = kept()
    put(objects, document)
    assert [fault.partition(": ")[0] for fault in objects.faults()] == [UNKNOWN]


def test_a_list_replaces_everything_and_says_whether_that_is_news() -> None:
    objects = kept()
    assert not replace(objects)
    assert replace(objects, thing("x", "1"), thing("y", "2", name="b"))
    assert not replace(objects, thing("x", "3"), thing("y", "4", name="b"))
    assert replace(objects, thing("x", "3"))
    assert objects.values() == ("x",)


def test_the_answer_to_a_patch_wins_until_the_watch_is_as_new() -> None:
    objects = kept()
    put(objects, thing("old", "9"))
    assert answer(objects, thing("patched", "11", generation=2))
    assert not put(objects, thing("between", "10"))
    assert objects.values() == ("patched",)
    assert not put(objects, thing("patched", "11", generation=2))
    assert put(objects, thing("later", "12", generation=2))
    assert objects.values() == ("later",)


def test_an_answer_no_newer_than_what_is_known_is_left() -> None:
    objects = kept()
    assert not answer(objects, thing("unknown", "5"))
    put(objects, thing("here", "10", generation=3))
    assert not answer(objects, thing("older", "9", generation=9))  # 9 is before 10 as a number, not as a text
    assert not answer(objects, thing("same", "10"))
    assert not answer(objects, thing("another", "11", uid="other"))
    assert not answer(objects, thing(None, "11"))
    assert objects.values() == ("here",)


def test_versions_that_are_no_numbers_are_ordered_by_generation() -> None:
    objects = kept()
    put(objects, thing("old", "x", generation=1))
    assert answer(objects, thing("patched", "y", generation=2))
    assert not put(objects, thing("old status", "z", generation=1))
    assert put(objects, thing("new status", "w", generation=2))
    assert objects.values() == ("new status",)


def test_an_answer_is_defended_for_a_while_only_and_never_against_a_newest_list() -> None:
    objects = kept()
    put(objects, thing("old", "1"))
    answer(objects, thing("patched", "9"))
    assert not replace(objects, thing("cached", "5"))
    assert objects.values() == ("patched",)
    # etcd was put back from a backup: everything is older now.
    assert replace(objects, thing("restored", "3"), is_newest=True)
    assert objects.values() == ("restored",)
    answer(objects, thing("patched", "9"), now_seconds=100.0)
    assert not put(objects, thing("older", "5"), now_seconds=100.0 + HELD_SECONDS - 0.1)
    assert put(objects, thing("older", "5"), now_seconds=100.0 + HELD_SECONDS)


def test_a_deletion_takes_away_its_own_object_only() -> None:
    objects = kept()
    put(objects, thing("first", "1", uid="first"))
    put(objects, thing("second", "2", uid="second"))
    assert not objects.remove(objects.entry(thing("first", "3", uid="first")))
    assert objects.values() == ("second",)
    assert objects.remove(objects.entry(thing("second", "4", uid="second")))
    assert not objects.remove(objects.entry(thing("second", "4", uid="second")))


@pytest.mark.parametrize(
    ("one", "other", "order"), [("9", "10", -1), ("10", "10", 0), ("11", "10", 1), ("a", "1", None), (None, "1", None)]
)
def test_versions_compare_as_numbers_or_not_at_all(one: str | None, other: str, order: int | None) -> None:
    assert compare_versions(one, other) == order
