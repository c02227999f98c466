"""The language of --where: syntax, errors, selected rows, and key group pruning."""

from __future__ import annotations

import datetime
import decimal
import random
import sqlite3

import pyarrow as pa
import pytest

from stateproc.errors import InvalidOption
from stateproc.filters import RowFilter, key_groups_in, keys_in, parse

D = decimal.Decimal


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("key<>-1.5e3", ("key",)),
        ("not value.vip = TRUE", ("value",)),
        ('"value".`vip`', ("value",)),
        ("a OR b AND NOT c", ("a", "b", "c")),
        ("VALUE.VIP AND TRUE", ("value",)),
        ("value['vip']", ("value",)),
        ("TRUE", ()),
    ],
)
def test_a_condition_names_the_columns_that_it_reads(text: str, columns: tuple[str, ...]) -> None:
    schema = pa.schema(
        [("key", pa.int64()), ("value", pa.struct([("vip", pa.bool_())])), *((name, pa.bool_()) for name in "abc")]
    )
    assert parse(text, schema).columns == columns


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("spent-per-product", "spent-per-product = 1"),
        ("odd name", '"odd name" = 1'),
        ('a"b', '"a""b" = 1'),
        ("timestamp", "timestamp = 1"),
        ("order-by-day", "order-by-day = 1 AND TRUE"),
        ("case", '"case" = 1'),
        ("left", "left = 1"),
        ("date", "date = 1"),
        ("top-10", "top-10 = 1"),
        ("größe", "größe = 1"),
    ],
)
def test_column_names_are_parsed(column: str, text: str) -> None:
    assert kept(text, pa.RecordBatch.from_pydict({column: [0, 1]})) == [1]


def test_a_hyphen_is_a_minus_if_no_column_has_the_name() -> None:
    assert kept("a-b = 1", pa.RecordBatch.from_pydict({"a": [3, 3], "b": [2, 3]})) == [0]
    assert kept("a-b = 1", pa.RecordBatch.from_pydict({"a": [3, 3], "b": [2, 3], "a-b": [0, 1]})) == [1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected a condition"),
        ("key =", "syntax error|expected a value|Expression type"),
        ('key = "tea"', "single quotes"),
        ("key = NULL", "IS NULL"),
        ("key = 1 key", "unexpected 'key'"),
        ("(key = 1", "syntax error|expected a value|Expression type"),
        ("key = 12abc", "unexpected 'abc'"),
        ("key = 'open", "a quote is not closed"),
        ("key; drop", "syntax error|expected a value|Expression type"),
        ("key = 1; DELETE FROM key", "Only SELECT"),
        ("__import__('os')", "the function __import__ is not supported"),
        ("(" * 101 + "a" + ")" * 101, "more than 100 deep"),
        ("key + " * 2000 + "1 = 1", "nested too deeply"),
        ("read_csv('/etc/passwd') = 'x'", "not supported"),
        ("EXISTS(SELECT 1)", "not supported"),
        ("key IN (SELECT 1)", "query is not supported"),
        ("(SELECT key) = 1", "not supported"),
        ("CURRENT_USER = 'x'", "no column 'CURRENT_USER'"),
        ("key = ?", "not supported"),
        ("key = ARRAY[1]", "BIGINT -> INTEGER[]"),
        ("INTERVAL '1' DAY = key", "BIGINT -> INTERVAL"),
        ("key BETWEEN SYMMETRIC 1 AND 2", "syntax error|expected a value|Expression type"),
        ("CAST(key AS INTERVAL) = 1", "BIGINT -> INTERVAL"),
        ("CAST(key AS DECIMAL(3, 1, 1)) = 1", "DECIMAL"),
        ("CAST(key AS DECIMAL(1, 3)) = 1", "scale"),
        ("key IS 3", "syntax error|expected a value|Expression type"),
        ("size(key) = 1", "the function size is not supported"),
        ("key[0] = 1", "array_extract(BIGINT"),
        ("lower(key) = 'x'", "lower(BIGINT)"),
        ("key + TRUE = 2", "+(BIGINT, BOOLEAN)"),
        ("substring('tea') = 't'", "substring("),
        ("-TRUE = 1", "-(BOOLEAN)"),
    ],
)
def test_syntax_errors_name_the_unknown_token(text: str, says: str) -> None:
    with pytest.raises(InvalidOption) as error:
        kept(text, pa.RecordBatch.from_pydict({"key": [1]}))
    assert any(part in str(error.value) for part in says.split("|")), error.value
    assert "^" in str(error.value)


def test_an_error_points_at_its_position() -> None:
    with pytest.raises(InvalidOption) as error:
        kept("n = 1 AND\n  p.z > 2")
    assert str(error.value).splitlines()[1:3] == ["    n = 1 AND   p.z > 2", "                ^"]
    with pytest.raises(InvalidOption) as error:
        parse("n = 1 AND\n  b = = 2", pa.schema([("n", pa.int64()), ("b", pa.bool_())]))
    assert str(error.value).splitlines()[1:3] == ["    n = 1 AND   b = = 2", "                    ^"]


ROWS = pa.RecordBatch.from_pylist(
    [
        {"n": 1, "x": 0.5, "f": 0.1, "s": "tea", "b": True, "p": {"q": 7}, "d": D("1.50"), "big": "1.0"},
        {"n": None, "x": float("nan"), "f": None, "s": None, "b": None, "p": None, "d": None, "big": None},
        {
            "n": 2**63 - 1,
            "x": -0.0,
            "f": 1e30,
            "s": "",
            "b": False,
            "p": {"q": None},
            "d": D("-2.25"),
            "big": "1E+40",
        },
    ],
    schema=pa.schema(
        [
            ("n", pa.int64()),
            ("x", pa.float64()),
            ("f", pa.float32()),
            ("s", pa.string()),
            ("b", pa.bool_()),
            ("p", pa.struct([("q", pa.int16())])),
            ("d", pa.decimal128(10, 2)),
            ("big", pa.string()),
        ]
    ),
)


def kept(text: str, rows: pa.RecordBatch = ROWS, typed: pa.Schema | None = None) -> list[int]:
    mask = RowFilter(parse(text, typed or rows.schema), rows.schema, typed or rows.schema).mask(rows)
    return [index for index, value in enumerate(mask.to_pylist()) if value]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("n = 1", [0]),
        ("n != 1", [2]),
        ("n < 1.5", [0]),
        ("n > 1.5", [2]),
        ("n >= 1.0", [0, 2]),
        ("n = 1.5", []),
        ("CAST(big AS DOUBLE) > 1e39", [2]),
        ("TRY_CAST(big AS DECIMAL(38, 2)) = 1", [0]),
        ("n != 1.5", [0, 2]),
        ("n = 9223372036854775807", [2]),
        ("n < 9223372036854775808", [0, 2]),
        ("n > 9223372036854775808", []),
        ("n > -1e999", [0, 2]),
        ("n = -1e999", []),
        ("n != 1e999", [0, 2]),
        ("n IS NULL", [1]),
        ("n IS NOT NULL", [0, 2]),
        ("n NOT IN (1, 3)", [2]),
        ("x = 0", [2]),
        ("x >= 0.5", [0, 1]),
        ("f = 0.1", [0]),
        ("s = ''", [2]),
        ("s >= 'a'", [0]),
        ("b", [0]),
        ("NOT b", [2]),
        ("b = FALSE OR s = 'tea'", [0, 2]),
        ("p.q = 7", [0]),
        ("p.q IS NULL", [1, 2]),
        ("p IS NULL", [1]),
        ("d = 1.5", [0]),
        ("d < 0", [2]),
        ("big = '1.0'", [0]),
        ("n = 1 AND s IS NULL OR b = FALSE", [2]),
    ],
)
def test_conditions_select_the_expected_rows(text: str, rows: list[int]) -> None:
    assert kept(text) == rows


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nn = 1", "there are: n, x, f, s"),
        ("p.z = 1", "no field 'z' in p"),
        ("n.z = 1", "no field 'z' in n"),
        ("n = 'tea'", "Could not convert string 'tea'"),
        ("p = 1", "INTEGER -> STRUCT"),
        ("s", "VARCHAR is not a boolean"),
    ],
)
def test_literals_that_do_not_fit_the_column_are_refused(text: str, says: str) -> None:
    with pytest.raises(InvalidOption) as error:
        kept(text)
    assert any(part in str(error.value) for part in says.split("|")), error.value


def test_text_compared_with_a_number_must_be_numeric() -> None:
    with pytest.raises(InvalidOption, match="single quotes"):
        kept("s = 1")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("n BETWEEN 1 AND 2", [0]),
        ("n NOT BETWEEN 1 AND 2", [2]),
        ("1 = n", [0]),
        ("n IN (1, NULL)", [0]),
        ("n IS NOT DISTINCT FROM 1", [0]),
        ("n IS DISTINCT FROM 1", [1, 2]),
        ("b IS TRUE", [0]),
        ("b IS NOT TRUE", [1, 2]),
        ("(n = 1) IS FALSE", [2]),
        ("TRUE", [0, 1, 2]),
        ("1 = 2", []),
        # No sum overflows, and no integer is rounded.
        ("-n = -9223372036854775807", [2]),
        ("n = 9223372036854775806.5 + 0.5", [2]),
        ("n > x", [0, 2]),
        ("n / 2 = 0.5", [0]),
        ("n / 0 > 1", [0, 2]),
        ("x / 0 IS NULL", []),
        ("n % 10 = 7", [2]),
        ("x + 0.25 = 0.75", [0]),
        ("x % 0.3 = 0.2", [0]),
        ("d + 0.75 = 2.25", [0]),
        ("d = x + 1", [0]),
        ("d > n AND d > x", [0]),
        ("abs(d) = 2.25", [2]),
        ("round(d) = 2", [0]),
        ("round(x, 1) = 0.5", [0]),
        ("floor(d) = -3", [2]),
        ("ceil(x) = 1", [0]),
        ("CAST(d AS BIGINT) = -2", [2]),
        ("CAST(n AS VARCHAR) LIKE '9223%'", [2]),
        ("CAST(n AS DOUBLE) = 9223372036854775808", [2]),
        ("s LIKE 't_a'", [0]),
        ("s LIKE 'T%'", []),
        ("s ILIKE 'T%'", [0]),
        ("s NOT LIKE 't%'", [2]),
        ("s || '%' LIKE '%!%' ESCAPE '!'", [0, 2]),
        ("s LIKE 'tea!%' ESCAPE '!'", []),
        ("upper(s) = 'TEA' AND length(s) = 3", [0]),
        ("substring(s, 2) = 'ea'", [0]),
        ("substring(s, 1, 2) = 'te'", [0]),
        ("substring(s, -2, 1) = 'e'", [0]),
        ("concat(s, '-', s) = 'tea-tea'", [0]),
        ("trim(' ' || s || ' ') = 'tea'", [0]),
        ("starts_with(s, 'te') OR ends_with(s, 'x')", [0]),
        ("contains(s, 'ea')", [0]),
        ("coalesce(n, 0) = 0", [1]),
        ("coalesce(s, 'none') = 'none'", [1]),
        ("nullif(n, 1) IS NULL", [0, 1]),
        ("CASE WHEN n = 1 THEN 'one' WHEN n > 1 THEN 'many' END = 'many'", [2]),
        ("CASE n WHEN 1 THEN x ELSE 0.1 END = 0.1", [1, 2]),
        ("if(b, n, p.q) = 1", [0]),
    ],
)
def test_operators_and_functions(text: str, rows: list[int]) -> None:
    assert kept(text) == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("items[1].name = 'tea'", [0]),
        ("items[2].name IS NULL", [1, 2, 3]),
        ("cardinality(prices) = 0", [2]),
        ("prices['tea'] = 1.5", [0]),
        ("prices['tea'] + prices['café'] = 4", [0]),
        ("array_contains(numbers, 2)", [0, 3]),
        ("NOT array_contains(numbers, 2)", [2]),
        ("numbers[3] = 9223372036854775807", [3]),
        ("numbers[999999] IS NULL", [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_elements_of_lists_and_maps(text: str, rows: list[int], first: int) -> None:
    name = pa.struct([("name", pa.string())])
    batch = pa.RecordBatch.from_pydict(
        {
            "items": pa.array([[{"name": "tea"}, {"name": "mate"}], None, [], [None]], pa.list_(name)),
            "prices": pa.array(
                [[("tea", 1.5), ("café", 2.5)], [("café", 1.0)], [], None], pa.map_(pa.string(), pa.float64())
            ),
            "numbers": pa.array([[1, 2], None, [1], [2, 3, 2**63 - 1]], pa.list_(pa.int64())),
        }
    ).slice(first)
    assert [row + first for row in kept(text, batch)] == [row for row in rows if row >= first]


@pytest.mark.parametrize("index", ["'a'", "0.5", "1e999999"])
def test_a_list_needs_an_index(index: str) -> None:
    with pytest.raises(InvalidOption):
        kept(f"numbers[{index}] = 1", pa.RecordBatch.from_pydict({"numbers": [[1]]}))


def test_integers_and_decimals_are_compared_without_rounding_and_with_doubles_as_doubles() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [2**53 + 1], "x": [float(2**53)], "d": [D(2**53 + 1)]})
    assert kept("d = n AND d > 9007199254740992", batch) == [0]
    assert kept("n = x AND d = x", batch) == [0]
    assert kept("x = 9007199254740993", batch) == [0]


def test_bytes_are_compared_with_literals_of_bytes_and_base64() -> None:
    batch = pa.RecordBatch.from_pydict({"b": [b"\x00\x01", None, b"tea"]})
    assert kept(r"b = '\x00\x01'", batch) == [0]
    assert kept("b = from_base64('AAE=')", batch) == [0]
    assert kept("b = 'tea'", batch) == [2]
    with pytest.raises(InvalidOption, match="base64"):
        kept("b = from_base64('?')", batch)
    with pytest.raises(InvalidOption, match="Invalid byte"):
        kept("b = 'é'", batch)


EXACT = pa.RecordBatch.from_pydict(
    {
        "t": [
            "2024-02-29T12:30:00Z",
            "2024-02-29T12:30:00.500Z",
            "2024-02-29T12:30:00.500000001Z",
            "-0044-03-15T00:00:00Z",
            "+12024-01-01T00:00:00Z",
            None,
        ]
    }
)
TYPED = pa.schema([("t", pa.timestamp("us", "UTC"))])


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("t = '2024-02-29T12:30:00Z'", [0]),
        ("t = '2024-02-29 12:30'", [0]),
        ("t > '2024-02-29'", [0, 1, 2, 4]),
        ("t > '2024-02-29T12:30:00'", [1, 2, 4]),
        ("t <= '2024-02-29T12:30:00.5'", [0, 1, 3]),
        ("t >= '2024-02-29T12:30:00.500000001Z'", [2, 4]),
        ("t != '2024-02-29T12:30:00Z'", [1, 2, 3, 4]),
        ("t BETWEEN '2024-02-29' AND '2024-03-01'", [0, 1, 2]),
        ("year(t) > 9999", [4]),
    ],
)
def test_exact_times_are_compared_as_times(text: str, rows: list[int]) -> None:
    assert kept(text, EXACT, TYPED) == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("t = '-0044-03-15'", [3]),
        ("t < '0001-01-01T00:00:00Z'", [3]),
        ("t > '9999-12-31T00:00:00Z'", [4]),
        ("t IN ('2024-02-29T12:30:00Z', '-0044-03-15')", [0, 3]),
    ],
)
def test_exact_times_of_any_year_are_compared_beside_microseconds(text: str, rows: list[int]) -> None:
    assert kept(text, EXACT.filter(pa.array([True, True, False, True, True, True])), TYPED) == [
        row if row < 2 else row - 1 for row in rows
    ]


def test_a_literal_that_nanoseconds_cannot_hold_is_refused_beside_them() -> None:
    with pytest.raises(InvalidOption, match="Could not convert"):
        kept("t > '9999-12-31T00:00:00Z'", EXACT, TYPED)


def test_a_moment_that_no_type_of_sql_holds_is_refused() -> None:
    rows = pa.RecordBatch.from_pydict({"t": ["+999999999-12-31T00:00:00Z"]})
    with pytest.raises(InvalidOption, match="types do not hold"):
        kept("t > '2024-01-01'", rows, TYPED)


def test_arrow_times_and_dates() -> None:
    utc = datetime.timezone.utc
    batch = pa.RecordBatch.from_pydict(
        {
            "t": pa.array([datetime.datetime(2024, 2, 29, 12, 30, 0, 250000, tzinfo=utc), None], TYPED.field(0).type),
            "d": pa.array([datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)]),
            "c": pa.array([datetime.time(12, 30), datetime.time(0, 0, 0, 1)]),
        }
    )
    assert kept("t = '2024-02-29T12:30:00.25Z'", batch) == [0]
    assert kept("d < '1970-01-01'", batch) == [1]
    assert kept("d < t AND t < TIMESTAMP '2024-03-01'", batch) == [0]
    assert kept("year(t) = 2024 AND month(d) = 2 AND day(d) = 29 AND hour(t) = 12", batch) == [0]
    assert kept("c > '12:29:59.9'", batch) == [0]
    with pytest.raises(InvalidOption, match="invalid date"):
        kept("d = 'yesterday'", batch)
    with pytest.raises(InvalidOption, match="INTEGER -> DATE"):
        kept("d = 20240229", batch)


def test_random_conditions_select_the_same_rows_as_a_database() -> None:
    chance = random.Random(1)
    values = [(chance.choice([None, *range(-3, 4)]), chance.choice([None, "a", "b", ""])) for _ in range(200)]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE rows (id INTEGER, n INTEGER, s TEXT)")
    database.executemany("INSERT INTO rows VALUES (?, ?, ?)", [(i, *row) for i, row in enumerate(values)])
    batch = pa.RecordBatch.from_pydict(
        {
            "n": pa.array([n for n, _ in values], pa.int64()),
            "s": pa.array([s for _, s in values], pa.string()),
        }
    )
    for _ in range(300):
        text = _condition(chance, 3)
        wanted = [row[0] for row in database.execute(f"SELECT id FROM rows WHERE {text} ORDER BY id")]
        assert kept(text, batch) == wanted, text


def _condition(chance: random.Random, depth: int) -> str:
    kind = chance.randrange(6 if depth else 4)
    if kind == 0:
        sign = chance.choice(["=", "!=", "<>", "<", "<=", ">", ">="])
        return f"n {sign} {chance.choice([-4, -1, 0, 1.5, 3, 7.0])}"
    if kind == 1:
        return f"s {chance.choice(['=', '<', '>='])} '{chance.choice(['a', 'b', '', 'c'])}'"
    if kind == 2:
        return f"{chance.choice('ns')} IS {chance.choice(['', 'NOT '])}NULL"
    if kind == 3:
        return f"n {chance.choice(['', 'NOT '])}IN ({', '.join(str(chance.randrange(-3, 4)) for _ in range(3))})"
    if kind == 4:
        return f"NOT ({_condition(chance, depth - 1)})"
    return f"({_condition(chance, depth - 1)} {chance.choice(['AND', 'OR'])} {_condition(chance, depth - 1)})"


@pytest.mark.parametrize(
    ("text", "kind", "keys"),
    [
        ("key = 42", pa.int64(), [42]),
        ("key IN (1, 2) AND value > 3", pa.int64(), [1, 2]),
        ("key = 1 OR key = 2", pa.int32(), [1, 2]),
        ("key = 1 OR value = 2", pa.int64(), None),
        ("NOT key = 1", pa.int64(), None),
        ("key != 1", pa.int64(), None),
        ("key = 1.5", pa.int64(), None),
        ("key = 'tea'", pa.string(), ["tea"]),
        ("key = 1", pa.string(), None),
        ("key = 0", pa.float64(), [0.0]),
        ("key = 0.5", pa.float64(), [0.5]),
        ("key = 1", pa.decimal128(3, 1), [decimal.Decimal(1)]),
        ("key = '2024-01-01'", pa.date32(), ["2024-01-01"]),
        ("key = from_base64('AAE=')", pa.binary(), ["AAE="]),
        (r"key = '\x00\x01'", pa.binary(), ["AAE="]),
        (r"key = '\x00\x01'::BLOB", pa.binary(), ["AAE="]),
        ("key = 'é'", pa.binary(), None),
        ("KEY = 1", pa.int64(), [1]),
        ("key = 1e3", pa.int64(), [1000]),
        ("key = 9007199254740993e0", pa.int64(), None),
        ("key = 1e0", pa.decimal128(3, 1), None),
        ("key = -1e-1", pa.float64(), [-0.1]),
        ("key = 1 IS NULL", pa.int64(), None),
        ("key.A = 1", pa.struct([("a", pa.int64())]), [{"a": 1}]),
        ("key.A = 1 AND key.a = 2", pa.struct([("a", pa.int64()), ("A", pa.int64())]), [{"a": 2, "A": 1}]),
        ("key = DATE '2024-2-9'", pa.date32(), ["2024-02-09"]),
        ("key = '2024-02-09 12:30'", pa.date32(), ["2024-02-09"]),
        ("key = TIMESTAMP '2024-02-09 12:30'", pa.date32(), None),
        ("key = '2024-02-09 12:30+01:00'", pa.timestamp("us", "UTC"), ["2024-02-09T11:30:00Z"]),
        ("key = '2024-02-09 12:30+01:00'", pa.timestamp("us"), ["2024-02-09T12:30:00"]),
        ("key = '2024-02-09 12:30:00.0000001'", pa.timestamp("us"), None),
        ("key = '2024-02-30'", pa.date32(), None),
        ("key = TIME '12:30'", pa.time64("us"), ["12:30:00"]),
        ("key = TRUE", pa.bool_(), [True]),
        ("key.a = 1", pa.struct([("a", pa.int64())]), [{"a": 1}]),
        ("key.a = 1", pa.struct([("a", pa.int64()), ("b", pa.string())]), None),
        ("key.a = 1 AND key.b IS NULL", pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}]),
        (
            "key.a IN (1, 2) AND key.b.c = 'x'",
            pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))]),
            [{"a": 1, "b": {"c": "x"}}, {"a": 2, "b": {"c": "x"}}],
        ),
        ("key.a = 1 OR key.a = 'x'", pa.struct([("a", pa.int64())]), None),
        ("key IS NULL", pa.int64(), None),
        ("value = 1", pa.struct([]), None),
    ],
)
def test_keys_derived_from_conditions(text: str, kind: pa.DataType, keys: list[object] | None) -> None:
    schema = pa.schema([("key", kind), ("value", pa.int64())])
    assert keys_in(parse(text, schema), kind) == keys


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("key_group = 3 AND key > 1", {3}),
        ("key_group IN (1, 2.5) OR key_group = 9", {1, 9}),
        ("(key_group = 3 AND key > 1) OR (key_group = 4 AND value IS NULL)", {3, 4}),
        ("key_group < 3", {0, 1, 2}),
        ("key_group BETWEEN 1 AND 2 AND NOT key_group = 2", {1}),
        ("key_group % 64 = 5", {5, 69}),
        ("key_group = 3 OR key = 1", None),
        ("key_group = key", None),
        ("key_group = 200", set()),
    ],
)
def test_key_groups_derived_from_conditions(text: str, groups: set[int] | None) -> None:
    schema = pa.schema([("key", pa.int64()), ("key_group", pa.int32()), ("value", pa.int64())])
    assert key_groups_in(parse(text, schema), 128) == groups
