"""Rules of AvroSerializer: schema resolution of Avro, and what Flink's migration makes of generic records.

Source: AvroSerializerSnapshot, org.apache.avro.SchemaCompatibility. A migration reads values with the old schema and
writes them with the new one. The class of a specific record has the new schema, to which Avro resolves the values. A
generic record keeps the old one, and Avro writes its fields **by their position**: fields that were added or moved
throw, or get the value of another field.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from stateproc.serializers.avro.serializer import Avro
from stateproc.serializers.core.compatibility import (
    AS_IS,
    Answer,
    Comparison,
    Compatibility,
    Effect,
    Note,
    incompatible,
    joined,
    rule,
)

_PROMOTIONS: dict[str, frozenset[str]] = {
    "int": frozenset(("long", "float", "double")),
    "long": frozenset(("float", "double")),
    "float": frozenset(("double",)),
    "string": frozenset(("bytes",)),
    "bytes": frozenset(("string",)),
}
"""What a reader's type may be where a writer's is another (Avro: schema resolution)."""
_NAMED = ("record", "error", "enum", "fixed")
_NOT_EQUAL = ("doc", "aliases")
"""Attributes that Schema.equals does not look at."""
_GENERIC = "org.apache.avro.generic.GenericRecord"
_MIGRATION = "org.apache.flink.util.StateMigrationException: Error while trying to migrate RocksDB state"


@rule(Avro)
def _resolve_avro(old: Avro, new: Avro, comparison: Comparison) -> Compatibility:
    writer, reader = _Schema.parse(old.text), _Schema.parse(new.text)
    if writer.without_notes() == reader.without_notes():
        return AS_IS
    mismatch = _Resolution(writer, reader).mismatch(writer.root, reader.root, "")
    if mismatch is not None:
        return incompatible(mismatch)
    notes = [Note(Effect.CHANGE, "Avro reads values of the old schema with the new one")]
    if new.class_name == _GENERIC:
        notes += _Migration(writer, reader).notes(writer.root, reader.root, "")
    else:
        notes += _dropped(writer, reader, writer.root, reader.root, "")
    return Compatibility(Answer.AFTER_MIGRATION, tuple(notes))


@dataclass(frozen=True)
class _Schema:
    """A schema as JSON with full names, and its named types."""

    root: Any
    named: dict[str, dict[str, Any]]

    @classmethod
    def parse(cls, text: str) -> _Schema:
        named: dict[str, dict[str, Any]] = {}
        return cls(_with_full_names(json.loads(text), "", named), named)

    def of(self, type_: Any) -> Any:
        """The definition that a name refers to; other types as they are, simple ones as their names."""
        if isinstance(type_, str):
            return self.named.get(type_, type_)
        if isinstance(type_, dict) and type_["type"] not in (*_NAMED, "array", "map"):
            return self.of(type_["type"])
        return type_

    def without_notes(self) -> Any:
        return _without_notes(self.root)


def _with_full_names(type_: Any, namespace: str, named: dict[str, dict[str, Any]]) -> Any:
    if isinstance(type_, str):
        return type_ if "." in type_ or f"{namespace}.{type_}" not in named else f"{namespace}.{type_}"
    if isinstance(type_, list):
        return [_with_full_names(branch, namespace, named) for branch in type_]
    made = dict(type_)
    kind = made["type"]
    if kind in _NAMED:
        namespace = made.pop("namespace", namespace)
        name = made["name"] if "." in made["name"] or not namespace else f"{namespace}.{made['name']}"
        namespace = name.rpartition(".")[0]
        made["name"] = name
        named[name] = made
        if "fields" in made:
            made["fields"] = [
                {**part, "type": _with_full_names(part["type"], namespace, named)} for part in made["fields"]
            ]
    elif kind == "array":
        made["items"] = _with_full_names(made["items"], namespace, named)
    elif kind == "map":
        made["values"] = _with_full_names(made["values"], namespace, named)
    else:
        made["type"] = _with_full_names(kind, namespace, named)
        if set(made) == {"type"}:
            return made["type"]
    return made


def _without_notes(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_without_notes(item) for item in tree]
    if isinstance(tree, dict):
        return {name: _without_notes(value) for name, value in tree.items() if name not in _NOT_EQUAL}
    return tree


def _kind(type_: Any) -> str:
    if isinstance(type_, list):
        return "union"
    return str(type_["type"]) if isinstance(type_, dict) else str(type_)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _names(part: dict[str, Any]) -> list[str]:
    """A reader's name and its aliases."""
    return [part["name"], *part.get("aliases", ())]


@dataclass
class _Resolution:
    """Whether a reader's schema reads what a writer's has written."""

    writer: _Schema
    reader: _Schema
    seen: set[tuple[str, str]] = field(default_factory=set)

    def mismatch(self, written: Any, read: Any, path: str) -> str | None:
        """Return why it does not; None if it does."""
        written, read = self.writer.of(written), self.reader.of(read)
        old, new = _kind(written), _kind(read)
        if old == "union":
            return next((found for branch in written if (found := self.mismatch(branch, read, path)) is not None), None)
        if new == "union":
            if any(self.mismatch(written, branch, path) is None for branch in read):
                return None
            return _at(path, f"{old} is no branch of the union")
        if old != new:
            return None if new in _PROMOTIONS.get(old, ()) else _at(path, f"{old} → {new}")
        if old in _NAMED:
            return self._named(written, read, path)
        if old in ("array", "map"):
            inner = "items" if old == "array" else "values"
            return self.mismatch(written[inner], read[inner], f"{path}[]")
        return None

    def _named(self, written: dict[str, Any], read: dict[str, Any], path: str) -> str | None:
        pair = written["name"], read["name"]
        if pair in self.seen:
            return None
        if _short(pair[0]) != _short(pair[1]) and pair[0] not in _names(read):
            return _at(path, f"{pair[0]} → {pair[1]} without an alias")
        self.seen.add(pair)
        if written["type"] == "enum":
            gone = [symbol for symbol in written["symbols"] if symbol not in read["symbols"]]
            return _at(path, f"the symbol {gone[0]} is removed") if gone and "default" not in read else None
        if written["type"] == "fixed":
            return _at(path, "fixed of another size") if written["size"] != read["size"] else None
        fields = {part["name"]: part for part in written["fields"]}
        for part in read["fields"]:
            known = next((fields[name] for name in _names(part) if name in fields), None)
            below = joined(path, part["name"])
            if known is None:
                if "default" not in part:
                    return _at(below, "is new and has no default")
                continue
            found = self.mismatch(known["type"], part["type"], below)
            if found is not None:
                return found
        return None


def _at(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


@dataclass
class _Migration:
    """What Avro writes of a generic record of the old schema with the new one: its fields by their position."""

    writer: _Schema
    reader: _Schema
    seen: set[tuple[str, str]] = field(default_factory=set)

    def notes(self, written: Any, read: Any, path: str) -> list[Note]:
        written, read = self.writer.of(written), self.reader.of(read)
        old, new = _kind(written), _kind(read)
        if new == "union" or old == "union":
            found: list[Note] = []
            for branch in written if old == "union" else [written]:
                fitting = [
                    other
                    for other in (read if new == "union" else [read])
                    if _Resolution(self.writer, self.reader).mismatch(branch, other, "") is None
                ]
                found += self.notes(branch, fitting[0], path) if fitting else []
            return found
        if {old, new} == {"string", "bytes"}:
            return [_thrown(path, f"java.lang.ClassCastException: a value cannot be cast to expected type {new}")]
        if old in ("array", "map") and old == new:
            inner = "items" if old == "array" else "values"
            return self.notes(written[inner], read[inner], f"{path}[]")
        if old not in ("record", "error") or old != new or (pair := (written["name"], read["name"])) in self.seen:
            return []
        self.seen.add(pair)
        return self._record(written["fields"], read["fields"], path)

    def _record(self, written: list[dict[str, Any]], read: list[dict[str, Any]], path: str) -> list[Note]:
        found: list[Note] = []
        for place, part in enumerate(read):
            below = joined(path, part["name"])
            if place >= len(written):
                exception = f"java.lang.ArrayIndexOutOfBoundsException: Index {place} out of bounds for length {place}"
                found.append(
                    _thrown(below, exception, "is new: Flink writes generic records by the position of fields")
                )
                break
            there = written[place]
            if there["name"] in _names(part):
                found += self.notes(there["type"], part["type"], below)
            elif _Resolution(self.writer, self.reader).mismatch(there["type"], part["type"], "") is None:
                found.append(Note(Effect.MISREAD, f"gets the value of {there['name']}, which was in its place", below))
            else:
                exception = "java.lang.ClassCastException: a value cannot be cast to the expected type"
                found.append(_thrown(below, exception, f"{there['name']} was in its place, of another type"))
        kept = {name for part in read for name in _names(part)}
        found += [
            Note(Effect.LOSS, "is dropped", joined(path, part["name"])) for part in written if part["name"] not in kept
        ]
        return found


def _thrown(path: str, exception: str, text: str = "values of the old type are written with the new one") -> Note:
    return Note(Effect.THROWS, text, path, f"{_MIGRATION} <- {exception}")


def _dropped(writer: _Schema, reader: _Schema, written: Any, read: Any, path: str) -> list[Note]:
    """The fields of a specific record that the new schema does not have."""
    written, read = writer.of(written), reader.of(read)
    if _kind(written) != "record" or _kind(read) != "record":
        return []
    kept = {name for part in read["fields"] for name in _names(part)}
    return [
        Note(Effect.LOSS, "is dropped", joined(path, part["name"]))
        for part in written["fields"]
        if part["name"] not in kept
    ]
