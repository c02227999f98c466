"""Byte ranges of operator state elements: in the order of the offsets, empty elements first at a shared offset."""

from __future__ import annotations

from stateproc.metadata.operator_handles import OperatorStreamHandle, StatePartition
from stateproc.metadata.stream_handles import ByteStreamHandle
from stateproc.readers.operator_state import element_ranges
from stateproc.storage import InlineSource


def test_ranges_have_the_order_of_the_offsets() -> None:
    first = StatePartition("first", "SPLIT_DISTRIBUTE", (10, 10, 14))
    second = StatePartition("second", "UNION", (19, 17, 20))
    handle = OperatorStreamHandle(4, (first, second), ByteStreamHandle("n", bytes(20)))
    source = InlineSource("n", bytes(20))
    assert element_ranges(handle, first, source).tolist() == [[10, 10], [10, 14], [14, 17]]
    assert element_ranges(handle, second, source).tolist() == [[19, 20], [17, 19], [20, 20]]
