"""Native heap files are read a block at a time: a value may be cut off anywhere, and be more than a block."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec import ops
from stateproc.codec.builder import Builder
from stateproc.codec.layouts import Hosted, Number, Sized
from stateproc.codec.layouts.nesting import StructLayout
from stateproc.codec.layouts.strings import FlinkString
from stateproc.codec.machine import DecodeFailure, Machine
from stateproc.wire import Cursor


def _machine(layout: StructLayout) -> tuple[Machine, object]:
    b = Builder()
    assemble = layout.emit(b, False)
    b.op(ops.ROW_END)
    return Machine(b.build()), assemble


def test_a_value_that_python_reads_and_that_is_cut_off_waits_for_more_bytes() -> None:
    layout = StructLayout((("n", Number(pa.int32())), ("b", Hosted(lambda cursor: cursor.bytes32(), pa.binary()))))
    machine, assemble = _machine(layout)
    whole = b"".join(n.to_bytes(4, "big") + (3).to_bytes(4, "big") + b"abc" for n in range(4))
    for cut in range(len(whole) + 1):
        data = np.frombuffer(whole, np.uint8)
        rows, pos = machine.run_stream(data, 0, cut, 10)
        assert (rows, pos) == (cut // 11, cut // 11 * 11)
        rest, pos = machine.run_stream(data, pos, len(whole), 10, append=True)
        assert (rows + rest, pos) == (4, len(whole))
        assert assemble(machine.decoded()).to_pylist() == [{"n": n, "b": b"abc"} for n in range(4)]  # type: ignore[operator]


def test_a_row_that_grows_its_buffer_inside_of_a_sub_range_of_a_stream_continues_after_it() -> None:
    machine, assemble = _machine(StructLayout((("s", Sized(FlinkString())), ("n", Number(pa.int32())))))
    text = bytes([101]) + b"x" * 100
    row = len(text).to_bytes(4, "big") + text + (7).to_bytes(4, "big")
    data = np.frombuffer(row * 500, np.uint8)
    assert machine.run_stream(data, 0, len(data), 1000) == (500, len(data))
    assert assemble(machine.decoded()).to_pylist() == [{"s": "x" * 100, "n": 7}] * 500  # type: ignore[operator]


def test_what_a_reader_of_the_host_reads_ends_inside_of_its_range() -> None:
    def beyond(cursor: Cursor) -> bytes:
        cursor.pos = cursor.end + 1
        return b""

    machine, _ = _machine(StructLayout((("b", Hosted(beyond, pa.binary())),)))
    data = np.zeros(8, np.uint8)
    with pytest.raises(DecodeFailure):
        machine.run(data, np.zeros((1, 1), np.int64), np.full((1, 1), 4, np.int64), 0, 1)
