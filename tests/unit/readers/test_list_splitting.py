"""Flattening of lists longer than Arrow's 2 GiB offset limit: the rows do not depend on where a list is split."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import stateproc
from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot
from stateproc.model.keyed_state import KeyedState
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.rocksdb import RocksDbSplit
from stateproc.readers.splits import ScanRequest
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.scalars import SCALARS, VOID_NAMESPACE, Scalar
from tests.helpers.paths import FIXTURES

CTX = LayoutContext()
SCALAR = {row[0]: Scalar(*row) for row in SCALARS}


def list_states() -> Iterator[tuple[KeyedState, RocksDbSplit]]:
    """Yield list states of RocksDB checkpoints, whose values are stored as merge operands."""
    for release in ("1.9/tiny", "1.20/kitchen", "2.3/kitchen"):
        snapshot = stateproc.open(str(FIXTURES / f"{release}-rocksdb-incremental/snapshot"))
        for operator in snapshot.operators:
            for state in operator.keyed_states:
                if state.kind == "list":
                    for split in state.plain_splits(ScanRequest(flatten=True)):
                        assert isinstance(split, RocksDbSplit)
                        yield state, split


@pytest.mark.parametrize("longest", [0, 1, 7, 20, 40])
def test_flattened_rows_of_real_lists_do_not_depend_on_the_limit(longest: int) -> None:
    cut = 0
    for state, split in list_states():
        whole = pa.Table.from_batches(list(split.read()), state.schema(flatten=True))
        context = split.scan.options.context
        parts = list(decode_entries(split.raw_entries(), state.keyed, context, flatten=True, longest=longest))
        assert pa.Table.from_batches(parts, state.schema(flatten=True)) == whole
        cut += len(parts) > 1
    assert cut or longest == 40


def entries(lists: list[list[bytes]]) -> RawEntries:
    parts: list[bytes] = []
    for key, elements in enumerate(lists):
        parts += [key.to_bytes(8, "big") + b"\0", b",".join(elements)]
    bounds = np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64)
    ranges = np.stack([bounds[0:-1:2], bounds[1::2], bounds[1::2], bounds[2::2]])
    data = np.frombuffer(b"".join(parts), dtype=np.uint8)
    return RawEntries(data, np.zeros(len(lists), np.int32), ranges, "file", 0)


def state_of(element: str) -> StateDescriptor:
    return StateDescriptor("s", StateKind.LIST, 0, SCALAR["Long"], VOID_NAMESPACE, SCALAR[element])


def text(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


def rows(chunk: RawEntries, element: str, **options: int) -> list[tuple[int, int, object]]:
    batches = decode_entries([chunk], state_of(element), CTX, flatten=True, **options)
    return [(row["key"], row["list_index"], row["list_element"]) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("longest", [0, 3, 10, 64, 1 << 20])
def test_elements_that_contain_commas_are_not_split(longest: int) -> None:
    lists = [[text(",,"), text(""), text("a,b")], [text("c" * 43)], [text(",") for _ in range(100)], [text("d")]]
    wanted = [
        (key, index, element[1:].decode())
        for key, elements in enumerate(lists)
        for index, element in enumerate(elements)
    ]
    assert rows(entries(lists), "String", longest=longest) == wanted


def test_integers_whose_bytes_are_commas_are_not_split() -> None:
    lists = [[(0x2C2C2C2C).to_bytes(4, "big")] * 1000, [(44).to_bytes(4, "big")]]
    found = rows(entries(lists), "Int", longest=50)
    assert found == [(0, index, 0x2C2C2C2C) for index in range(1000)] + [(1, 0, 44)]


def test_batches_have_about_the_specified_length() -> None:
    chunk = entries([[text("x" * 9)] * 1000])
    sizes = [len(batch) for batch in decode_entries([chunk], state_of("String"), CTX, flatten=True, longest=110)]
    assert sum(sizes) == 1000 and set(sizes[:-1]) == {10}


def test_a_value_above_the_limit_is_refused_with_the_advice_to_flatten() -> None:
    chunk = entries([[text("a")], [text("x" * 40)] * 3])
    with pytest.raises(UnsupportedSnapshot, match="a list of 125 bytes") as caught:
        list(decode_entries([chunk], state_of("String"), CTX, most=124))
    assert "flatten=true" in str(caught.value)
    assert (caught.value.where.file, caught.value.where.offset, caught.value.where.state) == ("file", 20, "s")
    assert sum(len(batch) for batch in decode_entries([chunk], state_of("String"), CTX, most=125)) == 2


@pytest.mark.parametrize("damage", [b";", b""])
def test_damage_inside_a_long_list_is_reported_with_its_offset(damage: bytes) -> None:
    chunk = entries([[text("abc")] * 10])
    data = bytearray(chunk.data.tobytes())
    at = 9 + 5 * 6 + 4
    data[at : at + 1] = damage
    ranges = chunk.ranges.copy()
    ranges[3] = len(data)
    broken = RawEntries(np.frombuffer(bytes(data), np.uint8), chunk.key_groups, ranges, "file", 1000)
    with pytest.raises(CorruptSnapshot) as caught:
        rows(broken, "String", longest=12)
    assert caught.value.where.file == "file"
    assert caught.value.where.offset is not None and caught.value.where.offset >= 1000 + 9 + 5 * 6
