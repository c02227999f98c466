"""Check keys against the type that the user specified, which is needed if nothing of a changelog is materialized.

Bytes read as another type may look like keys. But the log contains the key group of each key, and that follows from
Java's hash of the key (org.apache.flink.runtime.state.KeyGroupRangeAssignment). The check cannot distinguish types of
the same bytes and the same hash, such as Long, Double and Date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Builder
from stateproc.codec.machine import Machine
from stateproc.errors import CorruptSnapshot, InvalidOption, Where
from stateproc.keygroups.key_group_pruning import key_groups_of_column
from stateproc.readers.error_context import placed
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.state_descriptor import KeyedState
from stateproc.serializers import LayoutContext

_LOOKED_AT = 64
"""Keys of each run of entries: a wrong type gives the right key group once in as many as there are key groups."""
_METADATA_VERSION = 4
"""Rows are hashed as they are since Flink 1.13, which had no changelogs yet."""
ADVICE = (
    "specify the type that the job's keyBy has: key_type='Long' (option keyType, --key-type); words for types are in "
    "docs/naming-types.md"
)


def checked(
    entries: Iterable[RawEntries], state: KeyedState, ctx: LayoutContext, max_parallelism: int, operator: str
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


def _key_reader(state: KeyedState, ctx: LayoutContext) -> Callable[[RawEntries], pa.Array]:
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
    chunk: RawEntries, keys: pa.Array, state: KeyedState, ctx: LayoutContext, max_parallelism: int, operator: str
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
