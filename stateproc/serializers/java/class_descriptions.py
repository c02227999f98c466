"""Parse descriptions of user classes: class name → fields and their types, or the constants of an enum.

``{"com.acme.Order": {"id": "long", "tags": "list<String>", "state": "com.acme.State"},
"com.acme.State": ["NEW", "PAID"]}``. A class name may be preceded by ``final`` (or ``open``: not final) and followed by
type variables: ``"final com.acme.Pair<K, V>"``. In ``"com.acme.Order extends com.acme.Base"`` the description of the
superclass declares which of the fields, all of which are listed for Order, are inherited. After ``implements`` a
heading names all interfaces of the class, inherited ones too, or ``nothing``: only then it is known which of the job's
default Kryo serializers are for the class.
``"generic com.acme.Money"`` is no POJO for Flink, which leaves it to Kryo: it is not public, has no public constructor
without arguments, or has fields without getter and setter.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from stateproc.codec.kryo.types import PRIMITIVES, FieldType, UserClass
from stateproc.errors import InvalidOption
from stateproc.serializers.core.base import simple_name
from stateproc.serializers.java.field_types import ALIASES, parse_type, shortened, without_modifiers

_COMMON_SUPERTYPES = {
    "Cloneable": "java.lang.Cloneable",
    "Comparable": "java.lang.Comparable",
    "Object": "java.lang.Object",
    "Serializable": "java.io.Serializable",
}
_MAX_SUGGESTIONS_FROM = 2000
"""How many described classes are searched for a similar name."""


class Classes(dict[str, UserClass]):
    """Parsed descriptions by class name."""


def parse_classes(spec: Any) -> Classes:
    """Parse class descriptions and check that every type in them is known.

    Args:
        spec: a mapping, JSON text, or the path of a JSON file; parsed descriptions are returned as they are.

    Raises:
        InvalidOption: the descriptions have another form, describe a class or field twice, or name an unknown type.
    """
    if isinstance(spec, Classes):
        return spec
    described = Classes()
    for heading, body in _loaded(spec).items():
        description = body if isinstance(body, UserClass) else _parse_class(str(heading), body)
        if description.name in described:
            raise InvalidOption(
                f"the class {description.name!r} is described twice", advice="merge the two descriptions into one"
            )
        described[description.name] = description
    _check_types(described)
    return described


def _check_types(described: Classes) -> None:
    """Refuse names that stand for no type: a class without package that is neither described nor a type variable."""
    for description in described.values():
        for name, type_ in description.fields:
            unknown = _unknown_name(type_, described, description.variables)
            if unknown is not None:
                inside = f" in '{type_}'" if unknown != type_.name else ""
                raise InvalidOption(
                    f"the field {name!r} of {description.name!r}: unknown type {unknown!r}{inside}",
                    advice=_nearest_types(unknown, described, description.variables),
                )
        for what, above in (
            ("superclass", description.parent),
            *(("interface", i) for i in description.interfaces or ()),
        ):
            if above is not None and "." not in above and above not in described:
                raise InvalidOption(
                    f"the {what} of {description.name!r}: unknown type {above!r}",
                    advice=_nearest_types(above, described, ()),
                )


def _unknown_name(type_: FieldType, described: Classes, variables: tuple[str, ...]) -> str | None:
    """The first name in a type that is no known type. Classes with a package need no description."""
    if not (type_.array or type_.primitive or "." in type_.name or type_.name in described or type_.name in variables):
        return type_.name
    return next((name for arg in type_.args if (name := _unknown_name(arg, described, variables))), None)


def _nearest_types(name: str, described: Classes, variables: tuple[str, ...]) -> str:
    """Advice for an unknown type name: similar names, and how else a type can be named."""
    classes = list(islice(described, _MAX_SUGGESTIONS_FROM))
    by_short_name = {simple_name(class_name).lower(): class_name for class_name in classes}
    names = [*ALIASES, *PRIMITIVES, *variables, *classes]
    exact = by_short_name.get(name.lower())
    near = [exact] if exact else difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    question = f"did you mean {' or '.join(map(repr, near))}? Otherwise " if near else ""
    advice = f"{question}give the class its full name with the package, such as java.util.TreeMap, or describe it, too"
    return f"{advice} (type variables of the class: {', '.join(variables)})" if variables else advice


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
            spec = json.loads(spec, object_pairs_hook=_without_duplicates)
        except InvalidOption:
            raise
        except (ValueError, RecursionError) as error:
            raise InvalidOption(f"the class descriptions are not JSON: {error}", advice=_FORM) from error
    if not isinstance(spec, Mapping):
        raise InvalidOption(f"class descriptions must be a mapping, not {type(spec).__name__}", advice=_FORM)
    return spec


_FORM = 'the form is {"com.acme.X": {"a": "int", "b": "list<String>"}, "com.acme.Color": ["RED", "GREEN"]}'


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dictionary. Raises InvalidOption if a name occurs twice, which json itself ignores."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise InvalidOption(
            f"{shortened(twice)!r} occurs twice in one JSON object of the class descriptions",
            advice="remove or rename one of the two: only the last would count",
        )
    return made


def _parse_class(heading: str, body: Any) -> UserClass:
    heading, generic = _without_generic(heading)
    heading, parent, interfaces = _with_supertypes(heading)
    named = parse_type(heading)
    if named.array or named.primitive or any(arg.args for arg in named.args):
        raise InvalidOption(f"{heading!r} is no class name", advice=_FORM)
    short = without_modifiers(heading)
    if short in ALIASES:
        raise InvalidOption(
            f"{short!r} is short for {ALIASES[short]}, which needs no description",
            advice="give the full name of your class, with its package",
        )
    variables = tuple(arg.name for arg in named.args)
    if len(set(variables)) < len(variables):
        twice = next(name for name in variables if variables.count(name) > 1)
        raise InvalidOption(f"the class {named.name!r} has the type variable {twice!r} twice", advice=_FORM)
    description = UserClass(
        named.name, variables=variables, final=named.final, parent=parent, interfaces=interfaces, generic=generic
    )
    if isinstance(body, list | tuple) and body and all(isinstance(name, str) for name in body):
        if len(set(body)) != len(body):
            raise InvalidOption(f"the enum {named.name!r} has a constant twice", advice=_FORM)
        return replace(description, constants=tuple(body))
    if not isinstance(body, Mapping):
        raise InvalidOption(
            f"{named.name!r} is neither fields nor a list of constants: {shortened(repr(body))}", advice=_FORM
        )
    fields = []
    for name, text in body.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidOption(
                f"the field {name!r} of {named.name!r} has no type as text: {shortened(repr(text))}", advice=_FORM
            )
        try:
            fields.append((name, parse_type(text)))
        except InvalidOption as error:
            raise InvalidOption(
                f"the field {name!r} of {named.name!r}: {error.message}", advice=error.advice
            ) from error
    variables = description.variables or _variables_used(tuple(type_ for _, type_ in fields))
    return replace(description, fields=tuple(fields), variables=variables)


def _with_supertypes(heading: str) -> tuple[str, str | None, tuple[str, ...] | None]:
    """Split a heading into the class, the superclass after ``extends``, the interfaces after ``implements``."""
    own, implements, names = heading.partition(" implements ")
    interfaces = None
    if implements and own.count("<") == own.count(">"):
        heading = own
        given = "" if names.strip() == "nothing" else names
        interfaces = tuple(_supertype(name) for name in _split(given))
    own, extends, parent = heading.partition(" extends ")
    if extends and own.count("<") == own.count(">"):
        return own, _supertype(parent), interfaces
    return heading, None, interfaces


def _split(names: str) -> list[str]:
    """Split at commas outside of type arguments."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(names):
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parts.append(names[start:at])
            start = at + 1
    last = names[start:]
    return [*parts, last] if parts or last.strip() else []


def _supertype(name: str) -> str:
    """The full name of a supertype; interfaces that most classes have need no package."""
    short = parse_type(name.strip()).name
    return _COMMON_SUPERTYPES.get(short, short)


def _without_generic(heading: str) -> tuple[str, bool]:
    """Split a heading into the text without the modifier ``generic``, and whether it has it."""
    words = re.match(r"\s*(?:(?:final|open|record|class|generic)\s+)+", heading)
    if words is None or "generic" not in words[0].split():
        return heading, False
    return " ".join([*(word for word in words[0].split() if word != "generic"), heading[words.end() :]]), True


def _variables_used(types: tuple[FieldType, ...]) -> tuple[str, ...]:
    """Find type variables, names of one capital letter and digits, in order of appearance."""
    found: dict[str, None] = {}
    for type_ in types:
        if re.fullmatch(r"[A-Z]\d*", type_.name):
            found[type_.name] = None
        found.update(dict.fromkeys(_variables_used(type_.args)))
    return tuple(found)
