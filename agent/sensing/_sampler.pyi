"""Types of the compiled sampler, by hand after native/sampler.h; a test compares the names with the real module."""

from typing import Final, Literal, NewType, Protocol, SupportsIndex, overload

from typing_extensions import Buffer

class CData:
    """Any C value or pointer that is not told apart further."""

Address = NewType("Address", CData)
"""``void *``."""
Handle = NewType("Handle", CData)
"""``pl_sampler *``."""

class HandleOut:
    """``pl_sampler **``."""

    def __getitem__(self, index: Literal[0]) -> Handle: ...

Reader = NewType("Reader", CData)
"""``pl_reader *``."""
Rules = NewType("Rules", CData)
"""``pl_rules *``."""

class ReaderOut:
    """``pl_reader **``."""

    def __getitem__(self, index: Literal[0]) -> Reader: ...

class Uint32Array:
    """``uint32_t *`` or ``uint32_t[]``."""

    def __getitem__(self, index: SupportsIndex) -> int: ...
    def __setitem__(self, index: SupportsIndex, value: int) -> None: ...
    def __len__(self) -> int: ...

class Geometry:
    """``pl_geometry *``."""

    first_slot_offset: int
    slot_stride: int
    max_slots: int
    raw_offset: int
    raw_length: int
    memory_offset: int
    memory_length: int
    reserved: int

class SweepResult:
    """``pl_sweep_result *``."""

    started_ns: int
    finished_ns: int
    sampled: int
    failed: int
    gone: int
    memory_rows: int

class ErrorTable(Protocol):
    """``uint64_t[9][5]``."""

    def __getitem__(self, file: SupportsIndex) -> Uint64Array: ...

class Uint64Array(Protocol):
    """``uint64_t[]``."""

    def __getitem__(self, index: SupportsIndex) -> int: ...
    def __len__(self) -> int: ...

class Stats:
    """``pl_stats *``."""

    errors: ErrorTable
    open_files: int
    slots: int

class LaneReading:
    """``pl_lane_reading``."""

    monotonic_ns: int
    some_usec: int
    status: int
    lane: int

class LaneReadings:
    """``pl_lane_reading[]``."""

    def __getitem__(self, index: SupportsIndex) -> LaneReading: ...
    def __len__(self) -> int: ...

class QuietLane:
    """``pl_quiet_lane``."""

    monotonic_ns: int
    some_usec: int
    least_ratio: float
    most_ratio: float
    lane: int
    reserved: int

class Int64Out:
    """``int64_t *``."""

    def __getitem__(self, index: Literal[0]) -> int: ...
    def __setitem__(self, index: Literal[0], value: int) -> None: ...

class Limits:
    """``pl_limits``."""

    cpu_max: bytes
    memory_max: bytes
    slot: int
    status: int

class _CField:
    offset: int

class _CType:
    fields: list[tuple[str, _CField]]
    """Of a struct only."""

class _FFI:
    NULL: Final[CData]
    def buffer(self, cdata: LaneReadings, /) -> Buffer: ...
    @overload
    def new(self, cdecl: Literal["pl_sampler **"]) -> HandleOut: ...
    @overload
    def new(self, cdecl: Literal["pl_reader **"]) -> ReaderOut: ...
    @overload
    def new(self, cdecl: Literal["pl_rules *"], init: dict[str, float]) -> Rules: ...
    @overload
    def new(self, cdecl: Literal["pl_geometry *"], init: dict[str, int] | None = None) -> Geometry: ...
    @overload
    def new(self, cdecl: Literal["pl_sweep_result *"]) -> SweepResult: ...
    @overload
    def new(self, cdecl: Literal["pl_stats *"]) -> Stats: ...
    @overload
    def new(self, cdecl: Literal["pl_lane_reading[]"], init: int) -> LaneReadings: ...
    @overload
    def new(self, cdecl: Literal["uint32_t[]", "uint32_t *"], init: int | None = None) -> Uint32Array: ...
    @overload
    def new(self, cdecl: Literal["int64_t *"]) -> Int64Out: ...
    @overload
    def from_buffer(self, python_buffer: Buffer) -> Address: ...
    @overload
    def from_buffer(self, cdecl: str, python_buffer: Buffer) -> Address: ...
    @overload
    def cast(self, cdecl: Literal["uint64_t *"], source: Address | int) -> Uint64Array: ...
    @overload
    def cast(self, cdecl: Literal["void *"], source: Address | int) -> Address: ...
    def release(self, cdata: object) -> None: ...
    def sizeof(self, cdecl: str) -> int: ...
    def offsetof(self, cdecl: str, field: str) -> int: ...
    def typeof(self, cdecl: str) -> _CType: ...

class _Lib:
    PL_OK: Final[int]
    PL_E_NOMEM: Final[int]
    PL_E_ARG: Final[int]
    PL_E_GONE: Final[int]
    PL_E_IO: Final[int]
    PL_E_PARSE: Final[int]
    PL_E_ABSENT: Final[int]
    PL_E_LIMIT: Final[int]
    PL_HAS_THROTTLED: Final[int]
    PL_HAS_MEMORY: Final[int]
    PL_HAS_PRESSURE: Final[int]
    PL_HAS_FULL: Final[int]
    PL_HAS_MEMORY_STAT: Final[int]
    PL_HAS_MEMORY_PEAK: Final[int]
    PL_HAS_MEMORY_PRESSURE: Final[int]
    PL_HAS_IO_PRESSURE: Final[int]
    PL_HAS_MEMORY_EVENTS: Final[int]
    PL_HAS_FILE_REFAULTS: Final[int]
    PL_SWEEP_SLOW: Final[int]
    PL_SWEEP_RETRY: Final[int]
    PL_FILE_DIRECTORY: Final[int]
    PL_FILE_CPU_STAT: Final[int]
    PL_FILE_CPU_PRESSURE: Final[int]
    PL_FILE_MEMORY_CURRENT: Final[int]
    PL_FILE_MEMORY_STAT: Final[int]
    PL_FILE_MEMORY_PEAK: Final[int]
    PL_FILE_MEMORY_PRESSURE: Final[int]
    PL_FILE_IO_PRESSURE: Final[int]
    PL_FILE_MEMORY_EVENTS: Final[int]
    PL_FILES: Final[int]
    PL_CAUSE_GONE: Final[int]
    PL_CAUSE_ABSENT: Final[int]
    PL_CAUSE_IO: Final[int]
    PL_CAUSE_PARSE: Final[int]
    PL_CAUSE_LIMIT: Final[int]
    PL_CAUSES: Final[int]
    def pl_open(
        self,
        root: bytes,
        rings: Address,
        memory_bytes: int,
        geometry: Geometry,
        max_lanes: int,
        fd_budget: int,
        out: HandleOut,
        /,
    ) -> int: ...
    def pl_close(self, s: Handle, /) -> None: ...
    def pl_add(self, s: Handle, slot: int, relative_path: bytes, inode: int, /) -> int: ...
    def pl_remove(self, s: Handle, slot: int, /) -> int: ...
    def pl_sweep(self, s: Handle, what: int, result: SweepResult, /) -> int: ...
    def pl_take_gone(self, s: Handle, slots: Uint32Array, cap: int, /) -> int: ...
    def pl_lane_add(self, s: Handle, path: bytes, lane: Uint32Array, /) -> int: ...
    def pl_lane_remove(self, s: Handle, lane: int, /) -> int: ...
    def pl_lane_read(self, s: Handle, readings: LaneReadings, cap: int, /) -> int: ...
    def pl_lane_wait(
        self,
        s: Handle,
        wake_fd: int,
        until_ns: int,
        due_ns: Int64Out,
        step_ns: int,
        lanes: Address,
        count: int,
        readings: LaneReadings,
        /,
    ) -> int: ...
    def pl_read_limits(self, s: Handle, limits: Address, cap: int, /) -> int: ...
    def pl_get_stats(self, s: Handle, out: Stats, /) -> None: ...
    def pl_last_errno(self, s: Handle, /) -> int: ...
    def pl_head(self, head: Uint64Array, /) -> int: ...
    def pl_reader_open(self, rings: Address, memory_bytes: int, geometry: Geometry, out: ReaderOut, /) -> int: ...
    def pl_reader_close(self, r: Reader, /) -> None: ...
    def pl_sum_cpu(
        self,
        r: Reader,
        slots: Address,
        count: int,
        rows: int,
        end_ns: int,
        rules: Rules,
        out: Address,
        is_intact: Address,
        /,
    ) -> int: ...
    def pl_sum_memory(
        self,
        r: Reader,
        slots: Address,
        count: int,
        rows: int,
        end_ns: int,
        rules: Rules,
        out: Address,
        is_intact: Address,
        /,
    ) -> int: ...
    def pl_sum_minute(
        self,
        r: Reader,
        slots: Address,
        count: int,
        raw_rows: int,
        memory_rows: int,
        start_ns: int,
        rules: Rules,
        out: Address,
        is_intact: Address,
        /,
    ) -> int: ...

ffi: Final[_FFI]
lib: Final[_Lib]
