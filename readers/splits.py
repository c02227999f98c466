"""Define splits: the units into which reading a state is divided. Each is picklable and reads only its own files."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder
from stateproc.codec.layouts import Blob
from stateproc.codec.machine import Machine
from stateproc.errors import SnapshotError, UnreadableStateWarning
from stateproc.options import SPLIT_BYTES
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.entry_programs import emit_composite_key, with_opaque_values
from stateproc.readers.error_context import placed
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.raw_entries import RawEntries
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.row_schema import KEY_GROUP, RAW_KEY, key_group_array
from stateproc.readers.scan_cache import ScanCache
from stateproc.readers.state_descriptor import StateDescriptor, with_python_type
from stateproc.readers.state_names import OperatorNames
from stateproc.serializers import LayoutContext
from stateproc.serializers.core.registry import load_plugins
from stateproc.serializers.described_classes import described_classes


class Split(Protocol):
    """A part of a state. ``key_groups``: those it covers (empty for operator state)."""

    @property
    def bytes(self) -> int: ...

    @property
    def key_groups(self) -> tuple[int, ...]: ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows of the split. Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot."""


@dataclass(frozen=True)
class MappedSplit(ABC):
    """A split whose rows are made of those of another, batch by batch.

    Attributes:
        inner: The other split.
    """

    inner: Split

    @property
    def bytes(self) -> int:
        return self.inner.bytes

    @property
    def key_groups(self) -> tuple[int, ...]:
        return self.inner.key_groups

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows. Raises what the other split raises."""
        for batch in self.inner.read():
            yield from self.mapped(batch)

    @abstractmethod
    def mapped(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows for those of a batch."""


@dataclass
class NullValueWarning:
    """Warns of the first value of a read that is null because it cannot be decoded; the splits of the read share it."""

    given: bool = False

    def of(self, operator: str, state: str) -> Callable[[SnapshotError], None]:
        """Return a function that warns of an error of this state, unless there was a warning."""

        def warn(error: SnapshotError) -> None:
            if not self.given:
                self.given = True
                place = f"operator '{operator}': values of state '{state}'"
                text = f"{place} that cannot be decoded are null: {error.message}"
                warnings.warn(text, UnreadableStateWarning, stacklevel=2)

        return warn


@dataclass(frozen=True)
class StateScan:
    """A keyed state and how to read it: the settings that all splits of one read share. Picklable.

    Attributes:
        state: The state's name.
        operator: The operator as error messages name it.
        max_parallelism: The operator's number of key groups.
        options: The snapshot's read options.
        flatten: Whether each list element or map entry becomes a row of its own.
        raw_keys: Whether rows have a column ``raw_key`` with the serialized key and namespace.
        null_warning: Warns of values that are null because they cannot be decoded.
        names: Names for the fields of SQL rows in the operator's states; None where no plan of the query is given.
        cache: What the splits have read of their files and need again.
    """

    state: str
    operator: str
    max_parallelism: int
    options: ReadOptions = field(repr=False)
    flatten: bool = False
    raw_keys: bool = False
    null_warning: NullValueWarning = field(default_factory=NullValueWarning, compare=False, repr=False)
    names: OperatorNames | None = field(default=None, repr=False)
    cache: ScanCache = field(default_factory=ScanCache, compare=False, repr=False)

    def decoded(self, entries: Iterable[RawEntries], target: StateDescriptor) -> Iterator[pa.RecordBatch]:
        """Decode entries of the state ``target``, with bytes or nulls for unknown values if options ask for them."""
        context = self.options.context
        yield from decode_entries(
            entries,
            with_opaque_values(target, context),
            context,
            flatten=self.flatten,
            raw_keys=self.raw_keys,
            report=self.null_warning.of(self.operator, self.state) if self.options.on_error == "null" else None,
        )

    def named(self, state: StateDescriptor) -> StateDescriptor:
        """Return the state with the names that its rows have for this read."""
        state = with_python_type(state, self.options.value_types)
        return state if self.names is None else self.names.applied(state)

    def for_state(self, state: str) -> StateScan:
        """Return the scan of another state, not flattened."""
        return replace(self, state=state, flatten=False)


@dataclass(frozen=True)
class ScanRequest:
    """Which rows of a state are needed, and how large their splits should be.

    Attributes:
        flatten: Whether each list element or map entry becomes a row of its own.
        key_groups: Only these key groups; None means all.
        split_bytes: Stored bytes per split, approximately.
        keys: Only rows with these keys are needed; others are omitted where that saves reading.
        columns: Only these columns are needed; others may be null where that saves reading.
    """

    flatten: bool = False
    key_groups: frozenset[int] | None = None
    split_bytes: int = SPLIT_BYTES
    keys: Sequence[Any] | None = None
    columns: Collection[str] | None = None


ALL_ROWS = ScanRequest()


@dataclass(frozen=True)
class SplitRequest:
    """What a file is asked for: which part of a keyed state to plan splits for, and how large they should be.

    Attributes:
        scan: The state and how to read it.
        key_groups: Only these key groups; None means all.
        split_bytes: Stored bytes per split, approximately.
        keys: Only entries whose key group and serialized key begin with one of these byte strings. Files that are not
            sorted by key return whole key groups.
        whole_databases: Whether a RocksDB database is one split, so that the splits of several states cover the same
            key groups.
        companions: Names of other states that ``KeyedSplit.of_state`` may be called with.
    """

    scan: StateScan
    key_groups: frozenset[int] | None = None
    split_bytes: int = SPLIT_BYTES
    keys: tuple[bytes, ...] | None = None
    whole_databases: bool = False
    companions: Sequence[str] = ()

    def includes(self, key_group: int) -> bool:
        """Return whether the key group is requested."""
        return self.key_groups is None or key_group in self.key_groups


@dataclass(frozen=True)
class KeyedSplit(ABC):
    """Some key groups of one keyed state in one subtask's files.

    Backends implement ``raw_entries``; rows are decoded from these. A backend overrides ``read`` only where it can
    decode without the intermediate step.
    """

    scan: StateScan

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Return the number of stored bytes, approximately."""

    @property
    @abstractmethod
    def key_groups(self) -> tuple[int, ...]:
        """Return the key groups that the split covers."""

    @property
    @abstractmethod
    def origin(self) -> str:
        """Return a name of the subtask's files; splits with equal origins read the same files."""

    @property
    def namespace_first(self) -> bool:
        """Return whether the column ``raw_key`` has the namespace before the key (native heap files only)."""
        return False

    @abstractmethod
    def declared(self) -> StateDescriptor | None:
        """Return the state's descriptor from the files' header; None if the header does not contain it."""

    def target(self) -> StateDescriptor | None:
        """Return the state's descriptor with the names that its rows have for this read."""
        state = self.declared()
        return None if state is None else self.scan.named(state)

    @abstractmethod
    def raw_entries(self) -> Iterator[RawEntries]:
        """Read the serialized entries, in stored order, without decoding them.

        Raises:
            CorruptSnapshot: The files are damaged.
            MissingFile: A file does not exist.
            UnsupportedSnapshot: The end of a value cannot be determined from its bytes.
        """

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read and decode the rows. Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot."""
        scan = self.scan
        load_plugins(scan.options.plugins)
        target = self.target()
        if target is not None:
            yield from scan.decoded(self.raw_entries(), target)

    def of_state(self, state: str) -> KeyedSplit:
        """Return a split of the same key groups of another state in these files, not flattened."""
        return replace(self, scan=self.scan.for_state(state))


def split_ranges(ranges: Sequence[KeyGroupRange], target: int) -> Iterator[tuple[KeyGroupRange, ...]]:
    """Divide key-group ranges into runs of about ``target`` bytes, with at least one key group each."""
    run: list[KeyGroupRange] = []
    run_bytes = 0
    for item in ranges:
        size = item.stop - item.start
        if run and run_bytes + size > target:
            yield tuple(run)
            run, run_bytes = [], 0
        run.append(item)
        run_bytes += size
    if run:
        yield tuple(run)


# Define scans of one state in two files that read only the entries which may differ.


class PairScan(Protocol):
    """Reads one state of two files that have much in common."""

    @property
    def bytes(self) -> int:
        """Return the number of stored bytes to read, approximately."""

    def entries(self, key_groups: Collection[int]) -> Iterator[tuple[int, RawEntries]]:
        """Read the entries that may differ: yield their side (0: the first file, 1: the second) and the entries.

        Entries of both files that are not yielded have the same bytes.

        Raises:
            CorruptSnapshot, MissingFile, UnsupportedSnapshot: A file cannot be read.
        """


# Decode only the keys of a state's entries, for rows of a wide table whose column of that state is not selected.


def read_keys(split: KeyedSplit) -> Iterator[pa.RecordBatch]:
    """Read the keys of a split's entries: key_group, key, [namespace], raw_key; a key may come more than once.

    Values and user keys are not decoded, so that values which cannot be decoded do no harm. Native heap files are read
    with their values, because these contain the only indication of where an entry ends.

    Raises:
        CorruptSnapshot: The files are damaged.
        MissingFile: A file does not exist.
        UnsupportedSnapshot: The end of an entry cannot be determined.
    """
    if split.namespace_first:
        yield from split.read()
        return
    load_plugins(split.scan.options.plugins)
    target = split.target()
    if target is not None:
        yield from decode_keys(split.raw_entries(), target, split.scan.options.context)


def decode_keys(entries: Iterable[RawEntries], state: StateDescriptor, ctx: LayoutContext) -> Iterator[pa.RecordBatch]:
    """Decode key and namespace of composite entries. Raises CorruptSnapshot naming file and offset."""
    builder = Builder()
    columns: dict[str, Assembler] = {}
    builder.op(ops.PUSH_POS)
    _, raw_key = emit_composite_key(builder, state, ctx, columns, raw_keys=True, user_keys=False)
    assert raw_key is not None
    if state.user_key is not None:
        Blob(ops.LENGTH_REST).skip(builder)
    builder.op(ops.ROW_END)
    machine, described = Machine(builder.build()), described_classes((state.key, state.namespace), ctx)
    for chunk in entries:
        done, starts, ends = 0, chunk.ranges[0::2], chunk.ranges[1::2]
        while done < len(chunk):
            with placed(chunk.file, chunk.offset, state.name, described):
                reached = machine.run(chunk.data, starts, ends, done, len(chunk))
                taken = machine.decoded()
                found = {name: assembler(taken) for name, assembler in columns.items()}
                found[KEY_GROUP] = key_group_array(chunk.key_groups[done:reached])
                found[RAW_KEY] = raw_key(taken)
                yield pa.RecordBatch.from_pydict(found)
            done = reached
