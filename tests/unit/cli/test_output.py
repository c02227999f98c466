"""Output of rows as JSON, CSV, Parquet and Arrow, tables for terminals, and bars."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import math

import pyarrow as pa
import pyarrow.parquet
import pytest

from stateproc.cli.arguments import choose_format
from stateproc.cli.rows_table import rows_table
from stateproc.cli.terminal import bar, plain, sparkline
from stateproc.errors import InvalidOption
from stateproc.html.units import human_bytes
from stateproc.row_formats.json_values import json_lines, json_values
from stateproc.row_formats.row_writers import WRITERS

UTC = datetime.timezone.utc
D = decimal.Decimal


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array([2**63 - 1, -(2**63), None]), [2**63 - 1, -(2**63), None]),
        (pa.array([True, None]), [True, None]),
        (pa.array([0.1, math.nan, math.inf, -math.inf, None]), [0.1, "NaN", "Infinity", "-Infinity", None]),
        (pa.array([0.1, None, math.nan], pa.float32()), [0.1, None, "NaN"]),
        (
            pa.array([D("1.50"), D("-0.00"), D("1e2"), None], pa.decimal128(10, 2)),
            ["1.50", "0.00", "100.00", None],
        ),
        (pa.array([b"\x00\xff", b"", None]), ["AP8=", "", None]),
        (pa.array(["", "café", "\N{TEACUP WITHOUT HANDLE}"]), ["", "café", "\N{TEACUP WITHOUT HANDLE}"]),
        (pa.array([datetime.date(2024, 2, 29), None]), ["2024-02-29", None]),
        (pa.array([-719529, 2932897], pa.int32()).cast(pa.date32()), ["-0001-12-31", "+10000-01-01"]),
        (pa.array([datetime.time(1, 2, 3, 400000), datetime.time(0, 0)]), ["01:02:03.400", "00:00:00"]),
        (
            pa.array([1, 0, None], pa.timestamp("us", "UTC")),
            ["1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00Z", None],
        ),
        (pa.array([-1, 1500], pa.timestamp("ms")), ["1969-12-31T23:59:59.999", "1970-01-01T00:00:01.500"]),
        (pa.array([253402300800000000], pa.timestamp("us", "UTC")), ["+10000-01-01T00:00:00Z"]),
        (pa.array([[1, None], None, []]), [[1, None], None, []]),
        (
            pa.array([[("b", 1), ("a", None)], None], pa.map_(pa.string(), pa.int8())),
            [[{"key": "b", "value": 1}, {"key": "a", "value": None}], None],
        ),
        (
            pa.array([{"x": 1.5, "y": b"a"}, None, {"x": None, "y": None}]),
            [{"x": 1.5, "y": "YQ=="}, None, {"x": None, "y": None}],
        ),
        (pa.array([None, None], pa.null()), [None, None]),
        (pa.array([{}, None], pa.struct([])), [{}, None]),
    ],
)
def test_arrow_values_are_converted_to_json_values(array: pa.Array, values: list[object]) -> None:
    assert json_values(array) == values
    # Only the rows of a slice are converted, not its whole buffers.
    assert json_values(array.slice(1)) == values[1:]


def test_negative_zero_keeps_its_sign() -> None:
    for kind in (pa.float32(), pa.float64()):
        (value,) = json_values(pa.array([-0.0], kind))
        assert math.copysign(1, value) == -1


def test_slices_of_nested_arrays_are_converted() -> None:
    array = pa.array([[{"a": [1]}], [{"a": [2, 3]}, None], None, [{"a": None}]])
    assert json_values(array.slice(1, 2)) == [[{"a": [2, 3]}, None], None]


def test_json_lines_can_be_read_again() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"k": [1, 2], "v": pa.array([[("a", math.nan)], None], pa.map_(pa.string(), pa.float64()))}
    )
    lines = list(json_lines(batch))
    assert lines[0] == '{"k": 1, "v": [{"key": "a", "value": "NaN"}]}'
    assert [json.loads(line) for line in lines][1] == {"k": 2, "v": None}


BATCHES = pa.Table.from_pydict(
    {
        "k": [1, 2, 3],
        "s": ['a "b", c', None, ""],
        "v": [{"x": [1]}, None, {"x": []}],
        "b": [True, None, False],
    }
).to_batches(max_chunksize=2)


def written(form: str, stream: io.BytesIO | None = None) -> bytes:
    stream = stream or io.BytesIO()
    with WRITERS[form](stream, BATCHES[0].schema) as writer:
        for batch in BATCHES:
            writer.write(batch)
    return stream.getvalue()


def test_csv_output() -> None:
    assert written("csv").decode() == (
        'k,s,v,b\r\n1,"a ""b"", c","{""x"": [1]}",true\r\n2,,,\r\n3,"","{""x"": []}",false\r\n'
    )


def test_json_lines_output() -> None:
    rows = [json.loads(line) for line in written("jsonl").splitlines()]
    assert rows[2] == {"k": 3, "s": "", "v": {"x": []}, "b": False}


def test_arrow_file_output() -> None:
    table = pa.ipc.open_file(io.BytesIO(written("arrow"))).read_all()
    assert table.equals(pa.Table.from_batches(BATCHES))


def test_arrow_output_to_a_pipe_is_a_stream() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    table = pa.ipc.open_stream(io.BytesIO(written("arrow", Pipe()))).read_all()
    assert table.equals(pa.Table.from_batches(BATCHES))


def test_parquet_output() -> None:
    table = pa.parquet.read_table(io.BytesIO(written("parquet")))
    assert table.to_pylist() == pa.Table.from_batches(BATCHES).to_pylist()


def test_structs_without_fields_are_written_to_parquet() -> None:
    """Parquet has no such structs; SQL global aggregates have them as keys, multi-way joins as map keys."""
    none = pa.struct([])
    map_type, list_type = pa.map_(none, pa.int64()), pa.list_(pa.struct([("x", pa.int64()), ("y", none)]))
    deep_type = pa.map_(pa.list_(none), pa.struct([("z", none)]))
    columns = {
        "key": pa.array([{}, {}, {}, None], none),
        "value": pa.array([[({}, 7)], None, [], [({}, 8)]], map_type),
        "items": pa.array([[{"x": 1, "y": {}}], [{"x": 2, "y": None}, None], None, []], list_type),
        "deep": pa.array([[([{}], {"z": {}})], [([], None)], [], None], deep_type),
    }
    whole = pa.record_batch(list(columns.values()), names=list(columns))
    stream = io.BytesIO()
    with WRITERS["parquet"](stream, whole.schema) as writer:
        for batch in (whole.slice(0, 1), whole.slice(1)):
            writer.write(batch)
    nothing = {"_": None}
    assert pa.parquet.read_table(io.BytesIO(stream.getvalue())).to_pylist() == [
        {
            "key": nothing,
            "value": [(nothing, 7)],
            "items": [{"x": 1, "y": nothing}],
            "deep": [([nothing], {"z": nothing})],
        },
        {"key": nothing, "value": None, "items": [{"x": 2, "y": None}, None], "deep": [([], None)]},
        {"key": nothing, "value": [], "items": None, "deep": []},
        {"key": None, "value": [(nothing, 8)], "items": [], "deep": None},
    ]


def test_table_output() -> None:
    text = plain(rows_table(BATCHES[0].schema, BATCHES))
    lines = [line.split() for line in text.strip().splitlines()]
    assert lines[0] == ["k", "s", "v", "b"]
    assert lines[2:] == [
        ["1", "a", '"b",', "c", "{x:", "[1]}", "true"],
        ["2", "–", "–", "–"],
        ["3", "{x:", "[]}", "false"],
    ]


def test_a_table_escapes_control_characters_and_markup() -> None:
    batch = pa.RecordBatch.from_pydict({"s": ["\x1b[31mred", "[bold]not[/bold]", "x" * 1000]})
    text = plain(rows_table(batch.schema, [batch]))
    assert "\x1b" not in text
    assert "[bold]not[/bold]" in text
    assert max(map(len, text.splitlines())) < 110


@pytest.mark.parametrize(
    ("name", "output", "terminal", "form"),
    [
        ("csv", "x.parquet", True, "csv"),
        (None, "x.parquet", True, "parquet"),
        (None, "x.json", False, "jsonl"),
        (None, None, True, "table"),
        (None, None, False, "jsonl"),
    ],
)
def test_choice_of_the_output_format(name: str | None, output: str | None, terminal: bool, form: str) -> None:
    assert choose_format(name, output, terminal=terminal) == form


def test_a_file_name_without_a_known_suffix_is_refused() -> None:
    with pytest.raises(InvalidOption, match="--format"):
        choose_format(None, "x.txt", terminal=True)


def test_bars_and_sparklines() -> None:
    assert bar(0, 4) == "    "
    assert bar(1e-9, 4) == "▏   "
    assert bar(0.5, 4) == "██  "
    assert bar(2, 4) == "████"
    assert sparkline([0, 1, 4, 8]) == "·▂▅█"
    assert sparkline([1, 1, 0, 0], width=2) == "█·"
    assert sparkline([0, 0]) == "··"
    assert sparkline([]) == ""


def test_sizes_are_formatted_with_units() -> None:
    assert [human_bytes(n) for n in (None, 0, 1023, 1024, 5 << 30, 3 << 50)] == [
        "–", "0 B", "1023 B", "1.0 KiB", "5.0 GiB", "3072.0 TiB",
    ]  # fmt: skip
