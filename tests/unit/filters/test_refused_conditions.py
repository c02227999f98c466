"""What a condition cannot be is refused with one error that points at the place; no condition reads anything else."""

from __future__ import annotations

import logging
import random
import re
from pathlib import Path

import pytest

from stateproc.cli.app import main
from stateproc.errors import InvalidOption
from tests.helpers.fixtures import FIXTURES
from tests.helpers.sweeps import sweep
from tests.helpers.where_rows import outcome, selected

DEMO = str(FIXTURES / "1.20/demo/snapshot")
HOSTILE = [
    "read_csv('/etc/passwd') = 'x'",
    "read_text('/etc/passwd') IS NOT NULL",
    "n IN (SELECT 1 FROM '/etc/passwd')",
    "n = (SELECT count(*) FROM read_csv('/etc/passwd'))",
    "EXISTS (FROM '/etc/passwd')",
    "EXISTS (SELECT 1 FROM data)",
    "COPY data TO '/tmp/x'",
    "n = 1; COPY data TO '/tmp/x'",
    "ATTACH '/tmp/x.db'",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 1",
    "getenv('HOME') = 'x'",
    "current_setting('threads') = 1",
    "getvariable('x') = 1",
    "glob('/etc/*') = 'x'",
    "query('SELECT 1') = 1",
    "n = ANY (SELECT 1)",
    "nextval('s') = 1",
    "random() < 2",
    "now() > ts",
    "current_date > dt",
    "uuid() = s",
    "lambda x: x",
    "list_transform(li, x -> x + 1)[1] = 1",
    "COLUMNS('n') = 1",
    "#1 = 1",
    "* = 1",
    "st.* = 1",
    "$1 = n",
    "n = :name",
    "n = ?",
    "__import__('os').system('true') = 1",
    "eval('1') = 1",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_reads_something_else_than_the_row_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption) as error:
        selected(text)
    assert str(error.value).startswith("where: ")
    assert "^" in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nope = 1", "no column 'nope'"),
        ("s = b'ä'", "a constant of bits or bytes has other characters than ASCII"),
        ("b'\ufffd\ufffd\ufffd'", "a constant of bits or bytes has other characters than ASCII"),
        ("st.nope = 1", "no field 'nope' in st"),
        ("st['nope'] = 1", "no field 'nope' in st"),
        ("nope(n) = 1", "the function nope is not supported"),
        ("count(*) > 1", "is not supported"),
        ("sum(n) > 1", "the function sum is not supported"),
        ("row_number() OVER () = 1", "is not supported"),
        ("(SELECT max(n) FROM data) = n", "is not supported"),
        ("n = 'tea'", "Could not convert string 'tea'"),
        ("s = 1", "text is compared with a number"),
        ("dt = 5", "INTEGER -> DATE"),
        ("dt = t", "TIME -> DATE"),
        ("ts = 'yesterday'", "yesterday"),
        ("dt = '2024-02-30'", "out of range"),
        ("t = '25:00'", "25:00"),
        ("n", "BIGINT is not a boolean"),
        ("n +", "syntax error|expected a value|Expression type"),
        ("n = 1 AND", "syntax error|expected a value|Expression type"),
        ("n = (1", "syntax error|expected a value|Expression type"),
        ("n = 1)", "syntax error|expected a value|Expression type"),
        ("n = 'open", "a quote is not closed"),
        ("s LIKE 'a!' ESCAPE '!'", "escape character"),
        ("s LIKE 'a' ESCAPE 'ab'", "Invalid escape string"),
        ("regexp_matches(s, '(')", "missing )"),
        ("CAST(i64 AS TINYINT) = 1", "out of range"),
        ("CAST(f64 AS INT) = 1", "out of range"),
        ("CAST(n AS UUID) = 1", "BIGINT -> UUID"),
        ("CAST(n AS DATE) = dt", "BIGINT -> DATE"),
        ("CAST(dt AS TIME) = t", "DATE -> TIME"),
        ("CAST(s AS INT) = 1", "Could not convert string"),
        ("hour(dt) > 0 AND year(t) = 1", "year(TIME)"),
        ("from_base64('?') = bin", "base64"),
        ("IF b", "unexpected"),
        ("ELSE", "syntax error|expected a value|Expression type"),
        ("s COLLATE nocase = 'TEA'", "is not supported"),
        ("n = E'a'", "Could not convert string 'a'"),
        ("data.n = 1", "no column 'data'"),
        ("num = 7", "text is compared with a number"),
        ("num IN (1, 2)", "text is compared with a number"),
        ("num BETWEEN 1 AND 2", "explicit cast is required"),
        ("s RLIKE '^t'", "syntax error|expected a value|Expression type"),
        ("size(li) = 3", "the function size is not supported"),
    ],
)
def test_errors_say_what_is_wrong_and_where(text: str, says: str) -> None:
    with pytest.raises(InvalidOption) as error:
        selected(text)
    assert any(part in str(error.value) for part in says.split("|")), error.value
    assert str(error.value).startswith("where: ")
    assert "^" in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["nope = 1", "nope(key) = 1", "key = ", "count(*) > 1", "key IN (SELECT 1)", "key = 'x'", "getenv('HOME') = ''"],
)
def test_the_command_ends_with_the_status_of_usage_and_one_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["read", DEMO, "--uid", "orders-per-customer", "--state", "profile", "--where", text])
    out, err = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert err.startswith("error: where: ")
    assert "Traceback" not in err


TOKEN = re.compile(r"'(?:[^']|'')*'(?:::\w+)?|\"[^\"]*\"|\w+(?:\.\w+)*|\S")
LINES = (Path(__file__).parent / "conditions.sql").read_text(encoding="utf-8").splitlines()
CONDITIONS = [TOKEN.findall(line) for line in LINES if line and not line.startswith("--")]


@pytest.mark.parametrize("seeds", sweep(80))
def test_damaged_conditions_raise_no_other_error(seeds: range, caplog: pytest.LogCaptureFixture) -> None:
    tokens = [token for condition in CONDITIONS for token in condition]
    with caplog.at_level(logging.DEBUG, "sqlglot"):
        for seed in seeds:
            chance = random.Random(seed)
            for _ in range(40):
                outcome(" ".join(_damaged(chance, tokens)))
    assert not caplog.records


def _damaged(chance: random.Random, tokens: list[str]) -> list[str]:
    result = list(chance.choice(CONDITIONS))
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(result))
        kind = chance.randrange(4)
        if kind == 0:
            result[at] = chance.choice(tokens)
        elif kind == 1:
            result.insert(at, chance.choice(tokens))
        elif kind == 2 and len(result) > 1:
            del result[at]
        else:
            result[at : at + 1] = ["(", *chance.choice(CONDITIONS), ")"]
    return result
