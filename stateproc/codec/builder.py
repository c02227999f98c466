"""Build VM programs: ops, the table of null fills, the name table, columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from stateproc.codec import ops

if TYPE_CHECKING:
    import pyarrow as pa

    from stateproc.wire import Cursor


HostReader = Callable[["Cursor"], Any]
"""Reads one value that no program can describe; leaves the cursor after it."""


class DecodedColumns:
    """The columns that the VM has filled, for assemblers: numpy arrays, and the Python values of host columns."""

    def __init__(self, columns: Callable[[int, Any], npt.NDArray[Any]], python_values: dict[int, list[Any]]) -> None:
        self.column = columns
        self._python_values = python_values

    def python_values(self, column: int) -> list[Any]:
        """The values of a host column; rows filled with null hold None."""
        present = self.column(column, np.uint8)
        values = iter(self._python_values[column])
        return [next(values) if mark else None for mark in present]


Assembler = Callable[[DecodedColumns], "pa.Array"]
"""Turns filled columns into one Arrow array."""


@dataclass
class Label:
    """A position in the program, or an index of a null fill, that may be known only later."""

    at: int | None = None


@dataclass(frozen=True)
class Program:
    """A runnable program: see :func:`stateproc.codec.vm.dispatch.run` for the tables' meaning.

    ``column_widths``: int32, the width of each column, for :func:`stateproc.codec.vm.vectorized.run`; None if every
    row must be decoded on its own (columns of items, values that Python reads).
    """

    code: npt.NDArray[np.int32]
    fills: npt.NDArray[np.int32]
    names: npt.NDArray[np.uint8]
    n_columns: int
    hosts: tuple[tuple[HostReader, int], ...]
    reads_kryo: bool = False
    column_widths: npt.NDArray[np.int32] | None = None


@dataclass
class _ColumnSpec:
    width: int
    fill: int
    depth: int


def name_entry(text: bytes) -> bytes:
    """``text`` as an entry of a program's name table."""
    return len(text).to_bytes(2, "big") + text


@dataclass
class Builder:
    """Collects a program. Columns are numbered in the order they are asked for.

    While ``keep`` is False, columns are -1: bytes are read but nothing is kept.
    """

    _code: list[int | Label] = field(default_factory=list)
    _fills: list[int] = field(default_factory=list)
    _names: bytearray = field(default_factory=bytearray)
    _columns: list[_ColumnSpec] = field(default_factory=list)
    _cursor: int = 0
    _depth: int = 0
    _hosts: list[tuple[HostReader, int]] = field(default_factory=list)
    keep: bool = True
    reads_kryo: bool = False

    def op(self, code: int, *operands: int | Label) -> None:
        self._code.append(code)
        self._code.extend(operands)

    def label(self) -> Label:
        return Label()

    def bind(self, label: Label) -> None:
        label.at = len(self._code)

    def here(self) -> Label:
        return Label(len(self._code))

    def column(self, width: int, fill: int = 0) -> int:
        """A column of values of ``width`` bytes, in which a null of an outer value stands as ``fill``.

        ``width`` 0: bytes of a variable-length value, for which a null leaves nothing.
        """
        if not self.keep:
            return -1
        number = self._cursor
        self._cursor += 1
        made = _ColumnSpec(width, fill, self._depth)
        if number == len(self._columns):
            self._columns.append(made)
        elif self._columns[number] != made:
            raise AssertionError("alternatives that share columns must use them for the same values")
        return number

    @property
    def column_count(self) -> int:
        return self._cursor

    @contextmanager
    def reuse_columns(self, column: int) -> Iterator[None]:
        """Emit into the columns from ``column`` on, made before: one more choice for the same values."""
        saved, self._cursor = self._cursor, column
        try:
            yield
        finally:
            self._cursor = saved

    @contextmanager
    def items(self) -> Iterator[None]:
        """Inside: the columns belong to the items of a collection, not to the value that holds it."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def discard_values(self) -> Iterator[None]:
        """Inside: bytes are read, nothing is kept."""
        saved, self.keep = self.keep, False
        try:
            yield
        finally:
            self.keep = saved

    def fill_from(self, first: int, stop: int | None = None) -> int:
        """A null fill for the columns made since ``first`` (up to ``stop``), at this depth."""
        at = len(self._fills)
        if not self.keep:
            self._fills.append(0)
            return at
        entries: list[int] = []
        for number in range(first, self._cursor if stop is None else stop):
            column = self._columns[number]
            if column.depth == self._depth and column.width:
                entries += (number, column.width, column.fill)
        self._fills.append(len(entries) // 3)
        self._fills += entries
        return at

    def pending_fill(self) -> Label:
        """A fill operand whose columns are not known yet; see :meth:`set_fill`."""
        return Label()

    def set_fill(self, label: Label, first: int, stop: int | None = None) -> None:
        label.at = self.fill_from(first, stop)

    def name(self, text: bytes) -> int:
        """``text`` in the name table; where it begins."""
        return self.names(name_entry(text))

    def names(self, entries: bytes) -> int:
        """Several entries of the name table; where the first begins."""
        at = len(self._names)
        self._names += entries
        return at

    def table(self, words: list[int]) -> int:
        """``words`` among the null fills; where they begin."""
        at = len(self._fills)
        self._fills += words
        return at

    def host(self, reader: HostReader) -> int:
        """Emit a call of ``reader``; the number of the column that marks its values."""
        column = self.column(1, 0)
        self.op(ops.HOST, len(self._hosts), column)
        self._hosts.append((reader, column))
        return column

    def refuse(self, reader: HostReader) -> None:
        """Emit a call of ``reader`` that never returns a value: it raises an error that explains the bytes."""
        self.op(ops.HOST, len(self._hosts), -1)
        self._hosts.append((reader, -1))

    def build(self) -> Program:
        code = []
        for word in self._code:
            if isinstance(word, Label):
                if word.at is None:
                    raise AssertionError("a label was never placed")
                word = word.at
            code.append(word)
        return Program(
            code=np.array(code, dtype=np.int32),
            fills=np.array(self._fills or [0], dtype=np.int32),
            names=np.frombuffer(bytes(self._names) + bytes(8), dtype=np.uint8),
            n_columns=len(self._columns),
            hosts=tuple(self._hosts),
            reads_kryo=self.reads_kryo,
            column_widths=self._widths(),
        )

    def _widths(self) -> npt.NDArray[np.int32] | None:
        if self.reads_kryo or any(column >= 0 for _, column in self._hosts) or any(c.depth for c in self._columns):
            return None
        return np.array([column.width for column in self._columns], dtype=np.int32)
