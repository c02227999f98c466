"""Advise where the enclosing objects of inner classes are missing in class descriptions.

An inner class that is not static has a synthetic field, `this$0` in Java and `$outer` in Scala, with the enclosing
object. Kryo writes it where flink-scala is on the job's class path (com.twitter.chill.KryoBase); no snapshot says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stateproc.codec.kryo.reader import read_kryo
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.types import FieldType, UserClass, is_outer
from stateproc.codec.kryo.walk_errors import UndescribedClass
from stateproc.errors import SnapshotError
from stateproc.wire import Cursor

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
    """Return message and advice if a value fits once enclosing objects are added to descriptions.

    Args:
        data: The value, whole.
        setting: The setting that it does not fit.
    """
    if setting.version >= 5 or _fits(data, setting, (), ""):
        return None
    found = candidates(setting.classes)
    alone = [[item] for item in found[:_MOST_TRIES]]
    for items in [*alone, found] if len(found) > 1 else alone:
        for name in _NAMES:
            if _fits(data, setting, items, name):
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


def _fits(data: bytes, setting: KryoSetting, items: Iterable[UserClass], name: str) -> bool:
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
