"""Splits of native heap snapshots, and the row of the heap layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from stateproc.metadata.backend import KeyedHeader
from stateproc.readers.common.entry_counts import EntryCounts
from stateproc.readers.common.key_group_blocks import KeyGroupRange
from stateproc.readers.common.key_groups_file import (
    KeyGroupsSplit,
    plan_key_groups,
    scanned_sizes,
    sizes_of_joined_files,
    split_of_key_groups,
)
from stateproc.readers.common.keyed_file import ErrorsByKeyGroup, KeyedFile, SizeRequest, StateLayout, StateSizes
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.read_options import ReadOptions
from stateproc.readers.common.state_descriptor import KeyedState, header_states
from stateproc.readers.heap.composite_entries import composite_entries, serialized_program
from stateproc.readers.heap.reader import heap_batches, heap_entries
from stateproc.readers.heap.statistics import measure_heap
from stateproc.readers.heap.unreadable_states import have_known_ends, unreadable_states
from stateproc.serializers.core.plugins import load_plugins
from stateproc.storage import ByteSource


@dataclass(frozen=True)
class HeapSplit(KeyGroupsSplit):
    """Some key groups of a native heap file."""

    @property
    def namespace_first(self) -> bool:
        return True

    def raw_entries(self) -> Iterator[RawEntries]:
        target, ctx = self.target(), self.scan.options.context
        if target is None:
            return
        columns_of_chunks = heap_entries(
            self.source,
            self.ranges,
            header_states(self.header),
            target,
            ctx,
            serialized_program(target, ctx),
            dict,
            compressed=self.header.compressed,
        )
        for columns in columns_of_chunks:
            entries = composite_entries(columns, target, self.source.name)
            if len(entries):
                yield entries

    def read(self) -> Iterator[pa.RecordBatch]:
        """Decode in one pass, which saves the conversion to composite entries."""
        load_plugins(self.scan.options.plugins)
        target = self.target()
        if target is not None:
            yield from heap_batches(
                self.source,
                self.ranges,
                header_states(self.header),
                target,
                self.scan.options.context,
                compressed=self.header.compressed,
                flatten=self.scan.flatten,
                raw_keys=self.scan.raw_keys,
            )


def heap_sizes(file: KeyedFile, request: SizeRequest) -> StateSizes:
    """Count the entries of a native heap file."""

    def scan(header: KeyedHeader) -> EntryCounts:
        return measure_heap(
            file.source,
            file.ranges,
            file.states,
            request.options_of(file).context,
            compressed=header.compressed,
            advance=request.advance,
        )

    return scanned_sizes(file, request, scan)


def heap_sizes_together(files: Sequence[KeyedFile], request: SizeRequest) -> StateSizes | None:
    """Count the entries of native heap files with one header in one pass."""
    header = files[0].header
    if header is None:
        return None

    def scan(source: ByteSource, ranges: Sequence[KeyGroupRange]) -> EntryCounts:
        states, context = files[0].states, request.options_of(files[0]).context
        return measure_heap(source, ranges, states, context, compressed=header.compressed, advance=request.advance)

    return sizes_of_joined_files(files, scan)


def heap_unreadable_states(file: KeyedFile, options: ReadOptions) -> Mapping[str, ErrorsByKeyGroup]:
    """Find states whose values have no known end, and states that are stored after them."""
    header, context = file.header, options.context
    if header is None or file.shared.are_readable(header, options, partial(have_known_ends, ctx=context)):
        return {}
    return unreadable_states(
        file.source,
        file.ranges,
        file.states,
        context,
        compressed=header.compressed,
        whole=options.on_error == "null",
    )


def _stores_no_lengths(_: KeyedFile, __: KeyedState) -> bool:
    return False


HEAP = StateLayout(
    name="heap",
    splits=partial(plan_key_groups, HeapSplit),
    split=partial(split_of_key_groups, HeapSplit),
    sizes=heap_sizes,
    sizes_together=heap_sizes_together,
    scanned=True,
    unreadable_states=heap_unreadable_states,
    stores_lengths=_stores_no_lengths,
)
