"""Key groups of rows: by Java's hashCode of the key where that can be told, else by a hash the user gives.

Source: org.apache.flink.runtime.state.KeyGroupRangeAssignment.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec.pieces import Pieces
from stateproc.errors import InvalidOption
from stateproc.hashed_types import hashed
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.key_hash import KeyHash, is_reproducible
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.keygroups.scalars import binary_row_hash
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.table import RowData

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
    keys: pa.Array, pieces: Pieces, serializer: Serializer, hash_: KeyHash | None, codes: pa.Array | None,
    max_parallelism: int,
) -> Ints:  # fmt: skip
    """The key group of each key, int32 [rows].

    keys: as the serializer's layout has them; pieces: their bytes; hash_: of `key_hash_of`; codes: the hash codes that
    rows bring along (int32), which go before all else.
    """
    if codes is not None:
        found: Ints = np.asarray(codes.cast(pa.int32()).to_numpy(zero_copy_only=False), dtype=np.int32)
    elif isinstance(serializer, RowData):
        # The hash of a row is that of its bytes, behind their length.
        found = binary_row_hash(_without_size(pieces))
    elif hash_ is None:
        raise InvalidOption(
            f"nothing tells the hashCode of keys of the type {serializer.type_name}",
            advice="give it in a column of ints: hash_column='…'",
        )
    else:
        found = hash_codes(keys, hash_)
    return key_group_of_hash(found, max_parallelism)


def _without_size(pieces: Pieces) -> pa.Array:
    starts, stops = pieces.offsets[:-1] + _SIZE_OF_ROW, pieces.offsets[1:]
    lengths = stops - starts
    kept = np.ones(len(pieces.data), dtype=np.bool_)
    kept[(pieces.offsets[:-1, None] + np.arange(_SIZE_OF_ROW)).ravel()] = False
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(pieces.data[kept])]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)
