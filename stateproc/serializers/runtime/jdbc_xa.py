"""Read the state of the JDBC connector's JdbcXaSinkFunction: XIDs that are prepared or hang (XaSinkStateSerializer).

i32 n, n x xid that hangs, i32 n, n x (i64 checkpoint, i32 attempts, prepared xid)
xid: i32 format, u8 length, global transaction id, u8 length, branch qualifier
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stateproc.codec.layouts import Hosted, Layout
from stateproc.serializers.core.base import VARIABLE, LayoutContext, Serializer
from stateproc.serializers.core.registry import simple, snapshot
from stateproc.wire import Cursor

_CLASS = "org.apache.flink.connector.jdbc.xa.XaSinkStateSerializer$XaSinkStateSimpleXaTypeSerializerSnapshot"
_XID = pa.struct([("format_id", pa.int32()), ("global_transaction_id", pa.binary()), ("branch_qualifier", pa.binary())])
_PREPARED = pa.struct([("checkpoint_id", pa.int64()), ("attempts", pa.int32()), ("xid", _XID)])
_STATE = pa.struct([("hanging", pa.list_(_XID)), ("prepared", pa.list_(_PREPARED))])
_LEAST_XID, _LEAST_PREPARED = 6, 18


def _read_xid(cursor: Cursor) -> dict[str, Any]:
    return {
        "format_id": cursor.i32(),
        "global_transaction_id": bytes(cursor.take(cursor.u8(), "a global transaction id")),
        "branch_qualifier": bytes(cursor.take(cursor.u8(), "a branch qualifier")),
    }


def _read_prepared(cursor: Cursor) -> dict[str, Any]:
    return {"checkpoint_id": cursor.i64(), "attempts": cursor.i32(), "xid": _read_xid(cursor)}


def _read_state(cursor: Cursor) -> dict[str, Any]:
    return {
        "hanging": [_read_xid(cursor) for _ in range(cursor.count("XIDs", _LEAST_XID))],
        "prepared": [_read_prepared(cursor) for _ in range(cursor.count("prepared XIDs", _LEAST_PREPARED))],
    }


@dataclass(frozen=True)
class XaSinkState(Serializer):
    """XaSinkStateSerializer."""

    def layout(self, ctx: LayoutContext) -> Layout:
        return Hosted(_read_state, _STATE, least=8)

    @property
    def length(self) -> int:
        return VARIABLE

    @property
    def type_name(self) -> str:
        return "XaSinkState"


@snapshot(_CLASS)
def _read(cursor: Cursor, version: int) -> Serializer:
    simple(cursor, version, _CLASS)
    cursor.i32()  # its own version
    return XaSinkState()
