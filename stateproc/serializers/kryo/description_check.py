"""Find out why a Kryo value does not fit the user's class descriptions, for the error message.

Runs only after a value could not be decoded, so its cost does not matter for values that fit. It is still bounded:
values over 64 KiB are not tried again, and no more than 64 changed descriptions are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from stateproc.codec.errors import BadValue
from stateproc.codec.kryo.classes import OUTSIDE_REGISTRATIONS, UnknownId
from stateproc.codec.kryo.forms import may_be_collection
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.reader import BODIES, read_guessing, read_kryo
from stateproc.codec.kryo.setting import FORM_GUESS, Guesses, KryoSetting
from stateproc.codec.kryo.types import CLASS, FieldType, UserClass, in_java_order, is_outer
from stateproc.codec.kryo.values import KryoObject
from stateproc.codec.kryo.walk_errors import CorruptField, UndescribedClass
from stateproc.codec.kryo.walker import Walker
from stateproc.errors import CHECK_FILE, CorruptSnapshot, InvalidOption, SnapshotError, UnsupportedSnapshot
from stateproc.serializers.kryo.columns import KryoColumn, OtherClass
from stateproc.wire import Cursor

# Advise where the enclosing objects of inner classes are missing in class descriptions.
#
# An inner class that is not static has a synthetic field, `this$0` in Java and `$outer` in Scala, with the enclosing
# object. Kryo writes it where flink-scala is on the job's class path (com.twitter.chill.KryoBase); no snapshot says so.

_NAMES = ("this$0", "$outer")
_MOST_TRIES = 16


def enclosing_class(name: str) -> str | None:
    """Return the class around a nested one, judged by its name; None if it is not nested."""
    outer, _, inner = name.rpartition("$")
    return outer if outer and inner else None


def candidates(classes: Mapping[str, UserClass]) -> list[UserClass]:
    """Return the described classes that can be inner classes and whose enclosing object is not described."""
    return [
        item
        for item in classes.values()
        if enclosing_class(item.name) and not item.is_enum and not any(is_outer(name) for name, _ in item.fields)
    ]


def missing_enclosing_object(data: bytes, setting: KryoSetting) -> tuple[str, str] | None:
    """Return message and advice if a value fits once enclosing objects are added to descriptions."""
    if setting.version >= 5 or _fits_with_outer(data, setting, (), ""):
        return None
    found = candidates(setting.classes)
    alone = [[item] for item in found[:_MOST_TRIES]]
    for items in [*alone, found] if len(found) > 1 else alone:
        for name in _NAMES:
            if _fits_with_outer(data, setting, items, name):
                shown = " and ".join(repr(item.name) for item in items)
                return (
                    f"the bytes hold the enclosing object of class {shown}, which its description leaves out: the job "
                    "had flink-scala on its class path, with which Kryo writes it",
                    "; ".join(_addition(item, name, setting.classes) for item in items),
                )
    return None


def _addition(item: UserClass, name: str, classes: Mapping[str, UserClass]) -> str:
    outer = enclosing_class(item.name)
    also = "" if outer in classes else f", and describe {outer!r}"
    return f'an inner class: add "{name}": "{outer}" to the description of {item.name!r}{also}'


def _fits_with_outer(data: bytes, setting: KryoSetting, items: Iterable[UserClass], name: str) -> bool:
    changed = {
        item.name: replace(
            item, fields=(*item.fields, (name, FieldType(enclosing_class(item.name) or "", final=False)))
        )
        for item in items
    }
    try:
        read_kryo(Cursor(data), replace(setting, classes={**setting.classes, **changed}), True)
    except UndescribedClass as error:
        return error.certain
    except SnapshotError:
        return False
    return True


_MAX_BYTES = 1 << 16
_MAX_TRIES = 64
_MAX_SHOWN = 4
_SHOWN_FORMS = (
    "map<Object, Object>",
    "list<Object>",
    "java.util.TreeMap<Object, Object>",
    "java.util.TreeSet<Object>",
)
"""Descriptions of the forms that are searched."""


def explain_mismatch(error: SnapshotError, data: bytes, setting: KryoSetting, whole: bool) -> SnapshotError:
    """Return an error that says which class description does not fit, or what else it may be where none is involved.

    The bytes confirm neither a description nor what a job registers elsewhere: this calls no file damaged.

    Args:
        error: why the value could not be decoded.
        data: the bytes from the value's first to the end of its range.
        setting: the Kryo version, registrations and class descriptions it was decoded with.
        whole: whether the value should end where ``data`` ends; only then descriptions can be tried.
    """
    if whole and len(data) <= _MAX_BYTES and (setting.classes or isinstance(error, UndescribedClass)):
        other = _other_forms(data, setting)
        if other is not None:
            return InvalidOption(other[0], advice=other[1])
        if isinstance(error, CorruptSnapshot | UnknownId):
            certain = replace(setting, classes={name: _certain(own) for name, own in setting.classes.items()})
            explained = (
                missing_enclosing_object(data, certain)
                or _fields_too_many(data, certain)
                or _fields_missing(data, certain)
            )
            if explained is not None:
                return InvalidOption(explained[0], advice=explained[1])
    if isinstance(error, CorruptField):
        return InvalidOption(
            f"the bytes do not fit the field {error.field!r} ({error.type_}) of class {error.class_name!r} as "
            f"described: {error.message}",
            where=error.where,
            advice=f"correct the description of {error.class_name!r}: all fields of the class, inherited ones too, "
            f"with their types{_or_collection(error.class_name)}",
        )
    if isinstance(error, CorruptSnapshot | UnknownId):
        met = _met(data, setting) if setting.classes else []
        if met:
            return InvalidOption(
                f"the bytes do not fit the descriptions of {', '.join(map(repr, met[:_MAX_SHOWN]))}: {error.message}",
                where=error.where,
                advice="correct the descriptions: all fields of the classes, inherited ones too, with their types"
                f"{_or_outside(error)}{_or_collection(met[-1])}",
            )
    if isinstance(error, CorruptSnapshot):
        return CorruptSnapshot(error.message, where=error.where, advice=f"{OUTSIDE_REGISTRATIONS}; {CHECK_FILE}")
    return error


def _or_outside(error: SnapshotError) -> str:
    """Return what else an unknown class id may come from."""
    return f"; {OUTSIDE_REGISTRATIONS}" if isinstance(error, UnknownId) else ""


def explain_column(error: BadValue, setting: KryoSetting, column: KryoColumn) -> SnapshotError:
    """Return the error for a value of another class than the descriptions say."""
    expected = _described_as(error.expected, setting) if isinstance(error, OtherClass) else None
    if isinstance(error, OtherClass) and expected is not None:
        if expected.alternatives:
            classes = " | ".join([*expected.alternatives, error.found])
            advice = f'name it, too: "{expected.name}": "{classes}"'
        else:
            advice = f'describe it as a subclass: "{error.found} extends {expected.name}": {{…}}, with all its fields'
        return UnsupportedSnapshot(
            f"the class {expected.name!r} has values of class {error.found!r}, which that description leaves out",
            advice=advice,
        )
    return UnsupportedSnapshot(
        f"a Kryo value does not fit its column of type {column.type}: {error}",
        advice="correct the types in the descriptions of the classes that it contains; a field of type Object takes "
        "values of any class, as JSON text",
    )


def _described_as(classes: tuple[str, ...], setting: KryoSetting) -> UserClass | None:
    """The described class whose values have these classes: an interface, or the first of them."""
    interfaces = (own for own in setting.classes.values() if own.alternatives and own.alternatives == classes)
    return next(interfaces, setting.classes.get(classes[0]))


def _or_collection(class_name: str) -> str:
    """What to do if the bytes are not those of fields."""
    return (
        f"; a class that is a Map or a Collection is described by what it holds: "
        f'"{class_name}": "map<String, Object>" or "list<Object>", a record as "record {class_name}"; '
        f"{CHECK_FILE}"
    )


def _met(data: bytes, setting: KryoSetting) -> list[str]:
    """The described classes whose objects are read before the bytes do not fit."""
    walker = Walker(KryoInput(Cursor(data), setting.version), setting, Guesses(), BODIES)
    with suppress(SnapshotError, RecursionError):
        walker.by_class()
    return list(walker.doubts.met)


def _other_forms(data: bytes, setting: KryoSetting) -> tuple[str, str] | None:
    """Message and advice if the bytes fit once classes are taken for Maps or Collections."""
    guesses = Guesses()
    try:
        read_guessing(Cursor(data), replace(setting, search_forms=True), True, guesses)
    except SnapshotError:
        return None
    forms = _forms_of(guesses)
    if not forms or _other_guess_fits(data, setting, guesses):
        return None
    first, form = next(iter(forms.items()))
    shown = ", ".join(f'"{name}": "{form}"' for name, form in forms.items())
    known = "is described by its fields, but its" if first in setting.classes else "is not described; its"
    return (
        f"the class {first!r} {known} bytes are those of a {form.partition('<')[0].rpartition('.')[2]}: Kryo does not "
        "write the fields of a class that is a Map or a Collection",
        f"describe it by what it holds: classes={{{shown}}}, with narrower types where they are known",
    )


def _forms_of(guesses: Guesses) -> dict[str, str]:
    """Class → description, of those that were taken for Maps or Collections."""
    made = {guess.removeprefix(FORM_GUESS): n for guess, n in guesses.made.items() if guess.startswith(FORM_GUESS)}
    return {name: _SHOWN_FORMS[n - 1] for name, n in made.items() if n}


def _other_guess_fits(data: bytes, setting: KryoSetting, guesses: Guesses) -> bool:
    """Whether the bytes also fit with other forms, as those of empty collections do."""
    fit = _forms_of(guesses)
    while guesses.turn():
        try:
            read_guessing(Cursor(data), replace(setting, search_forms=True), True, guesses)
        except SnapshotError:
            return False
        if _forms_of(guesses) != fit:
            return True
    return False


def _fields_too_many(data: bytes, setting: KryoSetting) -> tuple[str, str] | None:
    """Message and advice if the bytes fit once fields are left out of one description."""
    without: list[str] = []
    described: UserClass | None = None
    left_out = 0
    for original, changed in islice(_reduced(setting), _MAX_TRIES):
        if described is not None and (
            original is not described or len(changed.fields) != len(original.fields) - left_out
        ):
            break
        if _fits(data, setting, changed):
            described, left_out = original, len(original.fields) - len(changed.fields)
            kept = dict(changed.fields)
            without.append(", ".join(repr(name) for name, _ in original.fields if name not in kept))
    if described is None:
        return None
    n = len(described.fields)
    return (
        f"the description of class {described.name!r} declares {_count(n, 'field')}, but the bytes hold "
        f"{n - left_out}: they fit without {_alternatives(without)}",
        f"remove the field that the class does not have from the description of {described.name!r}"
        f"{_or_collection(described.name)}",
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _alternatives(names: list[str]) -> str:
    shown = names if len(names) <= _MAX_SHOWN else [*names[: _MAX_SHOWN - 1], f"{len(names) - _MAX_SHOWN + 1} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _reduced(setting: KryoSetting) -> Iterator[tuple[UserClass, UserClass]]:
    """Each description with one field less, then with the last two, three … fields in Kryo's order left out."""
    with_fields = [described for described in setting.classes.values() if described.fields]
    for described in with_fields:
        for i in range(len(described.fields)):
            yield described, replace(described, fields=described.fields[:i] + described.fields[i + 1 :])
    for described in with_fields:
        ordered = in_java_order(described.fields)
        for kept in range(len(ordered) - 2, -1, -1):
            names = {name for name, _ in ordered[:kept]}
            yield described, replace(described, fields=tuple(field for field in described.fields if field[0] in names))


def _fits(data: bytes, setting: KryoSetting, changed: UserClass) -> bool:
    changed = _certain(changed)
    try:
        read_kryo(Cursor(data), replace(setting, classes={**setting.classes, changed.name: changed}), True)
    except SnapshotError:
        return False
    return True


def _certain(described: UserClass) -> UserClass:
    """A class that may be a Map or a Collection as one that is not: the bytes of fields are those of an empty one."""
    return replace(described, form=CLASS) if may_be_collection(described) else described


def _fields_missing(data: bytes, setting: KryoSetting) -> tuple[str, str] | None:
    """Message and advice if the described fields can be read, but bytes are left after them."""
    cursor = Cursor(data)
    try:
        value: Any = read_kryo(cursor, setting)
    except SnapshotError:
        return None
    if not isinstance(value, KryoObject) or not cursor.remaining or value.class_name not in setting.classes:
        return None
    fields = in_java_order(setting.classes[value.class_name].fields)
    after = f"the last field {fields[-1][0]!r}" if fields else "it"
    left = f"{_count(cursor.remaining, 'byte')} {'is' if cursor.remaining == 1 else 'are'} left after {after}"
    return (
        f"the description of class {value.class_name!r} declares {_count(len(fields), 'field')}, but the bytes hold "
        f"more: {left}",
        f"add the missing fields to the description of {value.class_name!r}, inherited ones too, or correct their types"
        f"{_or_collection(value.class_name)}",
    )
