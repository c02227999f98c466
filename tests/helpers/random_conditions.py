"""Random conditions on the rows of ``where_rows``, in the SQL that DuckDB and ``--where`` share."""

from __future__ import annotations

import random
from collections.abc import Callable

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
