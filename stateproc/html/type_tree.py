"""Describe Arrow schemas as trees of names and types, bounded in depth and size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

_DEEPEST, _MOST_FIELDS = 12, 400


@dataclass(frozen=True)
class TypeNode:
    """A column, a field of a struct, the element of a list, or the key or value of a map."""

    name: str
    type: str
    children: tuple[TypeNode, ...] = ()


def type_tree(schema: pa.Schema) -> tuple[TypeNode, ...]:
    """Return one tree per column. Of nested types only the kind is text: ``struct``, ``list``, ``map``."""
    budget = [_MOST_FIELDS - len(schema)]
    return tuple(_node(field.name, field.type, 1, budget) for field in schema)


def _node(name: str, type_: Any, depth: int, budget: list[int]) -> TypeNode:
    parts = _parts(type_)
    if not parts or depth == _DEEPEST or budget[0] < len(parts):
        text = str(type_)
        return TypeNode(name, text if len(text) <= 200 else text[:199] + "…")
    budget[0] -= len(parts)
    return TypeNode(name, _kind(type_), tuple(_node(*part, depth + 1, budget) for part in parts))


def _parts(type_: Any) -> list[tuple[str, Any]]:
    if pa.types.is_struct(type_):
        return [(type_.field(at).name, type_.field(at).type) for at in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [("key", type_.key_type), ("value", type_.item_type)]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [("element", type_.value_type)]
    return []


def _kind(type_: Any) -> str:
    if pa.types.is_struct(type_):
        return "struct"
    return "map" if pa.types.is_map(type_) else "list"
