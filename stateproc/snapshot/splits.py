"""Splits: the parts into which reading a state is cut. Picklable; each reads its own files only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from stateproc.errors import CorruptSnapshot, Where
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.backend import KeyedHeader, read_keyed_header
from stateproc.readers.canonical.reader import canonical_entries
from stateproc.readers.common.entry_decoder import decode_entries
from stateproc.readers.common.header_reader import SharedHeaders
from stateproc.readers.common.key_group_blocks import KeyGroupRange
from stateproc.readers.common.read_options import ReadOptions
from stateproc.readers.common.state_descriptor import KeyedState, keyed_state
from stateproc.readers.heap.reader import heap_batches
from stateproc.serializers.core.plugins import load_plugins
from stateproc.storage import ByteSource


class Split(Protocol):
    """A part of a state. ``key_groups``: those it covers (empty for operator state)."""

    @property
    def bytes(self) -> int: ...

    @property
    def key_groups(self) -> tuple[int, ...]: ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """The part's rows. Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot."""


class KeyedSplit(Split, Protocol):
    """A part of a keyed state in one subtask's files.

    ``place`` names these files; ``composite``: raw keys are key before namespace, as in canonical entries (in native
    heap files the namespace comes first).
    """

    @property
    def place(self) -> str: ...

    @property
    def composite(self) -> bool: ...

    def of_state(self, state: str) -> KeyedSplit:
        """The same key groups of another state of these files, not flattened."""


def header_states(header: KeyedHeader) -> list[KeyedState | str]:
    """The header's states by id; for one that no state can be, its name."""
    return [keyed_state(info, index, header.key) or info.name for index, info in enumerate(header.states)]


@dataclass(frozen=True)
class KeyGroupSplit:
    """Key groups of one KeyGroups file (canonical savepoints, native heap snapshots).

    ``header_size``: bytes before the first key group. ``raw_keys``: see decode_entries.
    """

    source: ByteSource
    header_size: int
    ranges: tuple[KeyGroupRange, ...]
    canonical: bool
    max_parallelism: int
    state: str
    operator: str
    options: ReadOptions = field(repr=False)
    flatten: bool = False
    raw_keys: bool = False

    @property
    def bytes(self) -> int:
        return sum(item.stop - item.start for item in self.ranges)

    @property
    def key_groups(self) -> tuple[int, ...]:
        return tuple(item.key_group for item in self.ranges)

    @property
    def place(self) -> str:
        return self.source.name

    @property
    def composite(self) -> bool:
        return self.canonical

    def of_state(self, state: str) -> KeyGroupSplit:
        return replace(self, state=state, flatten=False)

    def read(self) -> Iterator[pa.RecordBatch]:
        load_plugins(self.options.plugins)
        header = keyed_header(self.source, self.header_size)
        states = header_states(header)
        target = next((item for item in states if isinstance(item, KeyedState) and item.name == self.state), None)
        if target is None:
            return
        if self.canonical:
            entries = canonical_entries(
                self.source,
                self.ranges,
                compressed=header.compressed,
                prefix=prefix_width(self.max_parallelism),
                state_id=target.state_id,
                n_states=len(states),
            )
            yield from decode_entries(
                entries, target, self.options.context, flatten=self.flatten, raw_keys=self.raw_keys
            )
        else:
            yield from heap_batches(
                self.source,
                self.ranges,
                states,
                target,
                self.options.context,
                compressed=header.compressed,
                flatten=self.flatten,
                raw_keys=self.raw_keys,
            )


_MAX_HEADER = 256 << 20


def keyed_header(source: ByteSource, size: int, shared: SharedHeaders[KeyedHeader] | None = None) -> KeyedHeader:
    """The header that fills the first ``size`` bytes of ``source``; ``shared``: with those of other files."""
    if size > _MAX_HEADER:
        raise CorruptSnapshot(
            f"the first key group begins at byte {size}, far behind any header",
            where=Where(file=source.name, offset=0),
            advice="the offsets in _metadata are damaged",
        )
    return (shared or SharedHeaders(read_keyed_header)).whole(source.read(0, size), source.name)


def cut(ranges: Sequence[KeyGroupRange], target: int) -> Iterator[tuple[KeyGroupRange, ...]]:
    """Runs of key groups of about ``target`` bytes, at least one key group each."""
    run: list[KeyGroupRange] = []
    held = 0
    for item in ranges:
        size = item.stop - item.start
        if run and held + size > target:
            yield tuple(run)
            run, held = [], 0
        run.append(item)
        held += size
    if run:
        yield tuple(run)
