"""Compute the composite-key prefixes of given keys, to look them up in a RocksDB database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow as pa

from stateproc.codec.byte_arrays import Unencodable
from stateproc.codec.layouts.base import Unwritable
from stateproc.keygroups.ranges import prefix_width
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.java.structs import TupleOf
from stateproc.serializers.java.temporal import Temporal

_MOST_KEYS = 1000
_SCALARS = frozenset({"Boolean", "Byte", "Short", "Int", "Long", "Char", "String"})
_TEMPORAL = frozenset({"LocalDate"})


def key_prefixes(
    serializer: Serializer,
    keys: Sequence[Any],
    ctx: LayoutContext,
    max_parallelism: int,
    key_groups_of: Callable[[Sequence[Any]], Collection[int] | None],
) -> tuple[bytes, ...] | None:
    """Return the prefixes (key group, serialized key) of the composite keys of ``keys``.

    None where they are not certain: a key that has several serialized forms or cannot be encoded, whose key group
    is unknown, or more keys than can be looked up one by one.
    """
    if not has_one_form(serializer) or len(keys) > _MOST_KEYS:
        return None
    layout = serializer.layout(ctx)
    try:
        values = pa.array(list(keys), type=layout.arrow_type)
        if values.null_count:
            return None
        encoded = layout.encode(values).to_arrow().to_pylist()
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError, Unencodable, Unwritable):
        return None
    width = prefix_width(max_parallelism)
    prefixes = []
    for key, data in zip(keys, encoded, strict=True):
        groups = key_groups_of([key])
        if groups is None:
            return None
        prefixes += [group.to_bytes(width, "big") + data for group in groups]
    return tuple(prefixes)


def has_one_form(serializer: Serializer) -> bool:
    """Whether equal keys have equal bytes; floats (NaN, zeros) and numbers with a scale do not."""
    if isinstance(serializer, Scalar):
        return serializer.name in _SCALARS
    if isinstance(serializer, Temporal):
        return serializer.kind.name in _TEMPORAL
    return isinstance(serializer, TupleOf) and all(map(has_one_form, serializer.fields))
