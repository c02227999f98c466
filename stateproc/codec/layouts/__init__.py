"""Layouts: composable descriptions of serialized bytes, from which the format of every serializer is built."""

from stateproc.codec.arrow_arrays import with_nulls
from stateproc.codec.layouts.base import Layout
from stateproc.codec.layouts.binary import BinaryArray, BinaryMap, BinaryRow, Sized, VariableSlot, WideTimestampSlot
from stateproc.codec.layouts.collections import AvroBlocks, Counted, Delimited, MapLayout, Numbers
from stateproc.codec.layouts.nesting import Choice, ChoiceOption, Converted, Hosted, Marked, Prefixed, StructLayout
from stateproc.codec.layouts.numbers import AlwaysNull, Boolean, Number, SingletonValue, VarNumber
from stateproc.codec.layouts.rows import MaskedList, MaskedRow
from stateproc.codec.layouts.strings import Blob, FlinkString, JavaUtf

Struct = StructLayout
"""The name of the class in earlier releases, which users' parsers import."""

__all__ = [
    "AlwaysNull",
    "AvroBlocks",
    "BinaryArray",
    "BinaryMap",
    "BinaryRow",
    "Blob",
    "Boolean",
    "Choice",
    "ChoiceOption",
    "Converted",
    "Counted",
    "Delimited",
    "FlinkString",
    "Hosted",
    "JavaUtf",
    "Layout",
    "MapLayout",
    "Marked",
    "MaskedList",
    "MaskedRow",
    "Number",
    "Numbers",
    "Prefixed",
    "SingletonValue",
    "Sized",
    "Struct",
    "StructLayout",
    "VarNumber",
    "VariableSlot",
    "WideTimestampSlot",
    "with_nulls",
]
