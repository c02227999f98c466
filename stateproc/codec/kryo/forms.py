"""What a described class is for Kryo: an object with fields, a record, a Map or a Collection; doubts about it.

Kryo writes no fields of a class that is a Map or a Collection. An empty one has a body of one byte (Kryo 2: 00, Kryo 5:
01), followed by 00 for a TreeMap or a TreeSet. One described field can have these bytes, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stateproc.codec.kryo.guesses import Guesses
from stateproc.codec.kryo.known_collections import KNOWN_CLASSES
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.types import RECORD, FieldType, UserClass
from stateproc.codec.kryo.values import Cycle, KryoMap, KryoObject, Text
from stateproc.errors import SnapshotError, UnsupportedSnapshot

EMPTY_BODIES = {2: (b"\0", b"\0\0"), 5: (b"\1", b"\1\0")}
"""What Kryo writes for an empty Map or Collection, and for an empty TreeMap or TreeSet."""
SEARCHED_FORMS = ("java.util.HashMap", "java.util.ArrayList", "java.util.TreeMap", "java.util.TreeSet")
"""The forms that are tried to find out why descriptions do not fit."""


class Ambiguous(UnsupportedSnapshot):
    """Bytes that several descriptions fit, with different values."""

    @classmethod
    def of(cls, value: KryoObject) -> Ambiguous:
        """The error for an object whose bytes are those of an empty map, too."""
        name = value.class_name
        fields = ", ".join(f"{field} = {shown}" for field, shown in value.fields.items())
        return cls(
            f"an object of class {name!r} has the bytes of an empty Map or Collection as well as those of its "
            f"described fields ({fields}); Kryo does not write the fields of Maps and Collections",
            advice=f'say in the description what the class is: "class {name}": {{…}} if it is neither a Map nor a '
            f'Collection; else "{name}": "map<String, Object>", or "list<Object>"',
        )


@dataclass
class Doubts:
    """What one walk over a value has assumed.

    unconfirmed: why the value must end where its range ends to be believed. ambiguous: what to raise if the value is
    sound otherwise. weak: the classes of maps and collections that were empty or began with null when they were read as
    not sorted. met: the described classes whose objects the value contains. comparing: a comparator is being read.
    """

    unconfirmed: SnapshotError | None = None
    ambiguous: SnapshotError | None = None
    weak: set[str] = field(default_factory=set)
    met: dict[str, None] = field(default_factory=dict)
    comparing: bool = False

    def checked(self, value: KryoObject, described: UserClass, data: KryoInput, start: int) -> KryoObject:
        """Return the value, which begins at ``start``; note if it has the bytes of an empty Map."""
        cursor = data.cursor
        body = bytes(cursor.data[start : min(cursor.pos, start + 3)])
        if may_be_collection(described) and body in EMPTY_BODIES[data.version]:
            self.ambiguous = Ambiguous.of(value).at(file=cursor.file, offset=cursor.base + start)
        return value


def description(setting: KryoSetting, name: str) -> UserClass | None:
    """Return the description of a class: the user's, or that of a known class with fields."""
    return setting.classes.get(name) or KNOWN_CLASSES.get(name)


def may_be_collection(described: UserClass) -> bool:
    """Return whether an empty Map or Collection can have the bytes of the class for all that its description says."""
    return described.form is None and described.interfaces is None and len(described.fields) == 1


def pushes_arguments(described: UserClass, version: int, guesses: Guesses) -> bool:
    """Return whether Kryo knew the type arguments of fields: FieldSerializer does, Kryo 5's RecordSerializer does not.

    It is guessed where the description does not say what the class is and it matters.
    """
    if version < 5 or described.form is not None:
        return version < 5 or described.form != RECORD
    if described.final is False or not has_arguments(described):
        return True
    return not guesses.record(described.name)


def has_arguments(described: UserClass) -> bool:
    """Whether any field has a type with arguments."""
    return any(_has_arguments(type_) for _, type_ in described.fields)


def _has_arguments(type_: FieldType) -> bool:
    return any(not type_.array or _has_arguments(arg) for arg in type_.args)


def searched_form(name: str, setting: KryoSetting, guesses: Guesses) -> str | None:
    """Guess as what an object is read whose description may be wrong: as described (None), or a Map or Collection."""
    described = description(setting, name)
    if not setting.search_forms or (described is not None and (described.form or described.like or described.is_enum)):
        return None
    chosen = guesses.form(name, 1 + len(SEARCHED_FORMS))
    return SEARCHED_FORMS[chosen - 1] if chosen else None


def encloses(type_: FieldType, value: Any, setting: KryoSetting) -> bool:
    """Return whether a value can be the enclosing object of a declared type: never null, of the class or a subclass."""
    if isinstance(value, Cycle):
        return True
    if not isinstance(value, KryoObject):
        return isinstance(value, Text) or (value is not None and type_.name.startswith("java."))
    declared, own = setting.classes.get(type_.name), setting.classes.get(value.class_name)
    if value.class_name == type_.name or type_.name.startswith("java."):
        return True
    if declared is None or own is None:
        return own is not None and own.parent == type_.name
    return own.parent == declared.name or set(declared.fields) < set(own.fields)


def keys_of(value: Any) -> list[Any]:
    """Return the keys of a map, the elements of a collection."""
    return [key for key, _ in value.pairs] if isinstance(value, KryoMap) else value or []
