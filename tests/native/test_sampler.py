"""The compiled sampler and the one in plain Python: equal rows for equal bytes, and each alone on a fake tree."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.window.ring_rows import CAUSES, FILES, Has, Status
from agent.sensing.reference_sampler import BUFFER_BYTES, ReferenceSampler
from agent.sensing.ring_file import RingFile
from agent.sensing.ring_view import Rows
from agent.sensing.sampler import NativeSampler, open_sampler, raise_open_files_limit
from agent.sensing.sampler_contract import CgroupGone, FilesExhausted, Sampler, SamplerError
from agent.sensing.state_file import RingGeometry
from tests.memory_rows import newest_memory

GEOMETRY = RingGeometry(max_slots=8, raw_length=16, memory_length=8, minute_length=2)
MIB = 1024 * 1024

CPU_STAT = b"usage_usec 5000\nuser_usec 4000\nsystem_usec 1000\nnr_periods 10\nnr_throttled 3\nthrottled_usec 700\n"
PRESSURE = b"some avg10=0.61 avg60=0.76 avg300=0.27 total=4871107\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"
GOOD: dict[str, bytes] = {
    "cpu.stat": CPU_STAT,
    "cpu.pressure": PRESSURE,
    "memory.current": b"10485760\n",
    "memory.stat": b"anon 6291456\nfile 4194304\nkernel 100\ninactive_anon 5\ninactive_file 2097152\n"
    b"active_file 1048576\nworkingset_refault_anon 3\nworkingset_refault_file 77\nworkingset_activate_file 5\n",
    "memory.peak": b"20971520\n",
    "memory.pressure": PRESSURE.replace(b"4871107", b"55"),
    "io.pressure": PRESSURE.replace(b"4871107", b"66"),
    "memory.events": b"low 0\nhigh 4\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n",
}

Maker = Callable[[Path, RingFile], Sampler]
MAKERS: dict[str, Maker] = {
    "native": lambda root, rings: NativeSampler(root, rings, fd_budget=500, max_lanes=4),
    "reference": lambda root, rings: ReferenceSampler(root, rings, fd_budget=500, max_lanes=4),
}


def write_group(directory: Path, files: Mapping[str, bytes | None] = GOOD) -> None:
    """Make a directory look like a cgroup; None is a file that is not there."""
    directory.mkdir(exist_ok=True)
    for name, content in files.items():
        path = directory / name
        if content is not None:  # in place: a kept descriptor stays on its file, as it does for a cgroup's
            path.write_bytes(content)
        elif path.exists():
            path.unlink()


@dataclass
class Bench:
    """A sampler, its rings and a fake cgroup root."""

    sampler: Sampler
    rings: RingFile
    root: Path

    def add(self, name: str) -> int:
        inode = (self.root / name).stat().st_ino
        slot = self.rings.attach(name, inode, now_monotonic_ns=1)
        self.sampler.add(slot, name, inode)
        return slot

    def sample(self, slot: int, *, slow: bool = False, retry: bool = False) -> np.void:
        self.sampler.sweep(slow=slow, retry_absent=retry)
        row = self.rings.newest(slot)
        assert row is not None
        return row


@pytest.fixture(params=list(MAKERS))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    name: str = request.param
    with RingFile.open(None, GEOMETRY, boot_id="boot") as rings:
        sampler = MAKERS[name](tmp_path, rings)
        yield Bench(sampler, rings, tmp_path)
        sampler.close()


def test_sweep_of_a_good_group_stores_every_counter(bench: Bench) -> None:
    write_group(bench.root / "a")
    slot = bench.add("a")
    result = bench.sampler.sweep(slow=True, retry_absent=False)
    assert (result.sampled, result.failed, result.memory_rows, result.gone) == (1, 0, 1, ())
    row = bench.rings.newest(slot)
    memory = newest_memory(bench.rings, slot)
    assert row is not None
    assert memory is not None
    assert result.started_ns <= row["monotonic_ns"] <= memory["monotonic_ns"] <= result.finished_ns
    assert row.tolist()[1:] == (5000, 700, 4871107, 12, 10485760, 10, 3, 0, 1 | 2 | 4 | 8)
    # Working set: 10 MiB current - 2 MiB inactive file = 8 MiB.
    assert memory.tolist()[1:] == (
        10 * MIB,
        2 * MIB,
        6 * MIB,
        8 * MIB,
        20 * MIB,
        55,
        12,
        66,
        1 * MIB,
        77,
        1,
        4,
        0,
        2 | 16 | 32 | 64 | 128 | 256 | 512,
    )


def test_refaults_are_not_known_where_the_kernel_does_not_count_them_of_files(bench: Bench) -> None:
    old = b"anon 6291456\ninactive_file 2097152\nactive_file 1048576\nworkingset_refault 9\n"  # before kernel 5.9
    write_group(bench.root / "a", {**GOOD, "memory.stat": old})
    slot = bench.add("a")
    bench.sample(slot, slow=True)
    memory = newest_memory(bench.rings, slot)
    assert memory is not None
    assert Has(int(memory["has"])) & (Has.MEMORY_STAT | Has.FILE_REFAULTS) == Has.MEMORY_STAT
    assert memory["anon_bytes"] == 6 * MIB


def test_group_without_controllers_has_cpu_and_nothing_else(bench: Bench) -> None:
    write_group(bench.root / "a", {"cpu.stat": b"usage_usec 7\nuser_usec 7\nsystem_usec 0\n"})
    slot = bench.add("a")
    row = bench.sample(slot, slow=True)
    assert (row["status"], row["has"], row["usage_usec"]) == (Status.OK, 0, 7)
    assert newest_memory(bench.rings, slot) is None  # nothing known is no row
    errors = bench.sampler.stats().errors
    # Without memory.current the three other files of its controller are not asked for.
    absent = {file for file in FILES if errors[file, "absent"] == 1}
    assert absent == {"cpu.pressure", "memory.current", "memory.pressure", "io.pressure"}
    bench.sample(slot, slow=True, retry=True)
    assert bench.sampler.stats().errors == errors  # refused again is no news


def test_absent_file_is_found_by_a_retry_only(bench: Bench) -> None:
    write_group(bench.root / "a", {**GOOD, "cpu.pressure": None})
    slot = bench.add("a")
    assert not Has(int(bench.sample(slot)["has"])) & Has.PRESSURE
    write_group(bench.root / "a")
    assert not Has(int(bench.sample(slot)["has"])) & Has.PRESSURE
    assert Has(int(bench.sample(slot, retry=True)["has"])) & Has.PRESSURE


def test_bad_cpu_stat_is_a_row_that_says_so_and_the_others_go_on(bench: Bench) -> None:
    write_group(bench.root / "a", {**GOOD, "cpu.stat": b"usage_usec 99"})
    write_group(bench.root / "b")
    bad, good = bench.add("a"), bench.add("b")
    result = bench.sampler.sweep(slow=False, retry_absent=False)
    assert (result.sampled, result.failed) == (1, 1)
    rows = [bench.rings.newest(bad), bench.rings.newest(good)]
    assert [None if row is None else int(row["status"]) for row in rows] == [Status.PARSE, Status.OK]
    assert rows[0] is not None
    assert rows[0]["has"] == 0
    assert bench.sampler.stats().errors["cpu.stat", "parse"] == 1


def test_working_set_peak_between_two_memory_rows_is_kept(bench: Bench) -> None:
    write_group(bench.root / "a")
    slot = bench.add("a")
    bench.sample(slot, slow=True)
    write_group(bench.root / "a", {"memory.current": b"%d\n" % (14 * MIB)})  # more than 1 MiB over the peak of 10
    bench.sample(slot)
    write_group(bench.root / "a", {"memory.current": b"%d\n" % (4 * MIB)})
    bench.sample(slot, slow=True)
    memory = newest_memory(bench.rings, slot)
    assert memory is not None
    assert memory["memory_current_bytes"] == 4 * MIB
    assert memory["working_set_peak_bytes"] == 12 * MIB  # 14 MiB - 2 MiB inactive file
    bench.sample(slot, slow=True)
    memory = newest_memory(bench.rings, slot)
    assert memory is not None
    assert memory["working_set_peak_bytes"] == 2 * MIB  # 4 - 2: the running peak began anew


@pytest.mark.parametrize(
    ("seen", "now", "is_read"),
    [
        (10 * MIB, 11 * MIB - 1, False),
        (10 * MIB, 11 * MIB, True),  # 1 MiB more, and a 64th of 10 MiB is less
        (640 * MIB, 650 * MIB - 1, False),
        (640 * MIB, 650 * MIB, True),  # a 64th more
    ],
)
def test_memory_stat_is_read_early_at_a_peak_that_is_worth_it(bench: Bench, seen: int, now: int, is_read: bool) -> None:
    write_group(bench.root / "a", {**GOOD, "memory.current": b"%d\n" % seen})
    slot = bench.add("a")
    bench.sample(slot, slow=True)
    write_group(bench.root / "a", {"memory.current": b"%d\n" % now})
    bench.sample(slot)
    # The running peak for the next memory row began anew at the slow tick.
    assert bench.rings.peaks(slot) == ((now - 2 * MIB, now) if is_read else (0, seen))


def test_memory_stat_is_not_read_again_while_neither_cpu_time_nor_memory_moves(bench: Bench) -> None:
    def inactive_file_bytes(*, retry: bool = False) -> int:
        bench.sample(slot, slow=True, retry=retry)
        memory = newest_memory(bench.rings, slot)
        assert memory is not None
        return int(memory["inactive_file_bytes"])

    def say(inactive_file: int, **files: bytes) -> None:
        stat = b"anon 0\ninactive_file %d\n" % inactive_file
        write_group(
            bench.root / "a", {"memory.stat": stat, **{name.replace("_", "."): text for name, text in files.items()}}
        )

    write_group(bench.root / "a")
    slot = bench.add("a")
    assert inactive_file_bytes() == 2 * MIB
    say(5)
    assert inactive_file_bytes() == 2 * MIB
    assert inactive_file_bytes(retry=True) == 5  # each minute: others may have touched its pages
    say(6, cpu_stat=b"usage_usec 5001\n")
    assert inactive_file_bytes() == 6
    say(7, memory_current=b"%d\n" % (9 * MIB))
    assert inactive_file_bytes() == 7
    say(8, cpu_stat=b"spoilt\n")
    assert inactive_file_bytes() == 8


def test_events_and_periods_beyond_32_bits_keep_their_low_half(bench: Bench) -> None:
    big = 2**32 + 5
    write_group(
        bench.root / "a", {**GOOD, "cpu.stat": b"usage_usec 1\nnr_periods %d\nnr_throttled 0\nthrottled_usec 0\n" % big}
    )
    assert bench.sample(bench.add("a"))["nr_periods"] == 5


def test_add_of_a_directory_that_is_not_there_is_gone(bench: Bench) -> None:
    with pytest.raises(CgroupGone, match="cgroup missing: No such file or directory"):
        bench.sampler.add(0, "missing", 1)
    assert bench.sampler.stats().slots == 0


def test_add_with_another_inode_is_gone(bench: Bench) -> None:
    write_group(bench.root / "a")
    with pytest.raises(CgroupGone, match="cgroup a"):
        bench.sampler.add(0, "a", 1)


def test_add_of_a_directory_without_cpu_stat_is_gone(bench: Bench) -> None:
    write_group(bench.root / "a", {"cpu.pressure": PRESSURE})
    with pytest.raises(CgroupGone):
        bench.sampler.add(0, "a", (bench.root / "a").stat().st_ino)
    assert bench.sampler.stats().open_files == 1


@pytest.mark.parametrize(("slot", "path"), [(8, "a"), (-1, "a"), (0, "/a")])
def test_add_with_a_bad_argument_is_a_fault_of_the_caller(bench: Bench, slot: int, path: str) -> None:
    with pytest.raises(ValueError, match="slot"):
        bench.sampler.add(slot, path, 1)


def test_add_twice_is_a_fault_of_the_caller_and_remove_is_not(bench: Bench) -> None:
    write_group(bench.root / "a")
    slot = bench.add("a")
    with pytest.raises(ValueError, match="sampled already"):
        bench.sampler.add(slot, "a", 1)
    bench.sampler.remove(slot)
    bench.sampler.remove(slot)
    assert bench.sampler.sweep(slow=True, retry_absent=False).sampled == 0


def test_rows_go_on_where_an_earlier_sampler_stopped(bench: Bench) -> None:
    write_group(bench.root / "a")
    slot = bench.add("a")
    for _ in range(20):  # past the ring's end
        bench.sampler.sweep(slow=True, retry_absent=False)
    bench.sampler.remove(slot)
    bench.sampler.add(slot, "a", (bench.root / "a").stat().st_ino)
    bench.sampler.sweep(slow=True, retry_absent=False)
    view = bench.rings.raw(slot)
    assert view.head == 21
    times = view.joined()["monotonic_ns"]
    assert (np.diff(times.astype(np.int64)) > 0).all()
    assert bench.rings.memory(slot).head == 21


def test_limits_are_told_of_every_slot_whose_files_can_be_read(bench: Bench) -> None:
    texts: dict[str, dict[str, bytes | None]] = {
        "both": {"cpu.max": b"150000 100000\n", "memory.max": b"134217728\n"},
        "none": {"cpu.max": b"max 100000\n", "memory.max": b"max\n"},
        "least": {"cpu.max": b"1000 1000000\n", "memory.max": b"18446744073709551615\n"},
        "absent": {"cpu.max": None, "memory.max": b"0\n"},
        "garbage": {"cpu.max": b"a lot\n", "memory.max": b"\n"},
    }
    slots = {}
    for name, files in texts.items():
        write_group(bench.root / name, {**GOOD, **files})
        slots[name] = bench.add(name)
    write_group(bench.root / "odd")
    (bench.root / "odd" / "cpu.max").mkdir()  # opens, and cannot be read
    bench.add("odd")
    for name, text in (("fits", "0 100000\n".rjust(39, "0")), ("long", "0 100000\n".rjust(40, "0"))):
        write_group(bench.root / name, {**GOOD, "cpu.max": text.encode(), "memory.max": None})
        slots[name] = bench.add(name)
    assert bench.sampler.read_limits() == {
        slots["both"]: (1500, 134217728),
        slots["none"]: (None, None),
        slots["least"]: (1, 2**64 - 1),
        slots["absent"]: (None, 0),
        slots["garbage"]: (None, None),
        slots["fits"]: (0, None),
    }
    before = bench.sampler.stats()
    shutil.rmtree(bench.root / "none")
    bench.sampler.remove(slots["both"])
    assert bench.sampler.read_limits()[slots["none"]] == (None, None)  # until the next sweep finds it gone
    assert slots["both"] not in bench.sampler.read_limits()
    assert bench.sampler.stats().errors == before.errors


def test_lanes_read_totals_and_say_why_not(bench: Bench) -> None:
    write_group(bench.root / "a")
    relative = bench.sampler.add_lane("a/cpu.pressure")
    absolute = bench.sampler.add_lane(str(bench.root / "a" / "io.pressure"))
    garbage = bench.sampler.add_lane("a/memory.current")
    readings = {reading.lane: (reading.some_usec, reading.status) for reading in bench.sampler.read_lanes()}
    assert readings == {relative: (4871107, Status.OK), absolute: (66, Status.OK), garbage: (None, Status.PARSE)}
    bench.sampler.remove_lane(relative)
    assert {reading.lane for reading in bench.sampler.read_lanes()} == {absolute, garbage}
    assert bench.sampler.add_lane("a/cpu.pressure") == relative


def test_lane_that_cannot_be_opened_names_the_file(bench: Bench) -> None:
    with pytest.raises(SamplerError, match=r"fast lane a/cpu\.pressure: No such file or directory"):
        bench.sampler.add_lane("a/cpu.pressure")


def test_lane_too_many_is_refused(bench: Bench) -> None:
    write_group(bench.root / "a")
    for _ in range(4):
        bench.sampler.add_lane("a/cpu.pressure")
    with pytest.raises(SamplerError, match=r"fast lane a/cpu\.pressure"):
        bench.sampler.add_lane("a/cpu.pressure")


def test_stats_have_every_file_and_cause_from_the_start(bench: Bench) -> None:
    stats = bench.sampler.stats()
    assert stats.errors == {(file, cause): 0 for file in FILES for cause in CAUSES}
    assert (stats.open_files, stats.slots) == (1, 0)


def test_root_that_is_not_there_is_named(bench: Bench) -> None:
    missing = bench.root / "missing"
    with pytest.raises(SamplerError, match=f"cgroup root {missing}"):
        MAKERS[bench.sampler.name](missing, bench.rings)


def descriptors_below(root: Path) -> int:
    """Count this process's open files below a directory: others are opened and closed by threads of earlier tests."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile, as that of this listing is
            count += Path(os.readlink(link)).is_relative_to(root)
    return count


def test_close_twice_leaves_no_descriptor(bench: Bench) -> None:
    write_group(bench.root / "a")
    before = descriptors_below(bench.root)
    sampler = MAKERS[bench.sampler.name](bench.root, bench.rings)
    slot = bench.rings.attach("a", (bench.root / "a").stat().st_ino, now_monotonic_ns=1)
    sampler.add(slot, "a", (bench.root / "a").stat().st_ino)
    sampler.add_lane("a/cpu.pressure")
    sampler.sweep(slow=True, retry_absent=False)
    assert descriptors_below(bench.root) > before
    sampler.close()
    sampler.close()
    assert descriptors_below(bench.root) == before


def with_budget(bench: Bench, fd_budget: int) -> Sampler:
    """Return the bench a sampler of the same kind that may keep fewer descriptors."""
    bench.sampler.close()
    bench.sampler = open_sampler(
        bench.root,
        bench.rings,
        fd_budget=fd_budget,
        max_lanes=1,
        force="native" if bench.sampler.name == "native" else "reference",
    )
    return bench.sampler


def test_budget_of_descriptors_is_kept_and_all_files_are_still_read(bench: Bench) -> None:
    for name in "abc":
        write_group(bench.root / name)
    with contextlib.closing(with_budget(bench, 6)) as sampler:
        slots = [bench.add(name) for name in "abc"]
        for _ in range(3):
            result = sampler.sweep(slow=True, retry_absent=True)
            assert (result.sampled, result.memory_rows) == (3, 3)
            assert sampler.stats().open_files <= 6
        for slot in slots:
            memory = newest_memory(bench.rings, slot)
            assert memory is not None
            assert memory["has"] == 2 | 16 | 32 | 64 | 128 | 256 | 512


def test_budget_too_small_for_directories_is_files_exhausted(bench: Bench) -> None:
    for name in "ab":
        write_group(bench.root / name)
    with contextlib.closing(with_budget(bench, 2)):
        slot = bench.add("a")
        with pytest.raises(FilesExhausted, match="cgroup b"):
            bench.add("b")
        assert bench.sample(slot)["status"] == Status.OK


def test_closed_native_sampler_refuses(tmp_path: Path) -> None:
    with RingFile.open(None, GEOMETRY, boot_id="boot") as rings:
        sampler = NativeSampler(tmp_path, rings, fd_budget=10, max_lanes=0)
        sampler.close()
        with pytest.raises(ValueError, match="closed"):
            sampler.sweep(slow=False, retry_absent=False)


def test_native_sampler_takes_callers_from_many_threads(tmp_path: Path) -> None:
    write_group(tmp_path / "a")
    with (
        RingFile.open(None, GEOMETRY, boot_id="boot") as rings,
        NativeSampler(tmp_path, rings, fd_budget=100, max_lanes=2) as sampler,
    ):
        bench = Bench(sampler, rings, tmp_path)
        slot = bench.add("a")
        sampler.add_lane("a/cpu.pressure")

        def work() -> None:
            for _ in range(200):
                sampler.sweep(slow=True, retry_absent=True)
                sampler.read_lanes()
                sampler.stats()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert rings.raw(slot).head == 800
        times = rings.raw(slot).joined()["monotonic_ns"].astype(np.int64)
        assert (np.diff(times) > 0).all()


def test_reader_beside_the_writing_thread_never_sees_a_torn_row(tmp_path: Path) -> None:
    """C writes without the GIL into a ring of 16 while this thread copies all of it: intact means intact."""
    write_group(tmp_path / "a")
    with (
        RingFile.open(None, GEOMETRY, boot_id="boot") as rings,
        NativeSampler(tmp_path, rings, fd_budget=100, max_lanes=0) as sampler,
    ):
        slot = Bench(sampler, rings, tmp_path).add("a")
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                sampler.sweep(slow=True, retry_absent=False)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            copied = 0
            heads: set[int] = set()
            while copied < 20_000 or len(heads) < 100:
                view = rings.raw(slot)
                rows = view.joined()
                assert (np.diff(rows["monotonic_ns"].astype(np.int64)) > 0).all()
                assert (rows["usage_usec"] == 5000).all()
                copied += len(rows)
                heads.add(view.head)
        finally:
            stop.set()
            writer.join()


def test_open_sampler_prefers_the_compiled_one_and_takes_the_forced(tmp_path: Path) -> None:
    with RingFile.open(None, GEOMETRY, boot_id="boot") as rings:
        names = []
        forces: list[Literal["native", "reference"] | None] = [None, "native", "reference"]
        for force in forces:
            sampler = open_sampler(tmp_path, rings, fd_budget=10, max_lanes=0, force=force)
            names.append(sampler.name)
            sampler.close()
        assert names == ["native", "native", "reference"]


def test_open_sampler_without_the_extension_warns_and_samples_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "agent.sensing._sampler", None)
    with RingFile.open(None, GEOMETRY, boot_id="boot") as rings:
        sampler = open_sampler(tmp_path, rings, fd_budget=10, max_lanes=0)
        assert sampler.name == "reference"
        sampler.close()
        assert "compiled sampler not built" in caplog.text
        with pytest.raises(SamplerError, match="not built"):
            open_sampler(tmp_path, rings, fd_budget=10, max_lanes=0, force="native")


def test_open_files_limit_is_raised_to_the_hard_one() -> None:
    program = (
        "import resource; from agent.sensing.sampler import raise_open_files_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300)); print(raise_open_files_limit())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == "(300, 300)\n"
    assert raise_open_files_limit()[0] == raise_open_files_limit()[1]


# ---- C against Python ----


def rows_of(
    name: str, root: Path, sweeps: list[Mapping[str, bytes | None]]
) -> tuple[Rows, Rows, Mapping[tuple[str, str], int]]:
    """Sample one fake group through a series of contents; samples, memory rows (stamps zeroed) and errors."""
    group = root / "a"
    with ExitStack() as stack:
        rings = stack.enter_context(RingFile.open(None, GEOMETRY, boot_id="boot"))
        sampler = MAKERS[name](root, rings)
        stack.callback(sampler.close)
        write_group(group, {**GOOD, **sweeps[0]})
        inode = group.stat().st_ino
        slot = rings.attach("a", inode, now_monotonic_ns=1)
        try:
            sampler.add(slot, "a", inode)
        except CgroupGone:
            pass
        else:
            for number, files in enumerate(sweeps):
                write_group(group, files)
                sampler.sweep(slow=number % 2 == 1, retry_absent=number % 3 == 2)
        samples, memory = rings.raw(slot).joined(), rings.memory(slot).joined()
        samples["monotonic_ns"] = 0
        memory["monotonic_ns"] = 0
        return samples, memory, sampler.stats().errors


def assert_equal_rows(root: Path, sweeps: list[Mapping[str, bytes | None]]) -> tuple[Rows, Rows]:
    """Compare all fields of all rows and all error counts; give the samples and memory rows that were equal."""
    results = []
    for name in MAKERS:
        place = root / name
        place.mkdir(exist_ok=True)
        for file in (place / "a").glob("*"):
            file.unlink()
        results.append(rows_of(name, place, sweeps))
    (native, native_memory, native_errors), (reference, reference_memory, reference_errors) = results
    assert native.tolist() == reference.tolist()
    assert native_memory.tolist() == reference_memory.tolist()
    assert native_errors == reference_errors
    return native, native_memory


NUMBERS = st.one_of(
    st.integers(0, 200).map(lambda value: b"%d" % value),
    st.integers(2**32 - 2, 2**32 + 2).map(lambda value: b"%d" % value),
    st.integers(2**64 - 2, 2**64 + 2).map(lambda value: b"%d" % value),
    st.integers(0, 64 * MIB).map(lambda value: b"%d" % value),
    st.sampled_from(
        [b"", b"-1", b"+1", b" 1", b"1 ", b"max", b"0x1", b"1e3", b"000", b"0" * 30 + b"7", b"1\r", b"\xb2", b"9" * 40]
    ),
)
KEYS = st.sampled_from(
    [
        b"usage_usec",
        b"nr_periods",
        b"nr_throttled",
        b"throttled_usec",
        b"anon",
        b"inactive_file",
        b"active_file",
        b"workingset_refault_file",
        b"oom_kill",
        b"high",
        b"x",
        b"usage",
    ]
)
KEYED = st.lists(
    st.builds(lambda key, gap, number: key + gap + number, KEYS, st.sampled_from([b" ", b"  ", b"", b"\t"]), NUMBERS),
    max_size=8,
)
PRESSURES = st.lists(
    st.builds(
        lambda kind, middle, number: kind + middle + number,
        st.sampled_from([b"some", b"full", b"", b"som"]),
        st.sampled_from([b" avg10=0.00 total=", b" total=", b" avg10=1.00 ", b"total=", b" total=5 total="]),
        NUMBERS,
    ),
    max_size=4,
)
ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"", b"\n\n", b"\0"])
LINES = st.builds(lambda lines, end: b"\n".join(lines) + end, st.one_of(KEYED, PRESSURES), ENDS)
SIZES = st.sampled_from([BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1]).map(
    lambda size: (CPU_STAT + PRESSURE).ljust(size - 1, b"x") + b"\n"
)


def mutated(good: bytes) -> st.SearchStrategy[bytes]:
    """A good text cut at any place, or with one byte changed."""
    cut = st.integers(0, len(good)).map(lambda at: good[:at])
    changed = st.builds(
        lambda at, byte: good[:at] + bytes([byte]) + good[at + 1 :], st.integers(0, len(good) - 1), st.integers(0, 255)
    )
    return st.one_of(st.just(good), cut, changed)


def content_of(file: str) -> st.SearchStrategy[bytes | None]:
    own = NUMBERS.map(lambda number: number + b"\n") if file in ("memory.current", "memory.peak") else LINES
    return st.one_of(st.none(), own, mutated(GOOD[file]), st.binary(max_size=60), SIZES)


QUICK_OR_NOT = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
"""What is named here takes the place of what the profile names: that examples may be slow to make."""


@settings(max_examples=150, deadline=None, suppress_health_check=QUICK_OR_NOT)
@given(
    sweeps=st.lists(
        st.fixed_dictionaries({}, optional={file: content_of(file) for file in GOOD}), min_size=1, max_size=5
    )
)
def test_native_and_reference_store_the_same_rows_for_any_bytes(
    tmp_path: Path, sweeps: list[Mapping[str, bytes | None]]
) -> None:
    assert_equal_rows(tmp_path, sweeps)


@settings(max_examples=200, deadline=None, suppress_health_check=QUICK_OR_NOT)
@given(content=st.one_of(LINES, mutated(CPU_STAT), SIZES))
def test_native_and_reference_agree_on_any_cpu_stat(tmp_path: Path, content: bytes) -> None:
    assert len(assert_equal_rows(tmp_path, [{"cpu.stat": content}])[0]) == 1


def test_every_cut_of_every_file_is_the_same_and_never_a_smaller_counter(tmp_path: Path) -> None:
    compared = 0
    whole = rows_of("native", tmp_path, [{}, {}])
    for file, good in GOOD.items():
        for at in range(len(good)):
            cut = assert_equal_rows(tmp_path, [{}, {file: good[:at]}])
            compared += len(cut[0]) + len(cut[1])
            for rows, full in zip(cut, whole[:2], strict=True):
                for row, full_row in zip(rows[-1:], full[-1:], strict=False):
                    for name in row.dtype.names or ():
                        if name not in ("status", "has"):
                            assert row[name] in (0, full_row[name]), (file, at, name)
    assert compared > 1000


def test_fake_tree_of_troubles_gives_the_same_rows(tmp_path: Path) -> None:
    """Missing, empty, garbage, too long, a directory in a file's place: status, flags and counters are equal."""
    troubles: list[bytes | None] = [
        None,
        b"",
        b"\n",
        b"garbage\n",
        b"max\n",
        b"\xff" * 100,
        b"1" * BUFFER_BYTES,
        b"\0\n",
    ]
    compared = 0
    for file in GOOD:
        for trouble in troubles:
            samples, memory = assert_equal_rows(tmp_path, [{file: trouble}, {}, {file: GOOD[file]}])
            compared += len(samples) + len(memory)
    assert compared > 200


@pytest.mark.parametrize("file", list(GOOD))
def test_directory_in_a_file_s_place_is_an_io_error_of_that_file_alone(bench: Bench, file: str) -> None:
    # Reading a directory fails with EISDIR: an errno that says neither gone nor off.
    write_group(bench.root / "a", {**GOOD, file: None})
    (bench.root / "a" / file).mkdir()
    slot = bench.add("a")
    row = bench.sample(slot, slow=True)
    assert row["status"] == (Status.IO if file == "cpu.stat" else Status.OK)
    assert bench.sampler.stats().errors[file, "io"] >= 1


def test_unreadable_file_is_given_up_until_a_retry_and_counted_once(tmp_path: Path) -> None:
    """As an unprivileged user in a child, since root reads everything."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    write_group(tmp_path / "a")
    (tmp_path / "a" / "cpu.pressure").chmod(0)
    for directory in (tmp_path, tmp_path / "a", *tmp_path.parents):
        mode = directory.stat().st_mode
        if not mode & stat.S_IXOTH:
            directory.chmod(mode | 0o055)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(65532)
            results = []
            for make in MAKERS.values():
                with RingFile.open(None, GEOMETRY, boot_id="boot") as rings:
                    bench = Bench(make(tmp_path, rings), rings, tmp_path)
                    slot = bench.add("a")
                    rows = [bench.sample(slot), bench.sample(slot), bench.sample(slot, retry=True)]
                    results.append(
                        ([int(row["has"]) for row in rows], bench.sampler.stats().errors["cpu.pressure", "io"])
                    )
                    bench.sampler.close()
            os.write(writer, repr(results).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read().decode() == repr([([3, 3, 3], 1), ([3, 3, 3], 1)])
    assert status == 0
