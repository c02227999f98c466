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
    simple_snapshot,
    write_simple,
)
from stateproc.wire import Output

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
        write_simple(out, _snapshot_class(self.type_name, self.table), release)


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
        write_simple(out, _snapshot_class(self.type_name, self.table), release)


def _snapshot_class(name: str, table: bool) -> str:
    return _WINDOW.format(_TABLE_WINDOWS if table else _STREAM_WINDOWS, name, name)


for _window in (TimeWindow(), GlobalWindow(), TimeWindow(table=True), GlobalWindow(table=True)):
    simple_snapshot(_window, _snapshot_class(_window.type_name, _window.table))
