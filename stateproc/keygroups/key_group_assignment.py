"""Assign rows to key groups: by Java's hashCode of the key where it can be computed, else by the user's hash.

Source: org.apache.flink.runtime.state.KeyGroupRangeAssignment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.arrow_arrays import as_type, numbers_of
from stateproc.codec.byte_arrays import RowBytes
from stateproc.codec.encoding.times import dates, day_times, instants
from stateproc.errors import InvalidOption
from stateproc.keygroups.hashed_types import hashed
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.key_hash import KeyHash, is_reproducible
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.keygroups.scalars import binary_row_hash
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.table.serializers import RowData

Ints = npt.NDArray[np.int32]
HASH_COLUMN = "hash"
OBJECTS_HASH = "Objects.hash"
"""The name of what ``java.util.Objects.hash`` of all fields gives, as many hand-written and generated classes do."""
_SIZE_OF_ROW = 4


def key_hash_of(serializer: Serializer, named: str | None = None) -> KeyHash | None:
    """How keys of this serializer are hashed; None where rows have to bring the hash along, in a column.

    ``named``: OBJECTS_HASH for a class whose hashCode is known to be that of its fields in the serializer's order.
    Raises InvalidOption for another name, or fields without a hash.
    """
    exact = LayoutContext(temporal="exact")
    if named is not None:
        if named != OBJECTS_HASH:
            raise InvalidOption(
                f"no hash function is called {named!r}",
                advice=f"there is {OBJECTS_HASH!r}; any other hashCode comes as a column of ints, hash_column='…'",
            )
        parts = [hashed(part, exact, inside=True) for part in serializer.nested]
        known = [part.kind for part in parts if part is not None]
        if not known or len(known) < len(parts):
            raise InvalidOption(f"the fields of {serializer.type_name} have no hashes that {OBJECTS_HASH} could join")
        # A Row hashes differently since Flink 1.13; before, it did as Objects.hash does.
        return KeyHash("legacy_row", tuple(known))
    found = hashed(serializer, exact)
    return found.kind if found is not None and is_reproducible(found.kind) else None


def key_groups(
    keys: pa.Array, pieces: RowBytes, serializer: Serializer, hash_: KeyHash | None, codes: pa.Array | None,
    max_parallelism: int,
) -> Ints:  # fmt: skip
    """The key group of each key, int32 [rows].

    keys: as the serializer's layout has them; pieces: their bytes; hash_: of `key_hash_of`; codes: the hash codes that
    rows bring along (int32), which go before all else.
    """
    return key_group_of_hash(java_hashes(keys, pieces, serializer, hash_, codes), max_parallelism)


def java_hashes(
    keys: pa.Array, pieces: RowBytes, serializer: Serializer, hash_: KeyHash | None, codes: pa.Array | None
) -> Ints:
    """The hash code of each key, int32 [rows]; the arguments are those of `key_groups`. Raises InvalidOption."""
    if codes is not None:
        found: Ints = np.asarray(numbers_of(as_type(codes, pa.int32())), dtype=np.int32)
    elif isinstance(serializer, RowData):
        # The hash of a row is that of its bytes, which follow their length.
        found = binary_row_hash(_without_size(pieces))
    elif hash_ is None:
        raise InvalidOption(
            f"the hashCode of keys of the type {serializer.type_name} is unknown",
            advice="give it in a column of ints: hash_column='…'",
        )
    else:
        found = hash_codes(hashed_values(keys, hash_), hash_)
    return found


def text_kept(wanted: pa.DataType, given: pa.DataType) -> pa.DataType:
    """The type that keys are cast to: that of their layout, but for dates and times given as ISO-8601 text (to the
    nanosecond), which stay text."""
    if pa.types.is_temporal(wanted) and (pa.types.is_string(given) or pa.types.is_large_string(given)):
        return given
    if pa.types.is_struct(wanted) and pa.types.is_struct(given) and wanted.num_fields == given.num_fields:
        at = [max(given.get_field_index(field.name), 0) for field in wanted]
        fields = zip(wanted, at, strict=True)
        return pa.struct([field.with_type(text_kept(field.type, given.field(index).type)) for field, index in fields])
    return wanted


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


def _without_size(pieces: RowBytes) -> pa.Array:
    starts, stops = pieces.offsets[:-1] + _SIZE_OF_ROW, pieces.offsets[1:]
    lengths = stops - starts
    kept = np.ones(len(pieces.data), dtype=np.bool_)
    kept[(pieces.offsets[:-1, None] + np.arange(_SIZE_OF_ROW)).ravel()] = False
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(pieces.data[kept])]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)
