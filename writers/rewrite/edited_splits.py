"""Splits of the entries of an existing operator with all that changes them, read as they are to be written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from stateproc.writers.rewrite.frame_sums import FrameSums
from stateproc.writers.rewrite.key_evolution import KeyEvolution
from stateproc.writers.rewrite.kind_evolution import KindEvolution
from stateproc.writers.rewrite.kryo_conversion import KryoConversion
from stateproc.writers.rewrite.partner_numbers import PartnerNumbers
from stateproc.writers.rewrite.rank_limit import RankLimit
from stateproc.writers.rewrite.raw_copy import CarriedSplit, CarriedTogether, together
from stateproc.writers.rewrite.rekey import Regrouping, Rekey
from stateproc.writers.rewrite.row_selection import RowDeletion
from stateproc.writers.rewrite.row_update import RowUpdate
from stateproc.writers.rewrite.ttl import TtlChange
from stateproc.writers.rewrite.type_evolution import TypeEvolution
from stateproc.writers.write_task import FileOf, in_parts


@dataclass(frozen=True)
class EditedSplit:
    """A split of a state's entries, and the edits of its entries: rows, type of values, what is computed of entries of
    other states (numbers of partners in a join, sums of OVER), time to live, type of keys or key groups, version of
    Kryo."""

    split: CarriedSplit | CarriedTogether
    ttl: TtlChange | None = None
    rekey: Rekey | KeyEvolution | Regrouping | None = None
    rows: tuple[RowDeletion | RowUpdate | RankLimit, ...] = ()
    kryo: KryoConversion | None = None
    type: TypeEvolution | KindEvolution | None = None
    computed: PartnerNumbers | FrameSums | None = None

    def read(self) -> Iterator[pa.RecordBatch]:
        """RAW_ENTRIES as they are to be written."""
        entries: Iterable[pa.RecordBatch] = self.split.read()
        for change in self.rows:
            entries = change.batches(entries)
        if self.type is not None:
            entries = self.type.batches(entries)
        if self.computed is not None:
            entries = self.computed.batches(entries)
        if self.ttl is not None:
            entries = self.ttl.batches(entries)
        if self.rekey is not None:
            entries = self.rekey.batches(entries)
        if self.kryo is not None:
            entries = self.kryo.batches(entries)
        yield from entries


@dataclass(frozen=True)
class RawCopies:
    """Splits of the keyed states of an operator that stay, which are copied without decoding; picklable."""

    splits: tuple[EditedSplit, ...]
    files: FileOf

    def __len__(self) -> int:
        return len(self.splits)

    @property
    def bytes(self) -> int:
        """The stored bytes that are read."""
        return sum(item.split.bytes for item in self.splits)

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """FILE_ENTRIES of the split of this number, as they are to be written."""
        for entries in self.splits[number].read():
            yield from in_parts(self.files.of(entries))


def joined(items: Iterable[EditedSplit]) -> Iterator[EditedSplit]:
    """Combine the splits of which nothing changes, so that each file is read once."""
    unchanged: list[CarriedSplit] = []
    for item in items:
        edits = (item.ttl, item.rekey, item.kryo, item.type, item.computed)
        if all(edit is None for edit in edits) and not item.rows and isinstance(item.split, CarriedSplit):
            unchanged.append(item.split)
        else:
            yield item
    yield from map(EditedSplit, together(unchanged))
