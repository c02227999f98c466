"""Parsers of serializers that cases of `tests/cases` have of their own, registered as users do: a module of plugins."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stateproc import serializers, types
from stateproc.codec.layouts import JavaUtf, Layout, Number, StructLayout
from stateproc.serializers import LayoutContext, Serializer
from stateproc.wire import Cursor

LONG = Number(pa.int64())


@dataclass(frozen=True)
class OwnStruct(Serializer):
    """A struct that a serializer of the job's own writes."""

    name: str
    fields: tuple[tuple[str, Layout], ...]
    size: int = -1

    def layout(self, ctx: LayoutContext) -> Layout:
        return StructLayout(self.fields)

    @property
    def length(self) -> int:
        return self.size

    @property
    def type_name(self) -> str:
        return self.name


def read_account(cursor: Cursor, version: int) -> Serializer:
    """Read boolean fixed, utf name, i32 number."""
    is_fixed = cursor.boolean()
    cursor.utf()
    cursor.i32()
    bank = types.CHAR.layout(LayoutContext()) if is_fixed else JavaUtf()
    return OwnStruct("AccountId", (("bank", bank), ("number", LONG)), 10 if is_fixed else -1)


def read_amount(cursor: Cursor, version: int) -> Serializer:
    """Read i32 version, i32 scale, utf name."""
    cursor.i32()
    cursor.i32()
    cursor.utf()
    return OwnStruct("Amount", (("cents", LONG), ("currency", JavaUtf())))


serializers.register("com.acme.lab.Case20$Ser$Snapshot", read_account)
serializers.register("com.acme.lab.Case17$AmountSerializer$Config", read_amount)
