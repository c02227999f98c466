"""Write Avro schemas as org.apache.avro.Schema.toString does, the form that AvroSerializer's snapshot contains.

Attributes come in Avro's order, a named type is defined at its first occurrence and referred to by name after
that, by its short name within its own namespace.
"""

from __future__ import annotations

import json
from typing import Any

from stateproc.codec.avro_schema import PRIMITIVES, parse_schema

_SCHEMA_RESERVED = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_ENUM_RESERVED = _SCHEMA_RESERVED | {"default"}
_FIELD_RESERVED = frozenset(("default", "doc", "name", "order", "type", "aliases"))


def schema_text(text: str) -> str:
    """Convert the schema ``text`` (JSON) to Avro's own form. Raises CorruptSnapshot, UnsupportedSnapshot."""
    parse_schema(text)  # checks the depth and all that is taken for granted below
    return json.dumps(_Namer().schema(json.loads(text), None, None), ensure_ascii=False, separators=(",", ":"))


class _Namer:
    """Writes a schema's tree anew; knows which names are defined."""

    def __init__(self) -> None:
        self.defined: set[str] = set()

    def schema(self, tree: Any, space: str | None, written: str | None) -> Any:
        """``tree`` anew. ``space``: the namespace in which its names are read; ``written``: in which they are written,
        None for none."""
        if isinstance(tree, str):
            return tree if tree in PRIMITIVES else _short(self.full(tree, space), written)
        if isinstance(tree, list):
            return [self.schema(branch, space, written) for branch in tree]
        kind = tree["type"]
        if isinstance(kind, dict | list):
            return self.schema(kind, space, written)
        if kind in ("record", "error", "enum", "fixed"):
            return self.named(tree, kind, space, written)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            return {"type": kind, inner: self.schema(tree[inner], space, written)} | _props(tree, _SCHEMA_RESERVED)
        if kind not in PRIMITIVES:
            return self.schema(kind, space, written)
        props = _props(tree, _SCHEMA_RESERVED)
        return {"type": kind} | props if props else kind

    def full(self, name: str, space: str | None) -> str:
        qualified = name if "." in name or not space else f"{space}.{name}"
        return qualified if qualified in self.defined or name not in self.defined else name

    def named(self, tree: dict[str, Any], kind: str, space: str | None, written: str | None) -> dict[str, Any]:
        name, own = tree["name"], tree.get("namespace", space)
        full = name if "." in name or not own else f"{own}.{name}"
        inside, _, short = full.rpartition(".")
        self.defined.add(full)
        made: dict[str, Any] = {"type": kind, "name": short}
        if inside != (written or ""):
            made["namespace"] = inside
        if tree.get("doc") is not None:
            made["doc"] = tree["doc"]
        reserved = _SCHEMA_RESERVED
        if kind == "enum":
            made["symbols"] = tree["symbols"]
            reserved = _ENUM_RESERVED
            if "default" in tree:
                made["default"] = tree["default"]
        elif kind == "fixed":
            made["size"] = tree["size"]
        else:
            made["fields"] = [self.field(field, inside or None) for field in tree["fields"]]
        made |= _props(tree, reserved)
        if tree.get("aliases"):
            made["aliases"] = [_short(_in(alias, inside), inside or None) for alias in tree["aliases"]]
        return made

    def field(self, tree: dict[str, Any], space: str | None) -> dict[str, Any]:
        made = {"name": tree["name"], "type": self.schema(tree["type"], space, space)}
        if tree.get("doc") is not None:
            made["doc"] = tree["doc"]
        if "default" in tree:
            made["default"] = tree["default"]
        order = str(tree.get("order", "ascending")).lower()
        if order != "ascending":
            made["order"] = order
        if tree.get("aliases"):
            made["aliases"] = tree["aliases"]
        return made | _props(tree, _FIELD_RESERVED)


def _props(tree: dict[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if key not in reserved and value is not None}


def _in(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _short(full: str, space: str | None) -> str:
    own, _, name = full.rpartition(".")
    return name if own == (space or "") or not own else full
