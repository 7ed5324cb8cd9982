"""agent.core.window.ring_rows mirrors native/sampler.h to the byte."""

from __future__ import annotations

import numpy as np
import pytest

from agent.core.window.cpu import CPU_SUMS
from agent.core.window.memory import MEMORY_SUMS
from agent.core.window.minute_row import MINUTE_SUMS
from agent.core.window.ring_rows import MEMORY_ROW, SAMPLE, SLOT_HEADER, Has, Status
from agent.sensing.sampler import LANE_READING, LIMITS

module = pytest.importorskip("agent.sensing._sampler", reason="the C sampler is not built", exc_type=ImportError)
lib, ffi = module.lib, module.ffi


@pytest.mark.parametrize(
    ("dtype", "c_name"),
    [
        (SAMPLE, "pl_sample"),
        (MEMORY_ROW, "pl_memory_row"),
        (SLOT_HEADER, "pl_slot_header"),
        (LANE_READING, "pl_lane_reading"),
        (LIMITS, "pl_limits"),
    ],
)
def test_dtype_has_the_layout_of_the_c_struct(dtype: np.dtype[np.void], c_name: str) -> None:
    in_c = {name: (field.offset, ffi.sizeof(field.type)) for name, field in ffi.typeof(c_name).fields}
    assert dtype.names is not None
    assert dtype.fields is not None
    in_numpy = {name: (dtype.fields[name][1], dtype.fields[name][0].itemsize) for name in dtype.names}
    assert in_numpy == in_c
    assert dtype.itemsize == ffi.sizeof(c_name)


@pytest.mark.parametrize(
    ("dtype", "c_name"), [(CPU_SUMS, "pl_cpu_sums"), (MEMORY_SUMS, "pl_memory_sums"), (MINUTE_SUMS, "pl_minute_sums")]
)
def test_sums_have_the_layout_of_the_c_struct(dtype: np.dtype[np.void], c_name: str) -> None:
    assert layout_of(dtype) == layout_in_c(c_name)


def layout_of(dtype: np.dtype[np.void]) -> list[object]:
    """Name, offset and kind of each figure, those of nested records in turn."""
    layout: list[object] = []
    for name in dtype.names or ():
        assert dtype.fields is not None
        kind, at = dtype.fields[name][:2]
        layout.append((name, at, layout_of(kind) if kind.names else kind.char))
    return layout


def layout_in_c(c_name: str) -> list[object]:
    kinds = {"double": "d", "int64_t": "l"}
    fields = ffi.typeof(c_name).fields
    return [(name, at.offset, kinds.get(at.type.cname) or layout_in_c(at.type.cname)) for name, at in fields]


@pytest.mark.parametrize("dtype", [SAMPLE, MEMORY_ROW])
def test_dtype_is_signed_where_c_is(dtype: np.dtype[np.void]) -> None:
    c_name = {64: "pl_sample", 104: "pl_memory_row"}[dtype.itemsize]
    assert dtype.names is not None
    for name, field in ffi.typeof(c_name).fields:
        assert (dtype[name].kind == "i") == (int(ffi.cast(field.type, -1)) < 0), name


def test_status_values_are_those_of_c() -> None:
    in_c = {name.removeprefix("PL_E_"): getattr(lib, name) for name in dir(lib) if name.startswith("PL_E_")}
    assert {status.name: status.value for status in Status} == {"OK": lib.PL_OK, **in_c}


def test_has_values_are_those_of_c() -> None:
    in_c = {name.removeprefix("PL_HAS_"): getattr(lib, name) for name in dir(lib) if name.startswith("PL_HAS_")}
    assert {flag.name: flag.value for flag in Has} == in_c


def test_error_table_has_a_row_per_file_and_a_column_per_cause() -> None:
    errors = ffi.new("pl_stats *").errors
    assert (len(errors), len(errors[0])) == (lib.PL_FILES, lib.PL_CAUSES)
    for prefix, count in (("PL_FILE_", lib.PL_FILES), ("PL_CAUSE_", lib.PL_CAUSES)):
        assert sorted(getattr(lib, name) for name in dir(lib) if name.startswith(prefix)) == list(range(count))
