"""Find out why a Kryo value does not fit the user's class descriptions, for the error message.

Runs only after a value could not be decoded, so its cost does not matter for values that fit. It is still bounded:
values over 64 KiB are not tried again, and no more than 64 changed descriptions are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from stateproc.codec.kryo.reader import read_kryo
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.types import UserClass, in_java_order
from stateproc.codec.kryo.values import KryoObject
from stateproc.codec.kryo.walk_errors import CorruptField
from stateproc.errors import InvalidOption, SnapshotError
from stateproc.wire import Cursor

_MAX_BYTES = 1 << 16
_MAX_TRIES = 64
_MAX_SHOWN = 4
_DAMAGED = "the file is damaged: take the snapshot again or restore it from a copy"


def explain_mismatch(error: SnapshotError, data: bytes, setting: KryoSetting, whole: bool) -> SnapshotError:
    """Return an error that says which class description does not fit, or ``error`` where none is involved.

    Args:
        error: why the value could not be decoded.
        data: the bytes from the value's first to the end of its range.
        setting: the Kryo version, registrations and class descriptions it was decoded with.
        whole: whether the value should end where ``data`` ends; only then descriptions can be tried.
    """
    if whole and len(data) <= _MAX_BYTES:
        explained = _fields_too_many(data, setting) or _fields_missing(data, setting)
        if explained is not None:
            return InvalidOption(explained[0], advice=explained[1])
    if isinstance(error, CorruptField):
        return InvalidOption(
            f"the bytes do not fit the field {error.field!r} ({error.type_}) of class {error.class_name!r} as "
            f"described: {error.message}",
            where=error.where,
            advice=f"correct the description of {error.class_name!r}: all fields of the class, inherited ones too, "
            f"with their types; if it is correct, {_DAMAGED}",
        )
    return error


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
        f"remove the field that the class does not have from the description of {described.name!r}; if the class has "
        f"it, {_DAMAGED}",
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
    try:
        read_kryo(Cursor(data), replace(setting, classes={**setting.classes, changed.name: changed}), True)
    except SnapshotError:
        return False
    return True


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
        f"add the missing fields to the description of {value.class_name!r}, inherited ones too; if none is missing, "
        f"{_DAMAGED}",
    )
