"""Decode single values to Python objects with the codec that decodes whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.errors import BadValue, Unrepresentable
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.base import Unwritable
from stateproc.codec.machine import DecodeFailure, HostFailure, ValueDecoder
from stateproc.codec.temporal import EXACT
from stateproc.errors import CorruptSnapshot, SnapshotError, UnsupportedSnapshot, Where

UNREADABLE = (OverflowError, pa.ArrowInvalid)


def decode_value(layout: Layout, data: bytes, type_name: str) -> Any:
    """Decode ``data``, which must hold exactly one value of ``layout``, to a Python value.

    Raises:
        CorruptSnapshot: the bytes are no such value.
        UnsupportedSnapshot: the value has no Python representation, or cannot be decoded.
    """
    raw = np.frombuffer(bytes(data) + bytes(8), dtype=np.uint8)
    try:
        array = ValueDecoder(layout).decode(raw, np.zeros(1, np.int64), np.array([len(data)], np.int64))
    except HostFailure as failure:
        raise failure.error.at(file="<bytes>") from failure
    except DecodeFailure as failure:
        where = Where(file="<bytes>", offset=failure.position)
        raise CorruptSnapshot(f"{failure.args[0]} (type {type_name})", where=where) from failure
    except (BadValue, *UNREADABLE) as error:
        raise as_corrupt(error, type_name) from error
    try:
        value = array[0].as_py()
    except OverflowError as error:
        message = f"a date that Python's datetime cannot hold (type {type_name})"
        raise UnsupportedSnapshot(message, where=Where(file="<bytes>"), advice=EXACT) from error
    return layout.to_python(value)


def fits(layout: Layout, decoder: ValueDecoder, data: bytes, start: int) -> bool:
    """Return whether ``data`` from ``start`` on is one value of ``layout`` as it would be written.

    Args:
        decoder: a decoder of the layout, which many calls share.
        start: where the value would begin.
    """
    raw = np.frombuffer(data + bytes(8), dtype=np.uint8)
    try:
        array = decoder.decode(raw, np.array([start], np.int64), np.array([len(data)], np.int64))
        return bytes(layout.encode(array).data) == data[start:]
    except Unwritable:
        return True
    except (SnapshotError, HostFailure, DecodeFailure, Unencodable, BadValue, *UNREADABLE):
        return False


def as_corrupt(error: Exception, what: str) -> Exception:
    """Convert an assembler's error about values to a SnapshotError; return any other error unchanged."""
    if isinstance(error, Unrepresentable):
        return UnsupportedSnapshot(f"{error} (type {what})", where=Where(file="<bytes>"), advice=error.advice)
    if isinstance(error, (BadValue, *UNREADABLE)):
        return CorruptSnapshot(f"{error or type(error).__name__} (type {what})", where=Where(file="<bytes>"))
    return error
