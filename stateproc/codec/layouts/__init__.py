"""The layouts: a small set of ways in which bytes lie, from which every serializer's format is put together."""

from stateproc.codec.layouts.base import Layout, with_nulls
from stateproc.codec.layouts.binary import (
    BinaryArray,
    BinaryMap,
    BinaryRow,
    Sized,
    VariableSlot,
    WideTimestampSlot,
)
from stateproc.codec.layouts.collections import Blocks, Counted, Delimited, Mapping, Numbers
from stateproc.codec.layouts.nesting import Choice, Converted, Hosted, Marked, Option, Prefixed, Struct
from stateproc.codec.layouts.numbers import Boolean, Nothing, Number, Only, VarNumber
from stateproc.codec.layouts.rows import MaskedList, MaskedRow
from stateproc.codec.layouts.strings import Blob, FlinkString, JavaUtf

__all__ = [
    "BinaryArray", "BinaryMap", "BinaryRow", "Blob", "Blocks", "Boolean", "Choice", "Converted", "Counted",
    "Delimited", "FlinkString", "Hosted", "JavaUtf", "Layout", "Mapping", "Marked", "MaskedList", "MaskedRow",
    "Nothing", "Number", "Numbers", "Only", "Option", "Prefixed", "Sized", "Struct", "VarNumber", "VariableSlot",
    "WideTimestampSlot", "with_nulls",
]  # fmt: skip
