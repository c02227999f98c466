"""Define splits: the units into which reading a state is divided. Each is picklable and reads only its own files."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from stateproc.errors import SnapshotError, UnreadableStateWarning
from stateproc.options import SPLIT_BYTES
from stateproc.readers.common.entry_decoder import decode_entries
from stateproc.readers.common.key_group_blocks import KeyGroupRange
from stateproc.readers.common.opaque_values import with_opaque_values
from stateproc.readers.common.python_states import with_python_type
from stateproc.readers.common.raw_entries import RawEntries
from stateproc.readers.common.read_options import ReadOptions
from stateproc.readers.common.state_descriptor import KeyedState
from stateproc.readers.common.state_names import OperatorNames
from stateproc.serializers.core.plugins import load_plugins


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
    """

    state: str
    operator: str
    max_parallelism: int
    options: ReadOptions = field(repr=False)
    flatten: bool = False
    raw_keys: bool = False
    null_warning: NullValueWarning = field(default_factory=NullValueWarning, compare=False, repr=False)
    names: OperatorNames | None = field(default=None, repr=False)

    def decoded(self, entries: Iterable[RawEntries], target: KeyedState) -> Iterator[pa.RecordBatch]:
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

    def named(self, state: KeyedState) -> KeyedState:
        """Return the state with the names that its rows have for this read."""
        state = with_python_type(state, self.options.value_types)
        return state if self.names is None else self.names.applied(state)

    def for_state(self, state: str) -> StateScan:
        """Return the scan of another state, not flattened."""
        return replace(self, state=state, flatten=False)


@dataclass(frozen=True)
class SplitRequest:
    """Which part of a keyed state to plan splits for, and how large they should be.

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
    def declared(self) -> KeyedState | None:
        """Return the state's descriptor from the files' header; None if the header does not contain it."""

    def target(self) -> KeyedState | None:
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
