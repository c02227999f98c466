"""Read and check composite keys: how key, namespace and user key are stored in canonical files and RocksDB.

    key group            1 byte up to a max parallelism of 128, else 2
    key                  by its serializer
    [length of the key]
    namespace            by its serializer
    [length of the namespace]
    user key             of maps, to the end

(org.apache.flink.runtime.state.SerializedCompositeKeyBuilder.) Lengths are stored only if neither serializer has a
fixed length: lowest byte first, one byte and then others while the rest is not 0. Logs have key and namespace alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import Unencodable
from stateproc.codec.builder import Builder
from stateproc.codec.layouts.base import Layout, Unwritable
from stateproc.codec.machine import Machine
from stateproc.errors import CorruptSnapshot, InvalidOption, Where
from stateproc.keygroups.key_group_pruning import key_groups_of_column
from stateproc.metadata.keyed_handles import ChangelogHandle, IncrementalHandle, KeyedHandle
from stateproc.readers.error_context import placed
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext


def null_form(layout: Layout) -> bytes | None:
    """Return the bytes of a null, None if the layout's bytes cannot express nulls."""
    if not layout.encodes_null:
        return None
    try:
        return layout.encode(pa.nulls(1, layout.arrow_type)).data.tobytes()
    except (Unencodable, Unwritable):
        return None


def is_ambiguous(state: StateDescriptor) -> bool:
    """Return whether key and namespace both have variable length, so that each is followed by its length."""
    return not state.kind.is_queue and state.key.length < 0 and state.namespace.length < 0


def user_key_starts(entries: RawEntries, state: StateDescriptor, ctx: LayoutContext) -> Longs:
    """Return where the user keys begin in the data of a map's entries, by running the key's program."""
    b = Builder()
    mark = b.column(8, 0)
    for serializer in (state.key, state.namespace):
        if is_ambiguous(state):
            b.op(ops.PUSH_POS)
        serializer.layout(ctx.inner).skip(b)
        if is_ambiguous(state):
            b.op(ops.LENGTH_SUFFIX)
    b.op(ops.MARK, mark)
    b.op(ops.SKIP_REST)
    b.op(ops.ROW_END)
    machine = Machine(b.build())
    starts, ends = np.ascontiguousarray(entries.ranges[:1]), np.ascontiguousarray(entries.ranges[1:2])
    marks = np.empty(len(entries), dtype=np.int64)
    done = 0
    with placed(entries.file, entries.offset, state.name):
        while done < len(entries):
            machine.run(entries.data, starts, ends, done, len(entries))
            found = machine.decoded().column(mark, np.int64)
            marks[done : done + len(found)] = found
            done += len(found)
    return marks


# Check keys against the type that the user specified, which is needed if nothing of a changelog is materialized.
#
# Bytes read as another type may look like keys. But the log contains the key group of each key, and that follows from
# Java's hash of the key (org.apache.flink.runtime.state.KeyGroupRangeAssignment). The check cannot distinguish types of
# the same bytes and the same hash, such as Long, Double and Date.

_LOOKED_AT = 64
"""Keys of each run of entries: a wrong type gives the right key group once in as many as there are key groups."""
_METADATA_VERSION = 4
"""Rows are hashed as they are since Flink 1.13, which had no changelogs yet."""
ADVICE = (
    "specify the type that the job's keyBy has: key_type='Long' (option keyType, --key-type); words for types are in "
    "docs/naming-types.md"
)


def checked(
    entries: Iterable[RawEntries], state: StateDescriptor, ctx: LayoutContext, max_parallelism: int, operator: str
) -> Iterator[RawEntries]:
    """Yield the entries if their keys are of the type that the user specified.

    Raises InvalidOption where they are not in the key groups that keys of this type have; CorruptSnapshot, with advice
    that names both reasons it can have.
    """
    keys_of = _key_reader(state, ctx)
    try:
        for chunk in entries:
            if len(chunk):
                _check(chunk, keys_of(chunk), state, ctx, max_parallelism, operator)
            yield chunk
    except CorruptSnapshot as error:
        advice = f"if keys of '{operator}' are no {state.key.type_name}, {ADVICE}; else {error.advice}"
        raise CorruptSnapshot(error.message, where=error.where, advice=advice) from error


def _key_reader(state: StateDescriptor, ctx: LayoutContext) -> Callable[[RawEntries], pa.Array]:
    """Return a function that reads the first keys of entries, without the rest of the entries."""
    b = Builder()
    assemble = state.key.layout(ctx.inner).emit(b, False)
    b.op(ops.SKIP_REST)
    b.op(ops.ROW_END)
    machine = Machine(b.build())

    def read(chunk: RawEntries) -> pa.Array:
        n = min(len(chunk), _LOOKED_AT)
        starts, ends = chunk.ranges[:1, :n].copy(), chunk.ranges[1:2, :n].copy()
        parts: list[pa.Array] = []
        done = 0
        with placed(chunk.file, chunk.offset, state.name):
            while done < n:
                done = machine.run(chunk.data, starts, ends, done, n)
                parts.append(assemble(machine.decoded()))
        return pa.concat_arrays(parts)

    return read


def _check(
    chunk: RawEntries, keys: pa.Array, state: StateDescriptor, ctx: LayoutContext, max_parallelism: int, operator: str
) -> None:
    groups = chunk.key_groups[: len(keys)].tolist()
    # Where the type is right, one look-up of all keys shows it; look-ups of single keys take longer than the replay.
    if key_groups_of_column(state.key, keys, ctx, max_parallelism, _METADATA_VERSION) == set(groups):
        return
    wrong = 0
    for row, group in enumerate(groups):
        found = key_groups_of_column(state.key, keys.slice(row, 1), ctx, max_parallelism, _METADATA_VERSION)
        wrong += found is not None and group not in found
    if wrong:
        raise InvalidOption(
            f"keys are no {state.key.type_name}: read as such, {wrong} of the first {len(keys)} belong to other key "
            "groups than those the changelog has them in",
            where=Where(file=chunk.file, operator=operator, state=state.name),
            advice=ADVICE,
        )


# Find handles whose headers contain the key's serializer, for changelogs that do not contain it themselves.


def key_handles_of(handles: Iterable[KeyedHandle | None]) -> tuple[KeyedHandle, ...]:
    """Return the first materialized handle among the changelogs of an operator's subtasks, () if there is none.

    A database's files are left out: only its header is read, and the handle is pickled with every split.
    """
    changelogs = (handle for handle in handles if isinstance(handle, ChangelogHandle))
    first = next((handle.materialized[0] for handle in changelogs if handle.materialized), None)
    if first is None:
        return ()
    return (replace(first, shared=(), private=()) if isinstance(first, IncrementalHandle) else first,)
