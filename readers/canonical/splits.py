"""Splits of canonical keyed savepoints, and the row of the canonical layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.backend import KeyedHeader
from stateproc.readers.canonical.reader import canonical_entries, canonical_entries_of
from stateproc.readers.canonical.statistics import measure_canonical
from stateproc.readers.common.entry_counts import EntryCounts
from stateproc.readers.common.key_groups_file import (
    KeyGroupsSplit,
    plan_key_groups,
    scanned_sizes,
    sizes_of_joined_files,
    split_of_key_groups,
)
from stateproc.readers.common.keyed_file import KeyedFile, SizeRequest, StateLayout, StateSizes
from stateproc.readers.common.raw_entries import RawEntries


@dataclass(frozen=True)
class CanonicalSplit(KeyGroupsSplit):
    """Some key groups of a canonical file."""

    def raw_entries(self) -> Iterator[RawEntries]:
        header = self.header
        names = [info.name for info in header.states]
        if self.scan.state not in names:
            return
        yield from canonical_entries(
            self.source,
            self.ranges,
            compressed=header.compressed,
            prefix=prefix_width(self.scan.max_parallelism),
            state_id=names.index(self.scan.state),
            n_states=len(names),
        )

    def raw_entries_of(self, states: Mapping[str, int]) -> Iterator[tuple[int, RawEntries]]:
        """Read the entries of several states in one pass.

        Args:
            states: State name → the number that its entries are returned with.

        Raises:
            CorruptSnapshot, MissingFile: As ``raw_entries``.
        """
        header = self.header
        names = [info.name for info in header.states]
        numbers = {names.index(name): number for name, number in states.items()}
        entries = canonical_entries_of(
            self.source,
            self.ranges,
            compressed=header.compressed,
            prefix=prefix_width(self.scan.max_parallelism),
            state_ids=tuple(numbers),
            n_states=len(names),
        )
        for state_id, chunk in entries:
            yield numbers[state_id], chunk


def canonical_sizes(file: KeyedFile, request: SizeRequest) -> StateSizes:
    """Count the entries of a canonical file."""

    def scan(header: KeyedHeader) -> EntryCounts:
        return measure_canonical(
            file.source,
            file.ranges,
            compressed=header.compressed,
            prefix=prefix_width(file.max_parallelism),
            n_states=len(header.states),
            advance=request.advance,
        )

    return scanned_sizes(file, request, scan)


def canonical_sizes_together(files: Sequence[KeyedFile], request: SizeRequest) -> StateSizes | None:
    """Count the entries of canonical files with one header in one pass."""
    header = files[0].header
    if header is None:
        return None
    scan = partial(
        measure_canonical,
        compressed=header.compressed,
        prefix=prefix_width(files[0].max_parallelism),
        n_states=len(header.states),
        advance=request.advance,
    )
    return sizes_of_joined_files(files, scan)


CANONICAL = StateLayout(
    name="canonical",
    splits=partial(plan_key_groups, CanonicalSplit),
    split=partial(split_of_key_groups, CanonicalSplit),
    sizes=canonical_sizes,
    sizes_together=canonical_sizes_together,
    scanned=True,
)
