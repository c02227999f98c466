"""Values of an expression, with the type that SQL sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stateproc.errors import InvalidOption

EXACT = pa.decimal256(76, 0)
"""The type of number literals and of results of exact arithmetic, whose values are decimal digits as text."""

_KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("null", pa.types.is_null),
    ("boolean", pa.types.is_boolean),
    ("number", lambda type_: pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)),
    ("text", lambda type_: pa.types.is_string(type_) or pa.types.is_large_string(type_)),
    ("bytes", lambda type_: pa.types.is_binary(type_) or pa.types.is_large_binary(type_)),
    ("date", lambda type_: pa.types.is_timestamp(type_) or pa.types.is_date(type_)),
    ("time", pa.types.is_time),
    ("map", pa.types.is_map),
    ("list", lambda type_: pa.types.is_list(type_) or pa.types.is_large_list(type_)),
    ("struct", pa.types.is_struct),
)


@dataclass(frozen=True)
class SqlValue:
    """One value per row (an array), or one for all rows (a scalar).

    ``type`` is the type that SQL sees: dates and times may be stored as ISO text, exact numbers as digits.
    """

    values: Any
    type: pa.DataType

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.values, pa.Scalar)

    @property
    def kind(self) -> str:
        """null, boolean, number, text, bytes, date (and timestamp), time, map, list, struct or other."""
        return next((kind for kind, matches in _KINDS if matches(self.type)), "other")

    @property
    def shown(self) -> str:
        """The operand in an error message: a literal as it is, else the type."""
        if self.kind == "null":
            return "NULL"
        if self.is_scalar:
            return f"'{self.values}'" if self.kind == "text" else str(self.values)
        return "a computed number" if self.type == EXACT else str(self.type)


def boolean(values: Any) -> SqlValue:
    """Return truth values as an operand."""
    return SqlValue(values, pa.bool_())


def condition(operand: SqlValue) -> Any:
    """Return the truth values of an operand. Raises InvalidOption if it is not boolean."""
    if operand.kind == "null":
        return null_booleans(operand)
    if operand.kind != "boolean":
        raise InvalidOption(
            f"{operand.shown} is not a boolean", advice="compare it with something, as in value.total >= 10"
        )
    return operand.values


def null_booleans(*operands: SqlValue) -> Any:
    """Return nulls of type bool: an array if one of the operands is an array."""
    for operand in operands:
        if not operand.is_scalar:
            return pa.nulls(len(operand.values), pa.bool_())
    return pa.scalar(None, pa.bool_())


def matching_name(names: Sequence[str], wanted: str) -> str | None:
    """Return the name that is written like ``wanted``, else the only one that differs from it in case alone.

    Raises:
        InvalidOption: Several do.
    """
    if wanted in names:
        return wanted
    alike = dict.fromkeys(name for name in names if name.lower() == wanted.lower())
    if len(alike) > 1:
        meant = " or ".join(f'"{name}"' for name in alike)
        raise InvalidOption(
            f"{wanted!r} may mean {meant}, which differ by case only", advice=f"write it exactly: {meant}"
        )
    return next(iter(alike), None)


def field_of(operand: SqlValue, name: str) -> SqlValue:
    """Return a struct's field, null where the struct is null. Raises KeyError if it has no such field."""
    names = [field.name for field in operand.type] if operand.kind == "struct" else []
    found = matching_name(names, name)
    if found is None or names.count(found) > 1:
        raise KeyError(name)
    return SqlValue(pc.struct_field(operand.values, [found]), operand.type.field(found).type)
