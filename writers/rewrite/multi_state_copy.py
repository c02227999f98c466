"""Copy several states in one pass: a canonical file stores them one after another within each key group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from stateproc.options import SPLIT_BYTES
from stateproc.readers.canonical.reader import CanonicalSplit
from stateproc.readers.splits import split_ranges
from stateproc.serializers.core.registry import load_plugins
from stateproc.writers.rewrite.raw_copy import CarriedSplit, raw_batches


@dataclass(frozen=True)
class CarriedTogether:
    """Some key groups of several states in one subtask's canonical file, which is read once. Picklable.

    Attributes:
        source: The split of any of the states.
        states: (name, position in the header that is written) of each state.
    """

    source: CanonicalSplit
    states: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        return self.source.bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.source.key_groups

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read raw entries (RAW_ENTRIES), each batch of one state. Raises CorruptSnapshot, MissingFile."""
        load_plugins(self.source.scan.options.plugins)
        for state_id, chunk in self.source.raw_entries_of(dict(self.states)):
            yield from raw_batches([chunk], state_id)


def together(splits: Iterable[CarriedSplit], split_bytes: int = SPLIT_BYTES) -> list[CarriedSplit | CarriedTogether]:
    """Combine splits of the same key groups of a canonical file, into splits of about ``split_bytes`` bytes."""
    by_file: dict[tuple[object, ...], list[CarriedSplit]] = {}
    for number, split in enumerate(splits):
        by_file.setdefault(_shared_key(split, number), []).append(split)
    return [part for same in by_file.values() for part in (_combined(same, split_bytes) if len(same) > 1 else same)]


def _shared_key(split: CarriedSplit, number: int) -> tuple[object, ...]:
    """Return what splits that can be read together have in common."""
    source = split.source
    if not isinstance(source, CanonicalSplit):
        return (number,)
    return source.origin, source.header_size, source.ranges


def _combined(splits: list[CarriedSplit], split_bytes: int) -> list[CarriedTogether]:
    sources = [split.source for split in splits if isinstance(split.source, CanonicalSplit)]
    first = sources[0]
    assert all(replace(source, scan=first.scan) == first for source in sources)
    states = tuple((source.scan.state, split.state_id) for source, split in zip(sources, splits, strict=True))
    return [CarriedTogether(replace(first, ranges=run), states) for run in split_ranges(first.ranges, split_bytes)]
