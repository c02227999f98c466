"""Convert dates and times that are given as ISO-8601 text to what is hashed of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from stateproc.codec.temporal import dates, day_times, instants
from stateproc.keygroups.key_hash import KeyHash


def hashed_values(keys: pa.Array, hash_: KeyHash) -> pa.Array:
    """The keys with ISO-8601 text as what is hashed of a date or time."""
    if pa.types.is_struct(keys.type) and len(hash_.children) == keys.type.num_fields:
        parts = [hashed_values(keys.field(index), part) for index, part in enumerate(hash_.children)]
        names = [field.name for field in keys.type]
        return pa.StructArray.from_arrays(parts, names, mask=keys.is_null())
    if not (pa.types.is_string(keys.type) or pa.types.is_large_string(keys.type)) or hash_.kind not in _MOMENTS:
        return keys
    return _MOMENTS[hash_.kind](keys)


def _days(keys: pa.Array) -> pa.Array:
    days, null = dates(keys)
    return pa.array(days.astype(np.int32), pa.date32(), mask=null)


def _day_times(keys: pa.Array) -> pa.Array:
    nanos, null = day_times(keys)
    return pa.array(nanos, pa.time64("ns"), mask=null)


def _millis(keys: pa.Array) -> pa.Array:
    seconds, nanos, null = instants(keys)
    return pa.array(seconds * 1000 + nanos // 10**6, pa.int64(), mask=null)


def _seconds_and_nanos(keys: pa.Array) -> pa.Array:
    seconds, nanos, null = instants(keys)
    parts = [pa.array(seconds, pa.int64()), pa.array(nanos, pa.int64())]
    return pa.StructArray.from_arrays(parts, ["seconds", "nanos"], mask=pa.array(null))


_MOMENTS: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "local_date": _days, "local_time": _day_times, "epoch_millis": _millis,
    "instant": _seconds_and_nanos, "local_date_time": _seconds_and_nanos,
}  # fmt: skip
