"""Write operator state files: list, union and broadcast states of one subtask.

    header                                                 stateproc.metadata.backend
    per list or union state, per element: the value, at an offset of the handle
    per broadcast state, at its offset: i32 n, n x { key, value }

Flink's classes: DefaultOperatorStateBackendSnapshotStrategy, PartitionableListState, HeapBroadcastState. Compressed
(header version 6), what follows the header is a stream of snappy frames that is flushed before each offset. See
docs/formats/operator-state-and-timers.md; the reader is stateproc.readers.operator_state.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import RowBytes, row_bytes_of
from stateproc.errors import CorruptSnapshot, DuplicateKey, InvalidEntries, InvalidOption, Where
from stateproc.metadata.backend import DISTRIBUTION_MODE, OPERATOR, StateMetaInfo, write_operator_header
from stateproc.metadata.operator_handles import MODES, DistributionMode, OperatorStreamHandle, StatePartition
from stateproc.readers.key_group_blocks import whole_frames
from stateproc.readers.operator_state import element_ranges
from stateproc.storage import SnapshotLocation, open_handle
from stateproc.writers.formats.byte_sink import IDENTIFIER, ByteSink, FramedStream
from stateproc.writers.formats.entry_batches import byte_scalar
from stateproc.writers.formats.order_check import reading_back

_MOST_ENTRIES = 0x7FFFFFFF
_KEY_SHOWN = 100


class OperatorStateWriter:
    """Writes one subtask's operator state.

    states: list and union states; broadcast: broadcast states, both with ``snapshots``. version: of the header, see
    Release.operator_header_version; compressed needs 6.
    """

    def __init__(
        self,
        sink: ByteSink,
        states: Sequence[StateMetaInfo],
        broadcast: Sequence[StateMetaInfo],
        *,
        version: int,
        compressed: bool = False,
    ) -> None:
        self._sink, self._compressed = sink, compressed
        self._modes = {info.name: _mode(info) for info in (*states, *broadcast)}
        self._offsets: dict[str, list[np.ndarray]] = {name: [] for name in self._modes}
        if len(self._modes) != len(states) + len(broadcast):
            raise InvalidOption("two operator states of one name", advice="give each state a name of its own")
        header = write_operator_header(states, broadcast, version=version, compressed=compressed)
        self._at = 0
        self._emit(header)
        if compressed:
            self._emit(IDENTIFIER)

    def elements(self, state: str, elements: RowBytes | pa.Array) -> None:
        """Add elements (bytes of the state's serializer: RowBytes, or a binary array) to a list or union state."""
        if self._mode_of(state) == "BROADCAST":
            raise InvalidOption(f"'{state}' is a broadcast state, which has entries of key and value")
        self._add(state, _pieces(elements, state))

    def entries(self, state: str, keys: RowBytes | pa.Array, values: RowBytes | pa.Array) -> None:
        """All entries of a broadcast state, keys and values as bytes of its serializers, equal keys side by side.

        Raises DuplicateKey.
        """
        if self._mode_of(state) != "BROADCAST" or self._offsets[state]:
            raise InvalidOption(f"'{state}' is no broadcast state, or its entries are written already")
        user_keys = _pieces(keys, state).to_arrow()
        _refuse_equal_neighbours(user_keys, state)
        pairs = pc.binary_join_element_wise(user_keys, _pieces(values, state).to_arrow(), byte_scalar(b""))
        if len(pairs) > _MOST_ENTRIES:
            raise InvalidEntries(f"{len(pairs)} entries in one broadcast state", where=Where(state=state))
        joined = _pieces(pairs, state)
        start, stop = int(joined.offsets[0]), int(joined.offsets[-1])
        count = np.frombuffer(len(pairs).to_bytes(4, "big"), dtype=np.uint8)
        data = np.concatenate([count, joined.data[start:stop]])
        self._add(state, RowBytes(data, np.array([0, len(data)], dtype=np.int64)))

    def carried(self, state: str, elements: RowBytes) -> None:
        """Add elements as another snapshot's file contains them; of a broadcast state the one with all entries."""
        if self._mode_of(state) == "BROADCAST" and (len(elements) != 1 or self._offsets[state]):
            raise InvalidOption(f"the broadcast state '{state}' has one element that holds all its entries")
        self._add(state, elements)

    def close(self) -> tuple[StatePartition, ...]:
        """Return the offsets of the elements of each state, also of states without any. The sink stays open."""
        return tuple(
            StatePartition(name, self._modes[name], tuple(np.concatenate(parts).tolist()) if parts else ())
            for name, parts in self._offsets.items()
        )

    def _mode_of(self, state: str) -> DistributionMode:
        if state not in self._modes:
            raise InvalidOption(f"an operator state '{state}', which the header does not list")
        return self._modes[state]

    def _add(self, state: str, pieces: RowBytes) -> None:
        if self._compressed:
            starts = np.array(self._framed(pieces), dtype=np.int64)
        else:
            first, last = int(pieces.offsets[0]), int(pieces.offsets[-1])
            starts = pieces.offsets[:-1] - first + self._at
            self._emit(pieces.data[first:last].data)
        self._offsets[state].append(starts)

    def _framed(self, pieces: RowBytes) -> list[int]:
        """Write each element in chunks of its own, where a reader can begin; return their offsets."""
        data, starts = pieces.data.data, []
        for start, stop in itertools.pairwise(pieces.offsets.tolist()):
            starts.append(self._at)
            stream = FramedStream(identified=True)
            self._emit(stream.frame(data[start:stop]))
            self._emit(stream.flush())
        return starts

    def _emit(self, data: bytes | memoryview) -> None:
        if len(data):
            self._sink.write(memoryview(data))
            self._at += len(data)


def _refuse_equal_neighbours(keys: pa.Array, state: str) -> None:
    same = pc.equal(keys.slice(1), keys.slice(0, max(len(keys) - 1, 0)))
    if pc.any(same).as_py():
        twice = keys[pc.index(same, True).as_py()].as_py()
        raise DuplicateKey(
            f"two entries of a broadcast state with the same key (key bytes {twice[:_KEY_SHOWN].hex()})",
            where=Where(state=state),
            advice="a broadcast state has one entry per key: aggregate the rows, or drop all but one",
        )


def _mode(info: StateMetaInfo) -> DistributionMode:
    """The distribution mode in a state's options; broadcast states have a backend type of their own."""
    if info.backend_type != OPERATOR:
        return "BROADCAST"
    found = info.options.get(DISTRIBUTION_MODE)
    for mode in MODES:
        if mode == found:
            return mode
    raise InvalidOption(
        f"the operator state '{info.name}' has the distribution mode {found!r}",
        where=Where(state=info.name),
        advice=f"give the option {DISTRIBUTION_MODE} as SPLIT_DISTRIBUTE or UNION",
    )


def _pieces(data: RowBytes | pa.Array, state: str) -> RowBytes:
    """A binary array as RowBytes, its bytes not copied."""
    if isinstance(data, RowBytes):
        return data
    if data.null_count:
        raise InvalidEntries(
            "a null among the elements",
            where=Where(state=state),
            advice="operator state holds no nulls: drop the rows, or use a nullable type",
        )
    return row_bytes_of(data)


# Verification of an operator state file that was just written.

_READ_BYTES = 16 << 20


def verify_operator_state(handle: OperatorStreamHandle, location: SnapshotLocation, *, compressed: bool) -> None:
    """Read a file of OperatorStateWriter back and check that every element is inside of it.

    Raises:
        WriteFailed: the file cannot be read, or an element is cut off.
    """
    source = open_handle(handle.stream, location)
    with reading_back(source.name):
        if not compressed:
            for at in range(0, source.size, _READ_BYTES):
                source.read(at, min(_READ_BYTES, source.size - at))
        data = memoryview(source.read_all(source.size) if compressed else b"")
        for state in handle.states:
            ranges = element_ranges(handle, state, source)
            for start, stop in ranges.tolist() if compressed else ():
                if whole_frames(bytes(data[start:stop]), source.name, start) != stop - start:
                    raise CorruptSnapshot("a compressed element is cut off", where=Where(source.name, start))
