"""Describe the keyed state of one subtask, whichever backend wrote it, and the rows of the table of backends.

`KeyedFile` is a handle with what is needed to open it. It has no branch on handle types: it looks up its
`HandleBackend`, and through it its `StateLayout`, in the table that it was made with (`stateproc.readers.backends`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeAlias

from stateproc.errors import SnapshotError, UnsupportedSnapshot, Where
from stateproc.metadata.backend import KeyedHeader, read_keyed_header
from stateproc.metadata.handles import IncrementalHandle, KeyedHandle
from stateproc.readers.header_reader import SharedHeaders
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.splits import KeyedSplit, PairScan, SplitRequest, StateScan
from stateproc.readers.state_descriptor import KeyedState, header_states
from stateproc.serializers import Serializer
from stateproc.storage import ByteSource, InlineSource, SnapshotLocation


@dataclass(frozen=True)
class StateSizes:
    """Sizes of the states of one subtask.

    Attributes:
        states: State name → (bytes, entries); entries is None where the number is not known. None as a whole where
            measuring needs more work than was requested.
        key_groups: Key group → bytes, where these are known.
    """

    states: Mapping[str, tuple[int, int | None]] | None
    key_groups: Mapping[int, int]


@dataclass(frozen=True)
class SizeRequest:
    """How much work measuring the states of a file may cause.

    Attributes:
        options: The snapshot's read options.
        settle: Returns the options for a file, with what only its values show; by default ``options``.
        scan_bytes: Files up to this size are scanned to count their entries; None means files of any size.
        advance: Called with numbers of bytes as they have been scanned.
    """

    options: ReadOptions
    scan_bytes: int | None
    advance: Callable[[int], None] = field(default=lambda _: None, repr=False)
    settle: Callable[[KeyedFile], ReadOptions] | None = field(default=None, repr=False)

    def options_of(self, file: KeyedFile) -> ReadOptions:
        """Return the read options for a file."""
        return self.options if self.settle is None else self.settle(file)


ErrorsByKeyGroup: TypeAlias = Mapping[int, SnapshotError]


def _no_errors(_: KeyedFile, __: ReadOptions) -> Mapping[str, ErrorsByKeyGroup]:
    return {}


def _always(_: KeyedFile, __: KeyedState) -> bool:
    return True


def _no_pair_scan(_: KeyedFile, __: KeyedFile, ___: StateScan) -> PairScan | None:
    return None


def _not_together(_: Sequence[KeyedFile], __: SizeRequest) -> StateSizes | None:
    return None


@dataclass(frozen=True)
class StateLayout:
    """How entries are stored: one row of the table of layouts.

    Attributes:
        name: canonical, heap, rocksdb or changelog.
        splits: Plans the splits of a state.
        split: Returns one split of some key groups without reading anything for it.
        sizes: Measures the states.
        sizes_together: Measures several files with one header, which are held in memory, and returns the sums; None
            where it cannot. An error need not name the file.
        scanned: Whether measuring reads the whole file.
        unreadable_states: Finds states whose data cannot be read although the header describes them.
        reads_whole_files: Whether every split reads the whole file, so that few large splits are faster.
        stores_lengths: Whether the end of a state's entries is known even if their values cannot be decoded.
        pair_scan: Plans to read of a state in two files of this layout only the entries that may differ; None where
            they have too little in common.
    """

    name: str
    splits: Callable[[KeyedFile, SplitRequest], list[KeyedSplit]]
    split: Callable[[KeyedFile, StateScan, Collection[int]], KeyedSplit]
    sizes: Callable[[KeyedFile, SizeRequest], StateSizes]
    sizes_together: Callable[[Sequence[KeyedFile], SizeRequest], StateSizes | None] = _not_together
    scanned: bool = False
    unreadable_states: Callable[[KeyedFile, ReadOptions], Mapping[str, ErrorsByKeyGroup]] = _no_errors
    reads_whole_files: bool = False
    stores_lengths: Callable[[KeyedFile, KeyedState], bool] = _always
    pair_scan: Callable[[KeyedFile, KeyedFile, StateScan], PairScan | None] = _no_pair_scan


def _no_ranges(_: KeyedFile) -> tuple[KeyGroupRange, ...]:
    return ()


def _no_databases(_: KeyedFile) -> tuple[IncrementalHandle, ...]:
    return ()


def _no_source(_: KeyedFile) -> ByteSource:
    raise UnsupportedSnapshot("a changelog handle has no file of its own")


@dataclass(frozen=True)
class HandleBackend:
    """How a type of keyed state handle is read: one row of the table of handle types.

    Attributes:
        layout: Finds out how entries are stored, which may read a few bytes of the file.
        header: Reads the backend header; None where there is none (an empty changelog).
        data_bytes: Returns the stored bytes without the header.
        source: Opens the file that contains the header.
        ranges: Returns the non-empty key groups of files that store them one after another.
        databases: Returns the RocksDB databases of the handle.
        unreadable: Why handles of this type cannot be read, and what to do; None for those that can.
    """

    layout: Callable[[KeyedFile], StateLayout]
    header: Callable[[KeyedFile], KeyedHeader | None]
    data_bytes: Callable[[KeyedFile], int]
    source: Callable[[KeyedFile], ByteSource] = _no_source
    ranges: Callable[[KeyedFile], tuple[KeyGroupRange, ...]] = _no_ranges
    databases: Callable[[KeyedFile], tuple[IncrementalHandle, ...]] = _no_databases
    unreadable: tuple[str, str] | None = None


class SharedStates:
    """Headers that the files of one operator have in common, and the states that these describe."""

    def __init__(self) -> None:
        self.headers = SharedHeaders(read_keyed_header)
        self._states: dict[int, tuple[KeyedHeader, tuple[KeyedState | str, ...]]] = {}
        self._readable: dict[tuple[int, ReadOptions], bool] = {}

    def states(self, header: KeyedHeader) -> tuple[KeyedState | str, ...]:
        """Return the header's states by id; the name only of one that is no keyed state."""
        known = self._states.get(id(header))
        return (known or self._states.setdefault(id(header), (header, tuple(header_states(header)))))[1]

    def are_readable(
        self, header: KeyedHeader, options: ReadOptions, check: Callable[[Sequence[KeyedState | str]], bool]
    ) -> bool:
        """Return what ``check`` finds of the header's states, once for all files that have this header."""
        states = self.states(header)  # keeps the header, so that its id belongs to no other
        key = id(header), options
        if key not in self._readable:
            self._readable[key] = check(states)
        return self._readable[key]


@dataclass(frozen=True)
class KeyedFile:
    """Managed keyed state of one subtask.

    Attributes:
        subtask: The subtask's index.
        handle: The state handle in ``_metadata``.
        location: The snapshot that contains the handle.
        max_parallelism: The operator's number of key groups.
        backends: The table of handle types.
        key_handles: For changelogs, materialized handles of other subtasks, whose headers contain the key's serializer.
        key_type: The key's serializer as the user specifies it, for changelogs that do not contain it.
        shared: Headers shared with the other subtasks' files.
    """

    subtask: int
    handle: KeyedHandle
    location: SnapshotLocation
    max_parallelism: int
    backends: Mapping[type, HandleBackend] = field(compare=False, repr=False)
    key_handles: tuple[KeyedHandle, ...] = ()
    key_type: Serializer | None = None
    shared: SharedStates = field(default_factory=SharedStates, compare=False, repr=False)
    _unreadable: dict[ReadOptions, Mapping[str, ErrorsByKeyGroup]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    _released: list[ByteSource] = field(default_factory=list, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: not what was read, which may be as large as all files' headers."""
        names = (item.name for item in fields(self))
        return {
            **{name: getattr(self, name) for name in names},
            "shared": SharedStates(),
            "_unreadable": {},
            "_released": [],
        }

    @property
    def backend(self) -> HandleBackend:
        """Return the row of the handle's type."""
        return self.backends[type(self.handle)]

    @cached_property
    def state_layout(self) -> StateLayout:
        """Return the row of the layout. Raises CorruptSnapshot, MissingFile."""
        return self.backend.layout(self)

    @property
    def layout(self) -> str:
        """Return the layout's name: canonical, heap, rocksdb or changelog."""
        return self.state_layout.name

    @cached_property
    def source(self) -> ByteSource:
        """Open the file of key groups, or the meta stream of an incremental handle."""
        return self.backend.source(self)

    def load(self, limit: int) -> None:
        """Hold the file in memory until `release`, so that its parts are read by one request.

        A file that cannot be read, or has more than ``limit`` bytes, is left where it is.
        """
        with suppress(SnapshotError):  # whoever needs the file reads it again and reports why it cannot be read
            source = self.source
            data = source.read_all(limit)
            # The cached property's value: a frozen dataclass does not assign attributes.
            self.__dict__["source"] = InlineSource(source.name, data)
            self._released.append(source)

    def release(self) -> None:
        """Forget the bytes that `load` holds."""
        if self._released:
            self.__dict__["source"] = self._released.pop()

    @cached_property
    def ranges(self) -> tuple[KeyGroupRange, ...]:
        """Return the non-empty key groups of a file of key groups, () for other files."""
        return self.backend.ranges(self)

    @property
    def header_size(self) -> int:
        """Return the number of bytes before the first key group."""
        return self.ranges[0].start if self.ranges else self.source.size

    @property
    def data_bytes(self) -> int:
        """Return the stored bytes without the header."""
        return self.backend.data_bytes(self)

    @cached_property
    def header(self) -> KeyedHeader | None:
        """Read the backend header; None where there is none (an empty changelog).

        The header of a changelog has the states of its materialized part, then those that only its log declares.
        Raises UnknownSnapshotClass, CorruptSnapshot, MissingFile, UnsupportedSnapshot.
        """
        return self.backend.header(self)

    @cached_property
    def states(self) -> tuple[KeyedState | str, ...]:
        """Return the header's states by id; the name only of one that is no keyed state."""
        return () if self.header is None else self.shared.states(self.header)

    @property
    def state_names(self) -> Iterator[str]:
        """Iterate over the names of the keyed states in the header."""
        return (state.name for state in self.states if isinstance(state, KeyedState))

    @property
    def databases(self) -> tuple[IncrementalHandle, ...]:
        """Return the RocksDB databases, also those that are the materialized part of a changelog."""
        return self.backend.databases(self)

    def splits(self, request: SplitRequest) -> list[KeyedSplit]:
        """Plan splits of a state.

        Raises:
            CorruptSnapshot, MissingFile: A file cannot be read.
            UnsupportedSnapshot: The data cannot be read; found here, so that no task fails on it.
        """
        scan = request.scan
        self.check_readable(scan.operator, scan.state)
        for key_group, error in self.unreadable_states(scan.options).get(scan.state, {}).items():
            if request.includes(key_group):
                raise error.at(operator=scan.operator, state=scan.state)
        return self.state_layout.splits(self, request)

    def unreadable_states(self, options: ReadOptions) -> Mapping[str, ErrorsByKeyGroup]:
        """Return the states whose data cannot be read although the header describes them, and why, by key group.

        Files are only read where a state may contain values without known end: their beginning, or all of them if
        ``options.on_error`` is 'null'.
        """
        if options not in self._unreadable:
            self._unreadable[options] = self.state_layout.unreadable_states(self, options)
        return self._unreadable[options]

    def stores_lengths(self, state: KeyedState) -> bool:
        """Return whether the end of the state's entries is known even if their values cannot be decoded."""
        return self.state_layout.stores_lengths(self, state)

    def split(self, scan: StateScan, key_groups: Collection[int]) -> KeyedSplit:
        """Return one split of these key groups, without reading the tables of databases to plan it."""
        return self.state_layout.split(self, scan, key_groups)

    def pair_scan(self, other: KeyedFile, scan: StateScan) -> PairScan | None:
        """Plan to read of a state only the entries that may differ from those in another file of the operator.

        None where whole files must be read. Both files' states must have equal serializers.

        Raises:
            CorruptSnapshot, MissingFile, UnsupportedSnapshot: A file cannot be read.
        """
        if self.max_parallelism != other.max_parallelism or self.state_layout is not other.state_layout:
            return None
        return self.state_layout.pair_scan(self, other, scan)

    def sizes(self, request: SizeRequest) -> StateSizes:
        """Measure the states. Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot."""
        return self.state_layout.sizes(self, request)

    @property
    def has_header(self) -> bool:
        """Whether the header has been read already."""
        return "header" in self.__dict__

    @property
    def header_problem(self) -> SnapshotError | None:
        """Return why the header cannot be read; None if it can."""
        try:
            self.header  # noqa: B018  (a cached property that raises)
        except SnapshotError as error:
            return error
        return None

    def check_readable(self, operator: str, state: str) -> None:
        """Raise UnsupportedSnapshot for handle types whose data cannot be read."""
        if self.backend.unreadable is not None:
            message, advice = self.backend.unreadable
            where = Where(file=self.location.metadata_uri, operator=operator, state=state)
            raise UnsupportedSnapshot(message, where=where, advice=advice)
