from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.recommender.crane.specification import (
    DEFAULT_SPECIFICATIONS,
    Specification,
    SpecificationError,
    Specifications,
    parse_specifications,
)

GIB = 1 << 30


def normalise(specifications: Specifications, cpu_millicores: int, memory_bytes: int) -> tuple[int, int, bool]:
    cpu, memory, has_fit = specifications.normalise(np.array([float(cpu_millicores)]), np.array([float(memory_bytes)]))
    return int(cpu[0]), int(memory[0]), bool(has_fit[0])


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("2c4g", [(2, 4)]),
        ("2c4g,0.5c1g", [(0.5, 1), (2, 4)]),
        ("2c5g,2c1g,1c9g,2c1g", [(1, 9), (2, 1), (2, 1), (2, 5)]),
        # Only numbers count, so spaces, capitals and other words do no harm, and a sign is none.
        (" 2 C 4 G , .5core-1.GiB", [(0.5, 1), (2, 4)]),
        ("0c0g", [(0, 0)]),
    ],
)
def test_parse_specifications_gives_pairs_sorted_by_cpu_then_memory(
    text: str, pairs: list[tuple[float, float]]
) -> None:
    assert [(pair.cpu_cores, pair.memory_gib) for pair in parse_specifications(text)] == pairs


@pytest.mark.parametrize(
    "entry",
    [
        "",
        " ",
        "abc",
        "24c",
        "2c4g5c",
        "1e3c2g",
        "1.2.3c2g",
        "1c.g",
        "1c" + "9" * 400 + "g",
        "\u0663c\u0661g",
    ],  # the last one in digits that are not ASCII
)
@pytest.mark.parametrize("form", ["{}", "1c2g,{}", "{},1c2g"])
def test_parse_specifications_names_the_bad_entry_in_one_line(entry: str, form: str) -> None:
    with pytest.raises(SpecificationError) as raised:
        parse_specifications(form.format(entry))
    message = str(raised.value)
    assert message == f"specification {entry!r}: exactly two numbers are allowed, cores and GiB, as in 1c2g or 0.5c1g"
    assert "\n" not in message


@given(st.text())
def test_parse_specifications_of_any_text_is_sorted_or_a_specification_error(text: str) -> None:
    with contextlib.suppress(SpecificationError):
        parsed = parse_specifications(text)
        assert list(parsed) == sorted(parsed)
        assert len(parsed) == text.count(",") + 1


def test_default_specifications_are_cranes_29() -> None:
    assert len(DEFAULT_SPECIFICATIONS) == 29
    assert list(DEFAULT_SPECIFICATIONS) == sorted(DEFAULT_SPECIFICATIONS)
    assert DEFAULT_SPECIFICATIONS[0] == Specification(0.25, 0.25)
    assert DEFAULT_SPECIFICATIONS[-1] == Specification(64.0, 256.0)


@pytest.mark.parametrize(
    ("need", "chosen"),
    [
        ((100, 125 << 20), (250, GIB // 4, True)),
        ((250, GIB // 4), (250, GIB // 4, True)),  # an exact match fits
        ((251, GIB // 4), (500, GIB // 2, True)),
        ((250, GIB // 4 + 1), (250, GIB // 2, True)),
        ((0, 1), (250, GIB // 4, True)),
        ((500, 1625 << 20), (1000, 2 * GIB, True)),  # 0.5c ends at 1 GiB, so the next CPU step
        ((64_000, 256 * GIB), (64_000, 256 * GIB, True)),
        ((64_001, GIB), (64_001, GIB, False)),
        ((2000, 300 * GIB), (2000, 300 * GIB, False)),
    ],
)
def test_normalise_takes_the_smallest_cpu_step_with_enough_memory(
    need: tuple[int, int], chosen: tuple[int, int, bool]
) -> None:
    assert normalise(Specifications(DEFAULT_SPECIFICATIONS), *need) == chosen


@pytest.mark.parametrize(
    ("text", "need", "chosen"),
    [
        ("1c2g,2c4g,4c8g", (900, 5 * GIB), (4000, 8 * GIB, True)),
        ("4c8g,1c2g", (900, GIB), (1000, 2 * GIB, True)),  # the order of the list does not matter
        # Printed with two decimals, ties to even: 0.125 -> 0.12, which is even below a need of 125
        ("0.125c1g", (125, GIB), (120, GIB, True)),
        ("0.375c1g", (125, GIB), (380, GIB, True)),
        # 0.33 GiB = 354334801.92 bytes
        ("1c0.33g", (1000, GIB // 4), (1000, 354334802, True)),
        ("0.004c1g", (1, GIB), (1, GIB, False)),  # prints as 0.00 core: as good as none
        ("1c0.004g", (1000, 1), (1000, 1, False)),
        ("0c1g", (0, GIB), (0, GIB, False)),  # no CPU is no specification
        ("0c1g,2c1g", (0, GIB), (2000, GIB, True)),
    ],
)
def test_normalise_with_an_own_list(text: str, need: tuple[int, int], chosen: tuple[int, int, bool]) -> None:
    assert normalise(Specifications(parse_specifications(text)), *need) == chosen


def test_normalise_treats_each_row_by_itself() -> None:
    cpu, memory, has_fit = Specifications(DEFAULT_SPECIFICATIONS).normalise(
        np.array([100.0, 70_000.0, 900.0]), np.array([1.0, 1.0, 3.0 * GIB])
    )
    assert cpu.tolist() == [250.0, 70_000.0, 1000.0]
    assert memory.tolist() == [GIB / 4, 1.0, 4.0 * GIB]
    assert has_fit.tolist() == [True, False, True]


@given(st.integers(0, 70_000), st.integers(1, 300 * GIB))
def test_normalise_with_the_default_list_never_goes_below_the_need(cpu_millicores: int, memory_bytes: int) -> None:
    cpu, memory, has_fit = normalise(Specifications(DEFAULT_SPECIFICATIONS), cpu_millicores, memory_bytes)
    assert cpu >= cpu_millicores
    assert memory >= memory_bytes
    # The largest step of all is 64 cores with 256 GiB.
    assert has_fit == (cpu_millicores <= 64_000 and memory_bytes <= 256 * GIB)
