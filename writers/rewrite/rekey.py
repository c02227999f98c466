"""Assign entries to the key groups of another max parallelism.

Only the key at the start of each composite key (in timers, after the timestamp) is decoded; the rest stays bytes.
Source: org.apache.flink.runtime.state.KeyGroupRangeAssignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec import ops
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.builder import Builder
from stateproc.codec.byte_arrays import RowBytes
from stateproc.codec.machine import Machine
from stateproc.errors import InvalidOption, Where
from stateproc.keygroups.key_group_assignment import OBJECTS_HASH, Ints, key_groups, key_hash_of
from stateproc.keygroups.key_hash import KeyHash
from stateproc.readers.common.error_context import placed
from stateproc.readers.common.row_schema import KEY_GROUP
from stateproc.readers.common.serialized_values import SerializedValue
from stateproc.readers.common.state_descriptor import KeyedState
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.structs import RowOf
from stateproc.serializers.table.serializers import RowData
from stateproc.writers.bootstrap.keyed_encoder import RowEncoder
from stateproc.writers.formats.common.byte_gather import row_bytes_of

HashCodes = Callable[[pa.Array], pa.Array]
"""The hash codes (int32) of decoded keys, as their class's ``hashCode`` gives them."""
_TIMESTAMP = 8
_ROW = "row_with_kind"


@dataclass(frozen=True)
class Rekey:
    """Gives entries of one state the key groups of another max parallelism. Picklable if ``codes`` is; see `rekey`."""

    state: KeyedState
    max_parallelism: int
    context: LayoutContext
    hash: KeyHash | None
    codes: HashCodes | None = None

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The entries (RAW_ENTRIES) with other key groups; they are no longer in order. Raises CorruptSnapshot."""
        machine, assemble = self._program()
        for batch in batches:
            keys = row_bytes_of(batch.column("key"))
            starts, ends = keys.offsets[:-1][None, :], keys.offsets[1:][None, :]
            groups: list[Ints] = []
            done = 0
            with placed("<raw entries>", int, self.state.name):
                while done < len(keys):
                    done = machine.run(keys.data, starts, ends, done, len(keys))
                    groups.append(self._groups(assemble(machine.decoded())))
            found = np.concatenate(groups) if groups else np.empty(0, dtype=np.int32)
            yield batch.set_column(batch.schema.get_field_index("key_group"), "key_group", values_array(found))

    def _program(self) -> tuple[Machine, Callable[..., pa.Array]]:
        b = Builder()
        if self.state.kind.is_queue:
            b.op(ops.SKIP, _TIMESTAMP)
        layout = self.state.key.layout(self.context)
        # The hash of a SQL row is that of its bytes.
        assemble = (SerializedValue(layout) if self._of_bytes else layout).emit(b, False)
        b.op(ops.SKIP_REST)
        b.op(ops.ROW_END)
        return Machine(b.build()), assemble

    @property
    def _of_bytes(self) -> bool:
        return isinstance(self.state.key, RowData) and self.codes is None

    def _groups(self, keys: pa.Array) -> Ints:
        pieces = row_bytes_of(keys) if self._of_bytes else RowBytes(np.empty(0, np.uint8), np.zeros(1, np.int64))
        codes = None if self.codes is None else _codes(self.codes(keys), len(keys))
        if self.hash is not None and self.hash.kind == _ROW:
            keys = _kind_first(keys)
        return key_groups(keys, pieces, self.state.key, self.hash, codes, self.max_parallelism)


@dataclass(frozen=True)
class RekeyedEncoder:
    """Encodes rows as entries in the key groups of ``rekey``, which overrides those of the rows."""

    encoder: RowEncoder
    rekey: Rekey

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return raw entries (RAW_ENTRIES), in the order of rows. Raises InvalidRows, InvalidOption."""
        none = values_array(np.zeros(batch.num_rows, dtype=np.int32))
        (entries,) = self.rekey.batches([self.encoder.encode(batch.append_column(KEY_GROUP, none))])
        return entries


def _codes(result: Any, n: int) -> pa.Array:
    """What a user's function gave for ``n`` keys, if they are hash codes. Raises InvalidOption."""
    whole = isinstance(result, pa.Array) and pa.types.is_integer(result.type)
    if not whole or len(result) != n or result.null_count or (result.type != pa.int32() and not _are_ints(result)):
        shown = f"{len(result)} of {result.type}" if isinstance(result, pa.Array) else type(result).__name__
        raise InvalidOption(
            f"the hash function gave no hash codes for {n} keys: {shown}",
            advice="it gets an Arrow array of keys, and returns one of int32 with as many items, none of them null",
        )
    return result


def _are_ints(codes: pa.Array) -> bool:
    least, most = pc.min_max(codes).as_py().values()
    return least is None or (least >= -(2**31) and most < 2**31)


def _kind_first(rows: pa.StructArray) -> pa.StructArray:
    """Rows with their RowKind, which is decoded as the last field, in front, where their hash has it."""
    *fields, kind = rows.flatten()
    names = [str(index) for index in range(len(fields) + 1)]
    return pa.StructArray.from_arrays([kind, *fields], names)


def rekey(
    state: KeyedState,
    max_parallelism: int,
    context: LayoutContext,
    *,
    hash_function: str | HashCodes | None = None,
    operator: str | None = None,
) -> Rekey:
    """Return what assigns the entries of ``state`` to the key groups of ``max_parallelism``.

    hash_function: for keys whose hashCode is their class's own (POJOs, case classes, enums): a name that
    `key_hash_of` knows, or a function of the decoded keys (an Arrow array, dates and times as ISO texts) that returns
    their hash codes as int32. Raises InvalidOption where the hash does not follow from the bytes and none is given;
    Undecodable where the layout of keys is unknown.
    """
    with_kind = isinstance(state.key, RowOf) and state.key.has_kind
    context = replace(context.inner, temporal="exact", row_kind=with_kind)
    state.key.layout(context)
    if callable(hash_function):
        return Rekey(state, max_parallelism, context, None, hash_function)
    found = key_hash_of(state.key, hash_function)
    if found is None and not isinstance(state.key, RowData):
        raise InvalidOption(
            f"keys of the type {state.key.type_name} have a hashCode that does not follow from their bytes, so "
            f"their key groups for max parallelism {max_parallelism} are not known",
            where=Where(operator=operator, state=state.name),
            advice=f"give hash_function={OBJECTS_HASH!r} if the class hashes its fields in that way, or a function of "
            "the keys that returns their hash codes; or keep the max parallelism",
        )
    if found is not None and with_kind:
        found = KeyHash(_ROW, found.children)
    return Rekey(state, max_parallelism, context, found)


def rekeyed(
    batches: Iterable[pa.RecordBatch], state: KeyedState, max_parallelism: int, context: LayoutContext,
    *, hash_function: str | HashCodes | None = None,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The entries of ``state`` with the key groups of ``max_parallelism``; see `rekey`."""
    yield from rekey(state, max_parallelism, context, hash_function=hash_function).batches(batches)
