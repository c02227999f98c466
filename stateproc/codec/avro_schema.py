"""Parse Avro schemas: the JSON text of AvroSerializerSnapshot to a tree of types."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from stateproc.errors import CorruptSnapshot, UnsupportedSnapshot

MAX_DEPTH = 64
MAX_TEXT = 1 << 24
PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED = frozenset(("record", "error", "enum", "fixed"))


@dataclass(frozen=True)
class AvroType:
    """A schema. ``kind``: of PRIMITIVES, or record, enum, fixed, array, map, union, or reference.

    ``name``: the full name of a named type or of what a reference means. ``names``: of a record's fields or
    an enum's symbols; ``children``: the types of fields, branches, items or values. ``size``: of a fixed.
    """

    kind: str
    name: str = ""
    names: tuple[str, ...] = ()
    children: tuple[AvroType, ...] = ()
    size: int = 0
    logical: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def short_name(self) -> str:
        """The type's short name: a named type's name without namespace, else the kind."""
        return self.name.rpartition(".")[2] or self.kind


@dataclass(frozen=True)
class AvroSchema:
    """A root type and the named types defined in it."""

    root: AvroType
    named: tuple[tuple[str, AvroType], ...]

    def resolve(self, type_: AvroType) -> AvroType:
        """Resolve a reference; other types are returned as they are."""
        return self._by_name[type_.name] if type_.kind == "reference" else type_

    @cached_property
    def _by_name(self) -> dict[str, AvroType]:
        return dict(self.named)


def parse_schema(text: str) -> AvroSchema:
    """Parse ``text`` (JSON). Raises CorruptSnapshot, UnsupportedSnapshot (nested over 64 levels)."""
    if len(text) > MAX_TEXT:
        raise UnsupportedSnapshot(f"an Avro schema of {len(text)} characters")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptSnapshot(f"an Avro schema is not JSON: {error}") from error
    parser = _SchemaParser()
    root = parser.parse(tree, "", 0)
    return AvroSchema(root, tuple(parser.named.items()))


@dataclass
class _SchemaParser:
    named: dict[str, AvroType] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)

    def parse(self, tree: Any, namespace: str, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise UnsupportedSnapshot(f"an Avro schema nested over {MAX_DEPTH} levels deep")
        if isinstance(tree, str):
            return self.by_name(tree, namespace)
        if isinstance(tree, list):
            branches = tuple(self.parse(branch, namespace, depth + 1) for branch in tree)
            return AvroType("union", children=branches)
        if not isinstance(tree, dict):
            raise CorruptSnapshot("an Avro schema has something else where a type belongs")
        kind = tree.get("type")
        if isinstance(kind, dict | list):
            return self.parse(kind, namespace, depth + 1)
        if kind in _NAMED:
            return self.named_type(str(kind), tree, namespace, depth)
        if kind in ("array", "map"):
            inner = tree.get("items" if kind == "array" else "values")
            return AvroType(str(kind), children=(self.parse(inner, namespace, depth + 1),))
        if not isinstance(kind, str):
            raise CorruptSnapshot("an Avro schema has a type without a kind")
        return self.with_logical_type(self.by_name(kind, namespace), tree)

    def by_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full in (_full(name, namespace), name):
            if full in self.named or full in self.open:
                return AvroType("reference", full)
        raise CorruptSnapshot(f"an Avro schema refers to {name!r}, which it does not define")

    def named_type(self, kind: str, tree: dict[str, Any], namespace: str, depth: int) -> AvroType:
        own = tree.get("namespace", namespace)
        full = _full(_text(tree, "name"), own if isinstance(own, str) else namespace)
        if full in self.named or full in self.open:
            raise CorruptSnapshot(f"an Avro schema defines {full!r} twice")
        self.open.add(full)
        inner = full.rpartition(".")[0]
        if kind == "enum":
            made = AvroType("enum", full, names=tuple(_texts(tree, "symbols")))
        elif kind == "fixed":
            size = tree.get("size")
            if not isinstance(size, int) or not 0 <= size < 1 << 31:
                raise CorruptSnapshot(f"an Avro fixed of size {size!r}")
            made = self.with_logical_type(AvroType("fixed", full, size=size), tree)
        else:
            fields = tree.get("fields")
            if not isinstance(fields, list) or not all(isinstance(entry, dict) for entry in fields):
                raise CorruptSnapshot(f"the Avro record {full!r} has no list of fields")
            names = tuple(_text(entry, "name") for entry in fields)
            if len(set(names)) != len(names):
                raise CorruptSnapshot(f"the Avro record {full!r} has two fields of one name")
            children = tuple(self.parse(entry.get("type"), inner, depth + 1) for entry in fields)
            made = AvroType("record", full, names, children)
        self.open.discard(full)
        self.named[full] = made
        return made

    def with_logical_type(self, plain: AvroType, tree: dict[str, Any]) -> AvroType:
        """``plain`` with its logicalType; one that does not fit is ignored, as the specification has it."""
        logical = tree.get("logicalType")
        if not isinstance(logical, str) or plain.kind == "reference":
            return plain
        numbers = [tree.get(name, 0) for name in ("precision", "scale")]
        precision, scale = (n if isinstance(n, int) else -1 for n in numbers)
        if logical == "decimal" and not (precision > 0 and 0 <= scale <= precision):
            return plain
        return AvroType(plain.kind, plain.name, size=plain.size, logical=logical, precision=precision, scale=scale)


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _text(tree: dict[str, Any], key: str) -> str:
    value = tree.get(key)
    if not isinstance(value, str) or not value:
        raise CorruptSnapshot(f"an Avro schema lacks a {key}")
    return value


def _texts(tree: dict[str, Any], key: str) -> list[str]:
    values = tree.get(key)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise CorruptSnapshot(f"an Avro schema lacks {key}")
    return values
