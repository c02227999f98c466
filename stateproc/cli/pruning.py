"""What a condition says of keys and key groups, so that only the key groups concerned are read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from stateproc.cli.where import And, Column, Compare, Condition, In, IsNull, Literal, Or
from stateproc.keygroups.key_group_pruning import keys_of_fields

KEY_GROUP = Column(("key_group",))


def wanted_keys(condition: Condition, kind: pa.DataType) -> list[Any] | None:
    """The keys of Arrow type ``kind`` that rows can have, dates, times and bytes as text; None if it says nothing of
    them. Of structs every field has to be told.
    """

    def found(path: tuple[str, ...], field: pa.DataType) -> list[Any] | None:
        literals = _values(condition, Column(path))
        keys = None if literals is None else [_key(literal, field) for literal in literals]
        return None if keys is None or _UNFIT in keys else keys

    return keys_of_fields(kind, found)


def _key(literal: Literal | None, kind: pa.DataType) -> Any:
    """The literal as a value of ``kind``; _UNFIT where equality with it does not mean one hash."""
    if literal is None:
        return None
    if isinstance(literal, bool):
        return literal if pa.types.is_boolean(kind) else _UNFIT
    if isinstance(literal, str):
        return literal if any(test(kind) for test in _TEXTS) else _UNFIT
    if pa.types.is_integer(kind) and abs(literal) < 2**64 and literal == int(literal):
        return int(literal)
    if pa.types.is_floating(kind):
        return float(literal)
    return literal if pa.types.is_decimal(kind) else _UNFIT


_UNFIT = object()
_TEXTS = (pa.types.is_string, pa.types.is_temporal, pa.types.is_binary)


def wanted_key_groups(condition: Condition) -> set[int] | None:
    """The key groups that rows can be in; None if it says nothing of them."""
    found = _values(condition, KEY_GROUP)
    if found is None:
        return None
    return {
        int(literal)
        for literal in found
        if isinstance(literal, Decimal) and abs(literal) < 2**31 and literal == int(literal)
    }


def _values(condition: Condition, column: Column) -> list[Literal | None] | None:
    """The values ``column`` must have one of; None if any value may do."""
    if isinstance(condition, Compare):
        return [condition.literal] if condition.sign == "=" and condition.column == column else None
    if isinstance(condition, In):
        return list(condition.literals) if condition.column == column else None
    if isinstance(condition, IsNull):
        # Only fields are null; a key is not.
        return [None] if condition.column == column and len(column.path) > 1 else None
    if isinstance(condition, And):
        known = [found for part in condition.parts if (found := _values(part, column)) is not None]
        return min(known, key=len) if known else None
    if isinstance(condition, Or):
        parts = [_values(part, column) for part in condition.parts]
        return None if any(part is None for part in parts) else [item for part in parts if part for item in part]
    return None
