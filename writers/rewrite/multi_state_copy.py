"""Several states carried over in one pass: a canonical file holds them key group by key group, one behind the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from stateproc.keygroups.ranges import prefix_width
from stateproc.options import SPLIT_BYTES
from stateproc.readers.canonical.reader import canonical_entries_of
from stateproc.serializers.core.plugins import load_plugins
from stateproc.snapshot.splits import KeyGroupSplit, cut, keyed_header
from stateproc.writers.rewrite.raw_copy import CarriedSplit, carried_batches


@dataclass(frozen=True)
class CarriedTogether:
    """Some key groups of several states in one subtask's canonical file, which is read once. Picklable.

    ``source``: of any of the states. ``states``: the names and what the entries of each shall say, as `carried_splits`.
    """

    source: KeyGroupSplit
    states: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        return self.source.bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.source.key_groups

    def read(self) -> Iterator[pa.RecordBatch]:
        """Raw entries (RAW_ENTRIES), each batch of one state. Raises CorruptSnapshot, MissingFile."""
        source = self.source
        load_plugins(source.options.plugins)
        header = keyed_header(source.source, source.header_size)
        names = [info.name for info in header.states]
        ids = {names.index(name): state_id for name, state_id in self.states}
        entries = canonical_entries_of(
            source.source, source.ranges, compressed=header.compressed, prefix=prefix_width(source.max_parallelism),
            state_ids=tuple(ids), n_states=len(names),
        )  # fmt: skip
        for own_id, chunk in entries:
            yield from carried_batches([chunk], ids[own_id])


def together(splits: Iterable[CarriedSplit], split_bytes: int = SPLIT_BYTES) -> list[CarriedSplit | CarriedTogether]:
    """The splits, those of the same key groups of a canonical file as one, or several of about ``split_bytes``."""
    joined: dict[tuple[object, ...], list[CarriedSplit]] = {}
    for number, split in enumerate(splits):
        joined.setdefault(_place(split, number), []).append(split)
    return [part for same in joined.values() for part in (_joined(same, split_bytes) if len(same) > 1 else same)]


def _place(split: CarriedSplit, number: int) -> tuple[object, ...]:
    """What splits that can be read together have in common."""
    source = split.source
    if not isinstance(source, KeyGroupSplit) or not source.canonical:
        return (number,)
    return source.place, source.header_size, source.ranges


def _joined(splits: list[CarriedSplit], split_bytes: int) -> list[CarriedTogether]:
    sources = [split.source for split in splits if isinstance(split.source, KeyGroupSplit)]
    assert all(replace(source, state=sources[0].state) == sources[0] for source in sources)
    states = tuple((source.state, split.state_id) for source, split in zip(sources, splits, strict=True))
    runs = cut(sources[0].ranges, split_bytes)
    return [CarriedTogether(replace(sources[0], ranges=tuple(run)), states) for run in runs]
