"""Read one Kryo value to plain Python."""

from __future__ import annotations

from typing import Any

from stateproc.codec.kryo.bodies import BODIES
from stateproc.codec.kryo.classes import UnknownId
from stateproc.codec.kryo.guesses import Guesses
from stateproc.codec.kryo.own_serializers import (
    AmbiguousSerializer,
    UncertainSerializer,
    ambiguous_serializer,
    misdescribed_serializer,
)
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.setting import KryoSetting
from stateproc.codec.kryo.types import class_of_name
from stateproc.codec.kryo.walk_errors import UndescribedClass
from stateproc.codec.kryo.walker import Walker
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.wire import Cursor


class OtherWriter(UnsupportedSnapshot):
    """Bytes that do not fit what flink-scala writes, where nothing else shows that it wrote them."""


MAX_GUESSES = 64
"""Combinations of final and not final classes that are tried for one value."""


def read_kryo(cursor: Cursor, setting: KryoSetting, whole: bool = False) -> Any:
    """One value of Kryo.writeClassAndObject, as plain Python and the structures of ``values``.

    ``whole``: the value must end where the cursor's range ends. Where nothing says whether a class is final, or
    which of several serializers wrote it, all are tried until the bytes fit; bytes that fit two serializers are
    refused. Raises CorruptSnapshot, UnsupportedSnapshot (unknown classes).
    """
    start, depth = cursor.pos, cursor.depth
    guesses = Guesses()
    first_error: SnapshotError | None = None
    assumed: str | None = None
    found: tuple[Any, int, dict[str, str]] | None = None
    starved = False
    for _ in range(MAX_GUESSES):
        cursor.pos, cursor.depth, cursor.starved = start, depth, False
        walker = Walker(KryoInput(cursor, setting.version), setting, guesses, BODIES)
        try:
            value = walker.by_class()
            if whole:
                cursor.finish("the Kryo value")
            if found is None:
                found = value, cursor.pos, guesses.serializers
            if guesses.serializers != found[2]:
                raise ambiguous_serializer(found[2], guesses.serializers, cursor.where(start))
            if not guesses.serializers:
                return value
        except AmbiguousSerializer:
            raise
        except SnapshotError as error:
            if (cursor.starved and cursor.more) or (isinstance(error, UndescribedClass) and error.certain):
                # Another guess may fit bytes by chance.
                raise
            starved = starved or cursor.starved
            if first_error is None or isinstance(first_error, UncertainSerializer):
                first_error, assumed = error, walker.assumed
            elif isinstance(error, UndescribedClass) and isinstance(first_error, CorruptSnapshot):
                # The bytes do not fit unless this class is final: then only its description shows whether they do.
                first_error = error
        except RecursionError as error:
            raise UnsupportedSnapshot(
                "Kryo objects nested too deep", where=cursor.where(), advice="the file may be damaged"
            ) from error
        if not guesses.turn():
            break
    if found is not None:
        for name, serializer in found[2].items():
            if serializer and name in setting.classes:
                raise misdescribed_serializer(name, serializer, setting.serializer_of(name), cursor.where(start))
        cursor.pos = found[1]
        return found[0]
    assert first_error is not None
    cursor.starved = starved
    if assumed is not None and isinstance(first_error, CorruptSnapshot | UnknownId):
        raise _without_flink_scala(first_error, assumed) from first_error
    raise first_error


def _without_flink_scala(error: SnapshotError, name: str) -> OtherWriter:
    """Return the error of bytes that are damaged, or were written without flink-scala: none of its ids is in them."""
    return OtherWriter(
        f"the bytes do not fit the class {name!r} as flink-scala writes it: {error.message}",
        where=error.where,
        advice=f"a job without flink-scala in lib/ writes the fields of the class: describe it with all its fields: "
        f'classes={{"{name}": {{"a": "int", "b": "String", …}}}}; if flink-scala was there, the file is damaged: '
        "take the snapshot again or restore it from a copy",
    )


def readable_serializers(name: str, setting: KryoSetting) -> tuple[str, ...]:
    """Return the serializers of the job's that may have written a class and have readers; "": Kryo's own choice."""
    walker = Walker(KryoInput(Cursor(b""), setting.version), setting, Guesses(), BODIES)
    return tuple(serializer for serializer, _ in walker.own_readers(class_of_name(name)))
