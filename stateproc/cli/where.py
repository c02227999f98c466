"""The language of ``--where``: text → a tree. A part of SQL's conditions, nothing that runs code.

condition  := conjunction (OR conjunction)*
conjunction:= negation (AND negation)*
negation   := NOT negation | '(' condition ')' | test
test       := column [(= | != | <> | < | <= | > | >=) literal | [NOT] IN '(' literal, … ')' | IS [NOT] NULL]
column     := name ('.' name)*        name: letters, digits, _ or anything in "double quotes"
literal    := number | 'text' | TRUE | FALSE | DATE 'text' | TIMESTAMP 'text'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import NoReturn

from stateproc.errors import InvalidOption

Literal = bool | Decimal | str
_DEEPEST = 100
COMPARISONS = ("=", "!=", "<>", "<=", ">=", "<", ">")
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?(?![\w.]))
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+"|`[^`]+`)
      | (?P<word>[^\W\d]\w*(?:-\w+)*)
      | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,|\.)
    )""",
    re.VERBOSE,
)
_WORDS = frozenset({"AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE"})


@dataclass(frozen=True)
class Column:
    """A column, or a field within structs: its names from outside in."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True)
class Compare:
    """``column sign literal``; ``sign`` is one of = != < <= > >=."""

    column: Column
    sign: str
    literal: Literal


@dataclass(frozen=True)
class In:
    """``column IN (literals)``."""

    column: Column
    literals: tuple[Literal, ...]


@dataclass(frozen=True)
class IsNull:
    column: Column


@dataclass(frozen=True)
class IsTrue:
    """A boolean column on its own."""

    column: Column


@dataclass(frozen=True)
class Not:
    inner: Condition


@dataclass(frozen=True)
class And:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Condition, ...]


Condition = Compare | In | IsNull | IsTrue | Not | And | Or


def parse(text: str) -> Condition:
    """The condition that ``text`` says. Raises InvalidOption, pointing at the place."""
    return _Parser(text).whole()


def columns_of(condition: Condition) -> tuple[Column, ...]:
    """The columns of a condition, each once."""
    if isinstance(condition, And | Or):
        found = [column for part in condition.parts for column in columns_of(part)]
    elif isinstance(condition, Not):
        found = list(columns_of(condition.inner))
    else:
        found = [condition.column]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    found = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            _fail(text, at + len(text[at:]) - len(text[at:].lstrip()), "this is not understood")
        kind = match.lastgroup or ""
        found.append(_Token(kind, match.group(kind), match.start(kind)))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


def _fail(text: str, at: int, what: str) -> NoReturn:
    raise InvalidOption(
        f"--where: {what}\n    {text}\n    {' ' * at}^",
        advice="e.g. key = 42, key IN (1, 2), value.name = 'tea' AND (value.total >= 1.5 OR value.x IS NULL)",
    )


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def whole(self) -> Condition:
        found = self._condition()
        if self._token.kind != "end":
            self._expected("AND, OR or the end")
        return found

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _expected(self, what: str) -> NoReturn:
        _fail(self._text, self._token.at, f"expected {what}")

    def _took(self, *texts: str) -> bool:
        """Take the token if it is one of these signs or words."""
        token = self._token
        if token.kind in ("word", "sign") and token.text.upper() in texts:
            self._at += 1
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._took(text):
            self._expected(f"'{text}'")

    def _condition(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            _fail(self._text, self._token.at, f"parentheses and NOTs more than {_DEEPEST} deep")
        parts = [self._conjunction()]
        while self._took("OR"):
            parts.append(self._conjunction())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self) -> Condition:
        parts = [self._negation()]
        while self._took("AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _negation(self) -> Condition:
        negated = False
        while self._took("NOT"):
            negated = not negated
        if self._took("("):
            inner = self._condition()
            self._need(")")
        else:
            inner = self._test()
        return Not(inner) if negated else inner

    def _test(self) -> Condition:
        column = self._column()
        token = self._token
        if self._took(*COMPARISONS, "=="):
            sign = {"<>": "!=", "==": "="}.get(token.text, token.text)
            return Compare(column, sign, self._literal())
        if self._took("IS"):
            negated = self._took("NOT")
            self._need("NULL")
            return Not(IsNull(column)) if negated else IsNull(column)
        negated = self._took("NOT")
        if self._took("IN"):
            found = In(column, self._literals())
            return Not(found) if negated else found
        if negated:
            self._expected("IN")
        return IsTrue(column)

    def _column(self) -> Column:
        names = [self._name()]
        while self._took("."):
            names.append(self._name())
        return Column(tuple(names))

    def _name(self) -> str:
        token = self._token
        if token.kind == "quoted":
            self._at += 1
            return token.text[1:-1].replace('""', '"')
        if token.kind == "word" and token.text.upper() not in _WORDS:
            self._at += 1
            return token.text
        self._expected("a column's name")

    def _literals(self) -> tuple[Literal, ...]:
        self._need("(")
        found = [self._literal()]
        while self._took(","):
            found.append(self._literal())
        self._need(")")
        return tuple(found)

    def _literal(self) -> Literal:
        self._took("DATE", "TIMESTAMP", "TIME")
        token = self._token
        if token.kind == "number":
            self._at += 1
            return Decimal(token.text)
        if token.kind == "text":
            self._at += 1
            return token.text[1:-1].replace("''", "'")
        if self._took("TRUE", "FALSE"):
            return token.text.upper() == "TRUE"
        if token.kind == "word" and token.text.upper() == "NULL":
            self._expected("a value (for missing values write IS NULL)")
        if token.kind in ("quoted", "word"):
            self._expected("a value (text goes in 'single quotes')")
        self._expected("a value")
