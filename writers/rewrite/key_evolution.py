"""Write the keys of an operator's entries in a wider type of rows: a SQL job's key columns became wider.

Of an entry the key is decoded and written anew; what is below it stays the bytes it is:

    timers          time (8 bytes), key, namespace
    other entries   key, namespace, of maps also the key of the entry

Flink places a SQL key by the bytes of its row, as a projection writes it (BinaryRowWriter), so that key groups follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from stateproc.codec.arrow_arrays import RowBytes, Unencodable, row_bytes_of
from stateproc.codec.encoding.sized_writers import concatenate, write_rows
from stateproc.codec.encoding.strings import row_bytes_writer
from stateproc.codec.machine import ValueDecoder
from stateproc.errors import InvalidOption, InvalidRows, UnsupportedSnapshot, Where
from stateproc.query_plans.plan_comparison import goes_on, is_same, is_written_alike
from stateproc.readers.error_context import placed
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import RowData
from stateproc.writers.formats.entry_batches import gather
from stateproc.writers.rewrite.rekey import Rekey, rekey

_TIMESTAMP = 8


def is_rewritten(old: Serializer | None, new: Serializer | None) -> bool:
    """Return whether keys of a type are other bytes in a new type; None for a type that stays.

    Raises:
        InvalidOption: The new type is not as wide.
    """
    if old is None or new is None:
        return False
    before, after = _types(old), _types(new)
    if len(before) != len(after) or not all(map(goes_on, before, after)):
        raise InvalidOption(
            f"keys are of the type {old.type_name} in the snapshot, of which {new.type_name} does not have all values",
            advice="give the plan that the job ran",
        )
    return not all(is_same(*both) or is_written_alike(*both) for both in zip(before, after, strict=True))


def _types(key: Serializer) -> tuple[LogicalType, ...]:
    """Return the types of a key's columns; whether they may be null is no part of how they are written."""
    return tuple(replace(one, nullable=True) for one in key.types) if isinstance(key, RowData) else ()


@dataclass(frozen=True)
class KeyEvolution:
    """Writes the keys of one state's entries in a wider type, in the key groups that these have. Picklable.

    Attributes:
        source: Decodes the keys as they are.
        target: Places keys of the new type.
    """

    source: Rekey
    target: Rekey

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries (RAW_ENTRIES) with other keys and key groups; they are no longer in order.

        Raises:
            CorruptSnapshot: A key cannot be decoded.
            InvalidRows: A key does not fit the new type.
        """
        yield from self.target.batches(self._widened(batches))

    def _widened(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = ValueDecoder(self.source.layout)
        for batch, keys in self.source.decoded(batches):
            if not len(batch):
                continue
            stored, own = row_bytes_of(batch.column("key")), row_bytes_of(keys)
            starts = stored.offsets[:-1] + (_TIMESTAMP if self.source.state.kind.is_queue else 0)
            with placed("<raw entries>", int, self.source.state.name):
                wider = self._encoded(decoder.decode(own.data, own.offsets[:-1], own.offsets[1:]))
            parts = (
                gather(stored.data, stored.offsets[:-1], starts),
                wider,
                gather(stored.data, starts + own.lengths, stored.offsets[1:]),
            )
            made = write_rows(concatenate([row_bytes_writer(part) for part in parts]), len(batch))
            yield batch.set_column(batch.schema.get_field_index("key"), "key", made.to_arrow())

    def _encoded(self, keys: pa.StructArray) -> RowBytes:
        wanted = self.target.state.key.layout(replace(self.target.context, projected=True))
        fields = [
            field if field.type == to.type else field.cast(to.type)
            for field, to in zip(keys.flatten(), wanted.arrow_type, strict=True)
        ]
        try:
            return wanted.encode(pa.StructArray.from_arrays(fields, fields=list(wanted.arrow_type)))
        except Unencodable as error:
            raise InvalidRows(
                f"a key does not fit its new type: {error.message}",
                where=Where(state=self.source.state.name),
                advice="keep the types of the key's columns, or let the operator begin without state: --empty",
            ) from error


def key_evolution(
    state: StateDescriptor, key: Serializer, max_parallelism: int, context: LayoutContext
) -> KeyEvolution:
    """Return what writes the keys of a state in another type of rows, which is as wide or wider.

    Raises UnsupportedSnapshot where the serializers of key and namespace have no fixed length, so that lengths are
    written beside them: no SQL operator has such ones.
    """
    if not state.kind.is_queue and state.key.length < 0 and state.namespace.length < 0:
        raise UnsupportedSnapshot(
            f"keys get another type, and namespaces of the type {state.namespace.type_name} have no fixed length",
            where=Where(state=state.name),
            advice="let the operator begin without state: --empty",
        )
    source = rekey(state, max_parallelism, context)
    return KeyEvolution(source, rekey(replace(state, key=key), max_parallelism, context))
