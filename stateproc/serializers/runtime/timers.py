"""Read and write timers: org.apache.flink.streaming.api.operators.TimerSerializer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.layouts import (
    Converted,
    Layout,
    Number,
    StructLayout,
)
from stateproc.codec.temporal import ints, nulls
from stateproc.serializers.core.base import LayoutContext, Serializer, fixed_sum
from stateproc.serializers.core.registry import (
    CompositeSerializer,
    composite_snapshot,
)

_TIMER = "org.apache.flink.streaming.api.operators.TimerSerializerSnapshot"


def unflip(timestamps: pa.Array) -> pa.Array:
    """Undo TimerSerializer's flip of the sign bit, which makes byte order time order; its own inverse."""
    return values_array(ints(timestamps) ^ np.int64(-(2**63)), nulls(timestamps))


@composite_snapshot(_TIMER, outer_version=2)
@dataclass(frozen=True)
class Timer(CompositeSerializer):
    """TimerSerializer: i64 timestamp with the sign flipped, key, namespace."""

    key: Serializer
    namespace: Serializer
    type_pattern = "Timer<{}>"

    def layout(self, ctx: LayoutContext) -> Layout:
        timestamp = Converted(Number(pa.int64()), pa.int64(), unflip, inverse=unflip)
        inner = ctx.inner
        return StructLayout(
            (
                ("timestamp", timestamp),
                ("key", self.key.layout(inner)),
                ("namespace", self.namespace.layout(inner)),
            )
        )

    @property
    def length(self) -> int:
        return fixed_sum((self.key, self.namespace), 8)
