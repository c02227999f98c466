"""The user's descriptions of classes: name → fields and types, or the constants of an enum.

``{"com.acme.Order": {"id": "long", "tags": "list<String>", "state": "com.acme.State"},
"com.acme.State": ["NEW", "PAID"]}``. A class name may be preceded by ``final`` (or ``open``: not final)
and followed by type variables: ``"final com.acme.Pair<K, V>"``. ``"com.acme.Order extends com.acme.Base"`` tells
which of the fields, all of which are listed, a described superclass declares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stateproc.codec.kryo.types import BOX_OF, OBJECT, PRIMITIVES, ClassDescription, FieldType
from stateproc.errors import InvalidOption

# Longer forms come as they are; these stand for them. Case tells `date` (a LocalDate) from `Date`.
ALIASES: dict[str, str] = {
    **dict.fromkeys(("String", "string", "str", "text", "varchar"), "java.lang.String"),
    **{name: f"java.lang.{name}" for name in ("Boolean", "Byte", "Character", "Short", "Integer", "Long")},
    **{name: f"java.lang.{name}" for name in ("Float", "Double", "Object", "Number", "Class")},
    "Int": "java.lang.Integer", "Char": "java.lang.Character", "object": OBJECT, "any": OBJECT, "?": OBJECT,
    "bool": "boolean", "integer": "int", "bigint": "long",
    **dict.fromkeys(("BigDecimal", "decimal"), "java.math.BigDecimal"),
    **dict.fromkeys(("BigInteger", "biginteger"), "java.math.BigInteger"),
    **dict.fromkeys(("UUID", "uuid"), "java.util.UUID"),
    "date": "java.time.LocalDate", "time": "java.time.LocalTime", "timestamp": "java.time.LocalDateTime",
    "instant": "java.time.Instant", "Date": "java.util.Date", "Timestamp": "java.sql.Timestamp",
    **{name: f"java.time.{name}" for name in ("LocalDate", "LocalTime", "LocalDateTime", "Instant")},
    **{name: f"java.time.{name}" for name in ("Duration", "Period", "ZonedDateTime", "ZoneOffset", "Year")},
    "OffsetDateTime": "java.time.OffsetDateTime",
    **dict.fromkeys(("list", "List"), "java.util.List"), **dict.fromkeys(("set", "Set"), "java.util.Set"),
    **dict.fromkeys(("map", "Map"), "java.util.Map"), **dict.fromkeys(("array", "Array"), "[]"),
    **dict.fromkeys(("Optional", "optional"), "java.util.Optional"),
    **{name: f"java.util.{name}" for name in ("Collection", "ArrayList", "LinkedList", "HashSet", "HashMap")},
    "binary": "byte[]", "bytes": "byte[]",
}  # fmt: skip
_TOKEN = re.compile(r"\s*([\w.$-]+|\[\]|[<>,?&])")
_MODIFIERS = {"final": True, "record": True, "open": False}
_MAX_DEPTH = 32
_LONGEST_TYPE, _SHOWN = 1 << 13, 100


class Classes(dict[str, ClassDescription]):
    """Parsed descriptions by class name."""


def parse_classes(spec: Any) -> Classes:
    """Descriptions from a dict, JSON text or a JSON file's path; parsed ones pass. Raises InvalidOption."""
    if isinstance(spec, Classes):
        return spec
    described = Classes()
    for heading, body in _loaded(spec).items():
        if isinstance(body, ClassDescription):
            described[body.name] = body
            continue
        description = _parse_class(str(heading), body)
        described[description.name] = description
    return described


def _loaded(spec: Any) -> Mapping[Any, Any]:
    if spec is None:
        return {}
    if isinstance(spec, Path) or (isinstance(spec, str) and not spec.lstrip().startswith("{")):
        try:
            spec = Path(spec).read_text(encoding="utf-8") if spec else "{}"
        except (OSError, ValueError) as error:
            raise InvalidOption(
                f"the class descriptions {str(spec)!r} cannot be read: {error}",
                advice='give the path of a JSON file, JSON text, or a dict: {"com.acme.X": {"a": "int"}}',
            ) from error
    if isinstance(spec, str):
        try:
            spec = json.loads(spec)
        except (ValueError, RecursionError) as error:
            raise InvalidOption(f"the class descriptions are not JSON: {error}", advice=_FORM) from error
    if not isinstance(spec, Mapping):
        raise InvalidOption(f"class descriptions must be a mapping, not {type(spec).__name__}", advice=_FORM)
    return spec


_FORM = 'the form is {"com.acme.X": {"a": "int", "b": "list<String>"}, "com.acme.Color": ["RED", "GREEN"]}'


def _parse_class(heading: str, body: Any) -> ClassDescription:
    heading, parent = _with_parent(heading)
    named = parse_type(heading)
    if named.array or named.primitive or any(arg.args for arg in named.args):
        raise InvalidOption(f"{heading!r} is no class name", advice=_FORM)
    description = ClassDescription(
        named.name, variables=tuple(arg.name for arg in named.args), final=named.final, parent=parent
    )
    if isinstance(body, list | tuple) and body and all(isinstance(name, str) for name in body):
        if len(set(body)) != len(body):
            raise InvalidOption(f"the enum {named.name!r} has a constant twice", advice=_FORM)
        return replace(description, constants=tuple(body))
    if not isinstance(body, Mapping):
        raise InvalidOption(
            f"{named.name!r} is neither fields nor a list of constants: {_short(repr(body))}", advice=_FORM
        )
    fields = []
    for name, text in body.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidOption(
                f"the field {name!r} of {named.name!r} has no type as text: {_short(repr(text))}", advice=_FORM
            )
        try:
            fields.append((name, parse_type(text)))
        except InvalidOption as error:
            raise InvalidOption(
                f"the field {name!r} of {named.name!r}: {error.message}", advice=error.advice
            ) from error
    variables = description.variables or _variables_used(tuple(type_ for _, type_ in fields))
    return replace(description, fields=tuple(fields), variables=variables)


def _with_parent(heading: str) -> tuple[str, str | None]:
    """What stands before ``extends``, and the superclass behind it."""
    own, found, parent = heading.partition(" extends ")
    if found and "<" not in own:
        return own, parse_type(parent).name
    return heading, None


def _variables_used(types: tuple[FieldType, ...]) -> tuple[str, ...]:
    """Names of one capital letter and digits, as type variables are written, in order of appearance."""
    found: dict[str, None] = {}
    for type_ in types:
        if re.fullmatch(r"[A-Z]\d*", type_.name):
            found[type_.name] = None
        found.update(dict.fromkeys(_variables_used(type_.args)))
    return tuple(found)


def parse_type(text: str) -> FieldType:
    """A type such as ``int``, ``list<String>``, ``java.util.Map<UUID, long[]>``. Raises InvalidOption."""
    tokens = _tokens(text)
    type_ = _type(tokens, text, 0)
    if tokens:
        raise _bad(text, f"{tokens[0]!r} is too much")
    return type_


def _tokens(text: str) -> list[str]:
    if len(text) > _LONGEST_TYPE:
        raise _bad(text, f"it has over {_LONGEST_TYPE} characters")
    tokens, at = [], 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise _bad(text, f"what is {text[at:].strip()[0]!r}?")
        tokens.append(found[1])
        at = found.end()
    return tokens


def _type(tokens: list[str], text: str, depth: int) -> FieldType:
    if depth > _MAX_DEPTH:
        raise _bad(text, "it is nested too deep")
    final: bool | None = None
    while len(tokens) > 1 and tokens[0] in _MODIFIERS:
        final = _MODIFIERS[tokens.pop(0)]
    if not tokens or tokens[0] in ("<", ">", ",", "[]", "&"):
        raise _bad(text, "a type is missing")
    name = tokens.pop(0)
    if name == "?" and tokens and tokens[0] in ("extends", "super"):
        tokens.pop(0)
        return _type(tokens, text, depth + 1)
    type_ = _named(name, final, tokens, text, depth)
    while tokens and tokens[0] == "[]":
        depth += 1
        if depth > _MAX_DEPTH:
            raise _bad(text, "it is nested too deep")
        tokens.pop(0)
        type_ = FieldType("[]", (type_,))
    return type_


def _named(name: str, final: bool | None, tokens: list[str], text: str, depth: int) -> FieldType:
    full = ALIASES.get(name, name)
    args: list[FieldType] = []
    if tokens and tokens[0] == "<":
        closing = "<"
        while closing in ("<", ","):
            tokens.pop(0)
            args.append(_type(tokens, text, depth + 1))
            closing = tokens[0] if tokens else ""
        if closing != ">":
            raise _bad(text, "'>' is missing")
        tokens.pop(0)
    if full == "byte[]":
        return FieldType("[]", (FieldType("byte"),))
    if (full == "[]") != (full == "[]" and len(args) == 1) or (full in PRIMITIVES and args):
        raise _bad(text, f"{name!r} has {len(args)} type arguments")
    if full.startswith(("java.util.List", "java.util.Map", "java.util.Set")) and args:
        wanted = 2 if full == "java.util.Map" else 1
        if len(args) != wanted and full in ("java.util.List", "java.util.Map", "java.util.Set"):
            raise _bad(text, f"{name!r} has {len(args)} type arguments, not {wanted}")
    boxed = tuple(arg if full == "[]" else _boxed(arg) for arg in args)
    return FieldType(full, boxed, final)


def _boxed(type_: FieldType) -> FieldType:
    """Type arguments are objects: ``list<int>`` is a List<Integer>."""
    return FieldType(BOX_OF[type_.name]) if type_.primitive else type_


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _bad(text: str, why: str) -> InvalidOption:
    return InvalidOption(
        f"{_short(text)!r} is no type: {why}",
        advice="types are Java's or short: int, Long, String, list<T>, map<K, V>, T[], decimal, date, "
        "Instant, UUID, or the name of a described class",
    )
