"""Parse a condition on rows into sqlglot's syntax tree."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokens import Token, TokenType

from stateproc.errors import InvalidOption

MAX_DEPTH = 30
"""Levels of parentheses, brackets and CASE in a condition: each takes about 20 of Python's 1000 frames."""

EXAMPLES = "e.g. key = 42, key IN (1, 2), value.name LIKE 'tea%' AND (value.total >= 1.5 OR value.x IS NULL)"
_RESERVED = frozenset(
    {"AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE", "LIKE", "ILIKE", "RLIKE", "BETWEEN", "ESCAPE", "DIV"}
    | {"CASE", "WHEN", "THEN", "ELSE", "END"}
)
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)


class WhereDialect(DuckDB):
    """DuckDB's SQL, in which names can be in `backticks`, too."""

    INDEX_OFFSET = 0
    """Leaves indexes as they are written: the first element of a list has index 1."""

    class Tokenizer(DuckDB.Tokenizer):
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012

    class Parser(DuckDBParser):
        NO_PAREN_IF_COMMANDS = False


def sql_of(node: exp.Expr) -> str:
    """Return the text of a part of a condition."""
    return str(node.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE))


@dataclass(frozen=True)
class WhereCondition:
    """The text of a condition and its syntax tree."""

    text: str
    tree: exp.Expr

    @property
    def names(self) -> frozenset[str]:
        """The names in the condition, in lower case: of columns and of fields."""
        return frozenset(node.name.lower() for node in self.tree.find_all(exp.Identifier, exp.Var))

    def error(self, node: exp.Expr, message: str, advice: str | None = EXAMPLES) -> InvalidOption:
        """Return an error that points at ``node`` in the text."""
        current: exp.Expr | None = node
        while current is not None:
            starts = [item.meta["start"] for item in current.walk() if "start" in item.meta]
            if starts:
                return _error(self.text, min(starts), message, advice)
            current = current.parent
        return _error(self.text, 0, message, advice)


def parse(text: str, columns: Collection[str] = ()) -> WhereCondition:
    """Parse a condition.

    Args:
        text: The condition, a SQL expression.
        columns: Names of the columns. They need no quotes even where they contain ``-`` or are keywords of SQL.

    Raises:
        InvalidOption: The text is not an expression; the message points at the position.
    """
    dialect = WhereDialect()
    try:
        found = _with_column_names(dialect.tokenize(text), text, columns)
    except TokenError:
        raise _error(text, len(text), "a quote is not closed") from None
    if not found:
        raise _error(text, 0, "expected a condition")
    _check_tokens(found, text)
    try:
        trees = dialect.parser().parse_into(exp.Condition, found, text)
    except RecursionError:
        raise _error(text, 0, "the condition is nested too deeply") from None
    except ParseError as error:
        raise _syntax_error(text, error) from None
    if len(trees) != 1 or trees[0] is None:
        raise _error(text, 0, "expected a condition")
    return WhereCondition(text, trees[0])


def _with_column_names(given: list[Token], text: str, columns: Collection[str]) -> list[Token]:
    """Replace the tokens that spell a column's name, or a field's after a dot, by one name each."""
    index_by_end = {token.end: index for index, token in enumerate(given)}
    result: list[Token] = []
    index = 0
    while index < len(given):
        token = given[index]
        is_field = bool(result) and result[-1].token_type is TokenType.DOT and token.text.isidentifier()
        ends = [
            index_by_end[token.start + len(name) - 1]
            for name in columns
            if text.startswith(name, token.start) and index_by_end.get(token.start + len(name) - 1, -1) >= index
        ]
        last = max(ends, default=index)
        following = given[last + 1].token_type if last + 1 < len(given) else None
        if last > index:
            name = text[token.start : given[last].end + 1]
            token = Token(TokenType.IDENTIFIER, name, token.line, given[last].col, token.start, given[last].end)
        elif is_field or (
            ends
            and token.text.upper() not in _RESERVED
            # lower(x) is a call and DATE '2024-02-29' a literal, whatever the columns are called.
            and following not in (TokenType.L_PAREN, TokenType.STRING)
        ):
            token = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
        result.append(token)
        index = last + 1
    return result


def _check_tokens(found: list[Token], text: str) -> None:
    """Refuse several statements, and nesting that would exhaust the stack."""
    depth = 0
    for token in found:
        if token.token_type is TokenType.SEMICOLON:
            raise _error(text, token.start, "unexpected ';'")
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > MAX_DEPTH:
            raise _error(text, token.start, f"parentheses more than {MAX_DEPTH} deep")


def _syntax_error(text: str, error: ParseError) -> InvalidOption:
    if not error.errors:
        return _error(text, 0, "expected a condition")
    details = error.errors[0]
    description, highlight = details["description"] or "", details["highlight"] or ""
    lines = text.splitlines(keepends=True)
    # sqlglot's column is that of the token's last character, counted from 1.
    at = sum(map(len, lines[: details["line"] - 1])) + details["col"] - len(highlight)
    if description.startswith("Required keyword"):
        return _error(text, at, f"expected a value at {highlight!r}")
    if description.startswith("Expect"):
        return _error(
            text, at + len(highlight), description[0].lower() + description[1:].replace("expecting", "expected")
        )
    return _error(text, at, f"unexpected {highlight!r}")


def _error(text: str, at: int, message: str, advice: str | None = EXAMPLES) -> InvalidOption:
    shown = re.sub(r"\s", " ", text)
    return InvalidOption(f"where: {message}\n    {shown}\n    {' ' * max(at, 0)}^", advice=advice)
