"""What a condition says of keys and key groups, so that only the key groups concerned are read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from stateproc.cli.where import And, Column, Compare, Condition, In, Literal, Or

KEY, KEY_GROUP = Column(("key",)), Column(("key_group",))


def wanted_keys(condition: Condition, kind: pa.DataType) -> list[Any] | None:
    """The keys of Arrow type ``kind`` that rows can have; None if it says nothing of them.

    Only where equal keys are sure to have equal hashes in Java: not so 0.0 and -0.0, nor decimals 1 and 1.0.
    """
    found = _values(condition, KEY)
    if found is None:
        return None
    keys = [_key(literal, kind) for literal in found]
    return None if any(key is None for key in keys) else keys


def _key(literal: Literal, kind: pa.DataType) -> Any:
    if isinstance(literal, bool):
        return literal if pa.types.is_boolean(kind) else None
    if isinstance(literal, str):
        return literal if pa.types.is_string(kind) else None
    if pa.types.is_integer(kind) and abs(literal) < 2**64 and literal == int(literal):
        return int(literal)
    return float(literal) if pa.types.is_floating(kind) and literal != 0 else None


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


def _values(condition: Condition, column: Column) -> list[Literal] | None:
    """The values ``column`` must have one of; None if any value may do."""
    if isinstance(condition, Compare):
        return [condition.literal] if condition.sign == "=" and condition.column == column else None
    if isinstance(condition, In):
        return list(condition.literals) if condition.column == column else None
    if isinstance(condition, And):
        known = [found for part in condition.parts if (found := _values(part, column)) is not None]
        return min(known, key=len) if known else None
    if isinstance(condition, Or):
        parts = [_values(part, column) for part in condition.parts]
        return None if any(part is None for part in parts) else [item for part in parts if part for item in part]
    return None
