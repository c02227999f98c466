"""The language of --where: what it says, what it refuses, which rows it keeps, which key groups it needs."""

from __future__ import annotations

import datetime
import decimal
import random
import sqlite3

import pyarrow as pa
import pytest

from stateproc.cli.filtering import RowFilter
from stateproc.cli.pruning import wanted_key_groups, wanted_keys
from stateproc.cli.where import And, Column, Compare, In, IsNull, IsTrue, Not, Or, parse
from stateproc.errors import InvalidOption

D = decimal.Decimal
KEY, VIP = Column(("key",)), Column(("value", "vip"))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("key = 42", Compare(KEY, "=", D(42))),
        ("key<>-1.5e3", Compare(KEY, "!=", D("-1500"))),
        ("key == 'it''s'", Compare(KEY, "=", "it's")),
        ("value.vip", IsTrue(VIP)),
        ("not value.vip = TRUE", Not(Compare(VIP, "=", True))),
        ("key IS NULL", IsNull(KEY)),
        ("key is not null", Not(IsNull(KEY))),
        ("key IN (1, 'a', false)", In(KEY, (D(1), "a", False))),
        ("key NOT IN (1)", Not(In(KEY, (D(1),)))),
        ('"odd name"."a""b" = 1', Compare(Column(("odd name", 'a"b')), "=", D(1))),
        ("spent-per-product is null", IsNull(Column(("spent-per-product",)))),
        ("DATE '2024-02-29'", None),
        ("key = DATE '2024-02-29'", Compare(KEY, "=", "2024-02-29")),
    ],
)
def test_conditions(text: str, meant: object) -> None:
    if meant is None:
        with pytest.raises(InvalidOption):
            parse(text)
    else:
        assert parse(text) == meant


def test_and_binds_closer_than_or_and_not_closest() -> None:
    a, b, c = (IsTrue(Column((name,))) for name in "abc")
    assert parse("a OR b AND NOT c") == Or((a, And((b, Not(c)))))
    assert parse("(a OR b) AND c") == And((Or((a, b)), c))
    assert parse("NOT NOT a") == a


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected a column's name"),
        ("key =", "expected a value"),
        ('key = "tea"', "single quotes"),
        ("key = NULL", "IS NULL"),
        ("key = 1 key", "expected AND, OR or the end"),
        ("(key = 1", "expected ')'"),
        ("key IN ()", "expected a value"),
        ("key = 12abc", "not understood"),
        ("key = 'open", "not understood"),
        ("key; drop", "not understood"),
        ("__import__('os')", "expected AND, OR or the end"),
        ("(" * 101 + "a" + ")" * 101, "more than 100 deep"),
    ],
)
def test_what_is_not_understood_is_pointed_at(text: str, says: str) -> None:
    with pytest.raises(InvalidOption) as error:
        parse(text)
    assert says in str(error.value)
    assert "^" in str(error.value)


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
    mask = RowFilter(parse(text), rows.schema, typed or rows.schema).mask(rows)
    return [index for index, value in enumerate(mask.to_pylist()) if value]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("n = 1", [0]),
        ("n != 1", [2]),
        ("n < 1.5", [0]),
        ("n <= 0.999999999999999999999", []),
        ("n > 1.5", [2]),
        ("n >= 1.0", [0, 2]),
        ("n = 1.5", []),
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
        ("x >= 0.5", [0]),
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
        ("big = 1", [0]),
        ("big = '1.0'", [0]),
        ("big > 1e39", [2]),
        ("n = 1 AND s IS NULL OR b = FALSE", [2]),
    ],
)
def test_rows_kept(text: str, rows: list[int]) -> None:
    assert kept(text) == rows


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nn = 1", "there are: n, x, f, s"),
        ("p.z = 1", "no field 'z' in p"),
        ("n.z = 1", "no field 'z' in n"),
        ("n = 'tea'", "is int64"),
        ("b = 1", "is bool"),
        ("p = 1", "which has no order"),
        ("s", "no boolean"),
    ],
)
def test_columns_and_literals_that_do_not_fit(text: str, says: str) -> None:
    with pytest.raises(InvalidOption) as error:
        kept(text)
    assert says in str(error.value)


def test_text_compared_with_a_number_must_be_numbers() -> None:
    with pytest.raises(InvalidOption, match="single quotes"):
        kept("s = 1")


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
        ("t = '-0044-03-15'", [3]),
        ("t > '2024-02-29T12:30:00'", [1, 2, 4]),
        ("t <= '2024-02-29T12:30:00.5'", [0, 1, 3]),
        ("t >= '2024-02-29T12:30:00.500000001Z'", [2, 4]),
        ("t < '0001-01-01T00:00:00Z'", [3]),
        ("t > '9999-12-31T00:00:00Z'", [4]),
        ("t != '2024-02-29T12:30:00Z'", [1, 2, 3, 4]),
    ],
)
def test_exact_times_are_compared_as_times(text: str, rows: list[int]) -> None:
    assert kept(text, EXACT, TYPED) == rows


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
    assert kept("c > '12:29:59.9'", batch) == [0]
    with pytest.raises(InvalidOption, match="like 2024-02-29"):
        kept("d = 'yesterday'", batch)
    with pytest.raises(InvalidOption, match="write it as text"):
        kept("d = 20240229", batch)


def test_random_conditions_keep_what_a_database_keeps() -> None:
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
        ("key = 'AAE='", pa.binary(), ["AAE="]),
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
def test_keys_that_prune(text: str, kind: pa.DataType, keys: list[object] | None) -> None:
    assert wanted_keys(parse(text), kind) == keys


def test_key_groups_that_prune() -> None:
    assert wanted_key_groups(parse("key_group = 3 AND key > 1")) == {3}
    assert wanted_key_groups(parse("key_group IN (1, 2.5) OR key_group = 9")) == {1, 9}
    assert wanted_key_groups(parse("key_group < 3")) is None
