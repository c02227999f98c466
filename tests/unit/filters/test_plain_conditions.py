"""The plainest conditions need no DuckDB, and keep what DuckDB keeps."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pyarrow as pa
import pytest

import stateproc
from stateproc.filters import plain_condition
from tests.helpers.paths import DEMO, python_environment
from tests.helpers.where_rows import numbered_rows, selected_by_duckdb, where_rows

NUMBERS = ("0", "-0", "1", "-1", "7", "007", "127", "-128", "2147483647", "9223372036854775807", "-9223372036854775808")
TEXTS = ("''", "'tea'", "'TEA'", "'café'", "'a AND b'", "' ß I\u00a0\t'")
COLUMNS = {"i8": NUMBERS, "i16": NUMBERS, "i32": NUMBERS, "i64": NUMBERS, "f64": NUMBERS, "x": NUMBERS, "s": TEXTS}


def test_plain_conditions_keep_what_duckdb_keeps() -> None:
    evaluated = 0
    for column, constants in COLUMNS.items():
        for operator, constant in itertools.product(("=", "<", "<=", ">", ">="), constants):
            for text in (f"{column} {operator} {constant}", f" n>=0  and {column}{operator}{constant} AND k < 9 "):
                plain = plain_condition(text, where_rows().schema)
                if plain is None:
                    continue
                evaluated += 1
                kept = [plain.apply(batch)["__row"].to_pylist() for batch in numbered_rows().to_batches()]
                assert list(itertools.chain.from_iterable(kept)) == selected_by_duckdb(text), text
    assert evaluated > 400


@pytest.mark.parametrize(
    "text",
    [
        "",
        "i64",
        "i64 = 1.5",
        "i64 = '1'",
        "i64 = NULL",
        "I64 = 1",
        "i8 = 128",
        "i64 = 9223372036854775808",
        "x = 9007199254740993",
        "u8 = 1",
        "f32 = 1",
        "d = 1",
        "b = 1",
        "s = 1",
        "s = 'it''s'",
        "e = 'tea'",
        "dt = '2024-02-29'",
        "st.a = 1",
        "top-10 = 1",
        "i64 <> 1",
        "i64 = 1 OR i64 = 2",
        "(i64 = 1)",
        "i64 = 1 AND",
        "i64 = 1 -- comment",
        "i64 = 1 AND s LIKE 't%'",
        "none = 1",
    ],
)
def test_all_other_conditions_are_those_of_duckdb(text: str) -> None:
    assert plain_condition(text, where_rows().schema) is None


def test_a_name_that_looks_like_a_comparison_is_a_name() -> None:
    assert plain_condition("a = 1", pa.schema([("a", pa.int64()), ("a = 1", pa.bool_())])) is None


def test_only_the_key_group_of_the_key_is_read() -> None:
    state = stateproc.open(str(DEMO)).operator("orders-per-customer").state("profile")
    (row,) = state.to_arrow(where="key = 42").to_pylist()
    assert row["key"] == 42
    assert state.to_arrow(where=f"key_group = {row['key_group']} AND key = 42").num_rows == 1
    assert state.to_arrow(where="key_group = 127 AND key = 42").num_rows == 0


@pytest.mark.processes
def test_a_key_is_read_without_duckdb() -> None:
    code = (
        "import sys; sys.modules['duckdb'] = None; import stateproc\n"
        f"state = stateproc.open({str(DEMO)!r}).operator('orders-per-customer').state('profile')\n"
        "print(state.to_arrow(where='key = 42').num_rows)\n"
        "try: state.to_arrow(where='value.vip')\n"
        "except stateproc.MissingPackage as error: print(error.message, error.advice, sep='; ')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=python_environment())
    line = "a condition on rows needs the package duckdb, which is not installed; pip install 'stateproc[sql]'"
    assert run.stdout.splitlines() == ["1", line], run.stderr
