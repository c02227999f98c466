"""Describe a change: its name, its fields with types and help, and how it is made from plain values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import date, datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from stateproc.errors import InvalidOption, SnapshotError
from stateproc.writers.kafka_offset_words import OFFSET_WORDS

if TYPE_CHECKING:
    from stateproc.writers.savepoint_writer import SavepointWriter

# Types of the fields of changes: plain values of JSON and YAML, or text of the command line, to Python values.
#
# A plain value is text, a number, a boolean, a list or an object. Parsers raise ValueError with the expected form.

_DURATION = re.compile(r"(\d{1,15})\s*([a-z]*)")
_UNITS = {
    1: ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
    1000: ("s", "sec", "secs", "second", "seconds"),
    60_000: ("m", "min", "minute", "minutes"),
    3_600_000: ("h", "hour", "hours"),
    86_400_000: ("d", "day", "days"),
}
_MILLISECONDS = {name: milliseconds for milliseconds, names in _UNITS.items() for name in names}
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


def _names(given: Any) -> dict[str, str]:
    is_object = isinstance(given, Mapping)
    if not is_object or not all(isinstance(name, str) and name for pair in given.items() for name in pair):
        raise ValueError("an object of names and names")
    return dict(given)


def _settings(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise ValueError("an object of names and values")
    if not all(isinstance(value, str | int | float | bool) for value in given.values()):
        raise ValueError("an object whose values are text, numbers or booleans")
    return dict(given)


def _positions(given: Any) -> dict[str, str]:
    form = "an object of splits and positions: text, a time with its offset from UTC, or a whole number"
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise ValueError(form)
    found = {}
    for name, value in given.items():
        if isinstance(value, datetime):  # as YAML reads times
            value = value.isoformat()
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise ValueError(form)
        found[name] = str(value)
    return found


def _expressions(given: Any) -> dict[str, str]:
    return {name: str(value) for name, value in _settings(given).items()}


_NAME = {"type": "string", "minLength": 1}

TEXT = ChangeFieldType("text", _text, _NAME)
TEXTS = ChangeFieldType(
    "names", _texts, {"oneOf": [_NAME, {"type": "array", "items": _NAME, "minItems": 1}]}, "NAME", shape="many"
)
ASSIGNMENTS = ChangeFieldType("assignments", _texts, TEXTS.schema, "COLUMN=EXPRESSION", shape="many")
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
NAMES = ChangeFieldType(
    "names by name", _names, {"type": "object", "additionalProperties": _NAME}, "OLD=NEW", shape="pairs"
)
SETTINGS = ChangeFieldType(
    "settings",
    _settings,
    {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    "KEY=VALUE",
    shape="pairs",
)
POSITIONS = ChangeFieldType("positions by split", _positions, SETTINGS.schema, "SPLIT=POSITION", shape="pairs")
EXPRESSIONS = ChangeFieldType(
    "expressions by column", _expressions, SETTINGS.schema, "UID.COLUMN=EXPRESSION", shape="pairs"
)


def one_of(*names: str) -> ChangeFieldType:
    """Return the type of texts from a fixed set."""

    def parse(given: Any) -> str:
        if given not in names:
            raise ValueError("one of " + ", ".join(names))
        return str(given)

    return ChangeFieldType("choice", parse, {"enum": list(names)}, choices=names)


_FIELD = "change field"


class SnapshotChange(Protocol):
    """A change of an existing snapshot; implementations are frozen dataclasses with fields made by `change_field`."""

    def apply(self, writer: SavepointWriter) -> None:
        """Make the change in what the writer is going to write. Raises NotFound, InvalidOption."""


@dataclass(frozen=True)
class ChangeField:
    """A field of a change.

    Attributes:
        name: The spelling in Python and in job files.
        type: How its values are written.
        help: One line for ``--help`` and the documentation.
        required: Whether it has to be given.
    """

    name: str
    type: ChangeFieldType
    help: str
    required: bool

    @property
    def flag(self) -> str:
        """The command line's spelling, e.g. ``--max-parallelism``."""
        return "--" + self.name.replace("_", "-")


def change_field(type_: ChangeFieldType, help_: str, *, default: Any = MISSING) -> Any:
    """Declare a field of a change. Without ``default`` it has to be given; None is the default of optional ones."""
    return field(default=default, metadata={_FIELD: (type_, help_)})


@dataclass(frozen=True)
class ChangeDefinition:
    """A row of the table of changes.

    Attributes:
        name: The name in job files, e.g. ``rename-operator``.
        kind: The dataclass.
        summary: What the change does, in one phrase.
        words: The verb on the command line, e.g. ("ttl", "enable"); empty if it is no verb of its own.
        examples: Arguments for the end of the verb's ``--help``, after SOURCE and TARGET.
        sample: Plain values of a valid change, for tests and documentation.
    """

    name: str
    kind: type[Any]
    summary: str
    words: tuple[str, ...]
    examples: tuple[str, ...] = ()
    sample: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def fields(self) -> tuple[ChangeField, ...]:
        """The fields, in the order of the dataclass."""
        found = ((item, *item.metadata[_FIELD]) for item in fields(self.kind))
        return tuple(ChangeField(item.name, type_, help_, item.default is MISSING) for item, type_, help_ in found)

    def make(self, values: Mapping[str, Any], *, flags: bool = False) -> SnapshotChange:
        """Make the change from plain values by the names of its fields.

        ``flags``: spell fields as the command line does in messages.

        Raises:
            InvalidOption: A field is missing, unknown or has a value that does not fit.
        """
        known = {item.name: item for item in self.fields}
        given = {name: value for name, value in values.items() if value is not None or not flags}
        for name in given:
            if name not in known:
                raise _unknown_field(self, name, flags)
        given = {name: value for name, value in given.items() if value is not None}
        for item in self.fields:
            if item.required and item.name not in given:
                shown = item.flag if flags else f"'{item.name}'"
                raise InvalidOption(f"{self.shown(flags)} without {shown}", advice=f"give {shown}: {item.help}")
        return self.kind(**{name: _parsed(self, known[name], value, flags) for name, value in given.items()})  # type: ignore[no-any-return]

    def shown(self, flags: bool = False) -> str:
        """The name in messages: that of job files, or the words of the command line."""
        return " ".join(self.words) if flags else self.name

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the plain values of a change."""
        properties = {item.name: {**item.type.schema, "description": item.help} for item in self.fields}
        required = [item.name for item in self.fields if item.required]
        return {
            "type": "object",
            "description": self.summary,
            "properties": properties,
            "additionalProperties": False,
            **({"required": required} if required else {}),
        }


def _parsed(definition: ChangeDefinition, item: ChangeField, value: Any, flags: bool) -> Any:
    try:
        return item.type.parse(item.type.from_arguments(value) if flags else value)
    except SnapshotError:
        raise
    except ValueError as error:
        shown = f"{item.flag} {value}" if flags else f"{definition.name}: {item.name} is {value!r}"
        raise InvalidOption(shown, advice=f"give {error}") from error


def _unknown_field(definition: ChangeDefinition, name: str, flags: bool) -> InvalidOption:
    if flags:
        own = ", ".join(item.flag for item in definition.fields)
        flag = "--" + name.replace("_", "-")
        return InvalidOption(f"{definition.shown(flags)} has no option {flag}", advice=f"its options: {own or 'none'}")
    names = [item.name for item in definition.fields]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return InvalidOption(
        f"{definition.name} has no field '{name}'", advice=f"its fields: {', '.join(names) or 'none'}{hint}"
    )
