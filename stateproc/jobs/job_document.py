"""Parse a job file: YAML 1.2 (core schema) or JSON to plain values, with the line of each.

Input may be hostile: the size, the depth and the number of values are limited before anything is built, aliases count
as often as they are used, and no tag creates an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from stateproc.errors import InvalidOption, Where

MOST_BYTES = 1 << 20
MOST_DEPTH = 24
MOST_VALUES = 20_000
Path = tuple[str | int, ...]
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?")
_STRING_TAGS = frozenset(("!", "tag:yaml.org,2002:str"))
_MOST_SHOWN = 120


@dataclass(frozen=True)
class JobDocument:
    """A parsed job.

    Attributes:
        name: The path of the file; None for a job that was given as a dict.
        value: Mappings, lists and scalars.
        lines: The line of each value by its path, counted from 1; empty for a dict.
        text: The lines of the file.
    """

    name: str | None
    value: Any
    lines: Mapping[Path, int] = field(default_factory=dict, repr=False)
    text: tuple[str, ...] = field(default=(), repr=False)

    def error(self, path: Path, problem: str, advice: str | None = None) -> InvalidOption:
        """Return the error about the value at ``path``, with its line or, for a dict, its path."""
        line = next((self.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.lines), None)
        if line is None:
            # Such as operators[0].states[1].kind.
            shown = "".join(f"[{item}]" if isinstance(item, int) else f".{item}" for item in path).lstrip(".")
            return InvalidOption(
                f"{shown}: {problem}" if shown else problem, where=Where(file=self.name), advice=advice
            )
        return _error_in_line(self.name, self.text, line, problem, advice)


def parse_document(text: str, name: str | None = None) -> JobDocument:
    """Parse the text of a job file.

    Raises:
        InvalidOption: The text is too long, too deep, no YAML, or uses a tag, a merge key or a key twice.
    """
    if len(text) > MOST_BYTES:
        raise InvalidOption(
            f"a job file of {len(text)} characters",
            where=Where(file=name),
            advice=f"job files have at most {MOST_BYTES}",
        )
    lines = tuple(text.splitlines())
    try:
        _check_events(text, name, lines)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise _error_in_line(name, lines, line, f"no YAML: {error.problem or error.context}", None) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidOption(f"no YAML: {error}", where=Where(file=name)) from error
    built = _Builder(name, lines)
    value = None if node is None else built.value(node, (), 0)
    return JobDocument(name, value, built.marks, lines)


def scalar(text: str) -> Any:
    """Return what plain text means in YAML 1.2's core schema: null, a boolean, a number, else the text."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _check_events(text: str, name: str | None, lines: tuple[str, ...]) -> None:
    """Refuse documents that are too deep or too long: parsing to events needs no recursion, composing does."""
    depth = 0
    for count, event in enumerate(_events(text)):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_DEPTH:
            raise _error_in_line(name, lines, line, f"more than {MOST_DEPTH} levels", None)
        if count > 3 * MOST_VALUES:
            raise _error_in_line(name, lines, line, f"more than {MOST_VALUES} values", None)


def _events(text: str) -> Iterator[Any]:
    yield from yaml.parse(text, Loader=yaml.SafeLoader)


class _Builder:
    """Builds values from nodes; an alias is built as often as it is used, which the limit of values bounds."""

    def __init__(self, name: str | None, lines: tuple[str, ...]) -> None:
        self._name, self._lines, self._values = name, lines, 0
        self.marks: dict[Path, int] = {}

    def value(self, node: Any, path: Path, depth: int) -> Any:
        self._values += 1
        line = node.start_mark.line + 1
        if depth > MOST_DEPTH or self._values > MOST_VALUES:
            what = f"{MOST_DEPTH} levels" if depth > MOST_DEPTH else f"{MOST_VALUES} values"
            raise self._error(line, f"more than {what}", "an alias counts as often as it is used")
        self.marks.setdefault(path, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            self._check_tag(node, "seq")
            return [self.value(item, (*path, n), depth + 1) for n, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: Any, path: Path, depth: int) -> dict[str, Any]:
        self._check_tag(node, "map")
        found: dict[str, Any] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(line, "a key that is no text", None)
            if key.value == "<<" and key.style is None:
                raise self._error(line, "merge keys (<<) are not supported", "repeat the values")
            if key.value in found:
                raise self._error(line, f"the key '{key.value}' is given twice", "remove one")
            place = (*path, key.value)
            self.marks[place] = line
            found[key.value] = self.value(item, place, depth + 1)
        return found

    def _scalar(self, node: Any) -> Any:
        if node.style is not None or (node.tag in _STRING_TAGS and not self._resolves(node)):
            return str(node.value)
        known = {"null", "bool", "int", "float", "str", "timestamp", "merge", "value"}
        if node.tag.removeprefix("tag:yaml.org,2002:") not in known:
            raise self._error(node.start_mark.line + 1, f"the tag {node.tag} is not supported", "remove it")
        return scalar(node.value)

    @staticmethod
    def _resolves(node: Any) -> bool:
        """Whether a plain scalar has the tag by its text, not by a tag in the file."""
        start = node.start_mark
        return bool((start.buffer or "")[start.pointer : start.pointer + 1] != "!")

    def _check_tag(self, node: Any, kind: str) -> None:
        if node.tag != f"tag:yaml.org,2002:{kind}":
            raise self._error(node.start_mark.line + 1, f"the tag {node.tag} is not supported", "remove it")

    def _error(self, line: int, problem: str, advice: str | None) -> InvalidOption:
        return _error_in_line(self._name, self._lines, line, problem, advice)


def _error_in_line(
    name: str | None, lines: tuple[str, ...], line: int, problem: str, advice: str | None
) -> InvalidOption:
    shown = lines[line - 1].strip()[:_MOST_SHOWN] if 0 < line <= len(lines) else ""
    text = f"line {line}: {problem}" + (f"\n  {line} | {shown}\n " if shown else "")
    return InvalidOption(text, where=Where(file=name), advice=advice)
