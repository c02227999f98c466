"""A condition of --where keeps the rows that DuckDB selects by it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from stateproc.errors import InvalidOption
from stateproc.filters import RowFilter, parse
from stateproc.sql import SqlCatalog, SqlDatabase
from tests.helpers.random_conditions import RandomConditions
from tests.helpers.sweeps import sample, sampled, sweep
from tests.helpers.where_rows import IS_DUCKDB_2, duckdb_outcome, numbered_rows, outcome, selected, selected_by_duckdb

needs_duckdb_2 = pytest.mark.skipif(not IS_DUCKDB_2, reason="DuckDB 2, whose language it is, needs Python 3.11")


def _conditions() -> Iterator[object]:
    topic = ""
    for line in (Path(__file__).parent / "conditions.sql").read_text(encoding="utf-8").splitlines():
        if line.startswith("-- "):
            topic = line[3:]
        elif line:
            marks = [needs_duckdb_2] if topic == "as of DuckDB 2" else []
            yield pytest.param(line, id=f"{topic}: {line}", marks=marks)


def _parts(text: str) -> set[str]:
    """Return the words and operators of a condition, its numbers and texts as one kind each."""
    return set(re.findall(r"[^\W\d]\w*|[^\w\s'()]+|[()]", re.sub(r"'[^']*'", "'", re.sub(r"\b\d[\d.]*", "0", text))))


@pytest.mark.parametrize("text", sample(_conditions(), _parts))
def test_a_condition_keeps_the_rows_that_duckdb_selects(text: str) -> None:
    wanted = selected_by_duckdb(text)
    assert selected(text) == wanted
    assert selected(text, exact=True) == wanted
    assert _selected_by_sql(text) == wanted


@cache
def _sql() -> SqlDatabase:
    return SqlDatabase(SqlCatalog([], _no_operator, {"data": numbered_rows}), threads=1)


def _no_operator(name: str) -> object:
    raise InvalidOption(f"no operator {name}")


def _selected_by_sql(text: str) -> list[int]:
    """Return the rows that ``stateproc sql`` selects, which parses the statement and names other tables in it."""
    result = _sql().run(f"SELECT __row FROM data WHERE {text}\nORDER BY 1").reader().read_all()
    return [int(row) for row in result["__row"].to_pylist()]


@pytest.mark.parametrize(("text", "rows"), [("top-10 = 3", [3]), ("`top-10` + n = 2", [1]), ("st.in.b = 7", [7])])
def test_names_need_no_quotes(text: str, rows: list[int]) -> None:
    assert selected(text) == rows


def test_text_is_not_rounded_to_be_compared_with_a_number() -> None:
    """DuckDB rounds '2.4' to the integer 2: a BigDecimal, which is text, has to be converted by the condition."""
    assert selected_by_duckdb("num = 2") == [1]
    with pytest.raises(InvalidOption, match="text is compared with a number"):
        selected("num = 2")
    assert selected("CAST(num AS DECIMAL(10, 2)) = 2.4") == [1]


NAMES = pa.schema(
    [
        ("a", pa.int64()),
        ("A", pa.int64()),
        ("s", pa.struct([("id", pa.int64()), ("ID", pa.int64()), ("in", pa.list_(pa.struct([("x", pa.int64())])))])),
        ("m", pa.map_(pa.string(), pa.struct([("x", pa.int64()), ("X", pa.int64())]))),
    ]
)
SPELLED = [
    {"a": 1, "A": 10, "s": {"id": 5, "ID": 50, "in": [{"x": 7}]}, "m": [("k", {"x": 1, "X": 2})]},
    {"a": 2, "A": 20, "s": {"id": 6, "ID": 60, "in": []}, "m": []},
    {"a": 3, "A": 30, "s": None, "m": None},
]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a = 1", [0]),
        ("A = 20", [1]),
        ('"A" > a AND a < 3', [0, 1]),
        ("s.id = 5", [0]),
        ("s.ID = 60", [1]),
        ("s['ID'] = 50 AND s['id'] = 5", [0]),
        ("s.in[1].x = 7", [0]),
        ("m['k'].X = 2", [0]),
        ("m['k'].x = 2", []),
        ("s IS NULL", [2]),
        ("len(s.in) = 0", [1]),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_names_that_differ_by_case_alone_are_distinguished(text: str, rows: list[int], first: int) -> None:
    batch = pa.RecordBatch.from_pylist(SPELLED, schema=NAMES).slice(first)
    mask = RowFilter(parse(text, NAMES), NAMES, NAMES).mask(batch).to_pylist()
    assert [row + first for row, kept in enumerate(mask) if kept] == [row for row in rows if row >= first]


@pytest.mark.parametrize(
    ("text", "says"), [("s.Id = 5", '\'Id\' may mean "id" or "ID"'), ("S.id = 5 AND b", "no column 'b'")]
)
def test_a_name_that_may_be_several_is_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        parse(text, NAMES)


@needs_duckdb_2
@pytest.mark.parametrize("seeds", sweep(24))
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_random_conditions_keep_the_rows_that_duckdb_selects(seeds: range, depth: int) -> None:
    evaluated = 0
    for seed in seeds:
        conditions = RandomConditions(seed)
        for _ in range(25):
            text = conditions.condition(depth)
            wanted = duckdb_outcome(text)
            if isinstance(wanted, Exception):
                outcome(text)  # an overflow: any rows, or an error of this package
                continue
            assert outcome(text) == wanted, text
            assert outcome(text, exact=True) == wanted, text
            evaluated += 1
    assert evaluated >= len(seeds) * 23


@pytest.mark.parametrize("function", ["lower", sampled("upper"), sampled("trim")])
def test_functions_of_all_characters(function: str) -> None:
    """Of each character alone; letters newer than Unicode 15 depend on the releases of pyarrow and DuckDB."""
    characters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    table = pa.table({"s": characters})
    with duckdb.connect() as connection:
        connection.register("data", table)
        changed = pa.table(connection.sql(f"SELECT {function}(s) AS changed FROM data"))
    rows = pa.RecordBatch.from_arrays(
        [table["s"].combine_chunks(), changed["changed"].combine_chunks().cast(pa.string())], names=["s", "changed"]
    )
    mask = RowFilter(parse(f"{function}(s) = changed", rows.schema), rows.schema, rows.schema).mask(rows)
    assert pc.sum(pc.invert(mask)).as_py() < 100
    common = pc.less(rows["s"], "\u1c80")
    older = pc.and_(common, pc.invert(pc.is_in(rows["s"], pa.array(["\u019b", "\u0264", "\u0277", "\u027c"]))))
    assert pc.all(pc.or_(mask, pc.invert(older))).as_py()
