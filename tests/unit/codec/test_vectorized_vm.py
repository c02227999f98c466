"""Equivalence of the vectorized VM and the row-by-row VM, in values and errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec import ops
from stateproc.codec.builder import Builder
from stateproc.codec.errors import BadValue
from stateproc.codec.machine import DecodeFailure, Machine
from stateproc.codec.vm import vectorized
from stateproc.serializers import read_snapshot
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable
from tests.helpers.sweeps import sweep
from tests.helpers.vectors import VECTORS, read_vectors, sweep_marks

ROWS = 3 * vectorized.CHUNK + 17


class Decoder:
    """A layout's program, run by the vectorized VM or row by row."""

    def __init__(self, serializer: Serializer, fast: bool) -> None:
        b = Builder()
        self._assemble = serializer.layout(LayoutContext()).emit(b, False)
        b.op(ops.ROW_END)
        program = b.build()
        self.is_vectorized = program.column_widths is not None
        self.machine = Machine(program if fast else replace(program, column_widths=None))

    def decode(self, values: list[bytes]) -> pa.Array:
        data = np.frombuffer(b"".join(values), dtype=np.uint8)
        lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
        ends = np.cumsum(lengths)[None, :]
        starts = ends - lengths
        parts, done = [], 0
        while done < len(values):
            done = self.machine.run(data, starts, ends, done, len(values))
            parts.append(self._assemble(self.machine.decoded()))
        return pa.concat_arrays(parts)

    def outcome(self, values: list[bytes]) -> Any:
        try:
            return self.decode(values)
        except DecodeFailure as failure:
            return failure.code, failure.position, failure.row
        except (BadValue, OverflowError, pa.ArrowInvalid) as error:
            return type(error), str(error)


def same(one: Any, other: Any) -> bool:
    """Return whether failures or values are equal; NaN equals itself, -0.0 differs from 0.0."""
    if isinstance(one, tuple) or isinstance(other, tuple):
        return type(one) is type(other) and one == other
    return one.equals(other) or (one.type == other.type and repr(one.to_pylist()) == repr(other.to_pylist()))


def _entries() -> list[Any]:
    return [
        pytest.param(entry, id=f"{path.stem}-{entry['name']}", marks=sweep_marks(path.name, entry))
        for path in (VECTORS / "flink-1.20.3.json", VECTORS / "flink-2.3.0.json")
        for entry in read_vectors(path.name)["serializers"]
        if entry["cases"]
    ]


def _decoders(entry: dict[str, Any]) -> tuple[Decoder, Decoder] | None:
    serializer = read_snapshot(bytes.fromhex(entry["snapshot"]))
    try:
        fast = Decoder(serializer, True)
    except Undecodable:
        return None
    return (fast, Decoder(serializer, False)) if fast.is_vectorized else None


@pytest.mark.parametrize("entry", _entries())
def test_both_vms_decode_the_same_values(entry: dict[str, Any]) -> None:
    decoders = _decoders(entry)
    if decoders is None:
        return
    fast, slow = decoders
    cases = [bytes.fromhex(case["data"]) for case in entry["cases"]]
    random = np.random.default_rng(7)
    mixed = [cases[index] for index in random.integers(0, len(cases), ROWS)]
    mostly_one = [cases[0]] * ROWS
    mostly_one[vectorized.CHUNK + 5] = cases[-1]
    for values in (cases[:1] * ROWS, mixed, mostly_one, cases):
        assert same(fast.outcome(values), slow.outcome(values))


@pytest.mark.parametrize("entry", _entries())
@pytest.mark.parametrize("rounds", sweep(12), ids=str)
def test_both_vms_report_the_same_error_of_a_damaged_row(entry: dict[str, Any], rounds: range) -> None:
    decoders = _decoders(entry)
    if decoders is None:
        return
    fast, slow = decoders
    random = np.random.default_rng(11 + rounds.start)
    good = bytes.fromhex(entry["cases"][0]["data"])
    for _ in rounds:
        bad = bytearray(good)
        for _ in range(int(random.integers(1, 3))):
            if bad:
                bad[int(random.integers(0, len(bad)))] = int(random.integers(0, 256))
        if random.random() < 0.4:
            bad = bad[: int(random.integers(0, len(bad) + 1))]
        values = [good] * (vectorized.CHUNK + 300)
        values[int(random.integers(0, len(values)))] = bytes(bad)
        assert same(fast.outcome(values), slow.outcome(values))


def test_pojos_with_nulls_are_decoded_by_the_vectorized_vm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nulls in the fields of a POJO do not cause a fallback to the row-by-row VM."""
    pojo = _pojo()
    rows = [b"\x02" + bytes([k % 3 == 0]) + (b"" if k % 3 == 0 else bytes(8)) + bytes([k % 5 == 0])
            + (b"" if k % 5 == 0 else b"\x03ab") for k in range(ROWS)]  # fmt: skip
    decoder = Decoder(pojo, True)
    monkeypatch.setattr(decoder.machine, "_run_rows", None)
    decoded = decoder.decode(rows)
    assert decoded.to_pylist() == [
        {"n": None if k % 3 == 0 else 0, "s": None if k % 5 == 0 else "ab"} for k in range(ROWS)
    ]


@pytest.mark.slow
def test_rows_of_hundreds_of_columns_are_decoded_in_smaller_chunks() -> None:
    """The last chunk is damaged: the rows of the chunks before it are kept, and the error names the row."""
    wide = _wide_pojo(300)
    rows = [b"\x02" + b"".join(bytes([(k + c) % 7 == 0]) + (b"" if (k + c) % 7 == 0 else bytes([c % 256] * 8))
            for c in range(300)) for k in range(ROWS)]  # fmt: skip
    fast, slow = Decoder(wide, True), Decoder(wide, False)
    assert fast.is_vectorized
    assert same(fast.outcome(rows), slow.outcome(rows))
    assert fast.decode(rows).slice(ROWS - 1).to_pylist() == [
        {f"c{c}": None if (ROWS - 1 + c) % 7 == 0 else int.from_bytes(bytes([c % 256] * 8), "big", signed=True)
         for c in range(300)}
    ]  # fmt: skip
    rows[-2] = rows[-2][:-1]
    assert same(fast.outcome(rows), slow.outcome(rows))
    assert fast.outcome(rows)[2] == ROWS - 2


def _wide_pojo(columns: int) -> Serializer:
    from stateproc.serializers.java.scalars import SCALARS, Scalar
    from stateproc.serializers.pojo.serializer import Pojo

    (long,) = (Scalar(*row) for row in SCALARS if row[0] == "Long")
    return Pojo("Wide", tuple((f"c{c}", long) for c in range(columns)))


def _pojo() -> Serializer:
    from stateproc.serializers.java.scalars import SCALARS, Scalar
    from stateproc.serializers.pojo.serializer import Pojo

    scalars = {row[0]: Scalar(*row) for row in SCALARS}
    return Pojo("Thing", (("n", scalars["Long"]), ("s", scalars["String"])))
