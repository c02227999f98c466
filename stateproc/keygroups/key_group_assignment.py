"""Assign rows to key groups: by Java's hashCode of the key where it can be computed, else by the user's hash.

Source: org.apache.flink.runtime.state.KeyGroupRangeAssignment.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from stateproc.codec.array_types import Ints
from stateproc.codec.arrow_arrays import RowBytes, as_type, numbers_of
from stateproc.errors import InvalidOption
from stateproc.keygroups.class_hashes import ClassHash, class_hashes
from stateproc.keygroups.hashed_types import hashed, hashed_values
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.key_hash import KeyHash, is_reproducible
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.keygroups.scalars import binary_row_hash
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.table.serializers import RowData

HASH_COLUMN = "hash"
AnyHash = KeyHash | ClassHash
_SIZE_OF_ROW = 4


def key_hash_of(
    serializer: Serializer, named: str | None = None, context: LayoutContext | None = None
) -> AnyHash | None:
    """How keys of this serializer are hashed; None where rows have to bring the hash along, in a column.

    ``named``: the formula of the keys' class, see `class_hashes`; ``context``: how keys are decoded, for fields' names.
    Raises InvalidOption for another name, one that leaves several formulas, or fields without a hash.
    """
    exact = LayoutContext(temporal="exact")
    if named is not None:
        found = class_hashes(serializer, named, exact if context is None else replace(context, temporal="exact"))
        if len(found) > 1:
            raise InvalidOption(
                f"{named} stands for {len(found)} formulas, and no keys of a source show which it is",
                advice="name one: 'scala-2.12' or 'scala-2.13'; 'record' is 'kotlin' where booleans hash as Java's do; "
                "or bring the hash along in a column of ints, hash_column='…'",
            )
        return found[0]
    how = hashed(serializer, exact)
    return how.kind if how is not None and is_reproducible(how.kind) else None


def key_groups(
    keys: pa.Array,
    pieces: RowBytes,
    serializer: Serializer,
    hash_: AnyHash | None,
    codes: pa.Array | None,
    max_parallelism: int,
) -> Ints:
    """The key group of each key, int32 [rows].

    keys: as the serializer's layout has them; pieces: their bytes; hash_: of `key_hash_of`; codes: the hash codes that
    rows bring along (int32), which go before all else.
    """
    return key_group_of_hash(java_hashes(keys, pieces, serializer, hash_, codes), max_parallelism)


def java_hashes(
    keys: pa.Array, pieces: RowBytes, serializer: Serializer, hash_: AnyHash | None, codes: pa.Array | None
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
    elif isinstance(hash_, ClassHash):
        found = hash_.codes(keys)
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


def _without_size(pieces: RowBytes) -> pa.Array:
    starts, stops = pieces.offsets[:-1] + _SIZE_OF_ROW, pieces.offsets[1:]
    lengths = stops - starts
    kept = np.ones(len(pieces.data), dtype=np.bool_)
    kept[(pieces.offsets[:-1, None] + np.arange(_SIZE_OF_ROW)).ravel()] = False
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(pieces.data[kept])]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)
