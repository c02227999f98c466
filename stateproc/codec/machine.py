"""Run programs over buffers: grow columns, call the host for values that only Python can read, report damage."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.array_types import Bytes, Longs
from stateproc.codec.arrow_arrays import uninitialized_bytes
from stateproc.codec.builder import Builder, DecodedColumns, Program
from stateproc.codec.errors import Unrepresentable
from stateproc.codec.layouts import Layout
from stateproc.codec.vm import dispatch
from stateproc.codec.vm import vectorized as vectorized
from stateproc.codec.vm import vectorized_ops as vectorized_ops
from stateproc.codec.vm.kryo_kernels import BLOCK_WORDS
from stateproc.errors import SnapshotError
from stateproc.wire import Cursor

# Output columns of the VM, which grow as needed.

_MARGIN = 1.1
_MOST_EXPECTED = 16 << 20
"""Bytes by which a column grows at most because of what is expected: the first rows may be longer than the others."""


class Columns:
    """Columns of raw values. ``table[c]`` = (address, used, capacity), the last two in bytes."""

    LIMIT = 2**31 - 1
    ENOUGH = 128 << 20
    _INITIAL_CAPACITY = 1024

    def __init__(self, n: int) -> None:
        self.table = np.zeros((n, 3), dtype=np.int64)
        self.saved = np.zeros(n, dtype=np.int64)
        self._data: list[Bytes] = [np.empty(0, dtype=np.uint8)] * n
        self._given: set[int] = set()
        for column in range(n):
            self._allot(column, self._INITIAL_CAPACITY)

    def _allot(self, column: int, capacity: int) -> None:
        """Give the column ``capacity`` bytes, keeping what it holds."""
        data = uninitialized_bytes(capacity)
        used = int(self.table[column, 1])
        data[:used] = self._data[column][:used]
        self._data[column] = data
        self.table[column] = data.ctypes.data, used, capacity

    def grow(self, column: int, need: int, share: float = 0.0) -> bool:
        """Grow ``column`` by at least ``need`` bytes; False if it would exceed 2 GiB.

        ``share``: the share of all rows that the column has now, 0 if not known. It grows to the bytes of all rows at
        this rate, because each growth interrupts the kernel and needs the interpreter's lock.
        """
        used, capacity = int(self.table[column, 1]), int(self.table[column, 2])
        if used + need > self.LIMIT or capacity >= self.LIMIT:
            return False
        expected = min(int(_MARGIN * used / share), used + _MOST_EXPECTED) if share else 4 * capacity
        self._allot(column, min(self.LIMIT, max(2 * capacity, used + need, expected)))
        return True

    def reserve(self, needs: npt.NDArray[np.int64]) -> None:
        """Grow all columns at once that lack capacity, unless together they would be large.

        ``needs``: further bytes for each column.
        """
        wanted = self.table[:, 1] + needs
        if int(np.maximum(wanted, self.table[:, 2]).sum()) <= self.ENOUGH:
            for column in np.flatnonzero(wanted > self.table[:, 2]).tolist():
                self._allot(column, int(wanted[column]))

    @property
    def is_large(self) -> bool:
        """Whether the columns hold so many bytes that whoever can should go on in another batch."""
        return int(self.table[:, 2].sum()) > self.ENOUGH and int(self.table[:, 1].sum()) > self.ENOUGH // 2

    def clear(self) -> None:
        """Forget the values; columns that were given away get memory of their own again."""
        for column in self._given:
            self._data[column] = np.empty(0, dtype=np.uint8)
            self.table[column, 1] = 0
            self._allot(column, int(self.table[column, 2]))
        self._given.clear()
        self.table[:, 1] = 0

    def view(self, column: int) -> Bytes:
        """The column's bytes, until it is written to again."""
        return self._data[column][: int(self.table[column, 1])]

    def take(self, column: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The column's values, which nothing written later touches: mostly the column's own memory, given away.

        What was written is a copy where the column's memory is mostly empty.
        """
        view = self.view(column)
        if 2 * len(view) < int(self.table[column, 2]):
            view = view.copy()
        else:
            self._given.add(column)
        values: npt.NDArray[Any] = view.view(dtype)
        return values


_MIN_OVERSIZED = 16 << 20
"""No sound value of fewer bytes becomes 2 GiB."""


class DecodeFailure(Exception):
    """Internal: the outcome ``code`` at ``position`` of the buffer, in row ``row``; readers give it a place."""

    def __init__(self, code: int, position: int, row: int) -> None:
        super().__init__(ops.MESSAGES.get(code, "the value is damaged"), position, row)
        self.code = code
        self.position = position
        self.row = row


class _Spans(NamedTuple):
    """Where the starts and ends of rows are, as kernels take them: one int64 per row and run, a run per segment.

    Attributes:
        starts: The address of the first run of starts.
        start_stride: Bytes between two runs of starts.
        ends: The address of the first run of ends.
        end_stride: Bytes between two runs of ends.
    """

    starts: int
    start_stride: int
    ends: int
    end_stride: int

    @classmethod
    def of(cls, starts: Longs, ends: Longs) -> _Spans:
        """Describe two arrays [segments, rows], which must outlive the result and have rows one after another."""
        return cls(_address(starts), starts.strides[0], _address(ends), ends.strides[0])


class Machine:
    """One program and its output columns, reused from batch to batch. Not thread-safe."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._columns = Columns(max(1, program.n_columns))
        self._python_values: dict[int, list[Any]] = {column: [] for _, column in program.hosts if column >= 0}
        self._reg = np.zeros(ops.REGISTERS, dtype=np.int64)
        self._stack = np.zeros(ops.STACK_WORDS, dtype=np.int64)
        self._scratch = np.empty(vectorized.SCRATCH_WORDS if program.column_widths is not None else 1, dtype=np.int64)
        self._fallback_chunks = 0
        self._appended = 0
        self._kryo = np.empty(BLOCK_WORDS if program.reads_kryo else 1, dtype=np.int64)
        # Asking an array for its address takes longer than a kernel needs for a few rows. These arrays stay in place.
        self._code_at, self._fills_at = _address(program.code), _address(program.fills)
        self._names_at, self._kryo_at = _address(program.names), _address(self._kryo)
        self._table_at, self._saved_at = _address(self._columns.table), _address(self._columns.saved)
        self._reg_at, self._stack_at = _address(self._reg), _address(self._stack)
        self._more = False
        self._span = np.zeros(2, dtype=np.int64)
        span_at = _address(self._span)
        self._span_at = _Spans(span_at, 0, span_at + 8, 0)

    def run(self, data: Bytes, starts: Longs, ends: Longs, first: int, last: int) -> int:
        """Decode rows ``first`` to ``last`` (exclusive); the row reached, less if columns are full.

        ``starts``, ``ends``: int64 [segments, rows], positions in ``data``. Raises DecodeFailure.
        """
        self._begin(first)
        self._more = False
        starts, ends = _adjacent_rows(starts), _adjacent_rows(ends)
        spans = _Spans.of(starts, ends)
        if self.program.column_widths is None:
            return self._run_rows(data, spans, last, False)
        return self._run_vectorized(data, spans, first, last, self.program.column_widths)

    def run_stream(
        self,
        data: Bytes,
        start: int,
        end: int,
        limit: int,
        *,
        append: bool = False,
        expected: int = 0,
        more: bool = False,
    ) -> tuple[int, int]:
        """Decode at most ``limit`` rows that follow one another; (rows decoded, position after them).

        Stops early, without an error, where the next row needs bytes after ``end``. ``append``: the rows are appended
        to those that the columns hold already. ``expected``: how many rows the caller will append in all. ``more``:
        bytes may follow ``end``, with which the caller tries again where rows are missing.
        """
        self._begin(0, append)
        self._more = more
        self._span[0], self._span[1] = start, end
        if limit <= 0:
            return 0, start
        try:
            rows = self._run_rows(data, self._span_at, limit, True, expected)
        except DecodeFailure as failure:
            if failure.code != ops.SHORT:
                raise
            if isinstance(failure, HostFailure):
                self._roll_back()
            rows = failure.row
        self._appended += rows
        return rows, int(self._reg[ops.POS])

    def decoded(self) -> DecodedColumns:
        """The filled columns, for assemblers; they stay valid when the machine runs on."""
        python_values = {column: list(values) for column, values in self._python_values.items()}
        return DecodedColumns(self._columns.take, python_values)

    @property
    def is_large(self) -> bool:
        """Whether so many bytes are decoded that they should be taken and cleared before going on."""
        return self._columns.is_large

    def clear(self) -> None:
        """Forget the rows decoded so far."""
        self._appended = 0
        self._columns.clear()
        for values in self._python_values.values():
            values.clear()

    def _begin(self, first: int, append: bool = False) -> None:
        if not append:
            self.clear()
        self._reg[:] = 0
        self._reg[ops.ROW] = first

    def _run_vectorized(self, data: Bytes, spans: _Spans, first: int, last: int, widths: npt.NDArray[np.int32]) -> int:
        """Decode chunks with the vectorized VM, those that it rejects row by row; the row reached."""
        columns, program, reg = self._columns, self.program, self._reg
        # Each column that is full interrupts the kernel, and its chunk is decoded again.
        columns.reserve(widths.astype(np.int64) * (last - first))
        row = first
        while row < last:
            outcome, row = vectorized.run(
                self._code_at,
                self._fills_at,
                data.ctypes.data,
                *spans,
                row,
                last,
                self._table_at,
                widths.ctypes.data,
                program.n_columns,
                self._saved_at,
                self._reg_at,
                self._scratch.ctypes.data,
            )
            if outcome == vectorized_ops.COLUMN_FULL:
                share = (row - first) / (last - first)
                if not (row > first and columns.is_large) and columns.grow(
                    int(reg[ops.AUX]), int(reg[ops.NEED]), share
                ):
                    continue
                if row > first:
                    return row
            if outcome != vectorized_ops.DECODED:
                # Rejected chunks mostly have rejected neighbours: ever more of these are not even tried.
                self._fallback_chunks = min(2 * self._fallback_chunks + 1, 64)
                stop = min(last, row + self._fallback_chunks * vectorized.CHUNK)
                reg[ops.ROW] = row
                row = self._run_rows(data, spans, stop, False)
                if row < stop:
                    return row
            else:
                self._fallback_chunks = 0
        return row

    def _run_rows(self, data: Bytes, spans: _Spans, last: int, stream: bool, expected: int = 0) -> int:
        columns, reg = self._columns, self._reg
        first = int(reg[ops.ROW])
        while True:
            status = dispatch.run(
                self._code_at,
                self._fills_at,
                self._names_at,
                data.ctypes.data,
                *spans,
                last,
                stream,
                self._table_at,
                len(columns.table),
                self._saved_at,
                self._reg_at,
                self._stack_at,
                self._kryo_at,
            )
            if status == ops.DONE:
                return int(reg[ops.ROW])
            if status == ops.CALL_HOST:
                self._call_host(data)
                continue
            if status == ops.RETRY:
                continue
            self._drop_unfinished()
            if status == ops.GROW:
                done = int(reg[ops.ROW]) - first
                share = (self._appended + done) / max(expected, last) if first == 0 else 1.0
                if not (done and columns.is_large) and columns.grow(int(reg[ops.AUX]), int(reg[ops.NEED]), share):
                    continue
                if done:
                    return int(reg[ops.ROW])
                self._refuse_oversized(data)
                raise DecodeFailure(ops.BAD_COUNT, int(reg[ops.ROW_POS]), int(reg[ops.ROW]))
            raise DecodeFailure(status, int(reg[ops.COUNT]), int(reg[ops.ROW]))

    def _refuse_oversized(self, data: Bytes) -> None:
        """Raise Unrepresentable for a row that no column can hold, if there are bytes enough for such a row."""
        if len(data) >= _MIN_OVERSIZED:
            raise Unrepresentable(
                "a value of which a column would hold more than 2 GiB",
                "lists and maps can be read as rows for their elements: flatten=true in Spark, "
                "flatten=True in Python, --flatten; of native heap state take a canonical savepoint first",
            )

    def _call_host(self, data: Bytes) -> None:
        reg = self._reg
        reader, column = self.program.hosts[int(reg[ops.AUX])]
        cursor = Cursor(data.data, pos=int(reg[ops.POS]), end=int(reg[ops.END]))
        cursor.more = self._more
        try:
            value = reader(cursor)
        except SnapshotError as error:
            raise HostFailure(error, int(reg[ops.ROW]), ops.SHORT if cursor.starved else ops.BAD_TAG) from error
        if not int(reg[ops.POS]) <= cursor.pos <= int(reg[ops.END]):
            raise DecodeFailure(ops.BAD_OFFSET, int(reg[ops.POS]), int(reg[ops.ROW]))
        if column >= 0:
            self._python_values[column].append(value)
        reg[ops.POS] = cursor.pos

    def _roll_back(self) -> None:
        """Forget what the row that a host reader gave up has written, as the VM does where it stops by itself."""
        self._columns.table[:, 1] = self._columns.saved
        self._reg[ops.POS] = self._reg[ops.ROW_POS]
        self._drop_unfinished()

    def _drop_unfinished(self) -> None:
        """Host values of a row that was taken back go too: as many stay as the column has marks."""
        for column, values in self._python_values.items():
            del values[int(np.count_nonzero(self._columns.view(column))) :]


def _adjacent_rows(table: Longs) -> Longs:
    """Return [segments, rows] such that the rows of each segment follow one another."""
    return table if table.strides[1] == 8 else np.ascontiguousarray(table)


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.ctypes.data)


class HostFailure(DecodeFailure):
    """Internal: a host reader refused the bytes; ``error`` is its own error, placed within the buffer."""

    def __init__(self, error: SnapshotError, row: int, code: int = ops.BAD_TAG) -> None:
        super().__init__(code, error.where.offset or 0, row)
        self.error = error


# Decode values of one layout: builder, machine and assembler in one class.


class ValueDecoder:
    """Decodes byte strings that each hold exactly one value of ``layout``."""

    def __init__(self, layout: Layout) -> None:
        builder = Builder()
        self._assemble = layout.emit(builder, False)
        builder.op(ops.ROW_END)
        self._machine = Machine(builder.build())

    def decode(self, data: Any, starts: Any, ends: Any) -> pa.Array:
        """The values at ``data[starts[i]:ends[i]]`` (uint8; int64 arrays). Raises DecodeFailure."""
        n = len(starts)
        parts: list[pa.Array] = []
        done = 0
        while done < n or not parts:
            done = self._machine.run(data, np.atleast_2d(starts), np.atleast_2d(ends), done, n)
            parts.append(self._assemble(self._machine.decoded()))
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
