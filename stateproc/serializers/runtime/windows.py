"""Read and write windows as namespaces: TimeWindow and GlobalWindow of the DataStream API and of SQL."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from stateproc.codec.layouts import (
    AlwaysNull,
    Layout,
    Number,
    StructLayout,
)
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.registry import (
    simple,
    snapshot,
    write_simple,
)
from stateproc.wire import Cursor, Output

_WINDOW = "org.apache.flink.{}.{}$Serializer${}SerializerSnapshot"
_STREAM_WINDOWS, _TABLE_WINDOWS = "streaming.api.windowing.windows", "table.runtime.operators.window"


@dataclass(frozen=True)
class TimeWindow(Serializer):
    """TimeWindow.Serializer: i64 start, i64 end (exclusive), ms. ``table``: SQL's class of that name."""

    table: bool = field(default=False, compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return StructLayout((("start", Number(pa.int64())), ("end", Number(pa.int64()))))

    @property
    def length(self) -> int:
        return 16

    @property
    def type_name(self) -> str:
        return "TimeWindow"

    def write_snapshot(self, out: Output, release: Release) -> None:
        _write_window(out, self.type_name, self.table, release)


@dataclass(frozen=True)
class GlobalWindow(Serializer):
    """GlobalWindow.Serializer: one byte without information. ``table``: SQL's class of that name."""

    table: bool = field(default=False, compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return AlwaysNull(1)

    @property
    def length(self) -> int:
        return 1

    @property
    def type_name(self) -> str:
        return "GlobalWindow"

    def write_snapshot(self, out: Output, release: Release) -> None:
        _write_window(out, self.type_name, self.table, release)


def _write_window(out: Output, name: str, table: bool, release: Release) -> None:
    write_simple(out, _WINDOW.format(_TABLE_WINDOWS if table else _STREAM_WINDOWS, name, name), release)


def _register_window(package: str, serializer: Serializer) -> None:
    name = serializer.type_name

    @snapshot(_WINDOW.format(package, name, name))
    def read(cursor: Cursor, version: int) -> Serializer:
        simple(cursor, version, name)
        return serializer


for _windows in (TimeWindow, GlobalWindow):
    _register_window(_STREAM_WINDOWS, _windows())
    _register_window(_TABLE_WINDOWS, _windows(table=True))
