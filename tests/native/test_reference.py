"""The parsers of the sampler in plain Python, which the C ones are held to: tables, and what holds for any bytes."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.window.ring_rows import Status
from agent.sensing.cgroup_text import (
    CpuStat,
    MemoryStat,
    Pressure,
    parse_cpu_stat,
    parse_keyed,
    parse_memory_events,
    parse_memory_stat,
    parse_number,
    parse_pressure,
    parse_u64,
)
from agent.sensing.reference_sampler import to_status

U64_MAX = 2**64 - 1


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        (b"0", 0),
        (b"007", 7),
        (b"0" * 5000 + b"7", 7),
        (b"%d" % U64_MAX, U64_MAX),
        (b"%d" % (U64_MAX + 1), None),
        (b"9" * 21, None),
        (b"", None),
        (b"+1", None),
        (b"-1", None),
        (b" 1", None),
        (b"1 ", None),
        (b"1_0", None),
        (b"\xd9\xa1", None),  # a digit in Unicode, not in ASCII
    ],
)
def test_u64_is_digits_and_nothing_else(digits: bytes, value: int | None) -> None:
    assert parse_u64(digits) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            b"usage_usec 7\nuser_usec 3\n",
            CpuStat(usage_usec=7, nr_periods=None, nr_throttled=None, throttled_usec=None),
        ),
        (
            b"nr_periods 1\nnr_throttled 2\nthrottled_usec 3\nusage_usec 4\n",
            CpuStat(usage_usec=4, nr_periods=1, nr_throttled=2, throttled_usec=3),
        ),
        # Two of the three throttling keys: none of them is believed.
        (
            b"usage_usec 4\nnr_periods 1\nnr_throttled 2\n",
            CpuStat(usage_usec=4, nr_periods=None, nr_throttled=None, throttled_usec=None),
        ),
        (b"user_usec 3\n", None),  # the required key is missing
        (b"usage_usec 999848", None),  # cut: the number has no newline
        (b"usage_usec 1\nusage_usec x\n", None),
        (b"", None),
    ],
)
def test_cpu_stat_table(text: bytes, expected: CpuStat | None) -> None:
    assert parse_cpu_stat(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"some avg10=0.61 avg60=0.76 avg300=0.27 total=48\n", Pressure(some_usec=48, full_usec=None)),
        (b"some avg10=0.61 total=48\nfull avg10=0.00 total=5\n", Pressure(some_usec=48, full_usec=5)),
        (b"full avg10=0.00 total=5\n", None),  # "some" is required
        (b"some avg10=0.61 total=48\nfull avg10=0.00 total=", None),
        (b"some avg10=0.61 total=48 more=1\n", None),  # the total is not the last field
        (b"some avg10=0.61 atotal=48\n", None),
        (b"some\n", None),
    ],
)
def test_pressure_table(text: bytes, expected: Pressure | None) -> None:
    assert parse_pressure(text) == expected


def test_number_wants_one_line_only() -> None:
    assert parse_number(b"12\n") == 12
    assert [parse_number(text) for text in (b"12", b"12\n\n", b"12\n3\n", b"\n", b"max\n", b"")] == [None] * 6


def test_memory_files_want_both_of_their_keys() -> None:
    assert parse_memory_stat(b"anon 1\n") is None
    assert parse_memory_events(b"low 0\nhigh 4\noom_kill 1\n") == (1, 4)
    assert parse_memory_events(b"oom_kill 1\n") is None


def test_refaults_of_files_and_active_file_are_known_together_or_not_at_all() -> None:
    old = b"anon 1\nfile 5\ninactive_anon 9\ninactive_file 2\n"
    bare = MemoryStat(anon_bytes=1, inactive_file_bytes=2, active_file_bytes=None, workingset_refault_file_pages=None)
    assert parse_memory_stat(old) == bare
    assert parse_memory_stat(old + b"active_file 3\nworkingset_refault 4\n") == bare
    assert parse_memory_stat(old + b"workingset_refault_file 4\n") == bare
    assert parse_memory_stat(old + b"active_file 3\nworkingset_refault_file 4\n") == MemoryStat(
        anon_bytes=1, inactive_file_bytes=2, active_file_bytes=3, workingset_refault_file_pages=4
    )


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (errno.ENODEV, Status.GONE),
        (errno.ENOENT, Status.GONE),
        (errno.EOPNOTSUPP, Status.ABSENT),
        (errno.EMFILE, Status.LIMIT),
        (errno.ENFILE, Status.LIMIT),
        (errno.EACCES, Status.IO),
        (errno.EIO, Status.IO),
    ],
)
def test_errno_table(number: int, status: Status) -> None:
    assert to_status(OSError(number, "said so")) is status


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_nothing(text: bytes) -> None:
    for parse in (parse_cpu_stat, parse_pressure, parse_number, parse_memory_stat, parse_memory_events):
        parse(text)
    assert parse_keyed(text, (b"a",)) is None or text.endswith(b"\n")


@given(st.integers(0, U64_MAX), st.integers(0, 10))
def test_cut_number_is_never_a_smaller_number(value: int, cut: int) -> None:
    text = b"usage_usec %d\n" % value
    whole = parse_cpu_stat(text)
    assert whole is not None
    assert whole.usage_usec == value
    assert parse_cpu_stat(text[: len(text) - 1 - cut]) is None
