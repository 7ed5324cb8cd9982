"""rings.py and statefile.py on files in a temporary directory."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from agent.core.window.ring_rows import MEMORY_ROW, MINUTE_ROW, SAMPLE, SLOT_HEADER, Status
from agent.sensing.ring_file import RingFile
from agent.sensing.ring_view import Ring, RingView, field_offset
from agent.sensing.state_file import RingError, RingGeometry, RingsFull, StateInUse, read_boot_id
from tests.memory_rows import newest_memory

BOOT = "0f6d2a1e-1111-4222-8333-444455556666"
OTHER_BOOT = "aaaaaaaa-1111-4222-8333-444455556666"
SMALL = RingGeometry(max_slots=4, raw_length=8, memory_length=4, minute_length=4)
MIB = 1024 * 1024


def open_rings(path: Path | None, geometry: RingGeometry = SMALL, boot_id: str = BOOT) -> RingFile:
    return RingFile.open(path, geometry, boot_id=boot_id)


def fill_raw(rings: RingFile, slot: int, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        row = np.zeros((), SAMPLE)
        row["monotonic_ns"] = number + 1
        row["usage_usec"] = number
        rings.append_raw(slot, row)


def usages(view: RingView) -> list[int]:
    return [int(row["usage_usec"]) for piece in view.pieces for row in piece]


def header_with(path: Path, offset: int, data: bytes, *, sum_again: bool) -> None:
    """Overwrite bytes of the file header; with `sum_again` its checksum is right for them."""
    content = bytearray(path.read_bytes())
    content[offset : offset + len(data)] = data
    checksum_at = struct.calcsize("<8sI4I3IQ3I64s")
    if sum_again:
        struct.pack_into("<I", content, checksum_at, zlib.crc32(content[:checksum_at]))
    path.write_bytes(content)


def test_default_geometry_for_250_slots_is_within_24_mib() -> None:
    # A slot: 1,024 header + 704 x 64 raw + 186 x 104 memory + 1,444 x 24 minutes = 100,080 bytes; 250 and 4,096.
    assert RingGeometry(max_slots=250).file_bytes == 250 * 100_080 + 4096
    assert RingGeometry(max_slots=250).file_bytes <= 24 * MIB


def test_geometry_offsets_are_multiples_of_eight_for_odd_lengths() -> None:
    geometry = RingGeometry(max_slots=3, raw_length=7, memory_length=5, minute_length=3)
    offsets = (geometry.raw_offset, geometry.memory_offset, geometry.minute_offset, geometry.slot_stride)
    assert [offset % 8 for offset in offsets] == [0, 0, 0, 0]


@pytest.mark.parametrize("field", ["max_slots", "raw_length", "memory_length", "minute_length"])
def test_geometry_of_zero_is_refused_with_the_field_and_what_is_allowed(field: str) -> None:
    with pytest.raises(ValueError, match=rf"{field} is 0, allowed are [12] to"):
        RingGeometry(**{field: 0})


def test_new_file_is_sparse_and_has_its_full_size(tmp_path: Path) -> None:
    with open_rings(tmp_path / "rings", RingGeometry()) as rings:
        status = (tmp_path / "rings").stat()
        assert status.st_size == rings.file_bytes == RingGeometry().file_bytes
        assert status.st_blocks * 512 < MIB
        assert rings.set_aside is None
        assert rings.touched_bytes == 4096


def test_attached_slot_begins_empty(tmp_path: Path) -> None:
    with open_rings(tmp_path / "rings") as rings:
        slot = rings.attach("kubepods/a", 7, now_monotonic_ns=1)
        assert rings.newest(slot) is None
        assert newest_memory(rings, slot) is None
        assert rings.raw(slot).pieces == ()
        assert len(rings.raw(slot)) == 0
        assert rings.retained() == {"kubepods/a": slot}
        assert rings.inode(slot) == 7


def test_view_before_the_wrap_is_one_piece_that_copies_nothing(tmp_path: Path) -> None:
    with open_rings(tmp_path / "rings") as rings:
        slot = rings.attach("a", 7, now_monotonic_ns=1)
        fill_raw(rings, slot, 5)
        view = rings.raw(slot, 3)
        assert [len(piece) for piece in view.pieces] == [3]
        assert usages(view) == [2, 3, 4]
        assert np.shares_memory(view.pieces[0], np.frombuffer(rings.buffer, np.uint8))
        del view


def test_view_across_the_wrap_is_two_views_oldest_first(tmp_path: Path) -> None:
    with open_rings(tmp_path / "rings") as rings:
        slot = rings.attach("a", 7, now_monotonic_ns=1)
        fill_raw(rings, slot, 11)
        view = rings.raw(slot)
        # 11 rows in a ring of 8: rows 3..10 are there; row 3 may be the one being overwritten, so 7 are shown.
        # Row i lies at i % 8: 4..7 in one piece, 8..10 in the other.
        assert [len(piece) for piece in view.pieces] == [4, 3]
        assert usages(view) == [4, 5, 6, 7, 8, 9, 10]
        memory = np.frombuffer(rings.buffer, np.uint8)
        assert all(np.shares_memory(piece, memory) for piece in view.pieces)
        assert view.intact()
        del view, memory


def test_view_that_ends_at_the_ring_s_end_is_one_piece(tmp_path: Path) -> None:
    with open_rings(tmp_path / "rings") as rings:
        slot = rings.attach("a", 7, now_monotonic_ns=1)
        fill_raw(rings, slot, 8)
        assert usages(rings.raw(slot)) == [1, 2, 3, 4, 5, 6, 7]
        assert len(rings.raw(slot).pieces) == 1


def test_every_length_at_every_head_gives_the_newest_rows() -> None:
    with open_rings(None) as rings:
        slot = rings.attach("a", 7, now_monotonic_ns=1)
        for head in range(1, 30):
            fill_raw(rings, slot, 1, start=head - 1)
            for wanted in range(9):
                count = min(wanted, head, 7)
                assert usages(rings.raw(slot, wanted)) == list(range(head - count, head))


def test_lapped_view_is_not_intact_and_joined_gives_what_is_left() -> None:
    with open_rings(None) as rings:
        slot = rings.attach("a", 7, now_monotonic_ns=1)
        fill_raw(rings, slot, 10)
        view = rings.raw(slot, 4)  # rows 6..9
        fill_raw(rings, slot, 3, start=10)
        assert view.intact()  # the head is 13: row 13 goes over row 5, which the view does not have
        fill_raw(rings, slot, 1, start=13)
        assert not view.intact()  # the head is 14: row 14 may be half written over row 6
        joined = view.joined()  # half as many
        assert [int(row["usage_usec"]) for row in joined] == [12, 13]
        assert not np.shares_memory(joined, np.frombuffer(rings.buffer, np.uint8))


def test_full_view_is_lapped_by_the_second_row_written_after_it() -> None:
    with open_rings(None) as rings:
        slot = rings.attach("a", 7, now_monotonic_ns=1)
        fill_raw(rings, slot, 20)
        view = rings.raw(slot)  # rows 13..19 of the 12..19 there; row 20 goes over row 12
        assert view.intact()
        fill_raw(rings, slot, 1, start=20)  # row 21 would go over row 13
        assert not view.intact()


def test_view_of_a_slot_that_went_to_another_cgroup_is_not_intact() -> None:
    with open_rings(None) as rings:
        slot = rings.attach("a", 7, now_monotonic_ns=1)
        fill_raw(rings, slot, 3)
        view = rings.raw(slot)
        rings.release(slot)
        assert view.intact()  # released, not reused: its rows can still be rolled up
        assert rings.attach("b", 8, now_monotonic_ns=2) == slot
        assert not view.intact()
        assert len(view.joined()) == 0
        fill_raw(rings, slot, 3)
        assert not view.intact()  # the head is where it was: the generation tells


def test_memory_and_minute_rings_are_apart_and_wrap() -> None:
    with open_rings(None) as rings:
        slot = rings.attach("a", 7, now_monotonic_ns=1)
        for number in range(6):
            memory_row = np.zeros((), MEMORY_ROW)
            memory_row["memory_current_bytes"] = number
            rings.append_memory(slot, memory_row)
            minute = np.zeros(1, MINUTE_ROW)  # shape (1,) is as good as shape ()
            minute["monotonic_minute"] = number
            rings.append_minute(slot, minute)
        assert rings.memory(slot).joined()["memory_current_bytes"].tolist() == [3, 4, 5]
        assert rings.minutes(slot).joined()["monotonic_minute"].tolist() == [3, 4, 5]
        assert rings.raw(slot).pieces == ()
        newest = newest_memory(rings, slot)
        assert newest is not None
        assert newest["memory_current_bytes"] == 5


def test_reopened_file_goes_on_with_slots_rows_and_generations(tmp_path: Path) -> None:
    path = tmp_path / "rings"
    with open_rings(path) as rings:
        slot = rings.attach("kubepods/a", 7, now_monotonic_ns=1)
        gone = rings.attach("kubepods/b", 8, now_monotonic_ns=1)
        rings.release(gone)
        fill_raw(rings, slot, 10)
        rings.set_peaks(slot, working_set_pending_bytes=5, memory_peak_seen_bytes=6)
        generation = rings.generation(slot)
    with open_rings(path) as rings:
        assert rings.set_aside is None
        assert rings.retained() == {"kubepods/a": slot}
        assert rings.attach("kubepods/a", 7, now_monotonic_ns=9) == slot
        assert rings.generation(slot) == generation
        assert usages(rings.raw(slot)) == [3, 4, 5, 6, 7, 8, 9]
        assert rings.peaks(slot) == (5, 6)
        # 4,096 + two slot headers ever used + 8 rows of 64 bytes in the ring of 8
        assert rings.touched_bytes == 4096 + 2 * 1024 + 8 * 64


def test_attach_of_another_inode_under_the_same_path_is_a_new_slot_with_a_new_generation() -> None:
    with open_rings(None) as rings:
        slot = rings.attach("a", 7, now_monotonic_ns=1)
        fill_raw(rings, slot, 3)
        other = rings.attach("a", 8, now_monotonic_ns=2)
        assert other != slot
        assert rings.retained() == {"a": other}
        assert rings.newest(other) is None
        # The old slot is free and, freed last, handed out first, with one generation more.
        before = rings.generation(slot)
        assert rings.attach("b", 9, now_monotonic_ns=3) == slot
        assert rings.generation(slot) == before + 1
        assert rings.newest(slot) is None


def test_attach_of_another_inode_when_full_takes_the_slot_of_its_namesake() -> None:
    with open_rings(None) as rings:
        slots = {name: rings.attach(name, 1, now_monotonic_ns=1) for name in "abcd"}
        generation = rings.generation(slots["b"])
        assert rings.attach("b", 2, now_monotonic_ns=2) == slots["b"]
        assert rings.generation(slots["b"]) == generation + 1
        with pytest.raises(RingsFull, match="all 4 slots are in use: e is not watched"):
            rings.attach("e", 1, now_monotonic_ns=3)


def test_released_slots_are_handed_out_last_in_first_out() -> None:
    with open_rings(None) as rings:
        slots = [rings.attach(name, 1, now_monotonic_ns=1) for name in "abc"]
        rings.release(slots[2])
        rings.release(slots[0])
        rings.release(slots[0])  # twice is fine
        assert rings.attach("d", 1, now_monotonic_ns=1) == slots[0]
        assert rings.attach("e", 1, now_monotonic_ns=1) == slots[2]
        assert rings.attach("f", 1, now_monotonic_ns=1) not in slots


def test_slots_used_before_are_preferred_after_a_restart(tmp_path: Path) -> None:
    with open_rings(tmp_path / "rings") as rings:
        rings.attach("a", 1, now_monotonic_ns=1)
        used = rings.attach("b", 1, now_monotonic_ns=1)
        rings.release(used)
    with open_rings(tmp_path / "rings") as rings:
        assert rings.attach("c", 1, now_monotonic_ns=1) == used


def test_path_too_long_for_a_slot_is_refused_with_its_length() -> None:
    with open_rings(None) as rings, pytest.raises(RingError, match="769 bytes, at most 768"):
        rings.attach("a" * 769, 1, now_monotonic_ns=1)


def test_path_with_any_bytes_survives_a_restart(tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xff/" + "ü".encode() * 300)
    with open_rings(tmp_path / "rings") as rings:
        slot = rings.attach(name, 1, now_monotonic_ns=1)
    with open_rings(tmp_path / "rings") as rings:
        assert rings.retained() == {name: slot}


def test_slot_number_out_of_range_is_refused() -> None:
    with open_rings(None) as rings, pytest.raises(ValueError, match="slot 4, allowed are 0 to 3"):
        rings.raw(4)


def damaged_version(path: Path) -> None:
    header_with(path, 8, struct.pack("<I", 3), sum_again=True)


def damaged_checksum(path: Path) -> None:
    header_with(path, 70, b"x", sum_again=False)


def damaged_magic(path: Path) -> None:
    header_with(path, 0, b"NOTRINGS", sum_again=True)


def damaged_geometry(path: Path) -> None:
    path.unlink()
    open_rings(path, RingGeometry(max_slots=5, raw_length=8, memory_length=4, minute_length=4)).close()


def damaged_size(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 8)


def damaged_stump(path: Path) -> None:
    os.truncate(path, 100)


def damaged_text(path: Path) -> None:
    path.write_text("something else altogether\n", encoding="utf-8")


DAMAGES = [
    (damaged_version, "version 3, this program reads 2"),
    (damaged_checksum, "bad checksum of the header"),
    (damaged_magic, "not a state file: it begins with b'NOTRINGS'"),
    (damaged_geometry, r"geometry \(5, 8, 4, 4\) .* set to \(4, 8, 4, 4\)"),
    (damaged_size, r"truncated: \d+ bytes, its geometry needs \d+"),
    (damaged_stump, "truncated: 100 bytes"),
    (damaged_text, "truncated: 26 bytes"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_file_that_cannot_be_gone_on_with_is_set_aside_whole(tmp_path: Path, damage: object, reason: str) -> None:
    path = tmp_path / "rings"
    with open_rings(path) as rings:
        fill_raw(rings, rings.attach("a", 7, now_monotonic_ns=1), 3)
    assert callable(damage)
    damage(path)
    before = path.read_bytes()
    with open_rings(path) as rings:
        aside = rings.set_aside
        assert aside is not None
        assert aside.name.startswith("rings.set-aside-2")
        assert aside.read_bytes() == before
        assert rings.set_aside_reason is not None
        assert re.search(reason, rings.set_aside_reason)
        assert rings.retained() == {}
        rings.attach("b", 1, now_monotonic_ns=1)
    with open_rings(path) as rings:  # the new one is a good one
        assert rings.set_aside is None
        assert list(rings.retained()) == ["b"]


def test_of_what_was_set_aside_the_last_alone_is_kept_as_it_takes_memory(tmp_path: Path) -> None:
    path = tmp_path / "rings"
    asides = []
    for number in range(3):
        path.write_text(f"garbage {number}", encoding="utf-8")
        with open_rings(path) as rings:
            assert rings.set_aside is not None
            asides.append(rings.set_aside)
            assert rings.set_aside.read_text(encoding="utf-8") == f"garbage {number}"
        path.unlink()
    assert [*tmp_path.iterdir()] == [asides[-1]]


def test_file_of_another_boot_is_kept_as_previous_boot_and_a_new_one_begun(tmp_path: Path) -> None:
    path = tmp_path / "rings"
    for boot in (BOOT, OTHER_BOOT):
        with open_rings(path, boot_id=boot) as rings:
            rings.attach(f"in {boot}", 7, now_monotonic_ns=1)
    with open_rings(path, boot_id=BOOT) as rings:
        assert rings.set_aside == tmp_path / "rings.previous-boot"
        assert rings.set_aside_reason is not None
        assert OTHER_BOOT in rings.set_aside_reason
        assert rings.retained() == {}
    # Only the newest of the earlier boots is kept, and it can be looked at.
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rings", "rings.previous-boot"]
    with RingFile.open_readonly(tmp_path / "rings.previous-boot") as old:
        assert old.boot_id == OTHER_BOOT
        assert list(old.retained()) == [f"in {OTHER_BOOT}"]


def test_damaged_slot_alone_is_freed_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "rings"
    with open_rings(path) as rings:
        bad = rings.attach("bad", 7, now_monotonic_ns=1)
        good = rings.attach("good", 8, now_monotonic_ns=1)
        fill_raw(rings, good, 2)
    fields = SLOT_HEADER.fields
    assert fields is not None
    with path.open("r+b") as file:
        file.seek(4096 + bad * SMALL.slot_stride + fields["path"][1])
        file.write(b"B")
    with open_rings(path) as rings:
        assert rings.set_aside is None
        assert rings.damaged_slots == 1
        assert rings.retained() == {"good": good}
        assert usages(rings.raw(good)) == [0, 1]
        assert rings.attach("bad", 7, now_monotonic_ns=2) == bad
        assert rings.newest(bad) is None


def test_file_whose_maker_was_killed_before_the_header_is_simply_begun(tmp_path: Path) -> None:
    path = tmp_path / "rings"
    path.touch()
    os.truncate(path, SMALL.file_bytes)
    with open_rings(path) as rings:
        assert rings.set_aside is None


def test_slot_whose_attach_was_cut_short_is_free(tmp_path: Path) -> None:
    path = tmp_path / "rings"
    with open_rings(path) as rings:
        slot = rings.attach("a", 7, now_monotonic_ns=1)
    with path.open("r+b") as file:  # the state is stored last: killed before that, all else is there
        file.seek(4096 + slot * SMALL.slot_stride + 4)
        file.write(struct.pack("<I", 0))
    with open_rings(path) as rings:
        assert rings.retained() == {}
        assert rings.damaged_slots == 0


def test_two_slots_of_one_path_keep_the_younger(tmp_path: Path) -> None:
    path = tmp_path / "rings"
    with open_rings(path) as rings:
        old = rings.attach("a", 7, now_monotonic_ns=1)
        young = rings.attach("a", 8, now_monotonic_ns=2)
    with path.open("r+b") as file:  # killed before the old one was freed
        file.seek(4096 + old * SMALL.slot_stride + 4)
        file.write(struct.pack("<I", 1))
    with open_rings(path) as rings:
        assert rings.retained() == {"a": young}
        assert rings.damaged_slots == 0


def test_second_opener_in_this_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rings"
    with open_rings(path), pytest.raises(StateInUse, match=f"pid {os.getpid()}"):
        open_rings(path)


def test_second_agent_is_refused_with_pid_and_command_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "rings"
    program = (
        "import sys; from pathlib import Path; from agent.sensing.ring_file import *\n"
        f"rings = RingFile.open(Path({str(path)!r}), RingGeometry(max_slots=4), boot_id={BOOT!r})\n"
        "print('open', flush=True); sys.stdin.read(); rings.close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, "first-agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"open\n"
        with pytest.raises(StateInUse, match=rf"{path} is in use by pid {first.pid} \(.*first-agent\)"):
            open_rings(path, RingGeometry(max_slots=4))
        # Another geometry is no reason to set aside a file that is in use.
        with pytest.raises(StateInUse):
            open_rings(path, SMALL)
        assert [file.name for file in tmp_path.iterdir()] == ["rings"]
    assert first.returncode == 0
    open_rings(path, RingGeometry(max_slots=4)).close()


def test_lock_goes_with_close_even_when_views_are_still_held(tmp_path: Path) -> None:
    rings = open_rings(tmp_path / "rings")
    slot = rings.attach("a", 7, now_monotonic_ns=1)
    fill_raw(rings, slot, 2)
    view = rings.raw(slot)
    rings.close()
    rings.close()
    assert usages(view) == [0, 1]
    open_rings(tmp_path / "rings").close()


def test_closed_file_refuses_writers() -> None:
    rings = open_rings(None)
    rings.close()
    with pytest.raises(RingError, match="closed"):
        rings.attach("a", 1, now_monotonic_ns=1)


def test_readonly_sees_what_the_writer_does_and_refuses_to_write(tmp_path: Path) -> None:
    path = tmp_path / "rings"
    with open_rings(path) as writer, RingFile.open_readonly(path) as reader:
        assert reader.geometry == SMALL
        assert reader.retained() == {}
        slot = writer.attach("a", 7, now_monotonic_ns=1)
        fill_raw(writer, slot, 3)
        assert reader.retained() == {"a": slot}
        assert usages(reader.raw(slot)) == [0, 1, 2]
        with pytest.raises(RingError, match="reading only"):
            reader.attach("b", 1, now_monotonic_ns=1)
        with pytest.raises(ValueError, match="read-only"):
            reader.append_raw(slot, np.zeros((), SAMPLE))


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_readonly_of_what_is_no_state_file_says_so(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "rings"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RingError, match=f"state file {path}: (No such file|truncated)"):
        RingFile.open_readonly(path)


def test_directory_that_is_not_there_is_one_line_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(RingError, match=r"state file .*/missing/rings: No such file or directory"):
        open_rings(tmp_path / "missing" / "rings")


def test_full_disk_is_refused_at_attach_not_met_in_the_mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(fd: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    with open_rings(tmp_path / "rings") as rings:
        monkeypatch.setattr(os, "posix_fallocate", no_space)
        with pytest.raises(RingsFull, match="No space left"):
            rings.attach("a", 1, now_monotonic_ns=1)
        monkeypatch.undo()
        assert rings.attach("a", 1, now_monotonic_ns=1) == 0


def test_failing_disk_is_refused_at_attach_as_an_error_of_the_state_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(fd: int, offset: int, length: int) -> None:
        raise OSError(5, "Input/output error")

    with open_rings(tmp_path / "rings") as rings:
        monkeypatch.setattr(os, "posix_fallocate", failing)
        with pytest.raises(RingError, match=r"state file .*/rings: its disk gives no blocks: Input/output error"):
            rings.attach("a", 1, now_monotonic_ns=1)
        assert rings.retained() == {}


def test_boot_id_is_the_file_s_content_without_its_newline(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text(f"{BOOT}\n", encoding="ascii")
    assert read_boot_id(tmp_path / "boot_id") == BOOT


def test_touched_bytes_while_another_thread_attaches_does_not_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_rings(None) as rings:
        rings.attach("a", 1, now_monotonic_ns=1)
        head = Ring.head

        def head_while_another_attaches(ring: Ring, slot: int) -> int:
            rings.attach("b", 2, now_monotonic_ns=1)  # the moment at which the sampling thread finds a container
            return head(ring, slot)

        monkeypatch.setattr(Ring, "head", head_while_another_attaches)
        assert rings.touched_bytes == 4096 + 1024


def test_newest_rows_of_a_slot_without_a_sample_hold_nothing_of_its_earlier_life() -> None:
    with open_rings(None) as rings:
        slot = rings.attach("a", 1, now_monotonic_ns=1)
        fill_raw(rings, slot, 8, start=5)  # the ring is full: usages 5 to 12
        rings.release(slot)
        assert rings.attach("b", 2, now_monotonic_ns=1) == slot
        full = rings.attach("c", 3, now_monotonic_ns=1)
        fill_raw(rings, full, 3)
        rows = rings.newest_rows([slot, full])
        assert rows["status"].tolist() == [Status.ABSENT, Status.OK]
        assert rows["usage_usec"].tolist() == [0, 2]


def test_newest_minutes_are_those_of_the_newest_rows_also_where_the_ring_has_come_round() -> None:
    with open_rings(None) as rings:
        none, few, many = (rings.attach(name, number, now_monotonic_ns=1) for number, name in enumerate("abc"))
        length = rings.geometry.minute_length
        for slot, count in ((few, 2), (many, length + 3)):
            for minute in range(count):
                row = np.zeros(1, MINUTE_ROW)
                row["monotonic_minute"] = 100 + minute
                rings.append_minute(slot, row)
        assert rings.newest_minutes([many, none, few]) == [100 + length + 2, None, 101]
        assert rings.newest_minutes([]) == []


@pytest.mark.parametrize("field", ["raw_head", "memory_head", "minute_head"])
def test_slot_with_a_head_no_sampler_can_have_reached_is_damaged_and_freed(tmp_path: Path, field: str) -> None:
    path = tmp_path / "rings"
    with open_rings(path) as rings:
        for number, name in enumerate(("a", "b")):
            fill_raw(rings, rings.attach(name, number, now_monotonic_ns=1), 3)
    offset = 4096 + field_offset(field)  # of slot 0, which is a's
    content = bytearray(path.read_bytes())
    struct.pack_into("<Q", content, offset, 2**63 + 5)
    path.write_bytes(content)
    with open_rings(path) as rings:
        assert rings.retained() == {"b": 1}
        assert rings.damaged_slots == 1
        assert usages(rings.raw(rings.attach("a", 0, now_monotonic_ns=1))) == []
