"""Open and read the keyed state of one subtask, whichever backend wrote it.

`KeyedFile` is a state handle of ``_metadata`` with what is needed to open it. Each layout of entries has its subclass,
beside the reader of that layout; `stateproc.readers.backends.open_keyed_file` chooses it by the handle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.metadata.backend import KeyedHeader, read_keyed_header
from stateproc.metadata.keyed_handles import IncrementalHandle, KeyedHandle
from stateproc.options import SPLIT_BYTES
from stateproc.readers.header_reader import SharedHeaders
from stateproc.readers.key_group_blocks import KeyGroupRange
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.splits import KeyedSplit, PairScan, SplitRequest, StateScan
from stateproc.readers.state_descriptor import StateDescriptor, header_states
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


class SharedStates:
    """Headers that the files of one operator have in common, and the states that these describe."""

    def __init__(self) -> None:
        self.headers = SharedHeaders(read_keyed_header)
        self._states: dict[int, tuple[KeyedHeader, tuple[StateDescriptor | str, ...]]] = {}
        self._readable: dict[tuple[int, ReadOptions], bool] = {}

    def __reduce__(self) -> tuple[type[SharedStates], tuple[()]]:
        """Pickle an empty object: headers may be large, and another process reads those that it needs."""
        return SharedStates, ()

    def states(self, header: KeyedHeader) -> tuple[StateDescriptor | str, ...]:
        """Return the header's states by id; the name only of one that is no keyed state."""
        known = self._states.get(id(header))
        return (known or self._states.setdefault(id(header), (header, tuple(header_states(header)))))[1]

    def are_readable(
        self, header: KeyedHeader, options: ReadOptions, check: Callable[[Sequence[StateDescriptor | str]], bool]
    ) -> bool:
        """Return what ``check`` finds of the header's states, once for all files that have this header."""
        states = self.states(header)  # keeps the header, so that its id belongs to no other
        key = id(header), options
        if key not in self._readable:
            self._readable[key] = check(states)
        return self._readable[key]


class FileCache:
    """What has been read of one file. Pickled, it is empty: another process reads what it needs.

    Attributes:
        source: The file, opened.
        loaded: Its bytes, while they are held in memory.
        ranges: The non-empty key groups of a file of key groups.
        is_canonical: Whether these have canonical entries.
        has_header: Whether ``header`` has been read.
        header: The backend header; None where there is none.
        unreadable: States that cannot be read, by the options that this holds for.
    """

    def __init__(self) -> None:
        self.source: ByteSource | None = None
        self.loaded: InlineSource | None = None
        self.ranges: tuple[KeyGroupRange, ...] | None = None
        self.is_canonical: bool | None = None
        self.has_header = False
        self.header: KeyedHeader | None = None
        self.unreadable: dict[ReadOptions, Mapping[str, ErrorsByKeyGroup]] = {}

    def __reduce__(self) -> tuple[type[FileCache], tuple[()]]:
        return FileCache, ()


@dataclass(frozen=True)
class KeyedFile(ABC):
    """Managed keyed state of one subtask.

    Attributes:
        subtask: The subtask's index.
        handle: The state handle in ``_metadata``.
        location: The snapshot that contains the handle.
        max_parallelism: The operator's number of key groups.
        shared: Headers shared with the other subtasks' files.
        cache: What has been read.
    """

    scanned: ClassVar[bool] = False
    """Whether measuring reads the whole file."""
    reads_whole_files: ClassVar[bool] = False
    """Whether every split reads the whole file, so that few large splits are faster."""

    most_per_thread: ClassVar[int] = SPLIT_BYTES
    """Stored bytes of the largest split where several threads read local files, if less than is usual then."""

    subtask: int
    handle: KeyedHandle
    location: SnapshotLocation
    max_parallelism: int
    shared: SharedStates = field(default_factory=SharedStates, compare=False, repr=False)
    cache: FileCache = field(default_factory=FileCache, compare=False, repr=False)

    @property
    @abstractmethod
    def layout(self) -> str:
        """Return how entries are stored: canonical, heap, rocksdb or changelog. Raises CorruptSnapshot, MissingFile."""

    @property
    def source(self) -> ByteSource:
        """Open the file of key groups, or the meta stream of an incremental handle."""
        cache = self.cache
        if cache.loaded is not None:
            return cache.loaded
        if cache.source is None:
            cache.source = self.open_source()
        return cache.source

    def open_source(self) -> ByteSource:
        """Open the file that contains the header."""
        raise UnsupportedSnapshot(f"a {self.layout} handle has no file of its own")

    def load(self, limit: int) -> None:
        """Hold the file in memory until `release`, so that its parts are read by one request.

        A file that cannot be read, or has more than ``limit`` bytes, is left where it is.
        """
        with suppress(SnapshotError):  # whoever needs the file reads it again and reports why it cannot be read
            source = self.source
            self.cache.loaded = InlineSource(source.name, source.read_all(limit))

    def release(self) -> None:
        """Forget the bytes that `load` holds."""
        self.cache.loaded = None

    @property
    def ranges(self) -> tuple[KeyGroupRange, ...]:
        """Return the non-empty key groups of a file of key groups, () for other files."""
        return ()

    @property
    def header_size(self) -> int:
        """Return the number of bytes before the first key group."""
        return self.ranges[0].start if self.ranges else self.source.size

    @property
    def data_bytes(self) -> int:
        """Return the stored bytes without the header."""
        return self.handle.stored_bytes

    @property
    def databases(self) -> tuple[IncrementalHandle, ...]:
        """Return the RocksDB databases, also those that are the materialized part of a changelog."""
        return ()

    @property
    def header(self) -> KeyedHeader | None:
        """Read the backend header; None where there is none (an empty changelog).

        The header of a changelog has the states of its materialized part, then those that only its log declares.
        Raises UnknownSnapshotClass, CorruptSnapshot, MissingFile, UnsupportedSnapshot.
        """
        cache = self.cache
        if not cache.has_header:
            cache.header = self.read_header()
            cache.has_header = True
        return cache.header

    @abstractmethod
    def read_header(self) -> KeyedHeader | None:
        """Read the backend header, see ``header``."""

    @property
    def has_header(self) -> bool:
        """Whether the header has been read already."""
        return self.cache.has_header

    @property
    def header_problem(self) -> SnapshotError | None:
        """Return why the header cannot be read; None if it can."""
        try:
            self.header  # noqa: B018  (a property that raises)
        except SnapshotError as error:
            return error
        return None

    @property
    def states(self) -> tuple[StateDescriptor | str, ...]:
        """Return the header's states by id; the name only of one that is no keyed state."""
        header = self.header
        return () if header is None else self.shared.states(header)

    @property
    def state_names(self) -> Iterator[str]:
        """Iterate over the names of the keyed states in the header."""
        return (state.name for state in self.states if isinstance(state, StateDescriptor))

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
        return self.plan_splits(request)

    @abstractmethod
    def plan_splits(self, request: SplitRequest) -> list[KeyedSplit]:
        """Plan splits of a state that is none of ``unreadable_states``, see ``splits``."""

    @abstractmethod
    def split(self, scan: StateScan, key_groups: Collection[int]) -> KeyedSplit:
        """Return one split of these key groups, without reading the tables of databases to plan it."""

    def pair_scan(self, other: KeyedFile, scan: StateScan) -> PairScan | None:
        """Plan to read of a state only the entries that may differ from those in another file of the operator.

        None where whole files must be read. Both files' states must have equal serializers.

        Raises:
            CorruptSnapshot, MissingFile, UnsupportedSnapshot: A file cannot be read.
        """
        return None

    def check_readable(self, operator: str, state: str) -> None:  # noqa: B027  (most types of handles can be read)
        """Raise UnsupportedSnapshot for handle types whose data cannot be read."""

    def unreadable_states(self, options: ReadOptions) -> Mapping[str, ErrorsByKeyGroup]:
        """Return the states whose data cannot be read although the header describes them, and why, by key group.

        Files are only read where a state may contain values without known end: their beginning, or all of them if
        ``options.on_error`` is 'null'.
        """
        known = self.cache.unreadable
        if options not in known:
            known[options] = self.find_unreadable_states(options)
        return known[options]

    def find_unreadable_states(self, options: ReadOptions) -> Mapping[str, ErrorsByKeyGroup]:
        """Find the states whose data cannot be read, see ``unreadable_states``."""
        return {}

    def stores_lengths(self, state: StateDescriptor) -> bool:
        """Return whether the end of the state's entries is known even if their values cannot be decoded."""
        return True

    def sizes(self, request: SizeRequest) -> StateSizes:
        """Measure the states. Raises CorruptSnapshot, MissingFile, UnsupportedSnapshot."""
        return StateSizes(None, {})

    def sizes_together(self, files: Sequence[KeyedFile], request: SizeRequest) -> StateSizes | None:
        """Measure several files of this layout and header, which are held in memory, and return the sums.

        Returns None where it cannot. An error need not name the file.
        """
        return None
