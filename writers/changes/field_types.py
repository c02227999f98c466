"""Types of the fields of changes: plain values of JSON and YAML, or text of the command line, to Python values.

A plain value is text, a number, a boolean, a list or an object. Parsers raise ValueError with the expected form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

from stateproc.writers.changes.offset_words import OFFSET_WORDS

_DURATION = re.compile(r"(\d{1,15})\s*([a-z]*)")
_MILLISECONDS = {
    "": 1, "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "secs": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip
"""The units of Flink's durations (org.apache.flink.util.TimeUtils) from milliseconds up."""
_LONGEST = 1 << 62
_WHOLE = re.compile(r"[+-]?\d{1,19}")


@dataclass(frozen=True)
class ChangeFieldType:
    """How the values of a field are written.

    Attributes:
        name: What the documentation calls the type.
        parse: Converts a plain value; raises ValueError with the expected form.
        schema: The JSON Schema of plain values.
        metavar: What ``--help`` shows for the value.
        shape: ``one`` value; ``many``: a list, on the command line a flag that may be repeated; ``pairs``: an object,
            on the command line NAME=VALUE; ``flag``: a boolean, on the command line a flag without value.
        choices: The accepted texts, if there is a fixed set.
    """

    name: str
    parse: Callable[[Any], Any]
    schema: Mapping[str, Any]
    metavar: str = "TEXT"
    shape: str = "one"
    choices: tuple[str, ...] = ()

    def from_arguments(self, given: Any) -> Any:
        """Return the plain value of what the command line's parser collected. Raises ValueError."""
        if self.shape != "pairs":
            return given
        pairs = [text.rpartition("=") for text in given]
        if not all(name and equals for name, equals, _ in pairs):
            raise ValueError(self.metavar)
        names = [name for name, _, _ in pairs]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.metavar}, each name once")
        return {name: value for name, _, value in pairs}


def _text(given: Any) -> str:
    if not isinstance(given, str) or not given:
        raise ValueError("text that is not empty")
    return given


def _texts(given: Any) -> tuple[str, ...]:
    items = [given] if isinstance(given, str) else given
    if not isinstance(items, list | tuple) or not items or not all(isinstance(item, str) and item for item in items):
        raise ValueError("a name, or a list of names")
    return tuple(items)


def whole_number(given: Any) -> int:
    """Convert a whole number, or its digits as text."""
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    if isinstance(given, str) and _WHOLE.fullmatch(given):
        return int(given)
    raise ValueError("a whole number")


def _boolean(given: Any) -> bool:
    if not isinstance(given, bool):
        raise ValueError("true or false")
    return given


def _duration(given: Any) -> timedelta:
    form = "a duration such as '7 d', '12 h', '30 min', '10 s' or '500 ms'"
    found = _DURATION.fullmatch(str(given).strip().lower()) if isinstance(given, int | str) else None
    if isinstance(given, timedelta):
        return given
    if found is None or found[2] not in _MILLISECONDS:
        raise ValueError(form)
    try:
        return timedelta(milliseconds=int(found[1]) * _MILLISECONDS[found[2]])
    except OverflowError as error:
        raise ValueError(form) from error


def _moment(given: Any) -> int:
    form = "a time such as '2026-01-31T12:00:00Z', with its offset from UTC, or milliseconds since the epoch"
    moment = given
    if isinstance(given, date) and not isinstance(given, datetime):
        raise ValueError(form)  # YAML's dates have no time zone.
    if isinstance(given, str) and not _WHOLE.fullmatch(given):
        try:
            # Before Python 3.11 fromisoformat does not accept Z.
            moment = datetime.fromisoformat(re.sub(r"[Zz]$", "+00:00", given))
        except ValueError as error:
            raise ValueError(form) from error
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError(form)
        return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
    try:
        number = whole_number(moment)
    except ValueError as error:
        raise ValueError(form) from error
    if not -_LONGEST < number < _LONGEST:
        raise ValueError(form)
    return number


def _counts(given: Any) -> dict[str, int]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise ValueError("an object of names and whole numbers")
    return {name: whole_number(value) for name, value in given.items()}


def _offsets(given: Any) -> dict[str, int | str]:
    form = f"an object of names and offsets: whole numbers, or {', '.join(OFFSET_WORDS)}"
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise ValueError(form)
    return {name: value if value in OFFSET_WORDS else whole_number(value) for name, value in given.items()}


def _settings(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise ValueError("an object of names and values")
    if not all(isinstance(value, str | int | float | bool) for value in given.values()):
        raise ValueError("an object whose values are text, numbers or booleans")
    return dict(given)


_NAME = {"type": "string", "minLength": 1}

TEXT = ChangeFieldType("text", _text, _NAME)
TEXTS = ChangeFieldType(
    "names", _texts, {"oneOf": [_NAME, {"type": "array", "items": _NAME, "minItems": 1}]}, "NAME", shape="many"
)
WHOLE = ChangeFieldType("number", whole_number, {"type": "integer"}, "N")
FLAG = ChangeFieldType("boolean", _boolean, {"type": "boolean"}, shape="flag")
DURATION = ChangeFieldType("duration", _duration, {"type": ["string", "integer"]}, "DURATION")
MOMENT = ChangeFieldType("time", _moment, {"type": ["string", "integer"]}, "TIME")
COUNTS = ChangeFieldType(
    "numbers by name", _counts, {"type": "object", "additionalProperties": {"type": "integer"}}, "UID=N", shape="pairs"
)
_OFFSETS = {"type": "object", "additionalProperties": {"anyOf": [{"type": "integer"}, {"enum": [*OFFSET_WORDS]}]}}
OFFSETS = ChangeFieldType("offsets", _offsets, _OFFSETS, "TOPIC:PARTITION=OFFSET", shape="pairs")
TOPIC_OFFSETS = ChangeFieldType("offsets", _offsets, _OFFSETS, "TOPIC=OFFSET", shape="pairs")
SETTINGS = ChangeFieldType(
    "settings", _settings,
    {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}, "KEY=VALUE", shape="pairs",
)  # fmt: skip


def one_of(*names: str) -> ChangeFieldType:
    """Return the type of texts from a fixed set."""

    def parse(given: Any) -> str:
        if given not in names:
            raise ValueError("one of " + ", ".join(names))
        return str(given)

    return ChangeFieldType("choice", parse, {"enum": list(names)}, choices=names)
