"""Parse descriptions of user classes: class name → fields and their types, or the constants of an enum.

``{"com.acme.Order": {"id": "long", "tags": "list<String>", "state": "com.acme.State"},
"com.acme.State": ["NEW", "PAID"]}``. A class name may be preceded by ``final`` (or ``open``: not final) and followed by
type variables: ``"final com.acme.Pair<K, V>"``. In ``"com.acme.Order extends com.acme.Base"`` the description of the
superclass declares which of the fields, all of which are listed for Order, are inherited. After ``implements`` a
heading names all interfaces of the class, inherited ones too, or ``nothing``: only then it is known which of the job's
default Kryo serializers are for the class.
``"generic com.acme.Money"`` is no POJO for Flink, which leaves it to Kryo: it is not public, has no public constructor
without arguments, or has fields without getter and setter.

A class that is a Map or a Collection is described by what it holds, ``"com.acme.Props": "map<String, Object>"``, or by
its superclass, ``"com.acme.Props extends java.util.HashMap<String, Object>": {}``; an interface by the classes of its
values, ``"com.acme.Event": "com.acme.Paid | com.acme.Shipped"``. ``record`` or ``class`` before a name says that the
class is a record, or that it is neither a record nor a Map nor a Collection.
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

from stateproc.codec.kryo.collections import FORMS
from stateproc.codec.kryo.types import CLASS, PRIMITIVES, RECORD, FieldType, UserClass
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

_BEFORE_NAME = re.compile(r"\s*(?:(?:final|open|record|class)\s+)*")


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
    _inherit_forms(described)
    _check_types(described)
    return described


def _inherit_forms(described: Classes) -> None:
    """Let subclasses of described Maps and Collections be such, too."""
    for description in list(described.values()):
        above, seen = description, {description.name}
        while above.like is None and above.parent is not None and above.parent not in seen:
            seen.add(above.parent)
            above = described.get(above.parent, above)
        if above.like is not None and description.like is None:
            described[description.name] = replace(description, like=above.like, fields=())


def _check_types(described: Classes) -> None:
    """Refuse names that stand for no type: a class without package that is neither described nor a type variable."""
    for description in described.values():
        _check_alternatives(description, described)
        types = [(f"the field {name!r} of {description.name!r}", type_) for name, type_ in description.fields]
        if description.like is not None:
            types.append((f"the class {description.name!r}", description.like))
        for what, type_ in types:
            unknown = _unknown_name(type_, described, description.variables)
            if unknown is not None:
                inside = f" in '{type_}'" if unknown != type_.name else ""
                raise InvalidOption(
                    f"{what}: unknown type {unknown!r}{inside}",
                    advice=_nearest_types(unknown, described, description.variables),
                )
        for kind, above in (
            ("superclass", description.parent),
            *(("interface", i) for i in description.interfaces or ()),
        ):
            if above is not None and "." not in above and above not in described:
                raise InvalidOption(
                    f"the {kind} of {description.name!r}: unknown type {above!r}",
                    advice=_nearest_types(above, described, ()),
                )


def _check_alternatives(description: UserClass, described: Classes) -> None:
    """Refuse an interface one of whose classes is not described as a class with fields."""
    for name in description.alternatives:
        found = described.get(name)
        if found is None:
            raise InvalidOption(
                f"the class {name!r}, one of {description.name!r}, is not described",
                advice=f'describe it, too: "{name}": {{"a": "int", "b": "String", …}}, and write its name in full',
            )
        if found.is_enum or found.like is not None or found.alternatives:
            raise InvalidOption(
                f"the class {name!r}, one of {description.name!r}, is described as no class with fields",
                advice=f"leave the description of {description.name!r} out: its values are JSON text then",
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


_FORM = (
    'the form is {"com.acme.X": {"a": "int", "b": "list<String>"}, "com.acme.Color": ["RED", "GREEN"], '
    '"com.acme.Props": "map<String, Object>"}'
)


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
    heading, form = _with_form(heading)
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
    supertypes = ([] if parent is None else [parent], interfaces or ())
    like = next((type_ for types in supertypes for type_ in types if type_.name in FORMS), None)
    description = UserClass(
        named.name,
        variables=variables,
        final=named.final,
        parent=None if parent is None else _supertype(parent),
        interfaces=None if interfaces is None else tuple(map(_supertype, interfaces)),
        generic=generic,
        form=form,
        like=like,
    )
    if form is not None and like is not None:
        raise _no_such_form(description, f"its supertype {like} is a Map or a Collection")
    if isinstance(body, str):
        return _by_type(description, body)
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
    kept = tuple(fields) if like is None else ()
    return replace(description, fields=kept, variables=variables or (_variables_used((like,)) if like else ()))


def _by_type(description: UserClass, text: str) -> UserClass:
    """Parse a description that is a text: the type of a Map or Collection, or classes with ``|`` between."""
    if "|" in text:
        if description.form is not None:
            raise _no_such_form(description, "it stands for other classes")
        names = tuple(parse_type(name).name for name in text.split("|"))
        return replace(description, alternatives=names, final=False)
    type_ = parse_type(text)
    if f"java.util.{type_.name}" in FORMS:
        type_ = replace(type_, name=f"java.util.{type_.name}")
    if type_.name not in FORMS:
        raise InvalidOption(
            f"{description.name!r} is described as {shortened(text)!r}, which is no Map or Collection of Java",
            advice='the form is "map<String, Object>", "list<Object>", "set<Object>", or the class of java.util that '
            'it extends, such as "java.util.TreeMap<String, Long>"; an interface is described by two or more classes: '
            '"com.acme.Paid | com.acme.Shipped"',
        )
    if description.form is not None:
        raise _no_such_form(description, f"a {text} is a Map or a Collection")
    variables = description.variables or _variables_used((type_,))
    return replace(description, like=type_, variables=variables)


def _no_such_form(description: UserClass, why: str) -> InvalidOption:
    return InvalidOption(
        f"{description.name!r} is described as a {description.form}, but {why}",
        advice=f"remove {description.form!r} before the name, or describe the fields of the class",
    )


def _with_form(heading: str) -> tuple[str, str | None]:
    """Split a heading into the text without ``class``, and what it says of the class: CLASS, RECORD, None."""
    prefix = _BEFORE_NAME.match(heading)
    words = prefix[0].split() if prefix is not None else []
    if CLASS in words and RECORD in words:
        raise InvalidOption(f"{shortened(heading)!r} is both a class and a record", advice=_FORM)
    if CLASS not in words or prefix is None:
        return heading, RECORD if RECORD in words else None
    return " ".join([*(word for word in words if word != CLASS), heading[prefix.end() :]]), CLASS


def _with_supertypes(heading: str) -> tuple[str, FieldType | None, tuple[FieldType, ...] | None]:
    """Split a heading into the class, the superclass after ``extends``, the interfaces after ``implements``."""
    own, implements, names = heading.partition(" implements ")
    interfaces = None
    if implements and own.count("<") == own.count(">"):
        heading = own
        given = "" if names.strip() == "nothing" else names
        interfaces = tuple(parse_type(name.strip()) for name in _split(given))
    own, extends, parent = heading.partition(" extends ")
    if extends and own.count("<") == own.count(">"):
        return own, parse_type(parent.strip()), interfaces
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


def _supertype(type_: FieldType) -> str:
    """The full name of a supertype; interfaces that most classes have need no package."""
    return _COMMON_SUPERTYPES.get(type_.name, type_.name)


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
