"""Few bytes that ask for much work, and what one unknown class leaves of a snapshot."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from stateproc.codec import ops
from stateproc.codec.layouts import Number
from stateproc.codec.layouts.binary import BinaryArray, Sized, VariableSlot
from stateproc.codec.machine import DecodeFailure, ValueDecoder
from stateproc.errors import SnapshotError
from stateproc.metadata.backend import read_keyed_header
from stateproc.readers.header_reader import read_whole_header
from stateproc.serializers import UnknownSnapshotClass
from tests.helpers.damage.corpus import Target, file_targets

_STRINGS = b"StringSerializer$StringSerializerSnapshot"


def test_arrays_whose_parts_overlap_are_refused_before_they_multiply() -> None:
    """1,000 slots that all point at the array itself: 1,000 ** 3 elements at the third level."""
    n = 1000
    body = n.to_bytes(4, "little") + bytes((n + 31) // 32 * 4)
    size = len(body) + 8 * n
    data = size.to_bytes(4, "big") + body + (size.to_bytes(4, "little") + bytes(4)) * n
    inner = BinaryArray(Number(pa.int64(), big_endian=False), 8)
    layout = Sized(BinaryArray(VariableSlot(BinaryArray(VariableSlot(inner), 8)), 8))
    raw = np.frombuffer(data, np.uint8)
    with pytest.raises(DecodeFailure) as caught:
        ValueDecoder(layout).decode(raw, np.zeros(1, np.int64), np.array([len(data)], np.int64))
    assert caught.value.code == ops.BAD_OFFSET


def _edges() -> Target:
    return next(
        target for target in file_targets() if target.name == "1.20/edges-hashmap-canonical/7b3d35/0/managed_keyed"
    )


def test_an_unknown_class_hides_its_own_state_only() -> None:
    target = _edges()
    before = target.all_rows
    places = [at for at in range(target.body) if target.data.startswith(_STRINGS, at)]
    at = places[-1]
    data = target.data[:at] + b"Q" + target.data[at + 1 :]
    assert target.read_all is not None
    found = target.read_all(data)
    errors = {name: item for name, item in found.items() if isinstance(item, SnapshotError)}
    assert len(errors) >= 1
    for name, error in errors.items():
        assert "QtringSerializer$StringSerializerSnapshot" in str(error)
        assert "serializers.register(" in str(error)
        assert name.split(".")[1] in str(error)
    same = {name for name, rows in found.items() if name not in errors and repr(rows) == before[name]}
    assert same == before.keys() - errors.keys()
    assert len(same) > len(errors)


def test_a_header_full_of_unknown_classes_is_given_up_soon() -> None:
    """No lengths fit, as the header has a byte too many."""
    target = _edges()
    half = target.body // 2
    data = target.data[:half].replace(b"Serializer$", b"Serialized$") + target.data[half : target.body] + b"\xff"
    started = time.process_time()
    with pytest.raises(UnknownSnapshotClass) as caught:
        read_whole_header(data, "state", read_keyed_header)
    assert time.process_time() - started < 5
    assert caught.value.where.file == "state"
    assert "serializers.register(" in str(caught.value)
