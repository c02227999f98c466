"""Read and write pattern matching (CEP) state: org.apache.flink.cep.nfa."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from stateproc.codec.layouts import Counted, FlinkString, Layout, Marked, Number, StructLayout
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import VARIABLE, LayoutContext, Serializer
from stateproc.serializers.core.opaque import UndecodableValue
from stateproc.serializers.core.registry import (
    CompositeSerializer,
    composite,
    composite_snapshot,
    composite_with,
    expect_version,
    simple_snapshot,
    snapshot,
    write_composite,
)
from stateproc.serializers.java.scalars import Scalar
from stateproc.wire import Cursor, Output

_NFA = "org.apache.flink.cep.nfa."
_BUFFER = _NFA + "sharedbuffer."
_I32, _I64 = Number(pa.int32()), Number(pa.int64())
_PRESENT = 1  # the byte before a value that may be missing; 0 stands for null

_EVENT_ID = _BUFFER + "EventId$EventIdSerializer$EventIdSerializerSnapshot"
_DEWEY = _NFA + "DeweyNumber$DeweyNumberSerializer$DeweyNumberSerializerSnapshot"
_NODE_ID = _BUFFER + "NodeId$NodeIdSerializer$NodeIdSerializerSnapshot"
_EDGE = _BUFFER + "SharedBufferEdge$SharedBufferEdgeSerializer$SharedBufferEdgeSerializerSnapshot"
_LOCKABLE = _BUFFER + "LockableTypeSerializerSnapshot"
_NODE = _BUFFER + "SharedBufferNodeSerializerSnapshotV2"
_OLD_NODE = _BUFFER + "SharedBufferNode$SharedBufferNodeSerializer$SharedBufferNodeSerializerSnapshot"
_NFA_STATE = _NFA + "NFAStateSerializerSnapshot"
_PREVIOUS_TIMESTAMP = Release(1, 16)
_MIGRATED_NFA = _NFA + "NFA$MigratedNFASerializerSnapshot"
_MIGRATED_BUFFER = _NFA + "SharedBuffer$SharedBufferSerializerSnapshot"

EVENT_ID = Scalar("EventId", "EventId", StructLayout((("id", _I32), ("timestamp", _I64))), 12, _EVENT_ID)
DEWEY_NUMBER = Scalar("DeweyNumber", "DeweyNumber", Counted(_I32), VARIABLE, _DEWEY)
simple_snapshot(EVENT_ID, _EVENT_ID)
simple_snapshot(DEWEY_NUMBER, _DEWEY)


def _optional(layout: Layout) -> Layout:
    return Marked(layout, null_byte=1 - _PRESENT)


@composite_snapshot(_NODE_ID, outer_version=1)
@dataclass(frozen=True)
class NodeId(CompositeSerializer):
    """NodeId.NodeIdSerializer: a mark, the event's id, the name of the pattern's page."""

    event: Serializer
    type_pattern = "NodeId"

    def layout(self, ctx: LayoutContext) -> Layout:
        return _optional(StructLayout((("event", self.event.layout(ctx.inner)), ("page", FlinkString()))))


@composite_snapshot(_EDGE, outer_version=1)
@dataclass(frozen=True)
class SharedBufferEdge(CompositeSerializer):
    """SharedBufferEdge.SharedBufferEdgeSerializer: the node it leads to, the version."""

    target: Serializer
    version: Serializer
    type_pattern = "SharedBufferEdge"

    def layout(self, ctx: LayoutContext) -> Layout:
        inner = ctx.inner
        return StructLayout((("target", self.target.layout(inner)), ("version", self.version.layout(inner))))


@composite_snapshot(_LOCKABLE, outer_version=1)
@dataclass(frozen=True)
class Lockable(CompositeSerializer):
    """Lockable.LockableTypeSerializer: i32 number of references, the element."""

    element: Serializer
    type_pattern = "Lockable<{}>"
    length = VARIABLE

    def layout(self, ctx: LayoutContext) -> Layout:
        return StructLayout((("refs", _I32), ("element", self.element.layout(ctx))))


@dataclass(frozen=True)
class SharedBufferNode(Serializer):
    """SharedBufferNodeSerializer: its edges, Lockable ones since 1.13.

    ``written``: the serializer that the snapshot nests, which may be that of the edge or of the list of edges.
    """

    edge: Serializer
    written: Serializer | None = field(default=None, compare=False)
    type_name = "SharedBufferNode"

    def layout(self, ctx: LayoutContext) -> Layout:
        return StructLayout((("edges", Counted(self.edge.layout(ctx.inner))),))

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return (self.edge,)

    def write_snapshot(self, out: Output, release: Release) -> None:
        class_name = _NODE if isinstance(self.edge, Lockable) else _OLD_NODE
        write_composite(out, class_name, 1, (self.written or self.edge,), release)


@snapshot(_NODE)
def _read_node(cursor: Cursor, version: int) -> Serializer:
    (edge,) = composite(cursor, version, 1)
    return SharedBufferNode(edge if isinstance(edge, Lockable) else Lockable(edge), edge)


@snapshot(_OLD_NODE)
def _read_old_node(cursor: Cursor, version: int) -> Serializer:
    # The nested serializer is that of the list of edges.
    (edges,) = composite(cursor, version, 1)
    edge = edges.nested[0] if edges.nested and not isinstance(edges, SharedBufferEdge) else edges
    return SharedBufferNode(edge, edges)


@dataclass(frozen=True)
class NfaState(CompositeSerializer):
    """NFAStateSerializer: the partial matches, the completed ones."""

    version: Serializer
    node: Serializer
    event: Serializer
    has_previous_timestamp: bool
    type_pattern = "NFAState"

    def layout(self, ctx: LayoutContext) -> Layout:
        inner = ctx.inner
        steps: list[tuple[str, Layout]] = [
            ("state", FlinkString()),
            ("previous", self.node.layout(inner)),
            ("version", self.version.layout(inner)),
            ("start_timestamp", _I64),
        ]
        if self.has_previous_timestamp:
            steps.append(("previous_timestamp", _I64))
        steps.append(("start_event", _optional(self.event.layout(inner))))
        states = Counted(StructLayout(tuple(steps)))
        return StructLayout((("partial", states), ("completed", states)))

    def write_snapshot(self, out: Output, release: Release) -> None:
        outer_version = 2 if self.has_previous_timestamp or release >= _PREVIOUS_TIMESTAMP else 1
        flag = (lambda outer: outer.boolean(self.has_previous_timestamp)) if outer_version == 2 else None
        write_composite(out, _NFA_STATE, outer_version, self.nested, release, flag)


@snapshot(_NFA_STATE)
def _read_nfa_state(cursor: Cursor, version: int) -> Serializer:
    def read_flag(outer: Cursor, outer_version: int) -> bool:
        expect_version(outer, "NFAStateSerializerSnapshot", outer_version, 1, 2)
        return outer.boolean() if outer_version >= 2 else False

    has_previous_timestamp, (dewey, node, event) = composite_with(cursor, version, 3, read_flag)
    return NfaState(dewey, node, event, has_previous_timestamp)


@dataclass(frozen=True)
class MigratedState(CompositeSerializer):
    """NFA.NFASerializer, SharedBuffer.SharedBufferSerializer: the state of CEP jobs before Flink 1.6.

    Flink 1.8 to 1.11 declare it in every CEP job, migrate its values when they restore a job, and write none.
    """

    snapshot_class: str
    parts: tuple[Serializer, ...]

    def layout(self, ctx: LayoutContext) -> Layout:
        return UndecodableValue(
            "CEP state as Flink 1.5 and older wrote it, of which Flink 1.8 to 1.11 write no values",
            "restore the snapshot once in Flink 1.8–1.11 and take a savepoint there",
        )

    @property
    def type_name(self) -> str:
        return "MigratedNFA" if self.snapshot_class == _MIGRATED_NFA else "SharedBuffer"

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_composite(out, self.snapshot_class, 2, self.parts, release)


def _read_migrated(cursor: Cursor, version: int, *, class_name: str, n: int) -> Serializer:
    return MigratedState(class_name, composite(cursor, version, n))


snapshot(_MIGRATED_NFA)(partial(_read_migrated, class_name=_MIGRATED_NFA, n=2))
snapshot(_MIGRATED_BUFFER)(partial(_read_migrated, class_name=_MIGRATED_BUFFER, n=3))
