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

ALL = [*range(8)]
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


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # Nothing overflows: what a type cannot hold is calculated exactly.
        ("i8 + 1 = 128", [3]),
        ("u8 + u8 = 510", [2]),
        ("-i64 = 9223372036854775808", [4]),
        ("abs(i64) = 9223372036854775808", [4]),
        ("u64 + u64 = 36893488147419103230", [2]),
        ("d38 * 10 = 999999999999999999999999999999999999990", [3]),
        ("round(i64, -1) = 9223372036854775810", [3]),
        # A remainder or a whole quotient of a division by zero is null.
        ("n % 0 IS NULL", ALL),
        ("n // 0 IS NULL", ALL),
        ("n % k = -1", [2]),
        ("i64 // -1 = 9223372036854775808", [4]),
        # Spellings of Spark and MySQL.
        ("s RLIKE '^t'", [0]),
        ("size(li) = 3", [0, 4]),
        ("map_contains_key(m, 'x')", [0, 3]),
        ("if(b, 1) = 1", [0, 3, 6]),
        ("n <=> NULL", [4]),
        ("n DIV 3 = 2", [6]),
        ("top-10 = 3", [3]),
        # Text of numbers, as BigInteger and BigDecimal are, is compared exactly.
        ("num < 1", [2, 3, 7]),
    ],
)
def test_conditions_that_only_where_understands(text: str, rows: list[int]) -> None:
    assert selected(text) == rows
    if IS_DUCKDB_2:
        assert isinstance(duckdb_outcome(text), Exception)


def test_text_is_compared_with_a_number_without_rounding() -> None:
    """Both evaluate this condition and differ: DuckDB rounds '2.4' to the integer 2."""
    assert selected("num = 2") == []
    assert selected_by_duckdb("num = 2") == [1]


@pytest.mark.parametrize(("text", "rows"), [("round(x, 2) = 2.68", [5]), ("round(x, 1) = 0.2", [4])])
def test_a_double_that_is_written_with_half_a_digit_is_rounded_up(text: str, rows: list[int]) -> None:
    """As Spark and DuckDB 1 do; DuckDB 2 rounds 2.675 to 2.67, because its double is a little less than that."""
    assert selected(text) == rows
    assert selected(text, exact=True) == rows
    assert selected_by_duckdb(text) in (rows, [])


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
    mask = RowFilter(parse(f"{function}(s) = changed"), rows.schema, rows.schema).mask(rows)
    assert pc.sum(pc.invert(mask)).as_py() < 100
    common = pc.less(rows["s"], "\u1c80")
    older = pc.and_(common, pc.invert(pc.is_in(rows["s"], pa.array(["\u019b", "\u0264", "\u0277", "\u027c"]))))
    assert pc.all(pc.or_(mask, pc.invert(older))).as_py()
