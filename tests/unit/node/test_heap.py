"""What is asked of the C library's heap; what comes of it tests.bench.agent_cost measures."""

from __future__ import annotations

import ctypes

import pytest

from agent.node.heap import M_ARENA_MAX, Heap


class Library:
    """A C library that takes notes."""

    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.asked: list[tuple[str, int, int]] = []

    def mallopt(self, option: int, value: int) -> int:
        self.asked.append(("mallopt", option, value))
        return self.answer

    def malloc_trim(self, pad_bytes: int) -> int:
        self.asked.append(("malloc_trim", pad_bytes, 0))
        return 1


@pytest.mark.parametrize("answer", [0, 1])
def test_heap_asks_for_one_arena_and_gives_all_back(answer: int) -> None:
    library = Library(answer)
    heap = Heap(library)  # type: ignore[arg-type]
    heap.keep_one_arena()
    heap.give_back()
    assert library.asked == [("mallopt", M_ARENA_MAX, 1), ("malloc_trim", 0, 0)]


def test_heap_of_another_library_is_left_alone() -> None:
    heap = Heap(object())  # type: ignore[arg-type]
    heap.keep_one_arena()
    heap.give_back()


def test_heap_of_this_machine_takes_it() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("not glibc")
    Heap().give_back()
