"""What a process says of itself: as the library says it, and without listing thousands of descriptors."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.process_collector import ProcessCollector

from agent.metrics.process_series import COUNTED_SECONDS, ProcessSeries


def figures(registry: CollectorRegistry) -> dict[str, tuple[str, float]]:
    return {
        sample.name: (family.type, sample.value)
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_the_figures_are_those_of_the_library() -> None:
    registry = CollectorRegistry()
    registry.register(ProcessSeries())
    library = CollectorRegistry()
    ProcessCollector(registry=library)

    before, ours, theirs = figures(library), figures(registry), figures(library)

    assert {name: kind for name, (kind, _) in ours.items()} == {name: kind for name, (kind, _) in theirs.items()}
    for name in ("process_start_time_seconds", "process_max_fds"):
        assert ours[name] == theirs[name]
    # The other way of counting has a descriptor of its own open meanwhile; and what earlier tests left may be closed
    # at any moment, when it is collected.
    fewest, most = sorted(scrape["process_open_fds"][1] for scrape in (before, theirs))
    assert fewest - 1 <= ours["process_open_fds"][1] <= most + 1
    # In hundredths; but the library adds what it has divided, so that the last bit may be another.
    assert 0 < ours["process_cpu_seconds_total"][1] < theirs["process_cpu_seconds_total"][1] + 0.001
    assert ours["process_resident_memory_bytes"][1] > os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """Files of a process whose name holds a bracket and spaces, and which has two descriptors."""
    directory = tmp_path / "self"
    (directory / "fd").mkdir(parents=True)
    for number in (0, 1):
        (directory / "fd" / str(number)).touch()
    fields = " ".join(str(number) for number in range(50))
    (directory / "stat").write_text(f"7 (a ) name) {fields}\n")
    return directory


def test_descriptors_are_counted_once_a_minute_where_the_kernel_does_not_tell_them(
    process: Path, tmp_path: Path
) -> None:
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1000\n")
    now = [100.0]
    registry = CollectorRegistry()
    registry.register(
        ProcessSeries(process=process, proc=tmp_path, clock=lambda: now[0], told_open_files=lambda directory: 0)
    )

    first = figures(registry)
    (process / "fd" / "2").touch()
    now[0] += COUNTED_SECONDS - 1
    same = figures(registry)
    now[0] += 1
    counted = figures(registry)

    assert [scrape["process_open_fds"][1] for scrape in (first, same, counted)] == [2.0, 2.0, 3.0]
    assert first["process_virtual_memory_bytes"][1] == 20.0
    assert first["process_cpu_seconds_total"][1] == (11 + 12) / os.sysconf("SC_CLK_TCK")
    assert first["process_start_time_seconds"][1] == 1000 + 19 / os.sysconf("SC_CLK_TCK")


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    def out_of_descriptors(directory: Path) -> int:
        raise OSError(errno.EMFILE, "Too many open files", str(directory))

    registry = CollectorRegistry()
    registry.register(
        ProcessSeries(process=tmp_path / "gone", proc=tmp_path / "none", told_open_files=out_of_descriptors)
    )
    assert figures(registry).keys() == {"process_max_fds"}


def test_a_kernel_that_tells_them_is_believed_and_a_start_that_is_not_known_left_out(
    process: Path, tmp_path: Path
) -> None:
    (tmp_path / "stat").write_text("cpu 1 2\n")
    registry = CollectorRegistry()
    registry.register(ProcessSeries(process=process, proc=tmp_path, told_open_files=lambda directory: 4711))

    scrape = figures(registry)

    assert scrape["process_open_fds"][1] == 4711.0
    assert "process_start_time_seconds" not in scrape
