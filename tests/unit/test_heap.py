"""What is asked of the C library's heap; what comes of it tests.bench.agent_cost measures."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from agent.heap import (
    FREE_TOP_BYTES,
    LARGE_BYTES,
    M_ARENA_MAX,
    M_MMAP_THRESHOLD,
    M_TRIM_THRESHOLD,
    MADV_COLD,
    Heap,
    untouched,
)


class Library:
    """A C library that takes notes."""

    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.asked: list[tuple[str, int, int]] = []

    def mallopt(self, option: int, value: int) -> int:
        self.asked.append(("mallopt", option, value))
        return self.answer

    def madvise(self, start: ctypes.c_void_p, length_bytes: ctypes.c_size_t, advice: int) -> int:
        self.asked.append(("madvise", start.value or 0, advice))
        return 0

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


@pytest.mark.parametrize("answer", [0, 1])
def test_heap_asks_for_mappings_of_large_blocks(answer: int) -> None:
    library = Library(answer)
    Heap(library).map_large()  # type: ignore[arg-type]
    assert library.asked == [
        ("mallopt", M_MMAP_THRESHOLD, LARGE_BYTES),
        ("mallopt", M_TRIM_THRESHOLD, FREE_TOP_BYTES),
    ]


def test_a_large_block_is_no_part_of_the_heap_whatever_was_freed_before() -> None:
    """In processes of their own: what malloc is told, it is told for good."""
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("not glibc")
    code = (
        "import ctypes, re, sys\n"
        "from agent.heap import LARGE_BYTES, Heap\n"
        "if sys.argv[1] == 'told':\n"
        "    Heap().map_large()\n"
        "largest = bytes(30 << 20)\n"
        "del largest\n"  # from then on that is glibc's own bound
        "block = bytearray(LARGE_BYTES)\n"
        "address = ctypes.addressof(ctypes.c_char.from_buffer(block))\n"
        "start, end = re.search(r'^(\\w+)-(\\w+) .*\\[heap\\]$', open('/proc/self/maps').read(), re.M).groups()\n"
        "print(int(start, 16) <= address < int(end, 16))\n"
    )

    def is_in_heap(how: str) -> str:
        return subprocess.run([sys.executable, "-c", code, how], capture_output=True, text=True, check=True).stdout

    assert [is_in_heap("told"), is_in_heap("not told")] == ["False\n", "True\n"]


def test_heap_of_another_library_is_left_alone() -> None:
    heap = Heap(object())  # type: ignore[arg-type]
    heap.keep_one_arena()
    heap.map_large()
    heap.give_back()
    heap.give_back_code()


def mapping(head: str, *, anonymous_kib: int = 0, swap_kib: int = 0) -> str:
    return f"{head}\nRss:  64 kB\nAnonymous:  {anonymous_kib} kB\nSwap:  {swap_kib} kB\nVmFlags: rd mr mw me\n"


CODE = "7f0000002000-7f0000005000 r-xp 00001000 fe:00 77 /usr/lib/x86_64-linux-gnu/libcrypto.so.3"


@pytest.mark.parametrize(
    ("smaps", "found"),
    [
        (mapping(CODE), [(0x7F0000002000, 0x3000)]),
        (mapping(CODE.replace("r-xp", "r--p")), [(0x7F0000002000, 0x3000)]),
        (mapping(CODE + " (deleted)"), [(0x7F0000002000, 0x3000)]),
        # What a loader has written stands in no file.
        (mapping(CODE.replace("r-xp", "r--p"), anonymous_kib=4), []),
        (mapping(CODE.replace("r-xp", "r--p"), swap_kib=4), []),
        (mapping(CODE.replace("r-xp", "rw-p")), []),
        (mapping(CODE.replace("r-xp", "rw-s")), []),
        (mapping(CODE.replace("r-xp", "r--s")), []),
        (mapping("7f0000002000-7f0000005000 r-xp 00000000 00:00 0 [vdso]"), []),
        (mapping("7f0000002000-7f0000005000 r--p 00000000 00:00 0"), []),
        (mapping(CODE, anonymous_kib=4) + mapping(CODE), [(0x7F0000002000, 0x3000)]),
        ("", []),
    ],
)
def test_only_mappings_of_files_that_were_never_written_to_are_untouched(
    smaps: str, found: list[tuple[int, int]]
) -> None:
    assert list(untouched(smaps.splitlines())) == found


def test_untouched_pages_are_made_cold_and_let_go(tmp_path: Path) -> None:
    smaps, library = tmp_path / "smaps", Library(1)
    smaps.write_text(mapping(CODE) + mapping(CODE.replace("r-xp", "rw-p")))
    Heap(library).give_back_code(smaps)  # type: ignore[arg-type]
    assert library.asked == [("madvise", 0x7F0000002000, MADV_COLD), ("madvise", 0x7F0000002000, mmap.MADV_DONTNEED)]


def test_without_smaps_nothing_is_let_go(tmp_path: Path) -> None:
    library = Library(1)
    Heap(library).give_back_code(tmp_path / "none")  # type: ignore[arg-type]
    assert library.asked == []


def test_this_process_goes_on_without_its_code_in_memory() -> None:
    code = (
        "import pathlib, numpy, ssl\n"
        "from agent.heap import Heap\n"
        "def file_kib():\n"
        "    text = pathlib.Path('/proc/self/status').read_text()\n"
        "    return int(text.split('RssFile:')[1].split()[0])\n"
        "before = file_kib()\n"
        "Heap().give_back_code()\n"
        "after = file_kib()\n"
        "assert numpy.linspace(0.0, 1.0, 5).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]\n"
        "ssl.create_default_context()\n"
        "print(before, after)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before_kib, after_kib = (int(word) for word in done.stdout.split())
    assert after_kib < 0.75 * before_kib


def test_heap_of_this_machine_takes_it() -> None:
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("not glibc")
    Heap().give_back()
