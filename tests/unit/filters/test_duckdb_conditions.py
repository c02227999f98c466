"""A condition of --where keeps the rows that DuckDB selects by it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from stateproc.errors import InvalidOption
from stateproc.filters import RowExpression, RowFilter, parse
from stateproc.sql import SqlCatalog, SqlDatabase
from tests.helpers.sweeps import sample, sampled, sweep
from tests.helpers.where_rows import IS_DUCKDB_2, duckdb_outcome, numbered_rows, outcome, selected, selected_by_duckdb

# Random conditions on the rows of ``where_rows``, in the SQL that DuckDB and ``--where`` share.


_SIGNS = ("=", "!=", "<>", "<", "<=", ">", ">=")
_SMALL = ("n", "k", "Mixed", '"top-10"', "st.a", "st.in.b", "li[1]", "li[-1]", "m['tea']", "m['x']", "length(li)")
_INTEGERS = (*_SMALL, "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
_DECIMALS = ("d", "d38", "1.5", "0.10", "-2.25", "0.333", "2.675")
_DOUBLES = ("x", "f64", "1e0", "2.5e-1", "CAST('nan' AS DOUBLE)", "CAST('inf' AS DOUBLE)")
_FLOATS = ("f32", "CAST(0.1 AS FLOAT)")
_TEXTS = ("s", "e", "st.Name", "'tea'", "''", "'café'", "'\U0001f375'", "'it''s'", "'\\'")
_PATTERNS = ("'t%'", "'%a'", "'_e_'", "'%'", "''", "'%\\%'", "'a!%%'", "'%\U0001f375%'", "'% %'", "'%!_%'")
_REGEXES = ("'^t'", "'a$'", "'.'", "'[A-Z]+'", "'é|x'", "''")
_DATES = ("dt", "CAST(ts AS DATE)", "DATE '2024-02-29'", "DATE '1969-12-31'")
_STAMPS = ("ts", "CAST(dt AS TIMESTAMP)", "TIMESTAMP '2024-02-29 12:30:00'", "TIMESTAMP '1970-01-01'")
_INSTANTS = ("tz", "TIMESTAMPTZ '2024-02-29 13:30:00.5+01:00'", "CAST(ts AS TIMESTAMPTZ)")
_TIMES = ("t", "TIME '12:30:00'", "CAST(ts AS TIME)")
_BLOBS = ("bin", r"'\x00\x01'::BLOB", "from_base64('/w==')", "'tea'::BLOB")
_MOMENT_TEXTS = ("'2024-02-29'", "'1970-01-01 00:00:00'", "'2024-02-29T12:30:00.5'", "'2024-2-9'")


class RandomConditions:
    """Makes conditions whose operands have types that fit.

    Args:
        seed: Of the random numbers.
    """

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def condition(self, depth: int = 3) -> str:
        """Return a condition with at most ``depth`` levels of operators of logic."""
        if depth and self._chance.random() < 0.6:
            return self._logic(depth)
        return self._chance.choice(self._conditions)(self)

    def _logic(self, depth: int) -> str:
        def part() -> str:
            return self.condition(depth - 1)

        forms = (
            lambda: f"({part()}) AND ({part()})",
            lambda: f"({part()}) OR ({part()})",
            lambda: f"NOT ({part()})",
            lambda: f"({part()}) IS {self._pick('', 'NOT ')}{self._pick('NULL', 'TRUE', 'FALSE')}",
            lambda: f"({part()}) {self._pick('=', '<>', 'IS DISTINCT FROM', 'IS NOT DISTINCT FROM')} ({part()})",
            lambda: f"CASE WHEN {part()} THEN {part()} ELSE {part()} END",
            lambda: f"coalesce({part()}, {part()})",
            lambda: f"{self._pick('b', 'c')} {self._pick('AND', 'OR')} NOT {self._pick('b', 'c')}",
        )
        return self._chance.choice(forms)()

    def _pick(self, *choices: str) -> str:
        return self._chance.choice(choices)

    def _compared(self, value: Callable[[], str]) -> str:
        a, b = value(), value()
        forms = (
            lambda: f"{a} {self._pick(*_SIGNS)} {b}",
            lambda: f"{a} IS {self._pick('', 'NOT ')}DISTINCT FROM {b}",
            lambda: f"{a} IS {self._pick('', 'NOT ')}NULL",
            lambda: f"{a} {self._pick('', 'NOT ')}BETWEEN {b} AND {value()}",
            lambda: f"{a} {self._pick('', 'NOT ')}IN ({b}, {value()}{self._pick('', ', NULL')})",
            lambda: f"nullif({a}, {b}) IS NULL",
            lambda: f"CASE {a} WHEN {b} THEN TRUE END",
        )
        return self._chance.choice(forms)()

    def integer(self, depth: int = 2) -> str:
        """Return an expression of integers."""
        if not depth or self._chance.random() < 0.5:
            return self._pick(*_INTEGERS, str(self._chance.randrange(-9, 10)), str(self._chance.randrange(2**63)))
        a, b = self.small(depth - 1), self.small(depth - 1)
        forms = (
            lambda: f"({a} {self._pick('+', '-', '*')} {b})",
            lambda: f"({a} {self._pick('%', '//')} {self._chance.choice([-3, -2, 2, 3, 7])})",
            lambda: f"abs({a})",
            lambda: f"-({a})",
            lambda: f"coalesce({a}, {b})",
            lambda: f"CASE WHEN {self._pick('b', 'c')} THEN {a} ELSE {b} END",
            lambda: f"TRY_CAST({self._pick('num', 's', 'd', 'x', 'f64')} AS {self._pick('INT', 'BIGINT', 'TINYINT')})",
            lambda: f"{self._pick('year', 'month', 'day')}({self._pick('dt', 'ts', 'tz')})",
            lambda: f"{self._pick('hour', 'minute', 'second')}({self._pick('t', 'ts', 'tz')})",
            lambda: f"length({self.text(0)})",
            lambda: f"round({a}, {self._pick('0', '1')})",
        )
        return self._chance.choice(forms)()

    def small(self, depth: int) -> str:
        """Return an expression of integers that rarely overflows."""
        if not depth or self._chance.random() < 0.7:
            return self._pick(*_SMALL, str(self._chance.randrange(-9, 10)))
        return f"({self.small(depth - 1)} {self._pick('+', '-', '*')} {self.small(depth - 1)})"

    def number(self, depth: int = 2) -> str:
        """Return an expression of numbers."""
        kind = self._chance.randrange(6)
        if kind < 2:
            return self.integer(depth)
        if kind == 2:
            return self._pick(*_DECIMALS)
        if kind == 3 or not depth:
            return self._pick(*_DOUBLES, *_FLOATS)
        a = self._pick(
            self.small(depth - 1), self._pick("d", "1.5", "0.10"), self._pick(*_DOUBLES), self._pick(*_FLOATS)
        )
        b = self._pick(
            self.small(depth - 1), self._pick("d", "1.5", "0.10"), self._pick(*_DOUBLES), self._pick(*_FLOATS)
        )
        forms = (
            lambda: f"({a} {self._pick('+', '-', '*', '/')} {b})",
            lambda: f"({a} % {self._pick('2', '-3', '0.7', '1.5e0', 'f64')})",
            lambda: f"{self._pick('abs', 'floor', 'ceil', 'round')}({a})",
            # Of doubles that are written with half a digit, as in x, releases of DuckDB differ.
            lambda: f"round({a}, {self._pick('-1', '0', *([] if a == 'x' else ['1', '2']))})",
            lambda: f"CAST({a} AS {self._pick('DOUBLE', 'FLOAT')})",
            lambda: f"TRY_CAST({a} AS {self._pick('DECIMAL(18, 2)', 'DECIMAL(5, 0)', 'DECIMAL', 'INT')})",
            lambda: f"coalesce({a}, {b})",
            lambda: f"if({self._pick('b', 'c')}, {a}, {b})",
        )
        return self._chance.choice(forms)()

    def text(self, depth: int = 2) -> str:
        """Return an expression of text."""
        if not depth or self._chance.random() < 0.4:
            return self._pick(*_TEXTS)
        a = self.text(depth - 1)
        start, length = self._chance.randrange(-6, 7), self._chance.randrange(-4, 5)
        forms = (
            lambda: f"{self._pick('lower', 'upper', 'trim')}({a})",
            lambda: f"substring({a}, {start}{self._pick('', f', {length}')})",
            lambda: f"({a} || {self.text(depth - 1)})",
            lambda: f"concat({a}, {self._pick('NULL', 'n', 'd', 'b', 'f64', 'dt')}, {self.text(depth - 1)})",
            lambda: f"coalesce({a}, 'none')",
            lambda: f"CAST({self._pick(*_INTEGERS, 'd', 'd38', 'x', 'f64', 'f32', 'b')} AS VARCHAR)",
            lambda: f"CAST({self._pick('dt', 'ts', 'tz', 't', 'bin')} AS VARCHAR)",
        )
        return self._chance.choice(forms)()

    def _matched(self) -> str:
        a = self.text(1)
        forms = (
            lambda: f"{a} {self._pick('', 'NOT ')}{self._pick('LIKE', 'ILIKE')} {self._pick(*_PATTERNS)}",
            lambda: f"{a} LIKE {self._pick(*_PATTERNS)} ESCAPE {self._pick(*_ESCAPES)}",
            lambda: f"{self._pick('starts_with', 'suffix', 'contains', 'prefix')}({a}, {self._pick(*_TEXTS[3:])})",
            lambda: f"regexp_matches({a}, {self._pick(*_REGEXES)})",
            lambda: f"list_contains(li, {self._chance.randrange(-1, 4)})",
            lambda: f"map_contains(m, {self._pick(*_TEXTS[3:])})",
        )
        return self._chance.choice(forms)()

    def _moments(self) -> str:
        values = self._chance.choice([_DATES, _STAMPS, _INSTANTS, _TIMES])
        column, sign = values[0], self._pick(*_SIGNS)
        if values is not _TIMES and self._chance.random() < 0.3:
            return f"{column} {sign} {self._pick(*_MOMENT_TEXTS)}"
        return self._compared(lambda: self._pick(*values))

    _conditions: tuple[Callable[[RandomConditions], str], ...] = (
        lambda self: self._compared(self.integer),
        lambda self: self._compared(self.number),
        lambda self: self._compared(self.number),
        lambda self: self._compared(self.text),
        lambda self: self._compared(lambda: self._pick(*_BLOBS)),
        lambda self: self._compared(lambda: self._pick("b", "c", "TRUE", "FALSE")),
        _moments,
        _matched,
        lambda self: self._pick("b", "NOT c", "NULL", "TRUE", "b IS NULL", "st IS NULL", "m IS NOT NULL", "li IS NULL"),
    )


_ESCAPES = ("'!'", "'\\'", "''")


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
@pytest.mark.parametrize("seeds", sweep(16))
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


@pytest.mark.parametrize(
    ("text", "is_true"), [("true", True), ("1 = 2", False), ("NULL", False), ("upper('a') = 'A'", True)]
)
def test_what_reads_no_column_is_the_same_for_all_rows(text: str, is_true: bool) -> None:
    rows = pa.record_batch({"key": list(range(5))})
    condition = RowFilter(parse(text, rows.schema), rows.schema, rows.schema)
    for part in (rows, rows.slice(0, 1), rows.slice(5)):
        assert condition.mask(part).to_pylist() == [is_true] * len(part)
    for value, expected in (
        ("[1, NULL]", [1, None]),
        ("NULL", None),
        ("'a' || 'b'", "ab"),
        ("{a: 1.5}", {"a": Decimal("1.5")}),
    ):
        expression = RowExpression(parse(value, rows.schema), rows.schema, rows.schema)
        for part in (rows, rows.slice(5)):
            found = expression.values(part)
            assert found.type == expression.type and found.to_pylist() == [expected] * len(part)
