"""Read one Kryo value to plain Python."""

from __future__ import annotations

from typing import Any

from stateproc.codec.kryo.bodies import BODIES
from stateproc.codec.kryo.primitives import KryoInput
from stateproc.codec.kryo.walker import KryoSetting, Walker
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.wire import Cursor

MAX_GUESSES = 64
"""Combinations of final and not final classes that are tried for one value."""


def read_kryo(cursor: Cursor, setting: KryoSetting, whole: bool = False) -> Any:
    """One value of Kryo.writeClassAndObject, as plain Python and the structures of ``values``.

    ``whole``: the value must end where the cursor's range ends. Where a description does not say whether its
    class is final, both are tried until the bytes fit. Raises CorruptSnapshot, UnsupportedSnapshot (unknown
    classes).
    """
    start, depth = cursor.pos, cursor.depth
    guesses: dict[str, bool] = {}
    first_error: SnapshotError | None = None
    for _ in range(MAX_GUESSES):
        cursor.pos, cursor.depth = start, depth
        walker = Walker(KryoInput(cursor, setting.version), setting, guesses, BODIES)
        try:
            value = walker.by_class()
            if whole:
                cursor.finish("the Kryo value")
            return value
        except SnapshotError as error:
            first_error = first_error or error
        except RecursionError as error:
            raise UnsupportedSnapshot(
                "Kryo objects nested too deep", where=cursor.where(), advice="the file may be damaged"
            ) from error
        if not next_guess(guesses):
            break
    assert first_error is not None
    raise first_error


def next_guess(guesses: dict[str, bool]) -> bool:
    """Turn to the next combination, the last guess made first; False if all were tried."""
    while guesses:
        name, guess = guesses.popitem()
        if not guess:
            guesses[name] = True
            return True
    return False
