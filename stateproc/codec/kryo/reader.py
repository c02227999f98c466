"""Read one Kryo value to plain Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stateproc.codec.kryo.avro import AVRO_BODIES
from stateproc.codec.kryo.classes import UnknownId
from stateproc.codec.kryo.collections import COLLECTION_BODIES, array, like_body
from stateproc.codec.kryo.forms import Ambiguous, Doubts
from stateproc.codec.kryo.library_serializers import CHECKED_SERIALIZERS, SERIALIZER_BODIES
from stateproc.codec.kryo.own_serializers import (
    AmbiguousSerializer,
    UncertainSerializer,
    ambiguous_serializer,
    misdescribed_serializer,
)
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.scala import CHILL_BODIES, FIELD_BODIES, NAMED_BODIES, singleton
from stateproc.codec.kryo.scalars import SCALAR_BODIES
from stateproc.codec.kryo.setting import RECORD_GUESS, SORTED_GUESS, Guesses, KryoSetting
from stateproc.codec.kryo.times import TIME_BODIES
from stateproc.codec.kryo.types import class_of_name
from stateproc.codec.kryo.values import json_text
from stateproc.codec.kryo.walk_errors import UndescribedClass
from stateproc.codec.kryo.walker import BodyReaders, Walker
from stateproc.errors import CHECK_FILE, CorruptSnapshot, SnapshotError, UnsupportedSnapshot
from stateproc.wire import Cursor

BODIES = BodyReaders(
    SCALAR_BODIES | TIME_BODIES | COLLECTION_BODIES | AVRO_BODIES,
    array,
    like_body,
    FIELD_BODIES,
    CHILL_BODIES,
    NAMED_BODIES,
    singleton,
    SERIALIZER_BODIES,
    CHECKED_SERIALIZERS,
)


class OtherWriter(UnsupportedSnapshot):
    """Bytes that do not fit what flink-scala writes, where nothing else shows that it wrote them."""


MAX_GUESSES = 64
"""Combinations of final and not final classes that are tried for one value."""


def read_kryo(cursor: Cursor, setting: KryoSetting, whole: bool = False) -> Any:
    """One value of Kryo.writeClassAndObject, as plain Python and the structures of ``values``.

    ``whole``: the value must end where the cursor's range ends. Where nothing says whether a class is final, or
    which of several serializers wrote it, all are tried until the bytes fit; bytes that fit two serializers are
    refused, and so are bytes that fit a class in two ways: as a record, as a sorted map. Raises CorruptSnapshot,
    UnsupportedSnapshot (unknown classes), Ambiguous.
    """
    return read_guessing(cursor, setting, whole, Guesses())


def read_guessing(
    cursor: Cursor,
    setting: KryoSetting,
    whole: bool,
    guesses: Guesses,
    make: Callable[[KryoInput], Walker] | None = None,
) -> Any:
    """``read_kryo`` from a combination of ``guesses`` on. Where forms are searched, they fit the bytes afterwards.

    ``make``: makes the walker of each attempt.
    """
    start, depth = cursor.pos, cursor.depth
    fit: _Fit | None = None
    first_error: SnapshotError | None = None
    assumed: str | None = None
    found: tuple[Any, int, dict[str, str]] | None = None
    starved = False
    for _ in range(MAX_GUESSES):
        cursor.pos, cursor.depth, cursor.starved = start, depth, False
        data = KryoInput(cursor, setting.version)
        walker = Walker(data, setting, guesses, BODIES) if make is None else make(data)
        try:
            value = walker.by_class()
            if whole:
                cursor.finish("the Kryo value")
            elif walker.doubts.unconfirmed is not None:
                raise walker.doubts.unconfirmed
            if setting.search_forms:
                return value
            if walker.doubts.ambiguous is not None and not guesses.serializers:
                raise walker.doubts.ambiguous
            other = _Fit(value, cursor.pos, guesses.made, walker.doubts)
            if found is not None and guesses.serializers != found[2]:
                raise ambiguous_serializer(found[2], guesses.serializers, cursor.where(start))
            if fit is not None and fit.only_seems_not_sorted(other):
                # Bytes after an empty map are hardly ever the entries of a sorted one.
                fit, found = other, (value, cursor.pos, guesses.serializers)
            elif fit is not None and fit.is_guessed and not other.equals(fit):
                raise _two_readings(fit, other).at(file=cursor.file, offset=cursor.base + start)
            fit = fit or other
            if found is None:
                found = value, cursor.pos, guesses.serializers
            if not guesses.serializers and not fit.is_guessed:
                return value
        except (AmbiguousSerializer, Ambiguous):
            raise
        except SnapshotError as error:
            if (cursor.starved and cursor.more) or (
                fit is None and isinstance(error, UndescribedClass) and error.certain
            ):
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
                "Kryo objects nested too deep",
                where=cursor.where(),
                advice=f"see that the descriptions of the classes are complete; {CHECK_FILE}",
            ) from error
        if not guesses.turn():
            break
    if found is not None:
        for name, serializer in found[2].items():
            if serializer and name in setting.classes:
                raise misdescribed_serializer(name, serializer, setting.serializer_of(name), cursor.where(start))
        if fit is not None and fit.doubts.ambiguous is not None:
            raise fit.doubts.ambiguous
        cursor.pos = found[1]
        return found[0]
    assert first_error is not None
    cursor.starved = starved
    if assumed is not None and isinstance(first_error, CorruptSnapshot | UnknownId):
        # None of the ids of flink-scala is in the bytes: it may not have written them.
        raise OtherWriter(
            f"the bytes do not fit the class {assumed!r} as flink-scala writes it: {first_error.message}",
            where=first_error.where,
            advice="a job without flink-scala in lib/ writes the fields of the class: describe it with all its fields: "
            f'classes={{"{assumed}": {{"a": "int", "b": "String", …}}}}; {CHECK_FILE}',
        ) from first_error
    raise first_error


@dataclass(frozen=True)
class _Fit:
    """A value that the bytes fit, where it ends, and under which guesses."""

    value: Any
    end: int
    guesses: dict[str, int]
    doubts: Doubts

    @property
    def is_guessed(self) -> bool:
        """Whether it was guessed what a class is: a record, a sorted map."""
        return any(guess.startswith((RECORD_GUESS, SORTED_GUESS)) for guess in self.guesses)

    def only_seems_not_sorted(self, other: _Fit) -> bool:
        """Whether the other differs only in that maps which were empty here, or had a null key, are sorted."""
        differ = self.differing(other)
        return bool(differ) and {guess.removeprefix(SORTED_GUESS) for guess in differ} <= self.doubts.weak

    def differing(self, other: _Fit) -> list[str]:
        """The guesses that both made and made differently."""
        return [guess for guess, chosen in self.guesses.items() if other.guesses.get(guess, chosen) != chosen]

    def equals(self, other: _Fit) -> bool:
        return self.end == other.end and json_text(self.value) == json_text(other.value)


def _two_readings(one: _Fit, other: _Fit) -> Ambiguous:
    """The error for bytes that fit under two guesses."""
    differ = one.differing(other)
    guess = next((guess for guess in differ if guess.startswith((RECORD_GUESS, SORTED_GUESS))), (*differ, "")[0])
    name = guess.rpartition(" ")[2]
    if guess.startswith(SORTED_GUESS):
        advice = f'name the superclass: "{name}": "java.util.HashMap<…>" or "java.util.TreeMap<…>" (HashSet, TreeSet)'
    elif guess.startswith(RECORD_GUESS):
        advice = f'say in the description what the class is: "record {name}": {{…}}, or "class {name}": {{…}}'
    else:
        advice = f'say in the description whether the class has subclasses: "final {name}" or "open {name}"'
    message = f"the description of class {name!r} fits the bytes in two ways, with different values"
    return Ambiguous(message, advice=advice)


def readable_serializers(name: str, setting: KryoSetting) -> tuple[str, ...]:
    """Return the serializers of the job's that may have written a class and have readers; "": Kryo's own choice."""
    walker = Walker(KryoInput(Cursor(b""), setting.version), setting, Guesses(), BODIES)
    return tuple(serializer for serializer, _ in walker.own_readers(class_of_name(name)))
