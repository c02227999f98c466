"""The functions of text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption
from stateproc.filters.blobs import parse_base64
from stateproc.filters.casts import as_text
from stateproc.filters.elements import contains, size
from stateproc.filters.exact_numbers import small_integer
from stateproc.filters.sql_value import SqlValue, boolean, null_booleans

_BLANKS = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""What TRIM removes: the characters of Unicode's category of spaces."""


def text_values(operand: SqlValue) -> Any:
    """Return the values of text. Raises InvalidOption for other types."""
    if operand.kind == "null":
        return pa.scalar(None, pa.string())
    if operand.kind != "text":
        raise InvalidOption(f"{operand.shown} is not text", advice="CAST(… AS VARCHAR) makes text of it")
    return operand.values


def _pattern(operand: SqlValue) -> str | None:
    if operand.kind == "null":
        return None
    if not operand.is_scalar or operand.kind != "text":
        raise InvalidOption("the pattern must be a text literal", advice="write it in 'single quotes'")
    text: str | None = operand.values.as_py()
    return text


def of_text(kernel: Callable[[Any], Any]) -> Callable[[SqlValue], SqlValue]:
    """Return the function that applies a kernel to text."""
    return lambda text: SqlValue(kernel(text_values(text)), pa.string())


def matching(kernel: Callable[..., Any]) -> Callable[[SqlValue, SqlValue], SqlValue]:
    """Return the function that compares text with a literal by a kernel."""

    def match(text: SqlValue, pattern: SqlValue) -> SqlValue:
        values, wanted = text_values(text), _pattern(pattern)
        return boolean(null_booleans(text) if wanted is None else kernel(values, wanted))

    return match


def matches_regex(text: Any, pattern: str) -> Any:
    """Return whether text contains a match of a regular expression."""
    try:
        return pc.match_substring_regex(text, pattern)
    except pa.ArrowInvalid as error:
        raise InvalidOption(f"{pattern!r} is not a regular expression: {error}", advice="RE2 syntax") from None


def matches_whole_regex(text: Any, pattern: str) -> Any:
    """Return whether a regular expression matches the whole text."""
    return matches_regex(text, rf"\A(?:{pattern})\z")


def like(text: SqlValue, pattern: SqlValue, *, escape: str | None, ignore_case: bool) -> Any:
    """Match SQL's patterns: ``%`` any text, ``_`` one character, after ``escape`` themselves."""
    values, wanted = text_values(text), _pattern(pattern)
    if escape is not None and len(escape) > 1:
        raise InvalidOption("ESCAPE needs one character")
    if wanted is None:
        return null_booleans(text)
    if ignore_case:
        values, wanted = pc.utf8_lower(values), _lower(wanted)
        escape = None if escape is None else _lower(escape)
    return _match_parts(values, _pattern_parts(wanted, escape))


def _lower(text: str) -> str:
    """Return lower case as the kernel has it: Python knows letters that become two."""
    return str(pc.utf8_lower(pa.scalar(text)))


_ANY, _ONE = object(), object()
"""What ``%`` and ``_`` in a pattern mean."""


def _pattern_parts(pattern: str, escape: str | None) -> list[Any]:
    """Return a pattern as texts, ``_ANY`` for ``%`` and ``_ONE`` for ``_``."""
    parts: list[Any] = []
    characters = iter(pattern)
    for character in characters:
        literal: Any = character
        if character == escape:
            literal = next(characters, "")
            if not literal:
                raise InvalidOption(f"'{pattern}' ends with the escape character")
        elif character in "%_":
            literal = _ANY if character == "%" else _ONE
        if isinstance(literal, str) and parts and isinstance(parts[-1], str):
            parts[-1] += literal
        else:
            parts.append(literal)
    return parts


def _match_parts(values: Any, parts: list[Any]) -> Any:
    """Match by the kernel that suits the pattern.

    ``pc.match_like`` has no other escape than the backslash, and takes ``\\\\`` for two after a leading ``%``.
    """
    match parts:
        case []:
            return pc.equal(values, "")
        case [str(text)]:
            return pc.equal(values, text)
        case [str(text), end] if end is _ANY:
            return pc.starts_with(values, text)
        case [start, str(text)] if start is _ANY:
            return pc.ends_with(values, text)
        case [start, str(text), end] if start is end is _ANY:
            return pc.match_substring(values, text)
    regex = "".join(".*" if part is _ANY else "." if part is _ONE else re.escape(part) for part in parts)
    return pc.match_substring_regex(values, rf"(?s)\A{regex}\z")


def substring(text: SqlValue, start: SqlValue, length: SqlValue | None = None) -> SqlValue:
    """Return characters from ``start``, counted from 1 or, if negative, from the end.

    A negative ``length`` counts the characters before ``start``.
    """
    values, position = text_values(text), small_integer(start)
    count = None if length is None else small_integer(length)
    first = position - 1 if position > 0 else position
    if position == 0 and count is not None:
        # The character before the first is none, and counts.
        first, count = 0, max(count - 1, 0)
    elif count is not None and count < 0:
        first, count = (max(first + count, 0), first - max(first + count, 0)) if first >= 0 else (first + count, -count)
    stop = None if count is None else first + count
    if stop is not None and first < 0 <= stop:
        stop = None
    return SqlValue(pc.utf8_slice_codeunits(values, first, stop), pa.string())


def length(value: SqlValue) -> SqlValue:
    """Return the characters of text, or the elements of a list or map."""
    if value.kind in ("list", "map"):
        return size(value)
    return SqlValue(pc.cast(pc.utf8_length(text_values(value)), pa.int64()), pa.int64())


def contains_text_or_element(container: SqlValue, wanted: SqlValue) -> SqlValue:
    """Return whether text contains a text, a list an element, or a map a key."""
    if container.kind in ("list", "map"):
        return contains(container, wanted)
    return matching(pc.match_substring)(container, wanted)


def concat(*operands: SqlValue) -> SqlValue:
    """Join values as text; a null is nothing."""
    return SqlValue(
        pc.binary_join_element_wise(
            *(_as_text(item) for item in operands), "", null_handling="replace", null_replacement=""
        ),
        pa.string(),
    )


def joined(left: SqlValue, right: SqlValue) -> SqlValue:
    """Join two values as text, null if one is."""
    if left.kind == right.kind == "bytes":
        raise InvalidOption("bytes cannot be joined")
    return SqlValue(pc.binary_join_element_wise(_as_text(left), _as_text(right), ""), pa.string())


def _as_text(operand: SqlValue) -> Any:
    return pa.scalar(None, pa.string()) if operand.kind == "null" else as_text(operand).values


trim = of_text(lambda text: pc.utf8_trim(text, _BLANKS))


def from_base64(text: SqlValue) -> SqlValue:
    """Return the bytes that a literal of base64 means."""
    if not text.is_scalar or text.kind != "text":
        raise InvalidOption("from_base64 needs a text literal")
    return SqlValue(pa.scalar(parse_base64(text.values.as_py()), pa.binary()), pa.binary())
