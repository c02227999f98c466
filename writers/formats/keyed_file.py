"""The keyed state of one subtask, as all formats receive it to write a file or a database of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.flink_versions import Release
from stateproc.metadata.backend import StateMetaInfo, write_keyed_header
from stateproc.metadata.keyed_handles import KeyedHandle
from stateproc.readers.state_descriptor import StateDescriptor, keyed_state
from stateproc.serializers import LayoutContext, Serializer
from stateproc.storage import SnapshotLocation
from stateproc.writers.formats.byte_sink import StateFileSink
from stateproc.writers.formats.rocksdb.options import TableOptions

# Headers of the state that an operator is to have: its states with their serializer snapshots.


@dataclass(frozen=True)
class KeyedStateHeader:
    """The keyed states of an operator. A state's position in ``states`` is its id in raw entries."""

    key: Serializer
    key_snapshot: bytes = field(repr=False)
    states: tuple[StateMetaInfo, ...]

    def encoded(self, compressed: bool) -> bytes:
        """The header as state files begin with it."""
        return write_keyed_header(self.key_snapshot, self.states, compressed=compressed)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(state.name for state in self.states)


@dataclass(frozen=True)
class OperatorStateHeader:
    """The operator states of an operator. Ids in entries: list and union states first, then broadcast states."""

    states: tuple[StateMetaInfo, ...]
    broadcast: tuple[StateMetaInfo, ...]

    @property
    def infos(self) -> tuple[StateMetaInfo, ...]:
        """All states, in the order of their ids."""
        return (*self.states, *self.broadcast)

    def name(self, state_id: int) -> str:
        return self.infos[state_id].name

    def mapped(self, change: Callable[[StateMetaInfo], StateMetaInfo]) -> OperatorStateHeader:
        """Return the header with other entries of its states."""
        return OperatorStateHeader(tuple(map(change, self.states)), tuple(map(change, self.broadcast)))


@dataclass(frozen=True)
class KeyedFileSpec:
    """What is written, and where.

    Attributes:
        header: the operator's keyed states.
        key_groups: the subtask's key groups.
        max_parallelism: the operator's number of key groups.
        new_file: opens a new state file.
        location: the snapshot's directory, to read files back.
        release: the Flink release that will restore it.
        checkpoint_id: the snapshot's id.
        compressed: whether key groups are compressed with snappy; without effect on RocksDB databases.
        context: the layout of the serializers' values.
        rocksdb: how tables of RocksDB databases are written.
    """

    header: KeyedStateHeader
    key_groups: range
    max_parallelism: int
    new_file: Callable[[], StateFileSink] = field(repr=False)
    location: SnapshotLocation
    release: Release
    checkpoint_id: int
    compressed: bool
    context: LayoutContext = field(repr=False)
    rocksdb: TableOptions

    @property
    def states(self) -> list[StateDescriptor | str]:
        """The states by state id; only the name of a state whose serializers are not those of its kind."""
        return [keyed_state(info, index, self.header.key) or info.name for index, info in enumerate(self.header.states)]


@dataclass(frozen=True)
class KeyedFileWriter:
    """A file or database that is being written.

    Attributes:
        write: writes entries (RAW_ENTRIES) that follow those before in the order of key group, state id and key.
        close: finishes the file and returns its handle.
        entries: entries written so far, int64 [key groups, states].
    """

    write: Callable[[pa.RecordBatch], None]
    close: Callable[[], KeyedHandle]
    entries: Longs
