"""Elements of real operator state as bytes, as writers take them, for the tests of writers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stateproc.codec.layouts import Counted, StructLayout
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.machine import ValueDecoder
from stateproc.metadata.backend import StateMetaInfo
from stateproc.metadata.operator_handles import OperatorStreamHandle, StatePartition
from stateproc.readers.key_group_blocks import decompress_frames
from stateproc.readers.operator_state import element_ranges
from stateproc.serializers import LayoutContext
from stateproc.storage import ByteSource


def contents(source: ByteSource, states: Sequence[StatePartition], compressed: bool) -> dict[str, list[bytes]]:
    """The bytes of each state's elements; of broadcast states one, with the count."""
    handle = OperatorStreamHandle(4, tuple(states), None)  # type: ignore[arg-type]
    found: dict[str, list[bytes]] = {}
    for state in states:
        elements = [
            (start, source.read(start, stop - start)) for start, stop in element_ranges(handle, state, source).tolist()
        ]
        found[state.name] = [
            decompress_frames(data, source.name, start) if compressed else data for start, data in elements
        ]
    return found


def keys_and_values(info: StateMetaInfo, data: bytes) -> tuple[pa.Array, pa.Array]:
    """The bytes of each key and value of a broadcast state."""
    key, value = info.key_serializer, info.value_serializer
    assert key is not None and value is not None
    pair = StructLayout(
        (
            ("key", SerializedValue(key.layout(LayoutContext()))),
            ("value", SerializedValue(value.layout(LayoutContext()))),
        )
    )
    pairs = ValueDecoder(Counted(pair)).decode(
        np.frombuffer(data, np.uint8), np.zeros(1, np.int64), np.array([len(data)], np.int64)
    )
    return pairs.values.field("key"), pairs.values.field("value")
