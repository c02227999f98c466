"""The keyed state of one subtask, as all formats receive it to write a file or a database of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from stateproc.codec.array_types import Longs
from stateproc.flink_versions import Release
from stateproc.metadata.handles import KeyedHandle
from stateproc.readers.state_descriptor import KeyedState, keyed_state
from stateproc.serializers import LayoutContext
from stateproc.storage import SnapshotLocation
from stateproc.writers.formats.common.byte_sink import StateFileSink
from stateproc.writers.formats.common.state_headers import KeyedStateHeader
from stateproc.writers.formats.rocksdb.options import TableOptions


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
    def states(self) -> list[KeyedState | str]:
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
