"""Describe a change: its name, its fields with types and help, and how it is made from plain values."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from stateproc.errors import InvalidOption, SnapshotError
from stateproc.writers.changes.field_types import ChangeFieldType

if TYPE_CHECKING:
    from stateproc.writers.savepoint_writer import SavepointWriter

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

        Args:
            values: Plain values; None is a field that is not given.
            flags: Spell fields as the command line does in messages.

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
