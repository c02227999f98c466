"""Arrow → pandas → Arrow: equal for every type of column that readers return, nested to any depth."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stateproc
from stateproc.errors import InvalidOption
from stateproc.model.row_access import PANDAS_DTYPES, to_frame
from tests.helpers.fixtures import Fixture, fixtures
from tests.helpers.paths import DEMO, FIXTURES
from tests.helpers.sweeps import sampled


def integers(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    edges = [low, high, 0, -1, *([2**53 + 1, -(2**53) - 1] if bits == 64 else [])]
    return st.sampled_from(edges) | st.integers(low, high)


def floats(width: int) -> st.SearchStrategy[float]:
    edges = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324 if width == 64 else 1e-45]
    smallest = [struct.unpack("f", struct.pack("f", edge))[0] if width == 32 else edge for edge in edges]
    return st.sampled_from(smallest) | st.floats(width=width)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    digits = st.sampled_from([most, -most, 0, 1]) | st.integers(-most, most)
    return digits.map(lambda value: Decimal(f"{value}E{-scale}"))


MICROS_OF_DAY = 86_400_000_000
LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): integers(8),
    pa.int16(): integers(16),
    pa.int32(): integers(32),
    pa.int64(): integers(64),
    pa.uint8(): st.integers(0, 2**8 - 1),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.float32(): floats(32),
    pa.float64(): floats(64),
    pa.string(): st.sampled_from(["", "\0", "é𝄞"]) | st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.decimal128(38, 18): decimals(38, 18),
    pa.decimal128(5, 0): decimals(5, 0),
    pa.date32(): integers(32),
    pa.time64("us"): st.sampled_from([0, MICROS_OF_DAY - 1]) | st.integers(0, MICROS_OF_DAY - 1),
    pa.timestamp("us"): integers(64),
    pa.timestamp("us", "UTC"): integers(64),
}
"""The types of docs/types.md, and values with their edges; times as the numbers that Arrow stores."""


def nested(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    structs = st.lists(children, max_size=3).map(
        lambda types: pa.struct([pa.field(f"f{index}", type_) for index, type_ in enumerate(types)])
    )
    keys = st.sampled_from(list(LEAVES))
    return structs | children.map(pa.list_) | st.tuples(keys, children).map(lambda types: pa.map_(*types))


TYPES = st.recursive(st.sampled_from(list(LEAVES)), nested, max_leaves=5)


def values_of(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(type_):
        return st.fixed_dictionaries({field.name: st.none() | values_of(field.type) for field in type_})
    if pa.types.is_map(type_):
        return st.lists(st.tuples(values_of(type_.key_type), st.none() | values_of(type_.item_type)), max_size=3)
    if pa.types.is_list(type_):
        return st.lists(st.none() | values_of(type_.value_type), max_size=3)
    return LEAVES[type_]


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    type_ = draw(TYPES)
    column = pa.array(draw(st.lists(st.none() | values_of(type_), max_size=4)), type_)
    column.validate(full=True)
    return column


def stored(type_: pa.DataType) -> pa.DataType:
    """Return the type with numbers in place of dates and times, of which Python's own have smaller ranges."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(stored(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(stored(type_.key_type), stored(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(stored(type_.value_type))
    if pa.types.is_temporal(type_):
        return pa.int32() if pa.types.is_date32(type_) else pa.int64()
    return type_


def exact(column: pa.Array | pa.ChunkedArray) -> str:
    """Return all values as text: -0.0 and 0.0 differ, nan and null differ, nan equals nan."""
    return repr(column.cast(stored(column.type)).to_pylist())


@pytest.mark.parametrize("dtypes", [PANDAS_DTYPES[0], *map(sampled, PANDAS_DTYPES[1:])])
@settings(max_examples=150, deadline=None)
@given(column=columns())
def test_arrow_to_pandas_to_arrow_is_equal(dtypes: str, column: pa.Array) -> None:
    table = pa.table({"c": column})
    back = pa.Table.from_pandas(to_frame(table, dtypes), schema=table.schema, preserve_index=False)
    assert back.schema == table.schema
    assert exact(back.column("c")) == exact(column)


@pytest.mark.parametrize("dtypes", PANDAS_DTYPES)
@pytest.mark.parametrize("type_", LEAVES, ids=str)
def test_every_type_and_its_empty_column(dtypes: str, type_: pa.DataType) -> None:
    table = pa.table({"c": pa.array([], type_), "l": pa.array([], pa.list_(type_))})
    frame = to_frame(table, dtypes)
    assert pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False).equals(table)
    if pa.types.is_integer(type_):
        assert isinstance(frame["c"].dtype, pd.ArrowDtype) == (dtypes == "arrow")
        assert str(frame["c"].dtype).lower().startswith(str(type_))


def test_nullable_columns_have_the_types_of_pandas() -> None:
    table = pa.table(
        {
            "long": pa.array([2**53 + 1, None]),
            "bool": pa.array([True, None]),
            "text": pa.array(["", None]),
            "double": pa.array([float("nan"), None]),
            "time": pa.array([1, None], pa.timestamp("us", "UTC")),
            "struct": pa.array([{"a": 2**53 + 1}, None], pa.struct([("a", pa.int64())])),
        }
    )
    frame = to_frame(table, "nullable")
    assert [str(dtype) for dtype in frame.dtypes] == [
        "Int64",
        "boolean",
        "string",
        "Float64",
        "timestamp[us, tz=UTC][pyarrow]",
        "struct<a: int64>[pyarrow]",
    ]
    assert frame["long"][0] == 2**53 + 1
    assert frame["long"].isna().tolist() == [False, True]
    assert frame["struct"][0] == {"a": 2**53 + 1}


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(InvalidOption) as caught:
        to_frame(pa.table({"c": [1]}), "numpy")
    assert (caught.value.message, caught.value.advice) == ("option dtypes='numpy'", "give one of arrow, nullable")


KITCHENS = [item for item in fixtures() if item.path.name in ("kitchen-hashmap-canonical", "sql-hashmap-canonical")]


@pytest.mark.parametrize("fixture", KITCHENS, ids=str)
@pytest.mark.parametrize("dtypes", PANDAS_DTYPES)
def test_states_of_flink(fixture: Fixture, dtypes: str) -> None:
    for state in stateproc.open(str(fixture.snapshot)).states:
        if state.problem is None:
            table = state.to_arrow()
            frame = state.to_pandas(dtypes=dtypes)
            assert pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False).equals(table)
            assert not [dtype for dtype in frame.dtypes if str(dtype) in ("float64", "object", "datetime64[ns]")]


@pytest.mark.parametrize(
    "name", ["1.20/kitchen-hashmap-canonical", "1.20/kitchen-rocksdb-incremental", "2.3/kitchen-hashmap-canonical"]
)
def test_pandas_data_frames_keep_every_value(name: str) -> None:
    fixture = next(item for item in fixtures() if item.name == name)
    compared = 0
    for state in fixture.open().states:
        if state.problem is None:
            table = state.to_arrow()
            frame = state.to_pandas()
            assert pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False).equals(table)
            assert all(isinstance(dtype, pd.ArrowDtype) for dtype in frame.dtypes)
            compared += 1
    assert compared > 10


def test_a_condition_keeps_its_rows() -> None:
    state = stateproc.open(str(DEMO)).operator("orders-per-customer").state("profile")
    assert state.to_pandas(where="key_group = 29 AND key = 42")["key"].tolist() == [42]


def test_a_feed_has_the_rows_of_its_table() -> None:
    chain = str(FIXTURES / "1.20/chain-rocksdb/snapshot")
    feed = stateproc.changes(chain, uid="chain", state="sum", starting_checkpoint=6)
    assert len(feed.to_pandas()) == feed.to_arrow().num_rows


@pytest.mark.parametrize("dtypes", PANDAS_DTYPES)
def test_what_is_assigned_changes_neither_the_table_nor_other_frames(dtypes: str) -> None:
    """Frames share memory with the table; pandas 3 copies on write, pandas 2 copies where it cannot write."""
    table = pa.table({"long": [1, 2, 3], "text": ["a", "b", None]})
    frame, other = to_frame(table, dtypes), to_frame(table, dtypes)
    frame.loc[0, "long"] = 7
    frame.loc[1, "text"] = "z"
    assert frame["long"].tolist()[0] == 7
    assert table["long"].to_pylist() == other["long"].tolist() == [1, 2, 3]
    assert table["text"].to_pylist() == ["a", "b", None]
